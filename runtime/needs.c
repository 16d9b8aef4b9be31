/* needs.c - what a physical device has, against the plan's demands; what to enable. */
#include "needs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_extension(const Found *f, const char *name) {
    for (uint32_t i = 0; i < f->n_extensions; i++)
        if (strcmp(f->extensions[i].extensionName, name) == 0) return true;
    return false;
}

/* A feature is usable if it is part of the Vulkan version or its extension is there. */
static bool knows(const Found *f, uint32_t core_since, const char *extension) {
    return (core_since && f->api_version >= core_since) || has_extension(f, extension);
}

static void link_next(void ***tail, void *structure, VkStructureType type) {
    VkBaseOutStructure *s = structure;
    s->sType = type;
    s->pNext = NULL;
    **tail = s;
    *tail = (void **)&s->pNext;
}

static void features_link(Features *v, const Found *f) {
    v->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    v->core.pNext = NULL;
    void **tail = &v->core.pNext;
    link_next(&tail, &v->storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    if (knows(f, VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME))
        link_next(&tail, &v->storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    if (knows(f, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
        link_next(&tail, &v->f16_int8,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    if (knows(f, VK_API_VERSION_1_2, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME))
        link_next(&tail, &v->bda, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
    if (knows(f, VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME))
        link_next(&tail, &v->memory_model,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
    if (knows(f, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        link_next(&tail, &v->size_control,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    if (knows(f, VK_API_VERSION_1_3, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        link_next(&tail, &v->dot,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
#ifdef VK_KHR_cooperative_matrix
    if (has_extension(f, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        link_next(&tail, &v->coopmat,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
#endif
#ifdef VK_NV_cooperative_matrix2
    if (has_extension(f, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME))
        link_next(&tail, &v->coopmat2,
                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
#endif
}

static bool query_extensions(Found *f) {
    uint32_t n = 0;
    if (!VK_CHECK(vkEnumerateDeviceExtensionProperties, f->physical, NULL, &n, NULL)) return false;
    f->extensions = error_alloc(n, sizeof *f->extensions, "the device's extensions");
    if (!f->extensions) return false;
    f->n_extensions = n;
    return VK_CHECK(vkEnumerateDeviceExtensionProperties, f->physical, NULL, &f->n_extensions,
                    f->extensions);
}

static void query_properties(Found *f) {
    VkPhysicalDeviceMaintenance3Properties m3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties m4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    f->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    f->size_range.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    m3.pNext = &f->subgroup;
    if (knows(f, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        f->subgroup.pNext = &f->size_range;
    if (f->api_version >= VK_API_VERSION_1_3) m4.pNext = &m3;
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = m4.pNext ? (void *)&m4 : (void *)&m3};
    vkGetPhysicalDeviceProperties2(f->physical, &all);
    f->subgroup.pNext = NULL;
    f->max_allocation = m3.maxMemoryAllocationSize;
    f->max_buffer = m4.maxBufferSize ? m4.maxBufferSize : UINT64_MAX;
}

static bool query_family(Found *f) {
    uint32_t n = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(f->physical, &n, NULL);
    VkQueueFamilyProperties *q = error_alloc(n, sizeof *q, "the device's queues");
    if (!q) return false;
    vkGetPhysicalDeviceQueueFamilyProperties(f->physical, &n, q);
    f->family = UINT32_MAX;
    for (uint32_t i = n; i-- > 0;)
        if (q[i].queueCount && (q[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) f->family = i;
    free(q);
    return true;
}

bool needs_query(Found *f, VkPhysicalDevice physical, uint32_t instance_version) {
    *f = (Found){.physical = physical};
    vkGetPhysicalDeviceProperties(physical, &f->properties);
    vkGetPhysicalDeviceMemoryProperties(physical, &f->memory);
    f->api_version = f->properties.apiVersion < instance_version ? f->properties.apiVersion
                                                                 : instance_version;
    if (!query_family(f)) return false;
    if (f->api_version < VK_API_VERSION_1_1) return true; /* the check will refuse it */
    if (!query_extensions(f)) return false;
    query_properties(f);
    features_link(&f->has, f);
    vkGetPhysicalDeviceFeatures2(physical, &f->has.core);
    return true;
}

void needs_finish(Found *f) {
    free(f->extensions);
    f->extensions = NULL;
}

typedef struct {
    const Found *found;
    const char *compiled_for;
    bool print;
    unsigned n;
} Check;

static void check_line(Check *c, const char *limit, const char *found, const char *needed) {
    c->n++;
    if (c->print)
        error_note("%s cannot run this program: %s is %s, needed %s (compiled for %s); recompile "
                   "with `qcc --target auto`",
                   c->found->properties.deviceName, limit, found, needed, c->compiled_for);
}

static void check_least(Check *c, const char *limit, uint64_t found, uint64_t needed) {
    if (found >= needed) return;
    char a[32], b[32];
    (void)snprintf(a, sizeof a, "%llu", (unsigned long long)found);
    (void)snprintf(b, sizeof b, "%llu", (unsigned long long)needed);
    check_line(c, limit, a, b);
}

static void check_has(Check *c, const char *feature, bool needed, bool found) {
    if (needed && !found) check_line(c, feature, "missing", "it");
}

static void check_version(Check *c, uint32_t needed) {
    uint32_t found = c->found->api_version;
    if (needed < VK_API_VERSION_1_1) needed = VK_API_VERSION_1_1;
    if ((found | 0xfff) >= needed) return; /* patch levels do not matter */
    char a[32], b[32];
    (void)snprintf(a, sizeof a, "%u.%u", VK_API_VERSION_MAJOR(found), VK_API_VERSION_MINOR(found));
    (void)snprintf(b, sizeof b, "%u.%u", VK_API_VERSION_MAJOR(needed),
                   VK_API_VERSION_MINOR(needed));
    check_line(c, "the Vulkan version", a, b);
}

static void check_limits(Check *c, const PlanNeeds *n) {
    const VkPhysicalDeviceLimits *l = &c->found->properties.limits;
    uint32_t bindings = l->maxPerStageDescriptorStorageBuffers < l->maxDescriptorSetStorageBuffers
                            ? l->maxPerStageDescriptorStorageBuffers
                            : l->maxDescriptorSetStorageBuffers;
    check_least(c, "maxStorageBufferRange", l->maxStorageBufferRange, n->max_storage_range);
    check_least(c, "maxMemoryAllocationSize", c->found->max_allocation, n->max_allocation);
    check_least(c, "maxBufferSize", c->found->max_buffer, n->max_allocation);
    check_least(c, "maxComputeWorkGroupInvocations", l->maxComputeWorkGroupInvocations,
                n->max_invocations);
    check_least(c, "maxComputeWorkGroupSize[0]", l->maxComputeWorkGroupSize[0], n->max_invocations);
    check_least(c, "maxComputeSharedMemorySize", l->maxComputeSharedMemorySize, n->shared_bytes);
    check_least(c, "maxComputeWorkGroupCount[0]", l->maxComputeWorkGroupCount[0], n->max_groups_x);
    check_least(c, "maxComputeWorkGroupCount[1]", l->maxComputeWorkGroupCount[1], n->max_groups_y);
    check_least(c, "maxPerStageDescriptorStorageBuffers", bindings, n->max_bindings);
    if (n->storage_alignment && n->storage_alignment % l->minStorageBufferOffsetAlignment) {
        char a[32], b[32];
        (void)snprintf(a, sizeof a, "%llu", (unsigned long long)l->minStorageBufferOffsetAlignment);
        (void)snprintf(b, sizeof b, "at most %u", n->storage_alignment);
        check_line(c, "minStorageBufferOffsetAlignment", a, b);
    }
}

static void check_subgroups(Check *c, const PlanNeeds *n) {
    const Found *f = c->found;
    VkSubgroupFeatureFlags ops = f->subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT
                                     ? f->subgroup.supportedOperations
                                     : 0;
    check_has(c, "subgroup arithmetic", n->subgroup_arithmetic,
              ops & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    check_has(c, "subgroup shuffle", n->subgroup_shuffle, ops & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    check_has(c, "subgroup clustered", n->subgroup_clustered,
              ops & VK_SUBGROUP_FEATURE_CLUSTERED_BIT);
    bool control = f->has.size_control.subgroupSizeControl &&
                   (f->size_range.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    check_has(c, "subgroupSizeControl", n->subgroup_size_control, control);
    if (!n->subgroup_size) return;
    uint32_t least = control ? f->size_range.minSubgroupSize : f->subgroup.subgroupSize;
    uint32_t most = control ? f->size_range.maxSubgroupSize : f->subgroup.subgroupSize;
    if (n->subgroup_size >= least && n->subgroup_size <= most) return;
    char a[32], b[32];
    (void)snprintf(a, sizeof a, "%u to %u", least, most);
    (void)snprintf(b, sizeof b, "%u", n->subgroup_size);
    check_line(c, "the subgroup size", a, b);
}

static void check_features(Check *c, const PlanNeeds *n) {
    const Features *h = &c->found->has;
    check_has(c, "storageBuffer16BitAccess", n->storage16, h->storage16.storageBuffer16BitAccess);
    check_has(c, "storageBuffer8BitAccess", n->storage8, h->storage8.storageBuffer8BitAccess);
    check_has(c, "shaderFloat16", n->f16, h->f16_int8.shaderFloat16);
    check_has(c, "shaderInt8", n->int8, h->f16_int8.shaderInt8);
    check_has(c, "shaderIntegerDotProduct", n->integer_dot, h->dot.shaderIntegerDotProduct);
    check_has(c, "bufferDeviceAddress", n->bda, h->bda.bufferDeviceAddress);
#ifdef VK_KHR_cooperative_matrix
    check_has(c, "VK_KHR_cooperative_matrix", n->coopmat, h->coopmat.cooperativeMatrix);
#else
    check_has(c, "VK_KHR_cooperative_matrix (in the headers that this runtime was built with)",
              n->coopmat, false);
#endif
#ifdef VK_NV_cooperative_matrix2
    check_has(c, "VK_NV_cooperative_matrix2", n->coopmat2,
              h->coopmat2.cooperativeMatrixWorkgroupScope);
#else
    check_has(c, "VK_NV_cooperative_matrix2 (in the headers that this runtime was built with)",
              n->coopmat2, false);
#endif
}

/* All zones together must fit; what other programs hold shows only when memory is allocated. */
static void check_memory(Check *c, const Plan *p) {
    uint64_t device = 0, heap = 0;
    for (uint32_t i = 0; i < p->n_zones; i++)
        if (p->zones[i].kind < ZONE_HOST_WEIGHTS) device += p->zones[i].bytes;
    for (uint32_t i = 0; i < c->found->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *h = &c->found->memory.memoryHeaps[i];
        if ((h->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && h->size > heap) heap = h->size;
    }
    if (device <= heap) return;
    char a[32], b[32];
    check_line(c, "device memory", error_bytes(heap, a), error_bytes(device, b));
}

unsigned needs_check(const Found *f, const Plan *p, bool print) {
    Check c = {.found = f, .compiled_for = p->needs.device_name, .print = print};
    check_version(&c, p->needs.api_version);
    check_has(&c, "a compute queue", true, f->family != UINT32_MAX);
    if (c.n) return c.n; /* the rest was not queried */
    check_limits(&c, &p->needs);
    check_subgroups(&c, &p->needs);
    check_features(&c, &p->needs);
    check_memory(&c, p);
    return c.n;
}

uint32_t needs_enable(const Found *f, const Plan *p, Features *e,
                      const char *extensions[NEEDS_MAX_EXTENSIONS]) {
    const PlanNeeds *n = &p->needs;
    const Features *h = &f->has;
    *e = (Features){0};
    features_link(e, f);
    e->core.features.shaderInt16 = h->core.features.shaderInt16 && n->storage16;
    e->storage16.storageBuffer16BitAccess = n->storage16;
    e->storage8.storageBuffer8BitAccess = n->storage8;
    e->f16_int8.shaderFloat16 = n->f16;
    e->f16_int8.shaderInt8 = n->int8;
    e->dot.shaderIntegerDotProduct = n->integer_dot;
    e->bda.bufferDeviceAddress = n->bda;
    e->size_control.subgroupSizeControl = h->size_control.subgroupSizeControl;
    e->size_control.computeFullSubgroups = h->size_control.computeFullSubgroups;
    bool model = n->coopmat ||
                 n->coopmat2; /* cooperative matrices live in the Vulkan memory model */
    e->memory_model.vulkanMemoryModel = model && h->memory_model.vulkanMemoryModel;
    e->memory_model.vulkanMemoryModelDeviceScope = model &&
                                                   h->memory_model.vulkanMemoryModelDeviceScope;
#ifdef VK_KHR_cooperative_matrix
    e->coopmat.cooperativeMatrix = model && h->coopmat.cooperativeMatrix;
#endif
#ifdef VK_NV_cooperative_matrix2
    if (n->coopmat2) {
        void *next = e->coopmat2.pNext;
        e->coopmat2 = h->coopmat2;
        e->coopmat2.pNext = next;
    }
#endif
    const struct {
        const char *name;
        uint32_t core;
    } table[] = {
        {"VK_KHR_portability_subset", 0}, /* must be enabled where it exists */
        {VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2},
        {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2},
        {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_API_VERSION_1_2},
        {VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_API_VERSION_1_2},
        {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2},
        {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3},
        {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3},
        {"VK_KHR_cooperative_matrix", 0},
        {"VK_NV_cooperative_matrix2", 0},
    };
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!(table[i].core && f->api_version >= table[i].core) && has_extension(f, table[i].name))
            extensions[count++] = table[i].name;
    return count;
}
