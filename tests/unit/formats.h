/* formats.h - the weight formats that a test goes through: all, or those named in
 * QCC_FORMAT=NAME[,NAME]. */
#ifndef QCC_TEST_FORMATS_H
#define QCC_TEST_FORMATS_H
#include "../../compiler/format.h"
#include "../../compiler/gguf.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Format **f;
    size_t n, cap;
} FormatList;

/* A format; one with outliers also without any, and with many. */
static inline void formats_add(Arena *a, FormatList *l, const Format *f) {
    const Format *all[] = {f, f && f->outliers ? format_with_outliers(a, f, 0) : NULL,
                           f && f->outliers ? format_with_outliers(a, f, 100000) : NULL};
    for (size_t i = 0; i < 3 && (i == 0 || all[i]); i++) {
        l->f = arena_grow(a, l->f, l->n, &l->cap, sizeof *l->f);
        l->f[l->n++] = all[i];
    }
}

/* NULL-terminated. A name that no format has ends the test. */
static inline const Format *const *test_formats(Arena *a) {
    const char *names = getenv("QCC_FORMAT");
    FormatList l = {0};
    if (!names || !*names) {
        for (const Format *const *f = formats; *f; f++) formats_add(a, &l, *f);
    } else {
        for (char *at = arena_strdup(a, names), *name; (name = strsep(&at, ","));) {
            const Format *f = format_by_name(name);
            if (!f) fail(FAIL_ENVIRONMENT, "QCC_FORMAT: there is no weight format '%s'", name);
            formats_add(a, &l, f);
        }
    }
    formats_add(a, &l, NULL);
    return l.f;
}

/* Whether the test goes through a model: it has a matrix in one of the formats named, or none is
 * named. */
static inline bool test_formats_in(Arena *a, const Gguf *g) {
    const char *names = getenv("QCC_FORMAT");
    if (!names || !*names) return true;
    for (const Format *const *f = test_formats(a); *f; f++)
        for (size_t i = 0; i < g->n_tensors; i++)
            if (format_by_gguf_type(g->tensors[i].type) == *f) return true;
    return false;
}
#endif
