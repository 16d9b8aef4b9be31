/* gguf_check.c - looks for scales and weights that are not numbers: the sign of a damaged or badly
 * converted file. Reads whole tensors, so it is not part of opening a file. */
#include "gguf_private.h"
#include "gguf_types.h"
#include <stdint.h>
#include <string.h>

static uint32_t load_u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }

static bool f16_broken(uint32_t bits) { return (bits & 0x7c00) == 0x7c00; }
static bool bf16_broken(uint32_t bits) { return (bits & 0x7f80) == 0x7f80; }

static bool f16_block_broken(const GgufTypeInfo *t, const uint8_t *b) {
    for (int i = 0; i < 2 && t->scale[i] >= 0; i++)
        if (f16_broken(load_u16(b + t->scale[i]))) return true;
    return false;
}

static bool iq1_m_broken(const GgufTypeInfo *t, const uint8_t *b) {
    (void)t; /* the f16 scale lies in the top nibbles of four words */
    return f16_broken(load_u16(b + 48) >> 12 | load_u16(b + 50) >> 12 << 4 |
                      load_u16(b + 52) >> 12 << 8 | load_u16(b + 54) >> 12 << 12);
}

static bool nvfp4_broken(const GgufTypeInfo *t, const uint8_t *b) {
    (void)t; /* four scales without sign; 0x7f is NaN */
    return b[0] >= 0x7f || b[1] >= 0x7f || b[2] >= 0x7f || b[3] >= 0x7f;
}

static bool mxfp4_broken(const GgufTypeInfo *t, const uint8_t *b) { return (void)t, b[0] == 255; }
static bool bf16_block_broken(const GgufTypeInfo *t, const uint8_t *b) {
    return (void)t, bf16_broken(load_u16(b));
}
/* the upper half of a binary32 is a bf16 */
static bool f32_broken(const GgufTypeInfo *t, const uint8_t *b) {
    return (void)t, bf16_broken(load_u16(b + 2));
}

static bool (*check_of(const GgufTypeInfo *t))(const GgufTypeInfo *, const uint8_t *) {
    static const struct {
        const char *name;
        bool (*check)(const GgufTypeInfo *, const uint8_t *);
    } special[] = {
        {"IQ1_M", iq1_m_broken},     {"NVFP4", nvfp4_broken}, {"MXFP4", mxfp4_broken},
        {"BF16", bf16_block_broken}, {"F32", f32_broken},
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(t->name, special[i].name)) return special[i].check;
    return t->scale[0] >= 0 ? f16_block_broken : NULL;
}

/* The first block of rows row0 .. row0 + n_rows with a broken number; UINT64_MAX if there is
 * none. */
static uint64_t first_broken(const GgufTensor *t, uint64_t row0, uint64_t n_rows) {
    const GgufTypeInfo *info = gguf_type_info(t->type);
    bool (*broken)(const GgufTypeInfo *, const uint8_t *) = check_of(info);
    uint64_t per_row = t->ne[0] / info->block_n, end = (row0 + n_rows) * per_row;
    for (uint64_t i = row0 * per_row; broken && i < end; i++)
        if (broken(info, t->data + i * info->block_bytes)) return i;
    return UINT64_MAX;
}

bool gguf_rows_finite(const GgufTensor *t, uint64_t row0, uint64_t n_rows) {
    return first_broken(t, row0, n_rows) == UINT64_MAX;
}

void gguf_check_data(const Gguf *g, const GgufTensor *t) {
    uint64_t i = first_broken(t, 0, t->ne[1] * t->ne[2] * t->ne[3]);
    if (i == UINT64_MAX) return;
    const GgufTypeInfo *info = gguf_type_info(t->type);
    uint64_t per_row = t->ne[0] / info->block_n;
    fail(
        FAIL_USER,
        "%s: tensor '%s': the %s at row %llu, column %llu is infinite or not a number; the file is "
        "damaged or made by a broken converter",
        g->path, gguf_shown_name(g, t->name), info->block_n == 1 ? "weight" : "scale",
        (unsigned long long)(i / per_row), (unsigned long long)(i % per_row * info->block_n));
}
