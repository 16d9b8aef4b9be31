/* time_matrix.c - times every candidate of matvec and matmul for one shape: what the order of the candidates in kernel headers is
 * based on.
 *
 *     time_matrix FORMAT K ROWS [M] [fast]        M > 1: matmul
 *
 * Prints microseconds, GB/s of packed weights and Tflop/s. Matrices that fit into a cache are read from there. */
#include "matrix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Matrix *matrix_repeated(Arena *a, const Format *f, uint32_t rows, uint32_t k) {
    uint32_t seed = 1, some = 16;
    Matrix *part = matrix_random(a, f, some, k, &seed);
    Matrix *w = ARENA_NEW(a, Matrix);
    *w = (Matrix){.format = f, .rows = rows, .k = k};
    w->packed_bytes = (size_t)format_layout(f, rows, k, w->plane);
    w->packed = arena_alloc(a, w->packed_bytes);
    for (uint32_t p = 0; p < f->n_planes; p++) {
        size_t row = (size_t)div_up(round_up(k, FORMAT_UNIT), f->plane_span[p]) * f->plane_bytes[p];
        for (uint32_t r = 0; r < rows; r++)
            memcpy(w->packed + w->plane[p] + r * row, part->packed + part->plane[p] + r % some * row, row);
    }
    return w;
}

int main(int argc, char **argv) {
    const Format *f = argc >= 4 ? format_by_name(argv[1]) : NULL;
    if (!f) return fprintf(stderr, "usage: time_matrix FORMAT K ROWS [M] [fast]\n"), 2;
    uint32_t k = (uint32_t)atoi(argv[2]), rows = (uint32_t)atoi(argv[3]), m = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
    Arena *a = arena_create();
    Harness *h = harness_open(a);
    if (!h) return fprintf(stderr, "no Vulkan device\n"), 3;
    Matrix *w = matrix_repeated(a, f, rows, k);
    uint32_t seed = 2;
    float *x = random_normals(a, (size_t)m * k, &seed), *y = ARENA_ARRAY(a, float, (size_t)m * rows);
    KernelOp op = {.op = m > 1 ? "matmul" : "matvec", .accuracy = argc > 5 ? ACCURACY_FAST : ACCURACY_EXACT};
    matrix_describe(&op, w, 1);
    op.flops *= m;
    kernel_op_role(&op, "x"), kernel_op_role(&op, "y");
    kernel_op_uint(&op, "SPLIT", rows), kernel_op_uint(&op, "Y0", 0), kernel_op_uint(&op, "Y1", 0);
    if (m > 1) {
        kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "X_STRIDE", k), kernel_op_uint(&op, "Y_STRIDE", rows);
    } else {
        kernel_op_uint(&op, "PROLOGUE", 0), kernel_op_uint(&op, "EPILOGUE", 0);
        kernel_op_uint(&op, "X_LAST", 0), kernel_op_float(&op, "EPS", 0);
    }
    HarnessBuffer b[] = {matrix_buffer(w), {"x", x, NULL, 4ul * m * k}, {"y", NULL, y, 4ul * m * rows}};
    HarnessCase *c;
    uint32_t n = harness_cases(h, &op, &c, NULL);
    for (uint32_t i = 0; i < n; i++) {
        double us = 0;
        if (strcmp(c[i].profile, "device")) continue;
        const char *failed = harness_time(h, &c[i], b, 3, 20, &us);
        if (failed) printf("%s: %s\n", c[i].label, failed);
        else printf("%9.2f us %7.0f GB/s %7.2f Tflop/s  %s\n", us, (double)w->packed_bytes / us / 1e3, op.flops / us / 1e6,
                    c[i].choice->label);
    }
    arena_destroy(a);
    return 0;
}
