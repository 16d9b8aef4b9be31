/* test_matvec.c - every candidate of matvec against f64 sums over the decoded weights. */
#include "../unit/check.h"
#include "matrix.h"
#include "../../kernels/lib/step.h"
#include <math.h>
#include <string.h>

typedef struct {
    uint32_t k, rows; /* outputs */
    uint32_t split, y0, y1;
    uint32_t prologue, epilogue;
    bool bias, res;
    uint32_t x_last; /* M, or 0 */
    uint32_t ns, hd; /* prologue 2 */
    uint32_t few;    /* this many candidates, in turn; 0: every one */
    const char *name;
} Shape;

static Harness *h;
static uint32_t seed = 1;
static double worst[N_INNER];

/* What the kernel sees as its input row, in f64. */
static double *shape_input(Arena *a, const Shape *s, const float *x, const float *nw) {
    double *v = ARENA_ARRAY(a, double, s->k), squares = 0;
    if (s->prologue == 2) {
        uint32_t heads = s->k / s->hd;
        const float *pair = x + (size_t)heads * s->ns * s->hd;
        for (uint32_t i = 0; i < s->k; i++) {
            uint32_t head = i / s->hd;
            double top = -1e30, sum = 0;
            for (uint32_t p = 0; p < s->ns; p++) top = fmax(top, pair[2 * (head * s->ns + p)]);
            for (uint32_t p = 0; p < s->ns; p++) {
                double f = exp(pair[2 * (head * s->ns + p)] - top);
                sum += f * pair[2 * (head * s->ns + p) + 1];
                v[i] += f * x[(head * s->ns + p) * s->hd + i % s->hd];
            }
            v[i] /= sum;
        }
        return v;
    }
    for (uint32_t i = 0; i < s->k; i++) v[i] = x[i], squares += v[i] * v[i];
    double factor = s->prologue == 1 ? 1 / sqrt(squares / s->k + 1e-5) : 1;
    for (uint32_t i = 0; i < s->k; i++) v[i] *= s->prologue == 1 ? factor * nw[i] : 1;
    return v;
}

static size_t x_words(const Shape *s) {
    if (s->prologue == 2) return (size_t)s->k * s->ns + 2 * s->k / s->hd * s->ns;
    return s->x_last ? (size_t)s->x_last * s->k : s->k;
}

static void shape_describe(KernelOp *op, const Shape *s, const Matrix *w) {
    op->op = "matvec";
    matrix_describe(op, w, s->epilogue == 1 ? 2 : 1);
    kernel_op_role(op, "x"), kernel_op_role(op, "y");
    kernel_op_uint(op, "SPLIT", s->split), kernel_op_uint(op, "Y0", s->y0),
        kernel_op_uint(op, "Y1", s->y1);
    kernel_op_uint(op, "PROLOGUE", s->prologue), kernel_op_uint(op, "EPILOGUE", s->epilogue);
    kernel_op_float(op, "EPS", 1e-5);
    kernel_op_uint(op, "X_LAST", s->x_last != 0);
    if (s->x_last)
        kernel_op_uint(op, "M", s->x_last), kernel_op_uint(op, "X_STRIDE", s->k),
            kernel_op_role(op, "step");
    if (s->prologue == 1) kernel_op_role(op, "nw");
    if (s->prologue == 2)
        kernel_op_uint(op, "NS", s->ns), kernel_op_uint(op, "HD", s->hd),
            kernel_op_uint(op, "N_HEAD", s->k / s->hd);
    if (s->bias) kernel_op_role(op, "bias");
    if (s->res) kernel_op_role(op, "res");
}

/* Inputs whose last partial result of each second head is empty. */
static float *partials(Arena *a, const Shape *s) {
    float *x = random_normals(a, x_words(s), &seed), *pair = x + (size_t)s->k * s->ns;
    for (uint32_t i = 0; i < s->k / s->hd * s->ns; i++) {
        bool empty = s->ns > 1 && i % (2 * s->ns) == s->ns - 1;
        pair[2 * i] = empty ? -1e30f : 5 * harness_normal(&seed);
        pair[2 * i + 1] = empty ? 0 : 1 + fabsf(harness_normal(&seed));
        for (uint32_t j = 0; empty && j < s->hd; j++) x[i * s->hd + j] = 0;
    }
    return x;
}

static double *expected(Arena *a, const Shape *s, const Matrix *w, const double *v,
                        const float *bias, const float *res, size_t n_y) {
    double *y = ARENA_ARRAY(a, double, n_y), *dot = ARENA_ARRAY(a, double, w->rows);
    for (uint32_t r = 0; r < w->rows; r++)
        for (uint32_t i = 0; i < s->k; i++) dot[r] += (double)w->value[(size_t)r * s->k + i] * v[i];
    for (size_t i = 0; i < n_y; i++) y[i] = (double)NAN;
    for (uint32_t r = 0; r < s->rows; r++) {
        uint32_t column = r < s->split ? s->y0 + r : s->y1 + r - s->split;
        y[column] = s->epilogue == 1 ? dot[r] / (1 + exp(-dot[r])) * dot[s->rows + r] : dot[r];
        y[column] += (s->bias ? bias[column] : 0) + (s->res ? res[column] : 0);
    }
    return y;
}

/* Of a single output: terms of one sign, since errors are relative to the sum. */
static float *uncancelled(float *x, const Matrix *w) {
    for (uint32_t i = 0; i < w->k; i++) x[i] = copysignf(x[i], w->value[i]);
    return x;
}

/* Relative error over the columns that are written; infinite if another one was. */
static double error_of(const float *got, const double *want, size_t n) {
    double error = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(want[i])) {
            if (!isnan(got[i])) return (double)INFINITY;
            continue;
        }
        double d = got[i] - want[i];
        error += d * d, sum += want[i] * want[i];
    }
    return error < (double)INFINITY ? sqrt(error / fmax(sum, 1e-300)) : (double)INFINITY;
}

static void case_run(const Shape *s, const HarnessCase *c, HarnessBuffer *b, uint32_t n_b, float *y,
                     const double *want, size_t n_y) {
    InnerKind kind = inner_kind(c->choice);
    const char *failed = harness_run(h, c, b, n_b);
    double e = failed ? 0 : error_of(y, want, n_y);
    CHECK(!failed, "%s, %s: %s", s->name, c->label, failed);
    CHECK(e < inner_limit[kind], "%s, %s: error %g", s->name, c->label, e);
    if (e > worst[kind] && isfinite(e)) worst[kind] = e;
}

static void shape_run(const Shape *s, const Matrix *w, const float *x, Accuracy accuracy) {
    Arena *a = arena_create();
    size_t n_y = s->split < s->rows ? s->y1 + s->rows - s->split : s->y0 + s->rows;
    n_y += 3; /* columns that stay as they are */
    float *nw = random_normals(a, s->k, &seed), *bias = random_normals(a, n_y, &seed);
    float *res = random_normals(a, n_y, &seed), *y = ARENA_ARRAY(a, float, n_y);
    float *random = s->prologue == 2 ? partials(a, s) : random_normals(a, x_words(s), &seed);
    if (!x) x = w->rows == 1 ? uncancelled(random, w) : random;
    uint32_t step[STEP_WORDS] = {0}, valid = s->x_last > 1 ? s->x_last - 1 : 1;
    step[STEP_POS] = 7, step[STEP_END] = 7 + valid;
    double *v = shape_input(a, s, s->x_last ? x + (size_t)(valid - 1) * s->k : x, nw);
    double *want = expected(a, s, w, v, bias, res, n_y);
    KernelOp op = {.accuracy = accuracy};
    shape_describe(&op, s, w);
    HarnessBuffer b[] = {matrix_buffer(w),
                         {"x", x, NULL, 4 * x_words(s)},
                         {"y", NULL, y, 4 * n_y},
                         {"nw", nw, NULL, 4 * s->k},
                         {"bias", bias, NULL, 4 * n_y},
                         {"res", res, NULL, 4 * n_y},
                         {"step", step, NULL, sizeof step}};
    HarnessCase *c;
    const char *why;
    uint32_t n = harness_cases(h, &op, &c, &why);
    CHECK(n > 0, "%s %s: no candidate: %s", s->name, op.format->name, why);
    if (s->few) n = harness_sample_few(c, n, s->few);
    for (uint32_t i = 0; i < n; i++) case_run(s, &c[i], b, sizeof b / sizeof *b, y, want, n_y);
    arena_destroy(a);
}

static void shape_random(const Shape *s, const Format *f, Accuracy accuracy) {
    Arena *a = arena_create();
    if (s->k % f->block_n == 0)
        shape_run(s, matrix_random(a, f, s->epilogue == 1 ? 2 * s->rows : s->rows, s->k, &seed),
                  NULL, accuracy);
    arena_destroy(a);
}

static const Shape each_format = {
    .k = 768, .rows = 17, .split = 17, .few = 1, .name = "each format"};
static const Shape each_digit = {.k = 1280, .rows = 7, .split = 7, .few = 3, .name = "one digit"};
/* Drawn twice, from those of each kernel in turn; QCC_THOROUGH=1 runs all. */
static const Shape each_candidate = {
    .k = 2048, .rows = 70, .split = 70, .few = 6, .name = "each candidate"};
/* Each of these for one format in turn. */
static const Shape variants[] = {
    {.k = 32, .rows = 1, .split = 1, .few = 1, .name = "one unit, one row"},
    {.k = 4096, .rows = 65, .split = 65, .few = 1, .name = "long rows"},
    {.k = 96,
     .rows = 19,
     .split = 11,
     .y0 = 1,
     .y1 = 17,
     .bias = true,
     .few = 1,
     .name = "split, bias"},
    {.k = 288,
     .rows = 64,
     .split = 64,
     .prologue = 1,
     .res = true,
     .few = 1,
     .name = "norm, residual"},
    {.k = 256,
     .rows = 257,
     .split = 257,
     .prologue = 1,
     .epilogue = 1,
     .few = 1,
     .name = "norm, swiglu"},
    {.k = 320,
     .rows = 17,
     .split = 17,
     .prologue = 2,
     .ns = 3,
     .hd = 64,
     .res = true,
     .few = 1,
     .name = "merge of 3 parts"},
    {.k = 768,
     .rows = 5,
     .split = 5,
     .prologue = 2,
     .ns = 1,
     .hd = 48,
     .bias = true,
     .res = true,
     .few = 1,
     .name = "merge of 1"},
    {.k = 1536,
     .rows = 33,
     .split = 10,
     .y0 = 0,
     .y1 = 40,
     .prologue = 1,
     .x_last = 5,
     .few = 1,
     .name = "norm of the last row"},
    {.k = 11008,
     .rows = 19,
     .split = 19,
     .prologue = 1,
     .res = true,
     .few = 1,
     .name = "longer than shared memory"},
    {.k = 100, .rows = 9, .split = 9, .prologue = 1, .x_last = 2, .few = 1, .name = "ragged rows"},
    {.k = 33, .rows = 9, .split = 9, .few = 1, .name = "odd rows"},
    {.k = 512, .rows = 67, .split = 67, .epilogue = 1, .y0 = 5, .few = 1, .name = "swiglu"},
};

static void variants_run(const Format *const *list) {
    uint32_t n_formats = 0;
    while (list[n_formats]) n_formats++;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const Format *f = NULL; /* the next one that can have such rows */
        for (uint32_t j = 0; j < n_formats && (!f || variants[i].k % f->block_n); j++)
            f = list[(13 * i + j) % n_formats];
        shape_random(&variants[i], f, i % 3 ? ACCURACY_EXACT : ACCURACY_FAST);
    }
}

int main(void) {
    Arena *a = arena_create();
    h = harness_open(a);
    if (!h) {
        SKIP("no Vulkan device");
        return check_done();
    }
    const Format *const *list = test_formats(a), *with_codes = list[0];
    for (const Format *const *f = list; *f; f++) {
        shape_random(&each_format, *f, ACCURACY_EXACT);
        if ((*f)->codes) shape_random(&each_format, *f, ACCURACY_FAST);
    }
    for (const Format *const *f = list; *f; f++) with_codes = (*f)->codes ? *f : with_codes;
    shape_random(&each_candidate, with_codes, ACCURACY_EXACT);
    shape_random(&each_candidate, list[0], ACCURACY_EXACT);
    shape_random(&each_digit, with_codes, ACCURACY_FAST);
    variants_run(list);
    printf("largest errors:");
    for (int i = 0; i < N_INNER; i++) printf(" %s %.2g", inner_name[i], worst[i]);
    printf("\n");
    arena_destroy(a);
    return check_done();
}
