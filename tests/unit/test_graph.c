/* Architectures in Lua, the graph's checks and printed form, fusion, and what bad models and bad
 * descriptions get. The models are tiny and made here. */
#include "../../compiler/embed.h"
#include "../../compiler/fuse.h"
#include "../../compiler/lua_host.h"
#include "../../compiler/reference.h"
#include "gguf_writer.h"
#include "check.h"
#include <math.h>
#include <unistd.h>

enum { N_EMBD = 32, N_FF = 64, N_VOCAB = 8, N_HEAD = 2, HEAD = 16, N_CTX = 64, F32 = 0, F16 = 1 };

/* A one-layer model and what is odd about it. */
typedef struct {
    const char *arch;         /* NULL: "llama" */
    bool fused, bias, output; /* one attn_qkv; biases of q, k, v; an output matrix of its own */
    uint32_t n_expert, n_used;
    const char *scaling; /* rope.scaling.type */
    const char *without; /* this tensor is left out */
    const char *with;    /* this vector of 8 is added */
    const char *f16;     /* this matrix is F16 */
    const char *other;   /* this tensor gets other_ne[] and the type below instead */
    uint64_t other_ne[2];
    uint32_t other_type;
    uint32_t n_rot;  /* 0: HEAD */
    const char *key; /* ARCH.key = value is added */
    float value;
} Tiny;

static uint32_t random_state;
static float random_weight(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

static void add_tensor(GgufWriter *w, const Tiny *o, const char *name, uint64_t ne0, uint64_t ne1,
                       uint64_t ne2) {
    static uint8_t bytes[1 << 17];
    uint64_t ne[3] = {ne0, ne1, ne2};
    uint32_t type = F32;
    if (o->without && strcmp(name, o->without) == 0) return;
    if (o->f16 && strcmp(name, o->f16) == 0) type = F16;
    if (o->other && strcmp(name, o->other) == 0) {
        type = o->other_type;
        for (int i = 0; i < 2; i++)
            if (o->other_ne[i]) ne[i] = o->other_ne[i];
    }
    size_t n = (size_t)(ne[0] * (ne[1] ? ne[1] : 1) * (ne[2] ? ne[2] : 1)),
           each = type == F32 ? 4 : 2;
    ASSERT(n * each <= sizeof bytes);
    memset(bytes, 0, n * each);
    random_state = 1;
    for (const char *s = name; *s; s++) random_state = random_state * 31 + (uint8_t)*s;
    for (size_t i = 0; type == F32 && i < n; i++) {
        float x = random_weight();
        memcpy(bytes + 4 * i, &x, 4);
    }
    gw_tensor(w, name, type, ne[2] ? 3 : ne[1] ? 2 : 1, ne, bytes, n * each);
}

static void add_keys(GgufWriter *w, const Tiny *o, const char *arch) {
    char key[96];
#define KEY(name) (snprintf(key, sizeof key, "%s.%s", arch, name), key)
    gw_string(w, "general.architecture", arch);
    gw_u32(w, KEY("context_length"), N_CTX);
    gw_u32(w, KEY("embedding_length"), N_EMBD);
    gw_u32(w, KEY("block_count"), 1);
    gw_u32(w, KEY("feed_forward_length"), N_FF);
    gw_u32(w, KEY("vocab_size"), N_VOCAB);
    gw_u32(w, KEY("attention.head_count"), N_HEAD);
    gw_u32(w, KEY("attention.head_count_kv"), 1);
    gw_f32(w, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    gw_u32(w, KEY("rope.dimension_count"), o->n_rot ? o->n_rot : HEAD);
    if (o->n_expert) gw_u32(w, KEY("expert_count"), o->n_expert);
    if (o->n_expert) gw_u32(w, KEY("expert_used_count"), o->n_used);
    if (o->scaling) {
        gw_string(w, KEY("rope.scaling.type"), o->scaling);
        gw_f32(w, KEY("rope.scaling.factor"), 4);
        gw_u32(w, KEY("rope.scaling.original_context_length"), N_CTX / 4);
    }
    if (o->key) gw_f32(w, KEY(o->key), o->value);
}

static void add_attention(GgufWriter *w, const Tiny *o) {
    uint64_t q = N_HEAD * HEAD, kv = HEAD;
    if (o->fused) {
        add_tensor(w, o, "blk.0.attn_qkv.weight", N_EMBD, q + 2 * kv, 0);
        if (o->bias) add_tensor(w, o, "blk.0.attn_qkv.bias", q + 2 * kv, 0, 0);
    } else {
        add_tensor(w, o, "blk.0.attn_q.weight", N_EMBD, q, 0);
        add_tensor(w, o, "blk.0.attn_k.weight", N_EMBD, kv, 0);
        add_tensor(w, o, "blk.0.attn_v.weight", N_EMBD, kv, 0);
        if (o->bias) {
            add_tensor(w, o, "blk.0.attn_q.bias", q, 0, 0);
            add_tensor(w, o, "blk.0.attn_k.bias", kv, 0, 0);
            add_tensor(w, o, "blk.0.attn_v.bias", kv, 0, 0);
        }
    }
    add_tensor(w, o, "blk.0.attn_output.weight", q, N_EMBD, 0);
}

static void add_feed_forward(GgufWriter *w, const Tiny *o) {
    if (o->n_expert) {
        add_tensor(w, o, "blk.0.ffn_gate_inp.weight", N_EMBD, o->n_expert, 0);
        add_tensor(w, o, "blk.0.ffn_gate_exps.weight", N_EMBD, N_FF, o->n_expert);
        add_tensor(w, o, "blk.0.ffn_up_exps.weight", N_EMBD, N_FF, o->n_expert);
        add_tensor(w, o, "blk.0.ffn_down_exps.weight", N_FF, N_EMBD, o->n_expert);
        return;
    }
    add_tensor(w, o, "blk.0.ffn_gate.weight", N_EMBD, N_FF, 0);
    add_tensor(w, o, "blk.0.ffn_up.weight", N_EMBD, N_FF, 0);
    add_tensor(w, o, "blk.0.ffn_down.weight", N_FF, N_EMBD, 0);
}

static Bytes tiny_file(GgufWriter *w, const Tiny *o) {
    add_keys(w, o, o->arch ? o->arch : "llama");
    add_tensor(w, o, "token_embd.weight", N_EMBD, N_VOCAB, 0);
    add_tensor(w, o, "output_norm.weight", N_EMBD, 0, 0);
    if (o->output) add_tensor(w, o, "output.weight", N_EMBD, N_VOCAB, 0);
    add_tensor(w, o, "blk.0.attn_norm.weight", N_EMBD, 0, 0);
    add_attention(w, o);
    add_tensor(w, o, "blk.0.ffn_norm.weight", N_EMBD, 0, 0);
    add_feed_forward(w, o);
    if (o->with) add_tensor(w, o, o->with, 8, 0, 0);
    if (o->scaling && strcmp(o->scaling, "longrope") == 0) {
        add_tensor(w, o, "rope_factors_long.weight", HEAD / 2, 0, 0);
        add_tensor(w, o, "rope_factors_short.weight", HEAD / 2, 0, 0);
    }
    return gw_finish(w);
}

/* The graph and program of a tiny model; fails as the passes do. */
static Program *tiny_program(Arena *a, const Tiny *o, uint32_t n_ctx, const char *lua_path) {
    GgufWriter w = {0};
    Bytes file = tiny_file(&w, o);
    Bytes kept = {arena_copy(a, file.p, file.n), file.n};
    gw_free(&w);
    Graph *g = graph_build(a, model_read(a, gguf_parse(a, "tiny.gguf", kept)), n_ctx, lua_path);
    graph_verify(g);
    Program *p = fuse(a, g);
    program_verify(p);
    return p;
}

static const char *printed(Arena *a, const Tiny *o, uint32_t n_ctx) {
    Program *p = tiny_program(a, o, n_ctx, NULL);
    Text t = {.arena = a};
    graph_print(p->graph, &t);
    program_print(p, &t);
    return t.s;
}

/* ---- what comes out -------------------------------------------------------------------------- */

static const char plain[] =
    "graph llama: 1 layers, context 64, 19 nodes, logits %18\n"
    "%0 token_embd = embed : 32  weight token_embd.weight F32 {32, 8}\n"
    "%1 blk.0.attn_norm = rms_norm %0 : 32  weight blk.0.attn_norm.weight F32 {32}  eps 1e-05\n"
    "%2 blk.0.attn_q = linear %1 : 32  weight blk.0.attn_q.weight F32 {32, 32}\n"
    "%3 blk.0.attn_k = linear %1 : 16  weight blk.0.attn_k.weight F32 {32, 16}\n"
    "%4 blk.0.attn_v = linear %1 : 16  weight blk.0.attn_v.weight F32 {32, 16}\n"
    "%5 blk.0.attn_q.rope = rope %2 : 32  2 heads of 16, rot 16 neighbours, base 10000\n"
    "%6 blk.0.attn_k.rope = rope %3 : 16  1 heads of 16, rot 16 neighbours, base 10000\n"
    "%7 blk.0.attention = attention %5 %6 %4 : 32  2 heads of 16, 1 for k and v, scale 0.25\n"
    "%8 blk.0.attn_output = linear %7 : 32  weight blk.0.attn_output.weight F32 {32, 32}\n"
    "%9 blk.0.attn_output.add = add %0 %8 : 32\n"
    "%10 blk.0.ffn_norm = rms_norm %9 : 32  weight blk.0.ffn_norm.weight F32 {32}  eps 1e-05\n"
    "%11 blk.0.ffn_gate = linear %10 : 64  weight blk.0.ffn_gate.weight F32 {32, 64}\n"
    "%12 blk.0.ffn_gate.silu = silu %11 : 64\n"
    "%13 blk.0.ffn_up = linear %10 : 64  weight blk.0.ffn_up.weight F32 {32, 64}\n"
    "%14 blk.0.ffn_up.mul = mul %12 %13 : 64\n"
    "%15 blk.0.ffn_down = linear %14 : 32  weight blk.0.ffn_down.weight F32 {64, 32}\n"
    "%16 blk.0.ffn_down.add = add %9 %15 : 32\n"
    "%17 output_norm = rms_norm %16 : 32  weight output_norm.weight F32 {32}  eps 1e-05\n"
    "%18 output = linear %17 : 8  weight token_embd.weight F32 {32, 8}\n"
    "program llama: 7 steps, 7 values, logits head\n"
    "embed = embed  token_embd.weight f32 8  -> embed[32]\n"
    "blk.0.qkv = linear embed[32]  norm blk.0.attn_norm.weight eps 1e-05  blk.0.attn_q.weight f32 "
    "32"
    "  blk.0.attn_k.weight f32 16  blk.0.attn_v.weight f32 16  -> blk.0.qkv[64]"
    "  # norm inside; q, k, v are all f32\n"
    "blk.0.attention = attention blk.0.qkv[64]  2/1 heads of 16  -> blk.0.attention[32]"
    "  # rotation and cache write inside\n"
    "blk.0.attn_output = linear blk.0.attention[32]  blk.0.attn_output.weight f32 32  plus "
    "embed[32]"
    "  -> blk.0.attn_output[32]  # residual inside\n"
    "blk.0.gate_up = linear blk.0.attn_output[32]  norm blk.0.ffn_norm.weight eps 1e-05"
    "  blk.0.ffn_gate.weight f32 64  blk.0.ffn_up.weight f32 64  swiglu  -> blk.0.gate_up[64]"
    "  # norm and activation inside\n"
    "blk.0.ffn_down = linear blk.0.gate_up[64]  blk.0.ffn_down.weight f32 32  plus "
    "blk.0.attn_output[32]"
    "  -> blk.0.ffn_down[32]  # residual inside\n"
    "head = linear blk.0.ffn_down[32]  norm output_norm.weight eps 1e-05  token_embd.weight f32 8"
    "  -> head[8]  last token only  # norm inside\n";

static void test_printed(void) {
    Arena *a = arena_create();
    const char *s = printed(a, &(Tiny){0}, 0);
    CHECK(strcmp(s, plain) == 0, "printed form of the plain model:\n%s", s);
    arena_destroy(a);
}

/* Variants: lines that must be in the printed form. */
static void test_variants(void) {
    static const struct {
        Tiny model;
        uint32_t n_ctx;
        const char *lines[3];
    } v[] = {
        {{.output = true}, 0, {"output = linear %17 : 8  weight output.weight F32 {32, 8}\n"}},
        {{.scaling = "linear"}, 0, {"rot 16 neighbours, base 10000, scale 0.25\n"}},
        {{.scaling = "none"}, 0, {"rot 16 neighbours, base 10000\n"}},
        {{.scaling = "yarn"}, 0, {"base 10000, scale 0.25, yarn 1 beta 32..1 ctx 16\n"}},
        {{.scaling = "yarn", .key = "rope.scaling.yarn_beta_fast", .value = 8},
         0,
         {"beta 32..1 ctx 16\n"}},
        {{.arch = "mistral3", .scaling = "yarn", .key = "rope.scaling.yarn_beta_fast", .value = 8},
         0,
         {"base 10000, scale 0.25, yarn 1 beta 8..1 ctx 16\n"}},
        {{.arch = "mistral3",
          .scaling = "yarn",
          .key = "rope.scaling.yarn_log_multiplier",
          .value = 1},
         0,
         {"scale 0.25, magnitude 0.878249, yarn 1"}},
        {{.with = "rope_freqs.weight"}, 0, {"base 10000  factors rope_freqs.weight F32 {8}\n"}},
        {{.scaling = "longrope"}, N_CTX / 4, {"factors rope_factors_short.weight F32 {8}\n"}},
        {{.scaling = "longrope"}, 0, {"factors rope_factors_long.weight F32 {8}\n"}},
        {{.scaling = "longrope", .key = "rope.scaling.attn_factor", .value = 1.5f},
         0,
         {", magnitude 1.5  f"}},
        {{.bias = true}, 0, {"bias blk.0.attn_k.bias F32 {16}\n", "attn_q.weight f32 32 +bias"}},
        {{.fused = true, .bias = true},
         0,
         {"blk.0.attn_k = linear %1 : 16  weight blk.0.attn_qkv.weight[32..47] F32 {32, 16}"
          "  bias blk.0.attn_qkv.bias[32..47] F32 {16}\n",
          "q, k, v are all f32"}},
        {{.f16 = "blk.0.attn_q.weight"},
         0,
         {"blk.0.q = linear embed[32]  norm blk.0.attn_norm.weight eps 1e-05  blk.0.attn_q.weight "
          "f16 32"
          "  -> blk.0.qkv[64]  #",
          "blk.0.kv = linear embed[32]", "-> blk.0.qkv[64] from column 32  #"}},
        {{.f16 = "blk.0.attn_k.weight"},
         0,
         {"blk.0.q = linear", "blk.0.k = linear",
          "blk.0.attn_v.weight f32 16  -> blk.0.qkv[64] from column 48  #"}},
        {{.f16 = "blk.0.attn_v.weight"}, 0, {"blk.0.qk = linear", "blk.0.v = linear"}},
        {{.f16 = "blk.0.ffn_up.weight"},
         0,
         {"blk.0.gate = linear blk.0.attn_output[32]  norm",
          "blk.0.up = linear blk.0.attn_output[32]  norm",
          "blk.0.gate_act = gate blk.0.gate[64]  times blk.0.up[64]  -> blk.0.gate_act[64]\n"}},
        {{.n_expert = 4, .n_used = 2},
         0,
         {"blk.0.ffn_moe = moe %10 : 32  2 of 4 experts  router blk.0.ffn_gate_inp.weight F32 {32, "
          "4}",
          "blk.0.moe = moe blk.0.attn_output[32]  norm blk.0.ffn_norm.weight eps 1e-05"
          "  2 of 4 experts of 64  plus blk.0.attn_output[32]  -> blk.0.moe[32]"}},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        Arena *a = arena_create();
        const char *s = printed(a, &v[i].model, v[i].n_ctx);
        for (size_t j = 0; j < 3 && v[i].lines[j]; j++)
            CHECK(strstr(s, v[i].lines[j]), "variant %zu: no \"%s\" in:\n%s", i, v[i].lines[j], s);
        arena_destroy(a);
    }
}

static void run_tiny(Arena *a, const Tiny *o, float logits[N_VOCAB]) {
    static const uint32_t token[] = {1, 5, 2};
    Program *p = tiny_program(a, o, 0, NULL);
    reference_run(reference_create(a, p->graph, 3, KV_F32), token, 3, logits, true);
}

/* Where the computed values are known: rows of a fused matrix; experts that are all used. */
static void test_values(void) {
    Arena *a = arena_create();
    Program *fused = tiny_program(a, &(Tiny){.fused = true, .bias = true}, 0, NULL);
    const GraphNode *k = &fused->graph->node[3];
    const GgufTensor *whole = gguf_tensor(fused->graph->model->gguf, "blk.0.attn_qkv.weight");
    CHECK(k->weight->data == whole->data + 32 * N_EMBD * 4 && k->weight->bytes == 16 * N_EMBD * 4,
          "rows of %s", k->name);
    float one[N_VOCAB], all[N_VOCAB];
    run_tiny(a, &(Tiny){.n_expert = 4, .n_used = 1}, one);
    run_tiny(a, &(Tiny){.n_expert = 4, .n_used = 4}, all);
    CHECK(memcmp(one, all, sizeof one) != 0, "the number of experts used has no effect");
    for (int i = 0; i < N_VOCAB; i++) CHECK(isfinite(one[i]) && isfinite(all[i]), "logit %d", i);
    arena_destroy(a);
}

/* Angles against the formulas' limits. */
static void test_rope(void) {
    Rope r = {.n_head = 1,
              .head_dim = 8,
              .n_rot = 8,
              .base = 10000,
              .freq_scale = 1,
              .attn_factor = 1,
              .beta_fast = 32,
              .beta_slow = 1,
              .n_ctx_orig = 4096};
    double c, s, c4, s4;
    rope_angle(&r, 7, 0, &c, &s);
    CHECK(fabs(c - cos(7)) < 1e-15 && fabs(s - sin(7)) < 1e-15, "%g %g", c, s);
    rope_angle(&r, 7, 2, &c, &s);
    CHECK(fabs(s - sin(0.07)) < 1e-15, "%g", s);
    Rope yarn = r;
    yarn.freq_scale = 0.25f;
    yarn.ext_factor = 1;
    double magnitude = 1 + 0.1 * log(4);
    rope_angle(&yarn, 7, 0, &c4, &s4); /* the fastest pair is not stretched */
    rope_angle(&r, 7, 0, &c, &s);
    CHECK(fabs(c4 - c * magnitude) < 1e-12 && fabs(s4 - s * magnitude) < 1e-12, "%g %g", c4, s4);
    yarn.n_ctx_orig = 16; /* now the slowest pair makes less than one turn: stretched fully */
    rope_angle(&yarn, 8, 3, &c4, &s4);
    rope_angle(&r, 2, 3, &c, &s);
    CHECK(fabs(s4 - s * magnitude) < 1e-12, "%g, expected %g", s4, s * magnitude);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect(const Tiny *o, const char *lua_path, const char *message) {
    Arena *a = arena_create();
    FailTrap t;
    if (fail_catch(&t)) {
        CHECK(t.kind == FAIL_USER && strcmp(t.message, message) == 0,
              "\n  expected %s\n  found    %s", message, t.message);
    } else {
        tiny_program(a, o, 0, lua_path);
        fail_pop(&t);
        CHECK(false, "not refused: %s", message);
    }
    arena_destroy(a);
}

static void test_bad_models(void) {
    static const struct {
        Tiny model;
        const char *message;
    } bad[] = {
        {{.arch = "mystery"},
         "tiny.gguf: general.architecture is \"mystery\", known are: llama, mistral3"},
        {{.other = "blk.0.attn_q.weight", .other_ne = {N_EMBD, 48}},
         "tiny.gguf: tensor blk.0.attn_q.weight: shape {32, 48, 1, 1}, expected {32, 32, 1, 1}"},
        {{.other = "blk.0.ffn_down.weight", .other_ne = {32, 32}},
         "tiny.gguf: tensor blk.0.ffn_down.weight: shape {32, 32, 1, 1}, expected {64, 32, 1, 1}"},
        {{.other = "output_norm.weight", .other_ne = {16, 0}},
         "tiny.gguf: tensor output_norm.weight: groups of 16, expected 32"},
        {{.other = "blk.0.attn_norm.weight", .other_type = F16},
         "tiny.gguf: tensor blk.0.attn_norm.weight: type F16, expected F32"},
        {{.other = "blk.0.ffn_up.weight", .other_type = 25 /* I16 */},
         "tiny.gguf: tensor blk.0.ffn_up.weight: weight format I16 is not supported by this qcc"},
        {{.fused = true, .other = "blk.0.attn_qkv.weight", .other_ne = {N_EMBD, 80}},
         "tiny.gguf: tensor blk.0.attn_qkv.weight: 80 rows, expected 64"},
        {{.fused = true, .other = "blk.0.attn_qkv.weight", .other_ne = {N_EMBD, 40}},
         "tiny.gguf: tensor blk.0.attn_qkv.weight: 40 rows, expected at least 48"},
        {{.with = "blk.0.attn_sinks.weight"},
         "tiny.gguf: tensor blk.0.attn_sinks.weight: llama models have none: a variant that qcc "
         "does not know"},
        {{.n_rot = 8}, "tiny.gguf: rope.dimension_count is 8, expected the head's size 16"},
        {{.arch = "mistral3", .key = "attention.temperature_scale", .value = 0.1f},
         "tiny.gguf: mistral3.attention.temperature_scale is set: attention temperature is not "
         "supported"},
        {{.n_expert = 8,
          .n_used = 2,
          .other = "blk.0.ffn_up_exps.weight",
          .other_ne = {N_EMBD, 32}},
         "tiny.gguf: tensor blk.0.ffn_up_exps.weight: shape {32, 32, 8, 1}, expected {32, 64, 8, "
         "1}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(&bad[i].model, NULL, bad[i].message);
    Arena *a = arena_create();
    CHECK(strstr(printed(a, &(Tiny){.with = "blk.0.attn_q.input_scale"}, 0), "program llama"),
          "input_scale");
    CHECK(strstr(printed(a, &(Tiny){.with = "blk.1.nextn.eh_proj.weight"}, 0), "program llama"),
          "draft layers");
    arena_destroy(a);
}

static void expect_missing(const char *name) {
    Arena *a = arena_create();
    FailTrap t;
    if (fail_catch(&t)) {
        CHECK(t.kind == FAIL_USER && strstr(t.message, name) && strstr(t.message, "tiny.gguf"),
              "%s: %s", name, t.message);
    } else {
        tiny_program(a, &(Tiny){.without = name}, 0, NULL);
        fail_pop(&t);
        CHECK(false, "missing %s is not noticed", name);
    }
    arena_destroy(a);
}

static void test_missing_tensors(void) {
    static const char *const names[] = {"output_norm.weight",    "blk.0.attn_norm.weight",
                                        "blk.0.attn_k.weight",   "blk.0.attn_output.weight",
                                        "blk.0.ffn_norm.weight", "blk.0.ffn_up.weight",
                                        "token_embd.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) expect_missing(names[i]);
}

/* Descriptions of the user's own, in a directory that overrides the shipped ones. */
static void test_bad_descriptions(void) {
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"return 1 +", "compiler/arch/llama.lua:1: unexpected symbol near <eof>"},
        {"return function(m)\n local x = nil + 1\nend",
         "compiler/arch/llama.lua:2: attempt to perform arithmetic on a nil value"},
        {"return function(m) return io.open('x') end",
         "compiler/arch/llama.lua:1: attempt to index a nil value (global 'io')"},
        {"return function(m) return load('return 1')() end",
         "compiler/arch/llama.lua:1: attempt to call a nil value (global 'load')"},
        {"return function(m) return include 'compiler/arch/none.lua' end",
         "compiler/arch/none.lua: no such file among those that qcc ships"},
        {"return function(m)\n return linear(3, 'output', 4)\nend",
         "compiler/arch/llama.lua:2: linear: expected a value, found number"},
        {"return function(m) return embed('token_embd', 'wide') end",
         "compiler/arch/llama.lua:1: embed: width: expected an integer, found string"},
        {"return function(m) return embed('token_embd', -1) end",
         "compiler/arch/llama.lua:1: embed: width: -1 is out of range"},
        {"return function(m) error {} end", "error object is not a string"},
        {"return function(m) end", "the description's result: expected a value, found nil"},
    };
    char dir[] = "/tmp/qcc-test-XXXXXX";
    ASSERT(mkdtemp(dir));
    Arena *a = arena_create();
    const char *arch = arena_printf(a, "%s/compiler/arch", dir),
               *file = arena_printf(a, "%s/llama.lua", arch);
    file_mkdirs(arch);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_write(file, bad[i].text, strlen(bad[i].text), 0644);
        expect(&(Tiny){0}, dir, bad[i].message);
    }
    unlink(file);
    rmdir(arch);
    rmdir(arena_printf(a, "%s/compiler", dir));
    rmdir(dir);
    arena_destroy(a);
}

/* The graph x = embed, odd(x), output(odd): right, but no step does the odd node. One line names
 * node and operation. */
static void expect_unfusable(GraphNode odd, const char *message) {
    Arena *a = arena_create();
    const Graph *whole = tiny_program(a, &(Tiny){0}, 0, NULL)->graph;
    const GgufTensor *weight = gguf_tensor(whole->model->gguf, "token_embd.weight");
    Graph *g = ARENA_NEW(a, Graph);
    g->model = whole->model;
    graph_add(
        a, g,
        &(GraphNode){.op = OP_EMBED, .name = "x", .width = N_EMBD, .factor = 1, .weight = weight});
    odd.width = N_EMBD;
    graph_add(a, g, &odd);
    g->logits = graph_add(a, g,
                          &(GraphNode){.op = OP_LINEAR,
                                       .name = "output",
                                       .n_in = 1,
                                       .in = {1},
                                       .width = N_VOCAB,
                                       .weight = weight});
    FailTrap t;
    if (fail_catch(&t)) {
        CHECK(strstr(t.message, message), "\n  expected %s\n  found    %s", message, t.message);
    } else {
        fuse(a, g);
        fail_pop(&t);
        CHECK(false, "not refused: %s", message);
    }
    arena_destroy(a);
}

static void test_unfusable(void) {
    static const struct {
        GraphNode node;
        const char *message;
    } bad[] = {
        {{.op = OP_SILU, .name = "odd", .n_in = 1},
         "odd (silu): an activation that is not of a gate"},
        {{.op = OP_MUL, .name = "odd", .n_in = 2}, "odd (mul): not silu(gate x) * (up x)"},
        {{.op = OP_ADD, .name = "odd", .n_in = 2},
         "odd (add): neither side is a product of its own"},
        {{.op = OP_ROPE, .name = "odd", .n_in = 1},
         "odd (rope): a rotation that is not of attention's q or k"},
        {{.op = OP_ATTENTION, .name = "odd", .n_in = 3},
         "odd (attention): q, k, v must be products of one value, and read by nothing else"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_unfusable(bad[i].node, bad[i].message);
}

static void test_embedded(void) {
    Bytes text = embedded_find("compiler/arch/llama.lua");
    CHECK(text.p && text.n == strlen((const char *)text.p), "%zu bytes", text.n);
    CHECK(!embedded_find("compiler/arch/llama").p, "a file that is not there");
    Arena *a = arena_create();
    size_t n;
    const char **names = lua_host_list(a, NULL, "compiler/arch", &n);
    for (size_t i = 1; i < n; i++)
        CHECK(strcmp(names[i - 1], names[i]) < 0, "%s is out of order", names[i]);
    bool same = text.p == lua_host_find(a, "/nowhere", "compiler/arch/llama.lua").p;
    CHECK(same, "a directory without the file hides the embedded one");
    arena_destroy(a);
}

int main(void) {
    test_printed();
    test_variants();
    test_values();
    test_rope();
    test_bad_models();
    test_missing_tensors();
    test_bad_descriptions();
    test_unfusable();
    test_embedded();
    return check_done();
}
