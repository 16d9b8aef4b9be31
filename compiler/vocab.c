/* vocab.c - see vocab.h. The order is that of the blob's tables: tokens and their types, merges,
 * special tokens, and then everything is laid out in one piece. */
#include "vocab.h"
#include <stdlib.h>
#include <string.h>
#include "pretokenizers.h"
#include "vocab_private.h"

enum { TOKENS_MOST = 1 << 24, MERGES_MOST = 1 << 26, TEXT_MOST = 1 << 30, PROBES_MOST = 8192 };

/* ---- symbols --------------------------------------------------------------------------------- */

static uint32_t slots_for(uint64_t n) {
    uint32_t slots = 16;
    while (slots < n * 2) slots *= 2;
    return slots;
}

static bool same(GgufString a, GgufString b) { return a.n == b.n && !memcmp(a.s, b.s, a.n); }

/* Chance gives runs of a few hundred; a longer one was built on purpose and would take for ever. */
static void check_probes(uint32_t probes) {
    if (probes > PROBES_MOST)
        fail(FAIL_USER, "the vocabulary has thousands of texts or merges with one hash value; this"
                        " is no vocabulary of a language model");
}

/* The slot of a text: taken by it, or free. */
static uint32_t *slot_of(uint32_t *slots, uint32_t n_slots, const GgufString *texts, GgufString s) {
    uint32_t i = vocab_hash(s.s, s.n), probes = 0;
    while (slots[i & (n_slots - 1)] && !same(texts[slots[i & (n_slots - 1)] - 1], s)) {
        i++;
        check_probes(++probes);
    }
    return &slots[i & (n_slots - 1)];
}

static uint32_t find_symbol(const Packer *p, GgufString s) {
    return *slot_of(p->slots, p->n_slots, p->texts, s) - 1; /* NONE if the slot is free */
}

uint32_t vocab_token(const Packer *p, GgufString text) {
    uint32_t id = find_symbol(p, text);
    return id < p->h.n_tokens ? id : VOCAB_NONE;
}

uint32_t vocab_named(const Packer *p, const char *text) {
    return vocab_token(p, (GgufString){text, strlen(text)});
}

static uint32_t intern(Packer *p, GgufString s, bool copy) {
    uint32_t *slot = slot_of(p->slots, p->n_slots, p->texts, s);
    if (*slot) return *slot - 1;
    p->texts = arena_grow(p->a, p->texts, p->h.n_symbols, &p->cap_texts, sizeof *p->texts);
    p->texts[p->h.n_symbols] = copy ? (GgufString){arena_strndup(p->a, s.s, s.n), s.n} : s;
    *slot = ++p->h.n_symbols;
    return *slot - 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* An array of `elem` elements (or any number for GGUF_F32); NULL if the key is absent. */
static const GgufKv *find_array(const Packer *p, const char *key, bool strings) {
    const GgufKv *kv = gguf_find(p->g, key);
    if (kv && (kv->type != GGUF_ARRAY ||
               (kv->n && (strings ? kv->elem != GGUF_STRING
                                  : kv->elem == GGUF_STRING || kv->elem == GGUF_ARRAY))))
        fail(FAIL_USER, "%s: metadata key '%s' is no array of %s", p->g->path, key,
             strings ? "strings" : "numbers");
    return kv;
}

/* The same, with one element per token. */
static const GgufKv *find_per_token(const Packer *p, const char *key) {
    const GgufKv *kv = find_array(p, key, false);
    if (kv && kv->n != p->h.n_tokens)
        fail(FAIL_USER, "%s: metadata key '%s' has %llu elements; 'tokenizer.ggml.tokens' has %u",
             p->g->path, key, (unsigned long long)kv->n, p->h.n_tokens);
    return kv;
}

static void read_model(Packer *p) {
    p->model = gguf_string(p->g, VOCAB_KEY("model"), "");
    p->pre = gguf_string(p->g, VOCAB_KEY("pre"), "");
    if (same(p->model, (GgufString){"llama", 5})) p->h.kind = VOCAB_SPM;
    else if (same(p->model, (GgufString){"gpt2", 4}) || same(p->model, (GgufString){"gemma4", 6}))
        p->h.kind = VOCAB_BPE;
    else if (!gguf_find(p->g, VOCAB_KEY("model")))
        fail(
            FAIL_USER,
            "%s: metadata key 'tokenizer.ggml.model' is missing; supported are llama, gpt2, gemma4",
            p->g->path);
    else
        fail(FAIL_USER,
             "%s: metadata key 'tokenizer.ggml.model' is '%s'; supported are llama, gpt2, gemma4",
             p->g->path, printable(p->a, p->model.s, p->model.n, 40));
    p->gemma4 = same(p->model, (GgufString){"gemma4", 6});
    if (p->gemma4) p->pre = p->model;
}

static void read_tokens(Packer *p) {
    const GgufKv *kv = find_array(p, VOCAB_KEY("tokens"), true),
                 *merges = find_array(p, VOCAB_KEY("merges"), true);
    if (!kv) fail(FAIL_USER, "%s: metadata key 'tokenizer.ggml.tokens' is missing", p->g->path);
    if (kv->n == 0 || kv->n > TOKENS_MOST)
        fail(FAIL_USER,
             "%s: metadata key 'tokenizer.ggml.tokens' has %llu elements; expected 1 to %d",
             p->g->path, (unsigned long long)kv->n, TOKENS_MOST);
    if (merges && merges->n > MERGES_MOST)
        fail(FAIL_USER,
             "%s: metadata key 'tokenizer.ggml.merges' has %llu elements; expected at most %d",
             p->g->path, (unsigned long long)merges->n, MERGES_MOST);
    p->n_slots = slots_for(kv->n + 256 + (merges ? 3 * merges->n : 0));
    p->slots = ARENA_ARRAY(p->a, uint32_t, p->n_slots);
    p->cap_texts = kv->n + 256;
    p->texts = ARENA_ARRAY(p->a, GgufString, p->cap_texts);
    p->h.n_tokens = p->h.n_symbols = (uint32_t)kv->n;
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        GgufString s = kv->strings[i];
        if (s.n == 0) {
            s.s = arena_printf(p->a, "[EMPTY_%u]", i);
            s.n = strlen(s.s);
        }
        p->texts[i] = s;
        *slot_of(p->slots, p->n_slots, p->texts, s) = i + 1; /* the last of equal texts */
    }
}

static void read_types(Packer *p) {
    const GgufKv *types = find_per_token(p, VOCAB_KEY("token_type")),
                 *scores = find_per_token(p, VOCAB_KEY("scores"));
    p->types = ARENA_ARRAY(p->a, uint8_t, p->h.n_tokens);
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        double type = types ? gguf_number(types, i) : (double)VOCAB_NORMAL;
        bool known = type >= (double)VOCAB_NORMAL && type <= (double)VOCAB_BYTE;
        p->types[i] = known ? (uint8_t)type : VOCAB_UNUSED;
    }
    if (p->h.kind != VOCAB_SPM) return;
    p->scores = ARENA_ARRAY(p->a, float, p->h.n_tokens);
    for (uint32_t i = 0; scores && i < p->h.n_tokens; i++) {
        p->scores[i] = (float)gguf_number(scores, i);
        if (p->scores[i] != p->scores[i])
            fail(FAIL_USER, "%s: metadata key 'tokenizer.ggml.scores': element %u is not a number",
                 p->g->path, i);
    }
}

/* ---- merges ---------------------------------------------------------------------------------- */

static uint32_t *merge_slot(uint32_t *slots, uint32_t n_slots, const VocabMerge *merges,
                            uint32_t left, uint32_t right) {
    uint32_t i = vocab_hash_pair(left, right);
    for (uint32_t probes = 0;; i++, check_probes(++probes)) {
        uint32_t rank = slots[i & (n_slots - 1)];
        if (!rank || (merges[rank - 1].left == left && merges[rank - 1].right == right)) break;
    }
    return &slots[i & (n_slots - 1)];
}

/* "A B", split at the first space behind the first byte; false if there is none. */
static bool split_merge(GgufString s, GgufString *left, GgufString *right) {
    const char *space = s.n > 1 ? memchr(s.s + 1, ' ', s.n - 1) : NULL;
    if (!space) return false;
    *left = (GgufString){s.s, (size_t)(space - s.s)};
    *right = (GgufString){space + 1, s.n - left->n - 1};
    return right->n > 0;
}

/* Fills merges without duplicates; returns the table of slots. */
static uint32_t *read_merges(Packer *p, uint32_t *n_slots) {
    const GgufKv *kv = find_array(p, VOCAB_KEY("merges"), true);
    if (!kv && p->h.kind == VOCAB_BPE)
        fail(FAIL_USER, "%s: metadata key 'tokenizer.ggml.merges' is missing", p->g->path);
    uint64_t n = kv && p->h.kind == VOCAB_BPE ? kv->n : 0;
    *n_slots = slots_for(n);
    uint32_t *slots = ARENA_ARRAY(p->a, uint32_t, *n_slots);
    p->merges = ARENA_ARRAY(p->a, VocabMerge, n);
    Text joined = {.arena = p->a};
    for (uint64_t i = 0; i < n; i++) {
        GgufString left, right;
        if (!split_merge(kv->strings[i], &left, &right)) continue;
        VocabMerge m = {.left = intern(p, left, false), .right = intern(p, right, false)};
        uint32_t *slot = merge_slot(slots, *n_slots, p->merges, m.left, m.right);
        if (*slot) continue; /* the first rank counts */
        joined.n = 0;
        text_append(&joined, left.s, left.n);
        text_append(&joined, right.s, right.n);
        m.result = intern(p, (GgufString){joined.s, joined.n}, true);
        p->merges[p->h.n_merges++] = m;
        *slot = p->h.n_merges;
    }
    return slots;
}

/* ---- flags and special tokens ---------------------------------------------------------------- */

uint32_t vocab_read_id(const Packer *p, const char *key, uint32_t absent) {
    uint64_t id = gguf_find(p->g, key) ? gguf_uint(p->g, key, 0) : VOCAB_NONE;
    if (id < p->h.n_tokens) return (uint32_t)id;
    return absent < p->h.n_tokens ? absent : VOCAB_NONE;
}

static void read_ids(Packer *p, unsigned pre_flags) {
    bool spm = p->h.kind == VOCAB_SPM;
    uint32_t gpt2_end = p->gemma4 ? VOCAB_NONE : 11;
    p->h.bos = vocab_read_id(p, VOCAB_KEY("bos_token_id"),
                             spm                      ? 1
                             : pre_flags & PRE_NO_BOS ? VOCAB_NONE
                                                      : gpt2_end);
    p->h.eos = vocab_read_id(p, VOCAB_KEY("eos_token_id"), spm ? 2 : gpt2_end);
    p->h.unk = vocab_read_id(p, VOCAB_KEY("unknown_token_id"), spm ? 0 : VOCAB_NONE);
    p->h.pad = vocab_read_id(p, VOCAB_KEY("padding_token_id"), VOCAB_NONE);
    p->h.eot = vocab_read_id(p, VOCAB_KEY("eot_token_id"), VOCAB_NONE);
    p->h.eom = vocab_read_id(p, VOCAB_KEY("eom_token_id"), VOCAB_NONE);
}

static void read_flags(Packer *p, unsigned pre_flags) {
    bool spm = p->h.kind == VOCAB_SPM;
    uint32_t f = 0;
    if (p->gemma4 || gguf_bool(p->g, VOCAB_KEY("add_bos_token"), spm || (pre_flags & PRE_ADD_BOS)))
        f |= VOCAB_ADD_BOS;
    if (gguf_bool(p->g, VOCAB_KEY("add_eos_token"), false)) f |= VOCAB_ADD_EOS;
    if (gguf_bool(p->g, VOCAB_KEY("add_space_prefix"), spm)) f |= VOCAB_SPACE_PREFIX;
    if (!spm && !(pre_flags & PRE_KEEP_SPACES)) f |= VOCAB_CLEAN_SPACES;
    if (pre_flags & PRE_IGNORE_MERGES) f |= VOCAB_IGNORE_MERGES;
    if (pre_flags & PRE_RAW_UTF8) f |= VOCAB_RAW_UTF8;
    if (pre_flags & PRE_ESCAPE) f |= VOCAB_ESCAPE_SPACES;
    p->h.flags = f;
}

/* The flags and expressions of the pre-tokenizer, none for SPM. */
static const Pretokenizer *read_pre(Packer *p) {
    static const Pretokenizer none = {"", 0, {NULL}};
    if (p->h.kind == VOCAB_SPM) return &none;
    if (p->pre.n == 0) {
        note(1,
             "note: %s: metadata key 'tokenizer.ggml.pre' is missing; 'default' is used and may"
             " differ from the original model",
             p->g->path);
        p->pre = (GgufString){"default", 7};
    }
    const Pretokenizer *pre = pretokenizer_find(p->pre.s, p->pre.n);
    if (!pre)
        fail(FAIL_USER,
             "%s: metadata key 'tokenizer.ggml.pre' is '%s'; qcc knows no pre-tokenizer"
             " of this name",
             p->g->path, printable(p->a, p->pre.s, p->pre.n, 40));
    return pre;
}

static void fill_byte_tables(Packer *p) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = vocab_byte_char((uint8_t)b);
        char text[8] = {(char)(c < 0x80 ? c : 0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        bool encoded = p->h.kind == VOCAB_BPE && !(p->h.flags & VOCAB_RAW_UTF8);
        p->byte_symbols[b] = encoded ? intern(p, (GgufString){text, c < 0x80 ? 1 : 2}, true)
                                     : VOCAB_NONE;
        uint32_t id = encoded ? VOCAB_NONE : vocab_named(p, arena_printf(p->a, "<0x%02X>", b));
        text[0] = (char)b;
        if (id == VOCAB_NONE) id = find_symbol(p, (GgufString){text, 1});
        p->byte_tokens[b] = id < p->h.n_tokens ? id : VOCAB_NONE;
    }
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* Bytes that will become a section. */
static void add_section(Packer *p, Text *blob, VocabSectionKind kind, const void *data,
                        uint64_t bytes) {
    static const char zeros[8];
    if (blob->n + bytes > UINT32_MAX - 64)
        fail(FAIL_USER, "%s: the vocabulary is larger than 4 GiB", p->g->path);
    p->h.section[kind] = (VocabSection){(uint32_t)blob->n, (uint32_t)bytes};
    if (bytes) text_append(blob, data, bytes);
    text_append(blob, zeros, (size_t)(round_up(blob->n, 8) - blob->n));
}

static void add_texts(Packer *p, Text *blob) {
    uint32_t n = p->h.n_symbols, n_slots = slots_for(n),
             *slots = ARENA_ARRAY(p->a, uint32_t, n_slots);
    uint32_t *offsets = ARENA_ARRAY(p->a, uint32_t, (size_t)n + 1);
    Text text = {.arena = p->a};
    for (uint32_t i = 0; i < n; i++) {
        GgufString s = p->texts[i];
        if (text.n + s.n > TEXT_MOST)
            fail(FAIL_USER, "%s: the texts of the vocabulary exceed 1 GiB", p->g->path);
        text_append(&text, s.s, s.n);
        offsets[i + 1] = (uint32_t)text.n;
        if (s.n > p->h.max_text) p->h.max_text = (uint32_t)s.n;
        *slot_of(slots, n_slots, p->texts, s) = i + 1; /* again the last of equal texts */
    }
    add_section(p, blob, SECTION_OFFSETS, offsets, 4 * ((uint64_t)n + 1));
    add_section(p, blob, SECTION_TEXT, text.s, text.n);
    add_section(p, blob, SECTION_TEXT_SLOTS, slots, 4 * (uint64_t)n_slots);
}

static int by_length(const void *x, const void *y) {
    const Special *a = *(const Special *const *)x, *b = *(const Special *const *)y;
    if (a->text.n != b->text.n) return a->text.n > b->text.n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void add_special(Packer *p, Text *blob) {
    uint32_t n = p->h.n_special, *ids = ARENA_ARRAY(p->a, uint32_t, n),
             *order = ARENA_ARRAY(p->a, uint32_t, n);
    uint32_t *first = ARENA_ARRAY(p->a, uint32_t, 257);
    const Special **sorted = ARENA_ARRAY(p->a, const Special *, n);
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = p->special[i].id;
        sorted[i] = &p->special[i];
        first[(uint8_t)p->special[i].text.s[0] + 1] = i + 1;
    }
    for (uint32_t b = 1; b < 257; b++)
        if (first[b] < first[b - 1]) first[b] = first[b - 1];
    qsort(sorted, n, sizeof *sorted, by_length);
    for (uint32_t i = 0; i < n; i++) order[i] = (uint32_t)(sorted[i] - p->special);
    add_section(p, blob, SECTION_SPECIAL, ids, 4 * (uint64_t)n);
    add_section(p, blob, SECTION_SPECIAL_ORDER, order, 4 * (uint64_t)n);
    add_section(p, blob, SECTION_SPECIAL_FIRST, first, 4 * 257);
}

static void add_patterns(Packer *p, Text *blob, const Pretokenizer *pre) {
    Text text = {.arena = p->a};
    for (int i = 0; pre->exprs[i]; i++)
        text_append(&text, pre->exprs[i], strlen(pre->exprs[i]) + 1);
    add_section(p, blob, SECTION_PATTERNS, text.s, text.n);
}

static void add_suppressed(Packer *p, Text *blob) {
    const GgufKv *kv = find_array(p, VOCAB_KEY("suppress_tokens"), false);
    Text ids = {.arena = p->a};
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        double id = gguf_number(kv, i);
        if (id >= 0 && id < p->h.n_tokens)
            text_append(&ids, (const char *)&(uint32_t){(uint32_t)id}, 4);
    }
    add_section(p, blob, SECTION_SUPPRESS, ids.s, ids.n);
}

static void add_string(Packer *p, Text *blob, VocabSectionKind kind, GgufString s) {
    add_section(p, blob, kind, s.s, s.n);
}

Bytes vocab_pack(Arena *a, const Gguf *g) {
    Packer p = {.a = a, .g = g};
    uint32_t n_merge_slots;
    read_model(&p);
    const Pretokenizer *pre = read_pre(&p);
    read_tokens(&p);
    read_types(&p);
    read_ids(&p, pre->flags);
    read_flags(&p, pre->flags);
    uint32_t *merge_slots = read_merges(&p, &n_merge_slots);
    fill_byte_tables(&p);
    vocab_mark_special(&p);

    Text blob = {.arena = a};
    text_append(&blob, (const char *)&p.h, sizeof p.h);
    add_texts(&p, &blob);
    add_section(&p, &blob, SECTION_TYPES, p.types, p.h.n_tokens);
    add_section(&p, &blob, SECTION_SCORES, p.scores, p.scores ? 4 * (uint64_t)p.h.n_tokens : 0);
    add_section(&p, &blob, SECTION_MERGES, p.merges, sizeof *p.merges * (uint64_t)p.h.n_merges);
    add_section(&p, &blob, SECTION_MERGE_SLOTS, merge_slots, 4 * (uint64_t)n_merge_slots);
    add_special(&p, &blob);
    add_section(&p, &blob, SECTION_BYTE_SYMBOLS, p.byte_symbols, sizeof p.byte_symbols);
    add_section(&p, &blob, SECTION_BYTE_TOKENS, p.byte_tokens, sizeof p.byte_tokens);
    add_patterns(&p, &blob, pre);
    add_suppressed(&p, &blob);
    add_string(&p, &blob, SECTION_MODEL_NAME, p.model);
    add_string(&p, &blob, SECTION_PRE_NAME, p.pre);
    add_string(&p, &blob, SECTION_TEMPLATE, gguf_string(g, "tokenizer.chat_template", ""));
    memcpy(p.h.magic, VOCAB_MAGIC, 8);
    p.h.bytes = (uint32_t)blob.n;
    memcpy(blob.s, &p.h, sizeof p.h);
    return (Bytes){(const uint8_t *)blob.s, blob.n};
}
