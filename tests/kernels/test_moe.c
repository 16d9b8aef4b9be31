/* test_moe.c - topk, route_tiles, matvec_expert and combine against plain loops in double. */
#include "../unit/check.h"
#include "matrix.h"
#include <math.h>
#include <string.h>

static Harness *h;
static uint32_t seed = 1;
static double worst_topk, worst_combine, worst[N_INNER];

typedef struct {
    uint32_t expert;
    float weight;
} Chosen;

/* ---- topk ------------------------------------------------------------------------------------ */

/* The n_used largest in falling order, the lowest id first on ties, weights of the softmax
 * normalised. */
static void topk_expected(const float *x, uint32_t n, uint32_t used, uint32_t *id, double *weight) {
    double sum = 0, all = 0;
    for (uint32_t e = 0; e < n; e++) {
        uint32_t before = 0;
        for (uint32_t o = 0; o < n; o++) before += x[o] > x[e] || (x[o] == x[e] && o < e);
        if (before < used) id[before] = e;
    }
    for (uint32_t e = 0; e < n; e++) all += exp((double)x[e] - (double)x[id[0]]);
    for (uint32_t j = 0; j < used; j++)
        weight[j] = exp((double)x[id[j]] - (double)x[id[0]]) / all, sum += weight[j];
    for (uint32_t j = 0; j < used; j++) weight[j] /= fmax(sum, 6.103515625e-5);
}

static void topk_check(const char *label, const float *x, uint32_t n, uint32_t used,
                       const Chosen *got) {
    uint32_t *id = malloc(used * sizeof *id), wrong = 0;
    double *weight = malloc(used * sizeof *weight), error = 0;
    if (!id || !weight) abort();
    topk_expected(x, n, used, id, weight);
    for (uint32_t j = 0; j < used; j++) {
        wrong += got[j].expert != id[j];
        error = fmax(error, fabs((double)got[j].weight - weight[j]));
    }
    CHECK(wrong == 0, "%s: %u of %u experts differ", label, wrong, used);
    CHECK(error < 1e-6, "%s: weights are off by %g", label, error);
    worst_topk = fmax(worst_topk, error);
    free(id), free(weight);
}

/* Different ids, whatever the logits were. */
static void ids_check(const char *label, uint32_t n, uint32_t used, const Chosen *got) {
    uint32_t bad = 0;
    for (uint32_t j = 0; j < used; j++) {
        bad += got[j].expert >= n;
        for (uint32_t i = 0; i < j; i++) bad += got[i].expert == got[j].expert;
    }
    CHECK(bad == 0, "%s: %u bad ids for logits that are not finite", label, bad);
}

/* Rows in turn: ordinary, all equal, many ties, far apart, zeros of both signs. */
static void topk_fill(float *x, uint32_t row, uint32_t n) {
    for (uint32_t e = 0; e < n; e++) {
        float v = harness_normal(&seed);
        x[e] = row % 5 == 0   ? 3 * v
               : row % 5 == 1 ? 1.5f
               : row % 5 == 2 ? roundf(v)
               : row % 5 == 3 ? 1e4f * v
               : v > 0        ? 0.0f
                              : -0.0f;
    }
}

static void test_topk(uint32_t m, uint32_t n, uint32_t used, bool broken) {
    Arena *a = arena_create();
    KernelOp op = {.op = "topk"};
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "N_EXPERT", n),
        kernel_op_uint(&op, "N_USED", used);
    kernel_op_role(&op, "x"), kernel_op_role(&op, "route");
    float *x = ARENA_ARRAY(a, float, (size_t)m *n);
    Chosen *got = ARENA_ARRAY(a, Chosen, (size_t)m * used);
    for (uint32_t r = 0; r < m; r++) topk_fill(x + (size_t)r * n, r, n);
    static const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
    for (uint32_t i = 0; broken && i < m * n; i++)
        if (i < n || i % 3) x[i] = bad[i < n ? 0 : i % 4];
    HarnessBuffer b[] = {{"x", x, NULL, (size_t)m * n * 4},
                         {"route", NULL, got, (size_t)m * used * sizeof *got}};
    HarnessCase *c;
    const char *why;
    uint32_t n_cases = harness_cases(h, &op, &c, &why);
    CHECK(n_cases > 0, "topk: %s", why);
    if (m != 10) n_cases = harness_sample(c, n_cases);
    for (uint32_t i = 0; i < n_cases; i++) {
        const char *failed = harness_run(h, &c[i], b, 2);
        CHECK(!failed, "topk %u of %u, %s: %s", used, n, c[i].label, failed);
        for (uint32_t r = 0; r < m && !failed; r++) {
            if (broken) ids_check(c[i].label, n, used, got + (size_t)r * used);
            else topk_check(c[i].label, x + (size_t)r * n, n, used, got + (size_t)r * used);
        }
    }
    arena_destroy(a);
}

/* ---- route_tiles ----------------------------------------------------------------------------- */

/* Random choices of different experts, the first ones more often. */
static Chosen *random_route(Arena *a, uint32_t m, uint32_t n, uint32_t used) {
    Chosen *route = ARENA_ARRAY(a, Chosen, (size_t)m * used);
    for (uint32_t i = 0; i < m * used; i++) {
        bool again;
        do {
            uint32_t r = harness_random(&seed) >> 8,
                     most = harness_random(&seed) & 256 ? n : (n + 1) / 2;
            route[i] = (Chosen){r % (most < used ? n : most), 0.1f + fabsf(harness_normal(&seed))};
            again = false;
            for (uint32_t k = i - i % used; k < i; k++)
                again = again || route[k].expert == route[i].expert;
        } while (again);
    }
    return route;
}

static uint32_t tiles_most(uint32_t pairs, uint32_t n, uint32_t tile) {
    return pairs / tile + n < pairs ? pairs / tile + n : pairs;
}

static uint32_t *tiles_expected(Arena *a, const Chosen *route, uint32_t pairs, uint32_t n,
                                uint32_t tile, uint32_t n_tiles) {
    uint32_t *t = ARENA_ARRAY(a, uint32_t, (size_t)n_tiles *(tile + 1)), next = 0;
    memset(t, 0xff, (size_t)n_tiles * (tile + 1) * 4);
    for (uint32_t e = 0; e < n; e++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < pairs; i++) {
            if (route[i].expert != e) continue;
            uint32_t *at = t + (size_t)(next + count / tile) * (tile + 1);
            at[0] = e, at[1 + count++ % tile] = i;
        }
        next += (count + tile - 1) / tile;
    }
    return t;
}

static void test_tiles(uint32_t m, uint32_t n, uint32_t used, uint32_t tile) {
    Arena *a = arena_create();
    uint32_t pairs = m * used, n_tiles = tiles_most(pairs, n, tile);
    Chosen *route = random_route(a, m, n, used);
    uint32_t *want = tiles_expected(a, route, pairs, n, tile, n_tiles);
    size_t bytes = (size_t)n_tiles * (tile + 1) * 4;
    uint32_t *got = arena_alloc(a, bytes);
    KernelOp op = {.op = "route_tiles"};
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "N_EXPERT", n),
        kernel_op_uint(&op, "N_USED", used);
    kernel_op_uint(&op, "TILE", tile), kernel_op_uint(&op, "TILES", n_tiles);
    kernel_op_role(&op, "route"), kernel_op_role(&op, "tiles");
    HarnessBuffer b[] = {{"route", route, NULL, pairs * sizeof *route},
                         {"tiles", NULL, got, bytes}};
    HarnessCase *c;
    const char *why;
    uint32_t n_cases = harness_cases(h, &op, &c, &why);
    CHECK(n_cases > 0, "route_tiles: %s", why);
    n_cases = harness_sample(c, n_cases);
    for (uint32_t i = 0; i < n_cases; i++) {
        const char *failed = harness_run(h, &c[i], b, 2);
        CHECK(!failed, "route_tiles of %u pairs, %s: %s", pairs, c[i].label, failed);
        CHECK(failed || memcmp(got, want, bytes) == 0,
              "route_tiles of %u pairs, %u experts, %s: wrong tiles", pairs, n, c[i].label);
    }
    arena_destroy(a);
}

/* ---- combine --------------------------------------------------------------------------------- */

static void test_combine(uint32_t m, uint32_t used, uint32_t k, bool res) {
    Arena *a = arena_create();
    Chosen *route = random_route(a, m, 2 * used, used);
    size_t n = (size_t)m * k;
    float *x = random_normals(a, n * used, &seed), *r = random_normals(a, n, &seed),
          *y = ARENA_ARRAY(a, float, n);
    double *want = ARENA_ARRAY(a, double, n);
    for (size_t i = 0; i < n; i++) {
        want[i] = res ? (double)r[i] : 0;
        for (uint32_t j = 0; j < used; j++)
            want[i] += (double)route[i / k * used + j].weight *
                       (double)x[(i / k * used + j) * k + i % k];
    }
    KernelOp op = {.op = "combine"};
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "N_EXPERT", 2 * used),
        kernel_op_uint(&op, "N_USED", used);
    kernel_op_uint(&op, "K", k);
    kernel_op_role(&op, "x"), kernel_op_role(&op, "route"), kernel_op_role(&op, "y");
    if (res) kernel_op_role(&op, "res");
    HarnessBuffer b[] = {{"x", x, NULL, n * used * 4},
                         {"route", route, NULL, m * used * sizeof *route},
                         {"y", NULL, y, n * 4},
                         {"res", r, NULL, n * 4}};
    HarnessCase *c;
    const char *why;
    uint32_t n_cases = harness_cases(h, &op, &c, &why);
    CHECK(n_cases > 0, "combine: %s", why);
    for (uint32_t i = 0; i < n_cases; i++) {
        const char *failed = harness_run(h, &c[i], b, res ? 4 : 3);
        double e = failed ? 0 : harness_rms(y, want, n);
        CHECK(!failed, "combine, %s: %s", c[i].label, failed);
        CHECK(e < 1e-6, "combine, %s: error %g", c[i].label, e);
        worst_combine = fmax(worst_combine, e);
    }
    arena_destroy(a);
}

/* ---- matvec_expert --------------------------------------------------------------------------- */

typedef struct {
    uint32_t m, n_expert, used, k, rows;
    uint32_t e0, experts; /* of this part */
    uint32_t tile;        /* 1: from the route */
    bool swiglu, slots, norm;
    uint32_t y0, extra; /* columns of y before and behind those that are written */
    const char *name;
} Shape;

static double dot_of(const Matrix *w, uint32_t row, const double *x) {
    double sum = 0;
    for (uint32_t i = 0; i < w->k; i++) sum += (double)w->value[(size_t)row * w->k + i] * x[i];
    return sum;
}

/* y with NaN where nothing must be written. */
static double *expected(Arena *a, const Shape *s, const Matrix *w, const Chosen *route,
                        const float *x, const float *nw, uint32_t stride) {
    uint32_t pairs = s->m * s->used, per = s->swiglu ? 2 * s->rows : s->rows;
    double *want = ARENA_ARRAY(a, double, (size_t)pairs *stride), *v = ARENA_ARRAY(a, double, s->k);
    for (size_t i = 0; i < (size_t)pairs * stride; i++) want[i] = (double)NAN;
    for (uint32_t p = 0; p < pairs; p++) {
        uint32_t e = route[p].expert - s->e0;
        if (e >= s->experts) continue;
        double squares = 0;
        const float *row = x + (size_t)(s->slots ? p : p / s->used) * s->k;
        for (uint32_t i = 0; i < s->k; i++) v[i] = (double)row[i], squares += v[i] * v[i];
        for (uint32_t i = 0; i < s->k && s->norm; i++)
            v[i] *= (double)nw[i] / sqrt(squares / s->k + 1e-5);
        for (uint32_t r = 0; r < s->rows; r++) {
            double d = dot_of(w, e * per + r, v);
            want[(size_t)p * stride + s->y0 + r] =
                s->swiglu ? d / (1 + exp(-d)) * dot_of(w, e * per + s->rows + r, v) : d;
        }
    }
    return want;
}

/* Relative error over what is written; infinite if anything else was. */
static double error_of(const float *got, const double *want, size_t n) {
    double error = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(want[i]) && !isnan(got[i])) return (double)INFINITY;
        if (isnan(want[i])) continue;
        double d = (double)got[i] - want[i];
        error += d * d, sum += want[i] * want[i];
    }
    return error < (double)INFINITY ? sqrt(error / fmax(sum, 1e-300)) : (double)INFINITY;
}

static void shape_describe(KernelOp *op, const Shape *s, const Matrix *w, uint32_t n_tiles,
                           uint32_t stride) {
    op->op = "matvec_expert";
    matrix_describe(op, w, s->experts * (s->swiglu ? 2 : 1));
    kernel_op_uint(op, "E0", s->e0), kernel_op_uint(op, "EXPERTS", s->experts),
        kernel_op_uint(op, "N_USED", s->used);
    kernel_op_uint(op, "TILE", s->tile), kernel_op_uint(op, "TILES", n_tiles);
    kernel_op_uint(op, "EPILOGUE", s->swiglu), kernel_op_uint(op, "X_SLOTS", s->slots);
    kernel_op_uint(op, "X_STRIDE", s->k), kernel_op_uint(op, "Y_STRIDE", stride),
        kernel_op_uint(op, "Y0", s->y0);
    kernel_op_float(op, "EPS", 1e-5);
    kernel_op_role(op, "x"), kernel_op_role(op, "y");
    kernel_op_role(op, s->tile > 1 ? "tiles" : "route");
    if (s->norm) kernel_op_role(op, "nw");
}

static void cases_run(const Shape *s, const KernelOp *op, HarnessBuffer *b, uint32_t n_b,
                      const float *y, const double *want, size_t n) {
    HarnessCase *c;
    const char *why;
    uint32_t n_cases = harness_cases(h, op, &c, &why);
    CHECK(n_cases > 0, "%s %s: no candidate: %s", s->name, op->format->name, why);
    n_cases = harness_sample(c, n_cases);
    for (uint32_t i = 0; i < n_cases; i++) {
        InnerKind kind = inner_kind(c[i].choice);
        const char *failed = harness_run(h, &c[i], b, n_b);
        double e = failed ? 0 : error_of(y, want, n), most = inner_limit[kind];
        CHECK(!failed, "%s, %s: %s", s->name, c[i].label, failed);
        /* a gate far below zero, silu(g) = g exp(g), has the error of g times g */
        if (s->swiglu && kind != INNER_F32) most *= 5;
        CHECK(e < most, "%s, %s: error %g", s->name, c[i].label, e);
        if (isfinite(e)) worst[kind] = fmax(worst[kind], e);
    }
}

static void shape_run(const Shape *s, const Format *f, Accuracy accuracy) {
    if (s->k % f->block_n) return;
    Arena *a = arena_create();
    uint32_t pairs = s->m * s->used, stride = s->y0 + s->rows + s->extra;
    uint32_t n_tiles = s->tile > 1 ? tiles_most(pairs, s->n_expert, s->tile) : pairs;
    size_t n_x = (size_t)(s->slots ? pairs : s->m) * s->k, n_y = (size_t)pairs * stride;
    Chosen *route = random_route(a, s->m, s->n_expert, s->used);
    uint32_t *tiles = tiles_expected(a, route, pairs, s->n_expert, s->tile, n_tiles);
    Matrix *w = matrix_random(a, f, s->experts * s->rows * (s->swiglu ? 2 : 1), s->k, &seed);
    float *x = random_normals(a, n_x, &seed), *nw = random_normals(a, s->k, &seed),
          *y = ARENA_ARRAY(a, float, n_y);
    double *want = expected(a, s, w, route, x, nw, stride);
    KernelOp op = {.accuracy = accuracy};
    shape_describe(&op, s, w, n_tiles, stride);
    HarnessBuffer b[5] = {matrix_buffer(w),
                          {"x", x, NULL, n_x * 4},
                          {"y", NULL, y, n_y * 4},
                          {"route", route, NULL, pairs * sizeof *route},
                          {"nw", nw, NULL, s->k * 4ull}};
    if (s->tile > 1)
        b[3] = (HarnessBuffer){"tiles", tiles, NULL, (size_t)n_tiles * (s->tile + 1) * 4};
    cases_run(s, &op, b, 5, y, want, n_y);
    arena_destroy(a);
}

/* Formats take these in turn: the kernel treats them alike. */
static const Shape every_format[] = {
    {.m = 1,
     .n_expert = 4,
     .used = 2,
     .k = 256,
     .rows = 33,
     .experts = 4,
     .tile = 1,
     .swiglu = true,
     .name = "one row, gate and up"},
    {.m = 5,
     .n_expert = 3,
     .used = 2,
     .k = 256,
     .rows = 18,
     .experts = 3,
     .tile = 2,
     .slots = true,
     .name = "tiles of 2, down"},
};
/* Each of these for one format in turn. */
static const Shape variants[] = {
    {.m = 1,
     .n_expert = 8,
     .used = 3,
     .k = 288,
     .rows = 17,
     .experts = 8,
     .tile = 1,
     .swiglu = true,
     .norm = true,
     .name = "norm inside"},
    {.m = 9,
     .n_expert = 4,
     .used = 2,
     .k = 512,
     .rows = 40,
     .experts = 4,
     .tile = 4,
     .swiglu = true,
     .name = "tiles of 4"},
    {.m = 1,
     .n_expert = 8,
     .used = 4,
     .k = 256,
     .rows = 30,
     .e0 = 3,
     .experts = 2,
     .tile = 1,
     .name = "a part in the middle"},
    {.m = 20,
     .n_expert = 6,
     .used = 2,
     .k = 64,
     .rows = 16,
     .e0 = 2,
     .experts = 4,
     .tile = 8,
     .slots = true,
     .y0 = 16,
     .extra = 5,
     .name = "some rows of some experts"},
    {.m = 3,
     .n_expert = 5,
     .used = 2,
     .k = 100,
     .rows = 9,
     .experts = 5,
     .tile = 1,
     .slots = true,
     .name = "ragged rows"},
    {.m = 16,
     .n_expert = 2,
     .used = 2,
     .k = 4096,
     .rows = 5,
     .experts = 2,
     .tile = 4,
     .name = "longer than shared memory, tiles"},
    {.m = 1,
     .n_expert = 2,
     .used = 1,
     .k = 11008,
     .rows = 32,
     .e0 = 0,
     .experts = 2,
     .tile = 1,
     .norm = true,
     .name = "longer than shared memory"},
    {.m = 1,
     .n_expert = 3,
     .used = 3,
     .k = 33,
     .rows = 3,
     .experts = 3,
     .tile = 1,
     .swiglu = true,
     .norm = true,
     .name = "odd rows"},
};

static void variants_run(const Format *const *list) {
    uint32_t n_formats = 0;
    while (list[n_formats]) n_formats++;
    for (uint32_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const Format *f = NULL; /* the next one that can have such rows */
        for (uint32_t j = 0; j < n_formats && (!f || variants[i].k % f->block_n); j++)
            f = list[(3 * i + j) % n_formats];
        shape_run(&variants[i], f, i % 3 ? ACCURACY_EXACT : ACCURACY_FAST);
    }
}

int main(void) {
    Arena *a = arena_create();
    h = harness_open(a);
    if (!h) {
        SKIP("no Vulkan device");
        return check_done();
    }
    test_topk(1, 8, 2, false), test_topk(10, 60, 4, false), test_topk(6, 160, 8, false),
        test_topk(5, 3, 3, false);
    test_topk(4, 24, 4, true);
    test_tiles(16, 8, 2, 4), test_tiles(70, 5, 3, 8), test_tiles(64, 128, 8, 2),
        test_tiles(300, 4, 1, 8);
    test_combine(1, 2, 96, true), test_combine(5, 8, 131, false);
    const Format *const *list = test_formats(a);
    for (uint32_t i = 0; list[i]; i++) {
        shape_run(&every_format[i % 2], list[i], ACCURACY_EXACT);
        if (list[i]->codes) shape_run(&every_format[(i + 1) % 2], list[i], ACCURACY_FAST);
    }
    variants_run(list);
    printf("largest errors: topk %.2g, combine %.2g, experts", worst_topk, worst_combine);
    for (int i = 0; i < N_INNER; i++) printf(" %s %.2g", inner_name[i], worst[i]);
    printf("\n");
    arena_destroy(a);
    return check_done();
}
