/* q2_k.h - Q2_K: d * scale * q - dmin * minimum, with two-bit q and four-bit scales and minima of 16 weights in
 * blocks of 256. Plane 0: q, see pack_pairs. Plane 1: a byte for each 16 weights with scale (low) and minimum.
 * Plane 2: d and dmin, f16. */
#define FMT_GGUF_TYPE 10
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 84
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 8, 2, 4
#define FMT_PLANE_SPAN 32, 32, 256
#define FMT_CODES 1
#define FMT_HAS_MIN 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q2_k_code(const uint8_t *block, int i) {
    return (block[16 + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4)) & 3;
}

static void q2_k_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = block_f16(block + 80) * (float)(block[i / 16] & 15) * (float)q2_k_code(block, i) -
                 block_f16(block + 82) * (float)(block[i / 16] >> 4);
}
static void q2_k_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        for (int b = 0; b < 8; b++) {
            uint8_t code[32];
            for (int i = 0; i < 32; i++) code[i] = (uint8_t)q2_k_code(row, 32 * b + i);
            pack_pairs(code, plane[0] + 64 * n + 8 * b);
        }
        memcpy(plane[1] + 16 * n, row, 16);
        memcpy(plane[2] + 4 * n, row + 80, 4);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec2 q; uint scale; uint dm; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_2[PLANE0 / 8u + i], w_u16(PLANE1, i), w_1[PLANE2 / 4u + (i >> 3)]);
}
uint fmt_code4(FmtUnit u, uint k) { return u.q[k >> 2] >> 2u * (k & 3u) & 0x03030303u; }
vec2 fmt_scale(FmtUnit u) { return f16x2(u.dm).x * vec2(u.scale & 15u, u.scale >> 8 & 15u); }
vec2 fmt_min(FmtUnit u) { return -f16x2(u.dm).y * vec2(u.scale >> 4 & 15u, u.scale >> 12); }
#endif
