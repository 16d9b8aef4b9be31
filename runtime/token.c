/* token.c - opening a vocabulary, special tokens in raw text, tokens to text. */
#include "token.h"
#include <stdlib.h>
#include <string.h>
#include "token_parts.h"

const char *token_error(int32_t code) {
    switch (code) {
    case TOKEN_ERROR_VOCAB: return "the vocabulary is damaged or of another version";
    case TOKEN_ERROR_MEMORY: return "out of memory";
    case TOKEN_ERROR_SIZE: return "the text is longer than 256 MiB";
    default: return "no error";
    }
}

/* ---- the blob -------------------------------------------------------------------------------- */

const void *vocab_section(const Tokenizer *t, VocabSectionKind kind) {
    return t->blob + t->header->section[kind].offset;
}

/* Sections lie inside the blob and have the sizes that the counts demand; slots are a power of
 * two. */
static bool sections_ok(const VocabHeader *h, size_t n) {
    const uint64_t want[N_SECTIONS] = {
        [SECTION_OFFSETS] = 4 * ((uint64_t)h->n_symbols + 1),
        [SECTION_TYPES] = h->n_tokens,
        [SECTION_SCORES] = h->kind == VOCAB_SPM ? 4 * (uint64_t)h->n_tokens : 0,
        [SECTION_MERGES] = sizeof(VocabMerge) * (uint64_t)h->n_merges,
        [SECTION_SPECIAL] = 4 * (uint64_t)h->n_special,
        [SECTION_SPECIAL_ORDER] = 4 * (uint64_t)h->n_special,
        [SECTION_SPECIAL_FIRST] = 4 * 257,
        [SECTION_BYTE_SYMBOLS] = 4 * 256,
        [SECTION_BYTE_TOKENS] = 4 * 256};
    for (int i = 0; i < N_SECTIONS; i++) {
        const VocabSection *s = &h->section[i];
        if (s->offset % 8 || s->offset < sizeof *h || s->offset > n || s->bytes > n - s->offset)
            return false;
        if (want[i] && s->bytes != want[i]) return false;
    }
    uint32_t slots = h->section[SECTION_TEXT_SLOTS].bytes,
             pairs = h->section[SECTION_MERGE_SLOTS].bytes;
    return slots >= 4 && !(slots & (slots - 1)) && pairs >= 4 && !(pairs & (pairs - 1)) &&
           !(h->section[SECTION_SUPPRESS].bytes % 4);
}

int32_t token_open(const void *blob, size_t n, Tokenizer *t) {
    const VocabHeader *h = blob;
    memset(t, 0, sizeof *t);
    if (n < sizeof *h || (uintptr_t)blob % 8 || memcmp(h->magic, VOCAB_MAGIC, 8) || h->bytes != n ||
        (h->kind != VOCAB_SPM && h->kind != VOCAB_BPE) || h->n_tokens == 0 ||
        h->n_symbols < h->n_tokens || h->n_symbols > INT32_MAX || h->max_text > INT32_MAX ||
        !sections_ok(h, n))
        return TOKEN_ERROR_VOCAB;
    t->header = h;
    t->blob = blob;
    const char *patterns = vocab_section(t, SECTION_PATTERNS);
    return regex_compile(&t->regex, patterns, h->section[SECTION_PATTERNS].bytes)
               ? TOKEN_OK
               : TOKEN_ERROR_VOCAB;
}

TokenText vocab_text(const Tokenizer *t, uint32_t symbol) {
    const VocabHeader *h = t->header;
    if (symbol >= h->n_symbols) return (TokenText){"", 0};
    const uint32_t *offsets = vocab_words(t, SECTION_OFFSETS);
    uint32_t begin = offsets[symbol], end = offsets[symbol + 1];
    if (begin > end || end > h->section[SECTION_TEXT].bytes) return (TokenText){"", 0};
    return (TokenText){(const char *)vocab_section(t, SECTION_TEXT) + begin, end - begin};
}

uint32_t vocab_find(const Tokenizer *t, const char *text, size_t n) {
    if (n > t->header->max_text) return VOCAB_NONE;
    const uint32_t *slots = vocab_words(t, SECTION_TEXT_SLOTS);
    uint32_t n_slots = t->header->section[SECTION_TEXT_SLOTS].bytes / 4, mask = n_slots - 1;
    uint32_t i = vocab_hash(text, n);
    for (uint32_t probes = 0; probes < n_slots; probes++, i++) {
        uint32_t symbol = slots[i & mask] - 1;
        if (symbol >= t->header->n_symbols) break; /* an empty slot */
        TokenText found = vocab_text(t, symbol);
        if (found.n == n && !memcmp(found.s, text, n)) return symbol;
    }
    return VOCAB_NONE;
}

static uint8_t token_type(const Tokenizer *t, uint32_t id) {
    return id < t->header->n_tokens ? ((const uint8_t *)vocab_section(t, SECTION_TYPES))[id]
                                    : VOCAB_UNUSED;
}

TokenText token_text(const Tokenizer *t, uint32_t id) {
    return id < t->header->n_tokens ? vocab_text(t, id) : (TokenText){"", 0};
}

uint32_t token_find(const Tokenizer *t, const char *text, size_t n) {
    uint32_t id = vocab_find(t, text, n);
    return id < t->header->n_tokens ? id : TOKEN_NONE;
}

bool token_is_eog(const Tokenizer *t, uint32_t id) { return token_type(t, id) & VOCAB_EOG; }

bool token_is_control(const Tokenizer *t, uint32_t id) {
    return (token_type(t, id) & VOCAB_TYPE_MASK) == VOCAB_CONTROL;
}

static TokenText section_text(const Tokenizer *t, VocabSectionKind kind) {
    return (TokenText){vocab_section(t, kind), t->header->section[kind].bytes};
}

TokenText token_model_name(const Tokenizer *t) { return section_text(t, SECTION_MODEL_NAME); }
TokenText token_pre_name(const Tokenizer *t) { return section_text(t, SECTION_PRE_NAME); }
TokenText token_chat_template(const Tokenizer *t) { return section_text(t, SECTION_TEMPLATE); }

const uint32_t *token_suppressed(const Tokenizer *t, size_t *n) {
    *n = t->header->section[SECTION_SUPPRESS].bytes / 4;
    return vocab_words(t, SECTION_SUPPRESS);
}

/* ---- working memory -------------------------------------------------------------------------- */

void *work_reserve(WorkArray *a, size_t bytes) {
    if (bytes <= a->bytes) return a->p;
    size_t grown = bytes < a->bytes * 2 ? a->bytes * 2 : bytes < 256 ? 256 : bytes;
    void *p = realloc(a->p, grown);
    if (!p) return NULL;
    a->p = p;
    a->bytes = grown;
    return p;
}

void work_finish(TokenWork *w) {
    WorkArray *arrays[] = {&w->text, &w->cps, &w->classes, &w->cuts, &w->nodes, &w->heap};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]->p);
}

bool heap_push(TokenWork *w, TokenPair pair) {
    TokenPair *heap = work_reserve(&w->heap, (w->n_heap + 1) * sizeof *heap);
    if (!heap) return false;
    size_t i = w->n_heap++;
    for (; i && heap[(i - 1) / 2].key > pair.key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = pair;
    return true;
}

TokenPair heap_pop(TokenWork *w) {
    TokenPair *heap = w->heap.p, top = heap[0], last = heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        if (child + 1 < w->n_heap && heap[child + 1].key < heap[child].key) child++;
        if (heap[child].key >= last.key) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---- special tokens in raw text -------------------------------------------------------------- */

/* What a byte of the text belongs to. */
enum {
    BYTE_RAW,
    BYTE_TOKEN /* first of a special token */,
    BYTE_INSIDE /* the others of it */,
    BYTE_STRIPPED
};

/* First index in [lo, hi) whose text has a byte >= c at place k. */
static uint32_t lower_bound(const Tokenizer *t, uint32_t lo, uint32_t hi, size_t k, unsigned c) {
    const uint32_t *special = vocab_words(t, SECTION_SPECIAL);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        TokenText s = vocab_text(t, special[mid]);
        if (k >= s.n || (uint8_t)s.s[k] < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Marks in seen[] the special tokens that begin at text[0]. */
static void see_at(const Tokenizer *t, const char *text, size_t n, uint8_t *seen) {
    const uint32_t *special = vocab_words(t, SECTION_SPECIAL),
                   *first = vocab_words(t, SECTION_SPECIAL_FIRST);
    uint32_t lo = first[(uint8_t)text[0]], hi = first[(uint8_t)text[0] + 1];
    if (hi > t->header->n_special) return;
    for (size_t k = 1; lo < hi; k++) {
        for (; lo < hi && vocab_text(t, special[lo]).n <= k; lo++) seen[lo] = 1;
        if (lo == hi || k == n) return;
        uint8_t c = (uint8_t)text[k];
        TokenText a = vocab_text(t, special[lo]), b = vocab_text(t, special[hi - 1]);
        if (k < b.n && (uint8_t)a.s[k] == c && (uint8_t)b.s[k] == c) continue;
        lo = lower_bound(t, lo, hi, k, c);
        hi = lower_bound(t, lo, hi, k, c + 1u);
    }
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Marks the occurrences of a special token in what is still raw, from the left. */
static void claim(const Tokenizer *t, uint32_t id, const char *text, size_t n, uint8_t *map) {
    TokenText s = vocab_text(t, id);
    uint8_t type = token_type(t, id);
    for (size_t pos = 0; s.n && s.n <= n - pos;) {
        const char *hit = memchr(text + pos, s.s[0], n - s.n + 1 - pos);
        if (!hit) return;
        pos = (size_t)(hit - text);
        size_t taken = s.n; /* 1 + place of the last byte that is taken already */
        while (taken && map[pos + taken - 1] == BYTE_RAW) taken--;
        if (taken || memcmp(hit, s.s, s.n)) {
            pos += taken ? taken : 1;
            continue;
        }
        memset(map + pos, BYTE_INSIDE, s.n);
        map[pos] = BYTE_TOKEN;
        if (type & VOCAB_LSTRIP)
            for (size_t i = pos; i && map[i - 1] == BYTE_RAW && is_blank(text[i - 1]); i--)
                map[i - 1] = BYTE_STRIPPED;
        pos += s.n;
        if (type & VOCAB_RSTRIP)
            for (; pos < n && map[pos] == BYTE_RAW && is_blank(text[pos]); pos++)
                map[pos] = BYTE_STRIPPED;
    }
}

/* Fills map[n]. Longest tokens first, whatever their place; user-defined tokens always, the others
 * when asked for. */
static bool find_special(const Tokenizer *t, const char *text, size_t n, unsigned flags,
                         uint8_t *map) {
    uint32_t n_special = t->header->n_special;
    const uint32_t *special = vocab_words(t, SECTION_SPECIAL),
                   *order = vocab_words(t, SECTION_SPECIAL_ORDER);
    uint8_t *seen = calloc(n_special ? n_special : 1, 1);
    if (!seen) return false;
    for (size_t i = 0; i < n; i++) see_at(t, text + i, n - i, seen);
    for (uint32_t i = 0; i < n_special; i++) {
        if (order[i] >= n_special || !seen[order[i]]) continue;
        uint32_t id = special[order[i]];
        bool user = (token_type(t, id) & VOCAB_TYPE_MASK) == VOCAB_USER;
        if (user || (flags & TOKEN_PARSE_SPECIAL)) claim(t, id, text, n, map);
    }
    free(seen);
    return true;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int32_t encode_fragments(const Tokenizer *t, TokenWork *w, const char *text, size_t n,
                                const uint8_t *map, TokenIds *out) {
    bool spm = t->header->kind == VOCAB_SPM, prefix = t->header->flags & VOCAB_SPACE_PREFIX,
         after_special = true;
    int32_t r = TOKEN_OK;
    for (size_t begin = 0, end; begin < n && r == TOKEN_OK; begin = end) {
        uint8_t kind = map[begin], more = kind == BYTE_TOKEN ? BYTE_INSIDE : kind;
        for (end = begin + 1; end < n && map[end] == more;) end++;
        if (kind == BYTE_TOKEN) {
            ids_push(out, vocab_find(t, text + begin, end - begin));
        } else if (kind == BYTE_RAW) {
            r = spm ? spm_encode(t, w, text + begin, end - begin, prefix && after_special, out)
                    : bpe_encode(t, w, text + begin, end - begin, out);
        }
        if (kind != BYTE_STRIPPED) after_special = kind == BYTE_TOKEN;
    }
    return r;
}

int32_t token_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags, uint32_t *out,
                     size_t cap) {
    const VocabHeader *h = t->header;
    TokenIds ids = {out, cap, 0};
    TokenWork work = {0};
    int32_t r = TOKEN_OK;
    if (n > TOKEN_MAX_BYTES) return TOKEN_ERROR_SIZE;
    if ((flags & TOKEN_ADD_SPECIAL) && (h->flags & VOCAB_ADD_BOS) && h->bos < h->n_tokens)
        ids_push(&ids, h->bos);
    if (n) {
        uint8_t *map = calloc(n, 1);
        if (!map || !find_special(t, text, n, flags, map)) r = TOKEN_ERROR_MEMORY;
        else r = encode_fragments(t, &work, text, n, map, &ids);
        free(map);
    }
    work_finish(&work);
    if ((flags & TOKEN_ADD_SPECIAL) && (h->flags & VOCAB_ADD_EOS) && h->eos < h->n_tokens)
        ids_push(&ids, h->eos);
    if (r == TOKEN_OK && ids.n > INT32_MAX) r = TOKEN_ERROR_SIZE;
    return r == TOKEN_OK ? (int32_t)ids.n : r;
}
