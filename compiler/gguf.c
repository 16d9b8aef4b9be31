/* gguf.c - opening, split models, look-up and typed access. See gguf.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "gguf_private.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- index ----------------------------------------------------------------------------------- */

static int compare_names(const char *a, size_t na, const char *b, size_t nb) {
    int c = memcmp(a, b, na < nb ? na : nb);
    return c ? c : (na > nb) - (na < nb);
}

static int by_name(const void *a, const void *b) {
    const GgufIndexEntry *x = a, *y = b;
    int c = compare_names(x->s, x->n, y->s, y->n);
    return c ? c : (x->i > y->i) - (x->i < y->i);
}

static void index_sort(const Gguf *g, GgufIndexEntry *e, size_t n, const char *what) {
    if (n) qsort(e, n, sizeof *e, by_name);
    for (size_t i = 1; i < n; i++)
        if (!compare_names(e[i - 1].s, e[i - 1].n, e[i].s, e[i].n))
            fail(FAIL_USER,
                 "%s: %s '%s' occurs twice; the file is damaged or made by a broken converter",
                 g->path, what,
                 printable(((GgufIndex *)g->index)->arena, e[i].s, e[i].n, GGUF_NAME_SHOWN));
}

void gguf_index_kv(Gguf *g) {
    GgufIndex *index = g->index;
    index->kv = ARENA_ARRAY(index->arena, GgufIndexEntry, g->n_kv);
    for (size_t i = 0; i < g->n_kv; i++)
        index->kv[i] = (GgufIndexEntry){g->kv[i].key.s, g->kv[i].key.n, i};
    index_sort(g, index->kv, g->n_kv, "metadata key");
}

void gguf_index_tensors(Gguf *g) {
    GgufIndex *index = g->index;
    index->tensors = ARENA_ARRAY(index->arena, GgufIndexEntry, g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const char *name = g->tensors[i].name;
        index->tensors[i] = (GgufIndexEntry){name, strlen(name), i};
    }
    index_sort(g, index->tensors, g->n_tensors, "tensor");
}

/* Position in the file's order, SIZE_MAX if absent. */
static size_t index_find(const GgufIndexEntry *e, size_t n, const char *name) {
    size_t lo = 0, name_n = strlen(name);
    while (n > lo) {
        size_t mid = lo + (n - lo) / 2;
        int c = compare_names(e[mid].s, e[mid].n, name, name_n);
        if (!c) return e[mid].i;
        if (c < 0) lo = mid + 1;
        else n = mid;
    }
    return SIZE_MAX;
}

const GgufKv *gguf_find(const Gguf *g, const char *key) {
    size_t i = index_find(((GgufIndex *)g->index)->kv, g->n_kv, key);
    return i == SIZE_MAX ? NULL : &g->kv[i];
}

const GgufTensor *gguf_tensor(const Gguf *g, const char *name) {
    size_t i = index_find(((GgufIndex *)g->index)->tensors, g->n_tensors, name);
    return i == SIZE_MAX ? NULL : &g->tensors[i];
}

const char *gguf_shown_name(const Gguf *g, const char *name) {
    return printable(((GgufIndex *)g->index)->arena, name, strlen(name), GGUF_NAME_SHOWN);
}

/* ---- split models ---------------------------------------------------------------------------- */

enum { PARTS_MOST = 65535 };

static uint32_t split_count(const Gguf *g) {
    uint64_t n = gguf_uint(g, "split.count", 0);
    if (n > PARTS_MOST)
        fail(FAIL_USER, "%s: metadata key 'split.count' is %llu; expected at most %d", g->path,
             (unsigned long long)n, PARTS_MOST);
    return n < 2 ? 1 : (uint32_t)n;
}

static const char *part_suffix(Arena *a, uint64_t no, uint32_t count) {
    return arena_printf(a, "-%05llu-of-%05u.gguf", (unsigned long long)no + 1, count);
}

/* The common beginning of the parts' names. */
static const char *part_prefix(Arena *a, const Gguf *g, uint32_t count) {
    uint64_t no = gguf_uint(g, "split.no", UINT64_MAX);
    if (no >= count)
        fail(FAIL_USER,
             no == UINT64_MAX
                 ? "%s: metadata key 'split.no' is missing, though the model has %u parts"
                 : "%s: metadata key 'split.no' is not below 'split.count' %u",
             g->path, count);
    const char *suffix = part_suffix(a, no, count);
    size_t n = strlen(g->path), n_suffix = strlen(suffix);
    if (n < n_suffix || strcmp(g->path + n - n_suffix, suffix))
        fail(FAIL_USER,
             "%s: this is part %u of %u of a split model, but its name does not end in '%s', so "
             "that the other parts cannot be found; give the parts the names they were published "
             "with",
             g->path, (unsigned)no + 1, count, suffix);
    return arena_strndup(a, g->path, n - n_suffix);
}

static Gguf *open_part(Arena *a, const char *path, uint32_t no, uint32_t count) {
    if (access(path, F_OK))
        fail(FAIL_USER,
             "%s: part %u of %u of the model is missing; all parts must be in one directory", path,
             no + 1, count);
    Gguf *g = gguf_read_part(a, path, file_map(a, path));
    uint64_t is_no = gguf_uint(g, "split.no", UINT64_MAX),
             is_count = gguf_uint(g, "split.count", 0);
    if (is_no != no || is_count != count)
        fail(FAIL_USER,
             "%s: metadata keys say split.no %lld of split.count %lld; expected %u of %u; the file "
             "belongs to another model or is named wrongly",
             path, (long long)is_no, (long long)is_count, no, count);
    return g;
}

static void check_tensor_count(const Gguf *part, uint64_t n_tensors) {
    uint64_t expected = gguf_uint(part, "split.tensors.count", n_tensors);
    if (expected != n_tensors)
        fail(FAIL_USER,
             "%s: the parts have %llu tensors together; metadata key 'split.tensors.count' says "
             "%llu",
             part->path, (unsigned long long)n_tensors, (unsigned long long)expected);
}

/* Joins the parts: metadata of the first, tensors of all. */
static Gguf *join_parts(Arena *a, Gguf *const parts[], uint32_t count) {
    Gguf *g = parts[0];
    size_t n = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        n += parts[i]->n_tensors;
        bytes += parts[i]->file_bytes;
    }
    for (uint32_t i = 0; i < count; i++) check_tensor_count(parts[i], n);
    GgufTensor *tensors = ARENA_ARRAY(a, GgufTensor, n), *t = tensors;
    Bytes *files = ARENA_ARRAY(a, Bytes, count);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i]->n_tensors) memcpy(t, parts[i]->tensors, parts[i]->n_tensors * sizeof *t);
        t += parts[i]->n_tensors;
        files[i] = parts[i]->parts[0];
    }
    g->tensors = tensors;
    g->n_tensors = n;
    g->file_bytes = bytes;
    g->parts = files;
    g->n_parts = count;
    gguf_index_tensors(g);
    return g;
}

Gguf *gguf_open(Arena *a, const char *path) {
    Gguf *g = gguf_read_part(a, path, file_map(a, path));
    uint32_t count = split_count(g);
    if (count == 1) return g;
    const char *prefix = part_prefix(a, g, count);
    uint64_t own = gguf_uint(g, "split.no", 0);
    Gguf **parts = ARENA_ARRAY(a, Gguf *, count);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = arena_printf(a, "%s%s", prefix, part_suffix(a, i, count));
        parts[i] = i == own ? g : open_part(a, name, i, count);
    }
    return join_parts(a, parts, count);
}

Gguf *gguf_parse(Arena *a, const char *path, Bytes file) {
    Gguf *g = gguf_read_part(a, path, file);
    if (split_count(g) > 1)
        fail(FAIL_USER, "%s: this is one part of a split model; a model in memory must be whole",
             path);
    return g;
}

/* ---- typed access ---------------------------------------------------------------------------- */

const char *gguf_type_name(GgufType t) {
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return (unsigned)t <= GGUF_F64 ? names[t] : "unknown";
}

static uint64_t load_bits(const uint8_t *p, unsigned bytes) {
    uint64_t x = 0;
    for (unsigned i = 0; i < bytes; i++) x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static double load_f32(const uint8_t *p) {
    uint32_t bits = (uint32_t)load_bits(p, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static double load_f64(const uint8_t *p) {
    uint64_t bits = load_bits(p, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Element i of a non-negative integer; false if it is of another type or negative. */
static bool load_uint(const GgufKv *kv, GgufType type, uint64_t i, uint64_t *out) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8, 0};
    static const bool is_signed[] = {0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0};
    unsigned n = bytes[type];
    if (!n) return false;
    *out = load_bits(kv->data + i * n, n);
    return !(is_signed[type] && *out >> (8 * n - 1));
}

double gguf_number(const GgufKv *kv, uint64_t i) {
    GgufType type = kv->type == GGUF_ARRAY ? kv->elem : kv->type;
    if (i >= kv->n)
        fail(FAIL_USER, "a metadata array has %llu elements; element %llu is needed",
             (unsigned long long)kv->n, (unsigned long long)i);
    switch (type) {
    case GGUF_U8: return kv->data[i];
    case GGUF_BOOL: return kv->data[i] != 0;
    case GGUF_I8: return (int8_t)kv->data[i];
    case GGUF_U16: return (uint16_t)load_bits(kv->data + i * 2, 2);
    case GGUF_I16: return (int16_t)load_bits(kv->data + i * 2, 2);
    case GGUF_U32: return (uint32_t)load_bits(kv->data + i * 4, 4);
    case GGUF_I32: return (int32_t)load_bits(kv->data + i * 4, 4);
    case GGUF_F32: return load_f32(kv->data + i * 4);
    case GGUF_U64: return (double)load_bits(kv->data + i * 8, 8);
    case GGUF_I64: return (double)(int64_t)load_bits(kv->data + i * 8, 8);
    case GGUF_F64: return load_f64(kv->data + i * 8);
    default: fail(FAIL_USER, "a metadata value holds strings; numbers are needed");
    }
}

static _Noreturn void fail_type(const Gguf *g, const GgufKv *kv, const char *expected) {
    Arena *a = ((GgufIndex *)g->index)->arena;
    const char *key = printable(a, kv->key.s, kv->key.n, GGUF_NAME_SHOWN),
               *is = gguf_type_name(kv->type);
    uint64_t dummy;
    bool negative = kv->type < GGUF_ARRAY && kv->type != GGUF_F32 && kv->type != GGUF_BOOL &&
                    kv->type != GGUF_STRING && !load_uint(kv, kv->type, 0, &dummy);
    if (negative || kv->type == GGUF_I64)
        fail(FAIL_USER, "%s: metadata key '%s' is %.0f; expected %s", g->path, key,
             gguf_number(kv, 0), expected);
    fail(FAIL_USER, "%s: metadata key '%s' is of type %s; expected %s", g->path, key, is, expected);
}

uint64_t gguf_uint(const Gguf *g, const char *key, uint64_t absent) {
    const GgufKv *kv = gguf_find(g, key);
    uint64_t x = absent;
    if (kv && !load_uint(kv, kv->type, 0, &x)) fail_type(g, kv, "a non-negative integer");
    return x;
}

double gguf_float(const Gguf *g, const char *key, double absent) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return absent;
    if (kv->type == GGUF_STRING || kv->type == GGUF_ARRAY || kv->type == GGUF_BOOL)
        fail_type(g, kv, "a number");
    return gguf_number(kv, 0);
}

bool gguf_bool(const Gguf *g, const char *key, bool absent) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return absent;
    if (kv->type != GGUF_BOOL) fail_type(g, kv, "bool");
    return kv->data[0] != 0;
}

GgufString gguf_string(const Gguf *g, const char *key, const char *absent) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return (GgufString){absent, absent ? strlen(absent) : 0};
    if (kv->type != GGUF_STRING) fail_type(g, kv, "a string");
    return kv->strings[0];
}
