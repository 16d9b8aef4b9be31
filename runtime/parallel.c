/* parallel.c - threads that draw job numbers from one counter. The caller is one of them, so that
 * it works, if slower, when no thread can be created. */
#include "parallel.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    ParallelJob fn;
    void *ctx;
    uint32_t n_jobs;
    atomic_uint next, worker;
    atomic_bool failed;
} Loop;

uint32_t parallel_workers(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > PARALLEL_MAX ? PARALLEL_MAX : (uint32_t)n;
}

double parallel_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *loop_work(void *arg) {
    Loop *loop = arg;
    uint32_t worker = atomic_fetch_add(&loop->worker, 1);
    while (!atomic_load(&loop->failed)) {
        uint32_t job = atomic_fetch_add(&loop->next, 1);
        if (job >= loop->n_jobs) break;
        if (!loop->fn(loop->ctx, worker, job)) atomic_store(&loop->failed, true);
    }
    return NULL;
}

bool parallel_run(uint32_t n_workers, uint32_t n_jobs, ParallelJob fn, void *ctx) {
    Loop loop = {.fn = fn, .ctx = ctx, .n_jobs = n_jobs};
    pthread_t threads[PARALLEL_MAX];
    uint32_t n = 0;
    while (n + 1 < n_workers && n + 1 < n_jobs && n < PARALLEL_MAX &&
           pthread_create(&threads[n], NULL, loop_work, &loop) == 0)
        n++;
    (void)loop_work(&loop);
    while (n > 0) (void)pthread_join(threads[--n], NULL);
    return !atomic_load(&loop.failed);
}
