/* format.c - see format.h. The table `formats` itself is generated from kernels/formats. */
#include "format.h"
#include "../kernels/lib/format.h"
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

const Format *format_with_outliers(Arena *a, const Format *f, uint32_t share) {
    ASSERT(f->outliers);
    Format *other = arena_copy(a, f, sizeof *f);
    other->outliers = share;
    if (share == 0) other->n_planes--;
    return other;
}

const char *format_gguf_type_name(Arena *a, uint32_t type) { return gguf_type_label(a, type); }

uint32_t format_outliers(const Format *f, uint32_t k) {
    return (uint32_t)(((uint64_t)f->outliers * k + 500000) / 1000000);
}

uint64_t format_plane_row_bytes(const Format *f, uint32_t plane, uint32_t k) {
    uint32_t span = f->plane_span[plane];
    if (f->columns && plane + 1 == f->n_planes) return 0;
    if (f->outliers && plane + 1 == f->n_planes) return 4ull * format_outliers(f, k);
    return (span ? div_up(round_up(k, FORMAT_UNIT), span) : 1) * f->plane_bytes[plane];
}

uint64_t format_columns_bytes(uint32_t k) { return 4 * round_up(k, FORMAT_UNIT); }

uint64_t format_layout(const Format *f, uint64_t n_rows, uint32_t k,
                       uint64_t offset[FORMAT_MAX_PLANES]) {
    uint64_t at = 0;
    for (uint32_t p = 0; p < FORMAT_MAX_PLANES; p++) {
        offset[p] = at; /* planes that the format does not have are empty, at the end */
        if (p >= f->n_planes) continue;
        at = round_up(at + n_rows * format_plane_row_bytes(f, p, k), 16);
        if (f->columns && p + 1 == f->n_planes) at += format_columns_bytes(k);
    }
    return at;
}

static uint64_t blocks_bytes(const Format *f, uint32_t k) {
    ASSERT(k % f->block_n == 0);
    return (uint64_t)(k / f->block_n) * f->block_bytes;
}

uint64_t format_row_bytes(const Format *f, uint32_t k) {
    return blocks_bytes(f, k) + 4ull * format_outliers(f, k);
}

void format_decode_row(const Format *f, const uint8_t *row, uint32_t k, float *out) {
    ASSERT(k % f->block_n == 0);
    for (uint32_t i = 0; i < k; i += f->block_n, row += f->block_bytes) f->decode(row, out + i);
    for (uint32_t n = format_outliers(f, k); n > 0; n--, row += 4)
        out[block_u16(row)] = block_f16(row + 2);
}

void format_pack_row(const Format *f, const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    f->pack(row, k, plane);
    uint32_t n = format_outliers(f, k);
    if (n) memcpy(plane[f->n_planes - 1], row + blocks_bytes(f, k), 4ull * n);
}

/* ---- choice of outliers ---------------------------------------------------------------------- */

static uint32_t size_bits(float x) { /* in the order of |x| */
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u & 0x7fffffffu;
}

/* The n-th largest of k sizes, by their bytes from the top; `more` of them are larger. */
static uint32_t nth_size(const float *x, uint32_t k, uint32_t n, uint32_t *more) {
    uint32_t found = 0, known = 0; /* the bits of the answer, and which of them are known */
    *more = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t count[256] = {0}, byte = 255;
        for (uint32_t i = 0; i < k; i++)
            if ((size_bits(x[i]) & known) == found) count[size_bits(x[i]) >> shift & 255]++;
        for (; *more + count[byte] < n; byte--) *more += count[byte];
        found |= byte << shift, known |= 255u << shift;
    }
    return found;
}

/* Moves the n largest weights, the first ones on ties, behind the blocks. */
static void outliers_take(float *x, uint32_t k, uint32_t n, uint8_t *out) {
    uint32_t more, least = nth_size(x, k, n, &more), ties = n - more;
    for (uint32_t i = 0; i < k; i++) {
        uint32_t size = size_bits(x[i]);
        if (size < least || (size == least && ties == 0)) continue;
        ties -= size == least;
        out[0] = (uint8_t)i, out[1] = (uint8_t)(i >> 8);
        put_f16(out + 2, x[i]);
        x[i] = 0, out += 4;
    }
}

void format_quantize_row(const Format *f, float *x, uint32_t k, uint8_t *row) {
    uint32_t n = format_outliers(f, k);
    ASSERT(n == 0 || k <= FORMAT_OUTLIER_COLUMNS);
    if (n) outliers_take(x, k, n, row + blocks_bytes(f, k));
    f->quantize(x, k, row);
}
