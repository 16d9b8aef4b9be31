/* emit.h - the plan as readable C, and the manifest that goes with it. */
#ifndef QCC_EMIT_H
#define QCC_EMIT_H
#include "plan.h"

extern const char qcc_version[];

/* JSON text that describes the artifact: what `OUT info --json` prints. Deterministic. */
char *emit_manifest(Arena *a, const CompiledPlan *p, uint64_t gguf_hash, uint32_t n_check_tokens);
/* templates/model.c filled with the plan. */
char *emit_c(Arena *a, const CompiledPlan *p, const char *manifest);
#endif
