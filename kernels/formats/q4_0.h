/* q4_0.h - Q4_0: d * (q - 8). Plane 0: nibbles q - 8 in two's complement. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 2
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 18
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 2
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q4_0_code(const uint8_t *block, int i) { return (block[2 + i % 16] >> 4 * (i / 16)) & 15; }

static void q4_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)(q4_0_code(block, i) - 8) * block_f16(block);
}
static void q4_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        uint8_t code[32];
        for (int i = 0; i < 32; i++) code[i] = (uint8_t)(q4_0_code(row, i) ^ 8);
        pack_nibbles(code, plane[0] + 16 * u);
        memcpy(plane[1] + 2 * u, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_4[PLANE0 / 16u + i], w_u16(PLANE1, i)); }
/* A nibble at the top of its byte is 16 times the code. */
uint fmt_code4(FmtUnit u, uint k) {
    uint w = u.q[k >> 1];
    return ((k & 1u) == 0u ? w << 4 : w) & 0xf0f0f0f0u;
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * 0.0625); }
#endif
