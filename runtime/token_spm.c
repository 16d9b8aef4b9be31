/* token_spm.c - merging by score ("llama" vocabularies, SentencePiece's BPE).
 *
 * Characters are joined with their neighbours, the pair whose text is the token of highest score
 * first, ties from the left, until no pair is a token. */
#include <string.h>
#include "token_parts.h"

/* Spaces become U+2581; returns the length, or -1 when memory is out. */
static int64_t escape_spaces(WorkArray *work, const char *text, size_t n, bool space_first) {
    static const char block[3] = {(char)0xe2, (char)0x96, (char)0x81};
    size_t spaces = space_first, out = 0;
    for (size_t i = 0; i < n; i++) spaces += text[i] == ' ';
    char *p = work_reserve(work, n + 3 * spaces + 1);
    if (!p) return -1;
    if (space_first) memcpy(p, block, 3), out = 3;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ') memcpy(p + out, block, 3), out += 3;
        else p[out++] = text[i];
    }
    return (int64_t)out;
}

/* Floats as integers in the same order, reversed: the highest score is the smallest key. */
static uint32_t score_key(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 and 0 are equal */
    memcpy(&bits, &score, 4);
    return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

static bool push_pair(const Tokenizer *t, TokenWork *w, const char *text, int32_t left,
                      int32_t right) {
    const TokenNode *nodes = w->nodes.p;
    if (left < 0 || right < 0) return true;
    uint32_t bytes = nodes[left].id + nodes[right].id;
    uint32_t id = vocab_find(t, text + nodes[left].at, bytes);
    if (id >= t->header->n_tokens) return true;
    const float *scores = vocab_section(t, SECTION_SCORES);
    uint64_t key = (uint64_t)score_key(scores[id]) << 32 | (uint32_t)left;
    return heap_push(w, (TokenPair){key, (uint32_t)right, bytes});
}

static void push_token(const Tokenizer *t, const char *s, uint32_t n, TokenIds *out) {
    uint32_t id = vocab_find(t, s, n);
    if (id < t->header->n_tokens) {
        ids_push(out, id);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        id = vocab_words(t, SECTION_BYTE_TOKENS)[(uint8_t)s[i]];
        if (id == VOCAB_NONE) id = t->header->unk;
        if (id < t->header->n_tokens) ids_push(out, id);
    }
}

/* One node per character; returns their number or -1. */
static int32_t make_nodes(TokenWork *w, const char *text, size_t n) {
    int32_t count = 0;
    for (size_t at = 0; at < n; at += utf8_length((uint8_t)text[at])) count++;
    TokenNode *nodes = work_reserve(&w->nodes, (size_t)count * sizeof *nodes);
    if (!nodes) return -1;
    size_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        size_t bytes = utf8_length((uint8_t)text[at]);
        if (bytes > n - at) bytes = n - at;
        nodes[i] = (TokenNode){(uint32_t)bytes, (uint32_t)at, i - 1, i + 1 < count ? i + 1 : -1};
        at += bytes;
    }
    return count;
}

int32_t spm_encode(const Tokenizer *t, TokenWork *w, const char *raw, size_t n_raw,
                   bool space_first, TokenIds *out) {
    int64_t n = escape_spaces(&w->text, raw, n_raw, space_first);
    if (n < 0) return TOKEN_ERROR_MEMORY;
    const char *text = w->text.p;
    int32_t count = make_nodes(w, text, (size_t)n);
    if (count < 0) return TOKEN_ERROR_MEMORY;
    TokenNode *nodes = w->nodes.p;
    w->n_heap = 0;
    for (int32_t i = 1; i < count; i++)
        if (!push_pair(t, w, text, i - 1, i)) return TOKEN_ERROR_MEMORY;
    while (w->n_heap) {
        TokenPair pair = heap_pop(w);
        TokenNode *left = &nodes[(uint32_t)pair.key], *right = &nodes[pair.right];
        if (!left->id || !right->id || left->id + right->id != pair.check) continue; /* stale */
        left->id += right->id;
        right->id = 0;
        left->next = right->next;
        if (left->next >= 0) nodes[left->next].prev = (int32_t)(uint32_t)pair.key;
        if (!push_pair(t, w, text, left->prev, (int32_t)(uint32_t)pair.key) ||
            !push_pair(t, w, text, (int32_t)(uint32_t)pair.key, left->next))
            return TOKEN_ERROR_MEMORY;
    }
    for (int32_t i = count ? 0 : -1; i >= 0; i = nodes[i].next)
        push_token(t, text + nodes[i].at, nodes[i].id, out);
    return TOKEN_OK;
}
