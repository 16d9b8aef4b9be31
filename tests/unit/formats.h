/* formats.h - the weight formats that a test goes through: all, or those named in
 * QCC_FORMAT=NAME[,NAME]. */
#ifndef QCC_TEST_FORMATS_H
#define QCC_TEST_FORMATS_H
#include "../../compiler/format.h"
#include "../../compiler/gguf.h"
#include <stdlib.h>
#include <string.h>

/* Like `formats`, NULL-terminated. A name that no format has ends the test. */
static inline const Format *const *test_formats(Arena *a) {
    const char *names = getenv("QCC_FORMAT");
    if (!names || !*names) return formats;
    const Format **list = NULL;
    size_t n = 0, cap = 0;
    for (char *at = arena_strdup(a, names), *name; (name = strsep(&at, ","));) {
        const Format *f = format_by_name(name);
        if (!f) fail(FAIL_ENVIRONMENT, "QCC_FORMAT: there is no weight format '%s'", name);
        list = arena_grow(a, list, n, &cap, sizeof *list);
        list[n++] = f;
    }
    list = arena_grow(a, list, n, &cap, sizeof *list);
    list[n] = NULL;
    return list;
}

/* Whether the test goes through a model: it has a matrix in one of the formats named, or none is
 * named. */
static inline bool test_formats_in(Arena *a, const Gguf *g) {
    const Format *const *f = test_formats(a);
    for (; f != formats && *f; f++)
        for (size_t i = 0; i < g->n_tensors; i++)
            if (format_by_gguf_type(g->tensors[i].type) == *f) return true;
    return f == formats;
}
#endif
