/* q1t.h - qcc's own: d * t with t = -1, 0, 1 in groups of 32, five to a byte; and outliers.
 * Plane 0, for each five units of a row: 32 bytes, of which byte j has the digits t + 1 of weight j
 * of each unit, as ternary_byte of lib/format.h writes them. Plane 1: d, f16. Plane 2: outliers.
 * A block is d and pairs of bits t + 1: weight i in bits 2 (i % 4) of byte i / 4. */
#define FMT_GGUF_TYPE -1
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 10
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 32, 2, 4
#define FMT_PLANE_SPAN 160, 32, 0
#define FMT_OUTLIERS 20000
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include <math.h>

static int q1t_code(const uint8_t *block, int i) {
    return (block[2 + i / 4] >> 2 * (i % 4) & 3) - 1;
}
static void q1t_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)q1t_code(block, i) * block_f16(block);
}

/* The scale of least squared error. If the n largest of the weights are not 0, it is their mean
 * size, and the error is smaller by the square of their sum over n. */
static float q1t_scale(const float *x) {
    double size[32], sum = 0, best = 0, scale = 0;
    for (int i = 0, j; i < 32; i++) { /* insertion, in falling order */
        double v = fabs((double)x[i]);
        for (j = i; j > 0 && size[j - 1] < v; j--) size[j] = size[j - 1];
        size[j] = v;
    }
    for (int n = 1; n <= 32; n++) {
        sum += size[n - 1];
        if (sum * sum / n <= best) continue;
        best = sum * sum / n, scale = sum / n;
    }
    return (float)scale;
}
static void q1t_quantize(const float *x, uint32_t k, uint8_t *row) {
    for (uint32_t u = 0; u < k / 32; u++, x += 32, row += FMT_BLOCK_BYTES) {
        memset(row, 0, FMT_BLOCK_BYTES);
        put_f16(row, q1t_scale(x));
        for (int i = 0; i < 32; i++) {
            int t = fabsf(x[i]) <= block_f16(row) / 2 ? 1 : x[i] < 0 ? 0 : 2;
            row[2 + i / 4] |= (uint8_t)(t << 2 * (i % 4));
        }
    }
}
static void q1t_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    uint32_t units = k / 32;
    for (uint32_t u = 0; u < units; u++) memcpy(plane[1] + 2 * u, row + u * FMT_BLOCK_BYTES, 2);
    for (uint32_t first = 0; first < units; first += 5)
        for (int j = 0; j < 32; j++) {
            int t[5] = {1, 1, 1, 1, 1};
            for (uint32_t n = 0; n < 5 && first + n < units; n++)
                t[n] = q1t_code(row + (first + n) * FMT_BLOCK_BYTES, j) + 1;
            plane[0][first / 5 * 32 + (uint32_t)j] = ternary_byte(t);
        }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q[2]; uint d; uint power; };

FmtUnit fmt_load(uint i) {
    uint n = i % UNITS, at = PLANE0 / 16u + 2u * (i / UNITS * ((UNITS + 4u) / 5u) + n / 5u);
    FmtUnit u;
    u.q[0] = w_4[at];
    u.q[1] = w_4[at + 1u];
    u.d = w_u16(PLANE1, i);
    u.power = ternary_power(n % 5u);
    return u;
}
uint fmt_code4(FmtUnit u, uint k) { return ternary_code4(u.q[k >> 2][k & 3u], u.power); }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x); }
#endif
