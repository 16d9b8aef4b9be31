/* pipeline.h - one compute pipeline per kernel of the plan, made on several threads with the
 * driver's cache. */
#ifndef QCC_PIPELINE_H
#define QCC_PIPELINE_H
#include "load.h"

typedef struct {
    const Plan *plan;
    uint32_t n_layouts; /* most bindings of a kernel + 1 */
    VkDescriptorSetLayout
        *sets; /* [n_layouts] by number of bindings; null where no kernel has so many */
    VkPipelineLayout *layouts; /* [n_layouts] */
    VkPipeline *kernels;       /* [n_kernels] */
    VkPipelineCache cache;
    const Device *device;
    const Payload *payload;
    uint64_t loaded_hash; /* of the cache file's data */
    bool built;           /* something that was not in the cache file, perhaps */
} Pipelines;

/* The driver's cache is kept in $XDG_CACHE_HOME/qcc or ~/.cache/qcc, one file per program and
 * device; trouble with that file is never an error. */
bool pipeline_init(Pipelines *s, const Device *d, const Plan *p, const Payload *l);
/* Builds the kernels of a sequence that are not there yet, in parallel. */
bool pipeline_build(Pipelines *s, const PlanSequence *q);
void pipeline_finish(Pipelines *s, const Device *d); /* accepts half-built */
#endif
