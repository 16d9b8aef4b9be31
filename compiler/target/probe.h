/* probe.h - a Vulkan device of this machine, between enumeration (probe.c), description
 * (describe.c) and timing
 * (measure.c). */
#ifndef QCC_TARGET_PROBE_H
#define QCC_TARGET_PROBE_H
#include "internal.h"
#include <volk.h>

typedef struct {
    Arena *arena;
    VkInstance instance;
    VkPhysicalDevice device;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t api_version; /* the lower of device's and instance's */
    VkExtensionProperties *extensions;
    uint32_t n_extensions;
    uint32_t n_units; /* 0: the driver does not say */
    uint64_t max_allocation;
    bool integer_dot; /* the feature, accelerated or not */
} ProbeDevice;

/* describe.c: the sections of a capability block. describe_features fills d->integer_dot,
 * describe_properties d->n_units and d->max_allocation. */
json_t *describe_extensions(const ProbeDevice *d);
json_t *describe_features(ProbeDevice *d);
json_t *describe_properties(ProbeDevice *d);
json_t *describe_whole(uint64_t x); /* saturates at the largest integer of jansson */

bool probe_extension(const ProbeDevice *d, const char *name);
/* A Vulkan call that must succeed; `what` names it. */
void probe_check(VkResult r, const ProbeDevice *d, const char *what);

typedef struct {
    double read_gbps, dispatch_us, barrier_us, submit_us, flops_gf, idot_gops;
} Measured;
/* Takes one or two seconds. idot_gops stays 0 without integer dot product. */
Measured measure_device(ProbeDevice *d);
#endif
