/* harness.h - runs one kernel on the local Vulkan device and looks at everything that it did.
 *
 * A test describes an operation (KernelOp), asks for its cases and runs each with buffers named by
 * role:
 *
 *     Harness *h = harness_open(a);                       NULL: no device here, skip
 *     HarnessCase *c; uint32_t n = harness_cases(h, &op, &c);
 *     HarnessBuffer b[] = { { "x", x, NULL, bytes }, { "y", NULL, y, bytes } };
 *     for (uint32_t i = 0; i < n; i++) {
 *         const char *error = harness_run(h, &c[i], b, 2);
 *         CHECK(!error, "%s: %s", c[i].label, error);     then compare y
 *     }
 *
 * Cases are all candidates of all profiles: the device as it is, and the same device with the
 * abilities of the weakest one that is supported (128 invocations, 16 KiB of shared memory, no
 * capability). Modules that come out equal run once. QCC_TARGET=weakest leaves the second profile
 * alone, in SPIR-V 1.3 and on a device that is created without features.
 *
 * Each buffer stands between guard words (NaNs as floats) that the kernel can reach: a write beside
 * a buffer is an error, a read beside it gives NaN. A buffer without input starts as NaN. A buffer
 * without output must come back unchanged. With QCC_VALIDATE=1 the validation layer runs, with
 * synchronization validation; each of its messages is an error. The device is the first one, or
 * number QCC_DEVICE; VK_DRIVER_FILES picks the driver. QCC_KERNELS=DIR takes kernels from a
 * directory instead of the embedded ones. QCC_FORMAT=NAME[,NAME] goes through those weight formats
 * only (unit/formats.h). */
#ifndef QCC_HARNESS_H
#define QCC_HARNESS_H
#include "../../compiler/select.h"
#include "../../compiler/spirv.h"

typedef struct Harness Harness;
typedef struct {
    const char *role;
    const void *in; /* contents before, or NULL: NaN */
    void *out;      /* receives the contents after, or NULL: must not change; may be `in` */
    size_t bytes;   /* a multiple of 4 */
} HarnessBuffer;

typedef struct {
    const char *profile; /* "device", "weakest", or a name given to harness_profile */
    const KernelChoice *choice;
    const char *label; /* "weakest: matvec/f32 q4_k LOCAL=128 ..." */
    SpirvJob module;
} HarnessCase;

Harness *harness_open(Arena *a); /* closed with the arena */
const Target *harness_target(const Harness *h);
/* Adds a profile: a copy of the device's target to edit before the next harness_cases. */
Target *harness_profile(Harness *h, const char *name);
/* All cases; 0 with the reasons in *why_not (may be NULL) if no kernel is legal. A kernel that does
 * not compile ends the test. */
uint32_t harness_cases(Harness *h, const KernelOp *op, HarnessCase **out, const char **why_not);
/* Software drivers take about a second to compile a kernel. This keeps, of each profile, kernel and
 * inner loop, one case in turn, at the front of the list, and returns how many; all of them with
 * QCC_THOROUGH=1. Run all at least for one operation. */
uint32_t harness_sample(HarnessCase *c, uint32_t n);
/* The same, and of those at most `most`, in turn. */
uint32_t harness_sample_few(HarnessCase *c, uint32_t n, uint32_t most);
/* Runs one dispatch and waits for it. NULL, or what went wrong. */
const char *harness_run(Harness *h, const HarnessCase *c, HarnessBuffer *b, uint32_t n_buffers);
typedef struct {
    uint32_t n;      /* dispatches in one submission */
    uint32_t copies; /* 1: with barriers between. More, up to 64: dispatch i has buffers of its own,
                        copy i modulo `copies`, so that it reads memory instead of a cache */
    bool chained;    /* barriers between copies too, as in a model; else none */
} HarnessTiming;
/* The same dispatch many times, for 0.3 s; *us is the least time of one dispatch by the GPU's
 * clock. Nothing is checked or read back. */
const char *harness_time(Harness *h, const HarnessCase *c, HarnessBuffer *b, uint32_t n_buffers,
                         const HarnessTiming *t, double *us);

/* Numbers for tests: the same on every run. */
uint32_t harness_random(uint32_t *state);
float harness_normal(uint32_t *state); /* mean 0, deviation 1 */
/* sqrt(sum (got - want)^2 / sum want^2); infinite if anything is NaN. */
double harness_rms(const float *got, const double *want, size_t n);
#endif
