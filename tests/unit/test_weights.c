/* test_weights.c - formats that qcc makes: quantizers on ordinary and extreme rows, and the rules
 * of --weights. */
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
    f->quantize(x, K, row);
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

static void check_quantizers(void) {
    static const struct {
        const char *name;
        double most;
    } limit[] = {/* of the largest value */
                 {"q8_row", 0.5 / 127 + 1e-6},
                 {"q4_block", 0.5 / 7 + 1e-3},
                 {"q1", 1},
                 {"q1t", 1.0 / 3 + 1e-3}};
    static const float sizes[] = {1, 3e-5f, 6e4f, 1e-7f};
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        Arena *a = arena_create();
        const Format *f = format_by_name(limit[i].name);
        float x[K] = {0};
        CHECK(f && f->quantize, "%s", limit[i].name);
        if (!f || !f->quantize) continue;
        CHECK(f->quantize == format_by_name(f->name)->quantize && round_trip(a, f, x) == 0,
              "%s: zeros", f->name);
        bool f16 = f->plane_bytes[1] ==
                   2; /* an f16 scale is coarse below 6e-5, and does not reach far */
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            fill(x, sizes[s]);
            double error = round_trip(a, f, x), most = f16 && sizes[s] < 1e-4f ? 1 : limit[i].most;
            CHECK(error <= most, "%s: size %g: error %g, at most %g", f->name, (double)sizes[s],
                  error, most);
        }
        fill(x, FLT_MAX);
        CHECK(round_trip(a, f, x) <= 1, "%s: the largest numbers", f->name);
        fill(x, FLT_TRUE_MIN);
        CHECK(isfinite(round_trip(a, f, x)), "%s: subnormal numbers", f->name);
        arena_destroy(a);
    }
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

static void check_refused(void) {
    static const struct {
        const char *rules, *text;
    } cases[] = {{"q9", "cannot make the format 'q9'"},
                 {"q4_k", "cannot make the format 'q4_k'"},
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
    check_rules();
    check_refused();
    return check_done();
}
