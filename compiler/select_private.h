/* select_private.h - what select.c (the search), select_library.c (kernel files and their headers)
 * and select_text.c (what is compiled) share. */
#ifndef QCC_SELECT_PRIVATE_H
#define QCC_SELECT_PRIVATE_H
#include "select.h"
#include <lua.h>

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

/* Kernel headers are Lua chunks; each has an environment of its own. */
_Noreturn void header_fail(KernelLibrary *l, const KernelFile *f);
/* Pushes field `name` of a file's header; returns its type. */
int header_get(KernelLibrary *l, const KernelFile *f, const char *name);
bool header_list_has(KernelLibrary *l, const KernelFile *f, const char *name, const char *word);
/* Calls header function name(t, c, k) with n_out results left on the stack; false if there is
 * none. `constants` and `knobs` are registry references of tables; knobs may be LUA_NOREF. */
bool header_call(KernelLibrary *l, const KernelFile *f, const char *name, int constants, int knobs,
                 int n_out);
/* Names the first need of the file that the target lacks, or NULL. */
const char *need_missing(KernelLibrary *l, const KernelFile *f);
uint32_t needs_of(KernelLibrary *l, const KernelFile *f); /* bits, by capability */
/* Headers see the shared memory that a format's codebook leaves. */
void shared_limit(KernelLibrary *l, const KernelOp *op);
/* The table c of an operation, as a registry reference. */
int constants_push(KernelLibrary *l, const KernelOp *op);

uint32_t format_shared(const KernelOp *op); /* bytes of the format's codebook */
const char *kv_name(KvType t);
const char *wrapper_text(const KernelLibrary *l, const KernelOp *op, const KernelFile *f,
                         const KernelFile *inner, const KernelChoice *c);
const char *label_text(Arena *a, const KernelOp *op, const KernelChoice *c);
#endif
