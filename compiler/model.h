/* model.h - hyper-parameters of a model, validated. Keys and defaults: docs of GGUF metadata; a
 * missing required key fails naming itself. Per-layer keys that are scalars in the file are
 * broadcast. */
#ifndef QCC_MODEL_H
#define QCC_MODEL_H
#include "gguf.h"

typedef struct Model {
    const Gguf *gguf;
    const char *arch; /* general.architecture */
    const char *name; /* general.name, or the file's name */
    uint32_t n_ctx_train, n_embd, n_layer, n_vocab;
    uint32_t *n_head, *n_head_kv, *n_ff; /* [n_layer] */
    uint32_t head_dim; /* attention.key_length; value_length must agree where the architecture needs
                          it */
    uint32_t head_dim_v;
    uint32_t n_rot;
    float norm_eps; /* RMS or layer norm epsilon, whichever the file has; 0 if neither */
    float rope_base;
    const char *rope_scaling; /* "none", "linear", "yarn", "longrope" */
    float rope_factor;        /* 0 = none */
    uint32_t rope_n_ctx_orig;
    float rope_attn_factor;
    uint32_t n_expert, n_expert_used;
} Model;

/* general.architecture; fails where the file is no language model. */
const char *model_arch(Arena *a, const Gguf *g);
Model *model_read(Arena *a, const Gguf *g);
void model_print(const Model *m, Text *out); /* --dump model */
/* Tensor by name; fails naming it when absent. */
const GgufTensor *model_need(const Model *m, const char *name);
#endif
