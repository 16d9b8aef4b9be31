/* vocab_private.h - what the files that serialize a vocabulary share. */
#ifndef QCC_VOCAB_PRIVATE_H
#define QCC_VOCAB_PRIVATE_H
#include "../runtime/token_blob.h"
#include "vocab.h"

typedef struct {
    GgufString text;
    uint32_t id;
} Special;

/* A vocabulary on its way into a blob. */
typedef struct {
    Arena *a;
    const Gguf *g;
    VocabHeader h;
    GgufString model, pre;
    bool gemma4;
    GgufString *texts; /* [n_symbols] */
    size_t cap_texts;
    uint8_t *types;  /* [n_tokens] */
    float *scores;   /* [n_tokens] or NULL */
    uint32_t *slots; /* symbol + 1; large enough for every symbol that may come */
    uint32_t n_slots;
    VocabMerge *merges;
    Special *special;
    uint32_t byte_symbols[256], byte_tokens[256];
} Packer;

#define VOCAB_KEY(name) "tokenizer.ggml." name

/* The token with this text, or VOCAB_NONE; of equal texts the last. */
uint32_t vocab_token(const Packer *p, GgufString text);
uint32_t vocab_named(const Packer *p, const char *text);
/* The id under a key; `absent` if the key is missing or its value out of range. */
uint32_t vocab_read_id(const Packer *p, const char *key, uint32_t absent);

/* Marks what ends a generation and what special tokens do to the spaces around them, and collects
 * the tokens that are found in raw text. */
void vocab_mark_special(Packer *p);
#endif
