/* q5_k.h - Q5_K: d * scale * q - dmin * minimum, with five-bit q and six-bit scales and minima of 32 weights in
 * blocks of 256.
 * Planes 0 and 1: q, see pack_fives. Plane 2: d, dmin, scales and minima of a block, see pack_head. */
#define FMT_GGUF_TYPE 13
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 176
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 16, 4, 16
#define FMT_PLANE_SPAN 32, 32, 256
#define FMT_CODES 1
#define FMT_HAS_MIN 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q5_k_code(const uint8_t *block, int i) {
    int low = (block[48 + 32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2)) & 15;
    return low | (block[16 + i % 32] >> i / 32 & 1) << 4;
}

static void q5_k_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = block_f16(block) * (float)block_scale(block, i / 32) * (float)q5_k_code(block, i) -
                 block_f16(block + 2) * (float)block_min(block, i / 32);
}
static void q5_k_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        uint8_t code[32];
        pack_head(row, plane[2] + 16 * n);
        for (int b = 0; b < 8; b++) {
            for (int i = 0; i < 32; i++) code[i] = (uint8_t)q5_k_code(row, 32 * b + i);
            pack_fives(code, plane[0] + 128 * n + 16 * b, plane[1] + 32 * n + 4 * b);
        }
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint low; uvec4 h; uint b; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_4[PLANE0 / 16u + i], w_1[PLANE1 / 4u + i], w_4[PLANE2 / 16u + (i >> 3)], i & 7u);
}
uint fmt_code4(FmtUnit u, uint k) { return fives4(u.q, u.low, k); }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.h.x).x * head_scale(u.h, u.b)); }
vec2 fmt_min(FmtUnit u) { return vec2(-f16x2(u.h.x).y * head_min(u.h, u.b)); }
#endif
