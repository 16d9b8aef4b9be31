/* gguf_types.c - see gguf_types.h. */
#include "gguf_types.h"

#define WEIGHT(id, name, n, bytes, d, m) [id] = {name, GGUF_TYPE_WEIGHT, n, bytes, {d, m}}
#define PLAIN(id, name, bytes) [id] = {name, GGUF_TYPE_PLAIN, 1, bytes, {-1, -1}}
#define INTERNAL(id, name, n, bytes) [id] = {name, GGUF_TYPE_INTERNAL, n, bytes, {-1, -1}}
#define REMOVED(id, name) [id] = {name, GGUF_TYPE_REMOVED, 0, 0, {-1, -1}}

static const GgufTypeInfo types[] = {
    WEIGHT(0, "F32", 1, 4, -1, -1),
    WEIGHT(1, "F16", 1, 2, 0, -1),
    WEIGHT(2, "Q4_0", 32, 18, 0, -1),
    WEIGHT(3, "Q4_1", 32, 20, 0, 2),
    REMOVED(4, "Q4_2"),
    REMOVED(5, "Q4_3"),
    WEIGHT(6, "Q5_0", 32, 22, 0, -1),
    WEIGHT(7, "Q5_1", 32, 24, 0, 2),
    WEIGHT(8, "Q8_0", 32, 34, 0, -1),
    INTERNAL(9, "Q8_1", 32, 36),
    WEIGHT(10, "Q2_K", 256, 84, 80, 82),
    WEIGHT(11, "Q3_K", 256, 110, 108, -1),
    WEIGHT(12, "Q4_K", 256, 144, 0, 2),
    WEIGHT(13, "Q5_K", 256, 176, 0, 2),
    WEIGHT(14, "Q6_K", 256, 210, 208, -1),
    INTERNAL(15, "Q8_K", 256, 292),
    WEIGHT(16, "IQ2_XXS", 256, 66, 0, -1),
    WEIGHT(17, "IQ2_XS", 256, 74, 0, -1),
    WEIGHT(18, "IQ3_XXS", 256, 98, 0, -1),
    WEIGHT(19, "IQ1_S", 256, 50, 0, -1),
    WEIGHT(20, "IQ4_NL", 32, 18, 0, -1),
    WEIGHT(21, "IQ3_S", 256, 110, 0, -1),
    WEIGHT(22, "IQ2_S", 256, 82, 0, -1),
    WEIGHT(23, "IQ4_XS", 256, 136, 0, -1),
    PLAIN(24, "I8", 1),
    PLAIN(25, "I16", 2),
    PLAIN(26, "I32", 4),
    PLAIN(27, "I64", 8),
    PLAIN(28, "F64", 8),
    WEIGHT(29, "IQ1_M", 256, 56, -1, -1),
    WEIGHT(30, "BF16", 1, 2, -1, -1),
    REMOVED(31, "Q4_0_4_4"),
    REMOVED(32, "Q4_0_4_8"),
    REMOVED(33, "Q4_0_8_8"),
    WEIGHT(34, "TQ1_0", 256, 54, 52, -1),
    WEIGHT(35, "TQ2_0", 256, 66, 64, -1),
    REMOVED(36, "IQ4_NL_4_4"),
    REMOVED(37, "IQ4_NL_4_8"),
    REMOVED(38, "IQ4_NL_8_8"),
    WEIGHT(39, "MXFP4", 32, 17, -1, -1),
    WEIGHT(40, "NVFP4", 64, 36, -1, -1),
    WEIGHT(41, "Q1_0", 128, 18, 0, -1),
    WEIGHT(42, "Q2_0", 64, 18, 0, -1),
};

const GgufTypeInfo *gguf_type_info(uint32_t type) {
    return type < sizeof types / sizeof *types && types[type].name ? &types[type] : NULL;
}

const char *gguf_type_label(Arena *a, uint32_t type) {
    const GgufTypeInfo *t = gguf_type_info(type);
    if (!t) return arena_printf(a, "type %u (unknown)", type);
    switch (t->status) {
    case GGUF_TYPE_INTERNAL:
        return arena_printf(a, "type %u (%s, internal to inference engines)", type, t->name);
    case GGUF_TYPE_REMOVED:
        return arena_printf(a, "type %u (%s, removed from the format)", type, t->name);
    default: return t->name;
    }
}
