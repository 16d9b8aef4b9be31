/* test_embed.c - decoding: the C text of each format against the fixtures bit by bit, then the GLSL
 * text through embed. */
#include "../../compiler/gguf.h"
#include "../../kernels/lib/step.h"
#include "../unit/check.h"
#include "matrix.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

static Harness *h;

static uint32_t bits(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

/* Equal values; zeros of either sign are equal, and a GPU may flush subnormal results and inputs,
 * among them the smallest scales of MXFP4 (2^-127 and 2^-128, times codes up to 12). */
static bool same_value(float got, float want) {
    return got == want || (isnan(got) && isnan(want)) ||
           (got == 0 && fabsf(want) <= 12 * 0x1p-127f);
}

/* Rows ROW0.. of a vocabulary of 2 * rows, looked up by M tokens of which `valid` count. */
static void embed_check(const Matrix *w, uint32_t m, uint32_t valid, double factor,
                        const char *name) {
    Arena *a = arena_create();
    enum { POS = 5 };
    uint32_t row0 = valid < m ? 0 : w->rows / 2, vocab = row0 + w->rows + 3, seed = 5;
    uint32_t step[STEP_WORDS] = {0}, *tokens = ARENA_ARRAY(a, uint32_t, POS + m);
    step[STEP_POS] = POS, step[STEP_END] = POS + valid;
    for (uint32_t i = 0; i < m; i++)
        tokens[POS + i] = i < w->rows ? row0 + i : harness_random(&seed) % vocab;
    float *y = ARENA_ARRAY(a, float, (size_t)m * w->k);
    KernelOp op = {.op = "embed"};
    matrix_describe(&op, w, 1);
    kernel_op_role(&op, "step"), kernel_op_role(&op, "tokens"), kernel_op_role(&op, "y");
    kernel_op_uint(&op, "M", m), kernel_op_uint(&op, "ROW0", row0),
        kernel_op_uint(&op, "N_VOCAB", vocab);
    kernel_op_float(&op, "FACTOR", factor);
    HarnessBuffer b[] = {matrix_buffer(w),
                         {"step", step, NULL, sizeof step},
                         {"tokens", tokens, NULL, 4 * (POS + m)},
                         {"y", NULL, y, 4ul * m * w->k}};
    HarnessCase *c;
    const char *why;
    uint32_t n = harness_cases(h, &op, &c, &why);
    CHECK(n > 0, "%s: no candidate: %s", name, why);
    n = harness_sample(c, n);
    for (uint32_t i = 0; i < n; i++) {
        const char *failed = harness_run(h, &c[i], b, 4);
        size_t wrong = 0;
        for (size_t j = 0; !failed && j < (size_t)m * w->k; j++) {
            uint32_t t = (uint32_t)(j / w->k), id = t < valid ? tokens[POS + t] : 0;
            bool here = id >= row0 && id - row0 < w->rows;
            float want = here ? (float)factor * w->value[(size_t)(id - row0) * w->k + j % w->k]
                              : NAN;
            wrong += !same_value(y[j], want);
        }
        CHECK(!failed, "%s, %s: %s", name, c[i].label, failed);
        CHECK(wrong == 0, "%s, %s: %zu of %u values differ", name, c[i].label, wrong, m * w->k);
    }
    arena_destroy(a);
}

static void fixture_check(const Format *f, const char *suffix) {
    Arena *a = arena_create();
    char *name = arena_printf(a, "%s%s", f->name, suffix);
    for (char *s = name; *s && s < name + strlen(f->name); s++)
        *s = (char)toupper((unsigned char)*s);
    FailTrap trap;
    if (fail_catch(&trap)) {
        SKIP("%s: %s", name, trap.message);
    } else {
        Gguf *g = gguf_open(a, arena_printf(a, "%s/fixtures/quant/%s.gguf", check_shared(), name));
        fail_pop(&trap);
        const GgufTensor *t = gguf_tensor(g, "w"), *want = gguf_tensor(g, "w_dequant");
        Matrix *w = matrix_of(a, f, (uint32_t)t->ne[1], (uint32_t)t->ne[0], t->data);
        size_t n = (size_t)w->rows * w->k, wrong = 0;
        for (size_t i = 0; i < n; i++) {
            float v;
            memcpy(&v, want->data + 4 * i, 4);
            wrong += bits(v) != bits(w->value[i]);
        }
        CHECK(wrong == 0, "%s: %zu of %zu decoded weights differ", name, wrong, n);
        if (h) embed_check(w, w->rows, w->rows, 1, name);
    }
    arena_destroy(a);
}

static void random_check(const Format *f) {
    static const uint32_t lengths[] = {256, 288, 100};
    Arena *a = arena_create();
    uint32_t seed = 3;
    double factor =
        f->gguf_type < 0
            ? 0.25
            : 0.3125; /* qcc's own scales may be f32: a power of two keeps products exact */
    for (int i = 0; i < 3; i++)
        if (lengths[i] % f->block_n == 0 && (i == 0 || f->block_n == 1 || lengths[i] % 32 == 0))
            embed_check(matrix_random(a, f, 19, lengths[i], &seed), i ? 7 : 30, i ? 4 : 30,
                        i ? 1 : factor, f->name);
    arena_destroy(a);
}

static void size_check(const Format *f) {
    uint64_t offset[FORMAT_MAX_PLANES];
    double packed = (double)format_layout(f, 64, 4096, offset),
           gguf = 64.0 * (double)format_row_bytes(f, 4096);
    CHECK(packed <= 1.03 * gguf, "%s: packing grows by %.1f %%", f->name,
          100 * (packed / gguf - 1));
    for (uint32_t p = 0; p < f->n_planes; p++)
        CHECK(offset[p] % 16 == 0 && f->plane_span[p] % 32 == 0, "%s: plane %u", f->name, p);
}

int main(void) {
    Arena *a = arena_create();
    h = harness_open(a);
    if (!h) SKIP("no Vulkan device");
    if (!check_shared()) SKIP("no fixtures: set QCC_SHARED");
    for (const Format *const *f = test_formats(a); *f; f++) {
        size_check(*f);
        if (check_shared() && (*f)->gguf_type >= 0)
            fixture_check(*f, ""), fixture_check(*f, "_edge");
        if (h) random_check(*f);
    }
    arena_destroy(a);
    return check_done();
}
