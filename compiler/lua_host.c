/* lua_host.c - Lua states with tracked memory, and where their text comes from. */
#include "lua_host.h"
#include "embed.h"
#include <dirent.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every allocation of a state is in a ring, so that a state that a failure unwound through can be
 * freed. */
typedef struct Block {
    struct Block *prev, *next;
} Block;
_Static_assert(sizeof(Block) % 16 == 0, "memory behind a block header stays aligned");

typedef struct {
    Block ring;
    Arena *arena;
    const char *lua_path;
    lua_State *state;
    int n_running; /* calls in progress: not 0 after an unwinding */
} Host;

static Host *host_of(lua_State *L) { return *(Host **)lua_getextraspace(L); }

static void block_unlink(Block *b) {
    b->prev->next = b->next;
    b->next->prev = b->prev;
}

static void block_link(Block *ring, Block *b) {
    b->prev = ring;
    b->next = ring->next;
    ring->next->prev = b;
    ring->next = b;
}

static void *host_alloc(void *arg, void *p, size_t old_bytes, size_t bytes) {
    Host *h = arg;
    (void)old_bytes;
    Block *b = p ? (Block *)p - 1 : NULL;
    if (b) block_unlink(b);
    if (bytes == 0) return free(b), NULL;
    Block *grown = bytes > SIZE_MAX - sizeof(Block) ? NULL : realloc(b, sizeof(Block) + bytes);
    if (!grown) {
        if (b) block_link(&h->ring, b);
        fail(FAIL_ENVIRONMENT, "out of memory in Lua (%zu bytes)", bytes);
    }
    block_link(&h->ring, grown);
    return grown + 1;
}

static void host_release(void *arg) {
    Host *h = arg;
    if (h->state && h->n_running == 0) lua_close(h->state);
    while (h->ring.next != &h->ring) {
        Block *b = h->ring.next;
        block_unlink(b);
        free(b);
    }
}

static const char *error_text(lua_State *L) {
    const char *s = lua_tostring(L, -1);
    return s ? s : "error object is not a string";
}

static int host_panic(lua_State *L) { fail(FAIL_ENVIRONMENT, "Lua: %s", error_text(L)); }

/* include(PATH): the file's value; kept in the registry's table "qcc.included". */
static int host_include(lua_State *L) {
    const char *path = lua_tostring(L, 1);
    if (!path) lua_host_fail(L, "include: expected a path, found %s", luaL_typename(L, 1));
    lua_settop(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "qcc.included");
    if (lua_getfield(L, 2, path) != LUA_TNIL) return 1;
    lua_host_load(L, path);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, path);
    return 1;
}

static void forget(lua_State *L, const char *table, const char *name) {
    lua_getglobal(L, table);
    lua_pushnil(L);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

static void open_libraries(lua_State *L, LuaKind kind) {
    static const luaL_Reg common[] = {{LUA_GNAME, luaopen_base},
                                      {LUA_TABLIBNAME, luaopen_table},
                                      {LUA_STRLIBNAME, luaopen_string},
                                      {LUA_MATHLIBNAME, luaopen_math}};
    static const luaL_Reg script[] = {{LUA_IOLIBNAME, luaopen_io},
                                      {LUA_OSLIBNAME, luaopen_os},
                                      {LUA_UTF8LIBNAME, luaopen_utf8},
                                      {LUA_COLIBNAME, luaopen_coroutine}};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        luaL_requiref(L, common[i].name, common[i].func, 1), lua_pop(L, 1);
    if (kind == LUA_SCRIPT) {
        for (size_t i = 0; i < sizeof script / sizeof *script; i++)
            luaL_requiref(L, script[i].name, script[i].func, 1), lua_pop(L, 1);
        return;
    }
    static const char *const base[] = {"dofile", "loadfile", "load", "print", "collectgarbage"};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) forget(L, LUA_GNAME, base[i]);
    forget(L, LUA_STRLIBNAME, "dump");
    forget(L, LUA_MATHLIBNAME, "random");
    forget(L, LUA_MATHLIBNAME, "randomseed");
}

lua_State *lua_host_open(Arena *a, LuaKind kind, const char *lua_path) {
    Host *h = ARENA_NEW(a, Host);
    h->ring.prev = h->ring.next = &h->ring;
    h->arena = a;
    h->lua_path = lua_path;
    arena_defer(a, host_release, h);
    h->n_running++; /* until the state is whole */
    h->state = lua_newstate(host_alloc, h);
    lua_State *L = h->state;
    if (!L) fail(FAIL_ENVIRONMENT, "out of memory in Lua");
    *(Host **)lua_getextraspace(L) = h;
    lua_atpanic(L, host_panic);
    open_libraries(L, kind);
    lua_register(L, "include", host_include);
    h->n_running--;
    return L;
}

void lua_host_load_text(lua_State *L, Bytes text, const char *name) {
    const char *chunk = lua_pushfstring(L, "@%s", name);
    /* A view of mapped memory may have no terminator; Lua takes the length. */
    if (luaL_loadbufferx(L, text.n ? (const char *)text.p : "", text.n, chunk, "t") != LUA_OK)
        fail(FAIL_USER, "%s", error_text(L));
    lua_remove(L, -2);
}

void lua_host_load(lua_State *L, const char *path) {
    Host *h = host_of(L);
    Bytes text = lua_host_find(h->arena, h->lua_path, path);
    if (!text.p) fail(FAIL_USER, "%s: no such file among those that qcc ships", path);
    lua_host_load_text(L, text, path);
}

void lua_host_call(lua_State *L, int n_arg, int n_result) {
    Host *h = host_of(L);
    h->n_running++;
    int status = lua_pcall(L, n_arg, n_result, 0);
    h->n_running--;
    if (status == LUA_ERRMEM) fail(FAIL_ENVIRONMENT, "Lua: %s", error_text(L));
    if (status != LUA_OK) fail(FAIL_USER, "%s", error_text(L));
}

void lua_host_fail(lua_State *L, const char *fmt, ...) {
    char message[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    luaL_where(L, 1);
    fail(FAIL_USER, "%s%s", lua_tostring(L, -1), message);
}

Bytes lua_host_find(Arena *a, const char *lua_path, const char *path) {
    if (lua_path) {
        const char *file = arena_printf(a, "%s/%s", lua_path, path);
        if (access(file, R_OK) == 0) {
            Bytes text = file_map(a, file);
            return text.p ? text : (Bytes){(const uint8_t *)"", 0};
        }
    }
    return embedded_find(path);
}

typedef struct {
    const char **name;
    size_t n, cap;
} Names;

/* Adds NAME of "NAME.lua"; other files and those in deeper directories are passed over. */
static void names_add(Arena *a, Names *names, const char *file) {
    size_t n = strlen(file);
    if (n <= 4 || strcmp(file + n - 4, ".lua") != 0 || strchr(file, '/')) return;
    char *name = arena_strndup(a, file, n - 4);
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->name[i], name) == 0) return;
    names->name = arena_grow(a, names->name, names->n, &names->cap, sizeof *names->name);
    names->name[names->n++] = name;
}

static int compare_names(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

const char **lua_host_list(Arena *a, const char *lua_path, const char *directory, size_t *n) {
    Names names = {0};
    size_t n_prefix = strlen(directory);
    for (const EmbeddedFile *f = embedded_files; f->path; f++)
        if (strncmp(f->path, directory, n_prefix) == 0 && f->path[n_prefix] == '/')
            names_add(a, &names, f->path + n_prefix + 1);
    DIR *d = lua_path ? opendir(arena_printf(a, "%s/%s", lua_path, directory)) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) names_add(a, &names, e->d_name);
    if (d) closedir(d);
    if (names.n) qsort(names.name, names.n, sizeof *names.name, compare_names);
    *n = names.n;
    return names.name;
}
