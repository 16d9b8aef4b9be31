/* profile.c - Vulkan-Profiles JSON -> Target.
 *
 * Three kinds of writers are read: vulkaninfo --json (structures without suffix, all names), the
 * public dumps of real devices (extension structures with their suffix, no device name or type),
 * and requirement profiles such as Android's, which state only what they add. A field that nobody
 * states takes the value that Vulkan requires of every device (specification, chapter "Limits",
 * table "Required Limits"). Numbers are read as doubles: some writers print 2^64-1, and all limits
 * that decide are below 2^53 or mean "no limit". */
#include "internal.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- finding fields -------------------------------------------------------------------------- */

static const json_t *block_field(const json_t *block, const char *section, const char *name,
                                 const char *field) {
    return json_object_get(json_object_get(json_object_get(block, section), name), field);
}

const json_t *profile_find(const Profile *p, const char *section, const char *structs,
                           const char *field) {
    static const char *const suffixes[] = {"", "KHR"};
    for (const char *s = structs; *s;) {
        int n = (int)strcspn(s, " ");
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
            const char *name = arena_printf(p->arena, "VkPhysicalDevice%.*s%s", n, s, suffixes[k]);
            for (size_t b = 0; b < p->n_blocks; b++) {
                const json_t *v = block_field(p->blocks[b], section, name, field);
                if (v) return v;
            }
        }
        s += n;
        s += strspn(s, " ");
    }
    return NULL;
}

static _Noreturn void wrong_type(const Profile *p, const char *field, const char *expected) {
    fail(FAIL_USER, "%s: %s: expected %s", p->where, field, expected);
}

Says profile_bool(const Profile *p, const char *section, const char *structs, const char *field) {
    const json_t *v = profile_find(p, section, structs, field);
    if (!v) return SAYS_NOTHING;
    if (json_is_boolean(v)) return json_is_true(v) ? SAYS_YES : SAYS_NO;
    if (json_is_number(v)) return json_number_value(v) != 0 ? SAYS_YES : SAYS_NO;
    wrong_type(p, field, "true or false");
}

/* Saturates: what a 32- or 64-bit field cannot hold means "no limit". */
static uint64_t number_u64(const Profile *p, const char *field, const json_t *v) {
    double x = json_is_number(v) ? json_number_value(v) : -1;
    if (!(x >= 0)) wrong_type(p, field, "a number that is not negative");
    return x >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)x;
}

static uint32_t saturate_u32(uint64_t x) { return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x; }

uint64_t profile_u64(const Profile *p, const char *structs, const char *field, uint64_t absent) {
    const json_t *v = profile_find(p, "properties", structs, field);
    return v ? number_u64(p, field, v) : absent;
}

const char *profile_string(const Profile *p, const char *structs, const char *field) {
    const json_t *v = profile_find(p, "properties", structs, field);
    return json_is_string(v) ? json_string_value(v) : NULL;
}

Says profile_flag(const Profile *p, const char *structs, const char *field, const char *name,
                  uint64_t bit) {
    const json_t *v = profile_find(p, "properties", structs, field);
    if (!v) return SAYS_NOTHING;
    if (json_is_number(v)) return number_u64(p, field, v) & bit ? SAYS_YES : SAYS_NO;
    if (!json_is_array(v)) wrong_type(p, field, "a list of flags");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *s = json_string_value(json_array_get(v, i));
        if (s && strcmp(s, name) == 0) return SAYS_YES;
    }
    return SAYS_NO;
}

bool profile_extension(const Profile *p, const char *name) {
    for (size_t b = 0; b < p->n_blocks; b++)
        if (json_object_get(json_object_get(p->blocks[b], "extensions"), name)) return true;
    return false;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The limits of VkPhysicalDeviceProperties, one object that any block may state in part. */
static const json_t *limit(const Profile *p, const char *field) {
    for (size_t b = 0; b < p->n_blocks; b++) {
        const json_t *v = json_object_get(block_field(p->blocks[b], "properties",
                                                      "VkPhysicalDeviceProperties", "limits"),
                                          field);
        if (v) return v;
    }
    return NULL;
}

static uint64_t limit_u64(const Profile *p, const char *field, uint64_t required) {
    const json_t *v = limit(p, field);
    return v ? number_u64(p, field, v) : required;
}

static uint32_t limit_u32(const Profile *p, const char *field, uint32_t required) {
    return saturate_u32(limit_u64(p, field, required));
}

static void limit_u32x3(const Profile *p, const char *field, uint32_t out[3]) {
    const json_t *v = limit(p, field);
    if (!v) return;
    if (!json_is_array(v) || json_array_size(v) != 3) wrong_type(p, field, "three numbers");
    for (size_t i = 0; i < 3; i++)
        out[i] = saturate_u32(number_u64(p, field, json_array_get(v, i)));
}

static void check_positive(const Profile *p, uint64_t x, const char *field) {
    if (x == 0)
        fail(FAIL_USER, "%s: %s is 0: the profile is damaged; write a new one with 'qcc probe'",
             p->where, field);
}

static void read_limits(const Profile *p, Target *t) {
    t->max_storage_range = limit_u32(p, "maxStorageBufferRange", 1u << 27);
    uint32_t per_stage = limit_u32(p, "maxPerStageDescriptorStorageBuffers", 4);
    uint32_t per_set = limit_u32(p, "maxDescriptorSetStorageBuffers", 24);
    t->max_storage_bindings = per_stage < per_set ? per_stage : per_set;
    t->storage_alignment = limit_u32(p, "minStorageBufferOffsetAlignment", 256);
    memcpy(t->max_groups, (uint32_t[3]){65535, 65535, 65535}, sizeof t->max_groups);
    limit_u32x3(p, "maxComputeWorkGroupCount", t->max_groups);
    memcpy(t->max_local, (uint32_t[3]){128, 128, 64}, sizeof t->max_local);
    limit_u32x3(p, "maxComputeWorkGroupSize", t->max_local);
    t->max_invocations = limit_u32(p, "maxComputeWorkGroupInvocations", 128);
    t->shared_bytes = limit_u32(p, "maxComputeSharedMemorySize", 16384);
    t->max_allocation = profile_u64(p, "Vulkan11Properties Maintenance3Properties",
                                    "maxMemoryAllocationSize", 1u << 30);
    /* Without maintenance4 a buffer is bounded by the allocation behind it. */
    t->max_buffer = profile_u64(p, "Vulkan13Properties Maintenance4Properties", "maxBufferSize",
                                t->max_allocation);
    check_positive(p, t->max_storage_range, "maxStorageBufferRange");
    check_positive(p, t->max_storage_bindings, "the number of storage buffers");
    check_positive(p, t->storage_alignment, "minStorageBufferOffsetAlignment");
    check_positive(p, t->max_invocations, "maxComputeWorkGroupInvocations");
    check_positive(p, t->max_allocation, "maxMemoryAllocationSize");
    check_positive(p, t->max_buffer, "maxBufferSize");
    if (t->storage_alignment & (t->storage_alignment - 1))
        fail(FAIL_USER, "%s: minStorageBufferOffsetAlignment is %u, which is no power of two",
             p->where, t->storage_alignment);
    for (int i = 0; i < 3; i++) {
        check_positive(p, t->max_groups[i], "maxComputeWorkGroupCount");
        check_positive(p, t->max_local[i], "maxComputeWorkGroupSize");
    }
}

/* A profile that does not state the subgroup's size promises none: 1 to 128, and no subgroup
 * operations (rules.c). */
static void read_subgroup(const Profile *p, Target *t) {
    t->subgroup = saturate_u32(
        profile_u64(p, "Vulkan11Properties SubgroupProperties", "subgroupSize", 0));
    const char *control =
        "Vulkan13Properties SubgroupSizeControlProperties SubgroupSizeControlPropertiesEXT";
    uint32_t none_min = t->subgroup ? t->subgroup : 1, none_max = t->subgroup ? t->subgroup : 128;
    t->subgroup_min = saturate_u32(profile_u64(p, control, "minSubgroupSize", none_min));
    t->subgroup_max = saturate_u32(profile_u64(p, control, "maxSubgroupSize", none_max));
    if (t->subgroup == 0) t->subgroup = 1;
    if (t->subgroup_min == 0 || t->subgroup_min > t->subgroup || t->subgroup > t->subgroup_max)
        fail(FAIL_USER,
             "%s: subgroup size %u is not between minSubgroupSize %u and maxSubgroupSize %u",
             p->where, t->subgroup, t->subgroup_min, t->subgroup_max);
}

/* ---- identity -------------------------------------------------------------------------------- */

/* "1.3.273" as Vulkan encodes it, without the patch; 0 if it is not a version. */
static uint32_t version_parse(const char *s) {
    unsigned major = 0, minor = 0;
    char dot = 0;
    if (!s || sscanf(s, "%3u%c%3u", &major, &dot, &minor) != 3 || dot != '.') return 0;
    return (major & 0x7f) << 22 | (minor & 0x3ff) << 12;
}

/* What qcc makes use of is Vulkan 1.3 at most; kernels of a 1.4 device are the same. */
static void read_version(const Profile *p, Target *t) {
    enum { VULKAN_1_1 = 1 << 22 | 1 << 12, VULKAN_1_3 = 1 << 22 | 3 << 12 };
    uint32_t device = saturate_u32(profile_u64(p, "Properties", "apiVersion", 0)) & 0xfffff000u;
    if (!device)
        device = version_parse(json_string_value(json_object_get(p->profile, "api-version")));
    if (!device)
        fail(FAIL_USER, "%s: no Vulkan version: neither apiVersion nor a valid api-version",
             p->where);
    if (device < VULKAN_1_1)
        fail(FAIL_USER, "%s: Vulkan %u.%u: qcc needs a device with Vulkan 1.1 or newer", p->where,
             device >> 22 & 0x7f, device >> 12 & 0x3ff);
    t->api_version = device < VULKAN_1_3 ? device : VULKAN_1_3;
}

/* The device's name, or the profile's label, which the public dumps write as "NAME driver VERSION
 * on SYSTEM". */
static const char *device_name(const Profile *p) {
    const char *s = profile_string(p, "Properties", "deviceName");
    if (!s) s = json_string_value(json_object_get(p->profile, "label"));
    if (!s) s = p->where;
    const char *end = strstr(s, " driver ");
    return printable(p->arena, s, end ? (size_t)(end - s) : strlen(s), 120);
}

/* ---- the qcc section: what the schema has no place for --------------------------------------- */

static float qcc_float(const Profile *p, const json_t *section, const char *field) {
    const json_t *v = json_object_get(section, field);
    if (!v) return 0;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= 0) || x > 1e18)
        wrong_type(p, field, "a number that is not negative");
    return (float)x;
}

static bool is_text(const json_t *v, const char *s) {
    return json_is_string(v) && strcmp(json_string_value(v), s) == 0;
}

/* Shapes of f16 x f16 + f32 in subgroup scope; others are passed over. */
static void read_coopmat(const Profile *p, const json_t *list, Target *t) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        if (!is_text(json_object_get(e, "a"), "f16") || !is_text(json_object_get(e, "b"), "f16") ||
            !is_text(json_object_get(e, "c"), "f32") ||
            !is_text(json_object_get(e, "result"), "f32") ||
            !is_text(json_object_get(e, "scope"), "subgroup"))
            continue;
        if (t->n_coopmat == sizeof t->coopmat / sizeof *t->coopmat) return;
        CoopmatShape *s = &t->coopmat[t->n_coopmat++];
        s->m = saturate_u32(number_u64(p, "coopmat m", json_object_get(e, "m")));
        s->n = saturate_u32(number_u64(p, "coopmat n", json_object_get(e, "n")));
        s->k = saturate_u32(number_u64(p, "coopmat k", json_object_get(e, "k")));
    }
}

static void read_qcc(const Profile *p, Target *t) {
    const json_t *q = json_object_get(p->root, "qcc"), *m = json_object_get(q, "measured");
    if (!q) return;
    const json_t *heap = json_object_get(q, "device_heap_bytes"),
                 *units = json_object_get(q, "n_units");
    if (heap) t->device_heap = number_u64(p, "device_heap_bytes", heap);
    if (units) t->n_units = saturate_u32(number_u64(p, "n_units", units));
    t->unified = json_is_true(json_object_get(q, "unified"));
    read_coopmat(p, json_object_get(q, "coopmat"), t);
    if (!m) return;
    t->measured = true;
    t->read_gbps = qcc_float(p, m, "read_gbps");
    t->dispatch_us = qcc_float(p, m, "dispatch_us");
    t->barrier_us = qcc_float(p, m, "barrier_us");
    t->submit_us = qcc_float(p, m, "submit_us");
    t->flops_gf = qcc_float(p, m, "flops_gf");
    t->idot_gops = qcc_float(p, m, "idot_gops");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void json_release(void *v) { json_decref(v); }

/* Collects the blocks that the profile guarantees: names, and lists of alternatives that leave no
 * choice. */
static void collect_blocks(Profile *p) {
    const json_t *all = json_object_get(p->root, "capabilities"),
                 *names = json_object_get(p->profile, "capabilities");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *n = json_array_get(names, i);
        if (json_is_array(n) && json_array_size(n) == 1) n = json_array_get(n, 0);
        if (!json_is_string(n)) continue;
        const json_t *block = json_object_get(all, json_string_value(n));
        if (!json_is_object(block))
            fail(FAIL_USER, "%s: the profile names capabilities '%s', which the file does not have",
                 p->where, printable(p->arena, json_string_value(n), json_string_length(n), 60));
        if (p->n_blocks < PROFILE_MAX_BLOCKS) p->blocks[p->n_blocks++] = block;
    }
}

static void open_profile(Profile *p, const char *text, size_t n) {
    json_error_t e;
    json_t *root = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, &e);
    if (!root)
        fail(FAIL_USER, "%s:%d:%d: not valid JSON: %s", p->where, e.line, e.column,
             printable(p->arena, e.text, strlen(e.text), 100));
    arena_defer(p->arena, json_release, root);
    p->root = root;
    const json_t *profiles = json_object_get(root, "profiles");
    void *first = json_is_object(profiles) ? json_object_iter((json_t *)(uintptr_t)profiles) : NULL;
    if (!first || !json_is_object(json_object_get(root, "capabilities")))
        fail(FAIL_USER,
             "%s: not a Vulkan profile ('capabilities' and 'profiles' expected): write one on the "
             "device with "
             "'vulkaninfo --json' or 'qcc probe'",
             p->where);
    p->profile = json_object_iter_value(first);
    if (json_object_size(profiles) > 1)
        note(1, "%s: %zu profiles, the first one is used: %s", p->where, json_object_size(profiles),
             json_object_iter_key(first));
    collect_blocks(p);
}

static void check_has_limits(const Profile *p) {
    for (size_t b = 0; b < p->n_blocks; b++)
        if (json_is_object(
                block_field(p->blocks[b], "properties", "VkPhysicalDeviceProperties", "limits")))
            return;
    fail(FAIL_USER,
         "%s: no device limits (properties, VkPhysicalDeviceProperties, limits): write a whole "
         "profile on the "
         "device with 'vulkaninfo --json' or 'qcc probe'",
         p->where);
}

Target *profile_parse(Arena *a, const char *name, const char *text, size_t n) {
    Target *t = ARENA_NEW(a, Target);
    Profile *p = ARENA_NEW(a, Profile);
    *p = (Profile){.arena = a, .where = name};
    open_profile(p, text, n);
    check_has_limits(p);
    t->name = arena_strdup(a, name);
    t->device_name = device_name(p);
    read_version(p, t);
    t->vendor_id = saturate_u32(profile_u64(p, "Properties", "vendorID", 0));
    t->device_id = saturate_u32(profile_u64(p, "Properties", "deviceID", 0));
    t->driver_version = saturate_u32(profile_u64(p, "Properties", "driverVersion", 0));
    read_limits(p, t);
    read_subgroup(p, t);
    if (!t->n_units)
        t->n_units = saturate_u32(
            profile_u64(p, "ShaderSMBuiltinsPropertiesNV", "shaderSMCount", 0));
    if (!t->n_units)
        t->n_units = saturate_u32(
            profile_u64(p, "ShaderCoreProperties2AMD", "activeComputeUnitCount", 0));
    read_qcc(p, t);
    DeviceClass c = rules_class(p, t);
    rules_estimate(c, t);
    rules_capabilities(p, c, t);
    return t;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static Target *read_named(Arena *a, const char *name) {
    const EmbeddedFile *f = rules_builtin(name);
    if (f) return profile_parse(a, name, f->text, f->n);
    if (!strchr(name, '/') && !ends_with(name, ".json") && access(name, F_OK) != 0)
        fail(FAIL_USER,
             "no target '%s': near names are %s ('qcc targets' lists all; 'auto' is the local "
             "device; a path to a "
             "profile JSON works too)",
             printable(a, name, strlen(name), 60), rules_near_names(a, name));
    Bytes b = file_map(a, name);
    return profile_parse(a, name, (const char *)b.p, b.n);
}

Target *target_read(Arena *a, const char *name, uint32_t device) {
    Target *t;
    if (strcmp(name, "auto") == 0) {
        const char *text = target_probe_json(a, device, false);
        t = profile_parse(a, "auto", text, strlen(text));
    } else {
        t = read_named(a, name);
    }
    rules_apply_ability(a, t, shader_ability());
    return t;
}
