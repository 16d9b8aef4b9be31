/* choose.c - a kernel for every operation, once all buffers have their places: overrides first,
 * then the cost model. */
#include "plan.h"
#include <string.h>

static bool pattern_matches(const char *pattern, const char *s) {
    for (; *pattern; pattern++, s++) {
        if (*pattern == '*') {
            for (;; s++) {
                if (pattern_matches(pattern + 1, s)) return true;
                if (!*s) return false;
            }
        }
        if (*pattern != *s) return false;
    }
    return *s == 0;
}

static bool choice_obeys(const KernelChoice *c, const Override *o) {
    if (strcmp(o->key, "kernel") == 0) return o->word && strcmp(c->file, o->word) == 0;
    if (strcmp(o->key, "inner") == 0)
        return !c->inner || (o->word && strcmp(c->inner, o->word) == 0);
    for (uint32_t i = 0; i < c->n_knobs; i++)
        if (strcmp(c->knobs[i].name, o->key) == 0) return !o->word && c->knobs[i].value == o->value;
    return true; /* a kernel without such a knob */
}

static const KernelChoice *choose(Arena *a, const PlanOptions *w, KernelLibrary *lib,
                                  const PlanOp *op) {
    bool wished = false;
    for (uint32_t i = 0; i < w->n_overrides; i++)
        wished = wished || pattern_matches(w->overrides[i].pattern, op->name);
    if (!wished) return select_best(lib, &op->op);
    KernelChoice *list;
    uint32_t n = select_candidates(lib, &op->op, &list, NULL);
    for (uint32_t k = 0; k < n; k++) {
        bool obeys = true;
        for (uint32_t i = 0; i < w->n_overrides && obeys; i++)
            obeys = !pattern_matches(w->overrides[i].pattern, op->name) ||
                    choice_obeys(&list[k], &w->overrides[i]);
        if (obeys) return &list[k];
    }
    Text have = {.arena = a};
    for (uint32_t k = 0; k < n; k++) text_printf(&have, "%s%s", k ? "; " : "", list[k].label);
    fail(FAIL_USER, "no kernel for '%s' obeys the overrides; there are: %s", op->name,
         n ? have.s : "none");
}

/* Roles that lie in one zone may share a binding where the target has few. */
static void places_note(const CompiledPlan *p, PlanOp *o) {
    for (uint32_t i = 0; i < o->n_operands; i++) {
        const Buffer *b = &p->buffer[o->operand[i].buffer];
        o->op.place[i] = (RolePlace){b->zone, b->offset, b->bytes};
    }
}

void choose_kernels(Arena *a, CompiledPlan *p, KernelLibrary *lib) {
    for (uint32_t i = 0; i < p->n_ops; i++) {
        places_note(p, &p->op[i]);
        p->op[i].choice = choose(a, &p->options, lib, &p->op[i]);
    }
}
