/* test_sample.c - the sampler's stages against a model in C: sorted, with the same integer
 * masses. */
#include "../unit/check.h"
#include "../../kernels/lib/step.h"
#include "harness.h"
#include <math.h>
#include <string.h>

enum { N_STAGES = 4, MAX_CHAINS = 8 };

static Arena *arena;
static Harness *harness;
static uint32_t seed = 11, n_exact, n_near;

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct {
    uint32_t n, ctx, m, pos, end;
    uint64_t seed;
    float temperature, top_p, min_p, penalty;
    uint32_t top_k, last;
} Settings;

typedef struct {
    uint32_t key, id;
} Entry;
static Entry *order; /* in the order of descending logits */
static float *penalised;
static bool *survives;
static double deepest_scale = 1,
              temperature_scale = 1; /* of the two inexact steps, for near misses */

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof c);
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t n[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                         (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        memcpy(c, n, sizeof c);
        k[0] += 0x9E3779B9, k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}

static uint32_t mass_of(float d) {
    float t = fminf(d, 100) * 1.44269504f, n = floorf(t), g = (t - n - 0.5f) * -0.693147181f;
    float e = 1 + g * (1 + g * (0.5f + g * (0.166666667f +
                                            g * (0.0416666667f +
                                                 g * (0.00833333333f + g * 0.00138888889f)))));
    float s = e * (0.707106781f * 67108864.0f) * ldexpf(1, -(int)fminf(n, 60)) + 0.5f;
    uint32_t w = (uint32_t)s;
    return w < 67108863 ? w : 67108863;
}

static uint32_t key_of(float x) {
    uint32_t u;
    if (isnan(x)) return 0;
    x += 0.0f;
    memcpy(&u, &x, 4);
    if (x == 0) u = 0;
    return u >> 31 ? ~u : u | 0x80000000u;
}

static int by_logit(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static float distance(uint32_t id, float largest, uint32_t largest_key) {
    if (key_of(penalised[id]) == largest_key) return 0;
    float d = largest - penalised[id];
    return d < 1e30f ? d : 1e30f; /* NaN too */
}

static uint32_t model_valid(const Settings *s) {
    uint32_t v = s->end > s->pos ? s->end - s->pos : 0,
             room = s->ctx - (s->pos < s->ctx ? s->pos : s->ctx);
    if (v > s->m) v = s->m;
    return v < room ? v : room;
}

static void model_order(const Settings *s, const float *logits, const uint32_t *tokens) {
    uint32_t known = s->pos + model_valid(s), last = s->last < known ? s->last : known;
    memcpy(penalised, logits, s->n * sizeof *logits);
    if (s->penalty > 0 && s->penalty != 1)
        for (uint32_t i = known - last; i < known; i++) {
            float x = logits[tokens[i]];
            penalised[tokens[i]] = x > 0 ? x / s->penalty : x * s->penalty;
        }
    for (uint32_t i = 0; i < s->n; i++) order[i] = (Entry){key_of(penalised[i]), i};
    qsort(order, s->n, sizeof *order, by_logit);
}

/* Which survive the filters. */
static void model_filter(const Settings *s) {
    uint32_t kept = s->top_k && s->top_k < s->n ? s->top_k : s->n;
    float largest = penalised[order[0].id];
    uint64_t sum = 0, run = 0;
    for (uint32_t i = 0; i < kept; i++)
        sum += mass_of(distance(order[i].id, largest, order[0].key));
    if (s->top_p < 1) {
        uint64_t f = s->top_p > 0 ? (uint64_t)(s->top_p * 4294967296.0) : 0;
        uint64_t want = (uint64_t)(((unsigned __int128)sum * f + 0xffffffff) >> 32);
        if (want == 0) want = 1;
        uint32_t i = 0;
        for (; i < kept && run < want; i++)
            run += mass_of(distance(order[i].id, largest, order[0].key));
        kept = i;
    }
    memset(survives, 0, s->n * sizeof *survives);
    float deepest = s->min_p > 0 ? -logf(fminf(s->min_p, 1)) * (float)deepest_scale : 1e30f;
    for (uint32_t i = 0; i < kept; i++)
        survives[order[i].id] = distance(order[i].id, largest, order[0].key) <= deepest;
}

static uint32_t model_draw(const Settings *s) {
    float largest = penalised[order[0].id], inverse = 1 / s->temperature * (float)temperature_scale;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (survives[i]) sum += mass_of(distance(i, largest, order[0].key) * inverse);
    uint32_t r[4], key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    philox((uint32_t[4]){s->pos + model_valid(s), 0, 0, 0}, key, r);
    uint64_t point = (uint64_t)(((unsigned __int128)((uint64_t)r[1] << 32 | r[0]) * sum) >> 64);
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t w = survives[i] ? mass_of(distance(i, largest, order[0].key) * inverse) : 0;
        if (point < w) return i;
        point -= w;
    }
    return UINT32_MAX;
}

static uint32_t model_sample(const Settings *s, const float *logits, const uint32_t *tokens) {
    model_order(s, logits, tokens);
    if (!(s->temperature > 0)) return order[0].id;
    model_filter(s);
    return model_draw(s);
}

/* min_p's logarithm and the reciprocal of the temperature may be off by some units in the last
 * place. */
static bool model_near(const Settings *s, const float *logits, const uint32_t *tokens,
                       uint32_t got) {
    static const double scale[] = {1, 1 - 1e-6, 1 + 1e-6, 1 - 3e-7, 1 + 3e-7};
    bool near = false;
    for (int i = 0; i < 25 && !near; i++) {
        deepest_scale = scale[i / 5], temperature_scale = scale[i % 5];
        near = model_sample(s, logits, tokens) == got;
    }
    deepest_scale = temperature_scale = 1;
    return near;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

typedef struct {
    uint32_t n, ctx, m, n_chains;
    HarnessCase *stage[N_STAGES];
    uint32_t n_cases[N_STAGES];
    size_t scratch_bytes;
} Sampler;

static Sampler sampler_open(uint32_t n, uint32_t ctx, uint32_t m) {
    Sampler p = {.n = n, .ctx = ctx, .m = m};
    KernelLibrary *l = select_open(arena, harness_target(harness), NULL);
    for (int i = 0; i < N_STAGES; i++) {
        KernelOp op = {.op = arena_printf(arena, "sample_%d", i + 1)};
        kernel_op_uint(&op, "N_VOCAB", n), kernel_op_uint(&op, "CTX", ctx),
            kernel_op_uint(&op, "M", m);
        static const char *const roles[] = {"step", "tokens", "ring", "logits", "scratch"};
        for (int r = 0; r < 5; r++) kernel_op_role(&op, roles[r]);
        const char *why;
        p.n_cases[i] = harness_cases(harness, &op, &p.stage[i], &why);
        CHECK(p.n_cases[i] > 0, "%s: %s", op.op, why);
        if (p.n_cases[i] > p.n_chains) p.n_chains = p.n_cases[i];
        if (i == 0) p.scratch_bytes = 4 * select_number(l, &op, "scratch_words");
    }
    return p;
}

static uint32_t as_word(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static void step_write(const Settings *s, uint32_t step[STEP_WORDS]) {
    memset(step, 0, STEP_WORDS * 4);
    step[STEP_POS] = s->pos, step[STEP_END] = s->end;
    step[STEP_SEED_LO] = (uint32_t)s->seed, step[STEP_SEED_HI] = (uint32_t)(s->seed >> 32);
    step[STEP_TEMPERATURE] = as_word(s->temperature), step[STEP_TOP_K] = s->top_k,
    step[STEP_TOP_P] = as_word(s->top_p);
    step[STEP_MIN_P] = as_word(s->min_p), step[STEP_REPEAT_PENALTY] = as_word(s->penalty),
    step[STEP_REPEAT_LAST] = s->last;
}

static const char *describe(const Settings *s) {
    return arena_printf(
        arena,
        "vocabulary %u pos %u end %u temperature %g top-k %u top-p %.9g min-p %g penalty %g of %u",
        s->n, s->pos, s->end, s->temperature, s->top_k, s->top_p, s->min_p, s->penalty, s->last);
}

/* What the last stage must leave, but for the token itself. */
static void state_check(const Settings *s, const char *what, const uint32_t *step,
                        const uint32_t *tokens_before, const uint32_t *tokens, const uint32_t *ring,
                        uint32_t *got) {
    uint32_t valid = model_valid(s), at = s->pos + valid;
    *got = UINT32_MAX;
    for (uint32_t i = 0; i <= s->ctx; i++) {
        bool here = valid && i == at;
        CHECK(here || ring[i] == 0xffc0dead, "%s: ring[%u] was written", what, i);
        CHECK((here && s->end <= at) || tokens[i] == tokens_before[i], "%s: token %u was written",
              what, i);
        if (here) *got = ring[i];
        if (here && s->end <= at) CHECK(tokens[i] == ring[i], "%s: token and ring differ", what);
    }
    CHECK(step[STEP_POS] == at, "%s: position %u, expected %u", what, step[STEP_POS], at);
    uint32_t end = valid && s->end < at + 1 ? at + 1 : s->end;
    CHECK(step[STEP_END] == end, "%s: end %u, expected %u", what, step[STEP_END], end);
}

/* Runs one chain of stages; the id that it chose, or UINT32_MAX. */
static uint32_t chain_run(const Sampler *p, uint32_t chain, const Settings *s, const float *logits,
                          const uint32_t *tokens) {
    uint32_t step[STEP_WORDS], step_out[STEP_WORDS], got;
    step_write(s, step);
    uint32_t *scratch = arena_alloc(arena, p->scratch_bytes),
             *ring = ARENA_ARRAY(arena, uint32_t, s->ctx + 1);
    uint32_t *tokens_out = ARENA_ARRAY(arena, uint32_t, s->ctx + 1);
    const char *what = describe(s);
    for (int i = 0; i < N_STAGES; i++) {
        bool last = i == N_STAGES - 1;
        size_t words = (s->ctx + 1) * 4u;
        HarnessBuffer b[] = {{"step", step, last ? step_out : NULL, sizeof step},
                             {"tokens", tokens, last ? tokens_out : NULL, words},
                             {"ring", NULL, last ? ring : NULL, words},
                             {"logits", logits, NULL, s->n * 4u},
                             {"scratch", i ? scratch : NULL, scratch, p->scratch_bytes}};
        const HarnessCase *c = &p->stage[i][chain < p->n_cases[i] ? chain : p->n_cases[i] - 1];
        const char *error = harness_run(harness, c, b, 5);
        CHECK(!error, "%s: %s: %s", c->label, what, error);
        if (error) return UINT32_MAX;
    }
    state_check(s, what, step_out, tokens, tokens_out, ring, &got);
    return got;
}

static void compare(const Sampler *p, const Settings *s, const float *logits,
                    const uint32_t *tokens) {
    order = ARENA_ARRAY(arena, Entry, s->n), penalised = ARENA_ARRAY(arena, float, s->n),
    survives = ARENA_ARRAY(arena, bool, s->n);
    uint32_t want = model_valid(s) ? model_sample(s, logits, tokens) : UINT32_MAX;
    for (uint32_t i = 0; i < p->n_chains; i++) {
        uint32_t got = chain_run(p, i, s, logits, tokens);
        if (got == want) n_exact++;
        else n_near++;
        CHECK(got == want || (s->temperature > 0 && model_near(s, logits, tokens, got)),
              "chain %u, %s: chose %u, expected %u", i, describe(s), got, want);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static uint32_t below(uint32_t n) { return harness_random(&seed) % n; }

static void random_logits(float *x, uint32_t n, int kind) {
    for (uint32_t i = 0; i < n; i++) {
        float g = harness_normal(&seed);
        x[i] = kind == 0   ? 2 * g
               : kind == 1 ? rintf(2 * g)
               : kind == 2 ? 12 * g
               : kind == 3 ? 0.25f
                           : 0.001f * g;
    }
    if (kind == 2 && n > 40) {
        x[below(n)] = NAN, x[below(n)] = -INFINITY, x[below(n)] = -0.0f, x[below(n)] = 0;
    }
    if (kind == 5) {
        for (uint32_t i = 0; i < n; i++) x[i] = NAN;
        x[n / 2] = -3e38f, x[n - 1] = -INFINITY;
    }
}

static Settings random_settings(const Sampler *p) {
    static const float temperature[] = {0, 1, 0.5f, 0.7f, 1.5f, 30},
                       penalty[] = {1, 1, 2, 1.25f, 0.5f};
    static const float top_p[] = {1, 0.95f, 0.5f, 0.1f, 0, 0.999999f},
                       min_p[] = {0, 0, 0.05f, 0.5f, 1, 2};
    const uint32_t top_k[] = {0, 1, 40, 5, p->n / 2, p->n - 1, p->n, 100000};
    Settings s = {.n = p->n,
                  .ctx = p->ctx,
                  .m = p->m,
                  .pos = below(p->ctx - p->m),
                  .seed = (uint64_t)harness_random(&seed) << 32 | seed};
    s.end = s.pos + 1 + below(p->m);
    s.temperature = temperature[below(6)], s.top_k = top_k[below(8)], s.top_p = top_p[below(6)],
    s.min_p = min_p[below(6)];
    s.penalty = penalty[below(5)], s.last = below(2) ? 64 : below(p->ctx * 2);
    return s;
}

static void test_random(uint32_t n, uint32_t m, int rounds) {
    Sampler p = sampler_open(n, 200, m);
    n_exact = n_near = 0;
    Arena *outer = arena;
    for (int i = 0; i < rounds; i++) {
        arena = arena_create();
        float *logits = ARENA_ARRAY(arena, float, n);
        uint32_t tokens[201];
        random_logits(logits, n, i % 6);
        for (int k = 0; k < 201; k++) tokens[k] = below(n);
        if (i % 3 == 0) logits[tokens[3]] = 20; /* a penalised one on top */
        Settings s = random_settings(&p);
        if (i % 11 == 5) s.pos = p.ctx, s.end = p.ctx + 1;      /* the context is full */
        else if (i % 11 == 6) s.end = s.pos;                    /* nothing to do */
        else if (i % 11 == 7) s.end = s.pos + p.m + 1;          /* the next token is given */
        else if (i % 11 == 8) s.pos = p.ctx - 1, s.end = p.ctx; /* the last one that fits */
        compare(&p, &s, logits, tokens);
        arena_destroy(arena);
        arena = outer;
    }
    printf("vocabulary %u, %u rows: %u as the model, %u near, %u chains\n", n, m, n_exact, n_near,
           p.n_chains);
}

/* Draws of the model against the exact probabilities; the kernels agree with the model. */
static void test_distribution(void) {
    enum { N = 32, DRAWS = 100000 };
    float logits[N];
    uint32_t tokens[1] = {0}, count[N] = {0}, r[4];
    random_logits(logits, N, 0);
    order = ARENA_ARRAY(arena, Entry, N), penalised = ARENA_ARRAY(arena, float, N),
    survives = ARENA_ARRAY(arena, bool, N);
    Settings s = {
        .n = N, .ctx = 1u << 30, .m = 1, .seed = 99, .temperature = 1.5f, .top_p = 1, .penalty = 1};
    for (uint32_t i = 0; i < DRAWS; i++) {
        s.pos = i, s.end = i + 1;
        if (i == 0) model_order(&s, logits, tokens), model_filter(&s);
        count[model_draw(&s)]++;
    }
    double sum = 0, chi = 0;
    for (int i = 0; i < N; i++) sum += exp(logits[i] / 1.5);
    for (int i = 0; i < N; i++) {
        double want = (double)DRAWS * exp(logits[i] / 1.5) / sum;
        chi += (count[i] - want) * (count[i] - want) / want;
    }
    CHECK(chi < 61, "chi-square with 31 degrees of freedom is %g", chi); /* p = 0.001 */
    printf("distribution: chi-square %.1f with 31 degrees of freedom\n", chi);
    philox((uint32_t[4]){0}, (uint32_t[2]){0}, r); /* the authors' known answer */
    CHECK(r[0] == 0x6627e8d5 && r[1] == 0xe169c58d && r[2] == 0xbc57ac4c && r[3] == 0x9b00dbd8,
          "philox: %08x", r[0]);
    for (double d = 0; d < 20; d += 0.0137)
        CHECK(fabs(mass_of((float)d) / 67108864.0 - exp(-(float)d)) < 5e-7 * exp(-(float)d) + 1e-8,
              "mass at distance %g", d);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    arena = arena_create();
    harness = harness_open(arena);
    if (!harness) {
        SKIP("no Vulkan device");
        return check_done();
    }
    test_distribution();
    test_random(32, 1, 66);
    test_random(1001, 4, 44);
    test_random(70000, 16, 18);
    test_random(300000, 1, 4);
    arena_destroy(arena);
    return check_done();
}
