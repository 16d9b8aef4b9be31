/* bench.c - speed, with the meaning of llama-bench: pp is a prompt processed from an empty cache,
 * tg are single-token steps behind a filled one. One warm-up, then r repetitions; loading is not
 * part of it. */
#include "command.h"
#include "parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    uint32_t n; /* tokens of a repetition */
    double mean, deviation;
} Result;

static bool ignore(void *ctx, uint32_t id) {
    (void)ctx, (void)id;
    return true;
}

/* One repetition: ids at `first`, `most` sampled; seconds, or a negative number. */
static double bench_once(Session *s, const uint32_t *ids, uint32_t n, uint32_t first,
                         uint32_t most) {
    double start = parallel_now();
    if (!session_start(s, ids, n, first, NULL) || !session_generate(s, most, ignore, NULL))
        return -1;
    return parallel_now() - start;
}

static bool bench_run(App *a, const uint32_t *ids, uint32_t n, uint32_t first, uint32_t most,
                      Result *r) {
    uint64_t repetitions = a->options->repetitions;
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i <= repetitions; i++) {
        double t = bench_once(&a->session, ids, n, first, most);
        if (t < 0) return false;
        if (i == 0) continue; /* warm-up */
        double speed = r->n / t;
        sum += speed;
        squares += speed * speed;
    }
    double k = (double)repetitions;
    r->mean = sum / k;
    r->deviation = k > 1 ? sqrt(fmax(0, (squares - sum * sum / k) / (k - 1))) : 0;
    return true;
}

static void print_json_text(const char *s) {
    (void)putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') (void)putchar('\\');
        if ((unsigned char)*s < 32) (void)printf("\\u%04x", (unsigned)*s);
        else (void)putchar(*s);
    }
    (void)putchar('"');
}

static void print_json(const App *a, const Result *pp, const Result *tg) {
    (void)printf("{\"model\": ");
    print_json_text(a->plan->model_name);
    (void)printf(", \"qcc\": ");
    print_json_text(a->plan->qcc_version);
    (void)printf(", \"device\": ");
    print_json_text(a->session.device.properties.deviceName);
    (void)printf(", \"repetitions\": %llu", (unsigned long long)a->options->repetitions);
    if (pp->n)
        (void)printf(", \"pp\": {\"n\": %u, \"tokens_per_s\": %.3f, \"stddev\": %.3f}", pp->n,
                     pp->mean, pp->deviation);
    if (tg->n)
        (void)printf(", \"tg\": {\"n\": %u, \"depth\": %llu, \"tokens_per_s\": %.3f, \"stddev\": "
                     "%.3f, \"gb_per_s\": %.3f}",
                     tg->n, (unsigned long long)a->options->depth, tg->mean, tg->deviation,
                     tg->mean * (double)a->plan->decode_bytes * 1e-9);
    (void)printf("}\n");
}

static void print_table(const App *a, const Result *pp, const Result *tg) {
    char name[40];
    (void)printf("%s on %s\n\n| test | tokens/s | +- | GB/s |\n|---|---|---|---|\n",
                 a->plan->model_name, a->session.device.properties.deviceName);
    if (pp->n) (void)printf("| pp%u | %.2f | %.2f | |\n", pp->n, pp->mean, pp->deviation);
    if (!tg->n) return;
    (void)snprintf(name, sizeof name, a->options->depth ? "tg%u @ d%llu" : "tg%u", tg->n,
                   (unsigned long long)a->options->depth);
    (void)printf("| %s | %.2f | %.2f | %.2f |\n", name, tg->mean, tg->deviation,
                 tg->mean * (double)a->plan->decode_bytes * 1e-9);
}

static uint32_t bench_chunk(const Plan *p) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < p->n_sequences; i++)
        if (p->sequences[i].kind == SEQUENCE_PREFILL_LAST && p->sequences[i].rows > most)
            most = p->sequences[i].rows;
    return most;
}

/* Sizes from the options; a default that does not fit the context is cut, a wish is refused. */
static bool bench_sizes(const App *a, Result *pp, Result *tg) {
    const Options *o = a->options;
    uint64_t ctx = a->plan->n_ctx, most = o->profile ? bench_chunk(a->plan) : 512;
    if (most > ctx) most = ctx;
    uint64_t prompt = o->bench_prompt >= 0 ? (uint64_t)o->bench_prompt : most;
    if (prompt > ctx)
        return error_user("bench -p %llu: the context of this program is %llu",
                          (unsigned long long)prompt, (unsigned long long)ctx);
    if (o->depth >= ctx)
        return error_user("bench -d %llu: the context of this program is %llu",
                          (unsigned long long)o->depth, (unsigned long long)ctx);
    uint64_t room = ctx - o->depth, steps = o->bench_steps >= 0 ? (uint64_t)o->bench_steps
                                            : room < 128        ? room
                                                                : 128;
    if (steps > room)
        return error_user("bench -d %llu -n %llu: the context of this program is %llu",
                          (unsigned long long)o->depth, (unsigned long long)steps,
                          (unsigned long long)ctx);
    pp->n = (uint32_t)prompt;
    tg->n = (uint32_t)steps;
    return true;
}

/* Runs of n tokens behind `first` others, each alone, with timestamps: one to warm up, then r. */
static bool bench_profile(App *a, const uint32_t *ids, uint32_t n, uint32_t first) {
    Session *s = &a->session;
    const PlanSequence *q = session_sequence(s, n);
    if (!q)
        return error_user("bench --profile -p %u: this program processes at most %u tokens at once",
                          n, bench_chunk(a->plan));
    uint32_t index = (uint32_t)(q - a->plan->sequences);
    Profile *p = &s->record.sequences[index].profile;
    if (!record_profile(&s->record, &s->device, index)) return false;
    if (first && bench_once(s, ids, first, 0, 1) < 0) return false;
    for (uint64_t i = 0; i <= a->options->repetitions; i++) {
        if (bench_once(s, ids + first, n, first, 1) < 0 || !profile_add(p, &s->device))
            return false;
        if (i == 0) profile_clear(p);
    }
    return profile_print(p, a->plan, q);
}

bool command_bench(App *a) {
    Result pp = {0}, tg = {0};
    uint32_t state = 12345, depth = (uint32_t)a->options->depth;
    if (!bench_sizes(a, &pp, &tg) || !command_session(a)) return false;
    uint32_t *ids = error_alloc(a->plan->n_ctx, sizeof *ids, "token ids");
    if (!ids) return false;
    for (uint32_t i = 0; i < a->plan->n_ctx; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (uint32_t)((uint64_t)state * a->plan->n_vocab >> 32);
    }
    if (a->options->profile) {
        bool done = (pp.n == 0 || bench_profile(a, ids, pp.n, 0)) &&
                    (tg.n == 0 || bench_profile(a, ids, 1, depth));
        free(ids);
        return done && output_finish();
    }
    bool ok = pp.n == 0 || bench_run(a, ids, pp.n, 0, 1, &pp);
    if (ok && tg.n && depth) ok = bench_once(&a->session, ids, depth, 0, 1) >= 0;
    if (ok && tg.n) ok = bench_run(a, ids + depth, 1, depth, tg.n, &tg);
    free(ids);
    if (!ok) return false;
    (a->options->json ? print_json : print_table)(a, &pp, &tg);
    return output_finish();
}
