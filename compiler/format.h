/* format.h - weight formats: GGUF blocks, their exact decoding, and the planes that kernels read.
 *
 * Each format is one file, kernels/formats/NAME.h, in the common subset of C and GLSL, compiled
 * here as C and included by kernels as GLSL. A matrix [rows][k] (k fastest) is handled in units of
 * 32 weights of one row; k is padded with zero weights to a multiple of 32. Packed form: a few
 * planes, each an array over units, in row order: plane p holds `plane_bytes[p]` bytes for every
 * `plane_span[p]` weights (a multiple of 32; 0: for every row). Planes of one part follow each
 * other, each starting at a multiple of 16 bytes.
 *
 * A format may have outliers: a share of each row's weights stands beside its blocks as f16, and is
 * zero in them. They are words, the column in the low half, by rising column; as many in every row.
 * In the packed form they are the last plane. A format may have scales of columns, by which its
 * decoded weights are multiplied; they are not in the blocks. No format has both. */
#ifndef QCC_FORMAT_H
#define QCC_FORMAT_H
#include "util.h"

enum { FORMAT_MAX_PLANES = 4, FORMAT_UNIT = 32, FORMAT_OUTLIER_COLUMNS = 1 << 16 };

typedef struct Format {
    const char *name; /* "q4_k": the file's name; printed in upper case for GGUF formats */
    int gguf_type;    /* tensor type id, or -1 for qcc's own */
    uint32_t block_n; /* weights per GGUF block */
    uint32_t block_bytes;
    uint32_t n_planes;
    uint32_t plane_bytes[FORMAT_MAX_PLANES];
    uint32_t plane_span[FORMAT_MAX_PLANES];
    bool codes; /* weights are int8 codes x scale (+ minimum): integer dot products apply */
    uint32_t factor_plane; /* f32 for every row, times the scale of a whole matrix; 0: none */
    bool columns; /* columns have scales too, f32, in the last plane, once for all rows of a part */
    uint32_t outliers;     /* their share of a row, in millionths */
    uint32_t shared_bytes; /* of the codebook that kernels hold in shared memory, or 0 */
    /* Exact decoding of one block to block_n floats. */
    void (*decode)(const uint8_t *block, float *out);
    /* Packs the blocks that hold one row, k weights. plane[p] points at this row's first byte in
     * plane p. Rows of 2-byte planes may share a 32-bit word with their neighbours, which is why
     * this is byte-addressed. */
    void (*pack)(const uint8_t *row, uint32_t k, uint8_t *const plane[]);
    /* Makes the blocks of a row of k weights, finite; NULL where weights come in this format only.
     * Ties and order are fixed. */
    void (*quantize)(const float *x, uint32_t k, uint8_t *row);
} Format;

extern const Format *const formats[]; /* NULL-terminated, generated from kernels/formats */
const Format *format_by_gguf_type(uint32_t type); /* NULL if unknown */
const Format *format_by_name(const char *name);
/* The same format with another share of outliers, in millionths; it must have some. */
const Format *format_with_outliers(Arena *a, const Format *f, uint32_t share);
/* "Q4_K", or "type 36 (removed from the format)" and the like. */
const char *format_gguf_type_name(Arena *a, uint32_t type);

/* Layout of a part of n_rows rows: offset of each plane in bytes, and the total, a multiple of
 * 16. */
uint64_t format_layout(const Format *f, uint64_t n_rows, uint32_t k,
                       uint64_t offset[FORMAT_MAX_PLANES]);
uint64_t format_plane_row_bytes(const Format *f, uint32_t plane, uint32_t k); /* of a packed row */
uint64_t format_columns_bytes(uint32_t k);             /* of the plane of scales of columns */
uint32_t format_outliers(const Format *f, uint32_t k); /* of a row */
/* Rows of k weights as blocks: GGUF's, or qcc's own with the outliers behind them. */
uint64_t format_row_bytes(const Format *f, uint32_t k);
void format_decode_row(const Format *f, const uint8_t *row, uint32_t k, float *out);
void format_pack_row(const Format *f, const uint8_t *row, uint32_t k, uint8_t *const plane[]);
/* Puts zeros for the outliers into x. Weights are divided by the scales of columns before. */
void format_quantize_row(const Format *f, float *x, uint32_t k, uint8_t *row);
#endif
