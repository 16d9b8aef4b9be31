/* session.h - an opened device with weights, and the ways to run tokens through it.
 *
 * One sequence of tokens at a time. session_start sets positions and the tokens that are known;
 * then either session_generate or session_logits, which end with nothing in flight. The cache keeps
 * the positions before the start, so a start at position n continues behind what was processed
 * before. */
#ifndef QCC_SESSION_H
#define QCC_SESSION_H
#include "record.h"

typedef struct {
    uint64_t seed;
    float temperature;    /* 0: greedy */
    uint32_t top_k;       /* 0: off */
    float top_p;          /* 1: off */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    uint32_t repeat_last;
} Sampling;

enum { SESSION_IN_FLIGHT = 4 }; /* submissions ahead of the last token that was read */

typedef struct {
    const Plan *plan;
    Device device;
    Zone *zones;
    Pipelines pipelines;
    Record record;
    VkFence fences[SESSION_IN_FLIGHT];
    VkFence upload_fence; /* signalled: the upload buffer may be recorded again */
    uint32_t pos, end;    /* of the tokens that were started and not yet submitted */
} Session;

/* Opens device `index` (-1: the best) and loads everything. */
bool session_init(Session *s, const Plan *p, const Payload *l, int index);
void session_finish(Session *s); /* accepts half-built */

/* ids stand at positions first .. first + n - 1; n > 0, first + n <= n_ctx. sampling NULL:
 * greedy. */
bool session_start(Session *s, const uint32_t *ids, uint32_t n, uint32_t first,
                   const Sampling *sampling);

/* The sequence that processes `rows` started tokens and samples the next; NULL if no single one
 * does. */
const PlanSequence *session_sequence(const Session *s, uint32_t rows);

/* Processes the started tokens, then samples up to `most` ids, several submissions in flight.
 * `token` gets them in order and returns false to stop. `most` > 0; end + most <= n_ctx + 1. */
typedef bool (*SessionToken)(void *ctx, uint32_t id);
bool session_generate(Session *s, uint32_t most, SessionToken token, void *ctx);

/* The started tokens through the prefill (single: the decode) kernels; `row` gets the logits
 * [n_vocab] of each position in order and returns false to stop. */
typedef bool (*SessionRow)(void *ctx, uint32_t position, const float *logits);
bool session_logits(Session *s, bool single, SessionRow row, void *ctx);
#endif
