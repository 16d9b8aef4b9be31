/* harness_run.c - a case on the device: see harness.h. */
#include "harness_private.h"
#include <math.h>
#include <string.h>

enum { GUARD_BYTES = 256 };
static const uint32_t POISON = 0xffc0deadu; /* a quiet NaN */

/* ---- pipelines ------------------------------------------------------------------------------- */

static const char *pipeline_create(Harness *h, const HarnessCase *c, Pipeline *p) {
    VkDescriptorSetLayoutBinding b[KERNEL_MAX_ROLES];
    for (uint32_t i = 0; i < c->choice->n_bindings; i++)
        b[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                              VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    VkDescriptorSetLayoutCreateInfo set = {.sType =
                                               VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = c->choice->n_bindings,
                                           .pBindings = b};
    vkCreateDescriptorSetLayout(h->device, &set, NULL, &p->set_layout);
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &p->set_layout};
    vkCreatePipelineLayout(h->device, &layout, NULL, &p->layout);
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = c->module.bytes,
                                     .pCode = c->module.words};
    VkShaderModule module;
    if (vkCreateShaderModule(h->device, &code, NULL, &module) != VK_SUCCESS)
        return "the driver refuses the module";
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = c->choice->subgroup};
    bool fix = c->choice->subgroup && h->size_control;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .layout = p->layout,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pNext = fix ? &size : NULL,
                  .flags = fix ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0}};
    VkResult r = vkCreateComputePipelines(h->device, VK_NULL_HANDLE, 1, &info, NULL, &p->pipeline);
    vkDestroyShaderModule(h->device, module, NULL);
    return r == VK_SUCCESS ? NULL : "the driver makes no pipeline";
}

static const char *pipeline_get(Harness *h, const HarnessCase *c, Pipeline **out) {
    if (c->module.local_size != c->choice->local)
        return arena_printf(h->arena, "local size %u, the knob says %u", c->module.local_size,
                            c->choice->local);
    if (c->module.n_bindings > c->choice->n_bindings)
        return arena_printf(h->arena, "%u bindings, %u bound", c->module.n_bindings,
                            c->choice->n_bindings);
    for (size_t i = 0; i < h->n_pipelines; i++) {
        *out = &h->pipelines[i];
        if ((*out)->hash == c->module.hash && (*out)->subgroup == c->choice->subgroup &&
            (*out)->n_bindings == c->choice->n_bindings)
            return NULL;
    }
    Pipeline p = {.hash = c->module.hash,
                  .subgroup = c->choice->subgroup,
                  .n_bindings = c->choice->n_bindings};
    const char *error = pipeline_create(h, c, &p);
    h->pipelines = arena_grow(h->arena, h->pipelines, h->n_pipelines, &h->cap_pipelines, sizeof p);
    *out = &h->pipelines[h->n_pipelines++];
    **out = p;
    return error;
}

/* ---- buffers --------------------------------------------------------------------------------- */

typedef struct { /* guard words, contents, guard words */
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint32_t *map;
    size_t bytes;  /* of the contents */
    size_t stride; /* from one copy to the next */
    uint32_t copies;
} Store;

static uint32_t memory_type(const Harness *h, uint32_t allowed) {
    const VkMemoryPropertyFlags need = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < h->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = h->memory.memoryTypes[i].propertyFlags;
        if (!(allowed & (1u << i)) || (f & need) != need) continue;
        if (f & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) return i;
        if (best == UINT32_MAX) best = i;
    }
    return best;
}

static const char *store_create(Harness *h, const HarnessBuffer *b, uint32_t copies, Store *s) {
    s->bytes = b->bytes, s->stride = round_up(b->bytes, GUARD_BYTES), s->copies = copies;
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
                               .size = (s->copies - 1) * s->stride + b->bytes + 2 * GUARD_BYTES};
    if (vkCreateBuffer(h->device, &info, NULL, &s->buffer) != VK_SUCCESS) return "no buffer";
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(h->device, s->buffer, &need);
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = need.size,
                                   .memoryTypeIndex = memory_type(h, need.memoryTypeBits)};
    if (vkAllocateMemory(h->device, &memory, NULL, &s->memory) != VK_SUCCESS) return "no memory";
    vkBindBufferMemory(h->device, s->buffer, s->memory, 0);
    void *map;
    if (vkMapMemory(h->device, s->memory, 0, VK_WHOLE_SIZE, 0, &map) != VK_SUCCESS)
        return "no mapping";
    s->map = map;
    for (size_t i = 0; i < (size_t)info.size / 4; i++) s->map[i] = POISON;
    for (uint32_t i = 0; b->in && i < s->copies; i++)
        memcpy(s->map + (GUARD_BYTES + i * s->stride) / 4, b->in, b->bytes);
    return NULL;
}

static void store_free(Harness *h, Store *s) {
    vkDestroyBuffer(h->device, s->buffer, NULL);
    vkFreeMemory(h->device, s->memory, NULL);
}

static const char *store_check(Harness *h, const HarnessBuffer *b, const Store *s) {
    size_t words = s->bytes / 4, guard = GUARD_BYTES / 4;
    for (size_t i = 0; i < guard; i++) {
        if (s->map[i] != POISON)
            return arena_printf(h->arena, "role %s: wrote %zu words before the buffer", b->role,
                                guard - i);
        if (s->map[guard + words + i] != POISON)
            return arena_printf(h->arena, "role %s: wrote %zu words behind the end", b->role,
                                i + 1);
    }
    if (!b->out && b->in && memcmp(s->map + guard, b->in, b->bytes) != 0)
        return arena_printf(h->arena, "role %s: an input was changed", b->role);
    if (b->out) memcpy(b->out, s->map + guard, b->bytes);
    return NULL;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* A set for copy number `copy` of the buffers. */
static void descriptors_write(Harness *h, VkDescriptorSet set, const HarnessCase *c, const Store *s,
                              uint32_t copy) {
    VkDescriptorBufferInfo info[KERNEL_MAX_ROLES];
    VkWriteDescriptorSet w[KERNEL_MAX_ROLES];
    for (uint32_t i = 0; i < c->choice->n_bindings; i++) {
        info[i] = (VkDescriptorBufferInfo){s[i].buffer, GUARD_BYTES + copy * s[i].stride,
                                           s[i].bytes + GUARD_BYTES};
        w[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .dstBinding = i,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &info[i]};
    }
    vkUpdateDescriptorSets(h->device, c->choice->n_bindings, w, 0, NULL);
}

/* With several sets dispatches are independent of each other: no barriers between, unless asked. */
static void dispatch_record(Harness *h, const HarnessCase *c, const Pipeline *p,
                            const VkDescriptorSet *set, uint32_t n_sets, const HarnessTiming *t) {
    uint32_t n = t->n;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
                                                VK_ACCESS_SHADER_WRITE_BIT};
    vkBeginCommandBuffer(h->command, &begin);
    vkCmdResetQueryPool(h->command, h->queries, 0, 2);
    vkCmdBindPipeline(h->command, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline);
    for (uint32_t i = 0; i < n + (n > 1); i++) { /* of several the first one warms up */
        if (i == (n > 1))
            vkCmdWriteTimestamp(h->command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, h->queries, 0);
        if (i == (n > 1) || (i && (n_sets == 1 || t->chained)))
            vkCmdPipelineBarrier(h->command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                 NULL);
        if (i == 0 || n_sets > 1)
            vkCmdBindDescriptorSets(h->command, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1,
                                    &set[i % n_sets], 0, NULL);
        vkCmdDispatch(h->command, c->choice->groups[0], c->choice->groups[1], c->choice->groups[2]);
    }
    vkCmdWriteTimestamp(h->command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, h->queries, 1);
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vkCmdPipelineBarrier(h->command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    vkEndCommandBuffer(h->command);
}

static const char *dispatch_wait(Harness *h) {
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &h->command};
    if (vkQueueSubmit(h->queue, 1, &submit, h->fence) != VK_SUCCESS) return "submission failed";
    if (vkWaitForFences(h->device, 1, &h->fence, VK_TRUE, 120ull * 1000000000) != VK_SUCCESS)
        fail(FAIL_ENVIRONMENT, "a kernel did not end within two minutes");
    vkResetFences(h->device, 1, &h->fence);
    return NULL;
}

static const char *stores_create(Harness *h, const HarnessCase *c, HarnessBuffer *b,
                                 uint32_t n_buffers, uint32_t copies, Store *s,
                                 const HarnessBuffer **bound) {
    for (uint32_t i = 0; i < c->choice->n_bindings; i++) {
        for (uint32_t k = 0; k < n_buffers; k++)
            if (!strcmp(b[k].role, c->choice->role[i].name)) bound[i] = &b[k];
        if (!bound[i])
            return arena_printf(h->arena, "no buffer for role %s", c->choice->role[i].name);
        const char *error = store_create(h, bound[i], copies, &s[i]);
        if (error) return error;
    }
    return NULL;
}

static void time_read(Harness *h, uint32_t n, double *us) {
    uint64_t t[2] = {0};
    vkGetQueryPoolResults(h->device, h->queries, 0, 2, sizeof t, t, 8, VK_QUERY_RESULT_64_BIT);
    *us = (double)(t[1] - t[0]) * (double)h->timestamp_ns / 1e3 / n;
}

/* One submission; with `us` submissions go on until the clocks of the device are up, and the
 * fastest counts. */
static const char *run_all(Harness *h, const HarnessCase *c, const Pipeline *p, Store *s,
                           const HarnessTiming *t, double *us) {
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = h->descriptors,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &p->set_layout};
    VkDescriptorSet set[MAX_COPIES];
    uint32_t n_sets = c->choice->n_bindings ? s[0].copies : 1;
    for (uint32_t i = 0; i < n_sets; i++) {
        if (vkAllocateDescriptorSets(h->device, &info, &set[i]) != VK_SUCCESS)
            return "no descriptor set";
        descriptors_write(h, set[i], c, s, i);
    }
    dispatch_record(h, c, p, set, n_sets, t);
    const char *error = dispatch_wait(h);
    if (us) *us = (double)INFINITY;
    for (double end = now_s() + 0.3, once; us && !error && now_s() < end;) {
        error = dispatch_wait(h);
        time_read(h, t->n, &once);
        if (once < *us) *us = once;
    }
    vkResetDescriptorPool(h->device, h->descriptors, 0);
    return error;
}

static const char *run_bound(Harness *h, const HarnessCase *c, HarnessBuffer *b, uint32_t n_buffers,
                             const HarnessTiming *t, double *us) {
    Pipeline *p = NULL;
    Store s[KERNEL_MAX_ROLES] = {0};
    const HarnessBuffer *bound[KERNEL_MAX_ROLES] = {0};
    h->messages.n = 0;
    const char *error = pipeline_get(h, c, &p);
    if (!error) error = stores_create(h, c, b, n_buffers, t->copies, s, bound);
    if (!error) error = run_all(h, c, p, s, t, us);
    for (uint32_t i = 0; !error && !us && i < c->choice->n_bindings; i++)
        error = store_check(h, bound[i], &s[i]);
    for (uint32_t i = 0; i < c->choice->n_bindings; i++) store_free(h, &s[i]);
    if (!error && h->messages.n) error = arena_strdup(h->arena, h->messages.s);
    return error;
}

const char *harness_time(Harness *h, const HarnessCase *c, HarnessBuffer *b, uint32_t n_buffers,
                         const HarnessTiming *t, double *us) {
    return run_bound(h, c, b, n_buffers, t, us);
}

const char *harness_run(Harness *h, const HarnessCase *c, HarnessBuffer *b, uint32_t n_buffers) {
    return run_bound(h, c, b, n_buffers, &(HarnessTiming){1, 1, false}, NULL);
}
