/* session.c - set-up in order, prompt upload, prefill in baked chunks, decode with several
 * submissions in flight. */
#include "session.h"
#include "../kernels/lib/step.h"
#include <stdlib.h>
#include <string.h>

enum {
    COMPUTE = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
    TRANSFER = VK_PIPELINE_STAGE_TRANSFER_BIT,
    READ_WRITE = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    UPDATE_MAX = 65536 /* bytes of one vkCmdUpdateBuffer */
};

static bool fences_create(Session *s) {
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    for (int i = 0; i < SESSION_IN_FLIGHT; i++)
        if (!VK_CHECK(vkCreateFence, s->device.handle, &info, NULL, &s->fences[i])) return false;
    info.flags = VK_FENCE_CREATE_SIGNALED_BIT;
    return VK_CHECK(vkCreateFence, s->device.handle, &info, NULL, &s->upload_fence);
}

/* The upload buffer, ready to be recorded, ordered behind what was submitted before. */
static bool upload_begin(Session *s) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (!VK_CHECK(vkWaitForFences, s->device.handle, 1, &s->upload_fence, VK_TRUE, UINT64_MAX) ||
        !VK_CHECK(vkResetFences, s->device.handle, 1, &s->upload_fence) ||
        !VK_CHECK(vkBeginCommandBuffer, s->record.upload, &begin))
        return false;
    record_barrier(s->record.upload, COMPUTE | TRANSFER,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, TRANSFER,
                   VK_ACCESS_TRANSFER_WRITE_BIT);
    return true;
}

static bool submit(Session *s, uint32_t n, const VkCommandBuffer *buffers, VkFence fence) {
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1};
    for (uint32_t i = 0; i < n; i++) { /* one submission each: the plan split long work */
        info.pCommandBuffers = &buffers[i];
        if (!VK_CHECK(vkQueueSubmit, s->device.queue, 1, &info,
                      i + 1 == n ? fence : VK_NULL_HANDLE))
            return false;
    }
    return true;
}

static bool upload_end(Session *s) {
    record_barrier(s->record.upload, TRANSFER, VK_ACCESS_TRANSFER_WRITE_BIT, COMPUTE, READ_WRITE);
    return VK_CHECK(vkEndCommandBuffer, s->record.upload) &&
           submit(s, 1, &s->record.upload, s->upload_fence);
}

static void upload_write(Session *s, const PlanBinding *to, uint64_t offset, const void *data,
                         uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += UPDATE_MAX)
        vkCmdUpdateBuffer(s->record.upload, s->zones[to->zone].buffer, to->offset + offset + at,
                          bytes - at < UPDATE_MAX ? bytes - at : UPDATE_MAX,
                          (const uint8_t *)data + at);
}

/* Zeroes what the plan wants zeroed. Under validation the rest becomes NaN. */
static bool zones_clear(Session *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->plan->n_zones; i++)
        any |= s->plan->zones[i].kind <= ZONE_DEVICE_ZERO;
    if (!any) return true;
    if (!upload_begin(s)) return false;
    for (uint32_t i = 0; i < s->plan->n_zones; i++) {
        ZoneKind kind = s->plan->zones[i].kind;
        if (kind == ZONE_DEVICE_ZERO)
            vkCmdFillBuffer(s->record.upload, s->zones[i].buffer, 0, VK_WHOLE_SIZE, 0);
        if (kind == ZONE_DEVICE && s->device.validate)
            vkCmdFillBuffer(s->record.upload, s->zones[i].buffer, 0, VK_WHOLE_SIZE, 0x7fc07fc0);
    }
    return upload_end(s);
}

static bool zones_create(Session *s) {
    const Plan *p = s->plan;
    s->zones = error_alloc(p->n_zones, sizeof *s->zones, "memory zones");
    if (!s->zones) return false;
    for (uint32_t i = 0; i < p->n_zones; i++)
        if (!zone_init(&s->zones[i], &s->device, p->zones[i].name, p->zones[i].kind,
                       p->zones[i].bytes))
            return false;
    return true;
}

bool session_init(Session *s, const Plan *p, const Payload *l, int index) {
    *s = (Session){.plan = p};
    return device_init(&s->device, p, index) && zones_create(s) &&
           load_weights(l, &s->device, p, s->zones) &&
           pipeline_init(&s->pipelines, &s->device, p, l) &&
           record_init(&s->record, &s->device, p, &s->pipelines, s->zones) && fences_create(s) &&
           zones_clear(s);
}

void session_finish(Session *s) {
    Device *d = &s->device;
    if (d->handle) (void)vkDeviceWaitIdle(d->handle);
    for (int i = 0; i < SESSION_IN_FLIGHT; i++)
        if (s->fences[i]) vkDestroyFence(d->handle, s->fences[i], NULL);
    if (s->upload_fence) vkDestroyFence(d->handle, s->upload_fence, NULL);
    record_finish(&s->record, d);
    pipeline_finish(&s->pipelines, d);
    for (uint32_t i = 0; s->zones && i < s->plan->n_zones; i++) zone_finish(&s->zones[i], d);
    free(s->zones);
    device_finish(d);
    *s = (Session){0};
}

static void step_float(uint32_t step[STEP_WORDS], uint32_t word, float x) {
    memcpy(&step[word], &x, sizeof x);
}

bool session_start(Session *s, const uint32_t *ids, uint32_t n, uint32_t first,
                   const Sampling *sampling) {
    static const Sampling greedy = {.top_p = 1, .repeat_penalty = 1};
    const Sampling *o = sampling ? sampling : &greedy;
    uint32_t step[STEP_WORDS] = {0};
    step[STEP_POS] = s->pos = first;
    step[STEP_END] = s->end = first + n;
    step[STEP_SEED_LO] = (uint32_t)o->seed;
    step[STEP_SEED_HI] = (uint32_t)(o->seed >> 32);
    step[STEP_TOP_K] = o->top_k;
    step[STEP_REPEAT_LAST] = o->repeat_last;
    step_float(step, STEP_TEMPERATURE, o->temperature);
    step_float(step, STEP_TOP_P, o->top_p);
    step_float(step, STEP_MIN_P, o->min_p);
    step_float(step, STEP_REPEAT_PENALTY, o->repeat_penalty);
    if (!upload_begin(s)) return false;
    upload_write(s, &s->plan->step, 0, step, sizeof step);
    upload_write(s, &s->plan->tokens, (uint64_t)first * 4, ids, (uint64_t)n * 4);
    return upload_end(s);
}

/* The smallest sequence of `kind` with at least `rows` rows (no_less), or the largest with fewer.
 * NULL: none. */
static const PlanSequence *sequence_find(const Plan *p, SequenceKind kind, uint32_t rows,
                                         bool no_less) {
    const PlanSequence *best = NULL;
    for (uint32_t i = 0; i < p->n_sequences; i++) {
        const PlanSequence *q = &p->sequences[i];
        if (q->kind != kind || (q->rows >= rows) != no_less) continue;
        if (!best || (no_less ? q->rows < best->rows : q->rows > best->rows)) best = q;
    }
    return best;
}

/* The chunk for the next of `rows` tokens: the smallest that holds them all, unless more than half
 * of it would be padding; then the largest that they fill. A single token of a prompt takes the
 * decode sequence. */
static const PlanSequence *sequence_choose(const Plan *p, SequenceKind part, SequenceKind last,
                                           uint32_t rows) {
    const PlanSequence *whole = rows == 1 && last == SEQUENCE_PREFILL_LAST
                                    ? sequence_find(p, SEQUENCE_DECODE, 1, true)
                                    : NULL;
    if (!whole) whole = sequence_find(p, last, rows, true);
    const PlanSequence *full = sequence_find(p, part, rows, false);
    return whole && (whole->rows <= 2 * rows || !full) ? whole : full;
}

const PlanSequence *session_sequence(const Session *s, uint32_t rows) {
    const PlanSequence *q = sequence_choose(s->plan, SEQUENCE_PREFILL, SEQUENCE_PREFILL_LAST, rows);
    return q && q->rows >= rows ? q : NULL;
}

static bool sequence_submit(Session *s, const PlanSequence *q, VkFence fence) {
    if (!q)
        return error_user("this program has no sequence for %u tokens: a bug of qcc",
                          s->end - s->pos);
    uint32_t index = (uint32_t)(q - s->plan->sequences);
    const Recorded *r = &s->record.sequences[index];
    if (!record_sequence(&s->record, &s->pipelines, s->zones, index)) return false;
    uint32_t left = s->end - s->pos;
    s->pos += left < q->rows ? left : q->rows;
    return submit(s, r->n, r->buffers, fence);
}

static bool fence_wait(Session *s, VkFence *fence) {
    return VK_CHECK(vkWaitForFences, s->device.handle, 1, fence, VK_TRUE, UINT64_MAX) &&
           VK_CHECK(vkResetFences, s->device.handle, 1, fence);
}

static bool submit_prompt(Session *s, VkFence fence) {
    while (s->pos < s->end) {
        const PlanSequence *q = sequence_choose(s->plan, SEQUENCE_PREFILL, SEQUENCE_PREFILL_LAST,
                                                s->end - s->pos);
        bool last = q && q->rows >= s->end - s->pos;
        if (!sequence_submit(s, q, last ? fence : VK_NULL_HANDLE)) return false;
    }
    return true;
}

bool session_generate(Session *s, uint32_t most, SessionToken token, void *ctx) {
    const volatile uint32_t *ring =
        (const volatile uint32_t *)(const void *)(s->zones[s->plan->ring.zone].mapped +
                                                  s->plan->ring.offset);
    const PlanSequence *decode = sequence_find(s->plan, SEQUENCE_DECODE, 1, true);
    uint32_t first = s->end, submitted = 1, read = 0;
    bool stop = false;
    if (!submit_prompt(s, s->fences[0])) return false;
    while (read < submitted) {
        while (!stop && submitted < most && submitted - read < SESSION_IN_FLIGHT) {
            s->end++; /* the sampled token */
            if (!sequence_submit(s, decode, s->fences[submitted % SESSION_IN_FLIGHT])) return false;
            submitted++;
        }
        if (!fence_wait(s, &s->fences[read % SESSION_IN_FLIGHT])) return false;
        if (!stop && !token(ctx, ring[first + read])) stop = true;
        read++;
    }
    return true;
}

bool session_logits(Session *s, bool single, SessionRow row, void *ctx) {
    const float *logits = (const float *)(const void *)(s->zones[s->plan->readback.zone].mapped +
                                                        s->plan->readback.offset);
    while (s->pos < s->end) {
        uint32_t first = s->pos;
        uint32_t rows = single ? 1 : s->end - s->pos;
        const PlanSequence *q = sequence_choose(s->plan, SEQUENCE_LOGITS, SEQUENCE_LOGITS, rows);
        if (!single && q &&
            q->rows == 1) { /* a last token alone: padding keeps it on the prefill path */
            const PlanSequence *padded = sequence_find(s->plan, SEQUENCE_LOGITS, 2, true);
            if (padded) q = padded;
        }
        if (!sequence_submit(s, q, s->fences[0]) || !fence_wait(s, &s->fences[0])) return false;
        for (uint32_t i = first; i < s->pos; i++)
            if (!row(ctx, i, logits + (uint64_t)(i - first) * s->plan->n_vocab)) return true;
    }
    return true;
}
