/* gguf_writer.h - builds GGUF files in memory for tests, good ones and damaged ones.
 *
 *     GgufWriter w = {0};
 *     gw_string(&w, "general.architecture", "llama");
 *     gw_tensor(&w, "x", 0, 2, (uint64_t[]){32, 2}, NULL, 256);       (no data: zeros)
 *     Bytes file = gw_finish(&w);                                     (valid until gw_free)
 *     gw_free(&w);
 *
 * Damage: set .version, .magic, .more_kv, .more_tensors or .alignment before, use the gw_raw_
 * functions, or change the bytes of the finished file. */
#ifndef QCC_GGUF_WRITER_H
#define QCC_GGUF_WRITER_H
#include "../../compiler/gguf.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *p;
    size_t n, cap;
} GwBuffer;

typedef struct {
    GwBuffer kv, info, data, file;
    uint64_t n_kv, n_tensors;
    uint64_t more_kv, more_tensors; /* added to the counts of the header: a lie */
    uint32_t version;               /* 0: 3 */
    uint32_t alignment;             /* 0: 32; it is not written as a key */
    uint32_t magic;                 /* 0: "GGUF" */
} GgufWriter;

static inline void gw_put(GwBuffer *b, const void *p, size_t n) {
    if (b->n + n > b->cap) {
        b->cap = (b->n + n) * 2;
        b->p = realloc(b->p, b->cap);
        if (!b->p) abort();
    }
    if (n && p) memcpy(b->p + b->n, p, n);
    else if (n) memset(b->p + b->n, 0, n);
    b->n += n;
}

/* A little-endian number of n bytes. */
static inline void gw_put_int(GwBuffer *b, uint64_t x, size_t n) {
    for (size_t i = 0; i < n; i++) gw_put(b, (uint8_t[]){(uint8_t)(x >> 8 * i)}, 1);
}

static inline void gw_put_string(GwBuffer *b, const char *s, size_t n) {
    gw_put_int(b, n, 8);
    gw_put(b, s, n);
}

static inline void gw_pad(GwBuffer *b, size_t to) {
    while (b->n % to) gw_put(b, NULL, 1);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Key and type; the caller appends the value to w->kv. */
static inline void gw_raw_key(GgufWriter *w, const char *key, size_t n, uint32_t type) {
    gw_put_string(&w->kv, key, n);
    gw_put_int(&w->kv, type, 4);
    w->n_kv++;
}

static inline void gw_int(GgufWriter *w, const char *key, GgufType type, int64_t x) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    gw_raw_key(w, key, strlen(key), type);
    gw_put_int(&w->kv, (uint64_t)x, bytes[type]);
}

static inline void gw_u32(GgufWriter *w, const char *key, uint32_t x) {
    gw_int(w, key, GGUF_U32, x);
}
static inline void gw_bool(GgufWriter *w, const char *key, bool x) { gw_int(w, key, GGUF_BOOL, x); }

static inline void gw_f32(GgufWriter *w, const char *key, float x) {
    gw_raw_key(w, key, strlen(key), GGUF_F32);
    gw_put(&w->kv, &x, sizeof x);
}

static inline void gw_f64(GgufWriter *w, const char *key, double x) {
    gw_raw_key(w, key, strlen(key), GGUF_F64);
    gw_put(&w->kv, &x, sizeof x);
}

static inline void gw_string(GgufWriter *w, const char *key, const char *s) {
    gw_raw_key(w, key, strlen(key), GGUF_STRING);
    gw_put_string(&w->kv, s, strlen(s));
}

/* An array of numbers: n elements, `bytes` in all. */
static inline void gw_array(GgufWriter *w, const char *key, GgufType elem, uint64_t n,
                            const void *p, size_t bytes) {
    gw_raw_key(w, key, strlen(key), GGUF_ARRAY);
    gw_put_int(&w->kv, elem, 4);
    gw_put_int(&w->kv, n, 8);
    gw_put(&w->kv, p, bytes);
}

static inline void gw_strings(GgufWriter *w, const char *key, uint64_t n, const char *const s[]) {
    gw_array(w, key, GGUF_STRING, n, NULL, 0);
    for (uint64_t i = 0; i < n; i++) gw_put_string(&w->kv, s[i], strlen(s[i]));
}

/* ---- tensors --------------------------------------------------------------------------------- */

static inline void gw_raw_tensor(GgufWriter *w, const char *name, size_t name_n, uint32_t type,
                                 uint32_t n_dims, const uint64_t *ne, uint64_t offset) {
    gw_put_string(&w->info, name, name_n);
    gw_put_int(&w->info, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++) gw_put_int(&w->info, ne[d], 8);
    gw_put_int(&w->info, type, 4);
    gw_put_int(&w->info, offset, 8);
    w->n_tensors++;
}

/* Places the tensor behind those before it. */
static inline void gw_tensor(GgufWriter *w, const char *name, uint32_t type, uint32_t n_dims,
                             const uint64_t *ne, const void *data, size_t bytes) {
    gw_pad(&w->data, w->alignment ? w->alignment : 32);
    gw_raw_tensor(w, name, strlen(name), type, n_dims, ne, w->data.n);
    gw_put(&w->data, data, bytes);
}

static inline Bytes gw_finish(GgufWriter *w) {
    GwBuffer *f = &w->file;
    f->n = 0;
    gw_put_int(f, w->magic ? w->magic : 0x46554747, 4);
    gw_put_int(f, w->version ? w->version : 3, 4);
    gw_put_int(f, w->n_tensors + w->more_tensors, 8);
    gw_put_int(f, w->n_kv + w->more_kv, 8);
    gw_put(f, w->kv.p, w->kv.n);
    gw_put(f, w->info.p, w->info.n);
    if (w->data.n) gw_pad(f, w->alignment ? w->alignment : 32);
    gw_put(f, w->data.p, w->data.n);
    return (Bytes){f->p, f->n};
}

static inline void gw_free(GgufWriter *w) {
    free(w->kv.p);
    free(w->info.p);
    free(w->data.p);
    free(w->file.p);
    *w = (GgufWriter){0};
}
#endif
