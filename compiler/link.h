/* link.h - the emitted C and the runtime become an ELF executable, by the host's compiler or a
 * cross compiler. */
#ifndef QCC_LINK_H
#define QCC_LINK_H
#include "util.h"

/* A directory under $TMPDIR, removed with its files when the arena is freed. */
const char *link_workdir(Arena *a);
/* Compiles `c_text` and links it to `dir`/model.elf; returns that path. cc: a command, words
 * separated by spaces; NULL: the first of $CC, cc, gcc, clang that runs, with the runtime library
 * that is part of qcc. A given cc compiles the runtime's own source. */
const char *link_elf(Arena *a, const char *dir, const char *c_text, const char *cc,
                     bool keep_symbols);
#endif
