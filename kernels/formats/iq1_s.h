/* iq1_s.h - IQ1_S: d * (2 * scale + 1) * (value +- 1/8): eight values -1, 0, 1 are an entry of a
 * codebook of 2048; three-bit scales and the sign of 1/8 for 32 weights, blocks of 256.
 * Plane 0: low eight bits of the entries. Plane 1, for each 32 weights: high three bits of four
 * entries, scale, sign. Plane 2: d, f16. Codes are eight times the sum. */
#define FMT_GGUF_TYPE 19
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 50
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 4, 2, 2
#define FMT_PLANE_SPAN 32, 32, 256
#define FMT_CODES 1
#define FMT_SHARED_BYTES 4096
#define FMT_GRID GRID_IQ1
#ifdef __STDC_VERSION__
#include "../lib/format.h"
#include "../lib/grid_iq1.h"

static void iq1_s_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++) {
        uint32_t h = block_u16(block + 34 + 2 * (i / 32));
        uint32_t entry = block[2 + i / 8] | (h >> 3 * (i / 8 % 4) & 7) << 8;
        float scale = block_f16(block) * (float)(2 * (h >> 12 & 7) + 1);
        out[i] = scale * ((float)grid_iq1_value(entry, i % 8) + (h >> 15 ? -0.125f : 0.125f));
    }
}
static void iq1_s_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 32 * n, row + 2, 32);
        memcpy(plane[1] + 16 * n, row + 34, 16);
        memcpy(plane[2] + 2 * n, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"
#include "lib/grid_iq1.h"
#include "lib/grid.glsl"

struct FmtUnit { uint q; uint h; uint d; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_1[PLANE0 / 4u + i], w_u16(PLANE1, i), w_u16(PLANE2, i >> 3));
}
uint fmt_code4(FmtUnit u, uint k) {
    uint octet = k >> 1;
    uint entry = (u.q >> 8u * octet & 255u) | (u.h >> 3u * octet & 7u) << 8;
    return ternary4(grid_entry(entry), k & 1u, u.h >> 15);
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * 0.125 * float(2u * (u.h >> 12 & 7u) + 1u)); }
#endif
