/* Fuzz target of the tokenizer. The first byte of the input says what the others are:
 *   0..249  text, encoded with that pre-tokenizer (or as SPM) and turned back: nothing may be lost
 *   250     damage to a serialized vocabulary: 4 bytes of place and one of value, again and again
 *   251     the pre-tokenizer's expressions, and after a zero byte twice the text for them
 *   252..   a GGUF, whose vocabulary is serialized and used
 *
 *     clang -g -O1 -std=gnu17 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_token.c \
 *         compiler/vocab*.c compiler/pretokenizers.c compiler/gguf*.c compiler/util.c \
 *         runtime/token.c runtime/token_*.c -o fuzz_token && ./fuzz_token NEW
 * tests/fuzz/corpus/token
 *
 * With -DREPLAY it is a program that runs the files that are named to it, for any compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../compiler/pretokenizers.h"
#include "../../compiler/vocab.h"
#include "../../runtime/token_parts.h"
#include "../unit/gguf_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLOCK "\xe2\x96\x81"

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Every byte in both spellings, a few words and special tokens, and merges of some of them. */
static Bytes make_vocab(Arena *a, const Pretokenizer *pre) {
    static const char *const words[] = {BLOCK,
                                        "ab",
                                        "abc",
                                        "\xc4\xa0"
                                        "a",
                                        BLOCK "a",
                                        "he",
                                        "<s>",
                                        "</s>",
                                        "<|x|>",
                                        "<|x|><|x|>",
                                        "\n\n",
                                        "\xc4\x8a\xc4\x8a",
                                        "12"};
    static const char *const merges[] = {"a b", "ab c", "\xc4\xa0 a",        BLOCK " a",
                                         "h e", "1 2",  "\xc4\x8a \xc4\x8a", "b c"};
    enum {
        N_WORDS = sizeof words / sizeof words[0],
        N_MERGES = sizeof merges / sizeof merges[0],
        N = 512 + N_WORDS
    };
    const char *tokens[N];
    int32_t types[N];
    for (uint32_t b = 0; b < 256; b++) {
        char utf8[5] = {0};
        utf8_encode(vocab_byte_char((uint8_t)b), utf8);
        tokens[b] = arena_strdup(a, utf8);
        tokens[256 + b] = arena_printf(a, "<0x%02X>", b);
        types[b] = VOCAB_NORMAL;
        types[256 + b] = VOCAB_BYTE;
    }
    for (int i = 0; i < N_WORDS; i++) {
        tokens[512 + i] = words[i];
        types[512 + i] = words[i][0] == '<' ? (i & 1 ? VOCAB_CONTROL : VOCAB_USER) : VOCAB_NORMAL;
    }
    GgufWriter w = {0};
    gw_string(&w, "general.architecture", "llama");
    gw_string(&w, "tokenizer.ggml.model", pre ? "gpt2" : "llama");
    if (pre)
        gw_string(&w, "tokenizer.ggml.pre", arena_strndup(a, pre->names, strcspn(pre->names, " ")));
    gw_strings(&w, "tokenizer.ggml.tokens", N, tokens);
    gw_array(&w, "tokenizer.ggml.token_type", GGUF_I32, N, types, sizeof types);
    gw_strings(&w, "tokenizer.ggml.merges", N_MERGES, merges);
    gw_bool(&w, "tokenizer.ggml.add_space_prefix", false);
    Bytes blob = vocab_pack(a, gguf_parse(a, "built", gw_finish(&w)));
    gw_free(&w);
    return blob;
}

/* Whatever comes out of a tokenizer that may be damaged. */
static void use(const Tokenizer *t, const char *text, size_t n) {
    enum { MOST = 4096 };
    static uint32_t ids[MOST];
    static char out[MOST];
    int32_t r = token_encode(t, text, n, TOKEN_ADD_SPECIAL | TOKEN_PARSE_SPECIAL, ids, MOST);
    if (r < TOKEN_ERROR_SIZE) die("an unknown error");
    if (r > MOST) r = MOST;
    for (int32_t i = 0; i < r; i++) {
        token_piece(t, ids[i], true, out, MOST);
        token_is_eog(t, ids[i]);
    }
    if (r > 0 &&
        token_detokenize(t, ids, (size_t)r, TOKEN_UNPARSE_SPECIAL, out, MOST) < TOKEN_ERROR_SIZE)
        die("an unknown error");
}

/* What the text is after encoding: BPE replaces malformed characters. */
static size_t expect(const Tokenizer *t, const char *text, size_t n, char *out) {
    size_t n_out = 0;
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        size_t used = utf8_decode(text + at, n - at, &cp);
        if (t->header->kind == VOCAB_SPM) memcpy(out + n_out, text + at, used), n_out += used;
        else n_out += utf8_encode(cp, out + n_out);
        at += used;
    }
    return n_out;
}

/* Where spaces are written as U+2581, one stands for the other. */
static size_t unify_spaces(const Tokenizer *t, char *s, size_t n) {
    size_t out = 0;
    if (t->header->kind == VOCAB_BPE && !(t->header->flags & VOCAB_ESCAPE_SPACES)) return n;
    for (size_t i = 0; i < n; i++) {
        bool block = n - i >= 3 && !memcmp(s + i, BLOCK, 3);
        s[out++] = block ? ' ' : s[i];
        if (block) i += 2;
    }
    return out;
}

static void round_trip(const Tokenizer *t, const char *text, size_t n) {
    uint32_t *ids = malloc(12 * n + 4);
    char *want = malloc(3 * n + 4), *got = malloc(3 * n + 4);
    if (!ids || !want || !got) abort();
    int32_t r = token_encode(t, text, n, TOKEN_PARSE_SPECIAL, ids, 3 * n);
    if (r < 0 || (size_t)r > 3 * n) die("encoding fails");
    size_t n_want = expect(t, text, n, want), n_got = 0;
    for (int32_t i = 0; i < r; i++)
        n_got += (size_t)token_piece(t, ids[i], true, got + n_got, 3 * n - n_got);
    n_want = unify_spaces(t, want, n_want);
    n_got = unify_spaces(t, got, n_got);
    if (n_got != n_want || memcmp(want, got, n_got)) die("the text is not what it was");
    if (token_utf8_hold(text, n) > 3) die("more is held back than a character has");
    use(t, text, n);
    free(ids);
    free(want);
    free(got);
}

static void damage(Arena *a, Bytes good, const uint8_t *data, size_t size) {
    uint8_t *blob = arena_copy(a, good.p, good.n);
    Tokenizer t;
    for (; size >= 5; data += 5, size -= 5) {
        uint32_t place;
        memcpy(&place, data, 4);
        blob[place % good.n] = data[4];
    }
    if (token_open(blob, good.n, &t) == TOKEN_OK) use(&t, "<s>abc 12\n\nhe \xff<|x|>", 20);
}

static void regex(const char *data, size_t size) {
    static Regex r;
    static uint32_t cps[1024];
    static uint8_t classes[1024], cuts[1025];
    size_t end = 0, n = 0;
    while (end + 1 < size && (data[end] || data[end + 1])) end++;
    if (end + 1 >= size || !regex_compile(&r, data, end + 1)) return;
    for (size_t at = end + 2; at < size && n < 1024; n++) {
        at += utf8_decode(data + at, size - at, &cps[n]);
        classes[n] = unicode_class(cps[n]);
    }
    if (n > 16) n = 16; /* such expressions may take exponential time within their budget */
    if (n) regex_split(&r, cps, classes, n, cuts);
}

static void gguf(Arena *a, const uint8_t *data, size_t size) {
    FailTrap trap;
    Tokenizer t;
    if (fail_catch(&trap)) return;
    Bytes blob = vocab_pack(a, gguf_parse(a, "input", (Bytes){arena_copy(a, data, size), size}));
    fail_pop(&trap);
    if (token_open(blob.p, blob.n, &t) != TOKEN_OK) die("a vocabulary just made does not open");
    use(&t, "<s>abc 12\n\nhe \xff<|x|>", 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 256, TEXT = 250, DAMAGE = 250, REGEX = 251 };
    static Arena *kept;
    static Tokenizer tokenizers[MOST];
    static Bytes blobs[MOST];
    static size_t n;
    verbosity = 0;
    if (!kept) {
        kept = arena_create();
        do {
            blobs[n] = make_vocab(kept, n ? pretokenizer_at(n - 1) : NULL);
            if (token_open(blobs[n].p, blobs[n].n, &tokenizers[n]) != TOKEN_OK) die("no tokenizer");
        } while (pretokenizer_at(n++));
        n--;
    }
    if (size < 1) return 0;
    Arena *a = arena_create();
    if (data[0] < TEXT) round_trip(&tokenizers[data[0] % n], (const char *)data + 1, size - 1);
    else if (data[0] == DAMAGE && size > 1) damage(a, blobs[data[1] % n], data + 2, size - 2);
    else if (data[0] == REGEX) regex((const char *)data + 1, size - 1);
    else gguf(a, data + 1, size - 1);
    arena_destroy(a);
    return 0;
}

#ifdef REPLAY
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        Arena *a = arena_create();
        Bytes file = file_map(a, argv[i]);
        LLVMFuzzerTestOneInput(arena_copy(a, file.p, file.n), file.n);
        arena_destroy(a);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
#endif
