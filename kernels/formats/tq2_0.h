/* tq2_0.h - TQ2_0: d * (q - 1), with two-bit q, 0 to 2 as a rule, in blocks of 256.
 * Plane 0: 1 - q in two's complement, see pack_pairs. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 35
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 66
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 8, 2
#define FMT_PLANE_SPAN 32, 256
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int tq2_0_code(const uint8_t *block, int i) {
    return (block[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4)) & 3;
}

static void tq2_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = (float)(tq2_0_code(block, i) - 1) * block_f16(block + 64);
}
static void tq2_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        for (int b = 0; b < 8; b++) {
            uint8_t code[32];
            for (int i = 0; i < 32; i++) code[i] = (uint8_t)((1 - tq2_0_code(row, 32 * b + i)) & 3);
            pack_pairs(code, plane[0] + 64 * n + 8 * b);
        }
        memcpy(plane[1] + 2 * n, row + 64, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec2 q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_2[PLANE0 / 8u + i], w_u16(PLANE1, i >> 3)); }
/* Two bits at the top of a byte are 64 times the code. */
uint fmt_code4(FmtUnit u, uint k) { return u.q[k >> 2] << (6u - 2u * (k & 3u)) & 0xc0c0c0c0u; }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * -0.015625); }
#endif
