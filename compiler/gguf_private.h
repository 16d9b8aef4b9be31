/* gguf_private.h - what the files of the GGUF reader share. */
#ifndef QCC_GGUF_PRIVATE_H
#define QCC_GGUF_PRIVATE_H
#include "gguf.h"

enum { GGUF_NAME_SHOWN = 80 }; /* characters of an untrusted name in a message */

/* Sorted names with binary search: no input makes it slow, as colliding keys would make a hash
 * table. */
typedef struct {
    const char *s;
    size_t n, i;
} GgufIndexEntry;
typedef struct {
    Arena *arena;
    GgufIndexEntry *kv, *tensors;
} GgufIndex;

/* Fills the index of keys or tensors; fails if a name occurs twice. */
void gguf_index_kv(Gguf *g);
void gguf_index_tensors(Gguf *g);

/* A tensor's name, printable. */
const char *gguf_shown_name(const Gguf *g, const char *name);

/* Reads one file, alone or a part of a split model: metadata, tensors, checks. */
Gguf *gguf_read_part(Arena *a, const char *path, Bytes file);
#endif
