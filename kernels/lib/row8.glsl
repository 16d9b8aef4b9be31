/* row8.glsl - units of formats that row8_pack of lib/format.h packs: codes, and a scale of the row. */
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
