/* Hyper-parameters: defaults, per-layer values, every refusal with its exact words, the models at
 * hand. */
#define _POSIX_C_SOURCE 200809L
#include "../../compiler/model.h"
#include "check.h"
#include "gguf_writer.h"

#define NE(...) ((uint64_t[]){__VA_ARGS__})

/* The least that a model says. */
static void build_least(GgufWriter *w) {
    gw_string(w, "general.architecture", "llama");
    gw_u32(w, "llama.context_length", 512);
    gw_u32(w, "llama.embedding_length", 64);
    gw_u32(w, "llama.block_count", 3);
}

static void build_full(GgufWriter *w) {
    build_least(w);
    gw_string(w, "general.type", "model");
    gw_string(w, "general.name", "Tiny\nModel");
    gw_u32(w, "llama.nextn_predict_layers", 1);
    gw_int(w, "llama.attention.head_count", GGUF_U64, 4);
    gw_array(w, "llama.attention.head_count_kv", GGUF_I32, 3, (int32_t[]){2, 0, 4}, 12);
    gw_array(w, "llama.feed_forward_length", GGUF_U32, 3, (uint32_t[]){128, 256, 1}, 12);
    gw_u32(w, "llama.attention.key_length", 32);
    gw_u32(w, "llama.attention.value_length", 24);
    gw_u32(w, "llama.rope.dimension_count", 20);
    gw_f32(w, "llama.rope.freq_base", 5e5f);
    gw_string(w, "llama.rope.scaling.type", "yarn");
    gw_f32(w, "llama.rope.scaling.factor", 4);
    gw_u32(w, "llama.rope.scaling.original_context_length", 128);
    gw_f32(w, "llama.rope.scaling.attn_factor", 0.5f);
    gw_f32(w, "llama.attention.layer_norm_epsilon", 1e-4f);
    gw_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    gw_u32(w, "llama.expert_count", 8);
    gw_array(w, "llama.expert_used_count", GGUF_U32, 3, (uint32_t[]){2, 2, 1}, 12);
    gw_u32(w, "llama.vocab_size", 9999); /* not believed */
    gw_strings(w, "tokenizer.ggml.tokens", 3, (const char *[]){"a", "b", "c"});
    gw_tensor(w, "token_embd.weight", 0, 2, NE(64, 3), NULL, 64 * 3 * 4);
}

static void test_defaults(void) {
    GgufWriter w = {0};
    build_least(&w);
    gw_u32(&w, "llama.attention.head_count", 4);
    gw_f32(&w, "llama.attention.layer_norm_epsilon", 1e-3f);
    gw_tensor(&w, "token_embd.weight", 0, 2, NE(64, 7), NULL, 64 * 7 * 4);
    Arena *a = arena_create();
    Model *m = model_read(a, gguf_parse(a, "dir/tiny.gguf", gw_finish(&w)));
    CHECK(!strcmp(m->arch, "llama") && !strcmp(m->name, "tiny"), "%s %s", m->arch, m->name);
    CHECK(m->n_layer == 3 && m->n_embd == 64 && m->n_ctx_train == 512 && m->n_vocab == 7, "sizes");
    CHECK(m->n_head[2] == 4 && m->n_head_kv[2] == 4 && m->n_ff[2] == 0, "per layer");
    CHECK(m->head_dim == 16 && m->head_dim_v == 16 && m->n_rot == 16, "heads");
    CHECK(m->rope_base == 10000 && !strcmp(m->rope_scaling, "none") && m->rope_factor == 0, "rope");
    CHECK(m->rope_n_ctx_orig == 512 && m->rope_attn_factor == 1 && m->norm_eps == 1e-3f,
          "rope, norm");
    CHECK(m->n_expert == 0 && m->n_expert_used == 0, "experts");
    CHECK(model_need(m, "token_embd.weight")->ne[1] == 7, "need");
    FailTrap t;
    if (fail_catch(&t))
        CHECK(!strcmp(t.message, "dir/tiny.gguf: tensor 'output.weight' is missing; a model of "
                                 "architecture 'llama' needs it"),
              "%s", t.message);
    else model_need(m, "output.weight"), CHECK(false, "found");
    arena_destroy(a);
    gw_free(&w);
}

static void test_full(void) {
    static const char expected[] = "arch             llama\n"
                                   "name             Tiny\\x0AModel\n"
                                   "n_ctx_train      512\n"
                                   "n_embd           64\n"
                                   "n_layer          2\n"
                                   "n_vocab          3\n"
                                   "head_dim         32\n"
                                   "head_dim_v       24\n"
                                   "n_rot            20\n"
                                   "n_expert         8\n"
                                   "n_expert_used    2\n"
                                   "rope_n_ctx_orig  128\n"
                                   "n_head           4\n"
                                   "n_head_kv        2, 0\n"
                                   "n_ff             128, 256\n"
                                   "norm_eps         1e-06\n"
                                   "rope_base        500000\n"
                                   "rope_scaling     yarn\n"
                                   "rope_factor      4\n"
                                   "rope_attn_factor 0.5\n";
    GgufWriter w = {0};
    build_full(&w);
    Arena *a = arena_create();
    Text out = {.arena = a};
    model_print(model_read(a, gguf_parse(a, "t.gguf", gw_finish(&w))), &out);
    CHECK(!strcmp(out.s, expected), "\n%s", out.s);
    arena_destroy(a);
    gw_free(&w);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void nothing(GgufWriter *w) { (void)w; }
static void arch_path(GgufWriter *w) { gw_string(w, "general.architecture", "../x"); }
static void arch_number(GgufWriter *w) { gw_u32(w, "general.architecture", 1); }
static void adapter(GgufWriter *w) { build_least(w), gw_string(w, "general.type", "adapter"); }
static void no_context(GgufWriter *w) { gw_string(w, "general.architecture", "qwen3"); }
static void no_layers(GgufWriter *w) {
    gw_string(w, "general.architecture", "llama");
    gw_u32(w, "llama.context_length", 512);
    gw_u32(w, "llama.embedding_length", 64);
    gw_u32(w, "llama.block_count", 0);
}
static void all_drafting(GgufWriter *w) {
    build_least(w), gw_u32(w, "llama.nextn_predict_layers", 3);
}
static void tokens_type(GgufWriter *w) {
    build_least(w), gw_string(w, "tokenizer.ggml.tokens", "x");
}
static void no_tokens(GgufWriter *w) {
    build_least(w), gw_strings(w, "tokenizer.ggml.tokens", 0, NULL);
}
static void vocab_shape(GgufWriter *w) {
    build_least(w);
    gw_strings(w, "tokenizer.ggml.tokens", 2, (const char *[]){"a", "b"});
    gw_tensor(w, "token_embd.weight", 0, 2, NE(64, 3), NULL, 64 * 3 * 4);
}
static void heads_array(GgufWriter *w) {
    build_least(w);
    gw_array(w, "llama.attention.head_count", GGUF_U32, 2, (uint32_t[]){1, 1}, 8);
}
static void heads_floats(GgufWriter *w) {
    build_least(w);
    gw_array(w, "llama.attention.head_count", GGUF_F32, 3, (float[]){1, 1, 1}, 12);
}
static void heads_negative(GgufWriter *w) {
    build_least(w);
    gw_array(w, "llama.attention.head_count", GGUF_I32, 3, (int32_t[]){1, -1, 1}, 12);
}
static void heads_groups(GgufWriter *w) {
    build_least(w);
    gw_u32(w, "llama.attention.head_count", 4);
    gw_u32(w, "llama.attention.head_count_kv", 3);
}
static void heads_many(GgufWriter *w) {
    build_least(w), gw_u32(w, "llama.attention.head_count", 100000);
}
static void heads_uneven(GgufWriter *w) {
    build_least(w), gw_u32(w, "llama.attention.head_count", 5);
}
static void head_dim_type(GgufWriter *w) {
    build_least(w), gw_f32(w, "llama.attention.key_length", 32);
}
static void rot_odd(GgufWriter *w) {
    build_least(w);
    gw_u32(w, "llama.attention.head_count", 4);
    gw_u32(w, "llama.rope.dimension_count", 18);
}
static void rope_base_nan(GgufWriter *w) {
    build_least(w), gw_f64(w, "llama.rope.freq_base", 0.0 / 0.0);
}
static void rope_type(GgufWriter *w) {
    build_least(w), gw_string(w, "llama.rope.scaling.type", "su");
}
static void eps_negative(GgufWriter *w) {
    build_least(w), gw_f32(w, "llama.attention.layer_norm_rms_epsilon", -1);
}
static void experts_unused(GgufWriter *w) { build_least(w), gw_u32(w, "llama.expert_count", 4); }
static void experts_many(GgufWriter *w) { build_least(w), gw_u32(w, "llama.expert_count", 1025); }
static void experts_differ(GgufWriter *w) {
    build_least(w);
    gw_u32(w, "llama.expert_count", 4);
    gw_array(w, "llama.expert_used_count", GGUF_U32, 3, (uint32_t[]){2, 1, 2}, 12);
}

static const struct {
    void (*build)(GgufWriter *);
    const char *message;
} refused[] = {
    {nothing, "metadata key 'general.architecture' is missing; this is not a language model"},
    {arch_path,
     "metadata key 'general.architecture' is '../x'; expected letters, digits, '-' and '_'"},
    {arch_number, "metadata key 'general.architecture' is of type u32; expected a string"},
    {adapter, "metadata key 'general.type' says that this is a file of kind 'adapter'; expected a "
              "whole 'model'"},
    {no_context, "metadata key 'qwen3.context_length' is missing; a language model needs it"},
    {no_layers, "metadata key 'llama.block_count' is 0; expected 1 to 512"},
    {all_drafting, "metadata key 'llama.nextn_predict_layers' is 3; expected 0 to 2"},
    {tokens_type, "metadata key 'tokenizer.ggml.tokens' is not an array of strings"},
    {no_tokens, "metadata key 'tokenizer.ggml.tokens' has 0 tokens; expected 1 to 268435456"},
    {vocab_shape,
     "tensor 'token_embd.weight' is 64 x 3; expected embedding length x vocabulary = 64 x 2"},
    {heads_array,
     "metadata key 'llama.attention.head_count' has 2 elements; expected one for each of 3 layers"},
    {heads_floats,
     "metadata key 'llama.attention.head_count' is an array of f32; expected integers"},
    {heads_negative,
     "metadata key 'llama.attention.head_count' is -1 for layer 1; expected 0 to 16384"},
    {heads_groups,
     "layer 0 has 4 heads and 3 key/value heads; the first must be a multiple of the second"},
    {heads_many, "metadata key 'llama.attention.head_count' is 100000; expected 0 to 16384"},
    {heads_uneven, "metadata key 'llama.attention.key_length' is missing, and the embedding length "
                   "64 is not a multiple of the 5 heads"},
    {head_dim_type,
     "metadata key 'llama.attention.key_length' is of type f32; expected a non-negative integer"},
    {rot_odd, "metadata key 'llama.rope.dimension_count' is 18; expected an even number up to the "
              "head size 16"},
    {rope_base_nan, "metadata key 'llama.rope.freq_base' is not a finite number"},
    {rope_type,
     "metadata key 'llama.rope.scaling.type' is 'su'; expected none, linear, yarn or longrope"},
    {eps_negative,
     "metadata key 'llama.attention.layer_norm_rms_epsilon' is -1; expected at least 0"},
    {experts_unused, "metadata key 'llama.expert_used_count' is 0 of 4 experts; expected 1 to all "
                     "of them, or 0 of 0"},
    {experts_many, "metadata key 'llama.expert_count' is 1025; expected 0 to 1024"},
    {experts_differ, "metadata key 'llama.expert_used_count' differs between layers (2 and 1); "
                     "this is not supported"},
};

static void expect(void (*build)(GgufWriter *), const char *message) {
    GgufWriter w = {0};
    FailTrap t;
    char expected[512];
    build(&w);
    Bytes file = gw_finish(&w);
    Arena *a = arena_create();
    snprintf(expected, sizeof expected, "t.gguf: %s", message);
    if (!fail_catch(&t)) {
        model_read(a, gguf_parse(a, "t.gguf", file));
        fail_pop(&t);
        CHECK(false, "not refused: %s", message);
    } else {
        CHECK(!strcmp(t.message, expected), "\n  expected %s\n  found    %s", expected, t.message);
        CHECK(t.kind == FAIL_USER, "kind %d: %s", (int)t.kind, message);
    }
    arena_destroy(a);
    gw_free(&w);
}

/* ---- real files ------------------------------------------------------------------------------ */

static Model *read_model(Arena *a, const char *name) {
    const char *path = arena_printf(a, "%s/%s", check_shared(), name);
    return model_read(a, gguf_open(a, path));
}

static void test_real(void) {
    static const char *const names[] = {
        "llama",
        "llama-bias",
        "llama-yarn",
        "llama3-ropefreqs",
        "mistral-nemo-style",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen35",
        "qwen3moe",
        "gemma2",
        "gemma3",
        "gemma4",
        "gpt2",
        "phi3",
        "bert",
        "deepseek2-v3",
        "gpt-oss",
        "granite",
        "lfm2",
        "mamba2",
        "olmo2",
        "smollm3",
        "stablelm",
        "starcoder2",
        "gemma4-moe",
        "qwen3next",
    };
    Arena *a = arena_create();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FailTrap t;
        if (fail_catch(&t)) {
            CHECK(false, "%s", t.message);
            continue;
        }
        Model *m = read_model(a, arena_printf(a, "fixtures/models/%s.gguf", names[i]));
        CHECK(m->n_layer > 0 && m->n_vocab > 0 && m->norm_eps > 0, "%s", names[i]);
        fail_pop(&t);
    }
    Model *m = read_model(a, "models/tiny-stories-3m-q8_0.gguf");
    CHECK(!strcmp(m->name, "Tiny Stories 3M") && m->n_layer == 6 && m->n_embd == 256 &&
              m->n_vocab == 2048,
          "%s", m->name);
    CHECK(m->n_head[5] == 8 && m->n_head_kv[5] == 4 && m->n_ff[5] == 768 && m->head_dim == 32 &&
              m->n_rot == 32,
          "heads");
    CHECK(m->norm_eps == 1e-5f && m->rope_base == 10000 && m->n_ctx_train == 512, "norm, rope");
    m = read_model(a, "fixtures/models/llama-yarn.gguf");
    CHECK(!strcmp(m->rope_scaling, "yarn") && m->rope_factor > 1 && m->rope_n_ctx_orig > 0, "%s",
          m->rope_scaling);
    arena_destroy(a);
}

int main(void) {
    test_defaults();
    test_full();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect(refused[i].build, refused[i].message);
    if (check_shared()) test_real();
    else SKIP("reading the models at hand: QCC_SHARED is not set");
    return check_done();
}
