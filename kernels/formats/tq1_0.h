/* tq1_0.h - TQ1_0: d * (t - 1), with ternary digits t, five in a byte, in blocks of 256.
 * Plane 0, for each block: thirteen words, whose byte j has digits of weights 4k + j, as
 * ternary_byte of lib/format.h writes them, and as the block has them. Word b has quads k = 0 .. 4
 * of the b-th 32 weights; word 8 + b/2 quads 5, 6, 7 for even b, then 5, 6 of b + 1; word 12 quad 7
 * of each odd b. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 34
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 54
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 52, 2
#define FMT_PLANE_SPAN 256, 256
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int tq1_0_code(const uint8_t *block, int i) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    int at = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
    int n = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    return (block[at] * power[n] & 255) * 3 >> 8;
}

static void tq1_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = (float)(tq1_0_code(block, i) - 1) * block_f16(block + 52);
}
/* Word, times 8, plus digit of quad k of the b-th 32 weights. */
static int tq1_0_place(int b, int k) {
    if (k < 5) return 8 * b + k;
    if (b % 2 == 0) return 8 * (8 + b / 2) + k - 5;
    return k < 7 ? 8 * (8 + b / 2) + k - 2 : 8 * 12 + b / 2;
}
static void tq1_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        int t[52][5] = {0};
        for (int i = 0; i < 256; i++) {
            int place = tq1_0_place(i / 32, i % 32 / 4);
            t[4 * (place / 8) + i % 4][place % 8] = tq1_0_code(row, i);
        }
        for (uint32_t j = 0; j < 52; j++) plane[0][52 * n + j] = ternary_byte(t[j]);
        memcpy(plane[1] + 2 * n, row + 52, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec3 q; uint d; uint b; };

FmtUnit fmt_load(uint i) {
    uint b = i & 7u, at = PLANE0 / 4u + 13u * (i >> 3);
    uvec3 q = uvec3(w_1[at + b], w_1[at + 8u + (b >> 1)], w_1[at + 12u]);
    return FmtUnit(q, w_u16(PLANE1, i >> 3), b);
}
uint fmt_code4(FmtUnit u, uint k) {
    bool odd = (u.b & 1u) != 0u, last = odd && k == 7u;
    uint w = k < 5u ? u.q.x : last ? u.q.z : u.q.y;
    uint n = k < 5u ? k : last ? u.b >> 1 : odd ? k - 2u : k - 5u;
    return ternary_code4(w, ternary_power(n));
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x); }
#endif
