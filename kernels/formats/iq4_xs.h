/* iq4_xs.h - IQ4_XS: d * (scale - 32) times one of sixteen values, with six-bit scales of 32
 * weights in blocks of 256. Plane 0: nibbles, see iq4_number.
 * Plane 1, for each block: d, f16; the high two bits of eight scales; their low four. */
#define FMT_GGUF_TYPE 23
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 136
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 8
#define FMT_PLANE_SPAN 32, 256
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static int iq4_xs_scale(const uint8_t *block, int b) {
    int low = (block[4 + b / 2] >> 4 * (b % 2)) & 15;
    return (low | (int)(block_u16(block + 2) >> 2 * b & 3) << 4) - 32;
}

static void iq4_xs_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = block_f16(block) * (float)iq4_xs_scale(block, i / 32) *
                 (float)iq4_value[(block[8 + 16 * (i / 32) + i % 16] >> 4 * (i / 16 % 2)) & 15];
}
static void iq4_xs_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        for (int b = 0; b < 8; b++)
            pack_numbers(row + 8 + 16 * b, iq4_number, plane[0] + 128 * n + 16 * b);
        memcpy(plane[1] + 8 * n, row, 8);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uvec2 h; uint b; };

FmtUnit fmt_load(uint i) {
    return FmtUnit(w_4[PLANE0 / 16u + i], w_2[PLANE1 / 8u + (i >> 3)], i & 7u);
}
uint fmt_code4(FmtUnit u, uint k) { return iq4_code4(u.q, k); }
vec2 fmt_scale(FmtUnit u) {
    uint scale = (u.h.y >> 4u * u.b & 15u) | (u.h.x >> (16u + 2u * u.b) & 3u) << 4;
    return vec2(f16x2(u.h.x).x * float(int(scale) - 32));
}
#endif
