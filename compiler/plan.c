/* plan.c - the plan's stages in order, its checks, and its printed forms. */
#include "plan.h"
#include <stdio.h>
#include <string.h>

uint32_t plan_context(const Model *m, uint32_t asked) {
    if (asked == 0) return m->n_ctx_train < 4096 ? m->n_ctx_train : 4096;
    if (asked > m->n_ctx_train)
        note(1, "--ctx %u is longer than the %u tokens that the model was trained for", asked,
             m->n_ctx_train);
    return asked;
}

CompiledPlan *plan_make(Arena *a, const Program *program, const Target *t, const PlanOptions *o) {
    CompiledPlan *p = ARENA_NEW(a, CompiledPlan);
    p->program = program, p->target = t, p->options = *o;
    if (p->options.batch == 0) p->options.batch = t->flops_gf > 1000 ? 512 : 64;
    if (p->options.batch > p->options.n_ctx) p->options.batch = p->options.n_ctx;
    KernelLibrary *lib = select_open(a, t, p->options.lua_path);
    lower(a, p, lib);
    memory_place(p);
    choose_kernels(a, p, lib);
    schedule(a, p);
    plan_verify(p);
    return p;
}

/* ---- bindings -------------------------------------------------------------------------------- */

const Buffer *plan_role_buffer(const CompiledPlan *p, const PlanOp *o, const char *role) {
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (strcmp(o->operand[k].role, role) == 0) return &p->buffer[o->operand[k].buffer];
    ASSERT(!"a role without an operand");
    return NULL;
}

RolePlace plan_binding(const CompiledPlan *p, const PlanOp *o, uint32_t index) {
    RolePlace r = {.offset = UINT64_MAX};
    uint64_t end = 0;
    for (uint32_t i = 0; i < o->choice->n_roles; i++) {
        if (o->choice->role[i].binding != index) continue;
        const Buffer *b = plan_role_buffer(p, o, o->choice->role[i].name);
        r.zone = b->zone;
        if (b->offset < r.offset) r.offset = b->offset;
        if (b->offset + b->bytes > end) end = b->offset + b->bytes;
    }
    r.bytes = end - r.offset;
    return r;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void buffer_verify(const CompiledPlan *p, const Buffer *b) {
    ASSERT(b->zone < p->n_zones && b->bytes > 0);
    ASSERT(b->offset % p->target->storage_alignment == 0);
    ASSERT(b->offset + b->bytes <= p->zone[b->zone].bytes);
}

/* Two values of a batch that live at once do not overlap. */
static void values_verify(const CompiledPlan *p) {
    for (uint32_t i = 0; i < p->n_buffers; i++)
        for (uint32_t k = 0; k < i && p->buffer[i].kind == BUFFER_VALUE; k++) {
            const Buffer *x = &p->buffer[i], *y = &p->buffer[k];
            if (y->kind != BUFFER_VALUE || y->batch != x->batch) continue;
            bool apart_in_time = x->last_use < y->first_use || y->last_use < x->first_use;
            bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
            ASSERT(apart_in_time || apart);
        }
}

void plan_verify(const CompiledPlan *p) {
    for (uint32_t i = 0; i < p->n_buffers; i++) buffer_verify(p, &p->buffer[i]);
    values_verify(p);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const PlanOp *o = &p->op[i];
        ASSERT(o->choice && o->choice->n_roles == o->n_operands && o->kernel < p->n_modules);
        ASSERT(o->choice->n_bindings <= p->target->max_storage_bindings);
        for (uint32_t k = 0; k < o->choice->n_roles;
             k++) { /* each role lies where its kernel looks for it */
            RolePlace at = plan_binding(p, o, o->choice->role[k].binding);
            const Buffer *b = plan_role_buffer(p, o, o->choice->role[k].name);
            ASSERT(at.zone == b->zone && at.offset + o->choice->role[k].at == b->offset);
            ASSERT(at.bytes <= p->target->max_storage_range);
        }
    }
}

/* ---- printed forms --------------------------------------------------------------------------- */

static const char *const zone_names[] = {"device", "device, zeroed", "device, weights",
                                         "host, weights", "host"};
static const char *const sequence_names[] = {"decode", "prefill", "prefill_last", "logits"};

static void op_print(const CompiledPlan *p, const PlanOp *o, Text *out) {
    text_printf(out, "  %s%-24s %-16s",
                o->split     ? "= "
                : o->barrier ? "| "
                             : "  ",
                o->name, o->op.op);
    for (uint32_t k = 0; k < o->n_operands; k++) {
        const Buffer *b = &p->buffer[o->operand[k].buffer];
        text_printf(out, " %s%s=%s@%u:%llu", o->operand[k].role, o->operand[k].write ? "!" : "",
                    b->name, b->zone, (unsigned long long)b->offset);
    }
    for (uint32_t k = 0; k < o->choice->n_bindings && o->choice->n_bindings < o->choice->n_roles;
         k++)
        for (uint32_t i = 0, n = 0; i < o->choice->n_roles; i++)
            if (o->choice->role[i].binding == k)
                text_printf(out, "%s%s", n++ ? "+" : k ? " " : "  bound ", o->choice->role[i].name);
    text_printf(out, "  groups %ux%ux%u\n", o->choice->groups[0], o->choice->groups[1],
                o->choice->groups[2]);
}

static void zones_print(const CompiledPlan *p, Text *out) {
    for (uint32_t i = 0; i < p->n_zones; i++)
        text_printf(out, "  %2u %-13s %-15s %s\n", i, p->zone[i].name, zone_names[p->zone[i].kind],
                    human_bytes(out->arena, p->zone[i].bytes));
}

void plan_print(const CompiledPlan *p, Text *out) {
    text_printf(out, "plan: %u operations, %u kernels, context %u, batch %u\nzones\n", p->n_ops,
                p->n_modules, p->options.n_ctx, p->options.batch);
    zones_print(p, out);
    text_printf(out, "sequences\n");
    for (uint32_t i = 0; i < p->n_sequences; i++) {
        const PlanSequence *s = &p->sequence[i];
        text_printf(out, "  %-12s rows %-4u operations", sequence_names[s->kind], s->rows);
        for (uint32_t k = 0; k < s->n_segments; k++)
            text_printf(out, " %u+%u", s->segment[k].first, s->segment[k].count);
        text_printf(out, "\n");
    }
    text_printf(out, "operations  (| barrier before, = new submission, ! written)\n");
    for (uint32_t i = 0, b = 0; i < p->n_ops; i++) {
        if (b < p->n_batches && p->batch[b].layers.first == i)
            text_printf(out, " rows %u, scratch %s\n", p->batch[b].rows,
                        human_bytes(out->arena, p->batch[b].scratch_bytes)),
                b++;
        op_print(p, &p->op[i], out);
    }
}

void plan_kernels_print(const CompiledPlan *p, Text *out) {
    for (uint32_t i = 0; i < p->n_modules; i++) {
        uint32_t uses = 0;
        for (uint32_t k = 0; k < p->n_ops; k++) uses += p->op[k].kernel == i;
        const KernelChoice *c = p->op[p->module[i].first_op].choice;
        text_printf(out, "kernel %u: %s  (%u uses, %u invocations, %u bytes shared)\n", i,
                    p->module[i].label, uses, c->local, c->shared_bytes);
        text_printf(out, "%s\n", p->module[i].source);
    }
}

static void explain_op(const PlanOp *o, int width, Text *out) {
    const KernelChoice *c = o->choice;
    text_printf(out, "  %-22s %-*s %6ux%-4u %10llu %9.2f  %s\n", o->name, width, c->label,
                c->groups[0], c->groups[1] * c->groups[2], (unsigned long long)o->op.bytes, o->us,
                o->bound);
}

static void explain_batch(const CompiledPlan *p, uint32_t b, Text *out) {
    const Batch *x = &p->batch[b];
    uint32_t end = x->sample.first + x->sample.count;
    size_t width = strlen("kernel and knobs");
    for (uint32_t i = x->layers.first; i < end; i++) {
        size_t n = strlen(p->op[i].choice->label);
        if (n > width) width = n;
    }
    text_printf(out, "\n%s of %u row%s: predicted %.1f us\n  %-22s %-*s %11s %10s %9s  %s\n",
                b ? "prefill" : "decode", x->rows, b ? "s" : "", x->us, "operation", (int)width,
                "kernel and knobs", "groups", "bytes", "us", "bound by");
    for (uint32_t i = x->layers.first; i < end; i++) explain_op(&p->op[i], (int)width, out);
}

static void explain_missing(const Target *t, Text *out) {
    bool any = false;
    for (int i = 0; i < N_CAP; i++) {
        if (t->caps[i]) continue;
        if (!any) text_printf(out, "\nnot available on this target\n");
        any = true;
        text_printf(out, "  %-22s %s\n", capability_names[i], t->missing[i] ? t->missing[i] : "");
    }
}

void plan_explain(const CompiledPlan *p, Text *out) {
    const Target *t = p->target;
    text_printf(out, "target %s: %s, read %.0f GB/s, dispatch %.2f us, barrier %.2f us%s\n",
                t->name, t->device_name, (double)t->read_gbps, (double)t->dispatch_us,
                (double)t->barrier_us, t->measured ? " (measured)" : " (estimated)");
    for (uint32_t b = 0; b < p->n_batches; b++) explain_batch(p, b, out);
    text_printf(out, "\nmemory\n");
    zones_print(p, out);
    text_printf(out, "  weights %s", human_bytes(out->arena, p->weight_bytes));
    if (p->host_weight_bytes)
        text_printf(out, " (%s in host memory)", human_bytes(out->arena, p->host_weight_bytes));
    text_printf(out, ", caches %s, activations %s\n", human_bytes(out->arena, p->kv_bytes),
                human_bytes(out->arena, p->scratch_bytes));
    text_printf(
        out, "decode: %.1f MB per token, predicted %.0f tokens/s (%.0f%% of the read bandwidth)\n",
        (double)p->decode_bytes / 1e6, 1e6 / p->decode_us,
        100.0 * (double)p->decode_bytes / (p->decode_us * (double)t->read_gbps * 1e3));
    explain_missing(t, out);
}
