/* q1.h - qcc's own: a sign for each weight, f16 scale per 32. Plane 0: bit 8j + n is 1 where weight 4n + j is not negative.
 * Plane 1: d, f16. A block is d and plane 0's word. */
#define FMT_GGUF_TYPE -1
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 6
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 4, 2
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include <math.h>

static void q1_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (block[2 + i % 4] >> i / 4 & 1 ? 1.0f : -1.0f) * block_f16(block);
}
/* The mean size is the scale of least squared error. */
static void q1_quantize(const float *x, uint32_t k, uint8_t *row) {
    for (uint32_t u = 0; u < k / 32; u++, x += 32, row += FMT_BLOCK_BYTES) {
        double sum = 0;
        memset(row, 0, FMT_BLOCK_BYTES);
        for (int i = 0; i < 32; i++) {
            sum += fabs((double)x[i]);
            if (x[i] >= 0) row[2 + i % 4] |= (uint8_t)(1 << i / 4);
        }
        put_f16(row, (float)(sum / 32));
    }
}
static void q1_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 4 * u, row + 2, 4);
        memcpy(plane[1] + 2 * u, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uint q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_1[PLANE0 / 4u + i], w_u16(PLANE1, i)); }
/* A byte with its bit set becomes 1, without -1. */
uint fmt_code4(FmtUnit u, uint k) { return ((u.q >> k & 0x01010101u) * 0xfeu) ^ 0xffffffffu; }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x); }
#endif
