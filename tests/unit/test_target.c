/* test_target.c - profiles of real devices, what is made of them, damaged ones, and the probe on
 * software drivers. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "../../compiler/target/internal.h"
#include "check.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Arena *arena;

static Target *read_shared(const char *file) {
    return target_read(arena, arena_printf(arena, "%s/targets/%s.json", check_shared(), file), 0);
}

/* ---- equality, field by field ---------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

#define SAME(field)                                                                                \
    CHECK(memcmp(&a->field, &b->field, sizeof a->field) == 0, "%s: " #field " differs", what)
static void check_same(const char *what, const Target *a, const Target *b) {
    CHECK(same_text(a->device_name, b->device_name), "%s: %s / %s", what, a->device_name,
          b->device_name);
    SAME(api_version);
    SAME(vendor_id);
    SAME(device_id);
    SAME(driver_version);
    SAME(max_storage_range);
    SAME(max_allocation);
    SAME(max_buffer);
    SAME(max_storage_bindings);
    SAME(storage_alignment);
    SAME(max_groups);
    SAME(max_local);
    SAME(max_invocations);
    SAME(shared_bytes);
    SAME(subgroup);
    SAME(subgroup_min);
    SAME(subgroup_max);
    SAME(caps);
    for (int i = 0; i < N_CAP; i++)
        CHECK(same_text(a->missing[i], b->missing[i]), "%s: %s: %s / %s", what, capability_names[i],
              a->missing[i] ? a->missing[i] : "-", b->missing[i] ? b->missing[i] : "-");
    SAME(device_heap);
    SAME(unified);
    SAME(n_coopmat);
    SAME(coopmat);
    SAME(measured);
    SAME(read_gbps);
    SAME(dispatch_us);
    SAME(barrier_us);
    SAME(submit_us);
    SAME(flops_gf);
    SAME(idot_gops);
    SAME(n_units);
}

static void check_sane(const char *what, const Target *t) {
    CHECK(t->max_storage_range >= 1u << 27 && t->max_allocation >= 1u << 30 &&
              t->max_buffer >= 1u << 27,
          "%s", what);
    CHECK(t->max_storage_bindings >= 4 && t->storage_alignment <= 256, "%s", what);
    CHECK(t->max_invocations >= 128 && t->shared_bytes >= 16384 && t->max_groups[1] >= 65535, "%s",
          what);
    CHECK(t->subgroup_min <= t->subgroup && t->subgroup <= t->subgroup_max &&
              t->subgroup_max <= 128,
          "%s", what);
    CHECK(t->device_heap >= UINT64_C(1) << 28 && t->n_units > 0, "%s", what);
    CHECK(t->read_gbps > 0 && t->dispatch_us > 0 && t->barrier_us >= 0 && t->submit_us > 0, "%s",
          what);
    CHECK(t->flops_gf > 0 && t->idot_gops > 0, "%s", what);
    for (int i = 0; i < N_CAP; i++)
        CHECK(t->caps[i] == !t->missing[i], "%s: %s", what, capability_names[i]);
}

/* ---- shipped profiles and full dumps --------------------------------------------------------- */

static void test_reduced_equals_full(void) {
    if (!check_shared()) {
        SKIP("reduced profiles against full dumps: no fixtures");
        return;
    }
    size_t n = 0;
    for (const EmbeddedFile *f = embedded_files; f->path; f++) {
        const char *name = rules_builtin_name(arena, f);
        if (!name) continue;
        n++;
        CHECK(f->n < 4096, "%s has %zu bytes", f->path, f->n);
        check_same(name, target_read(arena, name, 0), read_shared(name));
        check_sane(name, target_read(arena, name, 0));
    }
    CHECK(n >= 16, "%zu built-in profiles", n);
    DIR *d = opendir(arena_printf(arena, "%s/targets", check_shared()));
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len > 5 && strcmp(e->d_name + len - 5, ".json") == 0)
            CHECK(rules_builtin(arena_strndup(arena, e->d_name, len - 5)), "%s is not shipped",
                  e->d_name);
    }
    if (d) closedir(d);
}

static bool device_has(const Target *t, Capability c) {
    return t->caps[c] || (t->missing[c] && strncmp(t->missing[c], "shader compiler", 15) == 0);
}

static void test_h200(void) {
    const Target *t = target_read(arena, "nvidia-h200", 0);
    CHECK(same_text(t->name, "nvidia-h200") && same_text(t->device_name, "NVIDIA H200"), "%s",
          t->device_name);
    CHECK(t->api_version == (1u << 22 | 3u << 12), "%x", t->api_version);
    CHECK(t->vendor_id == 0x10de && t->device_id == 9013 && t->driver_version == 2435301632u, "%x",
          t->device_id);
    CHECK(t->max_storage_range == 4294967295u && t->max_allocation == 4292870144u, "%llu",
          (unsigned long long)t->max_allocation);
    CHECK(t->max_buffer == UINT64_C(1) << 40 && t->storage_alignment == 16, "%u",
          t->storage_alignment);
    CHECK(t->max_storage_bindings == 1048576, "%u", t->max_storage_bindings);
    CHECK(t->max_groups[0] == 2147483647 && t->max_groups[1] == 65535, "%u", t->max_groups[0]);
    CHECK(t->max_local[2] == 64 && t->max_invocations == 1024 && t->shared_bytes == 49152, "%u",
          t->shared_bytes);
    CHECK(t->subgroup == 32 && t->subgroup_min == 32 && t->subgroup_max == 32, "%u", t->subgroup);
    for (int i = 0; i < N_CAP; i++)
        CHECK(device_has(t, (Capability)i), "%s: %s", capability_names[i], t->missing[i]);
    CHECK(t->measured && t->n_units == 132 && t->read_gbps > 4000 && !t->unified, "%u", t->n_units);
    CHECK(t->n_coopmat && t->coopmat[0].m == 16 && t->coopmat[0].n == 16 && t->coopmat[0].k == 16,
          "%u", t->n_coopmat);
}

static void test_rx570(void) {
    const Target *t = target_read(arena, "amd-rx-570-radv", 0);
    CHECK(same_text(t->device_name, "AMD Radeon RX 570 Series (RADV POLARIS10)"), "%s",
          t->device_name);
    CHECK(t->subgroup == 64 && t->subgroup_min == 64 && t->subgroup_max == 64, "%u", t->subgroup);
    CHECK(t->storage_alignment == 4 && t->max_allocation == 4294967292u && t->shared_bytes == 65536,
          "%u", t->shared_bytes);
    CHECK(!t->caps[CAP_F16] && same_text(t->missing[CAP_F16], "device: shaderFloat16 is false"),
          "%s", t->missing[CAP_F16]);
    CHECK(!t->caps[CAP_IDOT] && strstr(t->missing[CAP_IDOT], "Accelerated is false"), "%s",
          t->missing[CAP_IDOT]);
    CHECK(!t->caps[CAP_SUBGROUP_SIZE_CONTROL], "no stage can require a size");
    CHECK(!t->caps[CAP_COOPMAT] &&
              same_text(t->missing[CAP_COOPMAT], "device: no VK_KHR_cooperative_matrix"),
          "%s", t->missing[CAP_COOPMAT]);
    CHECK(t->caps[CAP_SUBGROUP_ARITHMETIC] && t->caps[CAP_STORAGE_16] && t->caps[CAP_STORAGE_8] &&
              t->caps[CAP_BDA],
          "RX 570");
    CHECK(t->n_units == 32 && !t->unified && !t->measured, "%u", t->n_units);
}

static void test_android(void) {
    const Target *t = target_read(arena, "android-2022-baseline", 0);
    CHECK(t->api_version == (1u << 22 | 1u << 12), "%x", t->api_version);
    CHECK(t->max_storage_range == 1u << 27 && t->max_allocation == 1u << 30 &&
              t->max_buffer == 1u << 30,
          "Android");
    CHECK(t->max_storage_bindings == 4 && t->storage_alignment == 256, "%u",
          t->max_storage_bindings);
    CHECK(t->max_invocations == 128 && t->max_local[0] == 128 && t->max_local[2] == 64 &&
              t->shared_bytes == 16384,
          "Android");
    CHECK(t->subgroup == 1 && t->subgroup_min == 1 && t->subgroup_max == 128 && t->unified, "%u",
          t->subgroup);
    for (int i = 0; i < N_CAP; i++) CHECK(!t->caps[i], "%s", capability_names[i]);
    t = target_read(arena, "android-15-requirements", 0);
    CHECK(t->api_version == (1u << 22 | 3u << 12) && t->max_storage_bindings == 12 &&
              t->shared_bytes == 16384,
          "Android 15");
    CHECK(t->caps[CAP_F16] && t->caps[CAP_INT8] && t->caps[CAP_STORAGE_8] &&
              t->caps[CAP_STORAGE_16],
          "Android 15");
    CHECK(!t->caps[CAP_IDOT] &&
              same_text(t->missing[CAP_IDOT], "profile: shaderIntegerDotProduct is not stated"),
          "%s", t->missing[CAP_IDOT]);
}

static void test_others(void) {
    const Target *t = target_read(arena, "lavapipe-25.0", 0);
    CHECK(t->subgroup == 8 && t->max_storage_range == 134217728 && t->shared_bytes == 32768 &&
              t->unified,
          "lavapipe");
    CHECK(device_has(t, CAP_IDOT) && !t->caps[CAP_COOPMAT] && !t->caps[CAP_F16_DENORM], "lavapipe");
    t = target_read(arena, "lavapipe-26.1", 0);
    CHECK(!t->caps[CAP_COOPMAT] && strstr(t->missing[CAP_COOPMAT], "does not list"), "%s",
          t->missing[CAP_COOPMAT]);
    t = target_read(arena, "nvidia-rtx-5090", 0);
    CHECK(device_has(t, CAP_COOPMAT) && t->n_units == 170 && !t->unified, "RTX 5090");
    CHECK(same_text(t->device_name, "NVIDIA GeForce RTX 5090"), "%s", t->device_name);
    CHECK(!t->caps[CAP_COOPMAT2] && strstr(t->missing[CAP_COOPMAT2], "VK_NV_cooperative_matrix2"),
          "%s", t->missing[CAP_COOPMAT2]);
    t = target_read(arena, "amd-rx-9070xt-radv", 0);
    CHECK(t->subgroup_min == 32 && t->subgroup_max == 64 && t->caps[CAP_SUBGROUP_SIZE_CONTROL] &&
              t->n_units == 64,
          "RX 9070 XT");
    t = target_read(arena, "intel-arc-a770-anv", 0);
    CHECK(!t->caps[CAP_COOPMAT] && strstr(t->missing[CAP_COOPMAT], "16x16x16"), "%s",
          t->missing[CAP_COOPMAT]);
    CHECK(t->subgroup_min == 8 && t->subgroup_max == 32, "A770");
    t = target_read(arena, "apple-m1-moltenvk", 0);
    CHECK(t->unified && !t->caps[CAP_SUBGROUP_SIZE_CONTROL] && t->subgroup == 32 &&
              t->subgroup_min == 4,
          "M1");
}

static void test_ability(void) {
    const EmbeddedFile *f = rules_builtin("nvidia-h200");
    Target *t = profile_parse(arena, "nvidia-h200", f->text, f->n);
    ShaderAbility s = {.version = "shaderc 1"};
    for (int i = 0; i < N_CAP; i++) s.caps[i] = i != CAP_COOPMAT;
    CHECK(t->caps[CAP_COOPMAT] && t->caps[CAP_COOPMAT2], "%s",
          t->missing[CAP_COOPMAT] ? t->missing[CAP_COOPMAT] : "-");
    rules_apply_ability(arena, t, &s);
    CHECK(!t->caps[CAP_COOPMAT] &&
              same_text(t->missing[CAP_COOPMAT], "shader compiler: shaderc 1 cannot compile it"),
          "%s", t->missing[CAP_COOPMAT]);
    CHECK(t->caps[CAP_F16] && !t->missing[CAP_F16], "f16 stays");
}

/* ---- messages -------------------------------------------------------------------------------- */

static void expect_parse(const char *text, size_t n, const char *message) {
    FailTrap trap;
    if (fail_catch(&trap)) {
        CHECK(trap.kind == FAIL_USER && strcmp(trap.message, message) == 0, "%s\n   expected %s",
              trap.message, message);
    } else {
        profile_parse(arena, "t.json", text, n);
        fail_pop(&trap);
        CHECK(!message, "no failure, expected: %s", message);
    }
}

static void expect_fail(const char *name, uint32_t device, FailKind kind, const char *part) {
    FailTrap trap;
    if (fail_catch(&trap)) {
        CHECK(trap.kind == kind && strstr(trap.message, part), "%d %s\n   expected %s",
              (int)trap.kind, trap.message, part);
    } else {
        target_read(arena, name, device);
        fail_pop(&trap);
        CHECK(false, "%s was read, expected: %s", name, part);
    }
}

#define PROFILE(properties, version)                                                               \
    "{\"capabilities\":{\"device\":{\"properties\":{" properties "}}},"                            \
    "\"profiles\":{\"P\":{\"api-version\":\"" version                                              \
    "\",\"label\":\"L driver 1\",\"capabilities\":[\"device\"]}}}"
#define LIMITS(fields) "\"VkPhysicalDeviceProperties\":{\"limits\":{" fields "}}"

static void test_messages(void) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {PROFILE(LIMITS(""), "1.1.0"), NULL},
        {PROFILE(LIMITS("\"maxStorageBufferRange\":18446744073709551615"), "1.2.300"), NULL},
        {"", "t.json:1:0: not valid JSON: '[' or '{' expected near end of file"},
        {"{\"capabilities\":\n{\"a\" 1}}", "t.json:2:6: not valid JSON: ':' expected near '1'"},
        {"[]", "t.json: not a Vulkan profile ('capabilities' and 'profiles' expected): write one "
               "on the device with "
               "'vulkaninfo --json' or 'qcc probe'"},
        {"{\"capabilities\":{},\"profiles\":{}}",
         "t.json: not a Vulkan profile ('capabilities' and 'profiles' expected): write "
         "one on the device with 'vulkaninfo --json' or 'qcc probe'"},
        {"{\"capabilities\":{},\"profiles\":{\"P\":{\"capabilities\":[\"x\\u001b\"]}}}",
         "t.json: the profile names capabilities 'x\\x1B', which the file does not have"},
        {PROFILE("", "1.1.0"), "t.json: no device limits (properties, VkPhysicalDeviceProperties, "
                               "limits): write a whole profile "
                               "on the device with 'vulkaninfo --json' or 'qcc probe'"},
        {PROFILE(LIMITS(""), "1.0.99"),
         "t.json: Vulkan 1.0: qcc needs a device with Vulkan 1.1 or newer"},
        {PROFILE(LIMITS(""), "one"),
         "t.json: no Vulkan version: neither apiVersion nor a valid api-version"},
        {PROFILE(LIMITS("\"maxComputeSharedMemorySize\":\"16K\""), "1.1.0"),
         "t.json: maxComputeSharedMemorySize: expected a number that is not negative"},
        {PROFILE(LIMITS("\"maxComputeWorkGroupCount\":[1,2]"), "1.1.0"),
         "t.json: maxComputeWorkGroupCount: expected three numbers"},
        {PROFILE(LIMITS("\"maxStorageBufferRange\":0"), "1.1.0"),
         "t.json: maxStorageBufferRange is 0: the profile is damaged; write a new one with 'qcc "
         "probe'"},
        {PROFILE(LIMITS("") ",\"VkPhysicalDeviceSubgroupProperties\":{\"subgroupSize\":8,"
                            "\"supportedStages\":\"x\"}",
                 "1.1.0"),
         "t.json: supportedStages: expected a list of flags"},
        {PROFILE(LIMITS("") ",\"VkPhysicalDeviceSubgroupProperties\":{\"subgroupSize\":256},"
                            "\"VkPhysicalDeviceVulkan13Properties\":{\"minSubgroupSize\":8,"
                            "\"maxSubgroupSize\":64}",
                 "1.1.0"),
         "t.json: subgroup size 256 is not between minSubgroupSize 8 and maxSubgroupSize 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_parse(cases[i].text, strlen(cases[i].text), cases[i].message);
    expect_fail("nvidia-h20", 0, FAIL_USER, "no target 'nvidia-h20': near names are nvidia-h200, ");
    expect_fail("rtx", 0, FAIL_USER, "near names are nvidia-rtx-5090");
    expect_fail("no/such/file.json", 0, FAIL_USER, "no/such/file.json");
}

static void expect_no_crash(const char *text, size_t n, bool must_fail) {
    FailTrap trap;
    Arena *a = arena_create();
    if (fail_catch(&trap)) {
        CHECK(trap.kind == FAIL_USER && trap.message[0], "%s", trap.message);
    } else {
        profile_parse(a, "damaged", text, n);
        fail_pop(&trap);
        CHECK(!must_fail, "a profile cut to %zu bytes was read", n);
    }
    arena_destroy(a);
}

/* Damaged profiles end in a message or a target, never in a crash. */
static void test_damaged(void) {
    const EmbeddedFile *f = rules_builtin("nvidia-h200");
    for (size_t i = 0; i < 100; i++) {
        size_t n = f->n * i / 100;
        char *cut = malloc(n ? n : 1); /* so that the sanitizer sees reads beyond the end */
        memcpy(cut, f->text, n);
        expect_no_crash(cut, n, true);
        free(cut);
    }
    uint32_t seed = 1;
    for (size_t i = 0; i < 300; i++) {
        char *text = arena_strndup(arena, f->text, f->n);
        for (size_t k = 0; k < 1 + i % 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            text[(seed >> 4) % f->n] = "0-9\"{}[],:e. \x80truefalse"[(seed >> 20) % 24];
        }
        expect_no_crash(text, f->n, false);
    }
}

static void test_print(void) {
    Text list = {.arena = arena}, one = {.arena = arena};
    target_list(&list);
    CHECK(strstr(list.s, "nvidia-h200 ") && strstr(list.s, "140.4 GiB"), "%s", list.s);
    target_print(target_read(arena, "amd-rx-570-radv", 0), &one);
    CHECK(strstr(one.s, "f16 (device: shaderFloat16 is false)") &&
              strstr(one.s, "estimated: read 190 GB/s"),
          "%s", one.s);
}

/* ---- the probe ------------------------------------------------------------------------------- */

/* Mesa keeps a little memory in a global when its library is unloaded, which the leak sanitizer
 * cannot see any more. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static const Target *probe_with(const char *driver, bool measure) {
    setenv("VK_DRIVER_FILES", driver, 1);
    setenv("VK_ICD_FILENAMES", driver, 1); /* the name in older loaders */
    const char *text = target_probe_json(arena, 0, measure);
    CHECK(strlen(text) < 4096, "%zu bytes", strlen(text));
    const char *path = arena_printf(arena, "/tmp/qcc-test-target-%ld.json", (long)getpid());
    file_write(path, text, strlen(text), 0644);
    const Target *t = target_read(arena, path, 0);
    unlink(path);
    check_sane(driver, t);
    CHECK(t->measured == measure, "%s", driver);
    check_same("auto", target_read(arena, "auto", 0), measure ? target_read(arena, "auto", 0) : t);
    expect_fail("auto", 7, FAIL_USER, "no device 7 on this machine; there are: 0 ");
    return t;
}

static const char *first_readable(const char *const *paths) {
    for (; *paths; paths++)
        if (access(*paths, R_OK) == 0) return *paths;
    return NULL;
}

static void test_probe(void) {
    const char *lavapipe = first_readable(
        (const char *const[]){"/usr/share/vulkan/icd.d/lvp_icd.json",
                              "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
                              "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json", NULL});
    const char *swiftshader = getenv("QCC_SWIFTSHADER");
    if (!swiftshader)
        swiftshader = first_readable(
            (const char *const[]){"build/swiftshader/vk_swiftshader_icd.json", NULL});
    if (!lavapipe) {
        SKIP("probe of lavapipe: mesa-vulkan-drivers is not installed");
    } else {
        const Target *t = probe_with(lavapipe, true);
        CHECK(strstr(t->device_name, "llvmpipe"), "%s", t->device_name);
        CHECK(t->max_storage_range == 134217728 && t->caps[CAP_SUBGROUP_ARITHMETIC] &&
                  t->caps[CAP_STORAGE_16] && t->unified,
              "%llu", (unsigned long long)t->max_storage_range);
        CHECK(device_has(t, CAP_IDOT), "%s", t->missing[CAP_IDOT]);
        probe_with(lavapipe, false);
    }
    if (!swiftshader) {
        SKIP("probe of SwiftShader: tests/tools/get_swiftshader.sh fetches it");
    } else {
        const Target *t = probe_with(swiftshader, true);
        CHECK(strstr(t->device_name, "SwiftShader") && t->subgroup == 4 &&
                  t->max_invocations == 256,
              "%s", t->device_name);
        CHECK(!t->caps[CAP_F16] && !t->caps[CAP_STORAGE_8] && !t->caps[CAP_STORAGE_16] &&
                  !t->caps[CAP_INT8],
              "SwiftShader");
        CHECK(device_has(t, CAP_IDOT), "%s", t->missing[CAP_IDOT]);
        probe_with(swiftshader, false);
    }
    setenv("VK_DRIVER_FILES", "/no/driver.json", 1);
    setenv("VK_ICD_FILENAMES", "/no/driver.json", 1);
    expect_fail("auto", 0, FAIL_ENVIRONMENT, "install the loader and a driver");
}

int main(void) {
    verbosity = 0;
    arena = arena_create();
    test_reduced_equals_full();
    test_h200();
    test_rx570();
    test_android();
    test_others();
    test_ability();
    test_messages();
    test_damaged();
    test_print();
    if (__lsan_disable) __lsan_disable();
    test_probe();
    if (__lsan_enable) __lsan_enable();
    arena_destroy(arena);
    return check_done();
}
