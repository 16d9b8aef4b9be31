/* q8_row.h - qcc's own: int8 codes with one f32 scale for the row. Plane 0: codes. Plane 1: the scale of each row.
 * A block is the row's scale and 32 codes. */
#define FMT_GGUF_TYPE -1
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 36
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 32, 4
#define FMT_PLANE_SPAN 32, 0
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include <math.h>

static float q8_row_scale(const uint8_t *block) {
    float d;
    memcpy(&d, block, sizeof d);
    return d;
}
static void q8_row_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[4 + i] * q8_row_scale(block);
}
static void q8_row_quantize(const float *x, uint32_t k, uint8_t *row) {
    float most = 0;
    for (uint32_t i = 0; i < k; i++) most = fmaxf(most, fabsf(x[i]));
    float d = most / 127;
    if (isinf(127 * d)) d = nextafterf(d, 0);
    for (uint32_t i = 0; i < k; i++) {
        uint8_t *block = row + i / 32 * FMT_BLOCK_BYTES;
        if (i % 32 == 0) memcpy(block, &d, sizeof d);
        double code = d > 0 ? nearbyint((double)x[i] / (double)d) : 0;
        block[4 + i % 32] = (uint8_t)(int8_t)fmax(-127, fmin(127, code));
    }
}
static void q8_row_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    memcpy(plane[1], row, 4);
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) memcpy(plane[0] + 32 * u, row + 4, 32);
}
#else
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q[2]; uint d; };

FmtUnit fmt_load(uint i) {
    FmtUnit u;
    u.q[0] = w_4[PLANE0 / 16u + 2u * i];
    u.q[1] = w_4[PLANE0 / 16u + 2u * i + 1u];
    u.d = w_1[PLANE1 / 4u + i / UNITS];
    return u;
}
uint fmt_code4(FmtUnit u, uint k) { return u.q[k >> 2][k & 3u]; }
vec2 fmt_scale(FmtUnit u) { return vec2(uintBitsToFloat(u.d)); }
#endif
