/* gguf_types.h - what the file format says about each tensor type id: enough to size any tensor and
 * to find its scales. How weights are decoded is the business of kernels/formats. */
#ifndef QCC_GGUF_TYPES_H
#define QCC_GGUF_TYPES_H
#include "util.h"

typedef enum {
    GGUF_TYPE_WEIGHT,   /* a weight format */
    GGUF_TYPE_PLAIN,    /* numbers for index and helper tensors */
    GGUF_TYPE_INTERNAL, /* activations of an inference engine, never stored */
    GGUF_TYPE_REMOVED,  /* once part of the format; not decodable today */
} GgufTypeStatus;

typedef struct {
    const char *name;
    GgufTypeStatus status;
    uint32_t block_n, block_bytes; /* 0 if removed */
    /* Where f16 scales stand in a block, -1: none. Types whose scale is of another kind: see
     * gguf_check.c. */
    int scale[2];
} GgufTypeInfo;

const GgufTypeInfo *gguf_type_info(uint32_t type); /* NULL if unknown */
/* "Q4_K", "type 36 (IQ4_NL_4_4, removed from the format)", "type 99 (unknown)" */
const char *gguf_type_label(Arena *a, uint32_t type);
#endif
