/* profile.c - where the time of a sequence goes: mean time per dispatch, layers together. */
#include "profile.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool profile_init(Profile *p, const Device *d, const PlanSequence *q) {
    *p = (Profile){0};
    if (d->timestamp_bits == 0)
        return error_environment("the queue of %s has no timestamps: --profile is not possible",
                                 d->properties.deviceName);
    for (uint32_t i = 0; i < q->n_segments; i++) p->n += q->segment[i].count;
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = p->n + 1};
    p->ticks = error_alloc(p->n + 1, sizeof *p->ticks, "timestamps");
    p->us = error_alloc(p->n + 1, sizeof *p->us, "timestamps");
    return p->ticks && p->us && VK_CHECK(vkCreateQueryPool, d->handle, &info, NULL, &p->pool);
}

void profile_finish(Profile *p, const Device *d) {
    if (p->pool) vkDestroyQueryPool(d->handle, p->pool, NULL);
    free(p->ticks);
    free(p->us);
    *p = (Profile){0};
}

bool profile_add(Profile *p, const Device *d) {
    if (!VK_CHECK(vkGetQueryPoolResults, d->handle, p->pool, 0, p->n + 1,
                  (p->n + 1) * sizeof *p->ticks, p->ticks, sizeof *p->ticks,
                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT))
        return false;
    uint64_t mask = d->timestamp_bits >= 64 ? UINT64_MAX : (1ull << d->timestamp_bits) - 1;
    double us = (double)d->properties.limits.timestampPeriod * 1e-3;
    for (uint32_t i = 0; i < p->n; i++)
        p->us[i] += (double)((p->ticks[i + 1] - p->ticks[i]) & mask) * us;
    p->runs++;
    return true;
}

void profile_clear(Profile *p) {
    memset(p->us, 0, p->n * sizeof *p->us);
    p->runs = 0;
}

typedef struct {
    char name[64];
    const PlanDispatch *dispatch; /* the first one */
    uint32_t n;
    double us;
    uint64_t bytes;
} Line;

/* "blk.12.qkv" is "blk.*.qkv". */
static void name_general(const char *name, char *out, size_t size) {
    size_t at = 0;
    for (const char *s = name; *s && at + 1 < size;) {
        bool number = s > name && s[-1] == '.' && isdigit((unsigned char)*s);
        out[at++] = number ? '*' : *s;
        if (number)
            while (isdigit((unsigned char)*s)) s++;
        else s++;
    }
    out[at] = 0;
}

static Line *line_find(Line *lines, uint32_t *n, const char *name, const PlanDispatch *d) {
    for (uint32_t i = 0; i < *n; i++)
        if (lines[i].dispatch->kernel == d->kernel && strcmp(lines[i].name, name) == 0)
            return &lines[i];
    Line *l = &lines[(*n)++];
    *l = (Line){.dispatch = d};
    (void)snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

bool profile_print(const Profile *p, const Plan *made, const PlanSequence *q) {
    Line *lines = error_alloc(p->n, sizeof *lines, "the profile");
    if (!lines) return false;
    uint32_t n = 0, at = 0;
    double total = 0;
    for (uint32_t s = 0; s < q->n_segments; s++)
        for (uint32_t i = 0; i < q->segment[s].count; i++, at++) {
            const PlanDispatch *d = &made->dispatches[q->segment[s].first + i];
            char name[64];
            name_general(d->name, name, sizeof name);
            Line *l = line_find(lines, &n, name, d);
            l->n++;
            l->us += p->us[at] / p->runs;
            l->bytes += d->bytes;
            total += p->us[at] / p->runs;
        }
    (void)printf("%u row%s, mean of %u runs: %.1f us\n", q->rows, q->rows == 1 ? "" : "s", p->runs,
                 total);
    (void)printf("  %-26s %5s %9s %10s %6s %8s  kernel\n", "operation", "times", "us each", "us",
                 "%", "GB/s");
    for (uint32_t i = 0; i < n; i++)
        (void)printf("  %-26s %5u %9.2f %10.1f %6.1f %8.1f  %s\n", lines[i].name, lines[i].n,
                     lines[i].us / lines[i].n, lines[i].us, 100 * lines[i].us / total,
                     (double)lines[i].bytes * 1e-3 / lines[i].us,
                     made->kernels[lines[i].dispatch->kernel].name);
    free(lines);
    return true;
}
