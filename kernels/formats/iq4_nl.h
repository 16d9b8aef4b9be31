/* iq4_nl.h - IQ4_NL: d times one of sixteen values.
 * Plane 0: nibbles, see iq4_number. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 20
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 18
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 16, 2
#define FMT_PLANE_SPAN 32, 32
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void iq4_nl_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++)
        out[i] = block_f16(block) * (float)iq4_value[(block[2 + i % 16] >> 4 * (i / 16)) & 15];
}
static void iq4_nl_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t u = 0; u < k / 32; u++, row += FMT_BLOCK_BYTES) {
        pack_numbers(row + 2, iq4_number, plane[0] + 16 * u);
        memcpy(plane[1] + 2 * u, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_4[PLANE0 / 16u + i], w_u16(PLANE1, i)); }
uint fmt_code4(FmtUnit u, uint k) { return iq4_code4(u.q, k); }
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x); }
#endif
