/* plan.h - everything decided: operations with kernels, buffers with places, order, barriers,
 * submissions.
 *
 * Stages: lower (steps -> operations on buffers, per batch size) -> memory (places) -> choose
 * (kernels) -> schedule (barriers, splits, sequences). `plan_make` runs them; `plan_verify` checks
 * the result against the target on its own terms. */
#ifndef QCC_COMPILER_PLAN_H
#define QCC_COMPILER_PLAN_H
#include "../runtime/plan.h"
#include "fuse.h"
#include "select.h"
#include "spirv.h"

/* A wish of the user: operations whose name matches `pattern` (* stands for any text) take a kernel
 * with this knob, inner loop (key "inner") or file (key "kernel"). */
typedef struct {
    const char *pattern, *key, *word;
    double value;
} Override;

typedef struct {
    uint32_t n_ctx; /* tokens; of plan_context */
    uint32_t batch; /* largest prefill chunk; 0: by target */
    KvType kv;
    Accuracy accuracy;
    uint64_t vram_budget; /* 0: the device's heap, less a tenth */
    const char *lua_path;
    uint32_t n_overrides;
    const Override *overrides;
} PlanOptions;

typedef enum {
    BUFFER_VALUE,  /* activations: placed by lifetime within their batch */
    BUFFER_PART,   /* packed rows of a matrix */
    BUFFER_VECTOR, /* f32 vector from tensors, or a table computed here */
    BUFFER_KV,
    BUFFER_STEP,
    BUFFER_TOKENS,
    BUFFER_RING,
    BUFFER_LOGITS,
    BUFFER_READBACK
} BufferKind;

typedef struct {
    const GgufTensor *tensor;
    uint64_t row0, n_rows;
    const GgufTensor *scale; /* factor of the matrix, or of each expert; NULL as a rule */
} RowRange;

typedef struct {
    BufferKind kind;
    const char *name;
    uint64_t bytes;
    uint32_t zone;
    uint64_t offset;
    uint32_t first_use, last_use; /* operations; values only */
    uint32_t batch;               /* values only: index */
    int layer;
    /* BUFFER_PART */
    const Format *format;
    uint32_t k, rows;
    uint64_t plane[FORMAT_MAX_PLANES];
    uint32_t n_ranges;
    RowRange *range; /* rows in packed order */
    /* BUFFER_VECTOR: concatenated 1-D tensors behind `skip` zeros, or a rotary table */
    uint32_t skip, n_tensors;
    const GgufTensor **tensor;
    const Rope *rope;
} Buffer;

typedef struct {
    const char *role;
    uint32_t buffer;
    bool write, read;
} Operand;

typedef struct {
    const char *name; /* "blk.0.qkv" */
    const char *why;  /* of the fused step */
    int layer;
    KernelOp op;
    const KernelChoice *choice;
    uint32_t kernel; /* index of its module */
    uint32_t n_operands;
    Operand operand[KERNEL_MAX_ROLES];
    bool barrier, split;
    double us;         /* predicted, with the barrier */
    const char *bound; /* by what: "memory", "compute", "launch", "bus", "barrier" */
} PlanOp;

/* The operations of one batch size, in order: embedding and layers, then what may follow. */
typedef struct {
    uint32_t rows;
    PlanSegment layers, head_last, head_all, sample, advance;
    uint64_t scratch_bytes;
    double us;
} Batch;

typedef struct {
    const char *name, *label, *source;
    uint32_t first_op;
    SpirvJob spirv;
} PlanModule;

enum { PLAN_MAX_BATCHES = 6, PLAN_MAX_ZONES = 64, PLAN_MAX_SEQUENCES = 20 };
typedef struct CompiledPlan {
    const Program *program;
    const Target *target;
    PlanOptions options;
    uint32_t n_buffers, n_ops, n_modules, n_zones, n_batches, n_sequences;
    Buffer *buffer;
    PlanOp *op;
    PlanModule *module;
    PlanZone zone[PLAN_MAX_ZONES];
    Batch batch[PLAN_MAX_BATCHES];
    PlanSequence sequence[PLAN_MAX_SEQUENCES];
    uint32_t step, tokens, ring, logits, readback; /* buffers */
    uint64_t budget;                               /* device memory that the plan may take */
    uint64_t weight_bytes, host_weight_bytes, kv_bytes, scratch_bytes, decode_bytes;
    double decode_us;
} CompiledPlan;

/* The context to compile for: what the user asked, or (0) the model's, at most 4096. */
uint32_t plan_context(const Model *m, uint32_t asked);
CompiledPlan *plan_make(Arena *a, const Program *p, const Target *t, const PlanOptions *o);
void plan_verify(const CompiledPlan *p);
void plan_print(const CompiledPlan *p, Text *out);         /* --dump plan */
void plan_kernels_print(const CompiledPlan *p, Text *out); /* --dump kernels */
void plan_explain(const CompiledPlan *p, Text *out);       /* qcc explain */

/* The buffer of a role of the operation, and the range that a binding of its kernel covers. */
const Buffer *plan_role_buffer(const CompiledPlan *p, const PlanOp *o, const char *role);
RolePlace plan_binding(const CompiledPlan *p, const PlanOp *o, uint32_t index);

/* The stages, in order. */
void lower(Arena *a, CompiledPlan *p, KernelLibrary *lib);
void memory_place(CompiledPlan *p);
void choose_kernels(Arena *a, CompiledPlan *p, KernelLibrary *lib);
void schedule(Arena *a, CompiledPlan *p);
#endif
