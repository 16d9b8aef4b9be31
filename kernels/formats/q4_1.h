/* q4_1.h - Q4_1: d * q + m. Plane 0: nibbles q. Plane 1: d and m, f16. */
#define FMT_GGUF_TYPE 3
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 20
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 4
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#define FMT_HAS_MIN 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q4_1_code(const uint8_t *block, int i) { return (block[4 + i % 16] >> 4 * (i / 16)) & 15; }

static void q4_1_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)q4_1_code(block, i) * block_f16(block) + block_f16(block + 2);
}
static void q4_1_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        uint8_t code[32];
        for (int i = 0; i < 32; i++) code[i] = (uint8_t)q4_1_code(row, i);
        pack_nibbles(code, plane[0] + 16 * u);
        memcpy(plane[1] + 4 * u, row, 4);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint dm; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_4[PLANE0 / 16u + i], w_1[PLANE1 / 4u + i]); }
uint fmt_code4(FmtUnit u, uint k) {
    uint w = u.q[k >> 1];
    return ((k & 1u) == 0u ? w : w >> 4) & 0x0f0f0f0fu;
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.dm).x); }
vec2 fmt_min(FmtUnit u) { return vec2(f16x2(u.dm).y); }
#endif
