/* token_blob.h - layout of a serialized vocabulary: written by compiler/vocab.c, used in place by
 * token*.c.
 *
 *   VocabHeader | sections, each at a multiple of 8 bytes
 * Little-endian. Nothing in it needs parsing: every table that the tokenizer searches was built by
 * the compiler.
 *
 * A symbol is an interned text. Symbols 0 .. n_tokens-1 are the tokens; the others are texts that
 * occur in merges, or single encoded bytes, without being tokens. Of tokens with equal texts the
 * last one is found. */
#ifndef QCC_TOKEN_BLOB_H
#define QCC_TOKEN_BLOB_H
#include <stddef.h>
#include <stdint.h>

#define VOCAB_MAGIC "QCCVOC01"
#define VOCAB_NONE UINT32_MAX /* no such token, or the vocabulary has none */

typedef enum { VOCAB_SPM = 1, VOCAB_BPE = 2 } VocabKind;

/* VocabHeader.flags */
enum {
    VOCAB_ADD_BOS = 1,
    VOCAB_ADD_EOS = 2,
    VOCAB_SPACE_PREFIX = 4,
    VOCAB_CLEAN_SPACES = 8,
    VOCAB_IGNORE_MERGES = 16, /* a whole piece that is a token is that token */
    VOCAB_RAW_UTF8 = 32,      /* BPE on UTF-8 characters instead of encoded bytes */
    VOCAB_ESCAPE_SPACES = 64  /* BPE: space is stored as U+2581 */
};

/* An element of SECTION_TYPES: a token's type (the numbers of the GGUF key), and flags. */
enum {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN,
    VOCAB_CONTROL,
    VOCAB_USER,
    VOCAB_UNUSED,
    VOCAB_BYTE,
    VOCAB_TYPE_MASK = 7,
    VOCAB_EOG = 8,     /* ends a generation */
    VOCAB_LSTRIP = 16, /* white space before it is dropped */
    VOCAB_RSTRIP = 32  /* white space behind it is dropped */
};

/* Rank = index in SECTION_MERGES, best first. */
typedef struct {
    uint32_t left, right, result;
} VocabMerge; /* symbols */

typedef enum {
    SECTION_OFFSETS,       /* u32 [n_symbols + 1], into SECTION_TEXT */
    SECTION_TEXT,          /* texts of the symbols, one after the other */
    SECTION_TYPES,         /* u8 [n_tokens] */
    SECTION_SCORES,        /* f32 [n_tokens], SPM; no NaN */
    SECTION_TEXT_SLOTS,    /* u32 [power of two]: symbol + 1 or 0; probing from vocab_hash(text) */
    SECTION_MERGES,        /* VocabMerge [n_merges] */
    SECTION_MERGE_SLOTS,   /* u32 [power of two]: rank + 1 or 0; probing from vocab_hash_pair */
    SECTION_SPECIAL,       /* u32 [n_special]: tokens found in raw text, ascending by bytes */
    SECTION_SPECIAL_ORDER, /* u32 [n_special]: indices into SECTION_SPECIAL, longest text first */
    SECTION_SPECIAL_FIRST, /* u32 [257]: [b]: first index with first byte >= b */
    SECTION_BYTE_SYMBOLS, /* u32 [256]: the symbol of an encoded byte, BPE without VOCAB_RAW_UTF8 */
    SECTION_BYTE_TOKENS, /* u32 [256]: the token that stands for a byte which nothing else covers */
    SECTION_PATTERNS,    /* pre-tokenizer expressions (token_regex.c), each ended by a NUL */
    SECTION_SUPPRESS,    /* u32 []: tokens never to be sampled */
    SECTION_MODEL_NAME,  /* tokenizer.ggml.model */
    SECTION_PRE_NAME,    /* tokenizer.ggml.pre */
    SECTION_TEMPLATE,    /* tokenizer.chat_template */
    N_SECTIONS
} VocabSectionKind;

typedef struct {
    uint32_t offset, bytes;
} VocabSection; /* offset from the start of the blob */

typedef struct {
    char magic[8];
    uint32_t bytes; /* of the whole blob */
    uint32_t kind;  /* VocabKind */
    uint32_t flags;
    uint32_t n_tokens, n_symbols, n_merges, n_special;
    uint32_t max_text;                     /* bytes of the longest symbol */
    uint32_t bos, eos, unk, pad, eot, eom; /* VOCAB_NONE if there is none */
    VocabSection section[N_SECTIONS];
} VocabHeader;

/* FNV-1a with a final mix. */
static inline uint32_t vocab_hash(const char *s, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h ^ h >> 15;
}

static inline uint32_t vocab_hash_pair(uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 15);
}

/* The character that stands for a byte in byte-level BPE texts: printable Latin-1 for itself, the
 * other 68 bytes in increasing order from U+0100. */
static inline uint32_t vocab_byte_char(uint8_t b) {
    if (b <= 0x20) return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0) return 0x100u + 33 + (b - 0x7fu);
    return b == 0xad ? 0x143 : b;
}
#endif
