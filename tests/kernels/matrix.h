/* matrix.h - weight matrices for kernel tests: GGUF blocks, what they mean, and the packed part
 * that kernels read. */
#ifndef QCC_TEST_MATRIX_H
#define QCC_TEST_MATRIX_H
#include "../unit/formats.h"
#include "harness.h"

typedef struct {
    const Format *format;
    uint32_t rows, k;
    const uint8_t *blocks; /* [rows][format_row_bytes] */
    float *columns;        /* [k] scales of columns if the format has them, or NULL */
    float *value;          /* [rows][k] */
    uint8_t *packed;
    size_t packed_bytes;
    uint64_t plane[FORMAT_MAX_PLANES];
} Matrix;

/* Random blocks whose weights are finite and of ordinary size. */
Matrix *matrix_random(Arena *a, const Format *f, uint32_t rows, uint32_t k, uint32_t *seed);
/* Blocks given: `bytes` of them must be rows * row bytes. */
Matrix *matrix_of(Arena *a, const Format *f, uint32_t rows, uint32_t k, const uint8_t *blocks);
/* y[m][r] = sum of value[r][i] x[m][i], in f64. */
void matrix_multiply(const Matrix *w, const float *x, size_t x_stride, uint32_t m, double *y);
/* Role w and the constants that describe it: K, ROWS (those of one of `n_parts` equal parts of the
 * rows), PLANE0.. */
void matrix_describe(KernelOp *op, const Matrix *w, uint32_t n_parts);
HarnessBuffer matrix_buffer(const Matrix *w);

/* How a matrix kernel multiplies, and the relative RMS error that it may have. */
typedef enum { INNER_F32, INNER_TWO_DIGITS, INNER_F16, INNER_ONE_DIGIT, N_INNER } InnerKind;
InnerKind inner_kind(const KernelChoice *c);
extern const char *const inner_name[N_INNER];
extern const double inner_limit[N_INNER];

float *random_normals(Arena *a, size_t n, uint32_t *seed);
#endif
