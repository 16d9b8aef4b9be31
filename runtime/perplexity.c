/* perplexity.c - how well the model predicts a text: exp of the mean negative log-likelihood per
 * token.
 *
 * A file in which documents end with the text of the end-of-text token is taken document by
 * document: each begins with BOS, has EOS as its last target, and is cut at the context. Any other
 * text is cut into windows of the context, each of which begins with BOS if the vocabulary wants
 * one; all tokens behind the first of a window are targets. */
#define _GNU_SOURCE
#include "command.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    App *app;
    const uint32_t *ids; /* of this window */
    uint32_t n;
    double nll;
    uint64_t n_targets, n_windows;
} Score;

static bool score_row(void *ctx, uint32_t position, const float *x) {
    Score *s = ctx;
    uint32_t n = s->app->plan->n_vocab;
    if (position + 1 >= s->n) return false;
    float best = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) best = x[i] > best ? x[i] : best;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - best);
    s->nll += log(sum) + best - x[s->ids[position + 1]];
    s->n_targets++;
    return true;
}

/* n ids, the last of which is only a target. */
static bool score_window(Score *s, const uint32_t *ids, uint32_t n) {
    s->ids = ids;
    s->n = n;
    if (n < 2) return true;
    s->n_windows++;
    return session_start(&s->app->session, ids, n - 1, 0, NULL) &&
           session_logits(&s->app->session, false, score_row, s);
}

static bool score_documents(Score *s, const char *text, uint64_t bytes, TokenText mark) {
    const VocabHeader *h = s->app->tokenizer->header;
    const char *end = text + bytes, *stop;
    for (; text < end; text = stop + mark.n) {
        uint32_t n = 0;
        stop = memmem(text, (size_t)(end - text), mark.s, mark.n);
        bool closed = stop != NULL;
        if (!closed) stop = end;
        uint32_t *ids = input_encode(s->app, text, (uint64_t)(stop - text), TOKEN_PARSE_SPECIAL,
                                     &n);
        uint32_t *window = ids ? error_alloc((uint64_t)n + 2, sizeof *window, "token ids") : NULL;
        bool ok = window != NULL;
        if (ok && n > 0) {
            uint32_t k = 0;
            window[k++] = h->bos != VOCAB_NONE ? h->bos : h->eos;
            memcpy(window + k, ids, n * sizeof *ids);
            k += n;
            if (closed) window[k++] = h->eos;
            ok = score_window(s, window, k < s->app->plan->n_ctx ? k : s->app->plan->n_ctx);
        }
        free(window);
        free(ids);
        if (!ok) return false;
        if (!closed) break;
    }
    return true;
}

static bool score_text(Score *s, const char *text, uint64_t bytes) {
    const VocabHeader *h = s->app->tokenizer->header;
    uint32_t n = 0, k = 0, ctx = s->app->plan->n_ctx;
    bool bos = (h->flags & VOCAB_ADD_BOS) && h->bos != VOCAB_NONE;
    uint32_t *ids = input_encode(s->app, text, bytes, 0, &n);
    uint32_t *window = ids ? error_alloc(ctx, sizeof *window, "token ids") : NULL;
    bool ok = window != NULL;
    for (uint32_t at = 0; ok && at < n; k = 0) {
        if (bos) window[k++] = h->bos;
        while (k < ctx && at < n) window[k++] = ids[at++];
        ok = score_window(s, window, k);
    }
    free(window);
    free(ids);
    return ok;
}

bool command_perplexity(App *a) {
    const Options *o = a->options;
    uint64_t bytes = 0;
    char *text = input_read(o->file, &bytes);
    if (!text || !command_tokenizer(a) || !command_session(a)) return free(text), false;
    Score s = {.app = a};
    uint32_t eos = a->tokenizer->header->eos;
    TokenText mark = eos != VOCAB_NONE ? token_text(a->tokenizer, eos) : (TokenText){0};
    bool documents = mark.n > 0 && memmem(text, (size_t)bytes, mark.s, mark.n);
    bool ok = documents ? score_documents(&s, text, bytes, mark) : score_text(&s, text, bytes);
    free(text);
    if (!ok) return false;
    if (s.n_targets == 0) return error_user("%s: too short; expected at least two tokens", o->file);
    double mean = s.nll / (double)s.n_targets;
    if (o->json)
        (void)printf("{\"perplexity\": %.6f, \"nll\": %.8f, \"tokens\": %llu, \"%s\": %llu}\n",
                     exp(mean), mean, (unsigned long long)s.n_targets,
                     documents ? "documents" : "windows", (unsigned long long)s.n_windows);
    else
        (void)printf("perplexity %.5f over %llu tokens in %llu %s\n", exp(mean),
                     (unsigned long long)s.n_targets, (unsigned long long)s.n_windows,
                     documents ? "documents" : "windows");
    return output_finish();
}
