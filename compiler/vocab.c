/* vocab.c - see vocab.h. The order is that of the blob's tables: tokens and their types, merges,
 * special tokens, and then everything is laid out in one piece. */
#include "vocab.h"
#include <stdlib.h>
#include <string.h>
#include "../runtime/token_blob.h"
#include "pretokenizers.h"

enum { TOKENS_MOST = 1 << 24, MERGES_MOST = 1 << 26, TEXT_MOST = 1 << 30 };

typedef struct {
    GgufString text;
    uint32_t id;
} Special;

typedef struct {
    Arena *a;
    const Gguf *g;
    VocabHeader h;
    GgufString model, pre;
    bool gemma4;
    GgufString *texts; /* [n_symbols] */
    size_t cap_texts;
    uint8_t *types; /* [n_tokens] */
    float *scores; /* [n_tokens] or NULL */
    uint32_t *slots; /* symbol + 1; large enough for every symbol that may come */
    uint32_t n_slots;
    VocabMerge *merges;
    Special *special;
    uint32_t byte_symbols[256], byte_tokens[256];
} Packer;

#define KEY(name) "tokenizer.ggml." name

/* ---- symbols ---- */

static uint32_t slots_for(uint64_t n)
{
    uint32_t slots = 16;
    while (slots < n * 2) slots *= 2;
    return slots;
}

static bool same(GgufString a, GgufString b) { return a.n == b.n && !memcmp(a.s, b.s, a.n); }

/* The slot of a text: taken by it, or free. */
static uint32_t *slot_of(uint32_t *slots, uint32_t n_slots, const GgufString *texts, GgufString s)
{
    uint32_t i = vocab_hash(s.s, s.n);
    while (slots[i & (n_slots - 1)] && !same(texts[slots[i & (n_slots - 1)] - 1], s)) i++;
    return &slots[i & (n_slots - 1)];
}

static uint32_t find_symbol(const Packer *p, GgufString s)
{
    return *slot_of(p->slots, p->n_slots, p->texts, s) - 1; /* NONE if the slot is free */
}

static uint32_t find_token(const Packer *p, const char *text)
{
    uint32_t id = find_symbol(p, (GgufString){text, strlen(text)});
    return id < p->h.n_tokens ? id : VOCAB_NONE;
}

static uint32_t intern(Packer *p, GgufString s, bool copy)
{
    uint32_t *slot = slot_of(p->slots, p->n_slots, p->texts, s);
    if (*slot) return *slot - 1;
    p->texts = arena_grow(p->a, p->texts, p->h.n_symbols, &p->cap_texts, sizeof *p->texts);
    p->texts[p->h.n_symbols] = copy ? (GgufString){arena_strndup(p->a, s.s, s.n), s.n} : s;
    *slot = ++p->h.n_symbols;
    return *slot - 1;
}

/* ---- reading ---- */

/* An array of `elem` elements (or any number for GGUF_F32); NULL if the key is absent. */
static const GgufKv *find_array(const Packer *p, const char *key, bool strings)
{
    const GgufKv *kv = gguf_find(p->g, key);
    if (kv && (kv->type != GGUF_ARRAY ||
               (kv->n && (strings ? kv->elem != GGUF_STRING
                                  : kv->elem == GGUF_STRING || kv->elem == GGUF_ARRAY))))
        fail(FAIL_USER, "%s: metadata key '%s' is no array of %s", p->g->path, key,
             strings ? "strings" : "numbers");
    return kv;
}

/* The same, with one element per token. */
static const GgufKv *find_per_token(const Packer *p, const char *key)
{
    const GgufKv *kv = find_array(p, key, false);
    if (kv && kv->n != p->h.n_tokens)
        fail(FAIL_USER, "%s: metadata key '%s' has %llu elements; 'tokenizer.ggml.tokens' has %u",
             p->g->path, key, (unsigned long long)kv->n, p->h.n_tokens);
    return kv;
}

static void read_model(Packer *p)
{
    p->model = gguf_string(p->g, KEY("model"), "");
    p->pre = gguf_string(p->g, KEY("pre"), "");
    if (same(p->model, (GgufString){"llama", 5})) p->h.kind = VOCAB_SPM;
    else if (same(p->model, (GgufString){"gpt2", 4}) || same(p->model, (GgufString){"gemma4", 6}))
        p->h.kind = VOCAB_BPE;
    else if (!gguf_find(p->g, KEY("model")))
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

static void read_tokens(Packer *p)
{
    const GgufKv *kv = find_array(p, KEY("tokens"), true),
                 *merges = find_array(p, KEY("merges"), true);
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

static void read_types(Packer *p)
{
    const GgufKv *types = find_per_token(p, KEY("token_type")),
                 *scores = find_per_token(p, KEY("scores"));
    p->types = ARENA_ARRAY(p->a, uint8_t, p->h.n_tokens);
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        double type = types ? gguf_number(types, i) : VOCAB_NORMAL;
        p->types[i] = type >= VOCAB_NORMAL && type <= VOCAB_BYTE ? (uint8_t)type : VOCAB_UNUSED;
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

/* ---- merges ---- */

static uint32_t *merge_slot(uint32_t *slots, uint32_t n_slots, const VocabMerge *merges,
                            uint32_t left, uint32_t right)
{
    uint32_t i = vocab_hash_pair(left, right);
    for (;; i++) {
        uint32_t rank = slots[i & (n_slots - 1)];
        if (!rank || (merges[rank - 1].left == left && merges[rank - 1].right == right)) break;
    }
    return &slots[i & (n_slots - 1)];
}

/* "A B", split at the first space behind the first byte; false if there is none. */
static bool split_merge(GgufString s, GgufString *left, GgufString *right)
{
    const char *space = s.n > 1 ? memchr(s.s + 1, ' ', s.n - 1) : NULL;
    if (!space) return false;
    *left = (GgufString){s.s, (size_t)(space - s.s)};
    *right = (GgufString){space + 1, s.n - left->n - 1};
    return right->n > 0;
}

/* Fills merges without duplicates; returns the table of slots. */
static uint32_t *read_merges(Packer *p, uint32_t *n_slots)
{
    const GgufKv *kv = find_array(p, KEY("merges"), true);
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

/* ---- flags and special tokens ---- */

static uint32_t read_id(const Packer *p, const char *key, uint32_t absent)
{
    uint64_t id = gguf_find(p->g, key) ? gguf_uint(p->g, key, 0) : VOCAB_NONE;
    if (id < p->h.n_tokens) return (uint32_t)id;
    return absent < p->h.n_tokens ? absent : VOCAB_NONE;
}

static void read_ids(Packer *p, unsigned pre_flags)
{
    bool spm = p->h.kind == VOCAB_SPM;
    uint32_t gpt2_end = p->gemma4 ? VOCAB_NONE : 11;
    p->h.bos = read_id(p, KEY("bos_token_id"),
                       spm                      ? 1
                       : pre_flags & PRE_NO_BOS ? VOCAB_NONE
                                                : gpt2_end);
    p->h.eos = read_id(p, KEY("eos_token_id"), spm ? 2 : gpt2_end);
    p->h.unk = read_id(p, KEY("unknown_token_id"), spm ? 0 : VOCAB_NONE);
    p->h.pad = read_id(p, KEY("padding_token_id"), VOCAB_NONE);
    p->h.eot = read_id(p, KEY("eot_token_id"), VOCAB_NONE);
    p->h.eom = read_id(p, KEY("eom_token_id"), VOCAB_NONE);
}

static void read_flags(Packer *p, unsigned pre_flags)
{
    bool spm = p->h.kind == VOCAB_SPM;
    uint32_t f = 0;
    if (p->gemma4 || gguf_bool(p->g, KEY("add_bos_token"), spm || (pre_flags & PRE_ADD_BOS)))
        f |= VOCAB_ADD_BOS;
    if (gguf_bool(p->g, KEY("add_eos_token"), false)) f |= VOCAB_ADD_EOS;
    if (gguf_bool(p->g, KEY("add_space_prefix"), spm)) f |= VOCAB_SPACE_PREFIX;
    if (!spm && !(pre_flags & PRE_KEEP_SPACES)) f |= VOCAB_CLEAN_SPACES;
    if (pre_flags & PRE_IGNORE_MERGES) f |= VOCAB_IGNORE_MERGES;
    if (pre_flags & PRE_RAW_UTF8) f |= VOCAB_RAW_UTF8;
    if (pre_flags & PRE_ESCAPE) f |= VOCAB_ESCAPE_SPACES;
    p->h.flags = f;
}

/* The flags and expressions of the pre-tokenizer, none for SPM. */
static const Pretokenizer *read_pre(Packer *p)
{
    static const Pretokenizer none = {"", 0, {NULL}};
    if (p->h.kind == VOCAB_SPM) return &none;
    if (p->pre.n == 0) {
        note(1, "note: %s: metadata key 'tokenizer.ggml.pre' is missing; 'default' is used and may"
             " differ from the original model", p->g->path);
        p->pre = (GgufString){"default", 7};
    }
    const Pretokenizer *pre = pretokenizer_find(p->pre.s, p->pre.n);
    if (!pre)
        fail(FAIL_USER, "%s: metadata key 'tokenizer.ggml.pre' is '%s'; qcc knows no pre-tokenizer"
             " of this name", p->g->path, printable(p->a, p->pre.s, p->pre.n, 40));
    return pre;
}

static void set_type(Packer *p, uint32_t id, uint8_t type)
{
    if (id < p->h.n_tokens) p->types[id] = (uint8_t)((p->types[id] & ~VOCAB_TYPE_MASK) | type);
}

static void set_eog(Packer *p, uint32_t id)
{
    if (id < p->h.n_tokens) p->types[id] |= VOCAB_EOG;
}

static bool is_eog(const Packer *p, uint32_t id)
{
    return id < p->h.n_tokens && (p->types[id] & VOCAB_EOG);
}

/* The first token of a NULL-ended list of names that exists. */
static uint32_t first_named(const Packer *p, const char *const *names)
{
    for (; *names; names++)
        if (find_token(p, *names) != VOCAB_NONE) return find_token(p, *names);
    return VOCAB_NONE;
}

#define END_OF_SENTENCE                                                                            \
    "<\xef\xbd\x9c"                                                                                \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

/* Fill-in-the-middle tokens that separate files: by key, or by name. */
static void mark_fim(Packer *p)
{
    static const char *const pad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>",
                                      "<PAD>",       "[PAD]",     NULL};
    static const char *const rep[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                      "<REPO>",       "<reponame>",    NULL};
    static const char *const sep[] = {"<|file_sep|>", NULL};
    static const struct {
        const char *key;
        const char *const *names;
    } fim[] = {{KEY("fim_pad_token_id"), pad},
               {KEY("fim_rep_token_id"), rep},
               {KEY("fim_sep_token_id"), sep}};
    for (size_t i = 0; i < sizeof fim / sizeof fim[0]; i++) {
        uint32_t id = read_id(p, fim[i].key, VOCAB_NONE);
        if (id == VOCAB_NONE) {
            id = first_named(p, fim[i].names);
            set_type(p, id, VOCAB_CONTROL);
        }
        set_eog(p, id);
    }
}

/* Names that end a generation in every model that has them. */
static void mark_eog_names(Packer *p)
{
    static const char *const names[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        END_OF_SENTENCE,
                                        "[e~["};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t id = find_token(p, names[i]);
        set_type(p, id, VOCAB_CONTROL);
        set_eog(p, id);
    }
}

static void clear_eog(Packer *p, const char *name, uint8_t type)
{
    uint32_t id = find_token(p, name);
    if (id == VOCAB_NONE) return;
    p->types[id] &= (uint8_t)~VOCAB_EOG;
    set_type(p, id, type);
}

/* Models in which a name of the list above does not end a generation. */
static void mark_exceptions(Packer *p)
{
    bool call = is_eog(p, find_token(p, "<|call|>")) || is_eog(p, find_token(p, "<|calls|>"));
    bool other = is_eog(p, find_token(p, "<|return|>")) || is_eog(p, find_token(p, "<|flush|>"));
    if (is_eog(p, find_token(p, "<|end|>")) && call && other) clear_eog(p, "<|end|>", VOCAB_USER);
    if (is_eog(p, find_token(p, "<|tool_response>")) && is_eog(p, find_token(p, "</s>")))
        clear_eog(p, "</s>", VOCAB_NORMAL);
    static const char *const shown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        set_type(p, find_token(p, shown[i]), VOCAB_USER);
}

static void mark_eog(Packer *p)
{
    static const char *const eot[] = {
        "<|eot_id|>",         "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>",    "<EOT>",      "_<EOT>",  "[EOT]",         END_OF_SENTENCE,
        "<end_of_utterance>", NULL};
    if (p->h.eot == VOCAB_NONE) p->h.eot = first_named(p, eot);
    if (p->h.eom == VOCAB_NONE) p->h.eom = find_token(p, "<|eom_id|>");
    mark_fim(p);
    mark_eog_names(p);
    set_eog(p, p->h.eos);
    set_eog(p, p->h.eot);
    set_eog(p, p->h.eom);
    mark_exceptions(p);
}

/* Control tokens that are place holders are not searched for in text. */
static void mark_unused(Packer *p)
{
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        if ((p->types[i] & VOCAB_TYPE_MASK) != VOCAB_CONTROL) continue;
        GgufString s = p->texts[i];
        for (size_t k = 0; k + 6 <= s.n; k++)
            if (!memcmp(s.s + k, "unused", 6)) set_type(p, i, VOCAB_UNUSED);
    }
}

static int by_text(const void *x, const void *y)
{
    const Special *a = x, *b = y;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = memcmp(a->text.s, b->text.s, n);
    if (order) return order;
    if (a->text.n != b->text.n) return a->text.n < b->text.n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void collect_special(Packer *p)
{
    p->special = ARENA_ARRAY(p->a, Special, p->h.n_tokens);
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        uint8_t type = p->types[i] & VOCAB_TYPE_MASK;
        if (type != VOCAB_CONTROL && type != VOCAB_USER && type != VOCAB_UNKNOWN) continue;
        if (find_symbol(p, p->texts[i]) != i) continue; /* a later token has the same text */
        p->special[p->h.n_special++] = (Special){p->texts[i], i};
    }
    qsort(p->special, p->h.n_special, sizeof *p->special, by_text);
}

/* Phi-3 drops white space behind its special tokens. */
static void mark_strip(Packer *p)
{
    GgufString name = gguf_string(p->g, "general.name", "");
    bool phi3 = false;
    for (size_t i = 0; i + 4 <= name.n; i++) {
        bool dash = i + 5 <= name.n && name.s[i + 3] == '-';
        phi3 |= (name.s[i] | 32) == 'p' && (name.s[i + 1] | 32) == 'h' &&
                (name.s[i + 2] | 32) == 'i' && name.s[i + 3 + dash] == '3';
    }
    if (!phi3) return;
    for (uint32_t i = 0; i < p->h.n_special; i++) p->types[p->special[i].id] |= VOCAB_RSTRIP;
    static const char *const without[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        uint32_t id = find_token(p, without[i]);
        if (id != VOCAB_NONE) p->types[id] &= (uint8_t)~VOCAB_RSTRIP;
    }
}

static void fill_byte_tables(Packer *p)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = vocab_byte_char((uint8_t)b);
        char text[8] = {(char)(c < 0x80 ? c : 0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        bool encoded = p->h.kind == VOCAB_BPE && !(p->h.flags & VOCAB_RAW_UTF8);
        p->byte_symbols[b] =
            encoded ? intern(p, (GgufString){text, c < 0x80 ? 1 : 2}, true) : VOCAB_NONE;
        uint32_t id = encoded ? VOCAB_NONE : find_token(p, arena_printf(p->a, "<0x%02X>", b));
        text[0] = (char)b;
        if (id == VOCAB_NONE) id = find_symbol(p, (GgufString){text, 1});
        p->byte_tokens[b] = id < p->h.n_tokens ? id : VOCAB_NONE;
    }
}

/* ---- layout ---- */

/* Bytes that will become a section. */
static void add_section(Packer *p, Text *blob, VocabSectionKind kind, const void *data,
                        uint64_t bytes)
{
    static const char zeros[8];
    if (blob->n + bytes > UINT32_MAX - 64)
        fail(FAIL_USER, "%s: the vocabulary is larger than 4 GiB", p->g->path);
    p->h.section[kind] = (VocabSection){(uint32_t)blob->n, (uint32_t)bytes};
    if (bytes) text_append(blob, data, bytes);
    text_append(blob, zeros, (size_t)(round_up(blob->n, 8) - blob->n));
}

static void add_texts(Packer *p, Text *blob)
{
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

static int by_length(const void *x, const void *y)
{
    const Special *a = *(const Special *const *)x, *b = *(const Special *const *)y;
    if (a->text.n != b->text.n) return a->text.n > b->text.n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void add_special(Packer *p, Text *blob)
{
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

static void add_patterns(Packer *p, Text *blob, const Pretokenizer *pre)
{
    Text text = {.arena = p->a};
    for (int i = 0; pre->exprs[i]; i++)
        text_append(&text, pre->exprs[i], strlen(pre->exprs[i]) + 1);
    add_section(p, blob, SECTION_PATTERNS, text.s, text.n);
}

static void add_suppressed(Packer *p, Text *blob)
{
    const GgufKv *kv = find_array(p, KEY("suppress_tokens"), false);
    Text ids = {.arena = p->a};
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        double id = gguf_number(kv, i);
        if (id >= 0 && id < p->h.n_tokens)
            text_append(&ids, (const char *)&(uint32_t){(uint32_t)id}, 4);
    }
    add_section(p, blob, SECTION_SUPPRESS, ids.s, ids.n);
}

static void add_string(Packer *p, Text *blob, VocabSectionKind kind, GgufString s)
{
    add_section(p, blob, kind, s.s, s.n);
}

Bytes vocab_pack(Arena *a, const Gguf *g)
{
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
    mark_eog(&p);
    mark_unused(&p);
    collect_special(&p);
    mark_strip(&p);

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
