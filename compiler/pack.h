/* pack.h - weights in the layout of their kernels, compressed and checksummed, behind the
 * executable (runtime/payload.h). */
#ifndef QCC_PACK_H
#define QCC_PACK_H
#include "plan.h"

/* Small frames: SPIR-V, vocabulary, manifest, check vectors. */
typedef struct {
    uint32_t kind, id;
    Bytes bytes;
} PackBlob;

/* Reads the ELF image `elf_path`, appends all frames, index and footer, and renames the result to
 * `out_path`, executable. Memory stays bounded whatever the model's size. Fails (environment) on
 * I/O errors; nothing is left behind then. Returns the file's size. */
uint64_t pack_write(Arena *a, const CompiledPlan *p, const char *elf_path, const PackBlob *blobs,
                    uint32_t n_blobs, uint64_t plan_hash, uint32_t n_threads, const char *out_path);
/* XXH3-64 of all parts of the model's file, read in order. */
uint64_t pack_hash_model(const Gguf *g);
#endif
