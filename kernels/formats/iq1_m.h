/* iq1_m.h - IQ1_M: d * (2 * scale + 1) * (value +- 1/8): eight values -1, 0, 1 are an entry of a
 * codebook of 2048; the sign of 1/8 for 8 and three-bit scales for 16 weights, blocks of 256.
 * Plane 0: low eight bits of the entries. Plane 1: high three bits of an entry and sign, four bits
 * each. Plane 2, for each block: four times four scales and four bits of d, f16. Codes are eight
 * times the sum. */
#define FMT_GGUF_TYPE 29
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 56
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 4, 2, 8
#define FMT_PLANE_SPAN 32, 32, 256
#define FMT_CODES 1
#define FMT_SHARED_BYTES 4096
#define FMT_GRID GRID_IQ1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include "../lib/grid_iq1.h"

static float iq1_m_d(const uint8_t *block) {
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) d |= block_u16(block + 48 + 2 * i) >> 12 << 4 * i;
    return f16_float(d);
}

static void iq1_m_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++) {
        int g = i / 8, n = block[32 + g / 2] >> 4 * (g % 2) & 15;
        uint32_t entry = block[g] | (uint32_t)(n & 7) << 8;
        uint32_t s = block_u16(block + 48 + 2 * (i / 64)) >> 3 * (i / 16 % 4) & 7;
        float scale = iq1_m_d(block) * (float)(2 * s + 1);
        out[i] = scale * ((float)grid_iq1_value(entry, i % 8) + (n >> 3 ? -0.125f : 0.125f));
    }
}
static void iq1_m_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 32 * n, row, 32);
        memcpy(plane[1] + 16 * n, row + 32, 16);
        memcpy(plane[2] + 8 * n, row + 48, 8);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"
#include "lib/grid_iq1.h"
#include "lib/grid.glsl"

struct FmtUnit { uint q; uint h; uvec2 scale; uint b; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_1[PLANE0 / 4u + i], w_u16(PLANE1, i), w_2[PLANE2 / 8u + (i >> 3)], i & 7u);
}
uint fmt_code4(FmtUnit u, uint k) {
    uint octet = k >> 1, n = u.h >> 4u * octet;
    return ternary4(grid_entry((u.q >> 8u * octet & 255u) | (n & 7u) << 8), k & 1u, n >> 3 & 1u);
}
vec2 fmt_scale(FmtUnit u) {
    uint d = (u.scale.x >> 12 & 15u) | (u.scale.x >> 24 & 0xf0u) | (u.scale.y >> 4 & 0xf00u) |
             (u.scale.y >> 16 & 0xf000u);
    uint s = (u.b < 4u ? u.scale.x : u.scale.y) >> 16u * (u.b >> 1 & 1u) + 6u * (u.b & 1u);
    return f16x2(d).x * 0.125 * vec2(2u * (s & 7u) + 1u, 2u * (s >> 3 & 7u) + 1u);
}
#endif
