/* test_attention.c - attention_decode and attention against loops in double over the rounded
 * cache. */
#include "../unit/check.h"
#include "../../kernels/lib/step.h"
#include "cache.h"
#include "harness.h"
#include <math.h>
#include <string.h>

static Arena *arena; /* of one case */
static Harness *harness;
static uint32_t seed = 7;
static double worst;

typedef struct {
    Cache cache;
    uint32_t m, nh, n_rot, ns;
    bool halves;
} Shape;

typedef struct {
    Shape s;
    uint32_t pos, valid;
    float scale;
    float *qkv;    /* [m][nh + 2 nkv][hd] */
    void *kc, *vc; /* before */
    void *kc_out, *vc_out;
    float *y;
} Run;

static void random_row(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) x[i] = harness_normal(&seed);
}

/* A cache with `known` positions; what lies behind them is poison. */
static void *cache_random(const Cache *c, uint32_t known) {
    uint8_t *m = arena_alloc(arena, cache_bytes(c));
    for (size_t i = 0; i < cache_bytes(c) / 4; i++) memcpy(m + 4 * i, &(uint32_t){0xffc0dead}, 4);
    for (uint32_t h = 0; h < c->nkv; h++)
        for (uint32_t p = 0; p < known; p++) {
            float x[256];
            random_row(x, c->hd);
            cache_put(c, m, h, p, x);
        }
    return m;
}

/* Attention of query q with positions [begin, end): o = sum of exp(score - max) v, and max and
 * sum. */
static void attend(const Run *r, const double *q, uint32_t head, uint32_t begin, uint32_t end,
                   double *o, double ml[2]) {
    const Cache *c = &r->s.cache;
    double *score = ARENA_ARRAY(arena, double, end - begin);
    float x[256];
    ml[0] = -1e30, ml[1] = 0;
    for (uint32_t p = begin; p < end; p++) {
        cache_get(c, r->kc_out, head, p, x);
        for (uint32_t i = 0; i < c->hd; i++) score[p - begin] += q[i] * x[i];
        score[p - begin] *= r->scale;
        ml[0] = fmax(ml[0], score[p - begin]);
    }
    memset(o, 0, c->hd * sizeof *o);
    for (uint32_t p = begin; p < end; p++) {
        double w = exp(score[p - begin] - ml[0]);
        ml[1] += w;
        cache_get(c, r->vc_out, head, p, x);
        for (uint32_t i = 0; i < c->hd; i++) o[i] += w * x[i];
    }
}

static void check_error(const char *label, const Run *r, uint32_t head, const float *got,
                        const double *want) {
    double e = harness_rms(got, want, r->s.cache.hd);
    worst = fmax(worst, e);
    CHECK(e < 1e-5, "%s: position %u head %u: relative rms error %g", label, r->pos, head, e);
}

/* ---- one token ------------------------------------------------------------------------------- */

static void check_new_rows(const Run *r, const char *label) {
    const Cache *c = &r->s.cache;
    for (uint32_t h = 0; h < c->nkv; h++) {
        const float *k = r->qkv + (r->s.nh + h) * c->hd, *v = k + c->nkv * c->hd;
        double turned[256];
        float x[256], got[256];
        cache_rotate(k, turned, r->pos, c->hd, r->s.n_rot, r->s.halves);
        for (uint32_t i = 0; i < c->hd; i++) x[i] = (float)turned[i];
        cache_get(c, r->kc_out, h, r->pos, got);
        CHECK(cache_rounded(c, x, got), "%s: position %u: key of head %u", label, r->pos, h);
        cache_get(c, r->vc_out, h, r->pos, got);
        CHECK(cache_rounded(c, v, got), "%s: position %u: value of head %u", label, r->pos, h);
        for (uint32_t p = 0; p < c->ctx; p++)
            CHECK(p == r->pos || (cache_same(c, r->kc, r->kc_out, h, p) &&
                                  cache_same(c, r->vc, r->vc_out, h, p)),
                  "%s: position %u was written", label, p);
    }
}

static void check_parts(const Run *r, const char *label) {
    uint32_t hd = r->s.cache.hd, ns = r->s.ns, n = r->pos + 1;
    for (uint32_t h = 0; h < r->s.nh; h++) {
        double q[256], want[256], whole[2], sum[256] = {0}, weight = 0, top = -1e30;
        float merged[256];
        cache_rotate(r->qkv + h * hd, q, r->pos, hd, r->s.n_rot, r->s.halves);
        attend(r, q, h / (r->s.nh / r->s.cache.nkv), 0, n, want, whole);
        const float *ml = r->y + r->s.nh * ns * hd + 2 * h * ns;
        for (uint32_t s = 0; s < ns; s++) top = fmax(top, ml[2 * s]);
        for (uint32_t s = 0; s < ns; s++) {
            const float *o = r->y + (h * ns + s) * hd;
            double f = exp(ml[2 * s] - top);
            weight += f * ml[2 * s + 1];
            for (uint32_t i = 0; i < hd; i++) {
                sum[i] += f * o[i];
                CHECK(ml[2 * s + 1] > 0 || o[i] == 0, "%s: empty part %u of head %u is not zero",
                      label, s, h);
            }
            CHECK(ml[2 * s + 1] > 0 || ml[2 * s] <= -1e30f,
                  "%s: empty part %u of head %u has maximum %g", label, s, h, ml[2 * s]);
        }
        for (uint32_t i = 0; i < hd; i++) merged[i] = (float)(sum[i] / weight), want[i] /= whole[1];
        check_error(label, r, h, merged, want);
    }
}

static void run_decode(Run *r, const HarnessCase *c, const float *table, size_t table_bytes) {
    size_t bytes = cache_bytes(&r->s.cache), width = (r->s.nh + 2 * r->s.cache.nkv) * r->s.cache.hd;
    size_t y_floats = (size_t)r->s.nh * r->s.ns * (r->s.cache.hd + 2);
    uint32_t step[STEP_WORDS] = {r->pos, r->pos + 1};
    r->y = ARENA_ARRAY(arena, float, y_floats);
    HarnessBuffer b[] = {{"step", step, NULL, sizeof step},  {"qkv", r->qkv, NULL, width * 4},
                         {"rope", table, NULL, table_bytes}, {"kc", r->kc, r->kc_out, bytes},
                         {"vc", r->vc, r->vc_out, bytes},    {"y", NULL, r->y, y_floats * 4}};
    const char *error = harness_run(harness, c, b, 6);
    CHECK(!error, "%s: position %u: %s", c->label, r->pos, error);
    if (error) return;
    if (r->pos < r->s.cache.ctx) check_new_rows(r, c->label), check_parts(r, c->label);
    else
        CHECK(!memcmp(r->kc, r->kc_out, bytes) && !memcmp(r->vc, r->vc_out, bytes),
              "%s: wrote behind the context", c->label);
}

static void shape_constants(KernelOp *op, const Shape *s, float scale) {
    op->uses_kv = true, op->kv = s->cache.type;
    kernel_op_uint(op, "M", s->m), kernel_op_uint(op, "NH", s->nh),
        kernel_op_uint(op, "NKV", s->cache.nkv);
    kernel_op_uint(op, "HD", s->cache.hd), kernel_op_uint(op, "CTX", s->cache.ctx);
    kernel_op_float(op, "SCALE", scale);
    kernel_op_uint(op, "N_ROT", s->n_rot), kernel_op_uint(op, "HALVES", s->halves);
}

static Run run_begin(const Shape *s, uint32_t pos, uint32_t valid, uint32_t known) {
    Run r = {.s = *s, .pos = pos, .valid = valid, .scale = (float)(1 / sqrt(s->cache.hd))};
    size_t n = (size_t)s->m * (s->nh + 2 * s->cache.nkv) * s->cache.hd;
    r.qkv = ARENA_ARRAY(arena, float, n);
    random_row(r.qkv, (uint32_t)n);
    r.kc = cache_random(&s->cache, known), r.vc = cache_random(&s->cache, known);
    r.kc_out = arena_alloc(arena, cache_bytes(&s->cache)),
    r.vc_out = arena_alloc(arena, cache_bytes(&s->cache));
    return r;
}

static void test_decode(Arena *a, Shape s, const uint32_t *position, int n) {
    KernelOp op = {.op = "attention_decode"};
    s.m = 1;
    shape_constants(&op, &s, (float)(1 / sqrt(s.cache.hd)));
    kernel_op_uint(&op, "NS", s.ns);
    static const char *const roles[] = {"step", "qkv", "rope", "kc", "vc", "y"};
    for (int i = 0; i < 6; i++) kernel_op_role(&op, roles[i]);
    size_t table_bytes;
    float *table = cache_rope_table(a, s.cache.ctx, s.n_rot, &table_bytes);
    HarnessCase *c;
    const char *why;
    uint32_t cases = harness_cases(harness, &op, &c, &why);
    CHECK(cases >= 2, "attention_decode: %s", why);
    worst = 0;
    for (int i = 0; i < n; i++) {
        if (position[i] > s.cache.ctx) continue;
        arena = arena_create();
        Run r = run_begin(&s, position[i], 1,
                          position[i] < s.cache.ctx ? position[i] : s.cache.ctx);
        for (uint32_t k = 0; k < cases; k++) run_decode(&r, &c[k], table, table_bytes);
        arena_destroy(arena);
    }
    printf("decode type %d, %u/%u heads of %u, %u parts: error %.2g, %u cases\n", s.cache.type,
           s.nh, s.cache.nkv, s.cache.hd, s.ns, worst, cases);
}

/* ---- several rows ---------------------------------------------------------------------------- */

static void check_rows(const Run *r, const char *label) {
    uint32_t hd = r->s.cache.hd, width = (r->s.nh + 2 * r->s.cache.nkv) * hd;
    for (uint32_t m = 0; m < r->s.m; m++)
        for (uint32_t h = 0; h < r->s.nh; h++) {
            const float *got = r->y + (m * r->s.nh + h) * hd;
            double q[256], want[256], ml[2];
            for (uint32_t i = 0; i < hd; i++) {
                q[i] = r->qkv[m * width + h * hd + i];
                CHECK(isfinite(got[i]), "%s: position %u row %u is not finite", label, r->pos, m);
            }
            if (m >= r->valid) continue;
            attend(r, q, h / (r->s.nh / r->s.cache.nkv), 0, r->pos + m + 1, want, ml);
            for (uint32_t i = 0; i < hd; i++) want[i] /= ml[1];
            check_error(label, r, h, got, want);
        }
}

static void run_rows(Run *r, const HarnessCase *c) {
    size_t bytes = cache_bytes(&r->s.cache),
           width = (r->s.nh + 2 * r->s.cache.nkv) * r->s.cache.hd * r->s.m;
    size_t y_floats = (size_t)r->s.m * r->s.nh * r->s.cache.hd;
    uint32_t step[STEP_WORDS] = {r->pos, r->pos + r->valid};
    r->y = ARENA_ARRAY(arena, float, y_floats);
    r->kc_out = r->kc, r->vc_out = r->vc;
    HarnessBuffer b[] = {{"step", step, NULL, sizeof step},
                         {"qkv", r->qkv, NULL, width * 4},
                         {"kc", r->kc, NULL, bytes},
                         {"vc", r->vc, NULL, bytes},
                         {"y", NULL, r->y, y_floats * 4}};
    const char *error = harness_run(harness, c, b, 5);
    CHECK(!error, "%s: position %u: %s", c->label, r->pos, error);
    if (!error) check_rows(r, c->label);
}

static void test_rows(Shape s, const uint32_t *position, int n) {
    KernelOp op = {.op = "attention"};
    shape_constants(&op, &s, (float)(1 / sqrt(s.cache.hd)));
    static const char *const roles[] = {"step", "qkv", "kc", "vc", "y"};
    for (int i = 0; i < 5; i++) kernel_op_role(&op, roles[i]);
    HarnessCase *c;
    const char *why;
    uint32_t cases = harness_cases(harness, &op, &c, &why);
    CHECK(cases >= 1, "attention: %s", why);
    worst = 0;
    for (int i = 0; i < n; i++) {
        if (position[i] + s.m > s.cache.ctx) continue;
        arena = arena_create();
        uint32_t valid = i % 2 ? s.m : s.m - s.m / 3;
        if (i == 0 && s.m == 2) valid = 0;
        Run r = run_begin(&s, position[i], valid, position[i] + valid);
        for (uint32_t k = 0; k < cases; k++) run_rows(&r, &c[k]);
        arena_destroy(arena);
    }
    printf("rows type %d, %u/%u heads of %u, %u rows: error %.2g, %u cases\n", s.cache.type, s.nh,
           s.cache.nkv, s.cache.hd, s.m, worst, cases);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    Arena *a = arena_create();
    harness = harness_open(a);
    if (!harness) {
        SKIP("no Vulkan device");
        return check_done();
    }
    static const uint32_t position[] = {0, 1, 31, 255, 256, 257, 1000, 1024};
    static const Shape shapes[] = {
        {{KV_F16, 3, 1024, 64}, 1, 9, 64, 4, true},
        {{KV_F16, 2, 1024, 128}, 16, 8, 128, 16, false},
        {{KV_Q8_0, 1, 1024, 96}, 3, 7, 96, 5, true},
        {{KV_F32, 2, 1024, 80}, 17, 2, 32, 1, false},
        {{KV_F16, 1, 1024, 256}, 2, 2, 256, 7, true},
        {{KV_F16, 1, 300, 66}, 7, 3, 20, 2, false},
        {{KV_Q8_0, 1, 1024, 34}, 64, 1, 34, 4, true},
        {{KV_F32, 1, 260, 256}, 4, 4, 256, 2, true},
        {{KV_F32, 1, 40, 2}, 9, 1, 2, 2, false},
        {{KV_F16, 1, 260, 32}, 13, 32, 32, 3, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        test_decode(a, shapes[i], position, 8);
        test_rows(shapes[i], position, 7);
    }
    for (uint32_t m = 4; m <= 15; m += m < 6 ? 1 : 3)
        test_rows((Shape){{KV_F16, 1, 300, 16}, m, 3, 16, 1, true}, position + 1, 5);
    arena_destroy(a);
    return check_done();
}
