/* select_library.c - every kernel file, with its header evaluated: see select.h. */
#include "embed.h"
#include "select_private.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

void header_fail(KernelLibrary *l, const KernelFile *f) {
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

/* The size of subgroups, where it is known and sums over parts of one are possible; else 0. */
static uint32_t fixed_subgroup(const Target *t) {
    bool known = t->caps[CAP_SUBGROUP_SIZE_CONTROL] || t->subgroup_min == t->subgroup_max;
    bool parts = t->caps[CAP_SUBGROUP_CLUSTERED] || t->caps[CAP_SUBGROUP_SHUFFLE];
    return t->caps[CAP_SUBGROUP_ARITHMETIC] && known && parts ? t->subgroup : 0;
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
    if (fixed_subgroup(t)) set_number(L, "fixed_subgroup", fixed_subgroup(t));
    set_number(L, "n_units", t->n_units);
    set_number(L, "read_gbps", t->read_gbps);
    set_number(L, "flops_gf", t->flops_gf > 0 ? t->flops_gf : 50);
    set_number(L, "idot_gops", t->idot_gops);
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

/* ---- headers --------------------------------------------------------------------------------- */

void shared_limit(KernelLibrary *l, const KernelOp *op) {
    uint32_t all = l->target->shared_bytes, codebook = format_shared(op);
    lua_rawgeti(l->lua, LUA_REGISTRYINDEX, l->target_table);
    set_number(l->lua, "shared_bytes", codebook < all ? all - codebook : 0);
    lua_pop(l->lua, 1);
}

int header_get(KernelLibrary *l, const KernelFile *f, const char *name) {
    lua_rawgeti(l->lua, LUA_REGISTRYINDEX, f->env);
    lua_pushstring(l->lua, name);
    lua_rawget(l->lua, -2);
    lua_remove(l->lua, -2);
    return lua_type(l->lua, -1);
}

bool header_list_has(KernelLibrary *l, const KernelFile *f, const char *name, const char *word) {
    bool found = false;
    if (header_get(l, f, name) == LUA_TTABLE)
        for (lua_Integer i = 1; !found && lua_rawgeti(l->lua, -1, i) == LUA_TSTRING; i++) {
            found = strcmp(lua_tostring(l->lua, -1), word) == 0;
            lua_pop(l->lua, 1);
        }
    lua_settop(l->lua, 0);
    return found;
}

bool header_call(KernelLibrary *l, const KernelFile *f, const char *name, int constants, int knobs,
                 int n_out) {
    lua_State *L = l->lua;
    if (header_get(l, f, name) != LUA_TFUNCTION) {
        lua_settop(L, 0);
        return false;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, l->target_table);
    lua_rawgeti(L, LUA_REGISTRYINDEX, constants);
    if (knobs != LUA_NOREF) lua_rawgeti(L, LUA_REGISTRYINDEX, knobs);
    else lua_newtable(L);
    if (lua_pcall(L, 3, n_out, 0) != LUA_OK) header_fail(l, f);
    return true;
}

const char *need_missing(KernelLibrary *l, const KernelFile *f) {
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

uint32_t needs_of(KernelLibrary *l, const KernelFile *f) {
    uint32_t bits = 0;
    for (int c = 0; c < N_CAP; c++)
        if (header_list_has(l, f, "needs", capability_names[c])) bits |= 1u << c;
    return bits;
}

int constants_push(KernelLibrary *l, const KernelOp *op) {
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
