/* plan.h - the contract between the emitted C and the runtime: everything that was decided at
 * compile time.
 *
 * The emitted program defines `const Plan plan`. The runtime allocates each zone once, fills
 * weights from the payload, makes one pipeline per kernel and one descriptor set per dispatch, and
 * records every sequence once. */
#ifndef QCC_PLAN_H
#define QCC_PLAN_H
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    ZONE_DEVICE,       /* device-local; contents undefined at start */
    ZONE_DEVICE_ZERO,  /* device-local, zeroed at start */
    ZONE_WEIGHTS,      /* device-local, filled from the payload */
    ZONE_HOST_WEIGHTS, /* host-visible memory read by kernels in place: weights beyond the memory
                          budget */
    ZONE_HOST          /* host-visible, coherent: ring and read-back */
} ZoneKind;

/* One buffer with one allocation of its own. */
typedef struct {
    const char *name;
    ZoneKind kind;
    uint64_t bytes;
} PlanZone;

/* A range of a zone, bound as a storage buffer. Offsets are multiples of the target's
 * minStorageBufferOffsetAlignment. */
typedef struct {
    uint32_t zone;
    uint64_t offset, bytes;
} PlanBinding;

/* A SPIR-V module (frame FRAME_SPIRV with this index as id). Storage buffers only, set 0, bindings
 * 0 .. n_bindings-1, entry point "main", no specialization constants, no push constants. */
typedef struct {
    const char *name; /* "matvec q4_k k=4096 rows=6144" */
    uint32_t n_bindings;
    uint32_t local_size; /* for checks and info */
    uint32_t subgroup;   /* required subgroup size with full subgroups, 0 = any */
} PlanKernel;

typedef struct {
    const char *name; /* "blk.0.qkv" */
    uint32_t kernel;
    uint32_t groups[3];
    uint32_t first_binding; /* in plan.bindings */
    bool barrier;   /* execution + memory barrier (compute write to compute read/write) before it */
    bool split;     /* a new submission starts here: the work before it is long enough */
    uint64_t bytes; /* read and written, by the plan's count */
} PlanDispatch;

typedef struct {
    uint32_t first, count;
} PlanSegment; /* dispatches */

/* Command buffers, recorded once. rows = M. Segments run in order, with a barrier between. */
typedef enum {
    SEQUENCE_DECODE,       /* M = 1: one token, sampled: the next */
    SEQUENCE_PREFILL,      /* M rows of a prompt, no logits */
    SEQUENCE_PREFILL_LAST, /* M rows, logits of the last valid one, sampled */
    SEQUENCE_LOGITS /* M rows (also M = 1), logits of all: [M][n_vocab] in the logits buffer */
} SequenceKind;
enum { SEQUENCE_MAX_SEGMENTS = 6 };
typedef struct {
    SequenceKind kind;
    uint32_t rows;
    uint32_t n_segments;
    PlanSegment segment[SEQUENCE_MAX_SEGMENTS];
} PlanSequence;

/* What the plan demands of a device, checked at start with one clear line each. */
typedef struct {
    const char *device_name; /* of the target it was compiled for */
    uint32_t api_version;    /* least Vulkan version */
    uint64_t max_storage_range, max_allocation;
    uint32_t storage_alignment, max_invocations, shared_bytes, max_groups_x, max_groups_y,
        max_bindings;
    bool subgroup_arithmetic, subgroup_shuffle, subgroup_clustered, subgroup_size_control;
    bool storage16, storage8, f16, int8, integer_dot, coopmat, coopmat2, bda;
    uint32_t subgroup_size; /* if kernels were baked for one, else 0 */
} PlanNeeds;

typedef struct Plan {
    const char *model_name, *arch, *qcc_version;
    uint32_t n_ctx, n_vocab, n_layer, n_embd;
    uint32_t n_zones, n_kernels, n_dispatches, n_bindings, n_sequences;
    const PlanZone *zones;
    const PlanKernel *kernels;
    const PlanDispatch *dispatches;
    const PlanBinding *bindings;
    const PlanSequence *sequences;
    PlanBinding step;   /* STEP_WORDS words, kernels/lib/step.h */
    PlanBinding tokens; /* u32 [n_ctx + 1], device */
    PlanBinding
        ring; /* u32 [n_ctx + 1], host: ids as they are sampled, at the index of their position */
    PlanBinding logits;   /* f32 [largest M of SEQUENCE_LOGITS][n_vocab], device */
    PlanBinding readback; /* as large as logits, host */
    PlanNeeds needs;
    uint64_t decode_bytes;  /* weights and cache entries read per token behind an empty cache */
    uint64_t manifest_hash; /* XXH3-64 of the manifest frame: ties payload and plan together */
} Plan;
extern const Plan plan;
#endif
