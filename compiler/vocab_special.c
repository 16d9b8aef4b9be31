/* vocab_special.c - types of special tokens: what ends a generation, what is found in raw text. The
 * names are those that published models use for these purposes without saying so in a key. */
#include <stdlib.h>
#include <string.h>
#include "vocab_private.h"

static void set_type(Packer *p, uint32_t id, uint8_t type) {
    if (id < p->h.n_tokens) p->types[id] = (uint8_t)((p->types[id] & ~VOCAB_TYPE_MASK) | type);
}

static void set_eog(Packer *p, uint32_t id) {
    if (id < p->h.n_tokens) p->types[id] |= VOCAB_EOG;
}

static bool is_eog(const Packer *p, uint32_t id) {
    return id < p->h.n_tokens && (p->types[id] & VOCAB_EOG);
}

/* The first token of a NULL-ended list of names that exists. */
static uint32_t first_named(const Packer *p, const char *const *names) {
    for (; *names; names++)
        if (vocab_named(p, *names) != VOCAB_NONE) return vocab_named(p, *names);
    return VOCAB_NONE;
}

#define END_OF_SENTENCE                                                                            \
    "<\xef\xbd\x9c"                                                                                \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

/* Fill-in-the-middle tokens that separate files: by key, or by name. */
static void mark_fim(Packer *p) {
    static const char *const pad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>",
                                      "<PAD>",       "[PAD]",     NULL};
    static const char *const rep[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                      "<REPO>",       "<reponame>",    NULL};
    static const char *const sep[] = {"<|file_sep|>", NULL};
    static const struct {
        const char *key;
        const char *const *names;
    } fim[] = {{VOCAB_KEY("fim_pad_token_id"), pad},
               {VOCAB_KEY("fim_rep_token_id"), rep},
               {VOCAB_KEY("fim_sep_token_id"), sep}};
    for (size_t i = 0; i < sizeof fim / sizeof fim[0]; i++) {
        uint32_t id = vocab_read_id(p, fim[i].key, VOCAB_NONE);
        if (id == VOCAB_NONE) {
            id = first_named(p, fim[i].names);
            set_type(p, id, VOCAB_CONTROL);
        }
        set_eog(p, id);
    }
}

/* Names that end a generation in every model that has them. */
static void mark_eog_names(Packer *p) {
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
        uint32_t id = vocab_named(p, names[i]);
        set_type(p, id, VOCAB_CONTROL);
        set_eog(p, id);
    }
}

static void clear_eog(Packer *p, const char *name, uint8_t type) {
    uint32_t id = vocab_named(p, name);
    if (id == VOCAB_NONE) return;
    p->types[id] &= (uint8_t)~VOCAB_EOG;
    set_type(p, id, type);
}

/* Models in which a name of the list above does not end a generation. */
static void mark_exceptions(Packer *p) {
    bool call = is_eog(p, vocab_named(p, "<|call|>")) || is_eog(p, vocab_named(p, "<|calls|>"));
    bool other = is_eog(p, vocab_named(p, "<|return|>")) || is_eog(p, vocab_named(p, "<|flush|>"));
    if (is_eog(p, vocab_named(p, "<|end|>")) && call && other) clear_eog(p, "<|end|>", VOCAB_USER);
    if (is_eog(p, vocab_named(p, "<|tool_response>")) && is_eog(p, vocab_named(p, "</s>")))
        clear_eog(p, "</s>", VOCAB_NORMAL);
    static const char *const shown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        set_type(p, vocab_named(p, shown[i]), VOCAB_USER);
}

static void mark_eog(Packer *p) {
    static const char *const eot[] = {
        "<|eot_id|>",         "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>",    "<EOT>",      "_<EOT>",  "[EOT]",         END_OF_SENTENCE,
        "<end_of_utterance>", NULL};
    if (p->h.eot == VOCAB_NONE) p->h.eot = first_named(p, eot);
    if (p->h.eom == VOCAB_NONE) p->h.eom = vocab_named(p, "<|eom_id|>");
    mark_fim(p);
    mark_eog_names(p);
    set_eog(p, p->h.eos);
    set_eog(p, p->h.eot);
    set_eog(p, p->h.eom);
    mark_exceptions(p);
}

/* Control tokens that are place holders are not searched for in text. */
static void mark_unused(Packer *p) {
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        if ((p->types[i] & VOCAB_TYPE_MASK) != VOCAB_CONTROL) continue;
        GgufString s = p->texts[i];
        for (size_t k = 0; k + 6 <= s.n; k++)
            if (!memcmp(s.s + k, "unused", 6)) set_type(p, i, VOCAB_UNUSED);
    }
}

static int by_text(const void *x, const void *y) {
    const Special *a = x, *b = y;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = memcmp(a->text.s, b->text.s, n);
    if (order) return order;
    if (a->text.n != b->text.n) return a->text.n < b->text.n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void collect_special(Packer *p) {
    p->special = ARENA_ARRAY(p->a, Special, p->h.n_tokens);
    for (uint32_t i = 0; i < p->h.n_tokens; i++) {
        uint8_t type = p->types[i] & VOCAB_TYPE_MASK;
        if (type != VOCAB_CONTROL && type != VOCAB_USER && type != VOCAB_UNKNOWN) continue;
        if (vocab_token(p, p->texts[i]) != i) continue; /* a later token has the same text */
        p->special[p->h.n_special++] = (Special){p->texts[i], i};
    }
    qsort(p->special, p->h.n_special, sizeof *p->special, by_text);
}

/* Phi-3 drops white space behind its special tokens. */
static void mark_strip(Packer *p) {
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
        uint32_t id = vocab_named(p, without[i]);
        if (id != VOCAB_NONE) p->types[id] &= (uint8_t)~VOCAB_RSTRIP;
    }
}

void vocab_mark_special(Packer *p) {
    mark_eog(p);
    mark_unused(p);
    collect_special(p);
    mark_strip(p);
}
