/* select.h - which kernel does an operation on a target, and with which knobs.
 *
 * Kernels describe themselves in a Lua header (kernels/README.md): the operation, needs, knobs,
 * groups. `select_candidates` lists every legal combination of kernel file, inner loop and knobs
 * for an operation on a target; `select_best` takes the cheapest by the cost model. Nothing here
 * knows a kernel by name. */
#ifndef QCC_SELECT_H
#define QCC_SELECT_H
#include "format.h"
#include "reference.h"
#include "target/target.h"

typedef struct {
    const char *name;
    double value;
    bool is_float;
} Constant;

enum { KERNEL_MAX_ROLES = 12, KERNEL_MAX_CONSTANTS = 40 };
typedef enum { ACCURACY_EXACT, ACCURACY_FAST } Accuracy;

/* Where a role's bytes lie, if that is known before kernels are chosen; bytes 0: it is not. */
typedef struct {
    uint32_t zone;
    uint64_t offset, bytes;
} RolePlace;

/* An operation of kernels/README.md with its shapes baked. */
typedef struct {
    const char *op;
    const Format *format; /* of role w, or NULL */
    bool uses_kv;
    KvType kv;
    Accuracy accuracy;
    uint32_t n_constants, n_roles;
    Constant constants[KERNEL_MAX_CONSTANTS];
    const char *roles[KERNEL_MAX_ROLES]; /* present ones, any order */
    RolePlace place[KERNEL_MAX_ROLES];
    uint64_t bytes; /* read and written, for the cost model */
    double flops;
} KernelOp;
void kernel_op_uint(KernelOp *op, const char *name, uint64_t v);
void kernel_op_float(KernelOp *op, const char *name, double v);
/* What kernels know of a part: format, K, where its planes are, how many outliers a row has. */
void kernel_op_weights(KernelOp *op, const Format *f, uint32_t k,
                       const uint64_t plane[FORMAT_MAX_PLANES]);
void kernel_op_role(KernelOp *op, const char *role);

typedef struct {
    const char *file;  /* "matvec" */
    const char *inner; /* "f32", or NULL */
    uint32_t n_knobs;
    Constant knobs[16];
    uint32_t groups[3], local, shared_bytes;
    uint32_t subgroup; /* required size, or 0 */
    uint32_t needs;    /* capability words of kernel and inner loop, bit 1 << CAP_... each */
    uint32_t n_roles, n_bindings;
    struct {
        const char *name;
        uint32_t binding, at;
    } role[KERNEL_MAX_ROLES]; /* in the header's order; at: first byte */
    const char *source;       /* wrapper text for spirv_compile */
    const char *label;        /* "matvec/f32 q4_k LOCAL=256 LANES=32 NR=2" */
    double us;                /* predicted */
    double cost;              /* what ranks candidates of one operation, in us */
    const char *bound;        /* "memory", "compute", "launch" */
} KernelChoice;

/* Numbers the bindings of c's roles: one each, if the target has so many. Otherwise roles whose
 * bytes lie in one zone share a binding that covers them, those that lie closest first; `at` is a
 * role's place in it. c->n_bindings may stay above the limit. */
void bindings_number(const Target *t, const KernelOp *op, KernelChoice *c);

typedef struct KernelLibrary KernelLibrary;
/* Reads the headers of all embedded kernels (lua_path overrides, or NULL). */
KernelLibrary *select_open(Arena *a, const Target *t, const char *lua_path);
/* All legal choices, cheapest first; *why_not gets one line per rejected one. Returns how many. */
uint32_t select_candidates(KernelLibrary *l, const KernelOp *op, KernelChoice **out,
                           const char **why_not);
/* The cheapest; fails (user) with what was tried and which limit forbade each if there is none. */
const KernelChoice *select_best(KernelLibrary *l, const KernelOp *op);
/* Bytes of one layer's keys (or values), from the header of kernels/kv/NAME.glsl. */
uint64_t select_kv_bytes(KernelLibrary *l, KvType kv, uint32_t n_head_kv, uint32_t n_ctx,
                         uint32_t head_dim);
/* A number that the header of the operation's first kernel computes: name(c); 0 if it has no such
 * function. */
uint64_t select_number(KernelLibrary *l, const KernelOp *op, const char *name);
/* Is there a kernel file for the operation? */
bool select_has(KernelLibrary *l, const char *op);
#endif
