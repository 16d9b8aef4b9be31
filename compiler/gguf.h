/* gguf.h - reader of GGUF versions 2 and 3, split files included.
 *
 * The file is untrusted: every count, length and offset is checked before it is used, with
 * overflow-checked sums. The reader maps the file and never copies tensor data. Strings are views
 * into the mapping: not NUL-terminated and possibly not UTF-8. Numbers are little-endian;
 * big-endian files and version 1 are refused by name. */
#ifndef QCC_GGUF_H
#define QCC_GGUF_H
#include "util.h"

typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
} GgufType;

typedef struct {
    const char *s;
    size_t n;
} GgufString;

typedef struct {
    GgufString key;
    GgufType type;
    GgufType elem;             /* of an array */
    uint64_t n;                /* elements of an array, else 1 */
    const uint8_t *data;       /* first element, unaligned */
    const GgufString *strings; /* [n] for a string or an array of strings */
} GgufKv;

typedef struct {
    const char *name;    /* NUL-terminated copy, 1..63 bytes */
    uint32_t type;       /* tensor type id of the file format */
    uint32_t n_dims;     /* 1..4 */
    uint64_t ne[4];      /* ne[0] is contiguous; missing dimensions are 1 */
    const uint8_t *data; /* inside the mapping */
    uint64_t bytes;
    const struct Format *store; /* the format it is requantized to, NULL as a rule: see weights.h */
    float *columns; /* [ne[0]] scales of its columns, where that format has them: see balance.h */
} GgufTensor;

typedef struct Gguf {
    const char *path;
    uint32_t version;
    uint32_t alignment;
    uint64_t file_bytes; /* of all parts */
    uint32_t n_parts;
    size_t n_kv;
    const GgufKv *kv;
    size_t n_tensors;
    const GgufTensor *tensors; /* of all parts, in file order */
    void *index;               /* private */
    Bytes *parts;              /* [n_parts] whole mapped files */
} Gguf;

/* Opens `path` (any part of a split model will do) and its sibling parts. */
Gguf *gguf_open(Arena *a, const char *path);
/* The same on bytes already in memory; a split model is refused. `path` is for messages. */
Gguf *gguf_parse(Arena *a, const char *path, Bytes file);

const GgufKv *gguf_find(const Gguf *g, const char *key);        /* NULL if absent */
const GgufTensor *gguf_tensor(const Gguf *g, const char *name); /* NULL if absent */

/* Scalars. Any integer type that holds the value is accepted; a wrong type fails naming the key. */
uint64_t gguf_uint(const Gguf *g, const char *key, uint64_t absent);
double gguf_float(const Gguf *g, const char *key, double absent);
bool gguf_bool(const Gguf *g, const char *key, bool absent);
GgufString gguf_string(const Gguf *g, const char *key, const char *absent);
/* Element i of a numeric scalar or array, converted. */
double gguf_number(const GgufKv *kv, uint64_t i);
const char *gguf_type_name(GgufType t);

/* Fails if a scale (or a floating-point weight) of the tensor is infinite or NaN. Reads the whole
 * tensor. */
void gguf_check_data(const Gguf *g, const GgufTensor *t);
/* The same of some rows (ne[1] * ne[2] * ne[3] in all), as an answer: for threads, which cannot
 * fail. */
bool gguf_rows_finite(const GgufTensor *t, uint64_t row0, uint64_t n_rows);

/* Prints metadata and tensors for `qcc inspect`. */
void gguf_print(const Gguf *g, Text *out);
#endif
