/* fuse.c - see fuse.h. One walk over the nodes in order. A node whose work is done inside another's
 * step is `absorbed` by it; every other node makes a step where it stands, so that inputs come
 * first. A node that no rule takes is an error that names it. */
#include "fuse.h"
#include "weights.h"
#include <string.h>

typedef struct {
    Arena *arena;
    const Graph *graph;
    Program *program;
    size_t cap_value, cap_step;
    uint32_t *n_use; /* [n_node] */
    bool *absorbed;  /* [n_node] */
    uint32_t *value; /* [n_node] the program's value that holds the node's, or GRAPH_NONE */
} Fuse;

static const GraphNode *node_at(const Fuse *f, uint32_t i) { return &f->graph->node[i]; }

static bool is_op(const Fuse *f, uint32_t i, GraphOp op) { return node_at(f, i)->op == op; }

_Noreturn static void refuse(const Fuse *f, uint32_t i, const char *why) {
    const GraphNode *n = node_at(f, i);
    fail(FAIL_USER, "%s: %s (%s): %s; qcc has no step for that", f->graph->model->gguf->path,
         n->name, graph_op_name(n->op), why);
}

/* A product that only the node under construction reads. */
static bool is_own(const Fuse *f, uint32_t i, GraphOp op) {
    return is_op(f, i, op) && f->n_use[i] == 1;
}

static bool same_input(const Fuse *f, uint32_t a, uint32_t b) {
    return node_at(f, a)->in[0] == node_at(f, b)->in[0];
}

static const Format *format_of(const Fuse *f, uint32_t linear) {
    const Format *format = weights_format(node_at(f, linear)->weight);
    ASSERT(format);
    return format;
}

/* ---- building -------------------------------------------------------------------------------- */

static uint32_t add_value(Fuse *f, const char *name, uint32_t width) {
    Program *p = f->program;
    p->value = arena_grow(f->arena, p->value, p->n_value, &f->cap_value, sizeof *p->value);
    p->value[p->n_value] = (StepValue){name, width};
    return p->n_value++;
}

static Step *add_step(Fuse *f, StepKind kind, const char *name, int layer) {
    Program *p = f->program;
    p->step = arena_grow(f->arena, p->step, p->n_step, &f->cap_step, sizeof *p->step);
    Step *s = &p->step[p->n_step++];
    *s = (Step){.kind = kind,
                .name = name,
                .layer = layer,
                .in = GRAPH_NONE,
                .residual = GRAPH_NONE,
                .out = GRAPH_NONE,
                .factor = 1,
                .why = ""};
    return s;
}

/* "blk.3.qkv", or the last part alone outside the layers. */
static const char *step_name(const Fuse *f, int layer, const char *part) {
    return layer < 0 ? part : arena_printf(f->arena, "blk.%d.%s", layer, part);
}

/* The value that a node left. A norm leaves none: it is done inside the steps that read it. */
static uint32_t value_of(const Fuse *f, uint32_t i, uint32_t user) {
    if (f->value[i] == GRAPH_NONE)
        refuse(f, user, "reads a value that exists inside another step only");
    return f->value[i];
}

/* The input of a matrix step, with its norm. */
static void set_input(const Fuse *f, Step *s, uint32_t linear) {
    uint32_t in = node_at(f, linear)->in[0];
    if (is_op(f, in, OP_RMS_NORM)) {
        const GraphNode *norm = node_at(f, in);
        if (norm->weight->ne[0] != norm->width) refuse(f, in, "a norm in groups before a matrix");
        s->norm = norm->weight;
        s->eps = norm->eps;
        in = norm->in[0];
    }
    s->in = value_of(f, in, linear);
}

static void add_matrix(const Fuse *f, Step *s, uint32_t linear) {
    const GraphNode *n = node_at(f, linear);
    ASSERT(s->n_matrix < STEP_MAX_MATRIX);
    s->matrix[s->n_matrix++] = (Matrix){n->weight, n->bias, n->scale, format_of(f, linear),
                                        n->width};
}

/* One matrix, nothing around it. */
static Step *add_linear(Fuse *f, uint32_t linear, const char *name) {
    Step *s = add_step(f, STEP_LINEAR, name, node_at(f, linear)->layer);
    set_input(f, s, linear);
    add_matrix(f, s, linear);
    if (s->norm) s->why = "norm inside";
    return s;
}

/* ---- attention: q, k, v, their rotation, the cache, the product ------------------------------ */

static uint32_t through_rope(const Fuse *f, uint32_t i) {
    return is_op(f, i, OP_ROPE) ? node_at(f, i)->in[0] : i;
}

static bool same_rotation(Rope a, const Rope *b) {
    a.n_head = b->n_head;
    return a.head_dim == b->head_dim && a.n_rot == b->n_rot && a.halves == b->halves &&
           a.base == b->base && a.freq_scale == b->freq_scale && a.ext_factor == b->ext_factor &&
           a.attn_factor == b->attn_factor && a.beta_fast == b->beta_fast &&
           a.beta_slow == b->beta_slow && a.n_ctx_orig == b->n_ctx_orig && a.factors == b->factors;
}

/* The rotation of q and k, NULL if there is none. */
static const Rope *rotation_of(const Fuse *f, uint32_t attention) {
    const GraphNode *n = node_at(f, attention);
    bool q = is_op(f, n->in[0], OP_ROPE), k = is_op(f, n->in[1], OP_ROPE);
    if (q != k || is_op(f, n->in[2], OP_ROPE))
        refuse(f, attention, "only one of q and k is rotated");
    if (!q) return NULL;
    const Rope *r = &node_at(f, n->in[0])->rope;
    if (!same_rotation(*r, &node_at(f, n->in[1])->rope))
        refuse(f, attention, "q and k are rotated differently");
    if (r->head_dim != n->attention.head_dim)
        refuse(f, attention, "rotated heads have another size");
    return r;
}

/* Fills columns of `out` with the products of linear[first .. last-1], which share a format. */
static void add_qkv_run(Fuse *f, const uint32_t linear[3], uint32_t first, uint32_t last,
                        uint32_t out) {
    static const char letters[] = "qkv";
    int layer = node_at(f, linear[0])->layer;
    const char *part = arena_strndup(f->arena, letters + first, last - first);
    Step *s = add_step(f, STEP_LINEAR, step_name(f, layer, part), layer);
    set_input(f, s, linear[first]);
    s->out = out;
    for (uint32_t i = 0; i < first; i++) s->out_column += node_at(f, linear[i])->width;
    for (uint32_t i = first; i < last; i++) add_matrix(f, s, linear[i]);
    const char *name = s->matrix[0].format->name, *norm = s->norm ? "norm inside; " : "";
    s->why = last - first == 3
                 ? arena_printf(f->arena, "%sq, k, v are all %s", norm, name)
                 : arena_printf(f->arena, "%sonly %s here: the formats of q, k, v differ", norm,
                                name);
}

static void fuse_attention(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    const Rope *rope = rotation_of(f, index);
    uint32_t linear[3], width = 0;
    for (uint32_t i = 0; i < 3; i++) {
        linear[i] = through_rope(f, n->in[i]);
        if (!is_own(f, linear[i], OP_LINEAR) || f->n_use[n->in[i]] != 1 ||
            !same_input(f, linear[i], linear[0]))
            refuse(f, index, "q, k, v must be products of one value, and read by nothing else");
        width += node_at(f, linear[i])->width;
    }
    uint32_t qkv = add_value(f, step_name(f, n->layer, "qkv"), width);
    for (uint32_t first = 0, last; first < 3; first = last) {
        last = first + 1;
        while (last < 3 && format_of(f, linear[last]) == format_of(f, linear[first])) last++;
        add_qkv_run(f, linear, first, last, qkv);
    }
    Step *s = add_step(f, STEP_ATTENTION, step_name(f, n->layer, "attention"), n->layer);
    s->in = qkv;
    s->rope = rope;
    s->attention = n->attention;
    s->out = f->value[index] = add_value(f, s->name, n->width);
    s->why = rope ? "rotation and cache write inside" : "cache write inside";
}

/* ---- the other operations -------------------------------------------------------------------- */

static void fuse_embed(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    Step *s = add_step(f, STEP_EMBED, step_name(f, n->layer, "embed"), n->layer);
    s->factor = n->factor;
    add_matrix(f, s, index);
    s->matrix[0].rows = f->graph->model->n_vocab;
    s->out = f->value[index] = add_value(f, s->name, n->width);
}

/* silu(gate x) * (up x): one step if the two matrices share a format. */
static void fuse_gate(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    uint32_t gate = node_at(f, n->in[0])->in[0], up = n->in[1];
    if (format_of(f, gate) == format_of(f, up)) {
        Step *s = add_linear(f, gate, step_name(f, n->layer, "gate_up"));
        add_matrix(f, s, up);
        s->act = ACT_SWIGLU;
        s->out = f->value[index] = add_value(f, s->name, n->width);
        s->why = s->norm ? "norm and activation inside" : "activation inside";
        return;
    }
    Step *a = add_linear(f, gate, step_name(f, n->layer, "gate"));
    uint32_t gate_value = a->out = add_value(f, a->name, n->width);
    a->why = "apart: gate and up have different formats";
    Step *b = add_linear(f, up, step_name(f, n->layer, "up"));
    uint32_t up_value = b->out = add_value(f, b->name, n->width);
    b->why = "apart: gate and up have different formats";
    Step *s = add_step(f, STEP_GATE, step_name(f, n->layer, "gate_act"), n->layer);
    s->in = gate_value;
    s->residual = up_value;
    s->out = f->value[index] = add_value(f, s->name, n->width);
}

static void fuse_linear(Fuse *f, uint32_t index, uint32_t residual, uint32_t result) {
    const GraphNode *n = node_at(f, index);
    bool is_head = index == f->graph->logits;
    Step *s = add_linear(f, index, is_head ? "head" : n->name);
    s->last_only = is_head;
    s->residual = residual;
    s->out = f->value[result] = add_value(f, s->name, n->width);
    if (residual != GRAPH_NONE) s->why = s->norm ? "norm and residual inside" : "residual inside";
}

static void fuse_moe(Fuse *f, uint32_t index, uint32_t residual, uint32_t result) {
    const GraphNode *n = node_at(f, index);
    Step *s = add_step(f, STEP_MOE, step_name(f, n->layer, "moe"), n->layer);
    set_input(f, s, index);
    s->moe = n->moe;
    s->residual = residual;
    s->out = f->value[result] = add_value(f, s->name, n->width);
    s->why = residual == GRAPH_NONE ? "" : "residual inside";
}

/* a + product, or product + a. */
static uint32_t residual_product(const Fuse *f, const GraphNode *add) {
    for (uint32_t i = 2; i-- > 0;)
        if (is_own(f, add->in[i], OP_LINEAR) || is_own(f, add->in[i], OP_MOE)) return i;
    return GRAPH_NONE;
}

static bool is_gated(const Fuse *f, const GraphNode *mul) {
    if (!is_own(f, mul->in[0], OP_SILU) || !is_own(f, mul->in[1], OP_LINEAR)) return false;
    uint32_t gate = node_at(f, mul->in[0])->in[0];
    return is_own(f, gate, OP_LINEAR) && same_input(f, gate, mul->in[1]);
}

static void fuse_add(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    uint32_t i = residual_product(f, n);
    if (i == GRAPH_NONE) refuse(f, index, "neither side is a product of its own");
    uint32_t product = n->in[i], residual = value_of(f, n->in[1 - i], index);
    if (is_op(f, product, OP_MOE)) fuse_moe(f, product, residual, index);
    else fuse_linear(f, product, residual, index);
}

/* Marks what attention, gate and addition take into their steps. */
static void absorb(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    if (n->op == OP_ATTENTION)
        for (uint32_t i = 0; i < 3; i++)
            f->absorbed[n->in[i]] = f->absorbed[through_rope(f, n->in[i])] = true;
    if (n->op == OP_MUL && is_gated(f, n)) {
        f->absorbed[n->in[0]] = f->absorbed[n->in[1]] = true;
        f->absorbed[node_at(f, n->in[0])->in[0]] = true;
    }
    uint32_t i = n->op == OP_ADD ? residual_product(f, n) : GRAPH_NONE;
    if (i != GRAPH_NONE) f->absorbed[n->in[i]] = true;
}

static void fuse_node(Fuse *f, uint32_t index) {
    const GraphNode *n = node_at(f, index);
    switch (n->op) {
    case OP_EMBED: fuse_embed(f, index); break;
    case OP_RMS_NORM: break; /* inside the steps that read it; others find no value */
    case OP_LINEAR: fuse_linear(f, index, GRAPH_NONE, index); break;
    case OP_ATTENTION: fuse_attention(f, index); break;
    case OP_ADD: fuse_add(f, index); break;
    case OP_MOE: fuse_moe(f, index, GRAPH_NONE, index); break;
    case OP_MUL:
        if (!is_gated(f, n)) refuse(f, index, "not silu(gate x) * (up x)");
        fuse_gate(f, index);
        break;
    case OP_ROPE: refuse(f, index, "a rotation that is not of attention's q or k");
    case OP_SILU: refuse(f, index, "an activation that is not of a gate");
    case N_GRAPH_OP: break;
    }
}

Program *fuse(Arena *a, const Graph *g) {
    Fuse f = {.arena = a,
              .graph = g,
              .program = ARENA_NEW(a, Program),
              .n_use = ARENA_ARRAY(a, uint32_t, g->n_node),
              .absorbed = ARENA_ARRAY(a, bool, g->n_node),
              .value = ARENA_ARRAY(a, uint32_t, g->n_node)};
    f.program->graph = g;
    for (uint32_t i = 0; i < g->n_node; i++) {
        f.value[i] = GRAPH_NONE;
        for (uint32_t j = 0; j < g->node[i].n_in; j++) f.n_use[g->node[i].in[j]]++;
    }
    for (uint32_t i = 0; i < g->n_node; i++) absorb(&f, i);
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!f.absorbed[i]) fuse_node(&f, i);
    f.program->logits = value_of(&f, g->logits, g->logits);
    return f.program;
}

/* ---- verification: a program that breaks these is qcc's mistake ------------------------------ */

static uint32_t step_width(const Step *s) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < s->n_matrix; i++) rows += s->matrix[i].rows;
    return s->act == ACT_SWIGLU ? rows / 2 : rows;
}

static void verify_linear(const Program *p, const Step *s) {
    uint32_t k = p->value[s->in].width;
    ASSERT(s->n_matrix > 0);
    for (uint32_t i = 0; i < s->n_matrix; i++) {
        const Matrix *m = &s->matrix[i];
        ASSERT(m->weight->ne[0] == k && m->weight->ne[1] == m->rows);
        ASSERT(m->format == s->matrix[0].format);
    }
    ASSERT(s->act == ACT_NONE || (s->n_matrix == 2 && s->matrix[0].rows == s->matrix[1].rows));
    ASSERT(s->out_column + step_width(s) <= p->value[s->out].width);
    ASSERT(s->residual == GRAPH_NONE || s->out_column == 0);
}

static void verify_step(const Program *p, const Step *s) {
    uint32_t in = s->in == GRAPH_NONE ? 0 : p->value[s->in].width, out = p->value[s->out].width;
    ASSERT(s->in != GRAPH_NONE || s->kind == STEP_EMBED);
    ASSERT(s->residual == GRAPH_NONE || p->value[s->residual].width == out);
    ASSERT(!s->norm || s->norm->ne[0] == in);
    const Attention *t = &s->attention;
    switch (s->kind) {
    case STEP_EMBED: ASSERT(s->n_matrix == 1 && s->matrix[0].weight->ne[0] == out); break;
    case STEP_LINEAR: verify_linear(p, s); break;
    case STEP_ATTENTION:
        ASSERT(in == (t->n_head + 2 * t->n_head_kv) * t->head_dim &&
               out == t->n_head * t->head_dim);
        break;
    case STEP_GATE: ASSERT(s->residual != GRAPH_NONE && in == out); break;
    case STEP_MOE:
        ASSERT(s->moe.router && s->moe.gate->ne[0] == in && s->moe.down->ne[1] == out);
        break;
    case N_STEP: fail_bug(__FILE__, __LINE__, "a step's kind");
    }
}

/* Values are filled from the first column to the last before they are read. */
void program_verify(const Program *p) {
    Arena *a = arena_create();
    uint32_t *filled = ARENA_ARRAY(a, uint32_t, p->n_value);
    for (uint32_t i = 0; i < p->n_step; i++) {
        const Step *s = &p->step[i];
        ASSERT(s->kind < N_STEP && s->out < p->n_value);
        ASSERT(s->in == GRAPH_NONE ||
               (s->in < p->n_value && filled[s->in] == p->value[s->in].width));
        ASSERT(s->residual == GRAPH_NONE ||
               (s->residual < p->n_value && filled[s->residual] == p->value[s->residual].width));
        ASSERT(s->out_column == filled[s->out]);
        verify_step(p, s);
        filled[s->out] += s->kind == STEP_LINEAR ? step_width(s) : p->value[s->out].width;
    }
    for (uint32_t i = 0; i < p->n_value; i++) ASSERT(filled[i] == p->value[i].width);
    ASSERT(p->logits < p->n_value);
    arena_destroy(a);
}

/* ---- printed form ---------------------------------------------------------------------------- */

static void print_value(Text *out, const char *label, const Program *p, uint32_t v) {
    if (v != GRAPH_NONE) text_printf(out, "%s%s[%u]", label, p->value[v].name, p->value[v].width);
}

static void print_step(Text *out, const Program *p, const Step *s) {
    static const char *const kinds[N_STEP] = {"embed", "linear", "attention", "gate", "moe"};
    text_printf(out, "%s = %s", s->name, kinds[s->kind]);
    print_value(out, " ", p, s->in);
    if (s->norm) text_printf(out, "  norm %s eps %g", s->norm->name, (double)s->eps);
    for (uint32_t i = 0; i < s->n_matrix; i++) {
        const Matrix *m = &s->matrix[i];
        text_printf(out, "  %s %s %u", m->weight->name, m->format->name, m->rows);
        if (m->bias) text_printf(out, " +bias");
        if (m->scale) text_printf(out, " *scale");
    }
    if (s->act == ACT_SWIGLU) text_printf(out, "  swiglu");
    if (s->kind == STEP_EMBED && s->factor != 1) text_printf(out, "  factor %g", (double)s->factor);
    if (s->kind == STEP_ATTENTION)
        text_printf(out, "  %u/%u heads of %u", s->attention.n_head, s->attention.n_head_kv,
                    s->attention.head_dim);
    if (s->kind == STEP_MOE)
        text_printf(out, "  %u of %u experts of %u", s->moe.n_used, s->moe.n_expert, s->moe.n_ff);
    print_value(out, s->kind == STEP_GATE ? "  times " : "  plus ", p, s->residual);
    print_value(out, "  -> ", p, s->out);
    if (s->out_column) text_printf(out, " from column %u", s->out_column);
    if (s->last_only) text_printf(out, "  last token only");
    text_printf(out, "%s%s\n", *s->why ? "  # " : "", s->why);
}

void program_print(const Program *p, Text *out) {
    text_printf(out, "program %s: %u steps, %u values, logits %s\n", p->graph->model->arch,
                p->n_step, p->n_value, p->value[p->logits].name);
    for (uint32_t i = 0; i < p->n_step; i++) print_step(out, p, &p->step[i]);
}
