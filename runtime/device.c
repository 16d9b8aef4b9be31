/* device.c - Vulkan loader, instance, choice of the device, validation, fault injection. */
#define VOLK_IMPLEMENTATION
#include "needs.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"
static atomic_uint validation_messages;

bool device_fault(void) {
    static atomic_int next = -1; /* calls until the fault; 0: none, -1: not read yet */
    int n = atomic_load(&next);
    if (n < 0) {
        const char *s = getenv("QCC_FAIL_VK");
        int want = s ? atoi(s) : 0;
        (void)atomic_compare_exchange_strong(&next, &n, want > 0 ? want : 0);
    }
    return atomic_load(&next) > 0 && atomic_fetch_sub(&next, 1) == 1;
}

bool device_check(VkResult r, const char *call) {
    if (r >= 0) return true;
    switch ((int)r) {
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return error_environment(
            "out of device memory in %s; close other programs that use the device, "
            "or recompile with a smaller --ctx or --vram-budget",
            call);
    case VK_ERROR_OUT_OF_HOST_MEMORY: return error_environment("out of host memory in %s", call);
    case VK_ERROR_DEVICE_LOST:
        return error_environment(
            "the device was lost in %s: the driver reset it, or it was removed; what was printed "
            "so far "
            "is valid; run again, or recompile with a smaller --batch if it happens every time",
            call);
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return error_environment("no Vulkan driver was found (%s); install the driver of your GPU, "
                                 "or mesa-vulkan-drivers",
                                 call);
    case VK_ERROR_LAYER_NOT_PRESENT:
        return error_environment("QCC_VALIDATE is set, but " VALIDATION_LAYER
                                 " is not installed (vulkan-validationlayers)");
    default: return error_environment("%s failed with VkResult %d", call, (int)r);
    }
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT type,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user) {
    (void)severity, (void)type, (void)user;
    (void)atomic_fetch_add(&validation_messages, 1);
    (void)fprintf(stderr, "validation: %s\n", data->pMessage);
    return VK_FALSE;
}

static bool instance_has(const char *extension) {
    uint32_t n = 0;
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    VkExtensionProperties *e = error_alloc(n, sizeof *e, "the instance's extensions");
    bool found = false;
    if (e && vkEnumerateInstanceExtensionProperties(NULL, &n, e) == VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++) found |= strcmp(e[i].extensionName, extension) == 0;
    free(e);
    return found;
}

static bool instance_init(Device *d, uint32_t version) {
    static const char *const layer = VALIDATION_LAYER;
    static const VkValidationFeatureEnableEXT sync =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message};
    VkValidationFeaturesEXT validation = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                          .pNext = &messenger,
                                          .enabledValidationFeatureCount = 1,
                                          .pEnabledValidationFeatures = &sync};
    const char *extensions[3];
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "qcc",
                             .apiVersion = version};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app,
                                 .ppEnabledExtensionNames = extensions};
#ifdef VK_KHR_portability_enumeration
    if (instance_has(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[info.enabledExtensionCount++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
#endif
    if (d->validate) {
        extensions[info.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        extensions[info.enabledExtensionCount++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.pNext = &validation;
    }
    if (!VK_CHECK(vkCreateInstance, &info, NULL, &d->instance)) return false;
    volkLoadInstanceOnly(d->instance);
    return !d->validate ||
           VK_CHECK(vkCreateDebugUtilsMessengerEXT, d->instance, &messenger, NULL, &d->messenger);
}

static int device_rank(const Found *f) {
    switch (f->properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 1;
    default: return 0;
    }
}

/* The best device that the plan can run on; without any, the best, so that the check says why. */
static uint32_t device_best(const Found *found, uint32_t n, const Plan *p) {
    uint32_t best = 0;
    int best_rank = -1;
    for (uint32_t i = 0; i < n; i++) {
        int rank = device_rank(&found[i]) + (needs_check(&found[i], p, false) ? 0 : 10);
        if (rank > best_rank) best = i, best_rank = rank;
    }
    return best;
}

static uint32_t timestamp_bits(const Found *f) {
    VkQueueFamilyProperties families[32];
    uint32_t n = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(f->physical, &n, families);
    return f->family < n ? families[f->family].timestampValidBits : 0;
}

static bool device_create(Device *d, const Found *f, const Plan *p) {
    Features enable;
    const char *extensions[NEEDS_MAX_EXTENSIONS];
    uint32_t n = needs_enable(f, p, &enable, extensions);
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = f->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &enable.core,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = extensions};
    d->physical = f->physical;
    d->properties = f->properties;
    d->memory = f->memory;
    d->family = f->family;
    d->timestamp_bits = timestamp_bits(f);
    d->size_control = enable.size_control.subgroupSizeControl;
    d->full_subgroups = enable.size_control.computeFullSubgroups;
    if (!VK_CHECK(vkCreateDevice, d->physical, &info, NULL, &d->handle)) return false;
    volkLoadDevice(d->handle);
    vkGetDeviceQueue(d->handle, d->family, 0, &d->queue);
    return true;
}

static bool device_choose(Device *d, Found *found, uint32_t n, const Plan *p, int index) {
    if (index >= 0 && (uint32_t)index >= n) {
        char names[600] = "";
        for (uint32_t i = 0, at = 0; i < n && at < sizeof names; i++)
            at += (uint32_t)snprintf(names + at, sizeof names - at, "%s%u %s", i ? ", " : "", i,
                                     found[i].properties.deviceName);
        return error_environment("--device %d does not exist; there are: %s", index, names);
    }
    d->index = index >= 0 ? (uint32_t)index : device_best(found, n, p);
    const Found *f = &found[d->index];
    if (needs_check(f, p, false) > 0) {
        (void)needs_check(f, p, true);
        return error_environment("device %u (%s) is not able to run this program", d->index,
                                 f->properties.deviceName);
    }
    return device_create(d, f, p);
}

bool device_init(Device *d, const Plan *p, int index) {
    const char *validate = getenv("QCC_VALIDATE");
    *d = (Device){.validate = validate && strcmp(validate, "0") != 0};
    if (device_fault() || volkInitialize() != VK_SUCCESS)
        return error_environment("no Vulkan loader (libvulkan.so.1); install the package "
                                 "libvulkan1 and the driver of your GPU");
    uint32_t version = volkGetInstanceVersion();
    uint32_t wanted = p->needs.api_version > VK_API_VERSION_1_3 ? p->needs.api_version
                                                                : VK_API_VERSION_1_3;
    if (version < VK_API_VERSION_1_1)
        return error_environment(
            "the Vulkan loader is of version 1.0, needed 1.1; update the package libvulkan1");
    if (!instance_init(d, wanted)) return false;

    uint32_t n = 0, at = 0;
    if (!VK_CHECK(vkEnumeratePhysicalDevices, d->instance, &n, NULL)) return false;
    if (n == 0)
        return error_environment(
            "no Vulkan device was found; install the driver of your GPU, or mesa-vulkan-drivers");
    VkPhysicalDevice *devices = error_alloc(n, sizeof *devices, "the list of devices");
    Found *found = error_alloc(n, sizeof *found, "the devices' properties");
    bool ok = devices && found && VK_CHECK(vkEnumeratePhysicalDevices, d->instance, &n, devices);
    while (ok && at < n) ok = needs_query(&found[at], devices[at], wanted), at++;
    ok = ok && device_choose(d, found, n, p, index);
    while (at > 0) needs_finish(&found[--at]);
    free(found);
    free(devices);
    return ok;
}

void device_finish(Device *d) {
    if (d->handle) vkDestroyDevice(d->handle, NULL);
    if (d->messenger) vkDestroyDebugUtilsMessengerEXT(d->instance, d->messenger, NULL);
    if (d->instance) vkDestroyInstance(d->instance, NULL);
    *d = (Device){0};
    unsigned n = atomic_exchange(&validation_messages, 0);
    if (n > 0)
        (void)error_environment("the validation layer reported %u message%s", n, n == 1 ? "" : "s");
}
