/* harness.c - see harness.h. */
#include "harness_private.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- device ---------------------------------------------------------------------------------- */

static VKAPI_ATTR VkBool32 VKAPI_CALL message_seen(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT types,
                                                   const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                   void *user) {
    (void)severity, (void)types;
    text_printf(&((Harness *)user)->messages, "%s\n", data->pMessage);
    return VK_FALSE;
}

static bool instance_create(Harness *h, bool validate) {
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    static const char *const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    static const VkValidationFeatureEnableEXT enable =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .enabledValidationFeatureCount = 1,
                                        .pEnabledValidationFeatures = &enable};
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app};
    if (validate) {
        info.pNext = &features;
        info.enabledLayerCount = info.enabledExtensionCount = 1;
        info.ppEnabledLayerNames = &layer, info.ppEnabledExtensionNames = &extension;
    }
    VkResult r = vkCreateInstance(&info, NULL, &h->instance);
    if (r == VK_ERROR_LAYER_NOT_PRESENT)
        fail(FAIL_ENVIRONMENT, "QCC_VALIDATE: the validation layer is not installed");
    if (r != VK_SUCCESS) return false;
    volkLoadInstance(h->instance);
    if (!validate) return true;
    VkDebugUtilsMessengerCreateInfoEXT m = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = message_seen,
        .pUserData = h};
    return vkCreateDebugUtilsMessengerEXT(h->instance, &m, NULL, &h->messenger) == VK_SUCCESS;
}

/* QCC_TARGET=weakest: that profile alone, on a device that is created without any feature. */
static bool weakest_only(void) {
    const char *s = getenv("QCC_TARGET");
    if (s && *s && strcmp(s, "weakest") != 0)
        fail(FAIL_ENVIRONMENT, "QCC_TARGET is 'weakest' or not set, not '%s'", s);
    return s && *s;
}

static uint32_t device_index(void) {
    const char *s = getenv("QCC_DEVICE");
    return s ? (uint32_t)strtoul(s, NULL, 10) : 0;
}

static bool physical_pick(Harness *h) {
    uint32_t n = 0, want = device_index();
    if (vkEnumeratePhysicalDevices(h->instance, &n, NULL) != VK_SUCCESS || want >= n) return false;
    VkPhysicalDevice *list = ARENA_ARRAY(h->arena, VkPhysicalDevice, n);
    vkEnumeratePhysicalDevices(h->instance, &n, list);
    h->physical = list[want];
    vkGetPhysicalDeviceMemoryProperties(h->physical, &h->memory);
    uint32_t n_family = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(h->physical, &n_family, NULL);
    VkQueueFamilyProperties *family = ARENA_ARRAY(h->arena, VkQueueFamilyProperties, n_family);
    vkGetPhysicalDeviceQueueFamilyProperties(h->physical, &n_family, family);
    for (h->family = 0; h->family < n_family; h->family++)
        if (family[h->family].queueFlags & VK_QUEUE_COMPUTE_BIT) return true;
    return false;
}

static bool extension_has(Harness *h, const char *name) {
    uint32_t n = 0;
    vkEnumerateDeviceExtensionProperties(h->physical, NULL, &n, NULL);
    VkExtensionProperties *list = ARENA_ARRAY(h->arena, VkExtensionProperties, n);
    vkEnumerateDeviceExtensionProperties(h->physical, NULL, &n, list);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].extensionName, name)) return true;
    return false;
}

/* Every feature that the device has, but for bounds checks: a kernel must not lean on them.
 * With QCC_TARGET=weakest none: the validation layer then reports a module that needs one. */
static bool device_create(Harness *h, bool *integer_dot) {
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan13Features f13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceProperties p;
    vkGetPhysicalDeviceProperties(h->physical, &p);
    if (p.apiVersion < VK_API_VERSION_1_2) return false;
    f.pNext = &f11, f11.pNext = &f12;
    if (p.apiVersion >= VK_API_VERSION_1_3) f12.pNext = &f13;
    const char *extensions[1];
    uint32_t n_extensions = 0;
#ifdef VK_KHR_cooperative_matrix
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR cm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    if (extension_has(h, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
        cm.pNext = f.pNext, f.pNext = &cm;
    }
#endif
    vkGetPhysicalDeviceFeatures2(h->physical, &f);
    f.features.robustBufferAccess = VK_FALSE;
    h->timestamp_ns = p.limits.timestampPeriod;
    h->size_control = f13.subgroupSizeControl && f13.computeFullSubgroups;
    *integer_dot = f13.shaderIntegerDotProduct;
    bool bare = weakest_only();
    if (bare) h->size_control = *integer_dot = false, n_extensions = 0;
    float priority = 1;
    VkDeviceQueueCreateInfo q = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                 .queueFamilyIndex = h->family,
                                 .queueCount = 1,
                                 .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = bare ? NULL : &f,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &q,
                               .enabledExtensionCount = n_extensions,
                               .ppEnabledExtensionNames = extensions};
    if (vkCreateDevice(h->physical, &info, NULL, &h->device) != VK_SUCCESS) return false;
    volkLoadDevice(h->device);
    vkGetDeviceQueue(h->device, h->family, 0, &h->queue);
    return true;
}

static bool pools_create(Harness *h) {
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = h->family,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, KERNEL_MAX_ROLES * MAX_COPIES};
    VkDescriptorPoolCreateInfo descriptors = {.sType =
                                                  VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                              .maxSets = MAX_COPIES,
                                              .poolSizeCount = 1,
                                              .pPoolSizes = &size};
    VkQueryPoolCreateInfo queries = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                     .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                     .queryCount = 2};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (vkCreateCommandPool(h->device, &pool, NULL, &h->commands) != VK_SUCCESS) return false;
    VkCommandBufferAllocateInfo command = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = h->commands,
                                           .commandBufferCount = 1};
    return vkAllocateCommandBuffers(h->device, &command, &h->command) == VK_SUCCESS &&
           vkCreateDescriptorPool(h->device, &descriptors, NULL, &h->descriptors) == VK_SUCCESS &&
           vkCreateQueryPool(h->device, &queries, NULL, &h->queries) == VK_SUCCESS &&
           vkCreateFence(h->device, &fence, NULL, &h->fence) == VK_SUCCESS;
}

static void harness_close(void *arg) {
    Harness *h = arg;
    if (h->device) {
        vkDeviceWaitIdle(h->device);
        for (size_t i = 0; i < h->n_pipelines; i++) {
            vkDestroyPipeline(h->device, h->pipelines[i].pipeline, NULL);
            vkDestroyPipelineLayout(h->device, h->pipelines[i].layout, NULL);
            vkDestroyDescriptorSetLayout(h->device, h->pipelines[i].set_layout, NULL);
        }
        vkDestroyFence(h->device, h->fence, NULL);
        vkDestroyQueryPool(h->device, h->queries, NULL);
        vkDestroyDescriptorPool(h->device, h->descriptors, NULL);
        vkDestroyCommandPool(h->device, h->commands, NULL);
        vkDestroyDevice(h->device, NULL);
    }
    if (h->messenger) vkDestroyDebugUtilsMessengerEXT(h->instance, h->messenger, NULL);
    if (h->instance) vkDestroyInstance(h->instance, NULL);
}

/* ---- profiles -------------------------------------------------------------------------------- */

Target *harness_profile(Harness *h, const char *name) {
    ASSERT(h->n_profiles < MAX_PROFILES);
    Profile *p = &h->profiles[h->n_profiles++];
    *p = (Profile){.name = name, .target = h->profiles[0].target};
    return &p->target;
}

const Target *harness_target(const Harness *h) { return &h->profiles[0].target; }

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The weakest target that is supported: no capability, and what Vulkan 1.1 requires of every
 * device. */
static void target_weaken(Target *w) {
    memset(w->caps, 0, sizeof w->caps);
    w->n_coopmat = 0;
    w->max_invocations = least(w->max_invocations, 128);
    w->max_local[0] = least(w->max_local[0], 128);
    w->max_local[1] = least(w->max_local[1], 128);
    w->max_local[2] = least(w->max_local[2], 64);
    w->shared_bytes = least(w->shared_bytes, 16384);
    for (int i = 0; i < 3; i++) w->max_groups[i] = least(w->max_groups[i], 65535);
}

static void profiles_create(Harness *h, bool integer_dot) {
    h->n_profiles = 1;
    h->profiles[0] = (Profile){.name = "device",
                               .target = *target_read(h->arena, "auto", device_index())};
    volkLoadInstance(h->instance); /* the probe left the functions of its own instance */
    volkLoadDevice(h->device);
    /* What works is tested, be it fast on this device or not. */
    if (integer_dot && shader_ability()->caps[CAP_IDOT])
        h->profiles[0].target.caps[CAP_IDOT] = true;
    Profile *device = &h->profiles[0];
    target_weaken(weakest_only() ? &device->target : harness_profile(h, "weakest"));
    if (!weakest_only()) return;
    device->name = "weakest";
    /* And its SPIR-V; beside the device's own profile that would run equal kernels twice. */
    device->target.api_version = least(device->target.api_version, VK_API_VERSION_1_1);
}

Harness *harness_open(Arena *a) {
    const char *s = getenv("QCC_VALIDATE");
    Harness *h = ARENA_NEW(a, Harness);
    h->arena = a;
    h->messages.arena = a;
    arena_defer(a, harness_close, h);
    bool integer_dot = false;
    if (volkInitialize() != VK_SUCCESS || !instance_create(h, s && *s == '1')) return NULL;
    if (!physical_pick(h) || !device_create(h, &integer_dot) || !pools_create(h)) return NULL;
    profiles_create(h, integer_dot);
    printf("device: %s%s\n", harness_target(h)->device_name,
           weakest_only() ? ", as the weakest target" : "");
    return h;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool case_known(const HarnessCase *list, size_t n, const HarnessCase *c) {
    for (size_t i = 0; i < n; i++)
        if (list[i].module.hash == c->module.hash && list[i].module.bytes == c->module.bytes &&
            list[i].choice->subgroup == c->choice->subgroup &&
            !memcmp(list[i].choice->groups, c->choice->groups, sizeof c->choice->groups))
            return true;
    return false;
}

static size_t profile_cases(Harness *h, Profile *p, const KernelOp *op, HarnessCase **list,
                            const char **why) {
    Arena *a = h->arena;
    const char *dir = getenv("QCC_KERNELS");
    if (!p->library) p->library = select_open(a, &p->target, dir);
    KernelChoice *choices;
    uint32_t n = select_candidates(p->library, op, &choices, why);
    HarnessCase *c = ARENA_ARRAY(a, HarnessCase, n);
    SpirvJob *jobs = ARENA_ARRAY(a, SpirvJob, n);
    for (uint32_t i = 0; i < n; i++) {
        c[i] = (HarnessCase){.profile = p->name, .choice = &choices[i]};
        c[i].label = arena_printf(a, "%s: %s", p->name, choices[i].label);
        jobs[i] = (SpirvJob){.name = c[i].label,
                             .source = choices[i].source,
                             .api_version = p->target.api_version,
                             .needs = choices[i].needs};
    }
    spirv_compile(a, jobs, n, 2, dir, true);
    for (uint32_t i = 0; i < n; i++) c[i].module = jobs[i];
    *list = c;
    return n;
}

uint32_t harness_cases(Harness *h, const KernelOp *op, HarnessCase **out, const char **why_not) {
    HarnessCase *all = NULL, *list;
    size_t n = 0, cap = 0;
    const char *why = NULL;
    for (uint32_t i = 0; i < h->n_profiles; i++) {
        size_t k = profile_cases(h, &h->profiles[i], op, &list, &why);
        for (size_t j = 0; j < k; j++) {
            if (case_known(all, n, &list[j])) continue;
            all = arena_grow(h->arena, all, n, &cap, sizeof *all);
            all[n++] = list[j];
        }
    }
    if (why_not) *why_not = why;
    *out = all;
    return (uint32_t)n;
}

static bool case_related(const HarnessCase *a, const HarnessCase *b) {
    const char *x = a->choice->inner, *y = b->choice->inner;
    return !strcmp(a->profile, b->profile) && !strcmp(a->choice->file, b->choice->file) &&
           (x == y || (x && y && !strcmp(x, y)));
}

uint32_t harness_sample(HarnessCase *c, uint32_t n) {
    static uint32_t turn;
    const char *s = getenv("QCC_THOROUGH");
    if (s && *s == '1') return n;
    uint32_t kept = 0;
    turn++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0, related = 0;
        for (uint32_t k = 0; k < kept; k++) before += case_related(&c[k], &c[i]);
        for (uint32_t k = i; k < n; k++) related += case_related(&c[k], &c[i]);
        if (before) continue;
        for (uint32_t k = i, skip = turn % related; k < n; k++)
            if (case_related(&c[k], &c[i]) && skip-- == 0) {
                HarnessCase chosen = c[k];
                c[k] = c[i];
                c[i] = c[kept];
                c[kept++] = chosen;
                break;
            }
    }
    return kept;
}

uint32_t harness_sample_few(HarnessCase *c, uint32_t n, uint32_t most) {
    static uint32_t turn;
    uint32_t kept = harness_sample(c, n);
    if (kept == n || kept <= most) return kept;
    HarnessCase first = c[0];
    uint32_t from = turn++ % (kept - most + 1);
    c[0] = c[from], c[from] = first;
    return most;
}

/* ---- numbers --------------------------------------------------------------------------------- */

uint32_t harness_random(uint32_t *state) {
    uint32_t x = *state ? *state : 1;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return *state = x;
}

float harness_normal(uint32_t *state) { /* Box and Muller */
    double u = ((double)harness_random(state) + 1) / 4294967297.0,
           v = (double)harness_random(state) / 4294967296.0;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

double harness_rms(const float *got, const double *want, size_t n) {
    double error = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        error += d * d, sum += want[i] * want[i];
    }
    if (!(error < (double)INFINITY)) return (double)INFINITY;
    return error == 0 ? 0 : sqrt(error / (sum > 0 ? sum : 1e-300));
}
