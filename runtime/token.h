/* token.h - text to token ids and back, for a vocabulary that the compiler serialized
 * (compiler/vocab.h).
 *
 * A Tokenizer is a view: the blob must outlive it and is never written. Opening allocates nothing.
 * Encoding and detokenizing allocate working memory proportional to their input and free it before
 * they return; all functions are safe to call from several threads on one Tokenizer. The blob may
 * be damaged: every index read from it is checked, wrong ones give wrong tokens or
 * TOKEN_ERROR_VOCAB, never an access out of bounds.
 *
 * Functions that produce an array or text return the number of elements or bytes of the whole
 * result and write at most `cap` of them (out may be NULL when cap is 0); no NUL is added. Negative
 * results are TokenError. */
#ifndef QCC_TOKEN_H
#define QCC_TOKEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "token_blob.h"

#define TOKEN_NONE VOCAB_NONE

typedef enum {
    TOKEN_OK = 0,
    TOKEN_ERROR_VOCAB = -1, /* the blob is damaged, or of another version */
    TOKEN_ERROR_MEMORY = -2,
    TOKEN_ERROR_SIZE = -3 /* the input is larger than TOKEN_MAX_BYTES */
} TokenError;
const char *token_error(int32_t code); /* a short text for messages */

enum { TOKEN_MAX_BYTES = 1 << 28 }; /* input of one call */

/* Compiled pre-tokenizer expressions; private to token_regex.c. */
enum { REGEX_MAX_EXPRS = 8, REGEX_MAX_OPS = 320, REGEX_MAX_CLASSES = 64, REGEX_MAX_RANGES = 320 };
typedef struct {
    uint8_t kind;
    uint16_t arg, min, max;
} RegexOp;
typedef struct {
    uint64_t ascii[2]; /* decided for code points below 128 */
    uint8_t classes;   /* union of UNICODE_* */
    bool negate;
    uint16_t first, n; /* ranges */
    uint16_t also;     /* index of a class that must match too, or REGEX_NO_CLASS */
} RegexClass;
typedef struct {
    uint32_t first, last;
} RegexRange;
typedef struct {
    uint16_t n_exprs, n_ops, n_classes, n_ranges;
    uint16_t start[REGEX_MAX_EXPRS]; /* first op */
    RegexOp ops[REGEX_MAX_OPS];
    RegexClass classes[REGEX_MAX_CLASSES];
    RegexRange ranges[REGEX_MAX_RANGES];
} Regex;

typedef struct Tokenizer {
    const VocabHeader *header;
    const char *blob;
    Regex regex;
} Tokenizer;

/* Checks the blob (8-byte aligned, n bytes) and prepares `t`. TOKEN_OK or an error. */
int32_t token_open(const void *blob, size_t n, Tokenizer *t);

/* Encoding flags. */
enum {
    TOKEN_ADD_SPECIAL = 1,  /* begin with BOS and end with EOS where the vocabulary says so */
    TOKEN_PARSE_SPECIAL = 2 /* find control tokens in the text; never for text of untrusted users */
};
int32_t token_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags, uint32_t *out,
                     size_t cap);

/* The text of one token; control and unknown tokens give "" unless `special`. What streaming output
 * prints. */
int32_t token_piece(const Tokenizer *t, uint32_t id, bool special, char *out, size_t cap);

/* Detokenizing flags. */
enum {
    TOKEN_REMOVE_SPECIAL = 1, /* drop the BOS and EOS that encoding added */
    TOKEN_UNPARSE_SPECIAL = 2 /* print control tokens */
};
/* The text of a whole sequence: pieces, without the space that encoding put in front, and with the
 * vocabulary's clean-up of spaces before punctuation. */
int32_t token_detokenize(const Tokenizer *t, const uint32_t *ids, size_t n, unsigned flags,
                         char *out, size_t cap);

bool token_is_eog(const Tokenizer *t, uint32_t id); /* ends a generation */
bool token_is_control(const Tokenizer *t, uint32_t id);
/* The token with exactly this stored text, or TOKEN_NONE. */
uint32_t token_find(const Tokenizer *t, const char *text, size_t n);

/* Views into the blob; not NUL-terminated. The text of a token is as stored in the model, and empty
 * for a bad id. */
typedef struct {
    const char *s;
    size_t n;
} TokenText;
TokenText token_text(const Tokenizer *t, uint32_t id);
TokenText token_model_name(const Tokenizer *t); /* "llama", "gpt2", "gemma4" */
TokenText token_pre_name(const Tokenizer *t);
TokenText token_chat_template(const Tokenizer *t);               /* empty if the model has none */
const uint32_t *token_suppressed(const Tokenizer *t, size_t *n); /* never to be sampled */

/* Streaming: how many of the last bytes of s[0..n) are the beginning of an unfinished UTF-8
 * character and must wait for the next piece (0..3). At the end of a generation print what was held
 * back as it is. */
size_t token_utf8_hold(const char *s, size_t n);
#endif
