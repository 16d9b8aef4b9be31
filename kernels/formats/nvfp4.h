/* nvfp4.h - NVFP4: numbers of four bits with a scale in E4M3 for each 16.
 * Plane 0: nibbles, see fp4_number. Plane 1: a scale for each 16 weights, a byte. Plane 2: the
 * scale of the whole matrix, f32, for every row, since parts stack rows of several matrices. */
#define FMT_GGUF_TYPE 40
#define FMT_BLOCK_N 64
#define FMT_BLOCK_BYTES 36
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 16, 2, 4
#define FMT_PLANE_SPAN 32, 32, 0
#define FMT_FACTOR_PLANE 2
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int nvfp4_code(const uint8_t *block, int i) {
    return (block[4 + 8 * (i / 16) + i % 8] >> 4 * (i / 8 % 2)) & 15;
}
/* Half, as fp4_value is twice the number. 0x7f is zero and the top bit ignored, as in ggml. */
static float nvfp4_scale(uint32_t e4m3) {
    uint32_t e = e4m3 >> 3 & 15, m = e4m3 & 7;
    if (e4m3 == 0x7f) return 0;
    return e ? bits_float((e + 119) << 23 | m << 20) : (float)m * 0x1p-10f;
}

static void nvfp4_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 64; i++)
        out[i] = (float)fp4_value[nvfp4_code(block, i)] * nvfp4_scale(block[i / 16]);
}
static void nvfp4_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    const float one = 1;
    memcpy(plane[2], &one, sizeof one);
    for (uint32_t n = 0; n < k / 64; n++, row += FMT_BLOCK_BYTES) {
        for (int b = 0; b < 2; b++) {
            uint8_t code[32];
            for (int i = 0; i < 32; i++) code[i] = fp4_number[nvfp4_code(row, 32 * b + i)];
            pack_nibbles(code, plane[0] + 32 * n + 16 * b);
        }
        for (uint32_t s = 0; s < 4; s++) plane[1][4 * n + s] = row[s] == 0x7f ? 0 : row[s];
    }
}
#else
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint scale; uint factor; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_4[PLANE0 / 16u + i], w_u16(PLANE1, i), w_1[PLANE2 / 4u + i / UNITS]);
}
uint fmt_code4(FmtUnit u, uint k) { return fp4_code4(u.q, k); }
/* A subnormal m * 2^-10 is (1 + m/8) * 2^-7 without its hidden one. */
vec2 fmt_scale(FmtUnit u) {
    uvec2 s = uvec2(u.scale, u.scale >> 8) & 127u;
    bvec2 small = lessThan(s, uvec2(8u));
    vec2 v = uintBitsToFloat(mix(s + 952u, s + 960u, small) << 20);
    return (v - mix(vec2(0.0), vec2(0.0078125), small)) * uintBitsToFloat(u.factor);
}
#endif
