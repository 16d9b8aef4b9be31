/* target.h - what a GPU can do, from a Vulkan-Profiles JSON (what `vulkaninfo --json` writes).
 *
 * Limits are inputs of every later decision. Capabilities are words; kernels state the words that
 * they need. A word is set only if device, Vulkan version and the shader compiler all have it;
 * `missing` says who has not. */
#ifndef QCC_TARGET_H
#define QCC_TARGET_H
#include "../util.h"

typedef enum {
    CAP_SUBGROUP_ARITHMETIC, /* reductions in compute shaders */
    CAP_SUBGROUP_CLUSTERED,
    CAP_SUBGROUP_SHUFFLE,
    CAP_SUBGROUP_SIZE_CONTROL, /* a pipeline can require a subgroup size in [subgroup_min,
                                  subgroup_max], full subgroups too */
    CAP_STORAGE_16,
    CAP_STORAGE_8, /* 16/8-bit types in storage buffers */
    CAP_F16,
    CAP_INT8,       /* arithmetic */
    CAP_F16_DENORM, /* f16 subnormals are preserved in conversions */
    CAP_IDOT, /* packed 4x8 integer dot product; of GPUs only where signed operands are accelerated
               */
    CAP_COOPMAT,
    CAP_COOPMAT2, /* KHR cooperative matrix (f16 x f16 + f32, 16x16x16 in subgroup scope); NV 2 */
    CAP_BDA,      /* buffer device addresses */
    N_CAP
} Capability;
extern const char *const capability_names[N_CAP]; /* "subgroup_arithmetic" ... */

typedef struct {
    uint32_t m, n, k;
} CoopmatShape;

typedef struct Target {
    const char *name;        /* file or built-in name */
    const char *device_name; /* "NVIDIA H200" */
    uint32_t api_version;    /* as Vulkan encodes it */
    uint32_t vendor_id, device_id, driver_version;
    uint64_t max_storage_range, max_allocation, max_buffer;
    uint32_t max_storage_bindings; /* per stage and per set, the smaller */
    uint32_t storage_alignment;    /* minStorageBufferOffsetAlignment */
    uint32_t max_groups[3], max_local[3], max_invocations, shared_bytes;
    uint32_t subgroup, subgroup_min, subgroup_max;
    bool caps[N_CAP];
    const char *missing[N_CAP]; /* why a capability is off: "device: shaderFloat16 is false" */
    uint64_t device_heap;       /* bytes of the largest device-local heap */
    bool unified;               /* all memory is device-local and host-visible */
    CoopmatShape coopmat[8];
    uint32_t n_coopmat;
    /* Measured by `qcc probe --measure`, or estimates by device class; the cost model's inputs. */
    bool measured;
    float read_gbps, dispatch_us, barrier_us, submit_us, flops_gf, idot_gops;
    float host_gbps;  /* of host memory, over the bus of a discrete device: estimated */
    uint32_t n_units; /* compute units, estimated when the profile does not say */
} Target;

/* What this build's shader compiler can do; the probe compiles a few lines per extension. */
typedef struct {
    bool caps[N_CAP];
    const char *version;
} ShaderAbility;
const ShaderAbility *shader_ability(void); /* in spirv.c */

/* The most bytes that one binding covers, and that one zone (a buffer with an allocation of its
 * own) holds, with the limit that says so. */
typedef struct {
    uint64_t bytes;
    const char *name;
} TargetLimit;
TargetLimit target_binding_limit(const Target *t);
TargetLimit target_zone_limit(const Target *t);

/* NAME of a built-in profile, a path to a JSON, or "auto" (the local driver; device index
 * `device`). */
Target *target_read(Arena *a, const char *name, uint32_t device);
/* Profile JSON of the local device, in the same schema; measure adds the `qcc` section. */
char *target_probe_json(Arena *a, uint32_t device, bool measure);
void target_print(const Target *t, Text *out);
void target_list(
    Text *out); /* built-in names, one line each with device name and memory: `qcc targets` */
#endif
