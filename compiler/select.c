/* select.c - see select.h: every legal candidate for an operation, the cheapest first. */
#include "select_private.h"
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    KernelLibrary *l;
    const KernelOp *op;
    int constants; /* registry reference of the table c */
    KernelChoice *list;
    size_t n, cap;
    Text why;
} Search;

static void reject(Search *s, const char *what, const char *why) {
    text_printf(&s->why, "%s%s: %s", s->why.n ? "; " : "", what, why);
}

static bool file_legal(Search *s, const KernelFile *f) {
    const char *missing = need_missing(s->l, f);
    if (missing) return reject(s, f->name, missing), false;
    if (!header_call(s->l, f, "legal", s->constants, LUA_NOREF, 2)) return true;
    bool ok = lua_toboolean(s->l->lua, -2);
    if (!ok)
        reject(s, f->name,
               lua_isstring(s->l->lua, -1) ? lua_tostring(s->l->lua, -1) : "does not apply");
    lua_settop(s->l->lua, 0);
    return ok;
}

/* Bindings: the header's roles that are present, in its order. */
static bool roles_bind(Search *s, const KernelFile *f, KernelChoice *c) {
    uint32_t used = 0;
    if (header_get(s->l, f, "roles") != LUA_TTABLE)
        fail(FAIL_USER, "kernels/%s: the header names no roles", f->file);
    for (lua_Integer i = 1; lua_rawgeti(s->l->lua, -1, i) == LUA_TSTRING; i++) {
        const char *role = lua_tostring(s->l->lua, -1);
        for (uint32_t r = 0; r < s->op->n_roles; r++)
            if (strcmp(role, s->op->roles[r]) == 0)
                c->role[c->n_roles++].name = s->op->roles[r], used++;
        lua_pop(s->l->lua, 1);
    }
    lua_settop(s->l->lua, 0);
    bindings_number(s->l->target, s->op, c);
    if (used == s->op->n_roles) return true;
    reject(s, f->name, "does not take all of the roles");
    return false;
}

static double knob(const KernelChoice *c, const char *name, double absent) {
    for (uint32_t i = 0; i < c->n_knobs; i++)
        if (strcmp(c->knobs[i].name, name) == 0) return c->knobs[i].value;
    return absent;
}

static int knob_compare(const void *a, const void *b) {
    return strcmp(((const Constant *)a)->name, ((const Constant *)b)->name);
}

/* Adds the fields of the table on top of the stack to the knobs. */
static void knobs_read(Search *s, const KernelFile *f, KernelChoice *c) {
    lua_State *L = s->l->lua;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_isnumber(L, -1) || c->n_knobs == 16)
            fail(FAIL_USER, "kernels/%s: knobs must be at most 16 named numbers", f->file);
        c->knobs[c->n_knobs++] = (Constant){arena_strdup(s->l->arena, lua_tostring(L, -2)),
                                            lua_tonumber(L, -1), !lua_isinteger(L, -1)};
    }
    qsort(c->knobs, c->n_knobs, sizeof *c->knobs, knob_compare);
}

static uint32_t shared_of(Search *s, const KernelFile *f, int knobs) {
    if (!f || !header_call(s->l, f, "shared_bytes", s->constants, knobs, 1)) return 0;
    double v = lua_tonumber(s->l->lua, -1);
    lua_settop(s->l->lua, 0);
    return v < 0 ? 0 : v > 4e9 ? UINT32_MAX : (uint32_t)v;
}

/* Breaks no limit of the target? Says which otherwise. */
static const char *limit_broken(Search *s, KernelChoice *c) {
    const Target *t = s->l->target;
    Arena *a = s->l->arena;
    if (c->local > t->max_invocations || c->local > t->max_local[0])
        return arena_printf(a, "%u invocations, the target allows %u", c->local,
                            t->max_invocations);
    if (c->shared_bytes > t->shared_bytes)
        return arena_printf(a, "%u bytes of shared memory, the target has %u", c->shared_bytes,
                            t->shared_bytes);
    for (int i = 0; i < 3; i++)
        if (c->groups[i] == 0 || c->groups[i] > t->max_groups[i])
            return arena_printf(a, "%u workgroups in dimension %d, the target allows %u",
                                c->groups[i], i, t->max_groups[i]);
    if (c->n_bindings > t->max_storage_bindings)
        return arena_printf(a, "%u storage buffers, the target allows %u", c->n_bindings,
                            t->max_storage_bindings);
    uint32_t want = (uint32_t)knob(c, "SUBGROUP", 0);
    if (!want || (t->subgroup_min == t->subgroup_max && t->subgroup == want)) return NULL;
    if (!t->caps[CAP_SUBGROUP_SIZE_CONTROL] || want < t->subgroup_min || want > t->subgroup_max)
        return arena_printf(a, "subgroups of %u, the target has %u..%u%s", want, t->subgroup_min,
                            t->subgroup_max,
                            t->caps[CAP_SUBGROUP_SIZE_CONTROL] ? "" : " and cannot fix their size");
    c->subgroup = want;
    return NULL;
}

static void groups_of(Search *s, const KernelFile *f, int knobs, KernelChoice *c) {
    if (!header_call(s->l, f, "groups", s->constants, knobs, 3))
        fail(FAIL_USER, "kernels/%s: the header has no groups()", f->file);
    for (int i = 0; i < 3; i++) {
        double v = lua_isnil(s->l->lua, i + 1) ? 1 : lua_tonumber(s->l->lua, i + 1);
        c->groups[i] = v < 1 || v > 4e9 ? 0 : (uint32_t)v;
    }
    lua_settop(s->l->lua, 0);
}

static double speed_of(Search *s, const KernelFile *f, int knobs) {
    if (!f || !header_call(s->l, f, "speed", s->constants, knobs, 1)) return 1;
    double v = lua_tonumber(s->l->lua, -1);
    lua_settop(s->l->lua, 0);
    return v;
}

/* Time from bytes over bandwidth or operations over rate, whichever is larger, and a launch. The
 * headers of kernel and inner loop may state their speed against other kernels of the operation,
 * as a multiple of either rate: speed(t, c, k). No speed makes memory faster than it is, so that
 * the prediction is one thing and what ranks candidates another. Candidates of equal cost keep the
 * header's order. */
static void cost_of(Search *s, const KernelFile *f, const KernelFile *inner, int knobs,
                    uint32_t rank, KernelChoice *c) {
    const Target *t = s->l->target;
    double speed = speed_of(s, f, knobs) * speed_of(s, inner, knobs);
    if (!(speed > 1e-6)) speed = 1e-6;
    double memory = (double)s->op->bytes / ((t->read_gbps > 0 ? t->read_gbps : 10) * 1e3);
    double compute = s->op->flops / ((t->flops_gf > 0 ? t->flops_gf : 50) * 1e3) / speed;
    double most = fmax(memory / fmin(speed, 1), compute);
    c->bound = memory / fmin(speed, 1) >= compute ? "memory" : "compute";
    if (most < t->dispatch_us) c->bound = "launch";
    c->us = most + t->dispatch_us;
    c->cost = (fmax(memory / speed, compute) + t->dispatch_us) * (1 + 1e-3 * rank);
}

static void candidate_add(Search *s, const KernelFile *f, const KernelFile *inner, int knobs,
                          uint32_t rank, KernelChoice c) {
    c.file = f->name;
    c.inner = inner ? inner->name + strlen("inner/") : NULL;
    c.local = (uint32_t)knob(&c, "LOCAL", 0);
    if (c.local == 0) fail(FAIL_USER, "kernels/%s: a candidate has no LOCAL", f->file);
    c.shared_bytes = shared_of(s, f, knobs) + shared_of(s, inner, knobs) + format_shared(s->op);
    groups_of(s, f, knobs, &c);
    c.label = label_text(s->l->arena, s->op, &c);
    const char *broken = limit_broken(s, &c);
    if (broken) {
        reject(s, c.label, broken);
        return;
    }
    cost_of(s, f, inner, knobs, rank, &c);
    c.source = wrapper_text(s->l, s->op, f, inner, &c);
    s->list = arena_grow(s->l->arena, s->list, s->n, &s->cap, sizeof *s->list);
    s->list[s->n++] = c;
}

/* Leaves a registry reference to knob set `index` (1-based) of the kernel, merged with the inner
 * loop's own set; LUA_NOREF past the end. */
static int knobs_at(Search *s, const KernelFile *f, const KernelFile *inner, lua_Integer index,
                    KernelChoice *c) {
    lua_State *L = s->l->lua;
    if (!header_call(s->l, f, "knobs", s->constants, LUA_NOREF, 1))
        fail(FAIL_USER, "kernels/%s: the header has no knobs()", f->file);
    if (lua_rawgeti(L, -1, index) != LUA_TTABLE) {
        lua_settop(L, 0);
        return LUA_NOREF;
    }
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_settop(L, 0);
    if (inner && header_call(s->l, inner, "knobs", s->constants, LUA_NOREF, 1)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
        for (lua_pushnil(L); lua_next(L, 1);) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_settable(L, 2);
        }
        lua_settop(L, 0);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
    knobs_read(s, f, c);
    lua_settop(L, 0);
    return ref;
}

static void kernel_search(Search *s, const KernelFile *f, const KernelFile *inner) {
    KernelChoice base = {0};
    if (!file_legal(s, f) || (inner && !file_legal(s, inner)) || !roles_bind(s, f, &base)) return;
    base.needs = needs_of(s->l, f) | (inner ? needs_of(s->l, inner) : 0);
    for (lua_Integer i = 1;; i++) {
        KernelChoice c = base;
        int knobs = knobs_at(s, f, inner, i, &c);
        if (knobs == LUA_NOREF && i == 1)
            reject(s, f->name,
                   arena_printf(s->l->arena,
                                "nothing for %u invocations and %u bytes of shared memory",
                                s->l->target->max_invocations, s->l->target->shared_bytes));
        if (knobs == LUA_NOREF) return;
        candidate_add(s, f, inner, knobs, (uint32_t)i - 1, c);
        luaL_unref(s->l->lua, LUA_REGISTRYINDEX, knobs);
    }
}

static int choice_compare(const void *a, const void *b) {
    const KernelChoice *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return strcmp(x->label, y->label);
}

uint32_t select_candidates(KernelLibrary *l, const KernelOp *op, KernelChoice **out,
                           const char **why_not) {
    Search s = {.l = l, .op = op, .why = {.arena = l->arena}};
    s.constants = constants_push(l, op);
    shared_limit(l, op);
    for (uint32_t i = 0; i < l->n_kernel; i++) {
        const KernelFile *f = &l->kernel[i];
        bool match = header_get(l, f, "op") == LUA_TSTRING &&
                     strcmp(lua_tostring(l->lua, -1), op->op) == 0;
        lua_settop(l->lua, 0);
        if (!match) continue;
        bool has_inner = header_get(l, f, "inner") == LUA_TTABLE;
        lua_settop(l->lua, 0);
        if (!has_inner) kernel_search(&s, f, NULL);
        for (uint32_t k = 0; has_inner && k < l->n_inner; k++)
            if (header_list_has(l, f, "inner", l->inner[k].name + strlen("inner/")))
                kernel_search(&s, f, &l->inner[k]);
    }
    luaL_unref(l->lua, LUA_REGISTRYINDEX, s.constants);
    if (s.n > 1) qsort(s.list, s.n, sizeof *s.list, choice_compare);
    if (out) *out = s.list;
    if (why_not) *why_not = s.why.s ? s.why.s : "no kernel file implements it";
    return (uint32_t)s.n;
}

const KernelChoice *select_best(KernelLibrary *l, const KernelOp *op) {
    KernelChoice *list;
    const char *why;
    if (select_candidates(l, op, &list, &why) == 0)
        fail(FAIL_USER, "target '%s' cannot run operation '%s'%s%s: %s", l->target->name, op->op,
             op->format ? " with format " : "", op->format ? op->format->name : "", why);
    return &list[0];
}
