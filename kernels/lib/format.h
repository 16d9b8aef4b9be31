/* format.h - what the C sections of formats/NAME.h need: fields of blocks, exact conversions, writing planes.
 *
 * Blocks are little-endian and unaligned; the host is little-endian too. */
#ifndef QCC_KERNELS_FORMAT_H
#define QCC_KERNELS_FORMAT_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t block_u16(const uint8_t *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }
static inline uint32_t block_u32(const uint8_t *b) { return block_u16(b) | block_u16(b + 2) << 16; }
static inline float bits_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE binary16, subnormals exact. */
static inline float f16_float(uint32_t h) {
    uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3ffu;
    if (e == 0) return m ? bits_float(sign | 0x3f800000u) * ((float)m * 0x1p-24f) : bits_float(sign);
    if (e == 31) return bits_float(sign | 0x7f800000u | (m ? m << 13 | 0x400000u : 0));
    return bits_float(sign | (e + 112) << 23 | m << 13);
}
static inline float block_f16(const uint8_t *b) { return f16_float(block_u16(b)); }

/* The nearest binary16, ties to even; too large becomes the largest finite number. */
static inline uint32_t float_f16(float x) {
    uint32_t bits, sign;
    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 16 & 0x8000u, bits &= 0x7fffffffu;
    if (bits >= 0x477ff000u) return sign | 0x7bffu;
    if (bits < 0x38800000u) { /* subnormal: in units of 2^-24; the sum with 2^23 * 2^-24 rounds */
        float v = bits_float(bits) + 0.5f;
        memcpy(&bits, &v, sizeof bits);
        return sign | (bits - 0x3f000000u);
    }
    return sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
}
static inline void put_f16(uint8_t *b, float x) {
    uint32_t h = float_f16(x);
    b[0] = (uint8_t)h, b[1] = (uint8_t)(h >> 8);
}

/* Nibbles of 32 weights in the order of kernels: byte 4w + j of the plane holds weight 8w + j low and 8w + 4 + j high. */
static inline void pack_nibbles(const uint8_t code[32], uint8_t *out) {
    for (int w = 0; w < 4; w++)
        for (int j = 0; j < 4; j++) out[4 * w + j] = (uint8_t)(code[8 * w + j] | code[8 * w + 4 + j] << 4);
}

/* Two-bit fields of 32 weights: byte 4w + j holds weight 16w + 4p + j in bits 2p, 2p + 1 (p = 0..3). */
static inline void pack_pairs(const uint8_t code[32], uint8_t *out) {
    for (int w = 0; w < 2; w++)
        for (int j = 0; j < 4; j++)
            out[4 * w + j] = (uint8_t)(code[16 * w + j] | code[16 * w + 4 + j] << 2 | code[16 * w + 8 + j] << 4 |
                                       code[16 * w + 12 + j] << 6);
}

/* Five-bit numbers of 32 weights, read by fives4 of lib/weights.glsl. Byte i of `out` has that of weight i in bits 0..4 and the high three
 * bits of weight 16 + i in bits 5..7; byte j of `low` the low two bits of weight 16 + 4w + j in bits 2w, 2w + 1. */
static inline void pack_fives(const uint8_t code[32], uint8_t out[16], uint8_t low[4]) {
    memset(low, 0, 4);
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)(code[i] | code[16 + i] >> 2 << 5);
        low[i % 4] = (uint8_t)(low[i % 4] | (code[16 + i] & 3) << 2 * (i / 4));
    }
}

/* Five ternary digits in a byte: with v = 81 t0 + 27 t1 + 9 t2 + 3 t3 + t4 it is 256 v / 243 rounded
 * up. As a fraction of 256 its first ternary digit is t0, and that of 3^n times it, modulo 1, is tn:
 * ternary_code4 of lib/weights.glsl. */
static inline uint8_t ternary_byte(const int t[5]) {
    int v = 0;
    for (int n = 0; n < 5; n++) v = 3 * v + t[n];
    return (uint8_t)((256 * v + 242) / 243);
}

/* The values of IQ4_NL and IQ4_XS, and their numbers for kernels: there each bit of the value is a
 * short formula of the number's bits, iq4_code4 of lib/weights.glsl, and takes no table. */
static const int8_t iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
static const uint8_t iq4_number[16] = {11, 4, 9, 6, 2, 5, 0, 7, 8, 1, 12, 3, 14, 10, 13, 15};

/* The same for MXFP4 and NVFP4: twice the value of E2M1, and fp4_code4. Minus zero is zero. */
static const int8_t fp4_value[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                     0, -1, -2, -3, -4, -6, -8, -12};
static const uint8_t fp4_number[16] = {0, 14, 4, 6, 11, 3, 8, 1, 12, 7, 5, 15, 13, 2, 10, 9};

/* Nibbles of 32 weights as numbers; `q` has weight i low and weight 16 + i high. */
static inline void pack_numbers(const uint8_t q[16], const uint8_t number[16], uint8_t *out) {
    uint8_t code[32];
    for (int i = 0; i < 16; i++) {
        code[i] = number[q[i] & 15];
        code[16 + i] = number[q[i] >> 4];
    }
    pack_nibbles(code, out);
}

/* Q4_K and Q5_K: six-bit scale and minimum of the b-th 32 weights of a block. */
static inline int block_scale(const uint8_t *block, int b) {
    return b < 4 ? block[4 + b] & 63 : (block[8 + b] & 15) | block[b] >> 6 << 4;
}
static inline int block_min(const uint8_t *block, int b) {
    return b < 4 ? block[8 + b] & 63 : block[8 + b] >> 4 | block[4 + b] >> 6 << 4;
}
/* Their head for kernels, read by head_scale and head_min of lib/weights.glsl: d and dmin, f16; a byte for each 32 weights with
 * the low four bits of scale (low) and minimum; a nibble for each with the high two bits of both. */
static inline void pack_head(const uint8_t *block, uint8_t out[16]) {
    memcpy(out, block, 4);
    memset(out + 12, 0, 4);
    for (int b = 0; b < 8; b++) {
        int scale = block_scale(block, b), min = block_min(block, b);
        out[4 + b] = (uint8_t)((scale & 15) | (min & 15) << 4);
        out[12 + b / 2] |= (uint8_t)((scale >> 4 | min >> 4 << 2) << 4 * (b % 2));
    }
}

/* Int8 codes with one f32 scale for the row: q8_row and q8_2f. A block is the scale and 32 codes. */
static inline void row8_decode(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[4 + i] * bits_float(block_u32(block));
}
static inline void row8_quantize(const float *x, uint32_t k, uint8_t *row) {
    float most = 0;
    for (uint32_t i = 0; i < k; i++) most = fmaxf(most, fabsf(x[i]));
    float d = most / 127;
    if (isinf(127 * d)) d = nextafterf(d, 0);
    for (uint32_t i = 0; i < k; i++) {
        uint8_t *block = row + i / 32 * 36;
        if (i % 32 == 0) memcpy(block, &d, sizeof d);
        double code = d > 0 ? nearbyint((double)x[i] / (double)d) : 0;
        block[4 + i % 32] = (uint8_t)(int8_t)fmax(-127, fmin(127, code));
    }
}
/* Plane 0: codes. Plane 1: the scale of each row. */
static inline void row8_pack(const uint8_t *row, uint32_t k, uint8_t *const plane[]) {
    memcpy(plane[1], row, 4);
    for (uint32_t u = 0; u < k / 32; u++, row += 36) memcpy(plane[0] + 32 * u, row + 4, 32);
}

/* Codebooks of eight two-bit values an entry, two entries a word, as lib/grid.glsl reads them. */
static inline uint32_t grid_entry(const uint32_t *grid, uint32_t i) { return grid[i / 2] >> 16 * (i % 2) & 0xffff; }
static inline uint32_t grid_octet(uint32_t entry, int i) { /* a magnitude: 8, 25 or 43 */
    uint32_t b = entry >> 2 * i & 3;
    return 8 + 17 * b + b / 2;
}
/* Eight signs, of which seven are stored: an even number is minus. */
static inline uint32_t octet_signs(uint32_t stored) {
    return stored | (uint32_t)__builtin_parity(stored) << 7;
}

/* Copies elements of a plain array and pads the row to whole units with zeros. */
static inline void pack_plain(const uint8_t *row, uint32_t k, uint32_t element, uint8_t *out) {
    memcpy(out, row, (size_t)k * element);
    memset(out + (size_t)k * element, 0, (size_t)((k + 31) / 32 * 32 - k) * element);
}
#endif
