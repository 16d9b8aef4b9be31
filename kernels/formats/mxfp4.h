/* mxfp4.h - MXFP4: a power of two times a number of four bits.
 * Plane 0: nibbles, see fp4_number. Plane 1: the scale's exponent, a byte. The two smallest scales,
 * 2^-128 and 2^-127, are subnormal: a device that flushes such numbers makes the block zero. */
#define FMT_GGUF_TYPE 39
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 17
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 1
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static float mxfp4_scale(uint32_t e) { /* 2^(e - 128): half, as fp4_value is twice the number */
    return bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

static void mxfp4_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++)
        out[i] = (float)fp4_value[(block[1 + i % 16] >> 4 * (i / 16)) & 15] * mxfp4_scale(block[0]);
}
static void mxfp4_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        pack_numbers(row + 1, fp4_number, plane[0] + 16 * u);
        plane[1][u] = row[0];
    }
}
#else
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint e; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_4[PLANE0 / 16u + i], w_u8(PLANE1, i)); }
uint fmt_code4(FmtUnit u, uint k) { return fp4_code4(u.q, k); }
vec2 fmt_scale(FmtUnit u) {
    return vec2(uintBitsToFloat(u.e < 2u ? 0x00200000u << u.e : (u.e - 1u) << 23));
}
#endif
