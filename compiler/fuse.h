/* fuse.h - the graph as fewer, larger steps. A step is what one or a few dispatches do; how is
 * decided later.
 *
 * Values are f32 [n_token][width]. A step reads `in` (and `residual`), writes `out`. */
#ifndef QCC_FUSE_H
#define QCC_FUSE_H
#include "graph.h"
#include "format.h"

typedef enum {
    STEP_EMBED,     /* out = row of matrix[0], times factor */
    STEP_LINEAR,    /* out = [act]( matrices * norm(in) + bias ) + residual, matrices stacked in row
                       order */
    STEP_ATTENTION, /* in = q|k|v of a token; rotates q and k, appends k and v to the cache,
                       attends; out [n_head * head_dim] */
    STEP_GATE,      /* out = silu(in) * residual: where gate and up cannot share a matrix step */
    STEP_MOE,
    N_STEP
} StepKind;

typedef enum {
    ACT_NONE,
    ACT_SWIGLU /* matrices gate, up: out = silu(gate x) * (up x) */
} Activation;

typedef struct {
    const GgufTensor *weight, *bias, *scale;
    const Format *format;
    uint32_t rows;
} Matrix;

enum { STEP_MAX_MATRIX = 3 };
typedef struct {
    StepKind kind;
    const char *name; /* "blk.0.qkv" */
    int layer;
    uint32_t in, residual, out; /* values, or GRAPH_NONE */
    uint32_t out_column; /* first column of `out` that this step writes: several steps may fill one
                            value */
    const GgufTensor *norm; /* RMS norm weight applied to `in` first, or NULL */
    float eps, factor;
    uint32_t n_matrix;
    Matrix matrix[STEP_MAX_MATRIX];
    Activation act;
    const Rope *rope; /* of q; k has the same but for the number of heads; NULL: none */
    Attention attention;
    Moe moe;
    bool last_only;  /* needed for the last token of a prompt only: the head */
    const char *why; /* what was fused, or why not, for explain and comments */
} Step;

typedef struct {
    const char *name;
    uint32_t width;
} StepValue;

typedef struct Program {
    const Graph *graph;
    uint32_t n_value, n_step;
    StepValue *value;
    Step *step;
    uint32_t logits; /* value */
} Program;

/* Norm into the matrices that follow; q, k, v of one format into one step (neighbours of another
 * format fill the same value in steps of their own); gate and up with the activation; bias and
 * residual additions into the step before. */
Program *fuse(Arena *a, const Graph *g);
void program_verify(const Program *p);
void program_print(const Program *p, Text *out);
#endif
