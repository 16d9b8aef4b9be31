/* lower_moe.c - mixture of experts: router, choice, products with the chosen experts' rows,
 * weighted sum.
 *
 *   logits = router norm(x)                       matvec or matmul
 *   route  = the chosen experts and weights       topk            [row][n_used] (id, weight)
 *   tiles  = pairs (row, slot) sorted by expert   route_tiles     several rows only
 *   hidden = silu(gate x) * (up x)                matvec_expert   [row][n_used][n_ff]
 *   each   = down hidden                          matvec_expert   [row][n_used][n_embd]
 *   out    = weighted sum + residual              combine
 *
 * A stack of experts is packed in parts of whole experts, each with its gate rows, then its up rows
 * if both have one format. An expert that is too large for a binding is cut by rows. */
#include "lower.h"
#include "weights.h"
#include <string.h>

/* Rows that share loaded weights. More would take registers and shared memory that many lack. */
enum { MAX_TILE = 8 };

/* Rows row0 .. row0 + rows of experts e0 .. e0 + n - 1. */
typedef struct {
    uint32_t buffer, e0, n, row0, rows;
} ExpertPart;
typedef struct {
    uint32_t n_part, rows;
    bool paired;
    ExpertPart *part;
} ExpertStack;
struct MoeWeights {
    ExpertStack gate, up, down; /* up is empty if gate holds both */
};

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct {
    const Step *s;
    const char *what;
    const GgufTensor *tensor[2]; /* the second one may be NULL */
    const GgufTensor *scale[2];  /* of theirs, or NULL */
} StackArgs;

static uint32_t stack_tensors(const StackArgs *g) { return g->tensor[1] ? 2 : 1; }

/* Experts of one part and rows of each, as many as a binding covers. */
static void part_extent(const Lower *l, const StackArgs *g, uint32_t *experts, uint32_t *rows) {
    const GgufTensor *t = g->tensor[0];
    const Format *f = weights_format(t);
    uint32_t k = (uint32_t)t->ne[0], n_expert = g->s->moe.n_expert;
    uint64_t offset[FORMAT_MAX_PLANES], limit = part_limit(l);
    *rows = (uint32_t)t->ne[1];
    for (uint32_t n_parts = 1; n_parts <= n_expert; n_parts++) {
        *experts = (uint32_t)div_up(n_expert, n_parts);
        if (format_layout(f, (uint64_t)*experts * *rows * stack_tensors(g), k, offset) <= limit)
            return;
    }
    for (uint32_t pieces = 2; *rows > 16; pieces++) {
        *rows = (uint32_t)round_up(div_up(t->ne[1], pieces), 16);
        if (format_layout(f, (uint64_t)*rows * stack_tensors(g), k, offset) <= limit) return;
    }
    part_too_large(l, t, format_layout(f, (uint64_t)*rows * stack_tensors(g), k, offset));
}

static void part_make(Lower *l, const StackArgs *g, ExpertPart *q, const char *name) {
    const GgufTensor *t = g->tensor[0];
    uint32_t n_tensors = stack_tensors(g), total = q->n * q->rows * n_tensors;
    uint64_t offset[FORMAT_MAX_PLANES];
    const Format *f = weights_format(t);
    uint64_t bytes = format_layout(f, total, (uint32_t)t->ne[0], offset);
    q->buffer = buffer_add(l, BUFFER_PART, name, g->s->layer, bytes);
    Buffer *w = &l->p->buffer[q->buffer];
    w->format = f, w->k = (uint32_t)t->ne[0], w->rows = total;
    memcpy(w->plane, offset, sizeof offset);
    w->range = ARENA_ARRAY(l->arena, RowRange, (size_t)q->n * n_tensors);
    for (uint32_t e = q->e0; e < q->e0 + q->n; e++)
        for (uint32_t i = 0; i < n_tensors; i++)
            w->range[w->n_ranges++] = part_range(g->tensor[i], g->scale[i], e * t->ne[1] + q->row0,
                                                 q->rows);
}

static ExpertStack stack_make(Lower *l, const StackArgs *g) {
    uint32_t experts = 1, rows, all = (uint32_t)g->tensor[0]->ne[1], n_expert = g->s->moe.n_expert;
    part_extent(l, g, &experts, &rows);
    uint32_t n = (uint32_t)(div_up(n_expert, experts) * div_up(all, rows));
    ExpertStack x = {.rows = all,
                     .paired = g->tensor[1] != NULL,
                     .part = ARENA_ARRAY(l->arena, ExpertPart, n)};
    for (uint32_t e = 0; e < n_expert; e += experts)
        for (uint32_t row = 0; row < all; row += rows) {
            ExpertPart *q = &x.part[x.n_part];
            *q = (ExpertPart){.e0 = e,
                              .n = n_expert - e < experts ? n_expert - e : experts,
                              .row0 = row,
                              .rows = all - row < rows ? all - row : rows};
            part_make(l, g, q, op_name(l, g->s, g->what, x.n_part++, n));
        }
    return x;
}

/* The router as a step of its own. */
static Step router_step(Lower *l, const Step *s) {
    Step r = {.kind = STEP_LINEAR,
              .name = op_name(l, s, "router", 0, 1),
              .layer = s->layer,
              .in = s->in,
              .residual = GRAPH_NONE,
              .out = GRAPH_NONE,
              .norm = s->norm,
              .eps = s->eps,
              .n_matrix = 1,
              .why = ""};
    r.matrix[0] = (Matrix){.weight = s->moe.router,
                           .format = weights_format(s->moe.router),
                           .rows = s->moe.n_expert};
    return r;
}

void moe_weights_make(Lower *l, uint32_t index, const Step *s) {
    const Moe *m = &s->moe;
    MoeWeights *w = l->moe[index] = ARENA_NEW(l->arena, MoeWeights);
    Step router = router_step(l, s);
    parts_make(l, index, &router);
    if (weights_format(m->gate) == weights_format(m->up)) {
        w->gate =
            stack_make(l,
                       &(StackArgs){s, "gate_up", {m->gate, m->up}, {m->gate_scale, m->up_scale}});
    } else {
        w->gate = stack_make(l, &(StackArgs){s, "gate", {m->gate}, {m->gate_scale}});
        w->up = stack_make(l, &(StackArgs){s, "up", {m->up}, {m->up_scale}});
    }
    w->down = stack_make(l, &(StackArgs){s, "down", {m->down}, {m->down_scale}});
}

/* ---- operations ------------------------------------------------------------------------------ */

typedef struct {
    const Step *s;
    uint32_t route, tiles; /* buffers; tiles GRAPH_NONE for one row */
    uint32_t tile, n_tiles;
    uint32_t norm_vector; /* of the input of gate and up, or GRAPH_NONE */
} Routing;

static void expert_constants(PlanOp *o, const Routing *r, uint32_t m) {
    kernel_op_uint(&o->op, "M", m);
    kernel_op_uint(&o->op, "N_EXPERT", r->s->moe.n_expert);
    kernel_op_uint(&o->op, "N_USED", r->s->moe.n_used);
}

static void lower_topk(Lower *l, const Routing *r, uint32_t logits) {
    PlanOp *o = op_add(l, r->s, op_name(l, r->s, "topk", 0, 1), "topk");
    expert_constants(o, r, l->rows);
    op_in(l, o, "x", logits);
    op_out(l, o, "route", r->route);
}

/* Sorting pays where several rows use the same expert. */
static void lower_tiles(Lower *l, Routing *r) {
    uint32_t pairs = l->rows * r->s->moe.n_used, each = pairs / r->s->moe.n_expert;
    r->tile = 1, r->n_tiles = pairs, r->tiles = GRAPH_NONE;
    while (2 * r->tile <= each && r->tile < MAX_TILE) r->tile *= 2;
    if (r->tile == 1) return;
    r->n_tiles = pairs / r->tile + r->s->moe.n_expert;
    if (r->n_tiles > pairs) r->n_tiles = pairs;
    r->tiles = buffer_add(l, BUFFER_VALUE, op_name(l, r->s, "tiles", 0, 1), r->s->layer,
                          4ull * r->n_tiles * (r->tile + 1));
    PlanOp *o = op_add(l, r->s, op_name(l, r->s, "tiles", 0, 1), "route_tiles");
    expert_constants(o, r, l->rows);
    kernel_op_uint(&o->op, "TILE", r->tile);
    kernel_op_uint(&o->op, "TILES", r->n_tiles);
    op_in(l, o, "route", r->route);
    op_out(l, o, "tiles", r->tiles);
}

typedef struct {
    const ExpertStack *stack;
    const char *what;
    uint32_t x, x_stride, y, y_stride, y0;
    bool x_slots; /* x has a row for every pair, not for every row of the batch */
} ExpertArgs;

/* Of a part's experts only the chosen ones are read, each once for a tile. */
static uint64_t part_bytes_read(const Lower *l, const Routing *r, const ExpertPart *q) {
    double tiles = (double)l->rows * r->s->moe.n_used / r->tile, share = tiles / r->s->moe.n_expert;
    return (uint64_t)((double)l->p->buffer[q->buffer].bytes *
                      (share < 1 || l->rows > 1 ? share : 1));
}

static void lower_part(Lower *l, const Routing *r, const ExpertArgs *g, uint32_t index) {
    const ExpertPart *q = &g->stack->part[index];
    uint32_t norm = g->x_slots ? GRAPH_NONE : r->norm_vector;
    PlanOp *o = op_add(l, r->s, op_name(l, r->s, g->what, index, g->stack->n_part),
                       "matvec_expert");
    matrix_constants(o, &l->p->buffer[q->buffer], q->rows);
    kernel_op_uint(&o->op, "E0", q->e0);
    kernel_op_uint(&o->op, "EXPERTS", q->n);
    kernel_op_uint(&o->op, "N_USED", r->s->moe.n_used);
    kernel_op_uint(&o->op, "TILE", r->tile);
    kernel_op_uint(&o->op, "TILES", r->n_tiles);
    kernel_op_uint(&o->op, "EPILOGUE", g->stack->paired);
    kernel_op_uint(&o->op, "X_SLOTS", g->x_slots);
    kernel_op_uint(&o->op, "X_STRIDE", g->x_stride);
    kernel_op_uint(&o->op, "Y_STRIDE", g->y_stride);
    kernel_op_uint(&o->op, "Y0", g->y0 + q->row0);
    kernel_op_float(&o->op, "EPS", r->s->eps);
    op_in(l, o, "w", q->buffer);
    op_in(l, o, "x", g->x);
    op_in(l, o, r->tiles == GRAPH_NONE ? "route" : "tiles",
          r->tiles == GRAPH_NONE ? r->route : r->tiles);
    if (norm != GRAPH_NONE) op_in(l, o, "nw", norm);
    op_out(l, o, "y", g->y);
    o->op.bytes += part_bytes_read(l, r, q) - l->p->buffer[q->buffer].bytes;
    double pairs = (double)l->rows * r->s->moe.n_used * q->n / r->s->moe.n_expert;
    o->op.flops = 2 * pairs * q->rows * (g->stack->paired ? 2 : 1) * l->p->buffer[q->buffer].k;
}

static void lower_stack(Lower *l, const Routing *r, const ExpertArgs *g) {
    for (uint32_t i = 0; i < g->stack->n_part; i++) lower_part(l, r, g, i);
}

/* silu(gate x) * (up x) for every pair; returns its buffer. */
static uint32_t lower_hidden(Lower *l, const Routing *r, const MoeWeights *w, uint32_t x) {
    const Step *s = r->s;
    uint32_t f = s->moe.n_ff, pairs = l->rows * s->moe.n_used, width = value_width(l, s->in);
    uint32_t hidden = value_buffer(l, op_name(l, s, "hidden", 0, 1), s->layer, (uint64_t)pairs * f);
    if (w->gate.paired) {
        lower_stack(l, r, &(ExpertArgs){&w->gate, "gate_up", x, width, hidden, f, 0, false});
        return hidden;
    }
    uint32_t both = value_buffer(l, op_name(l, s, "pair", 0, 1), s->layer, 2ull * pairs * f);
    lower_stack(l, r, &(ExpertArgs){&w->gate, "gate", x, width, both, 2 * f, 0, false});
    lower_stack(l, r, &(ExpertArgs){&w->up, "up", x, width, both, 2 * f, f, false});
    PlanOp *o = op_add(l, s, op_name(l, s, "act", 0, 1), "gate");
    kernel_op_uint(&o->op, "M", pairs);
    kernel_op_uint(&o->op, "F", f);
    kernel_op_uint(&o->op, "X_STRIDE", 2 * f);
    op_in(l, o, "x", both);
    op_out(l, o, "y", hidden);
    return hidden;
}

/* Always exact: a rounding that changes the choice of experts changes everything after it. */
static uint32_t lower_router(Lower *l, uint32_t index, const Step *s) {
    Step router = router_step(l, s);
    uint32_t first = l->p->n_ops;
    uint32_t y = value_buffer(l, op_name(l, s, "logits", 0, 1), s->layer,
                              (uint64_t)l->rows * s->moe.n_expert);
    lower_product(l, index, &router, y, s->moe.n_expert);
    for (uint32_t i = first; i < l->p->n_ops; i++) l->p->op[i].op.accuracy = ACCURACY_EXACT;
    return y;
}

void lower_moe(Lower *l, uint32_t index, const Step *s) {
    const MoeWeights *w = l->moe[index];
    uint32_t pairs = l->rows * s->moe.n_used, width = value_width(l, s->out), x = l->value[s->in];
    Routing r = {.s = s, .norm_vector = GRAPH_NONE};
    if (l->rows > 1) x = lower_norm(l, index, s, x);
    else r.norm_vector = l->norm_vector[index];
    uint32_t logits = lower_router(l, index, s);
    r.route = value_buffer(l, op_name(l, s, "route", 0, 1), s->layer, 2ull * pairs);
    lower_topk(l, &r, logits);
    lower_tiles(l, &r);
    uint32_t hidden = lower_hidden(l, &r, w, x);
    uint32_t each = value_buffer(l, op_name(l, s, "each", 0, 1), s->layer, (uint64_t)pairs * width);
    lower_stack(l, &r, &(ExpertArgs){&w->down, "down", hidden, s->moe.n_ff, each, width, 0, true});
    PlanOp *o = op_add(l, s, s->name, "combine");
    expert_constants(o, &r, l->rows);
    kernel_op_uint(&o->op, "K", width);
    op_in(l, o, "x", each);
    op_in(l, o, "route", r.route);
    if (s->residual != GRAPH_NONE) op_in(l, o, "res", l->value[s->residual]);
    op_out(l, o, "y", step_out(l, s));
}
