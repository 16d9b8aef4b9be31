/* q1_0.h - Q1_0: d or -d, in blocks of 128.
 * Plane 0: bit 8j + n is 1 where weight 4n + j is -d. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 41
#define FMT_BLOCK_N 128
#define FMT_BLOCK_BYTES 18
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 4, 2
#define FMT_PLANE_SPAN 32, 128
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q1_0_code(const uint8_t *block, int i) { return (block[2 + i / 8] >> i % 8) & 1; }

static void q1_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 128; i++)
        out[i] = q1_0_code(block, i) ? block_f16(block) : -block_f16(block);
}
static void q1_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 128; n++, row += FMT_BLOCK_BYTES) {
        uint8_t *sign = plane[0] + 16 * n;
        memset(sign, 0, 16);
        for (int i = 0; i < 128; i++)
            sign[4 * (i / 32) + i % 4] |= (uint8_t)((q1_0_code(row, i) ^ 1) << i % 32 / 4);
        memcpy(plane[1] + 2 * n, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uint q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_1[PLANE0 / 4u + i], w_u16(PLANE1, i >> 2)); }
/* 64 or, with the top bit set, -64. */
uint fmt_code4(FmtUnit u, uint k) { return (u.q << (7u - k) & 0x80808080u) | 0x40404040u; }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * 0.015625); }
#endif
