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
} Pipelines;

/* The driver's cache is kept in $XDG_CACHE_HOME/qcc or ~/.cache/qcc, one file per program and
 * device; trouble with that file is never an error. */
bool pipeline_init(Pipelines *s, const Device *d, const Plan *p, const Payload *l);
void pipeline_finish(Pipelines *s, const Device *d); /* accepts half-built */
#endif
