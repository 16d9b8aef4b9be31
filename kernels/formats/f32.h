/* f32.h - F32. Plane 0: the weights. */
#define FMT_GGUF_TYPE 0
#define FMT_BLOCK_N 1
#define FMT_BLOCK_BYTES 4
#define FMT_N_PLANES 1
#define FMT_PLANE_BYTES 128
#define FMT_PLANE_SPAN 32
#define FMT_CODES 0
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void f32_decode(const uint8_t *block, float *out) { memcpy(out, block, 4); }
static void f32_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) { pack_plain(row, k, 4, plane[0]); }
#else
#include "lib/weights.glsl"

struct FmtUnit { uvec4 q[8]; };

FmtUnit fmt_load(uint i) {
    FmtUnit u;
    for (uint j = 0u; j < 8u; j++) u.q[j] = w_4[PLANE0 / 16u + 8u * i + j];
    return u;
}
vec4 fmt_value4(FmtUnit u, uint k) { return uintBitsToFloat(u.q[k]); }
#endif
