/* token_bpe.c - byte-pair encoding by merge ranks ("gpt2" and "gemma4" vocabularies).
 *
 * Text is cut into pieces (token_regex.c); inside a piece the neighbours with the best merge rank
 * are joined first, ties from the left. Texts are symbols (token_blob.h), so that a merge is one
 * table look-up of two integers. */
#include <string.h>
#include "token_parts.h"

enum { BLOCK = 0x2581 }; /* stands for a space where spaces are escaped */

/* Rank of the merge of two symbols, or NONE. */
static uint32_t find_merge(const Tokenizer *t, uint32_t left, uint32_t right) {
    const VocabHeader *h = t->header;
    const uint32_t *slots = vocab_words(t, SECTION_MERGE_SLOTS);
    const VocabMerge *merges = vocab_section(t, SECTION_MERGES);
    uint32_t n = h->section[SECTION_MERGE_SLOTS].bytes / 4, mask = n - 1;
    uint32_t i = vocab_hash_pair(left, right);
    for (uint32_t probes = 0; probes < n; probes++, i++) {
        uint32_t rank = slots[i & mask] - 1;
        if (rank >= h->n_merges) break; /* an empty slot */
        if (merges[rank].left == left && merges[rank].right == right) return rank;
    }
    return VOCAB_NONE;
}

static bool push_pair(const Tokenizer *t, TokenWork *w, int32_t left, int32_t right) {
    const TokenNode *nodes = w->nodes.p;
    if (left < 0 || right < 0) return true;
    uint32_t rank = find_merge(t, nodes[left].id, nodes[right].id);
    if (rank == VOCAB_NONE) return true;
    return heap_push(w, (TokenPair){(uint64_t)rank << 32 | (uint32_t)left, (uint32_t)right, 0});
}

static bool merge_nodes(const Tokenizer *t, TokenWork *w, int32_t count) {
    const VocabMerge *merges = vocab_section(t, SECTION_MERGES);
    TokenNode *nodes = w->nodes.p;
    w->n_heap = 0;
    for (int32_t i = 1; i < count; i++)
        if (!push_pair(t, w, i - 1, i)) return false;
    while (w->n_heap) {
        TokenPair pair = heap_pop(w);
        const VocabMerge *merge = &merges[pair.key >> 32];
        int32_t l = (int32_t)(uint32_t)pair.key;
        TokenNode *left = &nodes[l], *right = &nodes[pair.right];
        if (left->id != merge->left || right->id != merge->right ||
            left->next != (int32_t)pair.right)
            continue; /* stale */
        left->id = merge->result < t->header->n_symbols ? merge->result : VOCAB_NONE;
        left->next = right->next;
        right->id = NODE_DEAD;
        if (left->next >= 0) nodes[left->next].prev = l;
        if (!push_pair(t, w, left->prev, l) || !push_pair(t, w, l, left->next)) return false;
    }
    return true;
}

static void push_bytes(const Tokenizer *t, const char *s, size_t n, TokenIds *out) {
    for (size_t i = 0; i < n; i++) {
        uint32_t id = vocab_words(t, SECTION_BYTE_TOKENS)[(uint8_t)s[i]];
        if (id < t->header->n_tokens) ids_push(out, id);
    }
}

/* A symbol that is no token is given byte by byte, and dropped where a byte has no token. */
static void push_node(const Tokenizer *t, const TokenNode *node, const uint32_t *cps,
                      TokenIds *out) {
    char utf8[4];
    if (node->id < t->header->n_tokens) {
        ids_push(out, node->id);
    } else if (node->id < t->header->n_symbols) {
        TokenText text = vocab_text(t, node->id);
        push_bytes(t, text.s, text.n, out);
    } else if (t->header->flags & VOCAB_RAW_UTF8) {
        push_bytes(t, utf8, utf8_encode(cps[node->at], utf8), out);
    }
}

/* The text of a piece as the vocabulary writes it; 0 if it is longer than every token. */
static size_t piece_text(const Tokenizer *t, TokenWork *w, const uint32_t *cps, size_t n) {
    size_t max = t->header->max_text, out = 0;
    char utf8[4], *p = work_reserve(&w->text, max + 8);
    if (!p) return 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = utf8_encode(cps[i], utf8);
        if (t->header->flags & VOCAB_RAW_UTF8) {
            if (out + bytes > max) return 0;
            memcpy(p + out, utf8, bytes);
            out += bytes;
        } else {
            for (size_t b = 0; b < bytes; b++) {
                if (out + 2 > max + 1) return 0;
                out += utf8_encode(vocab_byte_char((uint8_t)utf8[b]), p + out);
            }
        }
    }
    return out <= max ? out : 0;
}

/* The token that the whole piece is, where that goes before merging; else NONE. */
static uint32_t whole_piece(const Tokenizer *t, TokenWork *w, const uint32_t *cps, size_t n) {
    bool newlines = (t->header->flags & VOCAB_ESCAPE_SPACES) && cps[0] == '\n';
    for (size_t i = 0; newlines && i < n; i++) newlines = cps[i] == '\n';
    if (!newlines && !(t->header->flags & VOCAB_IGNORE_MERGES)) return VOCAB_NONE;
    size_t bytes = piece_text(t, w, cps, n);
    uint32_t id = bytes ? vocab_find(t, w->text.p, bytes) : VOCAB_NONE;
    return id < t->header->n_tokens ? id : VOCAB_NONE;
}

/* One node per byte or character; returns their number or -1. */
static int32_t make_nodes(const Tokenizer *t, TokenWork *w, const uint32_t *cps, size_t n) {
    bool raw = t->header->flags & VOCAB_RAW_UTF8;
    TokenNode *nodes = work_reserve(&w->nodes, n * (raw ? 1 : 4) * sizeof *nodes);
    int32_t count = 0;
    if (!nodes) return -1;
    for (size_t i = 0; i < n; i++) {
        char utf8[4];
        size_t bytes = utf8_encode(cps[i], utf8);
        for (size_t b = 0; b < (raw ? 1 : bytes); b++) {
            uint32_t id = raw ? vocab_find(t, utf8, bytes)
                              : vocab_words(t, SECTION_BYTE_SYMBOLS)[(uint8_t)utf8[b]];
            nodes[count] = (TokenNode){id < t->header->n_symbols ? id : VOCAB_NONE, (uint32_t)i,
                                       count - 1, count + 1};
            count++;
        }
    }
    nodes[count - 1].next = -1;
    return count;
}

static int32_t encode_piece(const Tokenizer *t, TokenWork *w, const uint32_t *cps, size_t n,
                            TokenIds *out) {
    uint32_t whole = whole_piece(t, w, cps, n);
    if (whole != VOCAB_NONE) {
        ids_push(out, whole);
        return TOKEN_OK;
    }
    int32_t count = make_nodes(t, w, cps, n);
    if (count < 0 || !merge_nodes(t, w, count)) return TOKEN_ERROR_MEMORY;
    const TokenNode *nodes = w->nodes.p;
    for (int32_t i = 0; i >= 0; i = nodes[i].next) push_node(t, &nodes[i], cps, out);
    return TOKEN_OK;
}

int32_t bpe_encode(const Tokenizer *t, TokenWork *w, const char *text, size_t n_bytes,
                   TokenIds *out) {
    uint32_t *cps = work_reserve(&w->cps, n_bytes * sizeof *cps);
    uint8_t *classes = work_reserve(&w->classes, n_bytes),
            *cuts = work_reserve(&w->cuts, n_bytes + 1);
    if (!cps || !classes || !cuts) return TOKEN_ERROR_MEMORY;
    size_t n = 0;
    for (size_t at = 0; at < n_bytes; n++) {
        at += utf8_decode(text + at, n_bytes - at, &cps[n]);
        if (cps[n] == ' ' && (t->header->flags & VOCAB_ESCAPE_SPACES)) cps[n] = BLOCK;
        classes[n] = unicode_class(cps[n]);
    }
    if (!regex_split(&t->regex, cps, classes, n, cuts)) return TOKEN_ERROR_VOCAB;
    for (size_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; !cuts[end];) end++;
        int32_t r = encode_piece(t, w, cps + begin, end - begin, out);
        if (r != TOKEN_OK) return r;
    }
    return TOKEN_OK;
}
