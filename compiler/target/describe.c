/* describe.c - a device's extensions, features and properties as the profile schema writes them:
 * what profile.c and rules.c read, and nothing else. */
#include "probe.h"
#include <string.h>

/* ---- identity and limits --------------------------------------------------------------------- */

json_t *describe_whole(uint64_t x) {
    return json_integer(x > INT64_MAX ? INT64_MAX : (json_int_t)x);
}

static json_t *whole3(const uint32_t x[3]) {
    return json_pack("[I,I,I]", (json_int_t)x[0], (json_int_t)x[1], (json_int_t)x[2]);
}

static json_t *flag(VkBool32 b) { return json_boolean(b); }

static json_t *stages(VkShaderStageFlags f) {
    return f & VK_SHADER_STAGE_COMPUTE_BIT ? json_pack("[s]", "VK_SHADER_STAGE_COMPUTE_BIT")
                                           : json_array();
}

static json_t *subgroup_operations(VkSubgroupFeatureFlags f) {
    static const char *const names[] = {
        "VK_SUBGROUP_FEATURE_BASIC_BIT",      "VK_SUBGROUP_FEATURE_VOTE_BIT",
        "VK_SUBGROUP_FEATURE_ARITHMETIC_BIT", "VK_SUBGROUP_FEATURE_BALLOT_BIT",
        "VK_SUBGROUP_FEATURE_SHUFFLE_BIT",    "VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT",
        "VK_SUBGROUP_FEATURE_CLUSTERED_BIT",  "VK_SUBGROUP_FEATURE_QUAD_BIT",
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (f >> i & 1) json_array_append_new(list, json_string(names[i]));
    return list;
}

static const char *type_name(VkPhysicalDeviceType t) {
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "VK_PHYSICAL_DEVICE_TYPE_CPU";
    default: return "VK_PHYSICAL_DEVICE_TYPE_OTHER";
    }
}

static json_t *limits_json(const VkPhysicalDeviceLimits *l) {
    json_t *o = json_object();
    json_object_set_new(o, "maxComputeSharedMemorySize",
                        describe_whole(l->maxComputeSharedMemorySize));
    json_object_set_new(o, "maxComputeWorkGroupCount", whole3(l->maxComputeWorkGroupCount));
    json_object_set_new(o, "maxComputeWorkGroupInvocations",
                        describe_whole(l->maxComputeWorkGroupInvocations));
    json_object_set_new(o, "maxComputeWorkGroupSize", whole3(l->maxComputeWorkGroupSize));
    json_object_set_new(o, "maxDescriptorSetStorageBuffers",
                        describe_whole(l->maxDescriptorSetStorageBuffers));
    json_object_set_new(o, "maxPerStageDescriptorStorageBuffers",
                        describe_whole(l->maxPerStageDescriptorStorageBuffers));
    json_object_set_new(o, "maxStorageBufferRange", describe_whole(l->maxStorageBufferRange));
    json_object_set_new(o, "minStorageBufferOffsetAlignment",
                        describe_whole(l->minStorageBufferOffsetAlignment));
    return o;
}

static json_t *identity_json(const VkPhysicalDeviceProperties *p) {
    json_t *o = json_object();
    json_object_set_new(o, "apiVersion", describe_whole(p->apiVersion));
    json_object_set_new(o, "deviceID", describe_whole(p->deviceID));
    json_object_set_new(o, "deviceName", json_string(p->deviceName));
    json_object_set_new(o, "deviceType", json_string(type_name(p->deviceType)));
    json_object_set_new(o, "driverVersion", describe_whole(p->driverVersion));
    json_object_set_new(o, "vendorID", describe_whole(p->vendorID));
    json_object_set_new(o, "limits", limits_json(&p->limits));
    return o;
}

/* ---- properties and features ----
 *
 * A structure is asked for, and written, only if the device's version or an extension has it. */

/* Chains a structure in front of the others. */
#define CHAIN(head, s, type) ((s).sType = (type), (s).pNext = (head).pNext, (head).pNext = &(s))
#define VERSION_OR(d, version, extension)                                                          \
    ((d)->api_version >= (version) || probe_extension((d), (extension)))

json_t *describe_properties(ProbeDevice *d) {
    VkPhysicalDeviceProperties2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    VkPhysicalDeviceSubgroupProperties subgroup = {0};
    VkPhysicalDeviceMaintenance3Properties allocation = {0};
    VkPhysicalDeviceMaintenance4Properties buffer = {0};
    VkPhysicalDeviceSubgroupSizeControlProperties control = {0};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {0};
    VkPhysicalDeviceFloatControlsProperties floats = {0};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {0};
    VkPhysicalDeviceShaderCoreProperties2AMD cu = {0};
    bool has_buffer = VERSION_OR(d, VK_API_VERSION_1_3, "VK_KHR_maintenance4");
    bool has_control = VERSION_OR(d, VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control");
    bool has_dot = VERSION_OR(d, VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product");
    bool has_floats = VERSION_OR(d, VK_API_VERSION_1_2, "VK_KHR_shader_float_controls");
    CHAIN(head, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    CHAIN(head, allocation, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    if (has_buffer) CHAIN(head, buffer, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (has_control)
        CHAIN(head, control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    if (has_dot)
        CHAIN(head, dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
    if (has_floats)
        CHAIN(head, floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
    if (probe_extension(d, "VK_NV_shader_sm_builtins"))
        CHAIN(head, sm, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    if (probe_extension(d, "VK_AMD_shader_core_properties2"))
        CHAIN(head, cu, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD);
    vkGetPhysicalDeviceProperties2(d->device, &head);
    d->max_allocation = allocation.maxMemoryAllocationSize;
    d->n_units = sm.shaderSMCount ? sm.shaderSMCount : cu.activeComputeUnitCount;

    json_t *o = json_pack("{s:o}", "VkPhysicalDeviceProperties", identity_json(&d->properties));
    json_object_set_new(o, "VkPhysicalDeviceMaintenance3Properties",
                        json_pack("{s:o}", "maxMemoryAllocationSize",
                                  describe_whole(allocation.maxMemoryAllocationSize)));
    json_object_set_new(o, "VkPhysicalDeviceSubgroupProperties",
                        json_pack("{s:o,s:o,s:o}", "subgroupSize",
                                  describe_whole(subgroup.subgroupSize), "supportedOperations",
                                  subgroup_operations(subgroup.supportedOperations),
                                  "supportedStages", stages(subgroup.supportedStages)));
    if (has_buffer)
        json_object_set_new(o, "VkPhysicalDeviceMaintenance4Properties",
                            json_pack("{s:o}", "maxBufferSize",
                                      describe_whole(buffer.maxBufferSize)));
    if (has_control)
        json_object_set_new(o, "VkPhysicalDeviceSubgroupSizeControlProperties",
                            json_pack("{s:o,s:o,s:o}", "minSubgroupSize",
                                      describe_whole(control.minSubgroupSize), "maxSubgroupSize",
                                      describe_whole(control.maxSubgroupSize),
                                      "requiredSubgroupSizeStages",
                                      stages(control.requiredSubgroupSizeStages)));
    if (has_dot)
        json_object_set_new(o, "VkPhysicalDeviceShaderIntegerDotProductProperties",
                            json_pack("{s:o}", "integerDotProduct4x8BitPackedSignedAccelerated",
                                      flag(dot.integerDotProduct4x8BitPackedSignedAccelerated)));
    if (has_floats)
        json_object_set_new(o, "VkPhysicalDeviceFloatControlsProperties",
                            json_pack("{s:o}", "shaderDenormPreserveFloat16",
                                      flag(floats.shaderDenormPreserveFloat16)));
    return o;
}

static void set_features(json_t *o, const char *name, json_t *fields) {
    json_object_set_new(o, name, fields);
}

/* The features of newer extensions, where the headers of this build know them. */
static void coopmat_features(const ProbeDevice *d, json_t *o) {
    (void)d, (void)o;
#ifdef VK_KHR_cooperative_matrix
    if (probe_extension(d, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
        VkPhysicalDeviceFeatures2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
        VkPhysicalDeviceCooperativeMatrixFeaturesKHR f = {0};
        CHAIN(head, f, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
        vkGetPhysicalDeviceFeatures2(d->device, &head);
        set_features(o, "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
                     json_pack("{s:o}", "cooperativeMatrix", flag(f.cooperativeMatrix)));
    }
#endif
#ifdef VK_NV_cooperative_matrix2
    if (probe_extension(d, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) {
        VkPhysicalDeviceFeatures2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
        VkPhysicalDeviceCooperativeMatrix2FeaturesNV f = {0};
        CHAIN(head, f, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
        vkGetPhysicalDeviceFeatures2(d->device, &head);
        json_t *j = json_object();
        json_object_set_new(j, "cooperativeMatrixWorkgroupScope",
                            flag(f.cooperativeMatrixWorkgroupScope));
        json_object_set_new(j, "cooperativeMatrixFlexibleDimensions",
                            flag(f.cooperativeMatrixFlexibleDimensions));
        json_object_set_new(j, "cooperativeMatrixReductions", flag(f.cooperativeMatrixReductions));
        json_object_set_new(j, "cooperativeMatrixConversions",
                            flag(f.cooperativeMatrixConversions));
        json_object_set_new(j, "cooperativeMatrixPerElementOperations",
                            flag(f.cooperativeMatrixPerElementOperations));
        json_object_set_new(j, "cooperativeMatrixTensorAddressing",
                            flag(f.cooperativeMatrixTensorAddressing));
        json_object_set_new(j, "cooperativeMatrixBlockLoads", flag(f.cooperativeMatrixBlockLoads));
        set_features(o, "VkPhysicalDeviceCooperativeMatrix2FeaturesNV", j);
    }
#endif
}

json_t *describe_features(ProbeDevice *d) {
    VkPhysicalDeviceFeatures2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDevice16BitStorageFeatures s16 = {0};
    VkPhysicalDevice8BitStorageFeatures s8 = {0};
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic = {0};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {0};
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {0};
    VkPhysicalDeviceBufferDeviceAddressFeatures address = {0};
    bool has_control = VERSION_OR(d, VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control");
    CHAIN(head, s16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    if (VERSION_OR(d, VK_API_VERSION_1_2, "VK_KHR_8bit_storage"))
        CHAIN(head, s8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    if (VERSION_OR(d, VK_API_VERSION_1_2, "VK_KHR_shader_float16_int8"))
        CHAIN(head, arithmetic, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    if (VERSION_OR(d, VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product"))
        CHAIN(head, dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    if (has_control)
        CHAIN(head, control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    if (VERSION_OR(d, VK_API_VERSION_1_2, "VK_KHR_buffer_device_address"))
        CHAIN(head, address, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
    vkGetPhysicalDeviceFeatures2(d->device, &head);
    d->integer_dot = dot.shaderIntegerDotProduct;

    json_t *o = json_object();
    set_features(o, "VkPhysicalDevice16BitStorageFeatures",
                 json_pack("{s:o}", "storageBuffer16BitAccess",
                           flag(s16.storageBuffer16BitAccess)));
    set_features(o, "VkPhysicalDevice8BitStorageFeatures",
                 json_pack("{s:o}", "storageBuffer8BitAccess", flag(s8.storageBuffer8BitAccess)));
    set_features(o, "VkPhysicalDeviceShaderFloat16Int8Features",
                 json_pack("{s:o,s:o}", "shaderFloat16", flag(arithmetic.shaderFloat16),
                           "shaderInt8", flag(arithmetic.shaderInt8)));
    set_features(o, "VkPhysicalDeviceShaderIntegerDotProductFeatures",
                 json_pack("{s:o}", "shaderIntegerDotProduct", flag(dot.shaderIntegerDotProduct)));
    set_features(o, "VkPhysicalDeviceSubgroupSizeControlFeatures",
                 json_pack("{s:o,s:o}", "subgroupSizeControl", flag(control.subgroupSizeControl),
                           "computeFullSubgroups", flag(control.computeFullSubgroups)));
    set_features(o, "VkPhysicalDeviceBufferDeviceAddressFeatures",
                 json_pack("{s:o}", "bufferDeviceAddress", flag(address.bufferDeviceAddress)));
    coopmat_features(d, o);
    return o;
}

json_t *describe_extensions(const ProbeDevice *d) {
    static const char *const read[] = {
        "VK_KHR_16bit_storage",
        "VK_KHR_8bit_storage",
        "VK_KHR_buffer_device_address",
        "VK_KHR_cooperative_matrix",
        "VK_KHR_shader_float16_int8",
        "VK_KHR_shader_float_controls",
        "VK_KHR_shader_integer_dot_product",
        "VK_EXT_subgroup_size_control",
        "VK_NV_cooperative_matrix2",
    };
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        for (uint32_t k = 0; k < d->n_extensions; k++)
            if (strcmp(d->extensions[k].extensionName, read[i]) == 0)
                json_object_set_new(o, read[i], describe_whole(d->extensions[k].specVersion));
    return o;
}
