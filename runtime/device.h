/* device.h - Vulkan 1.1 and later, opened at run time: instance, the device that was chosen, memory
 * zones.
 *
 * Every Vulkan call that can fail goes through VK_CHECK, which prints one line and yields false.
 * The environment variable QCC_FAIL_VK=n makes the n-th such call of the process fail without being
 * made. QCC_VALIDATE=1 turns on VK_LAYER_KHRONOS_validation with synchronization validation. Its
 * messages go to stderr and make the exit status 3; zones whose contents are undefined at start are
 * filled with NaN. QCC_STAGING=1 loads weights through the staging ring even where memory could be
 * mapped. */
#ifndef QCC_DEVICE_H
#define QCC_DEVICE_H
#include "error.h"
#include "plan.h"
#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <volk.h>

typedef struct Device {
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkDevice handle;
    VkQueue queue;
    uint32_t family;
    uint32_t timestamp_bits; /* of the queue, 0: none */
    uint32_t index;          /* of the device, as --device counts */
    bool size_control;       /* pipelines can require a subgroup size */
    bool full_subgroups;
    bool validate;
} Device;

/* One buffer in an allocation of its own. */
typedef struct {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint8_t *mapped; /* NULL if the host cannot see it */
    uint64_t bytes;
    VkMemoryPropertyFlags flags;
} Zone;

/* Opens device `index`, or with -1 the best one that the plan can run on: discrete, integrated,
 * virtual, then CPU. */
bool device_init(Device *d, const Plan *p, int index);
void device_finish(
    Device *d); /* reports validation messages as a failure; accepts half-built devices */

/* Allocates, binds and maps. `name` is for messages. A zone that fails is left empty or
 * half-built. */
bool zone_init(Zone *z, const Device *d, const char *name, ZoneKind kind, uint64_t bytes);
void zone_finish(Zone *z, const Device *d);

/* True for success; otherwise prints what failed and what can be done. */
bool device_check(VkResult r, const char *call);
bool device_fault(void);
#define VK_TRY(call, ...) (device_fault() ? VK_ERROR_OUT_OF_DEVICE_MEMORY : call(__VA_ARGS__))
#define VK_CHECK(call, ...) device_check(VK_TRY(call, __VA_ARGS__), #call)
#endif
