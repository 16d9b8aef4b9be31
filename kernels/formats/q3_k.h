/* q3_k.h - Q3_K: d * scale * (q - 4), with three-bit q and six-bit scales of 16 weights in blocks of 256.
 * q - 4 and the scales are in two's complement. Plane 0: the high two bits of q - 4, see pack_pairs. Plane 1: the low
 * bit, bit p of byte j that of weight 4p + j. Plane 2, for each block: a byte for each 32 weights with the low four
 * bits of two scales; a nibble for each 32 with the high two bits. Plane 3: d, f16. */
#define FMT_GGUF_TYPE 11
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 110
#define FMT_N_PLANES 4
#define FMT_PLANE_BYTES 8, 4, 12, 2
#define FMT_PLANE_SPAN 32, 32, 256, 256
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q3_k_scale(const uint8_t *block, int s) { /* plus 32 */
    return ((block[96 + s % 8] >> 4 * (s / 8)) & 15) | ((block[104 + s % 4] >> 2 * (s / 4)) & 3) << 4;
}
static int q3_k_code(const uint8_t *block, int i) {
    return ((block[32 + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4)) & 3) | ((block[i % 32] >> i / 32) & 1) << 2;
}

static void q3_k_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = block_f16(block + 108) * (float)(q3_k_scale(block, i / 16) - 32) * (float)(q3_k_code(block, i) - 4);
}
static void q3_k_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        uint8_t *low = plane[1] + 32 * n, *scale = plane[2] + 12 * n;
        memset(low, 0, 32);
        memset(scale + 8, 0, 4);
        for (int b = 0; b < 8; b++) {
            uint8_t high[32];
            int first = q3_k_scale(row, 2 * b) ^ 32, second = q3_k_scale(row, 2 * b + 1) ^ 32;
            for (int i = 0; i < 32; i++) {
                int q = q3_k_code(row, 32 * b + i) ^ 4;
                high[i] = (uint8_t)(q >> 1);
                low[4 * b + i % 4] |= (uint8_t)((q & 1) << i / 4);
            }
            pack_pairs(high, plane[0] + 64 * n + 8 * b);
            scale[b] = (uint8_t)((first & 15) | (second & 15) << 4);
            scale[8 + b / 2] |= (uint8_t)((first >> 4 | second >> 4 << 2) << 4 * (b % 2));
        }
        memcpy(plane[3] + 2 * n, row + 108, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec2 q; uint low; uvec2 scale; uint d; uint b; };

FmtUnit fmt_load(uint i) {
    uint s = PLANE2 / 4u + 3u * (i >> 3), b = i & 7u;
    return FmtUnit(w_2[PLANE0 / 8u + i], w_1[PLANE1 / 4u + i], uvec2(w_1[s + (b >> 2)], w_1[s + 2u]),
                   w_u16(PLANE3, i >> 3), b);
}
/* Three bits at the top of a byte are 32 times the code. */
uint fmt_code4(FmtUnit u, uint k) {
    return (u.q[k >> 2] << (6u - 2u * (k & 3u)) & 0xc0c0c0c0u) | (u.low >> k & 0x01010101u) << 5;
}
vec2 fmt_scale(FmtUnit u) {
    int low = int(u.scale.x >> 8u * (u.b & 3u)), high = int(u.scale.y >> 4u * u.b);
    ivec2 s = ivec2((low & 15) | bitfieldExtract(high, 0, 2) << 4, (low >> 4 & 15) | bitfieldExtract(high, 2, 2) << 4);
    return f16x2(u.d).x * 0.03125 * vec2(s);
}
#endif
