/* q8_0.h - Q8_0: d * q. Plane 0: q, int8. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 8
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 34
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 32, 2
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void q8_0_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[2 + i] * block_f16(block);
}
static void q8_0_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 32 * u, row + 2, 32);
        memcpy(plane[1] + 2 * u, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q[2]; uint d; };

FmtUnit fmt_load(uint i) {
    FmtUnit u;
    u.q[0] = w_4[PLANE0 / 16u + 2u * i];
    u.q[1] = w_4[PLANE0 / 16u + 2u * i + 1u];
    u.d = w_u16(PLANE1, i);
    return u;
}
uint fmt_code4(FmtUnit u, uint k) { return u.q[k >> 2][k & 3u]; }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x); }
#endif
