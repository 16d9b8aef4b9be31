/* schedule.c - barriers where a real hazard is, submissions that stay short, distinct modules, and
 * the sequences that are recorded. */
#include "plan.h"
#include <string.h>
#include <xxhash.h>

enum {
    SUBMIT_LIMIT_US = 80000
}; /* drivers end work that runs for long; 100 ms is the design's bound */

typedef struct {
    uint32_t zone;
    uint64_t from, to;
    bool write;
} Access;

/* Accesses since the last barrier. */
typedef struct {
    Access *list;
    size_t n, cap;
} Pending;

static bool access_conflicts(const Pending *q, const Access *x) {
    for (size_t i = 0; i < q->n; i++) {
        const Access *y = &q->list[i];
        if (x->zone == y->zone && x->from < y->to && y->from < x->to && (x->write || y->write))
            return true;
    }
    return false;
}

static Access operand_access(const CompiledPlan *p, const Operand *o) {
    const Buffer *b = &p->buffer[o->buffer];
    return (Access){b->zone, b->offset, b->offset + b->bytes, o->write};
}

/* Neighbours that fill disjoint columns of one value do not conflict: parts of one step, or of q, k
 * and v. */
static bool same_output(const CompiledPlan *p, const PlanOp *a, const PlanOp *b) {
    (void)p;
    if (strcmp(a->op.op, b->op.op) != 0 || a->layer != b->layer) return false;
    uint32_t ya = UINT32_MAX, yb = UINT32_MAX;
    for (uint32_t i = 0; i < a->n_operands; i++)
        if (a->operand[i].write) ya = a->operand[i].buffer;
    for (uint32_t i = 0; i < b->n_operands; i++) {
        if (b->operand[i].write) yb = b->operand[i].buffer;
        else if (b->operand[i].buffer == ya) return false;
    }
    return ya == yb;
}

static void barriers_place(Arena *a, CompiledPlan *p, PlanSegment s) {
    Pending q = {0};
    uint32_t group = s.first; /* the first of a run of operations that fill one value */
    for (uint32_t i = s.first; i < s.first + s.count; i++) {
        PlanOp *o = &p->op[i];
        bool joins = i > s.first && same_output(p, &p->op[i - 1], o);
        if (!joins) group = i;
        bool conflict = false;
        for (uint32_t k = 0; k < o->n_operands && !conflict; k++) {
            Access x = operand_access(p, &o->operand[k]);
            Pending before = q;
            if (joins && x.write) { /* its own group's writes are disjoint by construction */
                size_t n = 0;
                for (uint32_t j = group; j < i; j++) n += p->op[j].n_operands;
                before.n = q.n >= n ? q.n - n : 0;
            }
            conflict = access_conflicts(&before, &x);
        }
        o->barrier = conflict;
        if (conflict) q.n = 0, group = i;
        for (uint32_t k = 0; k < o->n_operands; k++) {
            q.list = arena_grow(a, q.list, q.n, &q.cap, sizeof *q.list);
            q.list[q.n++] = operand_access(p, &o->operand[k]);
        }
    }
}

/* Weights in host memory come over the bus. */
static void op_predict(const CompiledPlan *p, PlanOp *o) {
    const Target *t = p->target;
    o->us = o->choice->us, o->bound = o->choice->bound;
    double bus = t->host_gbps > 0 ? (double)o->op.bytes / ((double)t->host_gbps * 1e3) : 0;
    for (uint32_t k = 0; k < o->n_operands; k++) {
        const Buffer *b = &p->buffer[o->operand[k].buffer];
        bool host = p->zone[b->zone].kind == ZONE_HOST_WEIGHTS;
        if (host && bus > o->us) o->us = bus + (double)t->dispatch_us, o->bound = "bus";
    }
    if (o->barrier && o->us < (double)t->barrier_us) o->bound = "barrier";
    if (o->barrier) o->us += (double)t->barrier_us;
}

static void splits_place(CompiledPlan *p, PlanSegment s, double *us, double *total) {
    for (uint32_t i = s.first; i < s.first + s.count; i++) {
        PlanOp *o = &p->op[i];
        op_predict(p, o);
        if (*us > 0 && *us + o->us > SUBMIT_LIMIT_US) o->split = true, *us = 0;
        *us += o->us;
        *total += o->us;
    }
}

static void modules_collect(Arena *a, CompiledPlan *p) {
    p->module = ARENA_ARRAY(a, PlanModule, p->n_ops);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const KernelChoice *c = p->op[i].choice;
        uint32_t k = 0;
        while (k < p->n_modules && (strcmp(p->module[k].source, c->source) ||
                                    p->op[p->module[k].first_op].choice->subgroup != c->subgroup))
            k++;
        p->op[i].kernel = k;
        if (k < p->n_modules) continue;
        p->module[k] = (PlanModule){arena_printf(a, "%s_%u", c->file, k),
                                    c->label,
                                    c->source,
                                    i,
                                    {.name = c->label,
                                     .source = c->source,
                                     .api_version = p->target->api_version,
                                     .needs = c->needs}};
        p->n_modules++;
    }
}

static void sequence_add(CompiledPlan *p, SequenceKind kind, uint32_t rows, const PlanSegment *s,
                         uint32_t n) {
    ASSERT(p->n_sequences < PLAN_MAX_SEQUENCES && n <= SEQUENCE_MAX_SEGMENTS);
    PlanSequence *q = &p->sequence[p->n_sequences++];
    *q = (PlanSequence){.kind = kind, .rows = rows, .n_segments = n};
    memcpy(q->segment, s, n * sizeof *s);
}

static void sequences_make(CompiledPlan *p) {
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const Batch *b = &p->batch[i];
        if (b->rows == 1) {
            sequence_add(p, SEQUENCE_DECODE, 1, (PlanSegment[]){b->layers, b->head_last, b->sample},
                         3);
        } else {
            sequence_add(p, SEQUENCE_PREFILL, b->rows, (PlanSegment[]){b->layers, b->advance}, 2);
            sequence_add(p, SEQUENCE_PREFILL_LAST, b->rows,
                         (PlanSegment[]){b->layers, b->head_last, b->sample}, 3);
        }
        if (b->head_all.count)
            sequence_add(p, SEQUENCE_LOGITS, b->rows,
                         (PlanSegment[]){b->layers, b->head_all, b->advance}, 3);
    }
}

void schedule(Arena *a, CompiledPlan *p) {
    modules_collect(a, p);
    for (uint32_t i = 0; i < p->n_batches; i++) {
        Batch *b = &p->batch[i];
        const PlanSegment *all[] = {&b->layers, &b->head_last, &b->head_all, &b->sample,
                                    &b->advance};
        for (int k = 0; k < 5; k++)
            if (k != 2 || b->rows > 1) barriers_place(a, p, *all[k]);
        double us = 0, rest = 0;
        splits_place(p, b->layers, &us, &b->us);
        splits_place(p, b->head_last, &us, &b->us);
        splits_place(p, b->sample, &us, &b->us);
        if (b->rows > 1) splits_place(p, b->head_all, &us, &rest);
    }
    p->decode_us = p->batch[0].us;
    for (uint32_t i = p->batch[0].layers.first; i < p->batch[0].sample.first; i++)
        p->decode_bytes += p->op[i].op.bytes;
    sequences_make(p);
}
