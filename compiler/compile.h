/* compile.h - the pipeline: gguf -> model -> graph -> fuse -> plan -> spirv -> emit -> link +
 * pack. */
#ifndef QCC_COMPILE_H
#define QCC_COMPILE_H
#include "plan.h"

enum { DUMP_MODEL = 1, DUMP_GRAPH = 2, DUMP_STEPS = 4, DUMP_PLAN = 8, DUMP_KERNELS = 16 };

typedef struct {
    const char *model, *output; /* output may be NULL when only dumping */
    const char *target;         /* NULL = auto */
    uint32_t device;            /* for auto */
    PlanOptions plan;
    const char *weights; /* rules of weights.h, or NULL */
    const char *cc, *emit_dir;
    uint32_t dump;      /* DUMP_* bits, printed on stdout */
    uint32_t n_threads; /* 0 = one per core */
    int n_check; /* check tokens; -1 = as many as the reference evaluates in about a second */
    bool keep_symbols, no_cache;
} CompileOptions;

/* Compiles one model to one executable. */
void compile(Arena *a, const CompileOptions *o);
/* The pipeline up to the plan. */
CompiledPlan *compile_plan(Arena *a, const CompileOptions *o);
/* Sets an option by its command-line name (without dashes); value is NULL for flags. False: unknown
 * name. Bad values fail (usage). */
bool compile_option(Arena *a, CompileOptions *o, const char *name, const char *value);
/* Does the option take a value? */
bool compile_option_has_value(const char *name);
#endif
