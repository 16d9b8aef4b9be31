/* fake_plan.c - the tables that qcc would emit for the fake model, by hand. FAKE_HUGE: demands that
 * no device meets. */
#include "../../runtime/plan.h"
#include "fake_model.h"

enum { ALIGN = 256, STEP_AT = 0, TOKENS_AT = 256, STATE_AT = 1024, SMALL_BYTES = 2048 };
enum {
    W_AT = 0,
    BIG_AT = 256,
    WEIGHT_BYTES = 256 + 4 * 3000000,
    LOGIT_BYTES = 16 * 64 * 4,
    RING_AT = 8192
};

static const PlanZone zones[] = {
    {"step, tokens, state", ZONE_DEVICE_ZERO, SMALL_BYTES},
    {"weights", ZONE_WEIGHTS, WEIGHT_BYTES},
    {"host weights", ZONE_HOST_WEIGHTS, 256},
    {"host", ZONE_HOST, RING_AT + 512},
    {"logits", ZONE_DEVICE, LOGIT_BYTES},
};

#define B_STEP {0, STEP_AT, 256}
#define B_TOKENS {0, TOKENS_AT, 4 * (96 + 1)}
#define B_STATE {0, STATE_AT, 4 * 96}
#define B_RING {3, RING_AT, 4 * (96 + 1)}
#define B_LOGITS {4, 0, LOGIT_BYTES}
static const PlanBinding bindings[] = {
    B_STEP,  B_TOKENS, {1, W_AT, 256}, {1, BIG_AT, 4 * 3000000},
    B_STATE,                                     /* 0: state */
    B_STEP,  B_STATE,  {2, 0, 256},    B_LOGITS, /* 5: logits */
    B_STEP,  B_TOKENS, B_RING,         B_LOGITS, /* 9: sample */
    B_STEP,                                      /* 13: advance */
};

/* Kernel 5 * size + KERNEL of fake.comp; sizes 1, 4, 16. */
#define KERNELS(m)                                                                                 \
    {"state " #m, 5, 64, 0}, {"logits " #m, 4, 64, 0}, {"logits of last " #m, 4, 64, 0},           \
        {"sample " #m, 4, 64, 0}, {"advance " #m, 1, 64, 0}
static const PlanKernel kernels[] = {KERNELS(1), KERNELS(4), KERNELS(16)};

/* Per size: state, logits of all, of the last, sample, advance. */
#define DISPATCHES(k, m, split)                                                                    \
    {"state", 5 * k, {1, 1, 1}, 0, false, false, 0},                                               \
        {"logits", 5 * k + 1, {1, m, 1}, 5, true, split, 0},                                       \
        {"last", 5 * k + 2, {1, 1, 1}, 5, true, split, 0},                                         \
        {"sample", 5 * k + 3, {1, 1, 1}, 9, true, false, 0},                                       \
        {"advance", 5 * k + 4, {1, 1, 1}, 13, true, false, 0}
static const PlanDispatch dispatches[] = {DISPATCHES(0, 1, false), DISPATCHES(1, 4, false),
                                          DISPATCHES(2, 16, true)};

#define SEQUENCES(k, m)                                                                            \
    {SEQUENCE_PREFILL, m, 2, {{5 * k, 1}, {5 * k + 4, 1}}},                                        \
        {SEQUENCE_PREFILL_LAST, m, 2, {{5 * k, 1}, {5 * k + 2, 2}}}, {                             \
        SEQUENCE_LOGITS, m, 2, { {5 * k, 2}, {5 * k + 4, 1} }                                      \
    }
static const PlanSequence sequences[] = {{SEQUENCE_DECODE, 1, 2, {{0, 1}, {2, 2}}},
                                         {SEQUENCE_LOGITS, 1, 2, {{0, 2}, {4, 1}}},
                                         SEQUENCES(1, 4),
                                         SEQUENCES(2, 16)};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
const Plan plan = {
    .model_name = "fake",
    .arch = "fake",
    .qcc_version = "test",
    .n_ctx = 96,
    .n_vocab = 64,
    .n_layer = 1,
    .n_embd = 1,
    .n_zones = COUNT(zones),
    .n_kernels = COUNT(kernels),
    .n_dispatches = COUNT(dispatches),
    .n_bindings = COUNT(bindings),
    .n_sequences = COUNT(sequences),
    .zones = zones,
    .kernels = kernels,
    .dispatches = dispatches,
    .bindings = bindings,
    .sequences = sequences,
    .step = B_STEP,
    .tokens = B_TOKENS,
    .ring = B_RING,
    .logits = B_LOGITS,
    .readback = {3, 0, LOGIT_BYTES},
    .needs = {.device_name = "any device",
              .api_version = 1u << 22 | 1u << 12,
              .max_storage_range = WEIGHT_BYTES,
              .max_allocation = WEIGHT_BYTES,
              .storage_alignment = ALIGN,
              .max_invocations = 64,
              .max_groups_x = 1,
              .max_groups_y = 16,
#ifdef FAKE_HUGE
              .shared_bytes = 1u << 30,
              .max_bindings = 1u << 31,
              .subgroup_size = 3,
#endif
              .subgroup_arithmetic = false},
    .decode_bytes = 1000,
    .manifest_hash = 0x1234567890abcdefu,
};
