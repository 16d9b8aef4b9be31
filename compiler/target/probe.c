/* probe.c - the local device as a profile: the same schema that vulkaninfo writes, with only what
 * profile.c and rules.c read.
 *
 * Devices are ordered discrete, integrated, virtual, other, CPU, each in the driver's order; an
 * index counts in this order. What the schema has no place for (memory, cooperative matrix shapes,
 * compute units, timings) goes into a section "qcc". */
#include "probe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char get_driver[] = "install the loader and a driver (Debian, Ubuntu: libvulkan1 and "
                                 "mesa-vulkan-drivers, which runs on any CPU too), or name "
                                 "another target ('qcc targets' lists them)";

void probe_check(VkResult r, const ProbeDevice *d, const char *what) {
    if (r == VK_SUCCESS || r == VK_INCOMPLETE) return;
    const char *why = r == VK_ERROR_DEVICE_LOST ? "the device was lost"
                      : r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY
                          ? "out of memory"
                      : r == VK_TIMEOUT ? "the device did not finish in time"
                                        : "the driver failed";
    fail(FAIL_ENVIRONMENT, "probing %s: %s: %s (VkResult %d)", d->properties.deviceName, what, why,
         (int)r);
}

/* ---- instance and devices -------------------------------------------------------------------- */

static void instance_release(void *i) { vkDestroyInstance((VkInstance)i, NULL); }

static VkInstance open_instance(Arena *a, uint32_t *version) {
    if (volkInitialize() != VK_SUCCESS)
        fail(FAIL_ENVIRONMENT, "no Vulkan loader (libvulkan.so.1): %s", get_driver);
    uint32_t loader = volkGetInstanceVersion();
    *version = loader < VK_API_VERSION_1_3 ? loader : VK_API_VERSION_1_3;
    if (loader < VK_API_VERSION_1_1)
        fail(FAIL_ENVIRONMENT, "the Vulkan loader is older than Vulkan 1.1: %s", get_driver);
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "qcc",
                             .apiVersion = *version};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app};
    VkInstance instance = VK_NULL_HANDLE;
    VkResult r = vkCreateInstance(&info, NULL, &instance);
    if (r != VK_SUCCESS)
        fail(FAIL_ENVIRONMENT, "no Vulkan driver works here (VkResult %d): %s", (int)r, get_driver);
    arena_defer(a, instance_release, instance);
    volkLoadInstance(instance);
    return instance;
}

static int type_rank(VkPhysicalDeviceType t) {
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 4;
    default: return 3;
    }
}

static VkPhysicalDevice choose_device(Arena *a, VkInstance instance, uint32_t index) {
    uint32_t n = 0;
    VkResult r = vkEnumeratePhysicalDevices(instance, &n, NULL);
    if (r != VK_SUCCESS || n == 0)
        fail(FAIL_ENVIRONMENT, "no Vulkan device on this machine: %s", get_driver);
    VkPhysicalDevice *all = ARENA_ARRAY(a, VkPhysicalDevice, n);
    r = vkEnumeratePhysicalDevices(instance, &n, all);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        fail(FAIL_ENVIRONMENT, "the Vulkan driver lists no devices (VkResult %d)", (int)r);
    Text names = {.arena = a};
    uint32_t seen = 0;
    for (int rank = 0; rank <= 4; rank++)
        for (uint32_t i = 0; i < n; i++) {
            VkPhysicalDeviceProperties p;
            vkGetPhysicalDeviceProperties(all[i], &p);
            if (type_rank(p.deviceType) != rank) continue;
            if (seen == index) return all[i];
            text_printf(&names, "%s%u %s", seen ? ", " : "", seen, p.deviceName);
            seen++;
        }
    fail(FAIL_USER, "no device %u on this machine; there are: %s", index, names.s);
}

static void list_extensions(ProbeDevice *d) {
    probe_check(vkEnumerateDeviceExtensionProperties(d->device, NULL, &d->n_extensions, NULL), d,
                "extensions");
    d->extensions = ARENA_ARRAY(d->arena, VkExtensionProperties, d->n_extensions);
    probe_check(vkEnumerateDeviceExtensionProperties(d->device, NULL, &d->n_extensions,
                                                     d->extensions),
                d, "extensions");
}

bool probe_extension(const ProbeDevice *d, const char *name) {
    for (uint32_t i = 0; i < d->n_extensions; i++)
        if (strcmp(d->extensions[i].extensionName, name) == 0) return true;
    return false;
}

static void open_device(ProbeDevice *d, uint32_t index) {
    uint32_t instance_version;
    d->instance = open_instance(d->arena, &instance_version);
    d->device = choose_device(d->arena, d->instance, index);
    vkGetPhysicalDeviceProperties(d->device, &d->properties);
    vkGetPhysicalDeviceMemoryProperties(d->device, &d->memory);
    d->api_version = d->properties.apiVersion < instance_version ? d->properties.apiVersion
                                                                 : instance_version;
    if (d->api_version < VK_API_VERSION_1_1)
        fail(FAIL_ENVIRONMENT, "%s: Vulkan %u.%u: qcc needs a device with Vulkan 1.1 or newer",
             d->properties.deviceName, VK_API_VERSION_MAJOR(d->api_version),
             VK_API_VERSION_MINOR(d->api_version));
    list_extensions(d);
}

/* ---- the qcc section ------------------------------------------------------------------------- */

#ifdef VK_KHR_cooperative_matrix
static const char *component_name(VkComponentTypeKHR c) {
    switch (c) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR: return "f16";
    case VK_COMPONENT_TYPE_FLOAT32_KHR: return "f32";
    case VK_COMPONENT_TYPE_FLOAT64_KHR: return "f64";
    case VK_COMPONENT_TYPE_SINT8_KHR: return "s8";
    case VK_COMPONENT_TYPE_SINT32_KHR: return "s32";
    case VK_COMPONENT_TYPE_UINT8_KHR: return "u8";
    case VK_COMPONENT_TYPE_UINT32_KHR: return "u32";
    default: return "other";
    }
}

static json_t *coopmat_entry(const VkCooperativeMatrixPropertiesKHR *p) {
    const char *scope = p->scope == VK_SCOPE_SUBGROUP_KHR    ? "subgroup"
                        : p->scope == VK_SCOPE_WORKGROUP_KHR ? "workgroup"
                                                             : "other";
    return json_pack("{s:I,s:I,s:I,s:s,s:s,s:s,s:s,s:s}", "m", (json_int_t)p->MSize, "n",
                     (json_int_t)p->NSize, "k", (json_int_t)p->KSize, "a", component_name(p->AType),
                     "b", component_name(p->BType), "c", component_name(p->CType), "result",
                     component_name(p->ResultType), "scope", scope);
}
#endif

static json_t *coopmat_json(const ProbeDevice *d) {
    json_t *list = json_array();
    (void)d;
#ifdef VK_KHR_cooperative_matrix
    uint32_t n = 0;
    if (!probe_extension(d, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) ||
        !vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        return list;
    if (vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(d->device, &n, NULL) != VK_SUCCESS)
        return list;
    VkCooperativeMatrixPropertiesKHR *p = ARENA_ARRAY(d->arena, VkCooperativeMatrixPropertiesKHR,
                                                      n);
    for (uint32_t i = 0; i < n; i++)
        p[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    VkResult r = vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(d->device, &n, p);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE) return list;
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, coopmat_entry(&p[i]));
#endif
    return list;
}

static uint64_t device_heap(const VkPhysicalDeviceMemoryProperties *m) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++)
        if (m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            m->memoryHeaps[i].size > largest)
            largest = m->memoryHeaps[i].size;
    return largest;
}

/* All heaps are the device's own, and the host can map a type of it. */
static bool memory_unified(const VkPhysicalDeviceMemoryProperties *m) {
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                       VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    bool mapped = false;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++)
        if (!(m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) return false;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        mapped |= (m->memoryTypes[i].propertyFlags & both) == both;
    return mapped;
}

static json_t *rounded(double x) /* four digits are more than a timing has */
{
    char s[32];
    snprintf(s, sizeof s, "%.4g", x);
    return json_real(strtod(s, NULL));
}

static json_t *qcc_json(ProbeDevice *d, bool measure) {
    json_t *o = json_object();
    json_object_set_new(o, "device_heap_bytes", describe_whole(device_heap(&d->memory)));
    json_object_set_new(o, "unified", json_boolean(memory_unified(&d->memory)));
    if (d->n_units) json_object_set_new(o, "n_units", describe_whole(d->n_units));
    json_object_set_new(o, "coopmat", coopmat_json(d));
    if (!measure) return o;
    Measured m = measure_device(d);
    json_t *j = json_object();
    json_object_set_new(j, "read_gbps", rounded(m.read_gbps));
    json_object_set_new(j, "dispatch_us", rounded(m.dispatch_us));
    json_object_set_new(j, "barrier_us", rounded(m.barrier_us));
    json_object_set_new(j, "submit_us", rounded(m.submit_us));
    json_object_set_new(j, "flops_gf", rounded(m.flops_gf));
    if (m.idot_gops > 0) json_object_set_new(j, "idot_gops", rounded(m.idot_gops));
    json_object_set_new(o, "measured", j);
    return o;
}

/* ---- the profile ----------------------------------------------------------------------------- */

static void json_release(void *v) { json_decref(v); }

static json_t *profile_entry(const ProbeDevice *d) {
    const char *version = arena_printf(d->arena, "%u.%u.%u",
                                       VK_API_VERSION_MAJOR(d->properties.apiVersion),
                                       VK_API_VERSION_MINOR(d->properties.apiVersion),
                                       VK_API_VERSION_PATCH(d->properties.apiVersion));
    return json_pack("{s:i,s:s,s:s,s:s,s:[s]}", "version", 1, "api-version", version, "label",
                     d->properties.deviceName, "description",
                     "Written by qcc probe: the part of the device's profile that qcc reads",
                     "capabilities", "device");
}

static const char *device_json(ProbeDevice *d, bool measure) {
    json_t *root = json_object();
    arena_defer(d->arena, json_release, root);
    json_object_set_new(root, "$schema",
                        json_string("https://schema.khronos.org/vulkan/profiles-0.8-latest.json#"));
    json_t *block = json_object();
    json_object_set_new(root, "capabilities", json_pack("{s:o}", "device", block));
    json_object_set_new(block, "extensions", describe_extensions(d));
    json_object_set_new(block, "features", describe_features(d));
    json_object_set_new(block, "properties", describe_properties(d));
    json_object_set_new(root, "profiles", json_pack("{s:o}", "VP_QCC_device", profile_entry(d)));
    json_object_set_new(root, "qcc", qcc_json(d, measure));
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    if (!text)
        fail(FAIL_ENVIRONMENT, "probing %s: the profile could not be written (out of memory?)",
             d->properties.deviceName);
    arena_defer(d->arena, free, text);
    return text;
}

char *target_probe_json(Arena *a, uint32_t device, bool measure) {
    FailTrap trap;
    Arena *scratch =
        arena_create(); /* owns instance and device: they go before this function returns */
    if (fail_catch(&trap)) {
        arena_destroy(scratch);
        fail(trap.kind, "%s", trap.message);
    }
    ProbeDevice *d = ARENA_NEW(scratch, ProbeDevice);
    d->arena = scratch;
    open_device(d, device);
    char *text = arena_printf(a, "%s\n", device_json(d, measure));
    fail_pop(&trap);
    arena_destroy(scratch);
    return text;
}
