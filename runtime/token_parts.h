/* token_parts.h - what the files of the tokenizer share. */
#ifndef QCC_TOKEN_PARTS_H
#define QCC_TOKEN_PARTS_H
#include "token.h"

/* ---- vocabulary access; bounds are checked --------------------------------------------------- */
TokenText vocab_text(const Tokenizer *t, uint32_t symbol);           /* empty for a bad symbol */
uint32_t vocab_find(const Tokenizer *t, const char *text, size_t n); /* symbol or NONE */
const void *vocab_section(const Tokenizer *t, VocabSectionKind kind);
static inline const uint32_t *vocab_words(const Tokenizer *t, VocabSectionKind kind) {
    return (const uint32_t *)vocab_section(t, kind);
}

/* ---- output that counts beyond its capacity -------------------------------------------------- */
typedef struct {
    uint32_t *p;
    size_t cap, n;
} TokenIds;
static inline void ids_push(TokenIds *o, uint32_t id) {
    if (o->n < o->cap) o->p[o->n] = id;
    o->n++;
}

/* ---- working memory of one encode call; every array grows as needed and is reused ------------ */
/* A node of the doubly linked list that merging works on. id: BPE: symbol; SPM: length in bytes. */
typedef struct {
    uint32_t id, at;
    int32_t prev, next;
} TokenNode;
enum { NODE_DEAD = UINT32_MAX - 1 }; /* BPE: merged into its left neighbour */
typedef struct {
    uint64_t key;
    uint32_t right, check;
} TokenPair; /* key: priority << 32 | left node; smallest first */
typedef struct {
    void *p;
    size_t bytes;
} WorkArray;
typedef struct {
    WorkArray text, cps, classes, cuts, nodes, heap;
    size_t n_heap;
} TokenWork;
void *work_reserve(WorkArray *a, size_t bytes); /* keeps contents; NULL when memory is out */
void work_finish(TokenWork *w);
bool heap_push(TokenWork *w, TokenPair pair);
TokenPair heap_pop(TokenWork *w); /* n_heap > 0 */

/* ---- the two algorithms: one fragment of raw text; TOKEN_OK or an error ---------------------- */
int32_t spm_encode(const Tokenizer *t, TokenWork *w, const char *text, size_t n, bool space_first,
                   TokenIds *out);
int32_t bpe_encode(const Tokenizer *t, TokenWork *w, const char *text, size_t n, TokenIds *out);

/* ---- characters ------------------------------------------------------------------------------ */
enum {
    UNICODE_L = 1,
    UNICODE_N = 2,
    UNICODE_P = 4,
    UNICODE_S = 8,
    UNICODE_M = 16,
    UNICODE_SPACE = 32
};
uint8_t unicode_class(uint32_t cp);
/* Decodes one character at s[0], n > 0 bytes left. A byte that begins no well-formed sequence is
 * U+FFFD by itself. Overlong forms and surrogates are let through, as in the models' reference
 * tokenizer. Returns the bytes consumed. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);
size_t utf8_encode(uint32_t cp, char *out);     /* out[4]; returns 1..4 */
static inline uint8_t utf8_length(uint8_t lead) /* by the lead byte alone */
{
    return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* ---- pre-tokenizer expressions --------------------------------------------------------------- */
/* Compiles NUL-terminated expressions (bytes in all); false if one is malformed or too large. */
bool regex_compile(Regex *r, const char *exprs, size_t bytes);
/* Splits cps[0..n) by each expression in turn: cuts[i] (n + 1 elements) becomes 1 where a piece
 * begins. The classes are unicode_class of each. False if matching takes unreasonably long, as only
 * a damaged expression can. */
bool regex_split(const Regex *r, const uint32_t *cps, const uint8_t *classes, size_t n,
                 uint8_t *cuts);
#endif
