/* record.c - from the plan's tables to command buffers that are submitted again and again.
 *
 * Order: each command buffer starts with a barrier from compute to compute, so that what was
 * submitted earlier is finished and visible; whoever writes by transfer ends with a barrier to
 * compute; each sequence ends with one to the host. */
#include "record.h"
#include <stdlib.h>

enum {
    COMPUTE = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
    TRANSFER = VK_PIPELINE_STAGE_TRANSFER_BIT,
    HOST = VK_PIPELINE_STAGE_HOST_BIT,
    READ_WRITE = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT
};

void record_barrier(VkCommandBuffer c, VkPipelineStageFlags from, VkAccessFlags from_access,
                    VkPipelineStageFlags to, VkAccessFlags to_access) {
    VkMemoryBarrier b = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                         .srcAccessMask = from_access,
                         .dstAccessMask = to_access};
    vkCmdPipelineBarrier(c, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

static void barrier_compute(VkCommandBuffer c) {
    record_barrier(c, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT, COMPUTE, READ_WRITE);
}

static bool descriptors_create(Record *r, const Device *d, const Pipelines *s) {
    const Plan *p = r->plan;
    uint32_t n = 0;
    VkDescriptorSetLayout *layouts = error_alloc(p->n_dispatches, sizeof *layouts,
                                                 "descriptor sets");
    r->sets = error_alloc(p->n_dispatches, sizeof *r->sets, "descriptor sets");
    bool ok = layouts && r->sets;
    for (uint32_t i = 0; ok && i < p->n_dispatches; i++) {
        uint32_t bindings = p->kernels[p->dispatches[i].kernel].n_bindings;
        layouts[i] = s->sets[bindings];
        n += bindings;
    }
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n ? n : 1};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = p->n_dispatches,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    ok = ok && VK_CHECK(vkCreateDescriptorPool, d->handle, &pool, NULL, &r->descriptors);
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = r->descriptors,
                                        .descriptorSetCount = p->n_dispatches,
                                        .pSetLayouts = layouts};
    ok = ok && VK_CHECK(vkAllocateDescriptorSets, d->handle, &info, r->sets);
    free(layouts);
    return ok;
}

static bool descriptors_write(Record *r, const Device *d, const Zone *zones,
                              uint32_t most_bindings) {
    const Plan *p = r->plan;
    VkDescriptorBufferInfo *b = error_alloc(most_bindings, sizeof *b, "descriptor sets");
    if (!b) return false;
    for (uint32_t i = 0; i < p->n_dispatches; i++) {
        const PlanBinding *from = &p->bindings[p->dispatches[i].first_binding];
        uint32_t n = p->kernels[p->dispatches[i].kernel].n_bindings;
        for (uint32_t k = 0; k < n; k++)
            b[k] = (VkDescriptorBufferInfo){zones[from[k].zone].buffer, from[k].offset,
                                            from[k].bytes};
        /* one write runs over consecutive bindings of the same type */
        VkWriteDescriptorSet w = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = r->sets[i],
                                  .descriptorCount = n,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = b};
        if (n) vkUpdateDescriptorSets(d->handle, 1, &w, 0, NULL);
    }
    free(b);
    return true;
}

/* A dispatch starts a submission if the plan says so, except the first, which does anyway. */
static uint32_t count_submissions(const Plan *p, const PlanSequence *q) {
    uint32_t n = 1;
    bool first = true;
    for (uint32_t s = 0; s < q->n_segments; s++)
        for (uint32_t i = 0; i < q->segment[s].count; i++, first = false)
            if (!first && p->dispatches[q->segment[s].first + i].split) n++;
    return n;
}

static bool commands_create(Record *r, const Device *d) {
    const Plan *p = r->plan;
    uint32_t n = 1, at = 1;
    r->sequences = error_alloc(p->n_sequences, sizeof *r->sequences, "sequences");
    if (!r->sequences) return false;
    for (uint32_t i = 0; i < p->n_sequences; i++)
        n += r->sequences[i].n = count_submissions(p, &p->sequences[i]);
    r->buffers = error_alloc(n, sizeof(VkCommandBuffer), "command buffers");
    if (!r->buffers) return false;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = d->family,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    if (!VK_CHECK(vkCreateCommandPool, d->handle, &pool, NULL, &r->pool)) return false;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = r->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = n};
    if (!VK_CHECK(vkAllocateCommandBuffers, d->handle, &info, r->buffers)) return false;
    r->upload = r->buffers[0];
    for (uint32_t i = 0; i < p->n_sequences; at += r->sequences[i++].n)
        r->sequences[i].buffers = &r->buffers[at];
    return true;
}

static bool commands_begin(VkCommandBuffer c) {
    /* the same buffer is submitted again while an earlier submission of it still runs */
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    if (!VK_CHECK(vkBeginCommandBuffer, c, &info)) return false;
    barrier_compute(c);
    return true;
}

static void record_dispatch(const Record *r, const Pipelines *s, VkCommandBuffer c, uint32_t index,
                            uint32_t *bound) {
    const PlanDispatch *d = &r->plan->dispatches[index];
    VkPipelineLayout layout = s->layouts[r->plan->kernels[d->kernel].n_bindings];
    if (*bound != d->kernel)
        vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, s->kernels[d->kernel]);
    *bound = d->kernel;
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &r->sets[index], 0,
                            NULL);
    vkCmdDispatch(c, d->groups[0], d->groups[1], d->groups[2]);
}

static void record_end(const Record *r, VkCommandBuffer c, const PlanSequence *q,
                       const Zone *zones) {
    const PlanBinding *from = &r->plan->logits, *to = &r->plan->readback;
    if (q->kind != SEQUENCE_LOGITS) {
        record_barrier(c, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT, HOST, VK_ACCESS_HOST_READ_BIT);
        return;
    }
    VkBufferCopy copy = {from->offset, to->offset,
                         (uint64_t)q->rows * r->plan->n_vocab * sizeof(float)};
    record_barrier(c, COMPUTE, VK_ACCESS_SHADER_WRITE_BIT, TRANSFER,
                   VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    vkCmdCopyBuffer(c, zones[from->zone].buffer, zones[to->zone].buffer, 1, &copy);
    record_barrier(c, TRANSFER, VK_ACCESS_TRANSFER_WRITE_BIT, HOST | COMPUTE,
                   VK_ACCESS_HOST_READ_BIT | READ_WRITE);
}

static void record_time(const Profile *p, VkCommandBuffer c, uint32_t query) {
    if (p->pool) vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->pool, query);
}

bool record_profile(Record *r, const Device *d, uint32_t sequence) {
    return profile_init(&r->sequences[sequence].profile, d, &r->plan->sequences[sequence]);
}

bool record_sequence(Record *r, Pipelines *s, const Zone *zones, uint32_t sequence) {
    const PlanSequence *q = &r->plan->sequences[sequence];
    Recorded *out = &r->sequences[sequence];
    if (out->ready) return true;
    if (!pipeline_build(s, q)) return false;
    uint32_t at = 0, bound = UINT32_MAX, n = 0;
    bool fresh = true; /* nothing recorded yet behind the opening barrier */
    if (!commands_begin(out->buffers[0])) return false;
    if (out->profile.pool)
        vkCmdResetQueryPool(out->buffers[0], out->profile.pool, 0, out->profile.n + 1);
    record_time(&out->profile, out->buffers[0], n++);
    for (uint32_t i = 0; i < q->n_segments; i++)
        for (uint32_t k = 0; k < q->segment[i].count; k++) {
            const PlanDispatch *d = &r->plan->dispatches[q->segment[i].first + k];
            if (d->split && !(fresh && at == 0)) {
                if (!VK_CHECK(vkEndCommandBuffer, out->buffers[at]) ||
                    !commands_begin(out->buffers[++at]))
                    return false;
                bound = UINT32_MAX;
                fresh = true;
            }
            if ((d->barrier || k == 0) && !fresh) barrier_compute(out->buffers[at]);
            record_dispatch(r, s, out->buffers[at], q->segment[i].first + k, &bound);
            record_time(&out->profile, out->buffers[at], n++);
            fresh = false;
        }
    record_end(r, out->buffers[at], q, zones);
    out->ready = VK_CHECK(vkEndCommandBuffer, out->buffers[at]);
    return out->ready;
}

bool record_init(Record *r, const Device *d, const Plan *p, const Pipelines *s, const Zone *zones) {
    *r = (Record){.plan = p};
    return descriptors_create(r, d, s) && descriptors_write(r, d, zones, s->n_layouts) &&
           commands_create(r, d);
}

void record_finish(Record *r, const Device *d) {
    for (uint32_t i = 0; r->sequences && i < r->plan->n_sequences; i++)
        profile_finish(&r->sequences[i].profile, d);
    if (r->pool) vkDestroyCommandPool(d->handle, r->pool, NULL);
    if (r->descriptors) vkDestroyDescriptorPool(d->handle, r->descriptors, NULL);
    free(r->buffers);
    free(r->sequences);
    free(r->sets);
    *r = (Record){0};
}
