/* harness_private.h - what harness.c (device, profiles, cases) and harness_run.c (pipelines,
 * buffers, dispatch) share. */
#ifndef QCC_HARNESS_PRIVATE_H
#define QCC_HARNESS_PRIVATE_H
#include "harness.h"
#include <volk.h>

enum { MAX_PROFILES = 6, MAX_COPIES = 64 };

typedef struct {
    const char *name;
    Target target;
    KernelLibrary *library; /* opened when first used */
} Profile;

typedef struct { /* a compiled module; kept until the end */
    uint64_t hash;
    uint32_t subgroup, n_bindings;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
} Pipeline;

struct Harness {
    Arena *arena;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkPhysicalDeviceMemoryProperties memory;
    float timestamp_ns;
    bool size_control;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkCommandPool commands;
    VkCommandBuffer command;
    VkDescriptorPool descriptors;
    VkQueryPool queries;
    VkFence fence;
    Text messages; /* of the validation layer */
    Profile profiles[MAX_PROFILES];
    uint32_t n_profiles;
    Pipeline *pipelines;
    size_t n_pipelines, cap_pipelines;
};
#endif
