/* format.c - see format.h. The table `formats` itself is generated from kernels/formats. */
#include "format.h"
#include "gguf_types.h"
#include <string.h>

const Format *format_by_gguf_type(uint32_t type) {
    for (const Format *const *f = formats; *f; f++)
        if ((*f)->gguf_type >= 0 && (uint32_t)(*f)->gguf_type == type) return *f;
    return NULL;
}

const Format *format_by_name(const char *name) {
    for (const Format *const *f = formats; *f; f++)
        if (!strcmp((*f)->name, name)) return *f;
    return NULL;
}

const char *format_gguf_type_name(Arena *a, uint32_t type) { return gguf_type_label(a, type); }

uint64_t format_plane_row_bytes(const Format *f, uint32_t plane, uint32_t k) {
    uint32_t span = f->plane_span[plane];
    return (span ? div_up(round_up(k, FORMAT_UNIT), span) : 1) * f->plane_bytes[plane];
}

uint64_t format_layout(const Format *f, uint64_t n_rows, uint32_t k,
                       uint64_t offset[FORMAT_MAX_PLANES]) {
    uint64_t at = 0;
    for (uint32_t p = 0; p < FORMAT_MAX_PLANES; p++) {
        offset[p] = at; /* planes that the format does not have are empty, at the end */
        if (p < f->n_planes) at = round_up(at + n_rows * format_plane_row_bytes(f, p, k), 16);
    }
    return at;
}

uint64_t format_row_bytes(const Format *f, uint32_t k) {
    ASSERT(k % f->block_n == 0);
    return (uint64_t)(k / f->block_n) * f->block_bytes;
}

void format_decode_row(const Format *f, const uint8_t *row, uint32_t k, float *out) {
    ASSERT(k % f->block_n == 0);
    for (uint32_t i = 0; i < k; i += f->block_n, row += f->block_bytes) f->decode(row, out + i);
}
