/* lua_host.h - the one place that owns embedded Lua.
 *
 * A state lives on an arena and is freed with it. Errors never return: a Lua error becomes a user
 * failure with the Lua position in its text. A C function called from Lua may `fail`: the failure
 * unwinds through Lua, after which the state can only be freed (its memory is tracked, so nothing
 * leaks). One that wants Lua to go on must catch its failures itself and raise a Lua error from
 * them.
 *
 * Lua text that ships with qcc is named by its path in the project ("compiler/arch/llama.lua"). It
 * is looked for in the directory `lua_path` first (DIR/compiler/arch/llama.lua), then among the
 * embedded files. */
#ifndef QCC_LUA_HOST_H
#define QCC_LUA_HOST_H
#include "util.h"
#include <lauxlib.h>
#include <lua.h>

/* LUA_DESCRIPTION: base, table, string and math without what reads files, runs text, or differs
 * from run to run. LUA_SCRIPT: all standard libraries but debug and package. Both have
 * include(PATH), which runs a shipped file once and returns what it returned. */
typedef enum { LUA_DESCRIPTION, LUA_SCRIPT } LuaKind;
lua_State *lua_host_open(Arena *a, LuaKind kind, const char *lua_path);

/* Pushes the chunk of a shipped file, or of text under a name for messages. */
void lua_host_load(lua_State *L, const char *path);
void lua_host_load_text(lua_State *L, Bytes text, const char *name);
/* Calls the function below n_arg arguments, as lua_call does. */
void lua_host_call(lua_State *L, int n_arg, int n_result);
/* Fails (user) with the position of the Lua code that called the running C function. */
_Noreturn void lua_host_fail(lua_State *L, const char *fmt, ...) QCC_PRINTF(2, 3);

/* A shipped file's text; p is NULL if there is none. */
Bytes lua_host_find(Arena *a, const char *lua_path, const char *path);
/* Sorted names NAME for which DIRECTORY/NAME.lua ships; directory without a trailing slash. */
const char **lua_host_list(Arena *a, const char *lua_path, const char *directory, size_t *n);
#endif
