/* matrix.c - see matrix.h. */
#include "matrix.h"
#include <math.h>

float *random_normals(Arena *a, size_t n, uint32_t *seed) {
    float *x = ARENA_ARRAY(a, float, n);
    for (size_t i = 0; i < n; i++) x[i] = harness_normal(seed);
    return x;
}

static bool ordinary(const float *v, uint32_t n) {
    float most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) return false;
        most = fmaxf(most, fabsf(v[i]));
    }
    return most >= 0.01f && most <= 64;
}

/* Powers of two: products with them are exact. */
static void columns_make(Arena *a, Matrix *w) {
    w->columns = ARENA_ARRAY(a, float, w->k);
    for (uint32_t i = 0; i < w->k; i++) w->columns[i] = ldexpf(1, (int)(i * 7 % 5) - 2);
    memcpy(w->packed + w->plane[w->format->n_planes - 1], w->columns, 4ul * w->k);
    for (size_t i = 0; i < (size_t)w->rows * w->k; i++) w->value[i] *= w->columns[i % w->k];
}

Matrix *matrix_of(Arena *a, const Format *f, uint32_t rows, uint32_t k, const uint8_t *blocks) {
    Matrix *w = ARENA_NEW(a, Matrix);
    *w = (Matrix){.format = f, .rows = rows, .k = k, .blocks = blocks};
    w->packed_bytes = (size_t)format_layout(f, rows, k, w->plane);
    w->packed = arena_alloc(a, w->packed_bytes);
    w->value = ARENA_ARRAY(a, float, (size_t)rows *k);
    for (uint32_t r = 0; r < rows; r++) {
        const uint8_t *row = blocks + r * format_row_bytes(f, k);
        uint8_t *plane[FORMAT_MAX_PLANES];
        for (uint32_t p = 0; p < f->n_planes; p++)
            plane[p] = w->packed + w->plane[p] + r * format_plane_row_bytes(f, p, k);
        format_pack_row(f, row, k, plane);
        format_decode_row(f, row, k, w->value + (size_t)r * k);
    }
    if (f->columns) columns_make(a, w);
    return w;
}

Matrix *matrix_random(Arena *a, const Format *f, uint32_t rows, uint32_t k, uint32_t *seed) {
    size_t n = (size_t)rows * (k / f->block_n);
    uint8_t *blocks = arena_alloc(a, rows * format_row_bytes(f, k));
    if (f->quantize) { /* blocks of a row may have a scale in common */
        for (uint32_t r = 0; r < rows; r++)
            format_quantize_row(f, random_normals(a, k, seed), k,
                                blocks + r * format_row_bytes(f, k));
        return matrix_of(a, f, rows, k, blocks);
    }
    float *v = ARENA_ARRAY(a, float, f->block_n);
    for (size_t i = 0; i < n; i++) do {
            for (uint32_t j = 0; j < f->block_bytes; j++)
                blocks[i * f->block_bytes + j] = (uint8_t)(harness_random(seed) >> 11);
            f->decode(blocks + i * f->block_bytes, v);
        } while (!ordinary(v, f->block_n));
    return matrix_of(a, f, rows, k, blocks);
}

void matrix_multiply(const Matrix *w, const float *x, size_t x_stride, uint32_t m, double *y) {
    for (uint32_t t = 0; t < m; t++)
        for (uint32_t r = 0; r < w->rows; r++) {
            double sum = 0;
            for (uint32_t i = 0; i < w->k; i++)
                sum += (double)w->value[(size_t)r * w->k + i] * x[t * x_stride + i];
            y[(size_t)t * w->rows + r] = sum;
        }
}

void matrix_describe(KernelOp *op, const Matrix *w, uint32_t n_parts) {
    kernel_op_role(op, "w");
    kernel_op_weights(op, w->format, w->k, w->plane);
    kernel_op_uint(op, "ROWS", w->rows / n_parts);
    op->bytes = w->packed_bytes;
    op->flops = 2.0 * w->rows * w->k;
}

HarnessBuffer matrix_buffer(const Matrix *w) {
    return (HarnessBuffer){"w", w->packed, NULL, w->packed_bytes};
}

const char *const inner_name[N_INNER] = {"f32", "two digits", "f16", "one digit"};
const double inner_limit[N_INNER] = {1e-5, 1e-4, 2e-3, 2e-2};

InnerKind inner_kind(const KernelChoice *c) {
    if (strstr(c->file, "coopmat") || (c->inner && strcmp(c->inner, "f16") == 0)) return INNER_F16;
    for (uint32_t i = 0; i < c->n_knobs; i++)
        if (strcmp(c->knobs[i].name, "DIGITS") == 0)
            return c->knobs[i].value == 1 ? INNER_ONE_DIGIT : INNER_TWO_DIGITS;
    return INNER_F32;
}
