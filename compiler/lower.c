/* lower.c - steps become operations on buffers, once per batch size: one row (decode) and the
 * prefill chunks.
 *
 * One row reads every weight once, so norm, activation and additions ride on the matrix-vector
 * kernels. With several rows the matrix-matrix kernels are limited by arithmetic, and norm,
 * rotation and gating are operations of their own. */
#include "lower.h"
#include "weights.h"
#include <stdio.h>
#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

uint32_t buffer_add(Lower *l, BufferKind kind, const char *name, int layer, uint64_t bytes) {
    CompiledPlan *p = l->p;
    p->buffer = arena_grow(l->arena, p->buffer, p->n_buffers, &l->cap_buffers, sizeof *p->buffer);
    p->buffer[p->n_buffers] = (Buffer){.kind = kind,
                                       .name = name,
                                       .layer = layer,
                                       .bytes = round_up(bytes, 16),
                                       .first_use = UINT32_MAX,
                                       .batch = p->n_batches};
    return p->n_buffers++;
}

uint32_t value_buffer(Lower *l, const char *name, int layer, uint64_t floats) {
    return buffer_add(l, BUFFER_VALUE, name, layer, floats * 4);
}

static uint32_t vector_buffer(Lower *l, const char *name, int layer, uint32_t skip,
                              const GgufTensor **t, uint32_t n) {
    uint64_t floats = skip;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i] && t[i]->type != 0)
            fail(FAIL_USER, "%s: tensor '%s' has type %s; vectors must be F32",
                 l->p->program->graph->model->gguf->path, t[i]->name,
                 format_gguf_type_name(l->arena, t[i]->type));
        if (t[i]) floats += t[i]->ne[0];
    }
    uint32_t b = buffer_add(l, BUFFER_VECTOR, name, layer, floats * 4);
    l->p->buffer[b].skip = skip;
    l->p->buffer[b].tensor = t;
    l->p->buffer[b].n_tensors = n;
    return b;
}

uint32_t value_width(const Lower *l, uint32_t v) { return l->p->program->value[v].width; }

/* ---- operations ------------------------------------------------------------------------------ */

PlanOp *op_add(Lower *l, const Step *s, const char *name, const char *op) {
    CompiledPlan *p = l->p;
    p->op = arena_grow(l->arena, p->op, p->n_ops, &l->cap_ops, sizeof *p->op);
    PlanOp *o = &p->op[p->n_ops++];
    *o = (PlanOp){.name = name, .why = s ? s->why : NULL, .layer = s ? s->layer : -1};
    o->op.op = op;
    o->op.accuracy = p->options.accuracy;
    return o;
}

void op_bind(Lower *l, PlanOp *o, const char *role, uint32_t buffer, bool read, bool write) {
    ASSERT(o->n_operands < KERNEL_MAX_ROLES && buffer < l->p->n_buffers);
    o->operand[o->n_operands++] = (Operand){role, buffer, write, read};
    kernel_op_role(&o->op, role);
    BufferKind kind =
        l->p->buffer[buffer].kind; /* of caches, ids and logits an operation touches a part only */
    if (kind == BUFFER_VALUE || kind == BUFFER_PART || kind == BUFFER_VECTOR)
        o->op.bytes += l->p->buffer[buffer].bytes;
}
void op_in(Lower *l, PlanOp *o, const char *role, uint32_t buffer) {
    op_bind(l, o, role, buffer, true, false);
}
void op_out(Lower *l, PlanOp *o, const char *role, uint32_t buffer) {
    op_bind(l, o, role, buffer, false, true);
}

const char *op_name(Lower *l, const Step *s, const char *what, uint32_t part, uint32_t n_parts) {
    const char *base = what ? arena_printf(l->arena, "%s.%s", s->name, what) : s->name;
    return n_parts > 1 ? arena_printf(l->arena, "%s[%u]", base, part) : base;
}

/* ---- weights: a step's matrices as packed parts, each within the range that one binding can
 * cover */

static uint64_t range_rows(const Step *s, bool paired) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_matrix; i++) n += s->matrix[i].rows;
    return paired ? n / 2 : n;
}

RowRange part_range(const GgufTensor *t, const GgufTensor *scale, uint64_t row0, uint64_t n) {
    if (scale && !weights_format(t)->factor_plane)
        fail(FAIL_USER, "tensor '%s': scales of whole matrices go with NVFP4 only; '%s' is %s",
             scale->name, t->name, weights_format(t)->name);
    uint64_t n_scale = scale ? scale->ne[0] : 0;
    if (scale && (scale->type != 0 || (n_scale != 1 && n_scale != t->ne[2])))
        fail(FAIL_USER, "tensor '%s': expected F32 with 1 or %llu elements, found %llu",
             scale->name, (unsigned long long)t->ne[2], (unsigned long long)n_scale);
    return (RowRange){t, row0, n, scale};
}

/* Rows [row0, row0 + n) of the stacked matrices as ranges of tensors; paired: the same rows of
 * gate, then of up. */
static void part_ranges(Lower *l, Buffer *b, const Step *s, uint64_t row0, uint64_t n,
                        bool paired) {
    b->range = ARENA_ARRAY(l->arena, RowRange, STEP_MAX_MATRIX);
    uint64_t base = 0;
    for (uint32_t i = 0; i < s->n_matrix; i++) {
        const Matrix *m = &s->matrix[i];
        uint64_t from = paired ? row0 : row0 > base ? row0 - base : 0;
        uint64_t to = paired ? row0 + n : row0 + n > base ? row0 + n - base : 0;
        if (to > m->rows) to = m->rows;
        if (from < to) b->range[b->n_ranges++] = part_range(m->weight, m->scale, from, to - from);
        base += m->rows;
    }
}

uint64_t part_limit(const Lower *l) { return target_binding_limit(l->p->target).bytes; }

void part_too_large(const Lower *l, const GgufTensor *t, uint64_t bytes) {
    TargetLimit limit = target_binding_limit(l->p->target);
    fail(FAIL_USER,
         "target '%s': %s is %llu: 16 rows of '%s', the smallest part of a matrix, take %llu bytes",
         l->p->target->name, limit.name, (unsigned long long)limit.bytes, t->name,
         (unsigned long long)bytes);
}

void parts_make(Lower *l, uint32_t index, const Step *s) {
    CompiledPlan *p = l->p;
    bool paired = s->act == ACT_SWIGLU;
    uint64_t rows = range_rows(s, paired), per_row = paired ? 2 : 1, offset[FORMAT_MAX_PLANES];
    const Format *f = s->matrix[0].format;
    uint32_t k = (uint32_t)s->matrix[0].weight->ne[0];
    uint64_t limit = part_limit(l);
    uint64_t whole = format_layout(f, rows * per_row, k, offset);
    uint64_t n_parts = div_up(whole, limit ? limit : 1), each;
    for (;; n_parts++) { /* whole words of 2-byte planes: an even number of rows, here a multiple of
                            16 */
        each = round_up(div_up(rows, n_parts), 16);
        uint64_t bytes = format_layout(f, (each < rows ? each : rows) * per_row, k, offset);
        if (bytes <= limit) break;
        if (each <= 16) part_too_large(l, s->matrix[0].weight, bytes);
    }
    n_parts = div_up(rows, each);
    l->part[index] = ARENA_ARRAY(l->arena, uint32_t, n_parts);
    l->n_part[index] = (uint32_t)n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint64_t row0 = i * each, n = rows - row0 < each ? rows - row0 : each;
        uint64_t bytes = format_layout(f, n * per_row, k, offset);
        uint32_t b = buffer_add(l, BUFFER_PART, op_name(l, s, NULL, i, (uint32_t)n_parts), s->layer,
                                bytes);
        Buffer *w = &p->buffer[b];
        w->format = f, w->k = k, w->rows = (uint32_t)(n * per_row);
        memcpy(w->plane, offset, sizeof offset);
        part_ranges(l, w, s, row0, n, paired);
        l->part[index][i] = b;
    }
}

/* A matrix that an earlier step packed already (tied embedding). */
static bool parts_share(Lower *l, uint32_t index, const Step *s) {
    if (s->n_matrix != 1) return false;
    for (uint32_t i = 0; i < index; i++) {
        const Step *e = &l->p->program->step[i];
        if (e->n_matrix != 1 || e->matrix[0].weight != s->matrix[0].weight) continue;
        l->part[index] = l->part[i], l->n_part[index] = l->n_part[i];
        return true;
    }
    return false;
}

static void step_vectors(Lower *l, uint32_t index, const Step *s) {
    l->norm_vector[index] = l->bias_vector[index] = GRAPH_NONE;
    for (uint32_t i = 0; i < index && s->norm; i++)
        if (l->p->program->step[i].norm == s->norm) l->norm_vector[index] = l->norm_vector[i];
    if (s->norm && l->norm_vector[index] == GRAPH_NONE) {
        const GgufTensor **t = ARENA_ARRAY(l->arena, const GgufTensor *, 1);
        t[0] = s->norm;
        l->norm_vector[index] = vector_buffer(l, s->norm->name, s->layer, 0, t, 1);
    }
    uint32_t n_bias = 0;
    const GgufTensor **t = ARENA_ARRAY(l->arena, const GgufTensor *, STEP_MAX_MATRIX);
    for (uint32_t i = 0; i < s->n_matrix; i++) {
        if (s->matrix[i].bias) t[n_bias++] = s->matrix[i].bias;
    }
    if (n_bias == 0) return;
    if (n_bias != s->n_matrix)
        fail(FAIL_USER, "step '%s': %u of %u matrices have a bias; all or none must", s->name,
             n_bias, s->n_matrix);
    l->bias_vector[index] = vector_buffer(l, op_name(l, s, "bias", 0, 1), s->layer,
                                          s->act ? 0 : s->out_column, t, n_bias);
}

static void weights_make(Lower *l) {
    const Program *g = l->p->program;
    const Model *m = g->graph->model;
    l->part = ARENA_ARRAY(l->arena, uint32_t *, g->n_step);
    l->n_part = ARENA_ARRAY(l->arena, uint32_t, g->n_step);
    l->moe = ARENA_ARRAY(l->arena, MoeWeights *, g->n_step);
    l->norm_vector = ARENA_ARRAY(l->arena, uint32_t, g->n_step);
    l->bias_vector = ARENA_ARRAY(l->arena, uint32_t, g->n_step);
    l->k_cache = ARENA_ARRAY(l->arena, uint32_t, m->n_layer);
    l->v_cache = ARENA_ARRAY(l->arena, uint32_t, m->n_layer);
    l->rope_table = GRAPH_NONE;
    for (uint32_t i = 0; i < g->n_step; i++) {
        const Step *s = &g->step[i];
        if (s->n_matrix && !parts_share(l, i, s)) parts_make(l, i, s);
        if (s->kind == STEP_MOE) moe_weights_make(l, i, s);
        step_vectors(l, i, s);
        if (s->kind != STEP_ATTENTION) continue;
        uint64_t bytes = select_kv_bytes(l->lib, l->p->options.kv, s->attention.n_head_kv,
                                         l->p->options.n_ctx, s->attention.head_dim);
        l->k_cache[s->layer] = buffer_add(l, BUFFER_KV, op_name(l, s, "k_cache", 0, 1), s->layer,
                                          bytes);
        l->v_cache[s->layer] = buffer_add(l, BUFFER_KV, op_name(l, s, "v_cache", 0, 1), s->layer,
                                          bytes);
        if (!s->rope)
            fail(FAIL_USER, "step '%s': attention without rotary positions is not supported yet",
                 s->name);
        if (l->rope_table != GRAPH_NONE) continue;
        uint64_t pairs = s->rope->n_rot / 2;
        l->rope_table = buffer_add(l, BUFFER_VECTOR, "rope", -1,
                                   (256 + div_up(l->p->options.n_ctx, 256)) * pairs * 8);
        l->p->buffer[l->rope_table].rope = s->rope;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

void matrix_constants(PlanOp *o, const Buffer *w, uint64_t rows) {
    kernel_op_weights(&o->op, w->format, w->k, w->plane);
    kernel_op_uint(&o->op, "ROWS", rows);
}

uint32_t step_out(Lower *l, const Step *s) {
    if (l->value[s->out] == GRAPH_NONE)
        l->value[s->out] = value_buffer(l, l->p->program->value[s->out].name, s->layer,
                                        (uint64_t)l->rows * value_width(l, s->out));
    return l->value[s->out];
}

static void lower_embed(Lower *l, uint32_t index, const Step *s) {
    const Model *m = l->p->program->graph->model;
    uint32_t y = step_out(l, s), row0 = 0;
    for (uint32_t i = 0; i < l->n_part[index]; i++) {
        uint32_t w = l->part[index][i], rows = l->p->buffer[w].rows;
        PlanOp *o = op_add(l, s, op_name(l, s, NULL, i, l->n_part[index]), "embed");
        matrix_constants(o, &l->p->buffer[w], rows);
        kernel_op_uint(&o->op, "M", l->rows);
        kernel_op_uint(&o->op, "ROW0", row0);
        kernel_op_uint(&o->op, "N_VOCAB", m->n_vocab);
        kernel_op_float(&o->op, "FACTOR", s->factor != 0 ? s->factor : 1);
        op_in(l, o, "step", l->p->step);
        op_in(l, o, "tokens", l->p->tokens);
        op_in(l, o, "w", w);
        op_out(l, o, "y", y);
        o->op.bytes = (uint64_t)l->rows * (l->p->buffer[w].bytes / rows + 4ull * l->p->buffer[w].k);
        row0 += rows;
    }
}

typedef struct {
    const Step *s;
    uint32_t index, x, y;
    bool last; /* the last valid row of a batch */
    uint32_t x_stride;
} MatvecArgs;

/* y = [act](W norm(x)) + bias + residual for one row. */
static void lower_matvec(Lower *l, const MatvecArgs *g) {
    const Step *s = g->s;
    bool swiglu = s->act == ACT_SWIGLU && l->bias_vector[g->index] == GRAPH_NONE;
    uint32_t width = value_width(l, s->in), parts = l->partial[s->in],
             y0 = s->act ? 0 : s->out_column;
    uint32_t y = g->y, total = (uint32_t)range_rows(s, true);
    if (s->act && !swiglu) y = value_buffer(l, op_name(l, s, "pair", 0, 1), s->layer, 2ull * total);
    for (uint32_t i = 0; i < l->n_part[g->index]; i++) {
        uint32_t w = l->part[g->index][i], rows = l->p->buffer[w].rows;
        PlanOp *o = op_add(l, s, op_name(l, s, NULL, i, l->n_part[g->index]), "matvec");
        uint32_t half = rows / 2;
        matrix_constants(o, &l->p->buffer[w], swiglu ? half : rows);
        kernel_op_uint(&o->op, "SPLIT", s->act && !swiglu ? half : rows);
        kernel_op_uint(&o->op, "Y0", y0);
        kernel_op_uint(&o->op, "Y1", s->act ? total + y0 : 0);
        kernel_op_uint(&o->op, "PROLOGUE", s->norm ? 1 : parts ? 2 : 0);
        kernel_op_uint(&o->op, "EPILOGUE", swiglu ? 1 : 0);
        kernel_op_float(&o->op, "EPS", s->eps);
        kernel_op_uint(&o->op, "M", l->rows);
        kernel_op_uint(&o->op, "X_LAST", g->last);
        kernel_op_uint(&o->op, "X_STRIDE", g->x_stride ? g->x_stride : width);
        uint32_t hd = parts ? l->p->program->graph->model->head_dim : 1;
        kernel_op_uint(&o->op, "NS", parts ? parts : 1);
        kernel_op_uint(&o->op, "HD", hd);
        kernel_op_uint(&o->op, "N_HEAD", parts ? width / hd : 1);
        op_in(l, o, "w", w);
        op_in(l, o, "x", g->x);
        if (s->norm) op_in(l, o, "nw", l->norm_vector[g->index]);
        if (l->bias_vector[g->index] != GRAPH_NONE) op_in(l, o, "bias", l->bias_vector[g->index]);
        if (s->residual != GRAPH_NONE) op_in(l, o, "res", l->value[s->residual]);
        if (g->last) op_in(l, o, "step", l->p->step);
        op_out(l, o, "y", y);
        o->op.flops = 2.0 * rows * l->p->buffer[w].k;
        y0 += swiglu || s->act ? half : rows;
    }
    if (s->act && !swiglu) {
        PlanOp *o = op_add(l, s, op_name(l, s, "gate", 0, 1), "gate");
        kernel_op_uint(&o->op, "M", 1);
        kernel_op_uint(&o->op, "F", total);
        kernel_op_uint(&o->op, "X_STRIDE", 2 * total);
        op_in(l, o, "x", y);
        op_out(l, o, "y", g->y);
    }
}

/* The normalised input of a step with several rows; made once for neighbours that share it. */
uint32_t lower_norm(Lower *l, uint32_t index, const Step *s, uint32_t x) {
    if (!s->norm) return x;
    if (l->normed_of == s->in && l->normed_weight == l->norm_vector[index]) return l->normed;
    uint32_t width = value_width(l, s->in);
    uint32_t y = value_buffer(l, op_name(l, s, "norm", 0, 1), s->layer, (uint64_t)l->rows * width);
    PlanOp *o = op_add(l, s, op_name(l, s, "norm", 0, 1), "norm");
    kernel_op_uint(&o->op, "M", l->rows);
    kernel_op_uint(&o->op, "K", width);
    kernel_op_float(&o->op, "EPS", s->eps);
    op_in(l, o, "x", x);
    op_in(l, o, "nw", l->norm_vector[index]);
    op_out(l, o, "y", y);
    l->normed_of = s->in, l->normed = y, l->normed_weight = l->norm_vector[index];
    return y;
}

/* y = [act](W norm(x)) + bias + residual for every row of the batch. */
static void lower_matmul(Lower *l, uint32_t index, const Step *s, uint32_t final, uint32_t width) {
    uint32_t x = lower_norm(l, index, s, l->value[s->in]), y = final;
    uint32_t total = (uint32_t)range_rows(s, true), y0 = s->act ? 0 : s->out_column;
    if (s->act)
        width = 2 * total,
        y = value_buffer(l, op_name(l, s, "pair", 0, 1), s->layer, (uint64_t)l->rows * width);
    for (uint32_t i = 0; i < l->n_part[index]; i++) {
        uint32_t w = l->part[index][i], rows = l->p->buffer[w].rows;
        PlanOp *o = op_add(l, s, op_name(l, s, NULL, i, l->n_part[index]), "matmul");
        matrix_constants(o, &l->p->buffer[w], rows);
        kernel_op_uint(&o->op, "M", l->rows);
        kernel_op_uint(&o->op, "SPLIT", s->act ? rows / 2 : rows);
        kernel_op_uint(&o->op, "Y0", y0);
        kernel_op_uint(&o->op, "Y1", s->act ? total + y0 : 0);
        kernel_op_uint(&o->op, "X_STRIDE", value_width(l, s->in));
        kernel_op_uint(&o->op, "Y_STRIDE", width);
        op_in(l, o, "w", w);
        op_in(l, o, "x", x);
        if (l->bias_vector[index] != GRAPH_NONE) op_in(l, o, "bias", l->bias_vector[index]);
        if (s->residual != GRAPH_NONE) op_in(l, o, "res", l->value[s->residual]);
        op_out(l, o, "y", y);
        o->op.flops = 2.0 * l->rows * rows * l->p->buffer[w].k;
        y0 += s->act ? rows / 2 : rows;
    }
    if (!s->act) return;
    PlanOp *o = op_add(l, s, op_name(l, s, "gate", 0, 1), "gate");
    kernel_op_uint(&o->op, "M", l->rows);
    kernel_op_uint(&o->op, "F", total);
    kernel_op_uint(&o->op, "X_STRIDE", width);
    op_in(l, o, "x", y);
    op_out(l, o, "y", final);
}

void lower_product(Lower *l, uint32_t index, const Step *s, uint32_t y, uint32_t width) {
    if (l->rows == 1) lower_matvec(l, &(MatvecArgs){s, index, l->value[s->in], y, false, 0});
    else lower_matmul(l, index, s, y, width);
}

static void attention_constants(Lower *l, PlanOp *o, const Step *s) {
    o->op.uses_kv = true;
    o->op.kv = l->p->options.kv;
    kernel_op_uint(&o->op, "M", l->rows);
    kernel_op_uint(&o->op, "NH", s->attention.n_head);
    kernel_op_uint(&o->op, "NKV", s->attention.n_head_kv);
    kernel_op_uint(&o->op, "HD", s->attention.head_dim);
    kernel_op_uint(&o->op, "CTX", l->p->options.n_ctx);
    kernel_op_uint(&o->op, "N_ROT", s->rope->n_rot);
    kernel_op_uint(&o->op, "HALVES", s->rope->halves);
    kernel_op_float(&o->op, "SCALE", s->attention.scale);
}

/* Parts into which one token's attention is cut: enough groups to occupy the device, at least 32
 * positions each. */
static uint32_t attention_parts(const Lower *l, const Step *s) {
    uint32_t n = l->p->target->n_units * 2 / s->attention.n_head_kv;
    uint32_t most = l->p->options.n_ctx / 32;
    if (n > 16) n = 16;
    if (n > most) n = most;
    return n ? n : 1;
}

static void lower_attention(Lower *l, const Step *s) {
    uint32_t qkv = l->value[s->in], k = l->k_cache[s->layer], v = l->v_cache[s->layer];
    uint64_t width = value_width(l, s->out);
    if (l->rows == 1) {
        uint32_t ns = attention_parts(l, s);
        uint64_t floats = (uint64_t)s->attention.n_head * ns * (s->attention.head_dim + 2);
        uint32_t y = value_buffer(l, op_name(l, s, "parts", 0, 1), s->layer, floats);
        PlanOp *o = op_add(l, s, s->name, "attention_decode");
        attention_constants(l, o, s);
        kernel_op_uint(&o->op, "NS", ns);
        op_in(l, o, "step", l->p->step);
        op_in(l, o, "qkv", qkv);
        op_in(l, o, "rope", l->rope_table);
        op_bind(l, o, "kc", k, true, true);
        op_bind(l, o, "vc", v, true, true);
        op_out(l, o, "y", y);
        l->value[s->out] = y, l->partial[s->out] = ns;
        return;
    }
    PlanOp *o = op_add(l, s, op_name(l, s, "rope", 0, 1), "rope_kv");
    attention_constants(l, o, s);
    op_in(l, o, "step", l->p->step);
    op_bind(l, o, "qkv", qkv, true, true);
    op_in(l, o, "rope", l->rope_table);
    op_out(l, o, "kc", k);
    op_out(l, o, "vc", v);
    uint32_t y = step_out(l, s);
    o = op_add(l, s, s->name, "attention");
    attention_constants(l, o, s);
    op_in(l, o, "step", l->p->step);
    op_in(l, o, "qkv", qkv);
    op_in(l, o, "kc", k);
    op_in(l, o, "vc", v);
    op_out(l, o, "y", y);
    o->op.flops = 4.0 * l->rows * (l->rows + 256.0) * (double)width;
}

static void lower_step(Lower *l, uint32_t i) {
    const Step *s = &l->p->program->step[i];
    switch (s->kind) {
    case STEP_EMBED: lower_embed(l, i, s); return;
    case STEP_LINEAR: lower_product(l, i, s, step_out(l, s), value_width(l, s->out)); return;
    case STEP_ATTENTION: lower_attention(l, s); return;
    case STEP_MOE: lower_moe(l, i, s); return;
    default:
        fail(FAIL_USER, "step '%s' (%s) has no kernels yet; this model cannot be compiled", s->name,
             s->why ? s->why : "");
    }
}

/* ---- what follows the layers ----------------------------------------------------------------- */

static PlanSegment segment_since(const Lower *l, uint32_t first) {
    return (PlanSegment){first, l->p->n_ops - first};
}

static void lower_sampler(Lower *l) {
    CompiledPlan *p = l->p;
    const Model *m = p->program->graph->model;
    uint32_t scratch = GRAPH_NONE;
    for (int stage = 1;; stage++) {
        const char *op = arena_printf(l->arena, "sample_%d", stage);
        if (!select_has(l->lib, op)) return;
        PlanOp *o = op_add(l, NULL, op, op);
        kernel_op_uint(&o->op, "N_VOCAB", m->n_vocab);
        kernel_op_uint(&o->op, "CTX", p->options.n_ctx);
        kernel_op_uint(&o->op, "M", l->rows);
        if (scratch == GRAPH_NONE)
            scratch = buffer_add(l, BUFFER_VALUE, "sample.scratch", -1,
                                 4 * select_number(l->lib, &o->op, "scratch_words") + 16);
        o = &p->op[p->n_ops - 1];
        op_bind(l, o, "step", p->step, true, true);
        op_bind(l, o, "tokens", p->tokens, true, true);
        op_bind(l, o, "ring", p->ring, true, true);
        op_bind(l, o, "logits", p->logits, true, true);
        op_bind(l, o, "scratch", scratch, true, true);
    }
}

static void lower_advance(Lower *l) {
    PlanOp *o = op_add(l, NULL, "advance", "advance");
    kernel_op_uint(&o->op, "M", l->rows);
    op_bind(l, o, "step", l->p->step, true, true);
}

static void lower_batch(Lower *l, uint32_t rows, bool logits) {
    CompiledPlan *p = l->p;
    const Program *g = p->program;
    Batch *b = &p->batch[p->n_batches];
    b->rows = l->rows = rows;
    l->normed_of = GRAPH_NONE;
    memset(l->value, 0xff, g->n_value * sizeof *l->value);
    memset(l->partial, 0, g->n_value * sizeof *l->partial);
    uint32_t first = p->n_ops, head = g->n_step;
    for (uint32_t i = 0; i < g->n_step; i++) {
        if (g->step[i].last_only) head = i;
        else lower_step(l, i);
    }
    ASSERT(head < g->n_step);
    b->layers = segment_since(l, first);
    const Step *s = &g->step[head];
    first = p->n_ops;
    lower_matvec(l, &(MatvecArgs){s, head, l->value[s->in], p->logits, rows > 1,
                                  value_width(l, s->in)});
    b->head_last = segment_since(l, first);
    first = p->n_ops;
    if (logits && rows > 1) lower_matmul(l, head, s, p->logits, value_width(l, s->out));
    b->head_all = rows > 1 ? segment_since(l, first) : b->head_last;
    first = p->n_ops;
    lower_sampler(l);
    b->sample = segment_since(l, first);
    first = p->n_ops;
    lower_advance(l);
    b->advance = segment_since(l, first);
    p->n_batches++;
}

void lower(Arena *a, CompiledPlan *p, KernelLibrary *lib) {
    Lower l = {.arena = a, .p = p, .lib = lib};
    const Model *m = p->program->graph->model;
    l.value = ARENA_ARRAY(a, uint32_t, p->program->n_value);
    l.partial = ARENA_ARRAY(a, uint32_t, p->program->n_value);
    /* chunk sizes: 16, 64, 256 or 512 ... up to --batch; logits of all rows in the smallest */
    uint32_t rows[PLAN_MAX_BATCHES] = {1}, n = 1;
    for (uint32_t r = 16; r < p->options.batch && n + 1 < PLAN_MAX_BATCHES; r *= r == 16 ? 4 : 8)
        rows[n++] = r;
    if (p->options.batch > 1) rows[n++] = p->options.batch;
    uint64_t logits = (n > 1 ? rows[1] : 1) * 4ull * m->n_vocab,
             tokens = 4ull * (p->options.n_ctx + 1);
    p->step = buffer_add(&l, BUFFER_STEP, "step", -1, 256);
    p->tokens = buffer_add(&l, BUFFER_TOKENS, "tokens", -1, tokens);
    p->ring = buffer_add(&l, BUFFER_RING, "ring", -1, tokens);
    p->logits = buffer_add(&l, BUFFER_LOGITS, "logits", -1, logits);
    p->readback = buffer_add(&l, BUFFER_READBACK, "readback", -1, logits);
    weights_make(&l);
    for (uint32_t i = 0; i < n; i++) lower_batch(&l, rows[i], i == 1);
}
