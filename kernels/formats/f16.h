/* f16.h - F16. Plane 0: the weights. */
#define FMT_GGUF_TYPE 1
#define FMT_BLOCK_N 1
#define FMT_BLOCK_BYTES 2
#define FMT_N_PLANES 1
#define FMT_PLANE_BYTES 64
#define FMT_PLANE_SPAN 32
#define FMT_CODES 0
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void f16_decode(const uint8_t *block, float *out) { *out = block_f16(block); }
static void f16_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) { pack_plain(row, k, 2, plane[0]); }
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q[4]; };

FmtUnit fmt_load(uint i) {
    FmtUnit u;
    for (uint j = 0u; j < 4u; j++) u.q[j] = w_4[PLANE0 / 16u + 4u * i + j];
    return u;
}
vec4 fmt_value4(FmtUnit u, uint k) {
    uvec4 w = u.q[k >> 1];
    uvec2 h = (k & 1u) == 0u ? w.xy : w.zw;
    return vec4(f16x2(h.x), f16x2(h.y));
}
#endif
