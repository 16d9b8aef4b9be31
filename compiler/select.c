/* select.c - see select.h. Kernel headers are Lua chunks; each gets an environment of its own. */
#include "select.h"
#include "embed.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kernel_op_uint(KernelOp *op, const char *name, uint64_t v) {
    ASSERT(op->n_constants < KERNEL_MAX_CONSTANTS && v <= UINT32_MAX);
    op->constants[op->n_constants++] = (Constant){name, (double)v, false};
}
void kernel_op_float(KernelOp *op, const char *name, double v) {
    ASSERT(op->n_constants < KERNEL_MAX_CONSTANTS);
    op->constants[op->n_constants++] = (Constant){name, v, true};
}
void kernel_op_weights(KernelOp *op, const Format *f, uint32_t k,
                       const uint64_t plane[FORMAT_MAX_PLANES]) {
    static const char *const name[FORMAT_MAX_PLANES] = {"PLANE0", "PLANE1", "PLANE2", "PLANE3"};
    op->format = f;
    kernel_op_uint(op, "K", k);
    for (uint32_t p = 0; p < FORMAT_MAX_PLANES; p++)
        kernel_op_uint(op, name[p], p < f->n_planes ? plane[p] : 0);
    if (f->columns) kernel_op_uint(op, "COLUMNS_AT", plane[f->n_planes - 1]);
    if (format_outliers(f, k) == 0) return;
    kernel_op_uint(op, "OUTLIERS", format_outliers(f, k));
    kernel_op_uint(op, "OUTLIERS_AT", plane[f->n_planes - 1]);
}
void kernel_op_role(KernelOp *op, const char *role) {
    ASSERT(op->n_roles < KERNEL_MAX_ROLES);
    op->roles[op->n_roles++] = role;
}

/* ---- library: every kernel file, with its header evaluated ----------------------------------- */

typedef struct {
    const char *name; /* "matvec", "inner/f32" */
    const char *file; /* "matvec.comp" */
    int env;          /* reference of the header's environment in Lua's registry */
} KernelFile;

struct KernelLibrary {
    Arena *arena;
    const Target *target;
    lua_State *lua;
    int target_table; /* registry reference */
    uint32_t n_kernel, n_inner, n_kv;
    KernelFile *kernel, *inner, *kv;
};

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

static void header_fail(KernelLibrary *l, const KernelFile *f) {
    fail(FAIL_USER, "kernels/%s: the header does not run: %s", f->file, lua_tostring(l->lua, -1));
}

/* Evaluates the header in a fresh environment that falls back to the standard functions. */
static void header_read(KernelLibrary *l, KernelFile *f, const char *text, size_t n) {
    const char *open = "/*qcc", *s = text, *end = text + n;
    lua_State *L = l->lua;
    lua_newtable(L);
    lua_newtable(L);
    lua_pushglobaltable(L);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    if (n > strlen(open) && (s = strstr(text, open)) != NULL) {
        s += strlen(open);
        const char *close = strstr(s, "*/");
        if (!close || close > end)
            fail(FAIL_USER, "kernels/%s: the header comment is not closed", f->file);
        if (luaL_loadbuffer(L, s, (size_t)(close - s), f->file) != LUA_OK) header_fail(l, f);
        lua_pushvalue(L, -2);
        lua_setupvalue(L, -2, 1);
        if (lua_pcall(L, 0, 0, 0) != LUA_OK) header_fail(l, f);
    }
    f->env = luaL_ref(L, LUA_REGISTRYINDEX);
}

static void library_add(KernelLibrary *l, const char *path, const char *dir) {
    const char *file = path + strlen("kernels/");
    bool inner = strncmp(file, "inner/", 6) == 0 && ends_with(file, ".glsl");
    bool kv = strncmp(file, "kv/", 3) == 0 && ends_with(file, ".glsl");
    if (!inner && !kv && (strchr(file, '/') || !ends_with(file, ".comp"))) return;
    Bytes b = embedded_find(path);
    if (dir) {
        const char *own = arena_printf(l->arena, "%s/%s", dir, path);
        FILE *f = fopen(own, "rb");
        if (f) fclose(f), b = file_map(l->arena, own);
    }
    const char *text = arena_strndup(l->arena, (const char *)b.p, b.n);
    const char *dot = strrchr(file, '.');
    KernelFile f = {arena_strndup(l->arena, file, (size_t)(dot - file)),
                    arena_strdup(l->arena, file), 0};
    header_read(l, &f, text, b.n);
    if (inner) l->inner[l->n_inner++] = f;
    else if (kv) l->kv[l->n_kv++] = f;
    else l->kernel[l->n_kernel++] = f;
}

static void set_number(lua_State *L, const char *k, double v) {
    if (v == (double)(lua_Integer)v) lua_pushinteger(L, (lua_Integer)v);
    else lua_pushnumber(L, v);
    lua_setfield(L, -2, k);
}

static void set_triple(lua_State *L, const char *k, const uint32_t v[3]) {
    lua_newtable(L);
    for (int i = 0; i < 3; i++) lua_pushinteger(L, v[i]), lua_rawseti(L, -2, i + 1);
    lua_setfield(L, -2, k);
}

static void target_push(lua_State *L, const Target *t) {
    lua_newtable(L);
    lua_pushstring(L, t->device_name), lua_setfield(L, -2, "device_name");
    set_number(L, "max_storage_range", (double)t->max_storage_range);
    set_number(L, "max_storage_bindings", t->max_storage_bindings);
    set_number(L, "max_invocations", t->max_invocations);
    set_number(L, "shared_bytes", t->shared_bytes);
    set_number(L, "subgroup", t->subgroup);
    set_number(L, "subgroup_min", t->subgroup_min);
    set_number(L, "subgroup_max", t->subgroup_max);
    set_number(L, "n_units", t->n_units);
    set_number(L, "read_gbps", t->read_gbps);
    set_triple(L, "max_groups", t->max_groups);
    set_triple(L, "max_local", t->max_local);
    lua_newtable(L);
    for (int i = 0; i < N_CAP; i++)
        lua_pushboolean(L, t->caps[i]), lua_setfield(L, -2, capability_names[i]);
    lua_setfield(L, -2, "caps");
}

static void library_release(void *p) { lua_close(((KernelLibrary *)p)->lua); }

KernelLibrary *select_open(Arena *a, const Target *t, const char *lua_path) {
    KernelLibrary *l = ARENA_NEW(a, KernelLibrary);
    *l = (KernelLibrary){.arena = a, .target = t, .lua = luaL_newstate()};
    if (!l->lua) fail(FAIL_ENVIRONMENT, "out of memory");
    arena_defer(a, library_release, l);
    luaL_requiref(l->lua, "_G", luaopen_base, 1);
    luaL_requiref(l->lua, "math", luaopen_math, 1);
    luaL_requiref(l->lua, "string", luaopen_string, 1);
    luaL_requiref(l->lua, "table", luaopen_table, 1);
    lua_settop(l->lua, 0);
    target_push(l->lua, t);
    l->target_table = luaL_ref(l->lua, LUA_REGISTRYINDEX);
    size_t n = 0;
    for (const EmbeddedFile *e = embedded_files; e->path; e++) n++;
    l->kernel = ARENA_ARRAY(a, KernelFile, n);
    l->inner = ARENA_ARRAY(a, KernelFile, n);
    l->kv = ARENA_ARRAY(a, KernelFile, n);
    for (const EmbeddedFile *e = embedded_files; e->path; e++)
        if (strncmp(e->path, "kernels/", 8) == 0) library_add(l, e->path, lua_path);
    return l;
}

/* ---- one operation --------------------------------------------------------------------------- */

typedef struct {
    KernelLibrary *l;
    const KernelOp *op;
    int constants; /* registry reference of the table c */
    KernelChoice *list;
    size_t n, cap;
    Text why;
} Search;

static uint32_t format_shared(const KernelOp *op) {
    return op->format ? op->format->shared_bytes : 0;
}

/* Headers see the shared memory that a format's codebook leaves. */
static void shared_limit(KernelLibrary *l, const KernelOp *op) {
    uint32_t all = l->target->shared_bytes, codebook = format_shared(op);
    lua_rawgeti(l->lua, LUA_REGISTRYINDEX, l->target_table);
    set_number(l->lua, "shared_bytes", codebook < all ? all - codebook : 0);
    lua_pop(l->lua, 1);
}

/* Pushes field `name` of a file's header; returns its type. */
static int header_get(KernelLibrary *l, const KernelFile *f, const char *name) {
    lua_rawgeti(l->lua, LUA_REGISTRYINDEX, f->env);
    lua_pushstring(l->lua, name);
    lua_rawget(l->lua, -2);
    lua_remove(l->lua, -2);
    return lua_type(l->lua, -1);
}

static bool header_list_has(KernelLibrary *l, const KernelFile *f, const char *name,
                            const char *word) {
    bool found = false;
    if (header_get(l, f, name) == LUA_TTABLE)
        for (lua_Integer i = 1; !found && lua_rawgeti(l->lua, -1, i) == LUA_TSTRING; i++) {
            found = strcmp(lua_tostring(l->lua, -1), word) == 0;
            lua_pop(l->lua, 1);
        }
    lua_settop(l->lua, 0);
    return found;
}

/* Calls header function name(t, c, k) with n_out results left on the stack; false if there is
 * none. */
static bool header_call(Search *s, const KernelFile *f, const char *name, int knobs, int n_out) {
    lua_State *L = s->l->lua;
    if (header_get(s->l, f, name) != LUA_TFUNCTION) {
        lua_settop(L, 0);
        return false;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->l->target_table);
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->constants);
    if (knobs != LUA_NOREF) lua_rawgeti(L, LUA_REGISTRYINDEX, knobs);
    else lua_newtable(L);
    if (lua_pcall(L, 3, n_out, 0) != LUA_OK) header_fail(s->l, f);
    return true;
}

static void reject(Search *s, const char *what, const char *why) {
    text_printf(&s->why, "%s%s: %s", s->why.n ? "; " : "", what, why);
}

/* Names the first need of the file that the target lacks, or NULL. */
static const char *need_missing(KernelLibrary *l, const KernelFile *f) {
    const char *missing = NULL;
    if (header_get(l, f, "needs") == LUA_TTABLE)
        for (lua_Integer i = 1; !missing && lua_rawgeti(l->lua, -1, i) == LUA_TSTRING; i++) {
            const char *word = lua_tostring(l->lua, -1);
            int c = 0;
            while (c < N_CAP && strcmp(word, capability_names[c])) c++;
            if (c == N_CAP)
                fail(FAIL_USER, "kernels/%s: unknown capability word '%s' in needs", f->file, word);
            if (!l->target->caps[c])
                missing = arena_printf(l->arena, "needs %s (%s)", word,
                                       l->target->missing[c] ? l->target->missing[c]
                                                             : "switched off");
            lua_pop(l->lua, 1);
        }
    lua_settop(l->lua, 0);
    return missing;
}

static uint32_t needs_of(KernelLibrary *l, const KernelFile *f) {
    uint32_t bits = 0;
    for (int c = 0; c < N_CAP; c++)
        if (header_list_has(l, f, "needs", capability_names[c])) bits |= 1u << c;
    return bits;
}

static bool file_legal(Search *s, const KernelFile *f) {
    const char *missing = need_missing(s->l, f);
    if (missing) return reject(s, f->name, missing), false;
    if (!header_call(s, f, "legal", LUA_NOREF, 2)) return true;
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
    if (!f || !header_call(s, f, "shared_bytes", knobs, 1)) return 0;
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
    if (!header_call(s, f, "groups", knobs, 3))
        fail(FAIL_USER, "kernels/%s: the header has no groups()", f->file);
    for (int i = 0; i < 3; i++) {
        double v = lua_isnil(s->l->lua, i + 1) ? 1 : lua_tonumber(s->l->lua, i + 1);
        c->groups[i] = v < 1 || v > 4e9 ? 0 : (uint32_t)v;
    }
    lua_settop(s->l->lua, 0);
}

static double speed_of(Search *s, const KernelFile *f, int knobs) {
    if (!f || !header_call(s, f, "speed", knobs, 1)) return 1;
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

/* ---- wrapper text ---------------------------------------------------------------------------- */

static int constant_print(Arena *a, Text *out, const Constant *c) {
    if (c->is_float) {
        char *s = arena_printf(a, "%.9g", c->value);
        text_printf(out, "#define %s %s%s\n", c->name, s, strpbrk(s, ".en") ? "" : ".0");
    } else {
        text_printf(out, "#define %s %uu\n", c->name, (uint32_t)c->value);
    }
    return 0;
}

static const char *kv_name(KvType t) { return t == KV_F16 ? "f16" : t == KV_F32 ? "f32" : "q8_0"; }

static const char *wrapper_text(Search *s, const KernelFile *f, const KernelFile *inner,
                                const KernelChoice *c) {
    Arena *a = s->l->arena;
    Text out = {.arena = a};
    text_printf(&out, "#version 450\n");
    for (uint32_t i = 0; i < s->op->n_constants; i++) constant_print(a, &out, &s->op->constants[i]);
    for (uint32_t i = 0; i < c->n_knobs; i++) constant_print(a, &out, &c->knobs[i]);
    for (uint32_t i = 0; i < c->n_roles; i++)
        text_printf(&out, "#define BIND_%s %u\n#define AT_%s %u\n", c->role[i].name,
                    c->role[i].binding, c->role[i].name, c->role[i].at);
    for (int i = 0; i < N_CAP; i++) {
        text_printf(&out, "#define HAS_");
        for (const char *p = capability_names[i]; *p; p++)
            text_printf(&out, "%c", *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
        text_printf(&out, " %d\n", s->l->target->caps[i]);
    }
    if (s->op->format) text_printf(&out, "#include \"formats/%s.h\"\n", s->op->format->name);
    if (s->op->uses_kv) text_printf(&out, "#include \"kv/%s.glsl\"\n", kv_name(s->op->kv));
    if (inner) text_printf(&out, "#include \"%s\"\n", inner->file);
    uint32_t codebook = format_shared(s->op);
    if (codebook) text_printf(&out, "#define main kernel_main\n");
    text_printf(&out, "#include \"%s\"\n", f->file);
    if (codebook)
        text_printf(&out,
                    "#undef main\nvoid main() {\n    fmt_prepare(gl_LocalInvocationIndex, LOCAL);\n"
                    "    barrier();\n    kernel_main();\n}\n");
    return out.s;
}

static const char *label_text(Search *s, const KernelChoice *c) {
    Text out = {.arena = s->l->arena};
    text_printf(&out, "%s%s%s", c->file, c->inner ? "/" : "", c->inner ? c->inner : "");
    if (s->op->format) text_printf(&out, " %s", s->op->format->name);
    for (uint32_t i = 0; i < c->n_knobs; i++)
        text_printf(&out, " %s=%g", c->knobs[i].name, c->knobs[i].value);
    return out.s;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void candidate_add(Search *s, const KernelFile *f, const KernelFile *inner, int knobs,
                          uint32_t rank, KernelChoice c) {
    c.file = f->name;
    c.inner = inner ? inner->name + strlen("inner/") : NULL;
    c.local = (uint32_t)knob(&c, "LOCAL", 0);
    if (c.local == 0) fail(FAIL_USER, "kernels/%s: a candidate has no LOCAL", f->file);
    c.shared_bytes = shared_of(s, f, knobs) + shared_of(s, inner, knobs) + format_shared(s->op);
    groups_of(s, f, knobs, &c);
    c.label = label_text(s, &c);
    const char *broken = limit_broken(s, &c);
    if (broken) {
        reject(s, c.label, broken);
        return;
    }
    cost_of(s, f, inner, knobs, rank, &c);
    c.source = wrapper_text(s, f, inner, &c);
    s->list = arena_grow(s->l->arena, s->list, s->n, &s->cap, sizeof *s->list);
    s->list[s->n++] = c;
}

/* Leaves a registry reference to knob set `index` (1-based) of the kernel, merged with the inner
 * loop's own set; LUA_NOREF past the end. */
static int knobs_at(Search *s, const KernelFile *f, const KernelFile *inner, lua_Integer index,
                    KernelChoice *c) {
    lua_State *L = s->l->lua;
    if (!header_call(s, f, "knobs", LUA_NOREF, 1))
        fail(FAIL_USER, "kernels/%s: the header has no knobs()", f->file);
    if (lua_rawgeti(L, -1, index) != LUA_TTABLE) {
        lua_settop(L, 0);
        return LUA_NOREF;
    }
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_settop(L, 0);
    if (inner && header_call(s, inner, "knobs", LUA_NOREF, 1)) {
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

static int constants_push(KernelLibrary *l, const KernelOp *op) {
    lua_State *L = l->lua;
    lua_newtable(L);
    for (uint32_t i = 0; i < op->n_constants; i++)
        set_number(L, op->constants[i].name, op->constants[i].value);
    set_number(L, "FAST", op->accuracy == ACCURACY_FAST);
    if (op->format) {
        lua_pushstring(L, op->format->name), lua_setfield(L, -2, "FORMAT");
        set_number(L, "FORMAT_CODES", op->format->codes);
    }
    if (op->uses_kv) lua_pushstring(L, kv_name(op->kv)), lua_setfield(L, -2, "KV");
    lua_newtable(L);
    for (uint32_t i = 0; i < op->n_roles; i++)
        lua_pushboolean(L, 1), lua_setfield(L, -2, op->roles[i]);
    lua_setfield(L, -2, "roles");
    return luaL_ref(L, LUA_REGISTRYINDEX);
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

/* ---- numbers that headers compute ------------------------------------------------------------ */

static const KernelFile *kernel_of(KernelLibrary *l, const char *op) {
    for (uint32_t i = 0; i < l->n_kernel; i++) {
        bool match = header_get(l, &l->kernel[i], "op") == LUA_TSTRING &&
                     strcmp(lua_tostring(l->lua, -1), op) == 0;
        lua_settop(l->lua, 0);
        if (match) return &l->kernel[i];
    }
    return NULL;
}

bool select_has(KernelLibrary *l, const char *op) { return kernel_of(l, op) != NULL; }

uint64_t select_number(KernelLibrary *l, const KernelOp *op, const char *name) {
    const KernelFile *f = kernel_of(l, op->op);
    if (!f || header_get(l, f, name) != LUA_TFUNCTION) {
        lua_settop(l->lua, 0);
        return 0;
    }
    shared_limit(l, op);
    int c = constants_push(l, op);
    lua_rawgeti(l->lua, LUA_REGISTRYINDEX, c);
    if (lua_pcall(l->lua, 1, 1, 0) != LUA_OK) header_fail(l, f);
    double v = lua_tonumber(l->lua, -1);
    lua_settop(l->lua, 0);
    luaL_unref(l->lua, LUA_REGISTRYINDEX, c);
    return v > 0 ? (uint64_t)v : 0;
}

uint64_t select_kv_bytes(KernelLibrary *l, KvType kv, uint32_t n_head_kv, uint32_t n_ctx,
                         uint32_t head_dim) {
    for (uint32_t i = 0; i < l->n_kv; i++) {
        const KernelFile *f = &l->kv[i];
        if (strcmp(f->name + strlen("kv/"), kv_name(kv)) != 0) continue;
        if (header_get(l, f, "bytes") != LUA_TFUNCTION) break;
        lua_pushinteger(l->lua, n_head_kv), lua_pushinteger(l->lua, n_ctx),
            lua_pushinteger(l->lua, head_dim);
        if (lua_pcall(l->lua, 3, 1, 0) != LUA_OK) header_fail(l, f);
        double v = lua_tonumber(l->lua, -1);
        lua_settop(l->lua, 0);
        if (v > 0) return (uint64_t)v;
        fail(FAIL_USER, "--kv %s does not fit heads of %u elements", kv_name(kv), head_dim);
    }
    fail(FAIL_USER, "kernels/kv/%s.glsl: the header has no bytes(nkv, ctx, hd)", kv_name(kv));
}
