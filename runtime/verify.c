/* verify.c - does this device compute what the exact reference computed at compile time? Both the
 * kernels of prompts and those of single tokens answer for the check vectors in the payload. */
#include "command.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest relative RMS error, of logits centred per position. Exact mode: float sums in another
 * order and a cache in f16. Otherwise activations or cache entries have 8 bits, and the divergence
 * of the distributions is limited as well. */
typedef struct {
    double rel_rms, kl;
} Tolerance;
/* Reduced: int8 activations cost up to 5.4e-2 and 1.1e-2 on the smallest models; a wrong kernel
 * costs about 1. */
static const Tolerance exact = {1e-3, 1e-4}, reduced = {1e-1, 5e-2};
static const double clear_margin =
    0.01; /* between the reference's two best: there the first must agree */

typedef struct {
    const float *want; /* [n_rows][n_vocab] */
    uint32_t first, n_vocab, rows, top1,
        wrong; /* wrong: another first in spite of a clear margin */
    double error, scale, kl;
} Compare;

typedef struct {
    double mean, log_sum;
    uint32_t best;
    float margin;
} RowStats;

static RowStats row_stats(const float *x, uint32_t n) {
    RowStats r = {0};
    float second = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        r.mean += x[i];
        if (i == 0) continue;
        if (x[i] > x[r.best]) second = x[r.best], r.best = i;
        else if (x[i] > second) second = x[i];
    }
    r.mean /= n;
    r.margin = x[r.best] - second;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - x[r.best]);
    r.log_sum = log(sum) + x[r.best];
    return r;
}

static bool compare_row(void *ctx, uint32_t position, const float *got) {
    Compare *c = ctx;
    if (position < c->first) return true;
    const float *want = c->want + (uint64_t)(position - c->first) * c->n_vocab;
    RowStats w = row_stats(want, c->n_vocab), g = row_stats(got, c->n_vocab);
    for (uint32_t i = 0; i < c->n_vocab; i++) {
        double centred = want[i] - w.mean, error = got[i] - g.mean - centred,
               log_p = want[i] - w.log_sum;
        c->error += error * error;
        c->scale += centred * centred;
        c->kl += exp(log_p) * (log_p - (got[i] - g.log_sum));
    }
    if (w.best == g.best) c->top1++;
    else if (w.margin > clear_margin) c->wrong++;
    c->rows++;
    return true;
}

static bool verify_path(App *a, const uint32_t *ids, uint32_t n, Compare c, bool single,
                        Tolerance t, bool *pass) {
    if (!session_start(&a->session, ids, n, 0, NULL) ||
        !session_logits(&a->session, single, compare_row, &c))
        return false;
    double rms = sqrt(c.error / c.scale), kl = c.kl / c.rows;
    bool good = rms < t.rel_rms && kl < t.kl && c.wrong == 0; /* a NaN is not */
    (void)printf("%-7s  %u positions  relative RMS error %.3g (limit %.0e)  top-1 %u/%u  KL "
                 "divergence %.3g (limit %.0e)  %s\n",
                 single ? "decode" : "prefill", c.rows, rms, t.rel_rms, c.top1, c.rows, kl, t.kl,
                 good ? "ok" : "FAIL");
    if (!good) *pass = false;
    return true;
}

static bool verify_frame(App *a, const uint8_t *data, uint64_t bytes, Tolerance t, bool *pass) {
    PayloadCheck h;
    if (bytes < sizeof h)
        return error_user("this executable is damaged (check vectors); compile it again");
    memcpy(&h, data, sizeof h);
    const uint32_t *ids = (const uint32_t *)(const void *)(data + sizeof h);
    if (h.n_vocab != a->plan->n_vocab || h.n_tokens == 0 || h.n_tokens > a->plan->n_ctx ||
        h.n_rows == 0 || h.n_rows > h.n_tokens ||
        bytes != sizeof h + 4ull * h.n_tokens + 4ull * h.n_rows * h.n_vocab)
        return error_user("this executable is damaged (check vectors); compile it again");
    Compare c = {.want = (const float *)(const void *)(ids + h.n_tokens),
                 .first = h.n_tokens - h.n_rows,
                 .n_vocab = h.n_vocab};
    return verify_path(a, ids, h.n_tokens, c, false, t, pass) &&
           verify_path(a, ids, h.n_tokens, c, true, t, pass);
}

static bool verify_tolerance(App *a, Tolerance *t) {
    char accuracy[16] = "", cache[16] = "";
    const PayloadFrame *f = load_find(&a->payload, FRAME_MANIFEST, 0);
    char *manifest = f ? (char *)load_read(&a->payload, f) : NULL;
    if (f && !manifest) return false;
    if (manifest) {
        (void)info_string(manifest, "accuracy", accuracy, sizeof accuracy);
        (void)info_string(manifest, "kv_cache", cache, sizeof cache);
    }
    free(manifest);
    *t = strcmp(accuracy, "fast") == 0 || strcmp(cache, "q8_0") == 0 ? reduced : exact;
    return true;
}

bool command_verify(App *a) {
    Tolerance t;
    bool pass = true;
    if (!load_find(&a->payload, FRAME_CHECK, 0))
        return error_user("this program was compiled without check vectors");
    if (!verify_tolerance(a, &t) || !command_session(a)) return false;
    (void)printf("%s on %s\n", a->plan->model_name, a->session.device.properties.deviceName);
    for (uint64_t i = 0; i < a->payload.n_frames; i++) {
        const PayloadFrame *f = &a->payload.frames[i];
        if (f->kind != FRAME_CHECK) continue;
        uint8_t *data = load_read(&a->payload, f);
        bool ok = data && verify_frame(a, data, f->raw_bytes, t, &pass);
        free(data);
        if (!ok) return false;
    }
    (void)printf("%s\n", pass ? "PASS" : "FAIL");
    if (!output_finish()) return false;
    return pass || error_user("%s computes wrong results for this program; update its driver, or "
                              "recompile with `qcc --target auto`",
                              a->session.device.properties.deviceName);
}
