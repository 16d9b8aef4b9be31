/* memory.c - a place for every buffer: zones for weights (within the budget, the rest in host
 * memory), one for the caches, one for activations, which share memory by lifetime, one for small
 * state, one that the host reads. */
#include "plan.h"
#include <stdlib.h>
#include <string.h>

static uint32_t zone_add(CompiledPlan *p, const char *name, ZoneKind kind) {
    if (p->n_zones == PLAN_MAX_ZONES)
        fail(FAIL_USER,
             "target '%s': %s is %llu: the model needs more than %d allocations of that size, as "
             "many as qcc makes",
             p->target->name, target_zone_limit(p->target).name,
             (unsigned long long)target_zone_limit(p->target).bytes, PLAN_MAX_ZONES);
    p->zone[p->n_zones] = (PlanZone){name, kind, 0};
    return p->n_zones++;
}

static bool zone_fits(const CompiledPlan *p, uint32_t zone, uint64_t bytes) {
    uint64_t at = round_up(p->zone[zone].bytes, p->target->storage_alignment);
    return at + bytes <= target_zone_limit(p->target).bytes;
}

static void zone_put(CompiledPlan *p, uint32_t zone, Buffer *b) {
    uint64_t align = p->target->storage_alignment > 16 ? p->target->storage_alignment : 16;
    b->zone = zone;
    b->offset = round_up(p->zone[zone].bytes, align);
    p->zone[zone].bytes = b->offset + b->bytes;
}

/* ---- what one binding and one allocation can have -------------------------------------------- */

/* The caller's wish that made a buffer, or a zone of such buffers, as large as it is. */
static const char *hint_of(BufferKind kind) {
    switch (kind) {
    case BUFFER_VALUE: return "; lower --batch";
    case BUFFER_LOGITS:
    case BUFFER_READBACK: return "; lower --batch below 16";
    case BUFFER_KV: return "; lower --ctx or use --kv q8_0";
    case BUFFER_TOKENS:
    case BUFFER_RING: return "; lower --ctx";
    default: return "";
    }
}

/* Before places are given: a buffer that no binding covers has none. Parts of matrices were made to
 * fit. */
static void bindings_check(const CompiledPlan *p) {
    TargetLimit limit = target_binding_limit(p->target);
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const Buffer *b = &p->buffer[i];
        if (b->bytes > limit.bytes)
            fail(FAIL_USER, "target '%s': %s is %llu: '%s' takes %llu bytes%s", p->target->name,
                 limit.name, (unsigned long long)limit.bytes, b->name, (unsigned long long)b->bytes,
                 hint_of(b->kind));
    }
}

/* Zones of weights and caches are closed before they are too large; the others hold what is
 * left. */
static void zones_check(const CompiledPlan *p) {
    TargetLimit limit = target_zone_limit(p->target);
    for (uint32_t z = 0; z < p->n_zones; z++) {
        if (p->zone[z].bytes <= limit.bytes) continue;
        BufferKind kind = BUFFER_STEP;
        for (uint32_t i = 0, most = 0; i < p->n_buffers;
             i++) /* the largest of the zone is to blame */
            if (p->buffer[i].zone == z && p->buffer[i].bytes > most)
                most = (uint32_t)p->buffer[i].bytes, kind = p->buffer[i].kind;
        fail(FAIL_USER, "target '%s': %s is %llu: the zone '%s' takes %llu bytes%s",
             p->target->name, limit.name, (unsigned long long)limit.bytes, p->zone[z].name,
             (unsigned long long)p->zone[z].bytes, hint_of(kind));
    }
}

/* ---- activations ----------------------------------------------------------------------------- */

static void lifetimes(CompiledPlan *p) {
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->op[i].n_operands; k++) {
            Buffer *b = &p->buffer[p->op[i].operand[k].buffer];
            if (b->first_use > i) b->first_use = i;
            b->last_use = i;
        }
}

/* First fit among the values of the batch that are alive at the same time; values come in order of
 * first use. */
static uint64_t value_place(const CompiledPlan *p, uint32_t index, uint64_t align) {
    const Buffer *b = &p->buffer[index];
    uint64_t at = 0;
    for (uint32_t i = 0; i < index; i++) {
        const Buffer *o = &p->buffer[i];
        bool alive = o->kind == BUFFER_VALUE && o->batch == b->batch &&
                     o->first_use <= b->last_use && b->first_use <= o->last_use;
        if (alive && at < o->offset + o->bytes && o->offset < at + b->bytes) {
            at = round_up(o->offset + o->bytes, align);
            i = UINT32_MAX; /* start over from the new place */
        }
    }
    return at;
}

static void values_place(CompiledPlan *p) {
    uint32_t zone = zone_add(p, "scratch", ZONE_DEVICE);
    uint64_t align = p->target->storage_alignment > 16 ? p->target->storage_alignment : 16;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        Buffer *b = &p->buffer[i];
        if (b->kind != BUFFER_VALUE) continue;
        b->zone = zone;
        b->offset = value_place(p, i, align);
        uint64_t end = b->offset + b->bytes;
        if (end > p->batch[b->batch].scratch_bytes) p->batch[b->batch].scratch_bytes = end;
        if (end > p->zone[zone].bytes) p->zone[zone].bytes = end;
    }
    p->scratch_bytes = p->zone[zone].bytes;
}

/* ---- state and caches ------------------------------------------------------------------------ */

static void state_place(CompiledPlan *p) {
    uint32_t device = zone_add(p, "state", ZONE_DEVICE_ZERO), host = zone_add(p, "host", ZONE_HOST);
    zone_put(p, device, &p->buffer[p->step]);
    zone_put(p, device, &p->buffer[p->tokens]);
    zone_put(p, device, &p->buffer[p->logits]);
    zone_put(p, host, &p->buffer[p->ring]);
    zone_put(p, host, &p->buffer[p->readback]);
}

static void caches_place(CompiledPlan *p) {
    uint32_t zone = UINT32_MAX;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        Buffer *b = &p->buffer[i];
        if (b->kind != BUFFER_KV) continue;
        if (zone == UINT32_MAX || !zone_fits(p, zone, b->bytes))
            zone = zone_add(p, "cache", ZONE_DEVICE_ZERO);
        zone_put(p, zone, b);
        p->kv_bytes += b->bytes;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_weight(const Buffer *b) {
    return b->kind == BUFFER_PART || b->kind == BUFFER_VECTOR;
}

/* The last layers go to host memory first: the embedding and the first layers stay. */
static void weights_place(CompiledPlan *p) {
    uint64_t used = 0, budget = p->budget;
    for (uint32_t z = 0; z < p->n_zones; z++)
        used += p->zone[z].kind == ZONE_HOST ? 0 : p->zone[z].bytes;
    if (used > budget)
        fail(FAIL_USER,
             "target '%s': caches and activations alone take %llu bytes, the memory budget is "
             "%llu; lower --ctx or --batch, "
             "or raise --vram-budget",
             p->target->name, (unsigned long long)used, (unsigned long long)budget);
    uint32_t device = UINT32_MAX, host = UINT32_MAX;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        Buffer *b = &p->buffer[i];
        if (!is_weight(b)) continue;
        bool fits = used + b->bytes <= budget;
        uint32_t *zone = fits ? &device : &host;
        if (*zone == UINT32_MAX || !zone_fits(p, *zone, b->bytes))
            *zone = zone_add(p, fits ? "weights" : "host weights",
                             fits ? ZONE_WEIGHTS : ZONE_HOST_WEIGHTS);
        zone_put(p, *zone, b);
        p->weight_bytes += b->bytes;
        if (fits) used += b->bytes;
        else p->host_weight_bytes += b->bytes;
    }
}

void memory_place(CompiledPlan *p) {
    bindings_check(p);
    lifetimes(p);
    values_place(p);
    state_place(p);
    caches_place(p);
    uint64_t heap = p->target->device_heap, budget = p->options.vram_budget;
    p->budget = budget ? budget : heap ? heap - heap / 10 : UINT64_MAX;
    weights_place(p);
    zones_check(p);
}
