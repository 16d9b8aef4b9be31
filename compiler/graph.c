/* graph.c - nodes, their verification and their printed form; the angle of rotary embeddings. */
#include "graph.h"
#include "format.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TENSOR_F32 = 0 }; /* type id of the file format */

static const char *const op_names[N_GRAPH_OP] = {
    [OP_EMBED] = "embed", [OP_RMS_NORM] = "rms_norm",   [OP_LINEAR] = "linear",
    [OP_ROPE] = "rope",   [OP_ATTENTION] = "attention", [OP_ADD] = "add",
    [OP_MUL] = "mul",     [OP_SILU] = "silu",           [OP_MOE] = "moe",
};

const char *graph_op_name(GraphOp op) { return op < N_GRAPH_OP ? op_names[op] : "unknown"; }

uint32_t graph_add(Arena *a, Graph *g, const GraphNode *n) {
    g->node = arena_grow(a, g->node, g->n_node, &g->cap_node, sizeof *g->node);
    GraphNode *added = &g->node[g->n_node];
    *added = *n;
    added->name = arena_strdup(a, n->name);
    if (sscanf(n->name, "blk.%d.", &added->layer) != 1) added->layer = -1;
    return g->n_node++;
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

/* The pair at which a wavelength makes `beta` turns within the original context. */
static double yarn_pair(const Rope *r, double beta) {
    const double tau = 6.283185307179586;
    return r->n_rot * log(r->n_ctx_orig / (beta * tau)) / (2 * log((double)r->base));
}

/* How much of a pair's angle is extrapolated (1) rather than interpolated (0). */
static double yarn_mix(const Rope *r, uint32_t i) {
    double low = fmax(0, floor(yarn_pair(r, r->beta_fast)));
    double high = fmin(r->n_rot - 1.0, ceil(yarn_pair(r, r->beta_slow)));
    double ramp = (i - low) / fmax(0.001, high - low);
    return (1 - fmin(1, fmax(0, ramp))) * r->ext_factor;
}

void rope_angle(const Rope *r, uint32_t position, uint32_t i, double *cosine, double *sine) {
    float factor = 1;
    if (r->factors) memcpy(&factor, r->factors->data + i * sizeof factor, sizeof factor);
    double extrapolated = position * pow(r->base, -2.0 * i / r->n_rot) / factor;
    double angle = r->freq_scale * extrapolated, magnitude = r->attn_factor;
    if (r->ext_factor != 0) {
        double mix = yarn_mix(r, i);
        angle = angle * (1 - mix) + extrapolated * mix;
        magnitude *= 1 + 0.1 * log(1 / (double)r->freq_scale);
    }
    *cosine = cos(angle) * magnitude;
    *sine = sin(angle) * magnitude;
}

/* ---- verification ---------------------------------------------------------------------------- */

static const char *file_of(const Graph *g) { return g->model->gguf->path; }

/* A tensor of exactly this shape, d[0] fastest; missing dimensions are 1. */
static void verify_shape(const Graph *g, const GgufTensor *t, uint64_t d0, uint64_t d1,
                         uint64_t d2) {
    if (t->ne[0] == d0 && t->ne[1] == d1 && t->ne[2] == d2 && t->ne[3] == 1) return;
    fail(FAIL_USER, "%s: tensor %s: shape {%llu, %llu, %llu, %llu}, expected {%llu, %llu, %llu, 1}",
         file_of(g), t->name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
         (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], (unsigned long long)d0,
         (unsigned long long)d1, (unsigned long long)d2);
}

/* In `buffer`: a message outlives an arena. */
static const char *type_name(uint32_t type, char *buffer, size_t n) {
    Arena *a = arena_create();
    snprintf(buffer, n, "%s", format_gguf_type_name(a, type));
    arena_destroy(a);
    return buffer;
}

/* Weights of any known format, with all bytes there. */
static void verify_weight(const Graph *g, const GgufTensor *t, uint64_t d0, uint64_t d1,
                          uint64_t d2) {
    verify_shape(g, t, d0, d1, d2);
    const Format *f = format_by_gguf_type(t->type);
    if (!f) {
        char type[64];
        fail(FAIL_USER, "%s: tensor %s: weight format %s is not supported by this qcc", file_of(g),
             t->name, type_name(t->type, type, sizeof type));
    }
    if (d0 % f->block_n != 0)
        fail(FAIL_USER, "%s: tensor %s: rows of %llu weights, expected a multiple of %u",
             file_of(g), t->name, (unsigned long long)d0, f->block_n);
    uint64_t bytes = format_row_bytes(f, (uint32_t)d0) * d1 * d2;
    if (t->bytes != bytes)
        fail(FAIL_USER, "%s: tensor %s: %llu bytes, expected %llu", file_of(g), t->name,
             (unsigned long long)t->bytes, (unsigned long long)bytes);
}

static void verify_vector(const Graph *g, const GgufTensor *t, uint64_t n) {
    verify_shape(g, t, n, 1, 1);
    if (t->type != TENSOR_F32) {
        char type[64];
        fail(FAIL_USER, "%s: tensor %s: type %s, expected F32", file_of(g), t->name,
             type_name(t->type, type, sizeof type));
    }
    if (t->bytes != n * sizeof(float))
        fail(FAIL_USER, "%s: tensor %s: %llu bytes, expected %llu", file_of(g), t->name,
             (unsigned long long)t->bytes, (unsigned long long)(n * sizeof(float)));
}

static void verify_optional_vector(const Graph *g, const GgufTensor *t, uint64_t n) {
    if (t) verify_vector(g, t, n);
}

static uint32_t width_in(const Graph *g, const GraphNode *n, uint32_t i) {
    return g->node[n->in[i]].width;
}

/* A condition on the numbers of an operation. They come from the file's metadata. */
static void require(const Graph *g, const GraphNode *n, bool condition, const char *what) {
    if (!condition)
        fail(FAIL_USER, "%s: %s (%s): %s", file_of(g), n->name, graph_op_name(n->op), what);
}

static void verify_rope(const Graph *g, const GraphNode *n) {
    const Rope *r = &n->rope;
    require(g, n, (uint64_t)r->n_head * r->head_dim == n->width, "heads do not fill the value");
    require(g, n, width_in(g, n, 0) == n->width, "the width changes");
    require(g, n, r->n_rot > 0 && r->n_rot % 2 == 0 && r->n_rot <= r->head_dim,
            "rope.dimension_count must be even, and at most the head's size");
    require(g, n, isfinite(r->base) && r->base > 0, "rope.freq_base must be positive");
    require(g, n, isfinite(r->freq_scale) && r->freq_scale > 0,
            "rope.scaling.factor must be positive");
    require(g, n, isfinite(r->attn_factor) && isfinite(r->ext_factor),
            "the rope scaling factors must be finite");
    if (r->ext_factor != 0)
        require(
            g, n, r->n_ctx_orig > 0 && r->base != 1 && r->beta_fast > 0 && r->beta_slow > 0,
            "YaRN needs rope.scaling.original_context_length, a base other than 1, positive betas");
    verify_optional_vector(g, r->factors, r->n_rot / 2);
}

static void verify_attention(const Graph *g, const GraphNode *n) {
    const Attention *t = &n->attention;
    require(g, n, t->n_head > 0 && t->n_head_kv > 0 && t->head_dim > 0, "no heads");
    require(g, n, t->n_head % t->n_head_kv == 0,
            "attention.head_count must be a multiple of attention.head_count_kv");
    uint64_t q = (uint64_t)t->n_head * t->head_dim, kv = (uint64_t)t->n_head_kv * t->head_dim;
    require(g, n, width_in(g, n, 0) == q && n->width == q,
            "q must hold n_head * head_dim elements");
    require(g, n, width_in(g, n, 1) == kv && width_in(g, n, 2) == kv,
            "k and v must hold n_head_kv * head_dim elements");
    require(g, n, isfinite(t->scale), "the scale must be finite");
}

static void verify_moe(const Graph *g, const GraphNode *n) {
    const Moe *m = &n->moe;
    uint32_t width = width_in(g, n, 0);
    require(g, n, m->n_used > 0 && m->n_used <= m->n_expert,
            "expert_used_count must be between 1 and expert_count");
    verify_weight(g, m->router, width, m->n_expert, 1);
    verify_weight(g, m->gate, width, m->n_ff, m->n_expert);
    verify_weight(g, m->up, width, m->n_ff, m->n_expert);
    verify_weight(g, m->down, m->n_ff, n->width, m->n_expert);
    verify_optional_vector(g, m->gate_scale, m->n_expert);
    verify_optional_vector(g, m->up_scale, m->n_expert);
    verify_optional_vector(g, m->down_scale, m->n_expert);
}

static uint32_t n_inputs(GraphOp op) {
    switch (op) {
    case OP_EMBED: return 0;
    case OP_ATTENTION: return 3;
    case OP_ADD:
    case OP_MUL: return 2;
    default: return 1;
    }
}

static void verify_node(const Graph *g, const GraphNode *n) {
    switch (n->op) {
    case OP_EMBED: verify_weight(g, n->weight, n->width, g->model->n_vocab, 1); break;
    case OP_RMS_NORM:
        require(g, n, n->weight->ne[0] > 0 && n->width % n->weight->ne[0] == 0,
                "the norm's groups do not fill the value");
        require(g, n, width_in(g, n, 0) == n->width, "the width changes");
        require(g, n, isfinite(n->eps) && n->eps >= 0, "epsilon must not be negative");
        verify_vector(g, n->weight, n->weight->ne[0]);
        break;
    case OP_LINEAR:
        verify_weight(g, n->weight, width_in(g, n, 0), n->width, 1);
        verify_optional_vector(g, n->bias, n->width);
        verify_optional_vector(g, n->scale, 1);
        break;
    case OP_ROPE: verify_rope(g, n); break;
    case OP_ATTENTION: verify_attention(g, n); break;
    case OP_ADD:
    case OP_MUL:
        require(g, n, width_in(g, n, 1) == n->width, "the widths of the two values differ");
        /* fall through */
    case OP_SILU: require(g, n, width_in(g, n, 0) == n->width, "the width changes"); break;
    case OP_MOE: verify_moe(g, n); break;
    case N_GRAPH_OP: break;
    }
}

void graph_verify(const Graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        const GraphNode *n = &g->node[i];
        ASSERT(n->op < N_GRAPH_OP && n->n_in == n_inputs(n->op));
        for (uint32_t j = 0; j < n->n_in; j++) ASSERT(n->in[j] < i);
        require(g, n, n->width > 0, "the value is empty");
        verify_node(g, n);
    }
    ASSERT(g->logits < g->n_node);
    const GraphNode *out = &g->node[g->logits];
    require(g, out, g->logits == g->n_node - 1 && out->op == OP_LINEAR,
            "the logits must be a matrix product, and the last operation");
    require(g, out, out->width == g->model->n_vocab, "the logits must have one element per token");
}

/* ---- printed form ---------------------------------------------------------------------------- */

static void print_tensor(Text *out, const char *label, const GgufTensor *t) {
    if (!t) return;
    text_printf(out, "  %s %s %s {", label, t->name, format_gguf_type_name(out->arena, t->type));
    for (uint32_t i = 0; i < t->n_dims; i++)
        text_printf(out, "%s%llu", i ? ", " : "", (unsigned long long)t->ne[i]);
    text_printf(out, "}");
}

static void print_rope(Text *out, const Rope *r) {
    text_printf(out, "  %u heads of %u, rot %u %s, base %g", r->n_head, r->head_dim, r->n_rot,
                r->halves ? "halves" : "neighbours", (double)r->base);
    if (r->freq_scale != 1) text_printf(out, ", scale %g", (double)r->freq_scale);
    if (r->attn_factor != 1) text_printf(out, ", magnitude %g", (double)r->attn_factor);
    if (r->ext_factor != 0)
        text_printf(out, ", yarn %g beta %g..%g ctx %u", (double)r->ext_factor,
                    (double)r->beta_fast, (double)r->beta_slow, r->n_ctx_orig);
    print_tensor(out, "factors", r->factors);
}

static void print_moe(Text *out, const Moe *m) {
    text_printf(out, "  %u of %u experts", m->n_used, m->n_expert);
    print_tensor(out, "router", m->router);
    print_tensor(out, "gate", m->gate);
    print_tensor(out, "up", m->up);
    print_tensor(out, "down", m->down);
    print_tensor(out, "gate_scale", m->gate_scale);
    print_tensor(out, "up_scale", m->up_scale);
    print_tensor(out, "down_scale", m->down_scale);
}

static void print_node(Text *out, const GraphNode *n, uint32_t index) {
    text_printf(out, "%%%u %s = %s", index, n->name, graph_op_name(n->op));
    for (uint32_t i = 0; i < n->n_in; i++) text_printf(out, " %%%u", n->in[i]);
    text_printf(out, " : %u", n->width);
    print_tensor(out, "weight", n->weight);
    print_tensor(out, "bias", n->bias);
    print_tensor(out, "scale", n->scale);
    if (n->op == OP_RMS_NORM) text_printf(out, "  eps %g", (double)n->eps);
    if (n->op == OP_EMBED && n->factor != 1) text_printf(out, "  factor %g", (double)n->factor);
    if (n->op == OP_ROPE) print_rope(out, &n->rope);
    if (n->op == OP_ATTENTION)
        text_printf(out, "  %u heads of %u, %u for k and v, scale %.9g", n->attention.n_head,
                    n->attention.head_dim, n->attention.n_head_kv, (double)n->attention.scale);
    if (n->op == OP_MOE) print_moe(out, &n->moe);
    text_printf(out, "\n");
}

void graph_print(const Graph *g, Text *out) {
    text_printf(out, "graph %s: %u layers, context %u, %u nodes, logits %%%u\n", g->model->arch,
                g->model->n_layer, g->n_ctx, g->n_node, g->logits);
    for (uint32_t i = 0; i < g->n_node; i++) print_node(out, &g->node[i], i);
}
