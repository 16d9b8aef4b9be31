/* parallel.h - a loop whose jobs run on several threads. */
#ifndef QCC_PARALLEL_H
#define QCC_PARALLEL_H
#include <stdbool.h>
#include <stdint.h>

enum { PARALLEL_MAX = 16 };
uint32_t parallel_workers(void); /* processors online, at most PARALLEL_MAX */

/* Runs fn(ctx, worker, job) for job = 0 .. n_jobs-1, each once, on n_workers threads; worker <
 * n_workers tells them apart. After a job returned false no further one starts, and the result is
 * false. */
typedef bool (*ParallelJob)(void *ctx, uint32_t worker, uint32_t job);
bool parallel_run(uint32_t n_workers, uint32_t n_jobs, ParallelJob fn, void *ctx);
double parallel_now(void); /* seconds, monotonic */
#endif
