/* test_small.c - norm, gate, advance and rope_kv against plain loops in double. */
#include "../unit/check.h"
#include "../../kernels/lib/step.h"
#include "cache.h"
#include "harness.h"
#include <math.h>
#include <string.h>

static Arena *arena;
static Harness *harness;
static uint32_t seed = 1;

static float *random_floats(size_t n, float scale) {
    float *x = ARENA_ARRAY(arena, float, n);
    for (size_t i = 0; i < n; i++) x[i] = scale * harness_normal(&seed);
    return x;
}

/* Runs every case; calls look(arg, label) after each. */
static void run_all(const KernelOp *op, HarnessBuffer *b, uint32_t n,
                    void (*look)(void *arg, const char *label), void *arg) {
    HarnessCase *c;
    const char *why;
    uint32_t n_cases = harness_cases(harness, op, &c, &why);
    CHECK(n_cases > 0, "%s: %s", op->op, why);
    for (uint32_t i = 0; i < n_cases; i++) {
        const char *error = harness_run(harness, &c[i], b, n);
        CHECK(!error, "%s: %s", c[i].label, error);
        if (!error) look(arg, c[i].label);
    }
}

typedef struct {
    const float *got;
    const double *want;
    size_t n;
    double worst;
} Compare;
static void compare(void *arg, const char *label) {
    Compare *c = arg;
    double e = harness_rms(c->got, c->want, c->n);
    c->worst = fmax(c->worst, e);
    CHECK(e < 1e-6, "%s: relative rms error %g", label, e);
}

static void test_norm(uint32_t m, uint32_t k) {
    KernelOp op = {.op = "norm"};
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "K", k), kernel_op_float(&op, "EPS", 1e-5);
    kernel_op_role(&op, "x"), kernel_op_role(&op, "nw"), kernel_op_role(&op, "y");
    size_t n = (size_t)m * k;
    float *x = random_floats(n, 3), *w = random_floats(k, 1), *y = ARENA_ARRAY(arena, float, n);
    double *want = ARENA_ARRAY(arena, double, n);
    for (uint32_t r = 0; r < m; r++) {
        double sum = 0;
        for (uint32_t i = 0; i < k; i++) sum += (double)x[r * k + i] * x[r * k + i];
        for (uint32_t i = 0; i < k; i++)
            want[r * k + i] = x[r * k + i] / sqrt(sum / k + 1e-5) * w[i];
    }
    HarnessBuffer b[] = {{"x", x, NULL, n * 4}, {"nw", w, NULL, k * 4}, {"y", NULL, y, n * 4}};
    Compare c = {y, want, n, 0};
    run_all(&op, b, 3, compare, &c);
    printf("norm %u x %u: error %.2g\n", m, k, c.worst);
}

static void test_gate(uint32_t m, uint32_t f, uint32_t stride) {
    KernelOp op = {.op = "gate"};
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "F", f),
        kernel_op_uint(&op, "X_STRIDE", stride);
    kernel_op_role(&op, "x"), kernel_op_role(&op, "y");
    float *x = random_floats((size_t)m * stride, 10), *y = ARENA_ARRAY(arena, float, m *f);
    x[0] = -200, x[1 % f] = 200; /* exp overflows */
    double *want = ARENA_ARRAY(arena, double, m *f);
    for (uint32_t r = 0; r < m; r++)
        for (uint32_t i = 0; i < f; i++) {
            double g = x[r * stride + i];
            want[r * f + i] = g / (1 + exp(-g)) * x[r * stride + f + i];
        }
    HarnessBuffer b[] = {{"x", x, NULL, (size_t)m * stride * 4}, {"y", NULL, y, (size_t)m * f * 4}};
    Compare c = {y, want, (size_t)m * f, 0};
    run_all(&op, b, 2, compare, &c);
    printf("gate %u x %u: error %.2g\n", m, f, c.worst);
}

typedef struct {
    const uint32_t *step;
    uint32_t want;
} Advance;
static void advanced(void *arg, const char *label) {
    Advance *a = arg;
    CHECK(a->step[STEP_POS] == a->want, "%s: position %u, expected %u", label, a->step[STEP_POS],
          a->want);
}
static void test_advance(uint32_t m, uint32_t pos, uint32_t end, uint32_t want) {
    KernelOp op = {.op = "advance"};
    kernel_op_uint(&op, "M", m), kernel_op_role(&op, "step");
    uint32_t step[STEP_WORDS] = {pos, end}, out[STEP_WORDS];
    HarnessBuffer b[] = {{"step", step, out, sizeof step}};
    run_all(&op, b, 1, advanced, &(Advance){out, want});
}

/* ---- rope_kv --------------------------------------------------------------------------------- */

typedef struct {
    Cache cache;
    uint32_t m, nh, n_rot, pos, valid;
    bool halves;
    const float *in, *out;
    void *kc, *vc;
} RopeCase;

static void rows_check(const RopeCase *r, const char *label, uint32_t head, const void *got,
                       uint32_t source, bool rotate) {
    uint8_t *poison = ARENA_ARRAY(arena, uint8_t, cache_bytes(&r->cache));
    for (size_t i = 0; i < cache_bytes(&r->cache) / 4; i++)
        memcpy(poison + 4 * i, &(uint32_t){0xffc0dead}, 4);
    for (uint32_t p = 0; p < r->cache.ctx; p++) {
        if (p < r->pos || p >= r->pos + r->valid) {
            CHECK(cache_same(&r->cache, got, poison, head, p), "%s: position %u was written", label,
                  p);
            continue;
        }
        double y[256];
        float x[256], z[256];
        cache_rotate(r->in + ((p - r->pos) * (r->nh + 2 * r->cache.nkv) + source) * r->cache.hd, y,
                     p, r->cache.hd, rotate ? r->n_rot : 0, r->halves);
        for (uint32_t i = 0; i < r->cache.hd; i++) x[i] = (float)y[i];
        cache_get(&r->cache, got, head, p, z);
        CHECK(cache_rounded(&r->cache, x, z), "%s: row %u of head %u", label, p, head);
    }
}

static void rope_check(void *arg, const char *label) {
    const RopeCase *r = arg;
    uint32_t hd = r->cache.hd, width = r->nh + 2 * r->cache.nkv;
    for (uint32_t m = 0; m < r->m; m++)
        for (uint32_t h = 0; h < width; h++) {
            double want[256];
            const float *got = r->out + (m * width + h) * hd;
            cache_rotate(r->in + (m * width + h) * hd, want, r->pos + m, hd,
                         m < r->valid && h < r->nh ? r->n_rot : 0, r->halves);
            if (m >= r->valid && h < r->nh) { /* padding: finite */
                for (uint32_t i = 0; i < hd; i++)
                    CHECK(isfinite(got[i]), "%s: row %u is not finite", label, m);
                continue;
            }
            double e = harness_rms(got, want, hd);
            CHECK(e < 1e-6, "%s: row %u head %u: error %g", label, m, h, e);
        }
    for (uint32_t h = 0; h < r->cache.nkv; h++) {
        rows_check(r, label, h, r->kc, r->nh + h, true);
        rows_check(r, label, h, r->vc, r->nh + r->cache.nkv + h, false);
    }
}

static void test_rope(RopeCase r) {
    uint32_t hd = r.cache.hd, width = (r.nh + 2 * r.cache.nkv) * hd;
    KernelOp op = {.op = "rope_kv", .uses_kv = true, .kv = r.cache.type};
    kernel_op_uint(&op, "M", r.m), kernel_op_uint(&op, "NH", r.nh),
        kernel_op_uint(&op, "NKV", r.cache.nkv);
    kernel_op_uint(&op, "HD", hd), kernel_op_uint(&op, "CTX", r.cache.ctx),
        kernel_op_uint(&op, "N_ROT", r.n_rot);
    kernel_op_uint(&op, "HALVES", r.halves);
    static const char *const roles[] = {"step", "qkv", "rope", "kc", "vc"};
    for (int i = 0; i < 5; i++) kernel_op_role(&op, roles[i]);
    size_t n = (size_t)r.m * width, table_bytes, bytes = cache_bytes(&r.cache);
    float *x = random_floats(n, 1), *y = ARENA_ARRAY(arena, float, n);
    for (uint32_t i = 0; i < 8 && i < hd; i++) x[r.nh * hd + i] *= 1e-5f; /* f16 subnormals */
    float *table = cache_rope_table(arena, r.cache.ctx, r.n_rot, &table_bytes);
    r.in = x, r.out = y, r.kc = arena_alloc(arena, bytes), r.vc = arena_alloc(arena, bytes);
    uint32_t step[STEP_WORDS] = {r.pos, r.pos + r.valid};
    HarnessBuffer b[] = {{"step", step, NULL, sizeof step},
                         {"qkv", x, y, n * 4},
                         {"rope", table, NULL, table_bytes},
                         {"kc", NULL, r.kc, bytes},
                         {"vc", NULL, r.vc, bytes}};
    run_all(&op, b, 5, rope_check, &r);
}

static void test_cache_bytes(void) {
    KernelLibrary *l = select_open(arena, harness_target(harness), NULL);
    static const uint32_t dims[] = {2, 32, 64, 66, 80, 96, 128, 256};
    for (int t = KV_F16; t <= KV_Q8_0; t++)
        for (int i = 0; i < 8; i++) {
            Cache c = {(KvType)t, 3, 7, dims[i]};
            uint64_t bytes = select_kv_bytes(l, c.type, c.nkv, c.ctx, c.hd);
            CHECK(bytes == cache_bytes(&c), "type %d, head of %u: %llu bytes", t, c.hd,
                  (unsigned long long)bytes);
        }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    arena = arena_create();
    harness = harness_open(arena);
    if (!harness) {
        SKIP("no Vulkan device");
        return check_done();
    }
    test_norm(3, 64), test_norm(1, 576), test_norm(2, 5000), test_norm(5, 2048),
        test_norm(1, 20000);
    test_gate(3, 1536, 3072), test_gate(1, 7, 20), test_gate(17, 300, 600);
    test_advance(1, 5, 6, 6), test_advance(16, 5, 12, 12), test_advance(16, 5, 100, 21),
        test_advance(16, 5, 5, 5);
    test_advance(16, 5, 3, 5);
    test_cache_bytes();
    for (int t = KV_F16; t <= KV_Q8_0; t++) {
        KvType type = (KvType)t;
        test_rope((RopeCase){.cache = {type, 3, 600, 64},
                             .m = 3,
                             .nh = 9,
                             .n_rot = 64,
                             .pos = 255,
                             .valid = 3,
                             .halves = true});
        test_rope((RopeCase){
            .cache = {type, 1, 600, 80}, .m = 17, .nh = 4, .n_rot = 32, .pos = 590, .valid = 10});
        test_rope((RopeCase){
            .cache = {type, 2, 64, 128}, .m = 4, .nh = 2, .n_rot = 128, .pos = 0, .valid = 2});
        test_rope((RopeCase){.cache = {type, 1, 300, 256},
                             .m = 1,
                             .nh = 1,
                             .n_rot = 256,
                             .pos = 257,
                             .valid = 1,
                             .halves = true});
        test_rope((RopeCase){
            .cache = {type, 1, 20, 66}, .m = 8, .nh = 1, .n_rot = 66, .pos = 16, .valid = 4});
        test_rope((RopeCase){.cache = {type, 1, 20, 34},
                             .m = 2,
                             .nh = 3,
                             .n_rot = 20,
                             .pos = 3,
                             .valid = 0,
                             .halves = true});
    }
    arena_destroy(arena);
    return check_done();
}
