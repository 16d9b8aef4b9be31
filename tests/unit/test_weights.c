/* test_weights.c - formats that qcc makes: quantizers on ordinary and extreme rows, and the rules
 * of --weights. */
#include "../../compiler/balance.h"
#include "../../compiler/weights.h"
#include "check.h"
#include "gguf_writer.h"
#include <float.h>
#include <math.h>

enum { K = 128 };

/* Largest error of a row over its largest value, after a round trip; INFINITY if anything is not
 * finite. */
static double round_trip(Arena *a, const Format *f, const float *x) {
    uint8_t *row = arena_alloc(a, format_row_bytes(f, K));
    float y[K];
    double most = 0, error = 0;
    memcpy(y, x, sizeof y);
    format_quantize_row(f, y, K, row);
    format_decode_row(f, row, K, y);
    for (int i = 0; i < K; i++) {
        if (!isfinite(y[i])) return INFINITY;
        most = fmax(most, fabs((double)x[i]));
        error = fmax(error, fabs((double)y[i] - (double)x[i]));
    }
    return most > 0 ? error / most : error;
}

static void fill(float *x, float value) {
    for (int i = 0; i < K; i++) x[i] = i % 3 == 0 ? -value : i % 3 == 1 ? value : value / 3;
}

/* `most`: error allowed, of the largest value. */
static void check_quantizer(Arena *a, const Format *f, double most) {
    static const float sizes[] = {1, 3e-5f, 6e4f, 1e-7f};
    float x[K] = {0};
    CHECK(round_trip(a, f, x) == 0, "%s: zeros", f->name);
    bool f16 = f->plane_bytes[1] == 2; /* coarse below 6e-5, and does not reach far */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fill(x, sizes[s]);
        double error = round_trip(a, f, x), limit = f16 && sizes[s] < 1e-4f ? 1 : most;
        CHECK(error <= limit, "%s: size %g: error %g, at most %g", f->name, (double)sizes[s], error,
              limit);
    }
    for (int i = 0; i < K; i++) x[i] = -0.25f;
    CHECK(round_trip(a, f, x) <= 1e-6, "%s: a constant row", f->name);
    fill(x, FLT_MAX);
    CHECK(round_trip(a, f, x) <= 1, "%s: the largest numbers", f->name);
    fill(x, FLT_TRUE_MIN);
    CHECK(isfinite(round_trip(a, f, x)), "%s: subnormal numbers", f->name);
}

static void check_quantizers(void) {
    static const struct {
        const char *name;
        double most;
    } limit[] = {{"q8_row", 0.5 / 127 + 1e-6},
                 {"q8_2f", 0.5 / 127 + 1e-6},
                 {"q4_block", 0.5 / 7 + 1e-3},
                 {"q1", 1},
                 {"q1t", 1.0 / 3 + 1e-3}};
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        Arena *a = arena_create();
        const Format *f = format_by_name(limit[i].name);
        CHECK(f && f->quantize, "%s", limit[i].name);
        if (f && f->quantize) check_quantizer(a, f, limit[i].most);
        for (uint32_t share = 0; f && f->outliers && share <= 500000; share += 100000)
            check_quantizer(a, format_with_outliers(a, f, share), limit[i].most);
        arena_destroy(a);
    }
}

/* The largest weights of a row come back as they are, and the others as if those were zero. */
static void check_outliers(void) {
    static const struct {
        uint32_t k, share, n;
    } cases[] = {{32, 0, 0},        {32, 10000, 0},    {32, 50000, 2}, {96, 20000, 2},
                 {128, 100000, 13}, {160, 500000, 80}, {224, 15625, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create();
        uint32_t k = cases[i].k, n_same = 0, seed = 7;
        const Format *f = format_with_outliers(a, format_by_name("q1t"), cases[i].share);
        const Format *none = format_with_outliers(a, format_by_name("q1t"), 0);
        float x[224] = {0}, y[224], rest[224] = {0}, want[224];
        CHECK(format_outliers(f, k) == cases[i].n, "%u of %u", format_outliers(f, k), k);
        for (uint32_t j = 0; j < k; j++) { /* all sizes differ, and f16 has them */
            seed = seed * 1664525 + 1013904223;
            x[j] = (float)(j * 37 % k + 1) / 256 * (seed >> 31 ? 1 : -1);
            rest[j] = j * 37 % k + cases[i].n >= k ? 0 : x[j];
        }
        uint8_t *row = arena_alloc(a, format_row_bytes(f, k)),
                *row_rest = arena_alloc(a, format_row_bytes(none, k));
        format_quantize_row(none, arena_copy(a, rest, sizeof rest), k, row_rest);
        format_decode_row(none, row_rest, k, want);
        format_quantize_row(f, arena_copy(a, x, sizeof x), k, row);
        format_decode_row(f, row, k, y);
        for (uint32_t j = 0; j < k; j++) n_same += y[j] == (rest[j] == 0 ? x[j] : want[j]);
        CHECK(n_same == k, "%u outliers of %u: %u weights differ", cases[i].n, k, k - n_same);
        arena_destroy(a);
    }
}

/* Equal values: the first ones, in the order of columns. */
static void check_outlier_ties(void) {
    Arena *a = arena_create();
    const Format *f = format_with_outliers(a, format_by_name("q1t"), 100000);
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = i % 2 ? -2 : 2;
    uint8_t *row = arena_alloc(a, format_row_bytes(f, 64)), *word = row + 20;
    format_quantize_row(f, x, 64, row);
    for (uint32_t i = 0; i < 6; i++, word += 4)
        CHECK(word[0] == i && word[1] == 0 && word[2] == 0 && word[3] == (i % 2 ? 0xc0 : 0x40),
              "outlier %u: %02x%02x %02x%02x", i, word[1], word[0], word[3], word[2]);
    arena_destroy(a);
}

static Gguf *model(Arena *a, GgufWriter *w) {
    static const char *const names[] = {"token_embd.weight", "blk.0.ffn_up.weight",
                                        "blk.0.ffn_gate_inp.weight", "blk.1.ffn_up.weight"};
    gw_string(w, "general.architecture", "llama");
    for (size_t i = 0; i < 4; i++)
        gw_tensor(w, names[i], 0, 2, (uint64_t[]){i == 3 ? 100 : 64, 4}, NULL,
                  (i == 3 ? 100 : 64) * 16);
    gw_tensor(w, "blk.0.ffn_down.weight", 8, 2, (uint64_t[]){64, 4}, NULL, 4 * 68);
    gw_tensor(w, "output_norm.weight", 0, 1, (uint64_t[]){64}, NULL, 256);
    return gguf_parse(a, "test.gguf", gw_finish(w));
}

static const char *stored(const Gguf *g, const char *name) {
    const GgufTensor *t = gguf_tensor(g, name);
    return t && t->store ? t->store->name : "-";
}

static void check_rules(void) {
    static const struct {
        const char *rules, *embedding, *up, *router;
    } cases[] = {
        {"q8_row", "q8_row", "q8_row", "-"},
        {"blk.*=q1", "-", "q1", "q1"},
        {"q4_block,token_embd.weight=keep", "-", "q4_block", "-"},
        {"token_embd*=q1,q8_row", "q8_row", "q8_row", "-"},
        {"q8_row,*gate_inp*=q8_row", "q8_row", "q8_row", "q8_row"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create();
        GgufWriter w = {0};
        Gguf *g = model(a, &w);
        weights_choose(a, g, cases[i].rules);
        CHECK(!strcmp(stored(g, "token_embd.weight"), cases[i].embedding), "%s", cases[i].rules);
        CHECK(!strcmp(stored(g, "blk.0.ffn_up.weight"), cases[i].up), "%s", cases[i].rules);
        CHECK(!strcmp(stored(g, "blk.0.ffn_gate_inp.weight"), cases[i].router), "%s",
              cases[i].rules);
        CHECK(!strcmp(stored(g, "blk.0.ffn_down.weight"), "-"), "%s: quantized already",
              cases[i].rules);
        CHECK(!strcmp(stored(g, "blk.1.ffn_up.weight"), "-"), "%s: rows of 100 weights",
              cases[i].rules);
        CHECK(!strcmp(stored(g, "output_norm.weight"), "-"), "%s: a vector", cases[i].rules);
        arena_destroy(a);
        gw_free(&w);
    }
}

/* One format for one share, so that matrices can stand in one part; none for very long rows. */
static void check_shares(void) {
    Arena *a = arena_create();
    GgufWriter w = {0};
    static const char *const names[] = {"a.weight", "b.weight", "c.weight", "d.weight",
                                        "long.weight"};
    gw_string(&w, "general.architecture", "llama");
    for (size_t i = 0; i < 5; i++)
        gw_tensor(&w, names[i], 1, 2, (uint64_t[]){i == 4 ? 65568 : 64, 2}, NULL,
                  (i == 4 ? 65568 : 64) * 4);
    Gguf *g = gguf_parse(a, "test.gguf", gw_finish(&w));
    weights_choose(a, g, "q1t:2.5%,b*=q1t:1%,c*=q1t:2.5%,d*=q1t:2%");
    const GgufTensor *t = g->tensors;
    CHECK(t[0].store && t[0].store->outliers == 25000 && t[0].store == t[2].store, "2.5%%");
    CHECK(t[1].store && t[1].store->outliers == 10000, "1%%");
    CHECK(t[3].store == format_by_name("q1t"), "2%% is what q1t has without a share");
    CHECK(!t[4].store, "a row of 65568 weights");
    weights_choose(a, g, "q1t:0%");
    CHECK(g->tensors[4].store && g->tensors[4].store->outliers == 0, "long rows without outliers");
    arena_destroy(a);
    gw_free(&w);
}

/* ---- scales of columns ----------------------------------------------------------------------- */

static const GgufTensor *balanced(Arena *a, uint32_t n_threads, const Gguf **file) {
    Gguf *g = gguf_open(a, "tests/data/llama-tied.gguf");
    weights_choose(a, g, "q8_2f,*attn_v*=q8_row");
    Model *m = model_read(a, g);
    balance_columns(a, fuse(a, graph_build(a, m, 64, NULL)), n_threads);
    *file = g;
    return g->tensors;
}

static bool same_columns(const Gguf *g, const char *a, const char *b) {
    const GgufTensor *t = gguf_tensor(g, a), *u = gguf_tensor(g, b);
    return t && u && t->columns && u->columns && t->ne[0] == u->ne[0] &&
           memcmp(t->columns, u->columns, t->ne[0] * sizeof(float)) == 0;
}

/* Codes are the nearest ones of weights over their columns' scales. */
static void check_rounding(Arena *a, const GgufTensor *t) {
    uint32_t k = (uint32_t)t->ne[0], n_wrong = 0;
    void *scratch = arena_alloc(a, weights_scratch_bytes(t));
    float *x = ARENA_ARRAY(a, float, k), *y = ARENA_ARRAY(a, float, k);
    const Format *file = format_by_gguf_type(t->type);
    for (uint64_t r = 0; r < t->ne[1]; r++) {
        double most = 0;
        format_decode_row(file, t->data + r * format_row_bytes(file, k), k, x);
        weights_values(t, r, scratch, y);
        for (uint32_t i = 0; i < k; i++)
            most = fmax(most, fabs((double)x[i] / (double)t->columns[i]));
        for (uint32_t i = 0; i < k; i++)
            n_wrong += !(fabs((double)x[i] - (double)y[i]) <=
                         0.5001 * most / 127 * (double)t->columns[i]);
    }
    CHECK(n_wrong == 0, "%s: %u weights are not rounded to the nearest code", t->name, n_wrong);
}

/* The square of a scale is proportional to the largest weight of its column in a part. */
static void check_scales(const Gguf *g) {
    const GgufTensor *part[] = {gguf_tensor(g, "blk.0.attn_q.weight"),
                                gguf_tensor(g, "blk.0.attn_k.weight")};
    double least = (double)INFINITY, most = 0;
    for (uint32_t i = 0; i < part[0]->ne[0]; i++) {
        double size = 0, c = (double)part[0]->columns[i];
        for (int p = 0; p < 2; p++)
            for (uint64_t r = 0; r < part[p]->ne[1]; r++) {
                float v;
                format_by_name("f16")->decode(part[p]->data + 2 * (r * part[p]->ne[0] + i), &v);
                size = fmax(size, fabs((double)v));
            }
        least = fmin(least, c * c / size), most = fmax(most, c * c / size);
    }
    CHECK(most > 0 && most / least < 1.0001, "scales of columns: from %g to %g", least, most);
}

static void check_balance(void) {
    Arena *a = arena_create();
    const Gguf *g, *other;
    const GgufTensor *t = balanced(a, 1, &g), *again = balanced(a, 4, &other);
    uint32_t n = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        CHECK(!t[i].columns == !(t[i].store && t[i].store->columns), "%s", t[i].name);
        if (!t[i].columns) continue;
        n++;
        check_rounding(a, &t[i]);
        CHECK(memcmp(t[i].columns, again[i].columns, t[i].ne[0] * sizeof(float)) == 0,
              "%s: other scales with four threads", t[i].name);
    }
    CHECK(n >= 7, "%u matrices have scales of columns", n);
    CHECK(same_columns(g, "blk.0.attn_q.weight", "blk.0.attn_k.weight"), "q and k are one part");
    CHECK(same_columns(g, "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight"), "so are gate and up");
    CHECK(!same_columns(g, "blk.0.attn_q.weight", "blk.1.attn_q.weight"), "two layers are not");
    CHECK(!same_columns(g, "blk.0.attn_q.weight", "blk.0.ffn_gate.weight"), "nor q and gate");
    check_scales(g);
    arena_destroy(a);
}

static void check_refused(void) {
    static const struct {
        const char *rules, *text;
    } cases[] = {{"q9", "cannot make the format 'q9'"},
                 {"q4_k", "cannot make the format 'q4_k'"},
                 {"q1t:3", "the share of outliers of q1t is '3'; it must be 0% to 50%"},
                 {"q1t:51%", "the share of outliers of q1t is '51%'"},
                 {"q1t:-1%", "the share of outliers of q1t is '-1%'"},
                 {"q1t:nan%", "the share of outliers of q1t is 'nan%'"},
                 {"q1t:", "the share of outliers of q1t is ''"},
                 {"q8_row:1%", "q8_row has no outliers: '1%' does not apply"},
                 {"blk.*=", "cannot make the format ''"},
                 {",", "takes FORMAT or PATTERN=FORMAT"},
                 {"nothing*=q1", "'nothing*' fits no matrix of test.gguf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create();
        GgufWriter w = {0};
        Gguf *g = model(a, &w);
        FailTrap trap;
        if (fail_catch(&trap)) {
            CHECK(trap.kind == FAIL_USAGE && strstr(trap.message, cases[i].text), "%s: %s",
                  cases[i].rules, trap.message);
        } else {
            weights_choose(a, g, cases[i].rules);
            fail_pop(&trap);
            CHECK(0, "%s was accepted", cases[i].rules);
        }
        arena_destroy(a);
        gw_free(&w);
    }
}

int main(void) {
    verbosity = 0;
    check_quantizers();
    check_outliers();
    check_outlier_ties();
    check_rules();
    check_shares();
    check_balance();
    check_refused();
    return check_done();
}
