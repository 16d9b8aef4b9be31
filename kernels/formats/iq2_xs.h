/* iq2_xs.h - IQ2_XS: d / 4 * (scale + 1/2) * magnitude: eight magnitudes are an entry of a
 * codebook of 512, with an even number of minus signs; four-bit scales of 16 weights, blocks of
 * 256.
 * Plane 0, for each eight weights: nine bits of entry and seven signs. Plane 1: a byte for each 32
 * weights with two scales. Plane 2: d, f16. */
#define FMT_GGUF_TYPE 17
#define FMT_BLOCK_N 256
#define FMT_BLOCK_BYTES 74
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 8, 8, 2
#define FMT_PLANE_SPAN 32, 256, 256
#define FMT_CODES 1
#define FMT_SHARED_BYTES 1024
/* Two bits for each weight: the magnitude is 8, 25 or 43. */
#define FMT_GRID \
  0x00020000, 0x00080005, 0x0011000a, 0x00160014, 0x00200019, 0x00250022, 0x00410028, 0x00460044,\
  0x00500049, 0x00550052, 0x00610058, 0x00800064, 0x00850082, 0x00910088, 0x00990094, 0x010100a0,\
  0x01060104, 0x01100109, 0x01150112, 0x011a0118, 0x01240121, 0x01420140, 0x01480145, 0x01540151,\
  0x01680160, 0x01840181, 0x02000190, 0x02050202, 0x02110208, 0x02200214, 0x02440241, 0x02550250,\
  0x028a0280, 0x04040401, 0x04090406, 0x04120410, 0x04180415, 0x04240421, 0x04420440, 0x04480445,\
  0x04540451, 0x04600456, 0x04840481, 0x05000490, 0x05050502, 0x05110508, 0x05200514, 0x05440541,\
  0x05610550, 0x06010580, 0x06100604, 0x06400626, 0x06840642, 0x08020800, 0x08080805, 0x0811080a,\
  0x08200814, 0x08410825, 0x08500844, 0x08800858, 0x08aa08a0, 0x09040901, 0x09400910, 0x09890981,\
  0x0a200a00, 0x0a960a28, 0x10010aa0, 0x10061004, 0x10101009, 0x10151012, 0x10211018, 0x10401024,\
  0x10451042, 0x10511048, 0x10601054, 0x1081106a, 0x10901084, 0x11021100, 0x11081105, 0x11141111,\
  0x11411120, 0x11501144, 0x11941180, 0x12011196, 0x12061204, 0x12401210, 0x14001260, 0x14051402,\
  0x14111408, 0x14201414, 0x14441441, 0x14501449, 0x14801464, 0x15041501, 0x15401510, 0x16141600,\
  0x18011649, 0x18101804, 0x18401812, 0x18861854, 0x19051900, 0x1a511966, 0x20001aa9, 0x20052002,\
  0x200a2008, 0x20142011, 0x20412020, 0x20502044, 0x20a02080, 0x21042101, 0x21402110, 0x21652148,\
  0x22222200, 0x22a82280, 0x24042401, 0x24292410, 0x25002440, 0x25522541, 0x26012599, 0x26a6261a,\
  0x28082800, 0x2820280a, 0x28882855, 0x296828a2, 0x2a082990, 0x2a822a20, 0x2a8a2a88, 0x40044001,\
  0x40094006, 0x40124010, 0x40184015, 0x40244021, 0x40424040, 0x40484045, 0x4051404a, 0x40604054,\
  0x40814065, 0x40904084, 0x41024100, 0x41084105, 0x41144111, 0x41414120, 0x41504144, 0x41854180,\
  0x420141a2, 0x42104204, 0x42294212, 0x44004240, 0x44054402, 0x44114408, 0x44194414, 0x44414420,\
  0x44504444, 0x44944480, 0x45044501, 0x45244510, 0x459a4540, 0x460a4600, 0x46504644, 0x48044801,\
  0x48404810, 0x48544845, 0x49004862, 0x49444911, 0x49694950, 0x50004a04, 0x50055002, 0x50115008,\
  0x50205014, 0x50415028, 0x50505044, 0x51015080, 0x51105104, 0x51405115, 0x52005142, 0x52aa5244,\
  0x54045401, 0x54215410, 0x54605440, 0x54a15481, 0x55085500, 0x55885580, 0x56685621, 0x580056a1,\
  0x58415814, 0x58995850, 0x5940591a, 0x5a855942, 0x60046001, 0x60406010, 0x60626054, 0x60a96086,\
  0x62246100, 0x6292624a, 0x64166400, 0x65406510, 0x65a46545, 0x686a6801, 0x6a066925, 0x6a626a54,\
  0x80028000, 0x80088005, 0x80148011, 0x802a8020, 0x80448041, 0x80808050, 0x80a88082, 0x810180aa,\
  0x81068104, 0x81408110, 0x81598151, 0x82208200, 0x82828280, 0x82a882a0, 0x84048401, 0x84128410,\
  0x84408415, 0x84898460, 0x85448500, 0x861885a5, 0x8800866a, 0x88258808, 0x8880885a, 0x88a88882,\
  0x8a228906, 0x8a888a80, 0x8aa88a96, 0x90049001, 0x90409010, 0x90849056, 0x91229100, 0x92569164,\
  0x94009289, 0x94449405, 0x94589450, 0x95909529, 0x96419592, 0x98a69851, 0x9a159949, 0xa0009a60,\
  0xa008a002, 0xa020a00a, 0xa0a0a02a, 0xa159a151, 0xa200a1a6, 0xa208a202, 0xa280a22a, 0xa440a2a0,\
  0xa665a495, 0xa80aa698, 0xa822a820, 0xa8a0a828, 0xa904a8a8, 0xa986a984, 0xaa2aaa28, 0xaaaaaa91
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void iq2_xs_decode(const uint8_t *block, float *out) {
    static const uint32_t grid[] = {FMT_GRID};
    for (int i = 0; i < 256; i++) {
        uint32_t w = block_u16(block + 2 + 2 * (i / 8)), signs = octet_signs(w >> 9);
        int s = block[66 + i / 32] >> 4 * (i / 16 % 2) & 15;
        float scale = block_f16(block) * (0.5f + (float)s) * 0.25f;
        float y = scale * (float)grid_octet(grid_entry(grid, w & 511), i % 8);
        out[i] = signs >> i % 8 & 1 ? -y : y;
    }
}
static void iq2_xs_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    for (uint32_t n = 0; n < k / 256; n++, row += FMT_BLOCK_BYTES) {
        memcpy(plane[0] + 64 * n, row + 2, 64);
        memcpy(plane[1] + 8 * n, row + 66, 8);
        memcpy(plane[2] + 2 * n, row, 2);
    }
}
#else
#include "lib/f16.glsl"
#include "lib/weights.glsl"
#include "lib/grid.glsl"

struct FmtUnit { uvec2 q; uint scale; uint d; };

FmtUnit fmt_load(uint i) {
    uint scale = w_1[PLANE1 / 4u + (i >> 2)] >> 8u * (i & 3u);
    return FmtUnit(w_2[PLANE0 / 8u + i], scale, w_u16(PLANE2, i >> 3));
}
uint fmt_code4(FmtUnit u, uint k) {
    uint q = u.q[k >> 2] >> 8u * (k & 2u) & 0xffffu;
    uint signs = octet_signs(q >> 9) >> 4u * (k & 1u);
    return signed4(grid_octet4(grid_entry(q & 511u), k & 1u), signs);
}
vec2 fmt_scale(FmtUnit u) {
    return f16x2(u.d).x * (0.125 + 0.25 * vec2(u.scale & 15u, u.scale >> 4 & 15u));
}
#endif
