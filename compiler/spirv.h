/* spirv.h - GLSL wrappers to SPIR-V by libshaderc, in parallel, through a content-addressed cache.
 *
 * The cache (cache_dir()/spirv) is keyed by the hash of the text with all that it includes, the
 * compiler's version and the environment compiled for; a damaged entry is recompiled. */
#ifndef QCC_SPIRV_H
#define QCC_SPIRV_H
#include "target/target.h"

typedef struct {
    const char *name;     /* for messages */
    const char *source;   /* in: wrapper text; includes resolve to embedded files under kernels/, or
                             lua_path */
    uint32_t api_version; /* in: target's; decides the SPIR-V version, unless what the kernel needs
                             asks for a newer one */
    uint32_t needs;       /* in: capability words, bit 1 << CAP_... each */
    uint32_t *words;      /* out, on the arena */
    size_t bytes;
    uint32_t n_bindings; /* out: read back from the module */
    uint32_t local_size;
    uint64_t hash; /* of the module */
} SpirvJob;

/* Compiles all jobs on n_threads; the first error in job order fails (bug of a kernel: names
 * kernel, shows the compiler's message). */
void spirv_compile(Arena *a, SpirvJob *jobs, size_t n, uint32_t n_threads, const char *override_dir,
                   bool use_cache);
#endif
