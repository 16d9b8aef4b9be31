/* test_matmul.c - candidates of matmul against f64 sums over the decoded weights. */
#include "../unit/check.h"
#include "matrix.h"
#include <math.h>
#include <string.h>

typedef struct {
    uint32_t m, k, rows, split, y0, y1, x_stride, y_stride;
    bool bias, res, all;
} Shape;

static Harness *h;
static uint32_t seed = 1;
static double worst[N_INNER];

static void case_run(const Shape *s, const HarnessCase *c, HarnessBuffer *b, float *y,
                     const double *want) {
    const char *failed = harness_run(h, c, b, 5);
    double error = 0, sum = 0;
    size_t stray = 0, n = (size_t)s->m * s->y_stride;
    for (size_t i = 0; !failed && i < n; i++) {
        if (isnan(want[i])) {
            stray += isnan(y[i]) ? 0 : 1;
            continue;
        }
        error += (y[i] - want[i]) * (y[i] - want[i]), sum += want[i] * want[i];
    }
    double e = sqrt(error / fmax(sum, 1e-300));
    InnerKind kind = inner_kind(c->choice);
    CHECK(!failed, "m %u k %u rows %u, %s: %s", s->m, s->k, s->rows, c->label, failed);
    CHECK(stray == 0, "m %u k %u rows %u, %s: %zu columns of others written", s->m, s->k, s->rows,
          c->label, stray);
    CHECK(e < inner_limit[kind], "m %u k %u rows %u, %s: error %g", s->m, s->k, s->rows, c->label,
          e);
    if (e > worst[kind]) worst[kind] = e;
}

static double *expected(Arena *a, const Shape *s, const Matrix *w, const float *x,
                        const float *bias, const float *res) {
    size_t n = (size_t)s->m * s->y_stride;
    double *dot = ARENA_ARRAY(a, double, (size_t)s->m * s->rows), *want = ARENA_ARRAY(a, double, n);
    matrix_multiply(w, x, s->x_stride, s->m, dot);
    for (size_t i = 0; i < n; i++) want[i] = (double)NAN;
    for (uint32_t m = 0; m < s->m; m++)
        for (uint32_t r = 0; r < s->rows; r++) {
            size_t column = r < s->split ? s->y0 + r : s->y1 + r - s->split,
                   i = m * s->y_stride + column;
            want[i] = dot[(size_t)m * s->rows + r] + (s->bias ? bias[column] : 0) +
                      (s->res ? res[i] : 0);
        }
    return want;
}

static void shape_run(const Shape *s, const Format *f, Accuracy accuracy) {
    Arena *a = arena_create();
    Matrix *w = matrix_random(a, f, s->rows, s->k, &seed);
    size_t n_x = (size_t)(s->m - 1) * s->x_stride + s->k, n_y = (size_t)s->m * s->y_stride;
    float *x = random_normals(a, n_x, &seed), *bias = random_normals(a, s->y_stride, &seed);
    float *res = random_normals(a, n_y, &seed), *y = ARENA_ARRAY(a, float, n_y);
    double *want = expected(a, s, w, x, bias, res);
    KernelOp op = {.op = "matmul", .accuracy = accuracy};
    matrix_describe(&op, w, 1);
    op.flops *= s->m;
    kernel_op_role(&op, "x"), kernel_op_role(&op, "y");
    if (s->bias) kernel_op_role(&op, "bias");
    if (s->res) kernel_op_role(&op, "res");
    kernel_op_uint(&op, "M", s->m), kernel_op_uint(&op, "SPLIT", s->split);
    kernel_op_uint(&op, "Y0", s->y0), kernel_op_uint(&op, "Y1", s->y1);
    kernel_op_uint(&op, "X_STRIDE", s->x_stride), kernel_op_uint(&op, "Y_STRIDE", s->y_stride);
    HarnessBuffer b[] = {matrix_buffer(w),
                         {"x", x, NULL, 4 * n_x},
                         {"y", NULL, y, 4 * n_y},
                         {"bias", bias, NULL, 4 * s->y_stride},
                         {"res", res, NULL, 4 * n_y}};
    HarnessCase *c;
    const char *why;
    uint32_t n = harness_cases(h, &op, &c, &why);
    CHECK(n > 0, "m %u: no candidate: %s", s->m, why);
    if (!s->all) n = harness_sample(c, n);
    for (uint32_t i = 0; i < n; i++) case_run(s, &c[i], b, y, want);
    arena_destroy(a);
}

static const Shape each_format = {17, 256, 33, 33, 0, 0, 256, 33, false, false, false};
static const Shape each_candidate = {65, 512, 130, 100, 3, 110, 512, 142, true, true, true};
/* Each of these for one format in turn. */
static const Shape variants[] = {
    {1, 32, 1, 1, 0, 0, 32, 1, false, false, false},
    {2, 96, 3, 1, 2, 7, 100, 11, true, false, false},
    {5, 288, 64, 64, 0, 0, 288, 64, false, true, false},
    {64, 320, 65, 65, 1, 0, 321, 70, false, false, false},
    {16, 1536, 257, 17, 0, 17, 1536, 257, true, true, false},
    {33, 100, 9, 9, 0, 0, 101, 9, false, false, false},
};

static void variants_run(const Format *const *list, uint32_t n_formats) {
    for (uint32_t i = 0; i < sizeof variants / sizeof *variants; i++)
        for (uint32_t j = 0; j < n_formats; j++) { /* the first one that can have such rows */
            const Format *f = list[(13 * i + j) % n_formats];
            if (variants[i].k % f->block_n) continue;
            shape_run(&variants[i], f, i % 2 ? ACCURACY_FAST : ACCURACY_EXACT);
            break;
        }
}

int main(void) {
    Arena *a = arena_create();
    h = harness_open(a);
    if (!h) {
        SKIP("no Vulkan device");
        return check_done();
    }
    const Format *const *list = test_formats(a);
    uint32_t n_formats = 0;
    for (; list[n_formats]; n_formats++) {
        shape_run(&each_format, list[n_formats], ACCURACY_EXACT);
        if (list[n_formats]->codes) shape_run(&each_format, list[n_formats], ACCURACY_FAST);
    }
    shape_run(&each_candidate, list[n_formats - 1], ACCURACY_EXACT);
    if (harness_target(h)->caps[CAP_COOPMAT])
        for (uint32_t i = 0; i < n_formats; i++) shape_run(&each_candidate, list[i], ACCURACY_FAST);
    variants_run(list, n_formats);
    printf("largest errors:");
    for (int i = 0; i < N_INNER; i++) printf(" %s %.2g", inner_name[i], worst[i]);
    printf("\n");
    arena_destroy(a);
    return check_done();
}
