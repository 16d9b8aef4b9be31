/* model.c - reads the hyper-parameters that all architectures share. Each is bounded here, so that
 * products of two of them fit in 32 bits; what must agree with a tensor's shape is compared with
 * it. Keys of single architectures are read by their descriptions in arch/. */
#include "model.h"
#include <math.h>
#include <string.h>

enum {
    LAYERS_MOST = 512,
    EXPERTS_MOST = 1024,
    HEADS_MOST = 1 << 14,
    HEAD_DIM_MOST = 1 << 14,
    WIDTH_MOST = 1 << 24, /* of an embedding or a feed-forward layer */
    VOCAB_MOST = 1 << 28,
    CONTEXT_MOST = 1 << 30,
    NAME_MOST = 200
};

typedef struct {
    Arena *arena;
    const Gguf *g;
    const char *arch;
} Reader;

static const char *key_of(Reader *r, const char *name) {
    return arena_printf(r->arena, "%s.%s", r->arch, name);
}

static uint32_t check_range(Reader *r, const char *key, uint64_t x, uint64_t least, uint64_t most) {
    if (x < least || x > most)
        fail(FAIL_USER, "%s: metadata key '%s' is %llu; expected %llu to %llu", r->g->path, key,
             (unsigned long long)x, (unsigned long long)least, (unsigned long long)most);
    return (uint32_t)x;
}

/* An optional number, 0..most. */
static uint32_t get(Reader *r, const char *name, uint64_t absent, uint64_t most) {
    const char *key = key_of(r, name);
    return check_range(r, key, gguf_uint(r->g, key, absent), 0, most);
}

/* A number that must be there, 1..most. */
static uint32_t need(Reader *r, const char *name, uint64_t most) {
    const char *key = key_of(r, name);
    if (!gguf_find(r->g, key))
        fail(FAIL_USER, "%s: metadata key '%s' is missing; a language model needs it", r->g->path,
             key);
    return check_range(r, key, gguf_uint(r->g, key, 0), 1, most);
}

/* An optional finite number, not below `least`. */
static float get_float(Reader *r, const char *name, double absent, double least) {
    const char *key = key_of(r, name);
    double x = gguf_float(r->g, key, absent);
    if (!(fabs(x) <= 1e30))
        fail(FAIL_USER, "%s: metadata key '%s' is not a finite number", r->g->path, key);
    if (x < least)
        fail(FAIL_USER, "%s: metadata key '%s' is %g; expected at least %g", r->g->path, key, x,
             least);
    return (float)x;
}

/* A number per layer: a scalar is meant for all, an array has one for each of n_all layers, of
 * which n are kept. */
static uint32_t *per_layer(Reader *r, const char *name, uint32_t n_all, uint32_t n,
                           const uint32_t *absent, uint32_t most) {
    const char *key = key_of(r, name);
    const GgufKv *kv = gguf_find(r->g, key);
    uint32_t *x = ARENA_ARRAY(r->arena, uint32_t, n);
    if (!kv || kv->type != GGUF_ARRAY) {
        uint32_t all = get(r, name, 0, most);
        for (uint32_t i = 0; i < n; i++) x[i] = kv || !absent ? all : absent[i];
        return x;
    }
    if (kv->elem == GGUF_STRING || kv->elem == GGUF_F32 || kv->elem == GGUF_F64)
        fail(FAIL_USER, "%s: metadata key '%s' is an array of %s; expected integers", r->g->path,
             key, gguf_type_name(kv->elem));
    if (kv->n != n_all)
        fail(FAIL_USER,
             "%s: metadata key '%s' has %llu elements; expected one for each of %u layers",
             r->g->path, key, (unsigned long long)kv->n, n_all);
    for (uint32_t i = 0; i < n; i++) {
        double v = gguf_number(kv, i);
        if (v < 0 || v > most)
            fail(FAIL_USER, "%s: metadata key '%s' is %.0f for layer %u; expected 0 to %u",
                 r->g->path, key, v, i, most);
        x[i] = (uint32_t)v;
    }
    return x;
}

/* ---- who it is ------------------------------------------------------------------------------- */

static const char *read_arch(Arena *a, const Gguf *g) {
    GgufString s = gguf_string(g, "general.architecture", NULL);
    if (!s.s)
        fail(FAIL_USER,
             "%s: metadata key 'general.architecture' is missing; this is not a language model",
             g->path);
    bool good = s.n >= 1 && s.n <= 64; /* it names a file and begins keys */
    for (size_t i = 0; i < s.n && good; i++)
        good = (s.s[i] >= 'a' && s.s[i] <= 'z') || (s.s[i] >= 'A' && s.s[i] <= 'Z') ||
               (s.s[i] >= '0' && s.s[i] <= '9') || s.s[i] == '-' || s.s[i] == '_';
    if (!good)
        fail(FAIL_USER,
             "%s: metadata key 'general.architecture' is '%s'; expected letters, digits, '-' and "
             "'_'",
             g->path, printable(a, s.s, s.n, 64));
    return arena_strndup(a, s.s, s.n);
}

static void check_kind(Arena *a, const Gguf *g) {
    GgufString s = gguf_string(g, "general.type", "model");
    if (s.n != 5 || memcmp(s.s, "model", 5))
        fail(FAIL_USER,
             "%s: metadata key 'general.type' says that this is a file of kind '%s'; expected a "
             "whole 'model'",
             g->path, printable(a, s.s, s.n, 40));
}

const char *model_arch(Arena *a, const Gguf *g) {
    const char *arch = read_arch(a, g);
    check_kind(a, g);
    return arch;
}

/* general.name, or the file's name without folder and ending. */
static const char *read_name(Arena *a, const Gguf *g) {
    GgufString s = gguf_string(g, "general.name", "");
    if (s.n) return printable(a, s.s, s.n, NAME_MOST);
    const char *slash = strrchr(g->path, '/'), *base = slash ? slash + 1 : g->path;
    size_t n = strlen(base);
    if (n > 5 && !strcmp(base + n - 5, ".gguf")) n -= 5;
    return printable(a, base, n, NAME_MOST);
}

/* ---- parts of the model ---------------------------------------------------------------------- */

/* The tokens are counted: A.vocab_size is used only for files without a vocabulary. */
static void read_vocab_size(Reader *r, Model *m) {
    const GgufKv *tokens = gguf_find(r->g, "tokenizer.ggml.tokens");
    const GgufTensor *embd = gguf_tensor(r->g, "token_embd.weight");
    if (tokens && (tokens->type != GGUF_ARRAY || tokens->elem != GGUF_STRING))
        fail(FAIL_USER, "%s: metadata key 'tokenizer.ggml.tokens' is not an array of strings",
             r->g->path);
    if (tokens && (tokens->n < 1 || tokens->n > VOCAB_MOST))
        fail(FAIL_USER,
             "%s: metadata key 'tokenizer.ggml.tokens' has %llu tokens; expected 1 to %d",
             r->g->path, (unsigned long long)tokens->n, VOCAB_MOST);
    if (tokens) m->n_vocab = (uint32_t)tokens->n;
    else m->n_vocab = get(r, "vocab_size", embd ? embd->ne[1] : 0, VOCAB_MOST);
    if (embd && (embd->ne[0] != m->n_embd || embd->ne[1] != m->n_vocab || embd->n_dims > 2))
        fail(FAIL_USER,
             "%s: tensor 'token_embd.weight' is %llu x %llu; expected embedding length x "
             "vocabulary = %u x %u",
             r->g->path, (unsigned long long)embd->ne[0], (unsigned long long)embd->ne[1],
             m->n_embd, m->n_vocab);
}

/* The size of a head when the file does not say it. */
static uint32_t default_head_dim(Reader *r, const Model *m, const char *name) {
    uint32_t n_head = m->n_head[0];
    if (!n_head || gguf_find(r->g, key_of(r, name))) return 0;
    if (m->n_embd % n_head)
        fail(FAIL_USER,
             "%s: metadata key '%s' is missing, and the embedding length %u is not a multiple of "
             "the %u heads",
             r->g->path, key_of(r, name), m->n_embd, n_head);
    return m->n_embd / n_head;
}

static void read_attention(Reader *r, Model *m, uint32_t n_all) {
    m->n_head = per_layer(r, "attention.head_count", n_all, m->n_layer, NULL, HEADS_MOST);
    m->n_head_kv = per_layer(r, "attention.head_count_kv", n_all, m->n_layer, m->n_head,
                             HEADS_MOST);
    m->n_ff = per_layer(r, "feed_forward_length", n_all, m->n_layer, NULL, WIDTH_MOST);
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (m->n_head_kv[i] && m->n_head[i] % m->n_head_kv[i])
            fail(FAIL_USER,
                 "%s: layer %u has %u heads and %u key/value heads; the first must be a multiple "
                 "of the second",
                 r->g->path, i, m->n_head[i], m->n_head_kv[i]);
    m->head_dim = get(r, "attention.key_length", default_head_dim(r, m, "attention.key_length"),
                      HEAD_DIM_MOST);
    m->head_dim_v = get(r, "attention.value_length",
                        default_head_dim(r, m, "attention.value_length"), HEAD_DIM_MOST);
    bool rms = gguf_find(r->g, key_of(r, "attention.layer_norm_rms_epsilon"));
    m->norm_eps =
        get_float(r, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0,
                  0);
}

static void read_rope_scaling(Reader *r, Model *m) {
    static const char *const types[] = {"none", "linear", "yarn", "longrope"};
    const char *key = key_of(r, "rope.scaling.type");
    m->rope_factor = get_float(r, "rope.scaling.factor",
                               (double)get_float(r, "rope.scale_linear", 0, 0), 0);
    m->rope_n_ctx_orig = get(r, "rope.scaling.original_context_length", m->n_ctx_train,
                             CONTEXT_MOST);
    m->rope_attn_factor = get_float(r, "rope.scaling.attn_factor", 1, 0);
    GgufString s = gguf_string(r->g, key, m->rope_factor > 0 ? "linear" : "none");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (s.n == strlen(types[i]) && !memcmp(s.s, types[i], s.n)) m->rope_scaling = types[i];
    if (!m->rope_scaling)
        fail(FAIL_USER, "%s: metadata key '%s' is '%s'; expected none, linear, yarn or longrope",
             r->g->path, key, printable(r->arena, s.s, s.n, 40));
    if (m->rope_scaling == types[0]) m->rope_factor = 0;
}

static void read_rope(Reader *r, Model *m) {
    m->n_rot = get(r, "rope.dimension_count", m->head_dim, HEAD_DIM_MOST);
    if (gguf_find(r->g, key_of(r, "rope.dimension_count")) &&
        (m->n_rot % 2 || (m->head_dim && m->n_rot > m->head_dim)))
        fail(FAIL_USER,
             "%s: metadata key '%s' is %u; expected an even number up to the head size %u",
             r->g->path, key_of(r, "rope.dimension_count"), m->n_rot, m->head_dim);
    m->rope_base = get_float(r, "rope.freq_base", 10000, 1e-3);
    read_rope_scaling(r, m);
}

/* expert_used_count may be an array if all layers agree. */
static uint32_t read_experts_used(Reader *r, const Model *m, uint32_t n_all) {
    const uint32_t *used = per_layer(r, "expert_used_count", n_all, m->n_layer, NULL, EXPERTS_MOST);
    for (uint32_t i = 1; i < m->n_layer; i++)
        if (used[i] != used[0])
            fail(FAIL_USER,
                 "%s: metadata key '%s' differs between layers (%u and %u); this is not supported",
                 r->g->path, key_of(r, "expert_used_count"), used[0], used[i]);
    return used[0];
}

static void read_experts(Reader *r, Model *m, uint32_t n_all) {
    m->n_expert = get(r, "expert_count", 0, EXPERTS_MOST);
    m->n_expert_used = read_experts_used(r, m, n_all);
    if (m->n_expert_used > m->n_expert || (m->n_expert && !m->n_expert_used))
        fail(FAIL_USER,
             "%s: metadata key '%s' is %u of %u experts; expected 1 to all of them, or 0 of 0",
             r->g->path, key_of(r, "expert_used_count"), m->n_expert_used, m->n_expert);
}

Model *model_read(Arena *a, const Gguf *g) {
    Model *m = ARENA_NEW(a, Model);
    Reader r = {a, g, model_arch(a, g)};
    m->gguf = g;
    m->arch = r.arch;
    m->name = read_name(a, g);
    m->n_ctx_train = need(&r, "context_length", CONTEXT_MOST);
    m->n_embd = need(&r, "embedding_length", WIDTH_MOST);
    uint32_t n_all = need(&r, "block_count", LAYERS_MOST);
    m->n_layer = n_all - get(&r, "nextn_predict_layers", 0,
                             n_all - 1); /* the last layers only draft tokens */
    read_vocab_size(&r, m);
    read_attention(&r, m, n_all);
    read_rope(&r, m);
    read_experts(&r, m, n_all);
    return m;
}

const GgufTensor *model_need(const Model *m, const char *name) {
    const GgufTensor *t = gguf_tensor(m->gguf, name);
    if (!t)
        fail(FAIL_USER, "%s: tensor '%s' is missing; a model of architecture '%s' needs it",
             m->gguf->path, name, m->arch);
    return t;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* "8", or runs of equal values: "8 x 5, 4". */
static void print_layers(Text *out, const char *name, const uint32_t *x, uint32_t n) {
    text_printf(out, "%-16s ", name);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[end] == x[i];) end++;
        text_printf(out, i ? ", %u" : "%u", x[i]);
        if (end - i > 1 && end - i < n) text_printf(out, " x %u", end - i);
    }
    text_append(out, "\n", 1);
}

void model_print(const Model *m, Text *out) {
    const struct {
        const char *name;
        uint32_t x;
    } sizes[] = {
        {"n_ctx_train", m->n_ctx_train},
        {"n_embd", m->n_embd},
        {"n_layer", m->n_layer},
        {"n_vocab", m->n_vocab},
        {"head_dim", m->head_dim},
        {"head_dim_v", m->head_dim_v},
        {"n_rot", m->n_rot},
        {"n_expert", m->n_expert},
        {"n_expert_used", m->n_expert_used},
        {"rope_n_ctx_orig", m->rope_n_ctx_orig},
    };
    text_printf(out, "%-16s %s\n%-16s %s\n", "arch", m->arch, "name", m->name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        text_printf(out, "%-16s %u\n", sizes[i].name, sizes[i].x);
    print_layers(out, "n_head", m->n_head, m->n_layer);
    print_layers(out, "n_head_kv", m->n_head_kv, m->n_layer);
    print_layers(out, "n_ff", m->n_ff, m->n_layer);
    text_printf(out, "%-16s %g\n%-16s %g\n", "norm_eps", (double)m->norm_eps, "rope_base",
                (double)m->rope_base);
    text_printf(out, "%-16s %s\n%-16s %g\n", "rope_scaling", m->rope_scaling, "rope_factor",
                (double)m->rope_factor);
    text_printf(out, "%-16s %g\n", "rope_attn_factor", (double)m->rope_attn_factor);
}
