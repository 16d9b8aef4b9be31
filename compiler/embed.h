/* embed.h - the files that qcc ships inside its own binary: architectures, kernels, templates, the
 * runtime's source.
 *
 * The table is C text written by tools/embed.c from the files themselves; a path is relative to the
 * project's root
 * ("compiler/arch/llama.lua"). */
#ifndef QCC_EMBED_H
#define QCC_EMBED_H
#include "util.h"

typedef struct {
    const char *path, *text;
    size_t n;
} EmbeddedFile;                             /* text[n] is 0 */
extern const EmbeddedFile embedded_files[]; /* sorted by path; a NULL path ends it */

Bytes embedded_find(const char *path); /* p is NULL if there is no such file */
#endif
