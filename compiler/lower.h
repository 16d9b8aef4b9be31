/* lower.h - private to the lowering of steps: the state of a run, and what its files share. */
#ifndef QCC_LOWER_H
#define QCC_LOWER_H
#include "plan.h"

typedef struct MoeWeights MoeWeights;
typedef struct {
    Arena *arena;
    CompiledPlan *p;
    KernelLibrary *lib;
    size_t cap_buffers, cap_ops;
    uint32_t rows;   /* of this batch */
    uint32_t *value; /* [n_value] buffer of each value in this batch, or GRAPH_NONE */
    uint32_t
        *partial; /* [n_value] parts of attention that `value` holds unmerged; 0 = a plain value */
    uint32_t normed_of, normed, normed_weight; /* the last norm made, reused by neighbours */
    uint32_t **part, *n_part; /* [n_step] buffers of the packed rows; shared by all batches */
    MoeWeights **moe;         /* [n_step] experts; `part` of such a step is its router */
    uint32_t *norm_vector, *bias_vector;     /* [n_step] */
    uint32_t rope_table, *k_cache, *v_cache; /* [n_layer] */
} Lower;

uint32_t buffer_add(Lower *l, BufferKind kind, const char *name, int layer, uint64_t bytes);
uint32_t value_buffer(Lower *l, const char *name, int layer, uint64_t floats);
uint32_t value_width(const Lower *l, uint32_t v);

/* An operation, then its operands: read, written, or as op_bind says. `bytes` counts what is bound,
 * caches and ids apart. */
PlanOp *op_add(Lower *l, const Step *s, const char *name, const char *op);
void op_bind(Lower *l, PlanOp *o, const char *role, uint32_t buffer, bool read, bool write);
void op_in(Lower *l, PlanOp *o, const char *role, uint32_t buffer);
void op_out(Lower *l, PlanOp *o, const char *role, uint32_t buffer);
/* "step", "step.what", "step.what[part]" */
const char *op_name(Lower *l, const Step *s, const char *what, uint32_t part, uint32_t n_parts);

/* K, UNITS, ROWS and PLANEn of packed rows. */
void matrix_constants(PlanOp *o, const Buffer *w, uint64_t rows);
/* The buffer of the step's output in this batch, made at the first call. */
uint32_t step_out(Lower *l, const Step *s);
/* The normalised input of a step with several rows; made once for neighbours that share it. */
uint32_t lower_norm(Lower *l, uint32_t index, const Step *s, uint32_t x);
/* y = [act](W norm(x)) + bias + residual for the rows of the batch; rows of y are `width` apart. */
void lower_product(Lower *l, uint32_t index, const Step *s, uint32_t y, uint32_t width);

/* Largest packed part: what one binding covers and one allocation holds. */
uint64_t part_limit(const Lower *l);
/* Rows of a tensor; fails if its format does not take the scale (NULL: none). */
RowRange part_range(const GgufTensor *t, const GgufTensor *scale, uint64_t row0, uint64_t n);
/* `bytes`: of the 16 rows of t that are the least to bind. */
_Noreturn void part_too_large(const Lower *l, const GgufTensor *t, uint64_t bytes);
/* Packs a step's matrices as l->part[index]. */
void parts_make(Lower *l, uint32_t index, const Step *s);

/* lower_moe.c */
void moe_weights_make(Lower *l, uint32_t index, const Step *s);
void lower_moe(Lower *l, uint32_t index, const Step *s);
#endif
