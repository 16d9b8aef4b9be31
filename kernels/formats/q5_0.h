/* q5_0.h - Q5_0: d * (q - 16). q - 16 is a five-bit number in two's complement.
 * Plane 0: byte 4w + j has the number of weight 4w + j in bits 3..7, the low three bits of weight 16 + 4w + j in bits 0..2.
 * Plane 1: byte j has the high two bits of weight 16 + 4w + j in bits 6 - 2w, 7 - 2w. Plane 2: d, f16. */
#define FMT_GGUF_TYPE 6
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 22
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 16, 4, 2
#define FMT_PLANE_SPAN 32, 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int q5_0_code(const uint8_t *block, int i) {
    return ((block[6 + i % 16] >> 4 * (i / 16)) & 15) | ((block[2 + i / 8] >> i % 8) & 1) << 4;
}

static void q5_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)(q5_0_code(block, i) - 16) * block_f16(block);
}
static void q5_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        uint8_t *low = plane[0] + 16 * u, *high = plane[1] + 4 * u;
        memset(high, 0, 4);
        for (int i = 0; i < 16; i++) {
            int first = q5_0_code(row, i) ^ 16, second = q5_0_code(row, 16 + i) ^ 16;
            low[i] = (uint8_t)(first << 3 | (second & 7));
            high[i % 4] = (uint8_t)(high[i % 4] | second >> 3 << (6 - 2 * (i / 4)));
        }
        memcpy(plane[2] + 2 * u, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint h; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_4[PLANE0 / 16u + i], w_1[PLANE1 / 4u + i], w_u16(PLANE2, i)); }
/* Five bits at the top of a byte are eight times the code. */
uint fmt_code4(FmtUnit u, uint k) {
    uint w = u.q[k & 3u];
    return k < 4u ? w & 0xf8f8f8f8u : (w << 3 & 0x38383838u) | (u.h << 2u * (k & 3u) & 0xc0c0c0c0u);
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * 0.125); }
#endif
