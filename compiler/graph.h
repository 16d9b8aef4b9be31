/* graph.h - what a model computes, as operations on values; no kernel, no memory, no target.
 *
 * Every value is an f32 array [n_token][width]. A node makes one value, and refers to others by
 * index; nodes stand in an order in which every input comes before its use. Architectures
 * (compiler/arch/NAME.lua) build the graph; formulas stand beside the operations. `n_token` is not
 * fixed here. */
#ifndef QCC_GRAPH_H
#define QCC_GRAPH_H
#include "model.h"

typedef enum {
    OP_EMBED,     /* row `token` of weight, times factor */
    OP_RMS_NORM,  /* x / sqrt(mean(x^2) + eps) * weight, over the last `weight->ne[0]` elements of
                     each group */
    OP_LINEAR,    /* y[o] = scale[0] * sum_i weight[o][i] x[i] + bias[o]; bias and scale optional */
    OP_ROPE,      /* rotary position embedding of each head, see Rope */
    OP_ATTENTION, /* in: q, k, v. Appends k, v to the layer's cache; causal softmax attention, see
                     Attention */
    OP_ADD,       /* a + b */
    OP_MUL,       /* a * b */
    OP_SILU,      /* x / (1 + exp(-x)) */
    OP_MOE,       /* mixture of experts, see Moe */
    N_GRAPH_OP
} GraphOp;

/* th = position * inverse frequency / factors[i], scaled as ext_factor and freq_scale say (linear,
 * YaRN); pairs are neighbours (2i, 2i+1) or halves (i, i + n_rot/2). Elements past n_rot stay.
 * YaRN: Peng et al., arXiv 2309.00071. */
typedef struct {
    uint32_t n_head, head_dim, n_rot;
    bool halves;
    float base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
    uint32_t n_ctx_orig;
    const GgufTensor *factors; /* F32 [n_rot / 2] or NULL */
} Rope;
/* cos and sin (times the magnitude correction) of pair i at a position, in double. */
void rope_angle(const Rope *r, uint32_t position, uint32_t i, double *cosine, double *sine);

/* Query head h attends with key/value head h / (n_head / n_head_kv); softmax of scale * q.k over
 * positions <= its own. */
typedef struct {
    uint32_t n_head, n_head_kv, head_dim;
    float scale;
} Attention;

/* p = softmax(router x); the n_used largest, renormalised; sum of p_e * down_e(silu(gate_e x) *
 * up_e x). */
typedef struct {
    uint32_t n_expert, n_used, n_ff;
    const GgufTensor *router, *gate, *up,
        *down; /* {n_embd, n_expert}, {n_embd, n_ff, n_expert} x2, {n_ff, n_embd, n_expert} */
    const GgufTensor *gate_scale, *up_scale,
        *down_scale; /* F32 {n_expert}: factor of an expert's products; or NULL */
} Moe;

enum { GRAPH_NONE = 0xffffffff, GRAPH_MAX_IN = 3 };
typedef struct {
    GraphOp op;
    const char *name; /* of the step in the model: "blk.3.attn_q" */
    int layer;        /* -1 outside the layers */
    uint32_t n_in, in[GRAPH_MAX_IN];
    uint32_t width; /* elements per token of the value made */
    const GgufTensor *weight, *bias, *scale;
    float eps, factor;
    Rope rope;
    Attention attention;
    Moe moe;
} GraphNode;

typedef struct Graph {
    const Model *model;
    uint32_t n_ctx; /* length of the sequences that it is for */
    uint32_t n_node;
    GraphNode *node;
    size_t cap_node; /* private to graph_add */
    uint32_t logits; /* the node whose value is [n_token][n_vocab] */
} Graph;

/* Fails with the list of architectures unless there is a description of this name. */
void graph_check_arch(Arena *a, const Gguf *g, const char *arch, const char *lua_path);
/* Runs the architecture's description. n_ctx: the context that is compiled for (0: n_ctx_train);
 * "longrope" models choose their rope factors by it. lua_path: directory that overrides built-in
 * files, or NULL. */
Graph *graph_build(Arena *a, const Model *m, uint32_t n_ctx, const char *lua_path);
/* Appends a node and returns its index. Its layer follows from the name ("blk.N."). */
uint32_t graph_add(Arena *a, Graph *g, const GraphNode *n);
void graph_verify(
    const Graph *g); /* widths, order, tensor shapes; fails (user) naming the tensor */
void graph_print(const Graph *g, Text *out);
const char *graph_op_name(GraphOp op);
#endif
