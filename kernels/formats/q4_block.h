/* q4_block.h - qcc's own: d * (q - 8) in groups of 32. Plane 0: nibbles q - 8 in two's complement. Plane 1: d, f16.
 * A block is d and 16 bytes: weight i low in byte i, weight 16 + i high. */
#define FMT_GGUF_TYPE -1
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 18
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 2
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include <math.h>

static int q4_block_code(const uint8_t *block, int i) { return ((block[2 + i % 16] >> 4 * (i / 16)) & 15) - 8; }

static void q4_block_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)q4_block_code(block, i) * block_f16(block);
}

/* Codes for the scale d; returns the squared error. */
static double q4_block_try(const float *x, float d, int code[32]) {
    double error = 0;
    for (int i = 0; i < 32; i++) {
        double q = d != 0 ? fmax(-8, fmin(7, nearbyint((double)x[i] / (double)d))) : 0, e = (double)d * q - (double)x[i];
        code[i] = (int)q;
        error += e * e;
    }
    return error;
}

/* The scale of least squared error among those that put the value of largest size at -8.4 .. -7 (7: the other end). */
static void q4_block_quantize(const float *x, uint32_t k, uint8_t *row) {
    for (uint32_t u = 0; u < k / 32; u++, x += 32, row += FMT_BLOCK_BYTES) {
        float most = 0;
        for (int i = 0; i < 32; i++)
            if (fabsf(x[i]) > fabsf(most)) most = x[i];
        double least = INFINITY;
        for (int step = 0; step < 8; step++) {
            uint8_t scale[2];
            int code[32];
            put_f16(scale, -most / (8.4f - 0.2f * (float)step));
            double error = q4_block_try(x, block_f16(scale), code);
            if (!(error < least)) continue;
            least = error;
            memcpy(row, scale, 2);
            for (int i = 0; i < 16; i++) row[2 + i] = (uint8_t)((code[i] + 8) | (code[16 + i] + 8) << 4);
        }
    }
}
static void q4_block_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        uint8_t code[32];
        for (int i = 0; i < 32; i++) code[i] = (uint8_t)(q4_block_code(row, i) & 15);
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
