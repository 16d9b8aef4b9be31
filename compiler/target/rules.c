/* rules.c - what a profile implies, and facts about devices that no profile states.
 *
 * Capability words come from the profile alone. Memory, number of compute units and costs are
 * measured by `qcc probe --measure`; without that they come from the table of known devices, then
 * from the device's class. A vendor's quirk is one entry in a table here. */
#include "internal.h"
#include <string.h>

const char *const capability_names[N_CAP] = {
    [CAP_SUBGROUP_ARITHMETIC] = "subgroup_arithmetic",
    [CAP_SUBGROUP_CLUSTERED] = "subgroup_clustered",
    [CAP_SUBGROUP_SHUFFLE] = "subgroup_shuffle",
    [CAP_SUBGROUP_SIZE_CONTROL] = "subgroup_size_control",
    [CAP_STORAGE_16] = "storage_16",
    [CAP_STORAGE_8] = "storage_8",
    [CAP_F16] = "f16",
    [CAP_INT8] = "int8",
    [CAP_F16_DENORM] = "f16_denorm",
    [CAP_IDOT] = "idot",
    [CAP_COOPMAT] = "coopmat",
    [CAP_COOPMAT2] = "coopmat2",
    [CAP_BDA] = "bda",
};

/* ---- known devices --------------------------------------------------------------------------- */

enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de, VENDOR_APPLE = 0x106b, VENDOR_INTEL = 0x8086 };

typedef struct {
    const char *device; /* part of the device's name */
    DeviceClass class;
    bool measured; /* by `qcc probe --measure`; else from the maker's data sheet, bandwidth at 85 %
                      of it */
    uint32_t n_units, heap_mib;
    float read_gbps, flops_gf, idot_gops; /* multiply and add count as two */
    float dispatch_us; /* of a dispatch that waits for nothing, within a command buffer */
    float barrier_us;  /* what a barrier before it adds, ramp-up and drain included */
    float submit_us;   /* submit and wait for the fence */
} DeviceFacts;

/* More special names first. For unified memory the heap is what the driver lends of the smallest
 * machine sold. */
static const DeviceFacts known_devices[] = {
    {"NVIDIA H200", CLASS_DISCRETE, true, 132, 143770, 4598, 43000, 102000, 0.25f, 2.1f, 36},
    {"RTX 5090", CLASS_DISCRETE, false, 170, 32600, 1520, 104000, 416000, 0, 0, 0},
    {"GTX 1650", CLASS_DISCRETE, false, 14, 4096, 109, 2900, 11600, 0, 0, 0},
    {"RX 9070 XT", CLASS_DISCRETE, false, 64, 16300, 544, 24000, 97000, 0, 0, 0},
    {"RX 570", CLASS_DISCRETE, false, 32, 4096, 190, 5100, 0, 0, 0, 0},
    {"A770", CLASS_DISCRETE, false, 32, 16200, 476, 17000, 68000, 0, 0, 0},
    {"Arc(TM) 140T", CLASS_INTEGRATED, false, 8, 8192, 114, 4800, 19000, 0, 0, 0},
    {"HD Graphics 620", CLASS_INTEGRATED, false, 3, 2048, 29, 400, 0, 0, 0, 0},
    {"Xe Graphics (TGL", CLASS_INTEGRATED, false, 6, 4096, 58, 2000, 8000, 0, 0, 0},
    {"Apple M1", CLASS_INTEGRATED, false, 8, 5461, 58, 2600, 0, 0, 0, 0},
    {"Apple M5", CLASS_INTEGRATED, false, 10, 10922, 130, 4200, 0, 0, 0, 0},
};

/* What a device of the class costs at least typically: small enough never to refuse, large enough
 * to rank kernels. */
static const DeviceFacts by_class[] = {
    [CLASS_UNKNOWN] = {"", CLASS_MOBILE, false, 4, 2048, 20, 500, 0, 5, 10, 100},
    [CLASS_DISCRETE] = {"", CLASS_DISCRETE, false, 32, 4096, 250, 5000, 0, 1, 4, 50},
    [CLASS_INTEGRATED] = {"", CLASS_INTEGRATED, false, 8, 4096, 50, 1000, 0, 2, 6, 60},
    [CLASS_MOBILE] = {"", CLASS_MOBILE, false, 4, 2048, 20, 500, 0, 5, 10, 100},
    [CLASS_CPU] = {"", CLASS_CPU, false, 4, 4096, 10, 50, 0, 10, 5, 50},
};

static const DeviceFacts *known_device(const char *device_name) {
    for (size_t i = 0; i < sizeof known_devices / sizeof *known_devices; i++)
        if (strstr(device_name, known_devices[i].device)) return &known_devices[i];
    return NULL;
}

/* Shapes of f16 x f16 + f32 in subgroup scope, for profiles that do not list them: the schema has
 * no place for them. Sources: drivers' own lists (NVIDIA 580; Mesa's radv, anv). */
static const struct {
    uint32_t vendor;
    const char *device;
    CoopmatShape shapes[3];
} known_coopmat[] = {
    {VENDOR_NVIDIA, "", {{16, 16, 16}, {16, 8, 16}, {16, 8, 8}}},
    {VENDOR_AMD, "", {{16, 16, 16}}},
    {VENDOR_INTEL, "A770", {{8, 8, 16}}},
    {VENDOR_INTEL, "", {{8, 16, 16}}},
};

static void coopmat_shapes(Target *t) {
    for (size_t i = 0; i < sizeof known_coopmat / sizeof *known_coopmat; i++) {
        if (known_coopmat[i].vendor != t->vendor_id ||
            !strstr(t->device_name, known_coopmat[i].device))
            continue;
        for (size_t k = 0; k < 3 && known_coopmat[i].shapes[k].m; k++)
            t->coopmat[t->n_coopmat++] = known_coopmat[i].shapes[k];
        return;
    }
}

/* ---- class ----------------------------------------------------------------------------------- */

static DeviceClass class_of_type(const char *type) {
    static const struct {
        const char *name;
        DeviceClass class;
    } types[] = {
        {"VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU", CLASS_DISCRETE},
        {"VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU", CLASS_INTEGRATED},
        {"VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU", CLASS_INTEGRATED},
        {"VK_PHYSICAL_DEVICE_TYPE_CPU", CLASS_CPU},
    };
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0) return types[i].class;
    return CLASS_UNKNOWN;
}

static DeviceClass class_of_vendor(uint32_t vendor) {
    switch (vendor) {
    case VENDOR_AMD:
    case VENDOR_NVIDIA: return CLASS_DISCRETE;
    case VENDOR_APPLE:
    case VENDOR_INTEL: return CLASS_INTEGRATED;
    default: return CLASS_MOBILE;
    }
}

DeviceClass rules_class(const Profile *p, const Target *t) {
    DeviceClass c = class_of_type(profile_string(p, "Properties", "deviceType"));
    if (c != CLASS_UNKNOWN) return c;
    const char *driver = profile_string(p, "Vulkan12Properties DriverProperties", "driverID");
    if (driver && (strcmp(driver, "VK_DRIVER_ID_MESA_LLVMPIPE") == 0 ||
                   strcmp(driver, "VK_DRIVER_ID_GOOGLE_SWIFTSHADER") == 0))
        return CLASS_CPU;
    const DeviceFacts *f = known_device(t->device_name);
    return f ? f->class : class_of_vendor(t->vendor_id);
}

/* ---- estimates ------------------------------------------------------------------------------- */

static void take_u32(uint32_t *x, uint32_t known, uint32_t class) {
    if (!*x) *x = known ? known : class;
}
static void take_float(float *x, float known, float class) {
    if (!(*x > 0)) *x = known > 0 ? known : class;
}

void rules_estimate(DeviceClass c, Target *t) {
    static const DeviceFacts none = {0};
    const DeviceFacts *k = known_device(t->device_name), *e = &by_class[c];
    if (!k) k = &none;
    if (!t->measured) t->measured = k->measured;
    if (!t->device_heap) {
        t->device_heap = (uint64_t)(k->heap_mib ? k->heap_mib : e->heap_mib) << 20;
        t->unified = c != CLASS_DISCRETE;
    }
    take_u32(&t->n_units, k->n_units, e->n_units);
    take_float(&t->read_gbps, k->read_gbps, e->read_gbps);
    take_float(&t->flops_gf, k->flops_gf, e->flops_gf);
    take_float(&t->idot_gops, k->idot_gops,
               t->flops_gf); /* not accelerated: about as fast as f32 */
    take_float(&t->dispatch_us, k->dispatch_us, e->dispatch_us);
    take_float(&t->barrier_us, k->barrier_us, e->barrier_us);
    take_float(&t->submit_us, k->submit_us, e->submit_us);
    const float bus_gbps = 12; /* 16 lanes of PCIe 3 */
    t->host_gbps = c == CLASS_DISCRETE && t->read_gbps > bus_gbps ? bus_gbps : t->read_gbps;
    if (!t->n_coopmat) coopmat_shapes(t);
}

/* ---- capabilities ---------------------------------------------------------------------------- */

/* NULL: the device has it; else why not. */
typedef const char *Reason;

static Reason feature(const Profile *p, const char *structs, const char *field) {
    switch (profile_bool(p, "features", structs, field)) {
    case SAYS_YES: return NULL;
    case SAYS_NO: return arena_printf(p->arena, "device: %s is false", field);
    default: return arena_printf(p->arena, "profile: %s is not stated", field);
    }
}

static Reason subgroup_operation(const Profile *p, const char *name, uint64_t bit) {
    enum { COMPUTE_BIT = 0x20 };
    if (!profile_find(p, "properties", "Vulkan11Properties SubgroupProperties", "subgroupSize"))
        return "profile: subgroupSize is not stated";
    const char *full = arena_printf(p->arena, "VK_SUBGROUP_FEATURE_%s_BIT", name);
    Says stage = profile_flag(p, "Vulkan11Properties", "subgroupSupportedStages",
                              "VK_SHADER_STAGE_COMPUTE_BIT", COMPUTE_BIT);
    if (stage == SAYS_NOTHING)
        stage = profile_flag(p, "SubgroupProperties", "supportedStages",
                             "VK_SHADER_STAGE_COMPUTE_BIT", COMPUTE_BIT);
    if (stage != SAYS_YES) return "device: no subgroup operations in compute shaders";
    Says op = profile_flag(p, "Vulkan11Properties", "subgroupSupportedOperations", full, bit);
    if (op == SAYS_NOTHING)
        op = profile_flag(p, "SubgroupProperties", "supportedOperations", full, bit);
    return op == SAYS_YES ? NULL : arena_printf(p->arena, "device: no %s", full);
}

static Reason size_control(const Profile *p) {
    const char *features =
        "Vulkan13Features SubgroupSizeControlFeatures SubgroupSizeControlFeaturesEXT";
    const char *properties =
        "Vulkan13Properties SubgroupSizeControlProperties SubgroupSizeControlPropertiesEXT";
    Reason r = feature(p, features, "subgroupSizeControl");
    if (!r) r = feature(p, features, "computeFullSubgroups");
    if (!r && profile_flag(p, properties, "requiredSubgroupSizeStages",
                           "VK_SHADER_STAGE_COMPUTE_BIT", 0x20) != SAYS_YES)
        r = "device: requiredSubgroupSizeStages does not include compute";
    return r;
}

static Reason f16_denorm(const Profile *p) {
    const char *field = "shaderDenormPreserveFloat16";
    switch (profile_bool(p, "properties", "Vulkan12Properties FloatControlsProperties", field)) {
    case SAYS_YES: return NULL;
    case SAYS_NO: return "device: shaderDenormPreserveFloat16 is false";
    default: return "profile: shaderDenormPreserveFloat16 is not stated";
    }
}

/* A GPU that emulates the instruction gains nothing by it. A CPU device keeps it, so that kernels
 * can be tested there. */
static Reason integer_dot(const Profile *p, DeviceClass c) {
    Reason r = feature(p, "Vulkan13Features ShaderIntegerDotProductFeatures",
                       "shaderIntegerDotProduct");
    if (r || c == CLASS_CPU) return r;
    Says fast = profile_bool(p, "properties",
                             "Vulkan13Properties ShaderIntegerDotProductProperties",
                             "integerDotProduct4x8BitPackedSignedAccelerated");
    return fast == SAYS_YES ? NULL
                            : "device: integerDotProduct4x8BitPackedSignedAccelerated is false";
}

/* A writer that is older than an extension lists its name but not its features. Advertising
 * VK_KHR_cooperative_matrix obliges a device to have cooperativeMatrix. */
static Reason extension_feature(const Profile *p, const char *extension, const char *structs,
                                const char *field) {
    if (!profile_extension(p, extension)) return arena_printf(p->arena, "device: no %s", extension);
    return profile_bool(p, "features", structs, field) == SAYS_NO
               ? arena_printf(p->arena, "device: %s is false", field)
               : NULL;
}

static Reason cooperative_matrix(const Profile *p, const Target *t) {
    Reason r = extension_feature(p, "VK_KHR_cooperative_matrix", "CooperativeMatrixFeatures",
                                 "cooperativeMatrix");
    if (r) return r;
    for (uint32_t i = 0; i < t->n_coopmat; i++)
        if (t->coopmat[i].m == 16 && t->coopmat[i].n == 16 && t->coopmat[i].k == 16) return NULL;
    return t->n_coopmat
               ? "device: no cooperative matrix of f16 x f16 + f32 in 16x16x16"
               : "profile: does not list cooperative matrix shapes ('qcc probe' writes them)";
}

static Reason cooperative_matrix2(const Profile *p, const Target *t, Reason without_khr) {
    static const char *const fields[] = {
        "cooperativeMatrixWorkgroupScope",       "cooperativeMatrixFlexibleDimensions",
        "cooperativeMatrixReductions",           "cooperativeMatrixConversions",
        "cooperativeMatrixPerElementOperations", "cooperativeMatrixTensorAddressing",
        "cooperativeMatrixBlockLoads",
    };
    if (without_khr) return without_khr;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        Reason r = extension_feature(p, "VK_NV_cooperative_matrix2", "CooperativeMatrix2FeaturesNV",
                                     fields[i]);
        if (r) return r;
    }
    return t->api_version >= (1u << 22 | 3u << 12) ? NULL : "device: Vulkan 1.3 is needed";
}

void rules_capabilities(const Profile *p, DeviceClass c, Target *t) {
    const char **m = t->missing;
    m[CAP_SUBGROUP_ARITHMETIC] = subgroup_operation(p, "ARITHMETIC", 4);
    m[CAP_SUBGROUP_SHUFFLE] = subgroup_operation(p, "SHUFFLE", 0x10);
    m[CAP_SUBGROUP_CLUSTERED] = subgroup_operation(p, "CLUSTERED", 0x40);
    m[CAP_SUBGROUP_SIZE_CONTROL] = size_control(p);
    m[CAP_STORAGE_16] = feature(p, "Vulkan11Features 16BitStorageFeatures",
                                "storageBuffer16BitAccess");
    m[CAP_STORAGE_8] = feature(p, "Vulkan12Features 8BitStorageFeatures",
                               "storageBuffer8BitAccess");
    m[CAP_F16] = feature(p, "Vulkan12Features ShaderFloat16Int8Features Float16Int8Features",
                         "shaderFloat16");
    m[CAP_INT8] = feature(p, "Vulkan12Features ShaderFloat16Int8Features Float16Int8Features",
                          "shaderInt8");
    m[CAP_F16_DENORM] = f16_denorm(p);
    m[CAP_IDOT] = integer_dot(p, c);
    m[CAP_COOPMAT] = cooperative_matrix(p, t);
    m[CAP_COOPMAT2] = cooperative_matrix2(p, t, m[CAP_COOPMAT]);
    m[CAP_BDA] = feature(p, "Vulkan12Features BufferDeviceAddressFeatures", "bufferDeviceAddress");
    for (int i = 0; i < N_CAP; i++) t->caps[i] = !m[i];
}

void rules_apply_ability(Arena *a, Target *t, const ShaderAbility *s) {
    for (int i = 0; i < N_CAP; i++) {
        if (!t->caps[i] || s->caps[i]) continue;
        t->caps[i] = false;
        t->missing[i] = arena_printf(a, "shader compiler: %s cannot compile it",
                                     s->version ? s->version : "this build's");
    }
}

/* ---- limits that several properties make ----------------------------------------------------- */

TargetLimit target_zone_limit(const Target *t) {
    return t->max_buffer < t->max_allocation
               ? (TargetLimit){t->max_buffer, "maxBufferSize"}
               : (TargetLimit){t->max_allocation, "maxMemoryAllocationSize"};
}

TargetLimit target_binding_limit(const Target *t) {
    TargetLimit zone = target_zone_limit(t);
    return t->max_storage_range <= zone.bytes
               ? (TargetLimit){t->max_storage_range, "maxStorageBufferRange"}
               : zone;
}

/* ---- built-in profiles ----------------------------------------------------------------------- */

const char *rules_builtin_name(Arena *a, const EmbeddedFile *f) {
    size_t n = strlen(f->path), skip = strlen(PROFILES_PREFIX), end = strlen(".json");
    if (n <= skip + end || strncmp(f->path, PROFILES_PREFIX, skip) != 0 ||
        strcmp(f->path + n - end, ".json") != 0)
        return NULL;
    return arena_strndup(a, f->path + skip, n - skip - end);
}

const EmbeddedFile *rules_builtin(const char *name) {
    size_t skip = strlen(PROFILES_PREFIX), n = strlen(name);
    for (const EmbeddedFile *f = embedded_files; f->path; f++)
        if (strncmp(f->path, PROFILES_PREFIX, skip) == 0 && strncmp(f->path + skip, name, n) == 0 &&
            strcmp(f->path + skip + n, ".json") == 0)
            return f;
    return NULL;
}

/* Edits from a to b; texts beyond 63 characters are as far as their length. */
static unsigned edit_distance(const char *a, const char *b) {
    enum { LIMIT = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n >= LIMIT || m >= LIMIT) return (unsigned)(n > m ? n : m);
    unsigned row[LIMIT];
    for (size_t j = 0; j <= m; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned replace = diagonal + (a[i - 1] != b[j - 1]),
                     best = row[j] + 1 < row[j - 1] + 1 ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = replace < best ? replace : best;
        }
    }
    return row[m];
}

const char *rules_near_names(Arena *a, const char *name) {
    enum { N_NEAR = 3 };
    struct {
        const char *name;
        unsigned far;
    } near[N_NEAR + 1] = {{0}};
    size_t n = 0;
    for (const EmbeddedFile *f = embedded_files; f->path; f++) {
        const char *s = rules_builtin_name(a, f);
        if (!s) continue;
        unsigned far = strlen(name) >= 2 && strstr(s, name) ? 0 : edit_distance(name, s);
        size_t at = n;
        for (; at > 0 && near[at - 1].far > far; at--) near[at] = near[at - 1];
        near[at].name = s;
        near[at].far = far;
        if (n < N_NEAR) n++;
    }
    Text text = {.arena = a};
    for (size_t i = 0; i < n; i++) text_printf(&text, "%s%s", i ? ", " : "", near[i].name);
    return n ? text.s : "none";
}
