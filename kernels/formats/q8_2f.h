/* q8_2f.h - qcc's own: int8 codes with one f32 scale for the row and one for the column. Planes 0
 * and 1: see row8_pack. Plane 2: scales of the columns, f32, once for all rows. A block is the
 * row's scale and 32 codes. */
#define FMT_GGUF_TYPE -1
#define FMT_BLOCK_N 32
#define FMT_BLOCK_BYTES 36
#define FMT_N_PLANES 3
#define FMT_PLANE_BYTES 32, 4, 4
#define FMT_PLANE_SPAN 32, 0, 0
#define FMT_COLUMNS 1
#define FMT_CODES 1
#ifdef __STDC_VERSION__
#include "../lib/format.h"

static void q8_2f_decode(const uint8_t *block, float *out) { row8_decode(block, out); }
static void q8_2f_quantize(const float *x, uint32_t k, uint8_t *row) { row8_quantize(x, k, row); }
static void q8_2f_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    row8_pack(row, k, plane);
}
#else
#include "lib/row8.glsl"
#endif
