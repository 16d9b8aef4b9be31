/* q6_k.h - Q6_K: d * scale * (q - 32), with signed eight-bit scales of 16 weights in blocks of 256.
 * q - 32 is a six-bit number in two's complement: plane 0 has its low nibbles, plane 1 its high pairs of bits.
 * Plane 2: scales. Plane 3: d, f16. */
#define FMT_GGUF_TYPE 14
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 210
#define FMT_N_PLANES 4
#define FMT_PLANE_BYTES 16, 8, 2, 2
#define FMT_PLANE_SPAN 32, 32, 32, 256
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q6_k_code(const uint8_t *block, int i) {
    int h = i / 128, r = i / 32 % 4, l = i % 32;
    int low = (block[64 * h + 32 * (r % 2) + l] >> 4 * (r / 2)) & 15;
    return low | ((block[128 + 32 * h + l] >> 2 * r) & 3) << 4;
}

static void q6_k_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = block_f16(block + 208) * (float)(int8_t)block[192 + i / 16] * (float)(q6_k_code(block, i) - 32);
}
static void q6_k_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        for (int b = 0; b < 8; b++) {
            uint8_t low[32], high[32];
            for (int i = 0; i < 32; i++) {
                int q = q6_k_code(row, 32 * b + i) ^ 32;
                low[i] = (uint8_t)(q & 15), high[i] = (uint8_t)(q >> 4);
            }
            pack_nibbles(low, plane[0] + 128 * n + 16 * b);
            pack_pairs(high, plane[1] + 64 * n + 8 * b);
        }
        memcpy(plane[2] + 16 * n, row + 192, 16);
        memcpy(plane[3] + 2 * n, row + 208, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uvec2 h; uint scale; uint d; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_4[PLANE0 / 16u + i], w_2[PLANE1 / 8u + i], w_u16(PLANE2, i), w_u16(PLANE3, i >> 3));
}
/* Six bits at the top of a byte are four times the code. */
uint fmt_code4(FmtUnit u, uint k) {
    uint w = u.q[k >> 1], low = (k & 1u) == 0u ? w << 2 : w >> 2;
    return (low & 0x3c3c3c3cu) | (u.h[k >> 2] << (6u - 2u * (k & 3u)) & 0xc0c0c0c0u);
}
vec2 fmt_scale(FmtUnit u) {
    vec2 s = vec2(bitfieldExtract(int(u.scale), 0, 8), bitfieldExtract(int(u.scale), 8, 8));
    return f16x2(u.d).x * 0.25 * s;
}
#endif
