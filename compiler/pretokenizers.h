/* pretokenizers.h - what a value of tokenizer.ggml.pre means: flags and expressions. The dialect of
 * the expressions is described in runtime/token_regex.c. A new pre-tokenizer is one entry in
 * pretokenizers.c. */
#ifndef QCC_PRETOKENIZERS_H
#define QCC_PRETOKENIZERS_H
#include <stddef.h>

enum {
    PRE_IGNORE_MERGES = 1, /* a piece that is a token needs no merges */
    PRE_ADD_BOS = 2,       /* add_bos_token is true unless the file says otherwise */
    PRE_KEEP_SPACES = 4,   /* no clean-up of spaces when a sequence is detokenized */
    PRE_RAW_UTF8 = 8,      /* no byte encoding */
    PRE_ESCAPE = 16,       /* raw, and spaces are written as U+2581 */
    PRE_NO_BOS = 32        /* there is no default BOS token */
};

enum { PRE_MAX_EXPRS = 6 };
typedef struct {
    const char *names; /* separated by spaces */
    unsigned flags;
    const char *exprs[PRE_MAX_EXPRS + 1]; /* applied in order; ends with NULL */
} Pretokenizer;

/* NULL if the name is unknown. */
const Pretokenizer *pretokenizer_find(const char *name, size_t n);
/* The entries in turn; NULL behind the last. */
const Pretokenizer *pretokenizer_at(size_t i);
#endif
