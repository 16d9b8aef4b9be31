/* embed.c - lookup in the table of embedded files. */
#include "embed.h"
#include <string.h>

Bytes embedded_find(const char *path) {
    for (const EmbeddedFile *f = embedded_files; f->path; f++)
        if (strcmp(f->path, path) == 0) return (Bytes){(const uint8_t *)f->text, f->n};
    return (Bytes){NULL, 0};
}
