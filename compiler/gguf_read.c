/* gguf_read.c - reads and checks one GGUF file. Every length is compared with what is left of the
 * file before it is used. */
#include "gguf_private.h"
#include "gguf_types.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC_BYTES = 4,
    HEADER_BYTES = 24,
    KV_LEAST_BYTES = 14,
    INFO_LEAST_BYTES = 33,
    NAME_MOST_BYTES = 63
};
enum { ALIGNMENT_DEFAULT = 32, ALIGNMENT_MOST = 1 << 20, DIMS_MOST = 4 };

typedef struct {
    Arena *arena;
    const char *path;
    Bytes file;
    size_t pos; /* <= file.n */
    /* What is being read, for messages. */
    const char *what; /* "metadata entry", "tensor" */
    uint64_t i, n;
    GgufString name; /* of the entry or tensor, once known */
} Reader;

static uint32_t load_u32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const uint8_t *p) { return load_u32(p) | (uint64_t)load_u32(p + 4) << 32; }

static const char *shown(Reader *r, GgufString s) {
    return printable(r->arena, s.s, s.n, GGUF_NAME_SHOWN);
}

/* "file.gguf: tensor 'blk.0.attn_q.weight'" */
static const char *where(Reader *r) {
    if (r->name.n)
        return arena_printf(r->arena, "%s: %s '%s'", r->path, r->what, shown(r, r->name));
    return arena_printf(r->arena, "%s: %s %llu of %llu", r->path, r->what,
                        (unsigned long long)r->i + 1, (unsigned long long)r->n);
}

#define DAMAGED "; the file is damaged or made by a broken converter"
#define reader_fail(r, ...)                                                                        \
    fail(FAIL_USER, "%s: %s", where(r), arena_printf((r)->arena, __VA_ARGS__))

static _Noreturn void fail_truncated(Reader *r, uint64_t needed) {
    reader_fail(r,
                "%llu bytes are needed at byte %zu but the file ends at byte %zu; it is truncated "
                "or damaged",
                (unsigned long long)needed, r->pos, r->file.n);
}

static const uint8_t *take(Reader *r, uint64_t bytes) {
    if (bytes > r->file.n - r->pos) fail_truncated(r, bytes);
    const uint8_t *p = r->file.p + r->pos;
    r->pos += (size_t)bytes;
    return p;
}

static GgufString take_string(Reader *r) {
    uint64_t n = load_u64(take(r, 8));
    const uint8_t *p = take(r, n);
    return (GgufString){(const char *)p, (size_t)n};
}

/* ---- header ---------------------------------------------------------------------------------- */

static void check_magic(Arena *a, const char *path, Bytes file) {
    static const char lfs[] = "version https://git-lfs";
    if (file.n == 0) fail(FAIL_USER, "%s: the file is empty; expected a GGUF model", path);
    if (file.n >= MAGIC_BYTES && !memcmp(file.p, "GGUF", MAGIC_BYTES)) return;
    if (file.n >= sizeof lfs - 1 && !memcmp(file.p, lfs, sizeof lfs - 1))
        fail(FAIL_USER,
             "%s: this is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`",
             path);
    fail(FAIL_USER, "%s: not a GGUF file: it starts with '%s', expected 'GGUF'", path,
         printable(a, (const char *)file.p, file.n < MAGIC_BYTES ? file.n : MAGIC_BYTES,
                   MAGIC_BYTES));
}

static uint32_t check_version(const char *path, uint32_t version) {
    if (version == 2 || version == 3) return version;
    if ((version & 0xffff) == 0 && version)
        fail(FAIL_USER,
             "%s: the file is big-endian; qcc reads little-endian GGUF only, convert it first",
             path);
    if (version == 1)
        fail(FAIL_USER,
             "%s: GGUF version 1 is obsolete; qcc reads versions 2 and 3, convert the model again",
             path);
    fail(FAIL_USER, "%s: GGUF version %u is unknown; qcc reads versions 2 and 3", path, version);
}

/* Bounds both counts by the bytes that follow, and so all allocations by a small multiple of the
 * file's size. */
static void check_counts(const char *path, uint64_t n_tensors, uint64_t n_kv, uint64_t left) {
    if (n_kv <= left / KV_LEAST_BYTES &&
        n_tensors <= (left - n_kv * KV_LEAST_BYTES) / INFO_LEAST_BYTES)
        return;
    fail(FAIL_USER,
         "%s: the header promises %llu metadata entries and %llu tensors, more than %llu bytes can "
         "hold; the file is truncated or damaged",
         path, (unsigned long long)n_kv, (unsigned long long)n_tensors, (unsigned long long)left);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static const uint8_t type_bytes[] = {1, 1, 2,  2, 4, 4, 4,
                                     1, 8, 12, 8, 8, 8}; /* of a string or array: at least */

static uint32_t take_type(Reader *r, const char *of) {
    uint32_t type = load_u32(take(r, 4));
    if (type > GGUF_F64) reader_fail(r, "unknown type %u of %s; expected 0..12" DAMAGED, type, of);
    return type;
}

static const GgufString *take_strings(Reader *r, uint64_t n) {
    GgufString *s = ARENA_ARRAY(r->arena, GgufString, n);
    for (uint64_t i = 0; i < n; i++) s[i] = take_string(r);
    return s;
}

static void take_array(Reader *r, GgufKv *kv) {
    kv->elem = (GgufType)take_type(r, "the array's elements");
    if (kv->elem == GGUF_ARRAY) reader_fail(r, "arrays of arrays are not supported");
    kv->n = load_u64(take(r, 8));
    uint64_t left = r->file.n - r->pos, each = type_bytes[kv->elem];
    if (kv->n > left / each)
        reader_fail(r,
                    "an array of %llu elements (%s) is longer than the %llu bytes that are left; "
                    "the file is truncated or damaged",
                    (unsigned long long)kv->n, gguf_type_name(kv->elem), (unsigned long long)left);
    kv->data = r->file.p + r->pos;
    if (kv->elem == GGUF_STRING) kv->strings = take_strings(r, kv->n);
    else take(r, kv->n * each);
}

static void take_kv(Reader *r, GgufKv *kv) {
    r->name.n = 0;
    kv->key = take_string(r);
    if (!kv->key.n) reader_fail(r, "the key is empty" DAMAGED);
    r->name = kv->key;
    if (memchr(kv->key.s, 0, kv->key.n)) reader_fail(r, "the key holds a NUL byte" DAMAGED);
    kv->type = (GgufType)take_type(r, "the value");
    kv->n = 1;
    if (kv->type == GGUF_ARRAY) {
        take_array(r, kv);
        return;
    }
    kv->data = r->file.p + r->pos;
    if (kv->type == GGUF_STRING) kv->strings = take_strings(r, 1);
    else take(r, type_bytes[kv->type]);
}

static void take_metadata(Reader *r, Gguf *g) {
    GgufKv *kv = ARENA_ARRAY(r->arena, GgufKv, g->n_kv);
    r->what = "metadata key";
    r->n = g->n_kv;
    for (r->i = 0; r->i < r->n; r->i++) take_kv(r, &kv[r->i]);
    g->kv = kv;
    gguf_index_kv(g);
}

static uint32_t read_alignment(const Gguf *g) {
    const GgufKv *kv = gguf_find(g, "general.alignment");
    if (!kv) return ALIGNMENT_DEFAULT;
    if (kv->type != GGUF_U32)
        fail(FAIL_USER, "%s: metadata key 'general.alignment' is of type %s; expected u32" DAMAGED,
             g->path, gguf_type_name(kv->type));
    uint32_t n = load_u32(kv->data);
    if (n == 0 || (n & (n - 1)) || n > ALIGNMENT_MOST)
        fail(FAIL_USER,
             "%s: metadata key 'general.alignment' is %u; expected a power of two up to %d" DAMAGED,
             g->path, n, ALIGNMENT_MOST);
    return n;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const char *shape_text(Reader *r, const GgufTensor *t) {
    Text s = {.arena = r->arena};
    for (uint32_t d = 0; d < t->n_dims; d++)
        text_printf(&s, d ? " x %llu" : "%llu", (unsigned long long)t->ne[d]);
    return s.s;
}

static void take_name(Reader *r, GgufTensor *t) {
    r->name.n = 0;
    GgufString name = take_string(r);
    if (!name.n) reader_fail(r, "the name is empty" DAMAGED);
    r->name = name;
    if (name.n > NAME_MOST_BYTES)
        reader_fail(r, "the name has %zu bytes; expected at most %d" DAMAGED, name.n,
                    NAME_MOST_BYTES);
    if (memchr(name.s, 0, name.n)) reader_fail(r, "the name holds a NUL byte" DAMAGED);
    t->name = arena_strndup(r->arena, name.s, name.n);
}

/* Returns the number of elements. */
static uint64_t take_shape(Reader *r, GgufTensor *t) {
    uint64_t n = 1;
    t->n_dims = load_u32(take(r, 4));
    if (t->n_dims < 1 || t->n_dims > DIMS_MOST)
        reader_fail(r, "%u dimensions; expected 1 to %d" DAMAGED, t->n_dims, DIMS_MOST);
    for (uint32_t d = 0; d < DIMS_MOST; d++) t->ne[d] = d < t->n_dims ? load_u64(take(r, 8)) : 1;
    for (uint32_t d = 0; d < DIMS_MOST; d++) {
        if (t->ne[d] == 0)
            reader_fail(r, "the shape %s has no elements; expected at least one", shape_text(r, t));
        if (t->ne[d] > (uint64_t)INT64_MAX / n)
            reader_fail(r, "the shape %s has more than 2^63 elements" DAMAGED, shape_text(r, t));
        n *= t->ne[d];
    }
    return n;
}

static void take_tensor_type(Reader *r, GgufTensor *t, uint64_t n_elements) {
    t->type = load_u32(take(r, 4));
    const GgufTypeInfo *info = gguf_type_info(t->type);
    if (!info)
        reader_fail(r, "type %u is unknown; the file needs a newer qcc, or is damaged", t->type);
    if (info->status == GGUF_TYPE_REMOVED || info->status == GGUF_TYPE_INTERNAL)
        reader_fail(r, "%s cannot be read; convert or quantize the model again",
                    gguf_type_label(r->arena, t->type));
    if (t->ne[0] % info->block_n)
        reader_fail(r, "row length %llu is not a multiple of %s's block of %u" DAMAGED,
                    (unsigned long long)t->ne[0], info->name, info->block_n);
    uint64_t n_blocks = n_elements / info->block_n;
    if (n_blocks > UINT64_MAX / info->block_bytes)
        reader_fail(r, "the shape %s does not fit in 64 bits as %s" DAMAGED, shape_text(r, t),
                    info->name);
    t->bytes = n_blocks * info->block_bytes;
}

/* Reads one tensor info; its place in the file is settled when all are read. */
static uint64_t take_tensor(Reader *r, uint32_t alignment, GgufTensor *t) {
    take_name(r, t);
    take_tensor_type(r, t, take_shape(r, t));
    uint64_t offset = load_u64(take(r, 8));
    if (offset % alignment)
        reader_fail(r, "offset %llu is not a multiple of the alignment %u" DAMAGED,
                    (unsigned long long)offset, alignment);
    return offset;
}

static void place_tensor(Reader *r, GgufTensor *t, uint64_t data_start, uint64_t offset) {
    uint64_t size = r->file.n, room = size > data_start ? size - data_start : 0;
    r->name = (GgufString){t->name, strlen(t->name)};
    if (offset > room || t->bytes > room - offset)
        reader_fail(r,
                    "%llu bytes at offset %llu reach beyond the end of the file (data starts at "
                    "byte %llu, the file has %llu); it is truncated, download it again",
                    (unsigned long long)t->bytes, (unsigned long long)offset,
                    (unsigned long long)data_start, (unsigned long long)size);
    t->data = r->file.p + data_start + offset;
}

static int by_data(const void *a, const void *b) {
    const GgufTensor *x = *(GgufTensor *const *)a, *y = *(GgufTensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void check_overlap(Reader *r, GgufTensor *tensors, size_t n) {
    GgufTensor **order = ARENA_ARRAY(r->arena, GgufTensor *, n);
    for (size_t i = 0; i < n; i++) order[i] = &tensors[i];
    if (n) qsort(order, n, sizeof *order, by_data);
    for (size_t i = 1; i < n; i++) {
        GgufTensor *t = order[i - 1], *next = order[i];
        if (t->bytes <= (uint64_t)(next->data - t->data)) continue;
        fail(FAIL_USER, "%s: tensors '%s' and '%s' overlap" DAMAGED, r->path,
             shown(r, (GgufString){t->name, strlen(t->name)}),
             shown(r, (GgufString){next->name, strlen(next->name)}));
    }
}

static void take_tensors(Reader *r, Gguf *g) {
    GgufTensor *t = ARENA_ARRAY(r->arena, GgufTensor, g->n_tensors);
    uint64_t *offset = ARENA_ARRAY(r->arena, uint64_t, g->n_tensors);
    r->what = "tensor";
    r->n = g->n_tensors;
    for (r->i = 0; r->i < r->n; r->i++) offset[r->i] = take_tensor(r, g->alignment, &t[r->i]);
    uint64_t data_start = round_up(r->pos, g->alignment);
    for (r->i = 0; r->i < r->n; r->i++) place_tensor(r, &t[r->i], data_start, offset[r->i]);
    check_overlap(r, t, g->n_tensors);
    g->tensors = t;
    gguf_index_tensors(g);
}

Gguf *gguf_read_part(Arena *a, const char *path, Bytes file) {
    check_magic(a, path, file);
    if (file.n < HEADER_BYTES)
        fail(FAIL_USER, "%s: %zu bytes are too few for a GGUF header of %d; the file is truncated",
             path, file.n, HEADER_BYTES);
    Gguf *g = ARENA_NEW(a, Gguf);
    g->path = arena_strdup(a, path);
    g->version = check_version(path, load_u32(file.p + 4));
    uint64_t n_tensors = load_u64(file.p + 8), n_kv = load_u64(file.p + 16);
    check_counts(path, n_tensors, n_kv, file.n - HEADER_BYTES);
    g->n_tensors = (size_t)n_tensors;
    g->n_kv = (size_t)n_kv;
    g->file_bytes = file.n;
    g->n_parts = 1;
    g->parts = arena_copy(a, &file, sizeof file);
    GgufIndex *index = ARENA_NEW(a, GgufIndex);
    index->arena = a;
    g->index = index;
    Reader r = {.arena = a, .path = g->path, .file = file, .pos = HEADER_BYTES};
    take_metadata(&r, g);
    g->alignment = read_alignment(g);
    take_tensors(&r, g);
    return g;
}
