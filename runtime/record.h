/* record.h - descriptor sets and command buffers, made once from the plan's tables. */
#ifndef QCC_RECORD_H
#define QCC_RECORD_H
#include "pipeline.h"
#include "profile.h"

/* The command buffers of a sequence, one per submission (PlanDispatch.split starts a new one). */
typedef struct {
    VkCommandBuffer *buffers;
    uint32_t n;
    bool ready;
    Profile profile; /* off as a rule */
} Recorded;

typedef struct {
    const Plan *plan;
    VkDescriptorPool descriptors;
    VkDescriptorSet *sets; /* [n_dispatches] */
    VkCommandPool pool;
    VkCommandBuffer *buffers; /* of all sequences */
    Recorded *sequences;      /* [n_sequences] */
    VkCommandBuffer upload;   /* for the session's own use */
} Record;

bool record_init(Record *r, const Device *d, const Plan *p, const Pipelines *s, const Zone *zones);
/* Builds the kernels of a sequence and records it, at its first use. */
bool record_sequence(Record *r, Pipelines *s, const Zone *zones, uint32_t sequence);
/* Before a sequence's first use: its command buffers write timestamps, and one run must end before
 * the next starts. */
bool record_profile(Record *r, const Device *d, uint32_t sequence);
void record_finish(Record *r, const Device *d); /* accepts half-built */

/* A global memory barrier. */
void record_barrier(VkCommandBuffer c, VkPipelineStageFlags from, VkAccessFlags from_access,
                    VkPipelineStageFlags to, VkAccessFlags to_access);
#endif
