/* script.c - see script.h. */
#include "script.h"
#include "embed.h"
#include "lua_host.h"
#include <string.h>

typedef struct {
    Arena *arena;
    const CompileOptions *defaults;
} Script;

static Script *script_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

/* overrides = { ["blk.*.ffn_down"] = { NR = 2, inner = "f32" }, ... }, at the top of the stack. */
static void overrides_read(lua_State *L, Arena *a, CompileOptions *o) {
    Override *list = NULL;
    size_t n = 0, cap = 0;
    if (!lua_istable(L, -1)) luaL_error(L, "overrides must be a table of operation patterns");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1))
            luaL_error(L, "overrides: expected [\"pattern\"] = { KNOB = number, inner = \"name\", "
                          "kernel = \"name\" }");
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING) luaL_error(L, "overrides: a knob has a name");
            list = arena_grow(a, list, n, &cap, sizeof *list);
            list[n++] = (Override){arena_strdup(a, lua_tostring(L, -4)),
                                   arena_strdup(a, lua_tostring(L, -2)),
                                   lua_isnumber(L, -1) ? NULL
                                                       : arena_strdup(a, luaL_checkstring(L, -1)),
                                   lua_isnumber(L, -1) ? lua_tonumber(L, -1) : 0};
        }
    }
    o->plan.overrides = list;
    o->plan.n_overrides = (uint32_t)n;
}

/* Fields of the table at index 1 are option names with '-' or '_'. */
static void options_read(lua_State *L, Arena *a, CompileOptions *o) {
    luaL_checktype(L, 1, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "qcc.compile takes named fields: { model = \"...\", output = \"...\" }");
        char *name = arena_strdup(a, lua_tostring(L, -2));
        for (char *p = name; *p; p++)
            if (*p == '_') *p = '-';
        if (strcmp(name, "model") == 0) {
            o->model = arena_strdup(a, luaL_checkstring(L, -1));
        } else if (strcmp(name, "overrides") == 0) {
            overrides_read(L, a, o);
        } else {
            const char *value = lua_isboolean(L, -1) ? (lua_toboolean(L, -1) ? "" : NULL)
                                                     : arena_strdup(a, luaL_checkstring(L, -1));
            if (!value) continue; /* flag = false */
            if (!compile_option(a, o, name, value))
                luaL_error(L, "qcc.compile: unknown field '%s'", name);
        }
    }
    if (!o->model) luaL_error(L, "qcc.compile: field 'model' is missing");
}

/* Failures of qcc become Lua errors, which a script may catch with pcall. */
static int guarded(lua_State *L, void (*run)(lua_State *, Arena *, Script *)) {
    Arena *a = arena_create();
    FailTrap trap;
    if (fail_catch(&trap)) {
        arena_destroy(a);
        return luaL_error(L, "%s", trap.message);
    }
    run(L, a, script_of(L));
    fail_pop(&trap);
    arena_destroy(a);
    return 1;
}

static void run_compile(lua_State *L, Arena *a, Script *s) {
    CompileOptions o = *s->defaults;
    options_read(L, a, &o);
    if (!o.output && !o.dump && !o.emit_dir)
        fail(FAIL_USER, "qcc.compile: field 'output' is missing");
    compile(a, &o);
    lua_pushstring(L, o.output ? o.output : "");
}

static void run_explain(lua_State *L, Arena *a, Script *s) {
    CompileOptions o = *s->defaults;
    options_read(L, a, &o);
    Text out = {.arena = a};
    plan_explain(compile_plan(a, &o), &out);
    lua_pushlstring(L, out.s, out.n);
}

static void run_targets(lua_State *L, Arena *a, Script *s) {
    (void)s;
    static const char prefix[] = "compiler/target/profiles/";
    (void)a;
    lua_newtable(L);
    lua_Integer n = 0;
    for (const EmbeddedFile *e = embedded_files; e->path; e++) {
        if (strncmp(e->path, prefix, sizeof prefix - 1) != 0) continue;
        const char *name = e->path + sizeof prefix - 1;
        lua_pushlstring(L, name, strlen(name) - strlen(".json"));
        lua_rawseti(L, -2, ++n);
    }
}

static int script_compile(lua_State *L) { return guarded(L, run_compile); }
static int script_explain(lua_State *L) { return guarded(L, run_explain); }
static int script_targets(lua_State *L) { return guarded(L, run_targets); }

void script_run(Arena *a, const char *path, int n_args, char **args,
                const CompileOptions *defaults) {
    Script *s = ARENA_NEW(a, Script);
    *s = (Script){a, defaults};
    lua_State *L = lua_host_open(a, LUA_SCRIPT, defaults->plan.lua_path);
    static const luaL_Reg functions[] = {{"compile", script_compile},
                                         {"explain", script_explain},
                                         {"targets", script_targets},
                                         {NULL, NULL}};
    lua_newtable(L);
    lua_pushlightuserdata(L, s);
    luaL_setfuncs(L, functions, 1);
    lua_setglobal(L, "qcc");
    lua_newtable(L);
    lua_pushstring(L, path), lua_rawseti(L, -2, 0);
    for (int i = 0; i < n_args; i++) lua_pushstring(L, args[i]), lua_rawseti(L, -2, i + 1);
    lua_setglobal(L, "arg");
    lua_host_load_text(L, file_map(a, path), path);
    lua_host_call(L, 0, 0);
}
