/* needs.h - what a physical device has, compared with what the plan demands. */
#ifndef QCC_NEEDS_H
#define QCC_NEEDS_H
#include "device.h"

/* Feature structures of one device, linked in a chain from `core`. Only those that the device knows
 * are linked. */
typedef struct {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features f16_int8;
    VkPhysicalDeviceSubgroupSizeControlFeatures size_control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceBufferDeviceAddressFeatures bda;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
#ifdef VK_KHR_cooperative_matrix
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coopmat;
#endif
#ifdef VK_NV_cooperative_matrix2
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV coopmat2;
#endif
} Features;

enum { NEEDS_MAX_EXTENSIONS = 16 };
typedef struct {
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeControlProperties size_range;
    uint64_t max_allocation, max_buffer;
    uint32_t api_version; /* that can be used: the smaller of device and instance */
    uint32_t family;      /* UINT32_MAX: no compute queue */
    VkExtensionProperties *extensions;
    uint32_t n_extensions;
    Features has;
} Found;

bool needs_query(Found *f, VkPhysicalDevice physical, uint32_t instance_version);
void needs_finish(Found *f);
/* How many demands the device does not meet; prints a line for each of them if asked to. */
unsigned needs_check(const Found *f, const Plan *p, bool print);
/* The features and extensions to create the device with. f must have passed the check. */
uint32_t needs_enable(const Found *f, const Plan *p, Features *enable,
                      const char *extensions[NEEDS_MAX_EXTENSIONS]);
#endif
