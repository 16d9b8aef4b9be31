/* iq2_xxs.h - IQ2_XXS: d / 4 * (scale + 1/2) * magnitude: eight magnitudes are an entry of a
 * codebook of 256, with an even number of minus signs; four-bit scales of 32 weights, blocks of
 * 256.
 * Plane 0, for each 32 weights: four entries of eight bits, then four times seven signs and the
 * scale. Plane 1: d, f16. */
#define FMT_GGUF_TYPE 16
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 66
#define FMT_N_PLANES 2
#define FMT_PLANE_BYTES 8, 2
#define FMT_PLANE_SPAN 32, 256
#define FMT_CODES 1
#define FMT_SHARED_BYTES 512
/* Two bits for each weight: the magnitude is 8, 25 or 43. */
#define FMT_GRID \
  0x00020000, 0x00080005, 0x0011000a, 0x00200014, 0x00280022, 0x0041002a, 0x00500044, 0x00610058,\
  0x00800064, 0x008a0082, 0x010100a2, 0x01100104, 0x01400115, 0x01980184, 0x02020200, 0x02820222,\
  0x04040401, 0x04210410, 0x04400424, 0x04480442, 0x04810460, 0x04900484, 0x050004a4, 0x05080502,\
  0x05460520, 0x05800569, 0x06090591, 0x06400610, 0x06a40684, 0x08050800, 0x08140808, 0x08410828,\
  0x08500844, 0x08880852, 0x09400904, 0x0a140a02, 0x10041001, 0x10211010, 0x10601040, 0x10901084,\
  0x11001095, 0x11201108, 0x115a1150, 0x12241180, 0x14001245, 0x14201408, 0x14491425, 0x15181480,\
  0x16001562, 0x18011616, 0x18101804, 0x18811840, 0x19051900, 0x1a5119a0, 0x20022000, 0x2044200a,\
  0x20802061, 0x21292082, 0x22002148, 0x24012202, 0x24102404, 0x24562440, 0x25412500, 0x26902564,\
  0x28202808, 0x2a442894, 0x40044001, 0x40184010, 0x40244021, 0x40484040, 0x40604056, 0x40844081,\
  0x41004090, 0x41614120, 0x41854180, 0x42104201, 0x42564248, 0x44004268, 0x44204408, 0x44994480,\
  0x45244512, 0x48014600, 0x48104804, 0x48454840, 0x49584900, 0x49824961, 0x4a904a45, 0x50085000,\
  0x50195011, 0x50805020, 0x51045088, 0x51a45142, 0x54905291, 0x550a5492, 0x56545601, 0x58115800,\
  0x58645819, 0x5a085940, 0x60106004, 0x60686040, 0x61556100, 0x62606218, 0x64056400, 0x65126510,\
  0x68426584, 0x80028000, 0x8041800a, 0x81048082, 0x81408118, 0x84018211, 0x84108404, 0x84408415,\
  0x85008460, 0x85948546, 0x86408609, 0x88028660, 0x8a118904, 0x90109004, 0x90409024, 0x911690a1,\
  0x92459180, 0x94229400, 0x95519444, 0x99209881, 0xa050a002, 0xa109a085, 0xa418a200, 0xa904a850
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void iq2_xxs_decode(const uint8_t *block, float *out) {
    static const uint32_t grid[] = {FMT_GRID};
    for (int i = 0; i < 256; i++) {
        const uint8_t *unit = block + 2 + 8 * (i / 32);
        uint32_t w = block_u32(unit + 4), signs = octet_signs(w >> 7 * (i / 8 % 4) & 127);
        float scale = block_f16(block) * (0.5f + (float)(w >> 28)) * 0.25f;
        float y = scale * (float)grid_octet(grid_entry(grid, unit[i / 8 % 4]), i % 8);
        out[i] = signs >> i % 8 & 1 ? -y : y;
    }
}
static void iq2_xxs_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 64 * n, row + 2, 64);
        memcpy(plane[1] + 2 * n, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"
#include "lib/grid.glsl"

struct FmtUnit { uvec2 q; uint d; };

FmtUnit fmt_load(uint i) { return FmtUnit(w_2[PLANE0 / 8u + i], w_u16(PLANE1, i >> 3)); }
uint fmt_code4(FmtUnit u, uint k) {
    uint octet = k >> 1;
    uint signs = octet_signs(u.q.y >> 7u * octet & 127u);
    uint entry = u.q.x >> 8u * octet & 255u;
    return signed4(grid_octet4(grid_entry(entry), k & 1u), signs >> 4u * (k & 1u));
}
vec2 fmt_scale(FmtUnit u) { return vec2(f16x2(u.d).x * (0.125 + 0.25 * float(u.q.y >> 28))); }
#endif
