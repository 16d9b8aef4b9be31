/* reference.h - the graph evaluated exactly: dequantized weights, plain loops, products accumulated
 * in f64, values f32. Slow and obviously right: the oracle of check vectors and of kernel tests. */
#ifndef QCC_REFERENCE_H
#define QCC_REFERENCE_H
#include "graph.h"

typedef struct Reference Reference;
typedef enum { KV_F16, KV_F32, KV_Q8_0 } KvType;
/* State for sequences of at most n_ctx tokens; keys and values are kept in f32, or rounded as the
 * cache type says. */
Reference *reference_create(Arena *a, const Graph *g, uint32_t n_ctx, KvType kv);
/* Evaluates n tokens after those already given. logits: [n][n_vocab], or [1][n_vocab] for the last
 * if last_only; may be NULL. */
void reference_run(Reference *r, const uint32_t *token, uint32_t n, float *logits, bool last_only);
void reference_reset(Reference *r);
uint32_t reference_position(const Reference *r);
/* Called for every node's value as it is made (tests name the first that deviates); NULL switches
 * it off. */
void reference_trace(Reference *r,
                     void (*seen)(void *arg, uint32_t node, const float *value, uint32_t n_token),
                     void *arg);
#endif
