/* test_token.c - vocabulary serialization and the tokenizer: the example model against ids made
 * with llama.cpp, small vocabularies built here, damaged blobs, long texts; with QCC_SHARED every
 * case of the tokenizer fixtures. */
#include <string.h>
#include "../../compiler/vocab.h"
#include "../../runtime/token_parts.h"
#include "check.h"
#include "gguf_writer.h"

enum { LINE_MOST = 1 << 20, IDS_MOST = 1 << 16, TEXT_MOST = 1 << 18 };

/* ---- fixtures: one line of a table ----------------------------------------------------------- */

typedef struct {
    char *s;
    size_t n;
} Str;

static int hex(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static Str unescape(const char *s, size_t n, char *out) {
    Str r = {out, 0};
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\\') {
            out[r.n++] = s[i];
            continue;
        }
        char c = s[++i];
        if (c == 'x') {
            out[r.n++] = (char)(hex(s[i + 1]) << 4 | hex(s[i + 2]));
            i += 2;
        } else {
            out[r.n++] = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
    }
    return r;
}

/* Ids of a column; "=" inserts `base`. */
static size_t parse_ids(const char *s, const uint32_t *base, size_t n_base, uint32_t *out) {
    size_t n = 0;
    while (*s && strcmp(s, "-")) {
        if (*s == '=') {
            memcpy(out + n, base, n_base * sizeof *base);
            n += n_base;
            s++;
        } else {
            char *end;
            out[n++] = (uint32_t)strtoul(s, &end, 10);
            s = end;
        }
        while (*s == ' ') s++;
    }
    return n;
}

static uint32_t got[IDS_MOST], want_ids[2][IDS_MOST], want_add[2][IDS_MOST];
static char text_buffer[TEXT_MOST], want_buffer[TEXT_MOST], got_buffer[TEXT_MOST];

static void check_encode(const Tokenizer *t, Str text, unsigned flags, const uint32_t *want,
                         size_t n, const char *where) {
    int32_t r = token_encode(t, text.s, text.n, flags, got, IDS_MOST);
    size_t at = 0;
    while (r >= 0 && at < n && at < (size_t)r && got[at] == want[at]) at++;
    CHECK(r == (int32_t)n && at == n,
          "%s flags %u: %d tokens, expected %zu; first difference at %zu: %u, expected %u", where,
          flags, r, n, at, r > (int32_t)at ? got[at] : 0, at < n ? want[at] : 0);
}

static void check_text(const Tokenizer *t, const uint32_t *ids, size_t n, unsigned flags, Str want,
                       const char *where) {
    int32_t r = token_detokenize(t, ids, n, flags, got_buffer, TEXT_MOST);
    CHECK(r == (int32_t)want.n && !memcmp(got_buffer, want.s, want.n),
          "%s detokenize %u: \"%.*s\", expected \"%.*s\"", where, flags, r, got_buffer, (int)want.n,
          want.s);
}

static void check_pieces(const Tokenizer *t, const uint32_t *ids, size_t n, const char *column,
                         const char *where) {
    for (size_t i = 0; i < n; i++) {
        size_t length = strcspn(column, "|");
        Str want = unescape(column, length, want_buffer);
        int32_t r = token_piece(t, ids[i], true, got_buffer, TEXT_MOST);
        CHECK(r == (int32_t)want.n && !memcmp(got_buffer, want.s, want.n),
              "%s piece of %u: \"%.*s\", expected \"%.*s\"", where, ids[i], r, got_buffer,
              (int)want.n, want.s);
        column += length + (column[length] == '|');
    }
}

/* Columns 7 and 8: "=" is the text, "-" nothing. */
static Str parse_text(const char *s, Str text) {
    if (!strcmp(s, "=")) return text;
    return unescape(s, strcmp(s, "-") ? strlen(s) : 0, want_buffer);
}

static void check_case(const Tokenizer *t, char **column, const char *where) {
    Str text = unescape(column[1], strcmp(column[1], "-") ? strlen(column[1]) : 0, text_buffer);
    size_t n[2], n_add[2];
    n[1] = parse_ids(column[2], NULL, 0, want_ids[1]);
    n_add[1] = parse_ids(column[3], want_ids[1], n[1], want_add[1]);
    n[0] = parse_ids(column[4], want_ids[1], n[1], want_ids[0]);
    n_add[0] = parse_ids(column[5], want_ids[0], n[0], want_add[0]);
    for (unsigned parse = 0; parse < 2; parse++) {
        check_encode(t, text, parse * TOKEN_PARSE_SPECIAL, want_ids[parse], n[parse], where);
        check_encode(t, text, TOKEN_ADD_SPECIAL | parse * TOKEN_PARSE_SPECIAL, want_add[parse],
                     n_add[parse], where);
    }
    check_text(t, want_ids[1], n[1], TOKEN_UNPARSE_SPECIAL, parse_text(column[6], text), where);
    check_text(t, want_add[1], n_add[1], TOKEN_REMOVE_SPECIAL, parse_text(column[7], text), where);
    if (n[1]) check_pieces(t, want_ids[1], n[1], column[8], where);
}

static void check_table(const Tokenizer *t, const char *path, const char *name) {
    FILE *f = fopen(path, "rb");
    char *line = malloc(LINE_MOST), where[200];
    CHECK(f && line, "%s cannot be read", path);
    int cases = 0;
    while (f && line && fgets(line, LINE_MOST, f)) {
        char *column[9] = {0}, *s = line;
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < 9 && s; i++) {
            column[i] = s;
            s = strchr(s, '\t');
            if (s) *s++ = 0;
        }
        CHECK(column[8], "%s: a line has fewer than 9 columns", path);
        if (!column[8]) continue;
        snprintf(where, sizeof where, "%s case %s", name, column[0]);
        check_case(t, column, where);
        cases++;
    }
    CHECK(cases > 300, "%s has only %d cases", path, cases);
    free(line);
    if (f) fclose(f);
}

/* ---- helpers --------------------------------------------------------------------------------- */

static Bytes pack_file(Arena *a, const char *path, Tokenizer *t) {
    FailTrap trap;
    Bytes blob = {0};
    if (fail_catch(&trap)) {
        CHECK(false, "%s", trap.message);
        return blob;
    }
    blob = vocab_pack(a, gguf_open(a, path));
    fail_pop(&trap);
    int32_t r = token_open(blob.p, blob.n, t);
    CHECK(r == TOKEN_OK, "%s: %s", path, token_error(r));
    if (r != TOKEN_OK) blob.p = NULL;
    return blob;
}

/* ---- the example model: ids made with llama.cpp ---------------------------------------------- */

enum { BOTH = TOKEN_ADD_SPECIAL | TOKEN_PARSE_SPECIAL };
static const char example[] = "examples/tiny-stories-3m-q4_k_m.gguf";

static void check_example(const Tokenizer *t, const char *text, size_t n, const uint32_t *want) {
    Str s = {(char *)text, strlen(text)};
    check_encode(t, s, BOTH, want, n, text);
    check_text(t, want, n, TOKEN_REMOVE_SPECIAL | TOKEN_UNPARSE_SPECIAL, s, text);
}
#define EXAMPLE(t, text, ...)                                                                      \
    check_example(t, text, sizeof((uint32_t[]){__VA_ARGS__}) / 4, (uint32_t[]){__VA_ARGS__})

static void test_example(const Tokenizer *t) {
    EXAMPLE(t, "Once upon a time, there was a brave little fox named Pip.", 0, 902, 1379, 261, 470,
            14, 394, 284, 261, 1013, 455, 1892, 534, 1477, 16);
    EXAMPLE(t, "One rainy morning, Luna the owl", 0, 446, 689, 686, 532, 14, 1380, 265, 1595);
    EXAMPLE(t, "The Curious Mouse and the Lost Key\n\n", 0, 507, 449, 87, 1684, 351, 581, 286, 265,
            393, 546, 484, 71, 91, 201, 201);
    EXAMPLE(t,
            "<|im_start|>user\nTell me a story about a brave fox and a lost kite.<|im_end|>\n"
            "<|im_start|>assistant\n",
            0, 1, 400, 201, 1665, 416, 261, 460, 512, 261, 1013, 1892, 286, 261, 668, 1896, 16, 2,
            201, 1, 401, 201);
    EXAMPLE(t, "<|im_start|>user\nWhat is three plus four?<|im_end|>\n<|im_start|>assistant\n", 0,
            1, 400, 201, 497, 319, 631, 2006, 748, 33, 2, 201, 1, 401, 201);
    int32_t n = token_encode(t, "<|im_end|>", 10, 0, got, IDS_MOST);
    CHECK(n > 1, "a control token in a user's text is text; %d tokens", n);
    CHECK(token_is_eog(t, 0) && !token_is_eog(t, 1) && token_is_eog(t, 2) && !token_is_eog(t, 3),
          "ids that end a generation");
    CHECK(token_find(t, "<|im_end|>", 10) == 2 && token_find(t, "<|im_en", 7) == TOKEN_NONE,
          "find");
    CHECK(token_text(t, 2).n == 10 && token_text(t, 1u << 30).n == 0, "text");
    CHECK(token_piece(t, 2, false, NULL, 0) == 0 && token_piece(t, 2, true, NULL, 0) == 10,
          "piece");
    CHECK(token_chat_template(t).n > 100, "chat template");
    CHECK(token_model_name(t).n == 4 && token_pre_name(t).n == 5, "names");
    CHECK(token_encode(t, "", 0, BOTH, got, IDS_MOST) == 1 && got[0] == 0, "empty text is BOS");
    CHECK(token_encode(t, "", 0, 0, NULL, 0) == 0, "empty text is nothing");
    CHECK(token_encode(t, "Once upon a time", 16, 0, got, 1) == 4, "count beyond the capacity");
}

/* All byte values and all short sequences survive. */
static void test_round_trip(const Tokenizer *t) {
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t n = 0;
        while (n < 40) { /* valid UTF-8: anything else becomes U+FFFD */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t cp = (uint32_t)(seed >> 40) & (seed >> 20 & 1 ? 0x7f : 0xffff);
            if (cp >= 0xd800 && cp < 0xe000) cp = ' ';
            n += utf8_encode(cp, text + n);
        }
        int32_t ids = token_encode(t, text, n, TOKEN_PARSE_SPECIAL, got, IDS_MOST);
        size_t out = 0;
        for (int32_t i = 0; i < ids; i++)
            out += (size_t)token_piece(t, got[i], true, got_buffer + out, TEXT_MOST - out);
        CHECK(out == n && !memcmp(got_buffer, text, n), "round %d: %zu bytes became %zu", round, n,
              out);
    }
}

/* ---- long texts: not quadratic, or this does not end ----------------------------------------- */

static void check_long(const Tokenizer *t, const char *unit, const char *end, const char *name) {
    size_t n_unit = strlen(unit), n_end = strlen(end), n = (1 << 20) / n_unit * n_unit;
    char *text = malloc(n + n_end);
    uint32_t *ids = malloc(4 * n);
    for (size_t i = 0; i < n; i++) text[i] = unit[i % n_unit];
    memcpy(text + n, end, n_end);
    int32_t r = token_encode(t, text, n + n_end, TOKEN_PARSE_SPECIAL, ids, n);
    CHECK(r > 0 && r <= (int32_t)(n + n_end), "%s: a million of '%s': %d", name, unit, r);
    free(text);
    free(ids);
}

static void test_long(const Tokenizer *t, const char *name) {
    static const char *const units[] = {"a", " ",   "\n",           "<",
                                        "7", "ab ", "\xe6\x97\xa5", "<|im_end|>"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        check_long(t, units[i], "!\xe3\x81\x82", name);
}

/* ---- damaged blobs: an error or wrong tokens, nothing worse (run with the sanitizers) -------- */

static void use_damaged(const void *blob, size_t n) {
    static const char text[] =
        "<|im_start|>Once upon a time, there'll be 123 \xe6\x97\xa5\xff   <|im_end|>\n";
    Tokenizer t;
    if (token_open(blob, n, &t) != TOKEN_OK) return;
    int32_t r = token_encode(&t, text, sizeof text - 1, BOTH, got, IDS_MOST);
    if (r > IDS_MOST) r = IDS_MOST;
    for (int32_t i = 0; i < r; i++) token_piece(&t, got[i], true, got_buffer, TEXT_MOST);
    if (r > 0) token_detokenize(&t, got, (size_t)r, TOKEN_UNPARSE_SPECIAL, got_buffer, TEXT_MOST);
}

static void test_damage(Bytes good) {
    uint64_t *blob = malloc(good.n + 8), seed = 7;
    uint8_t *p = (uint8_t *)blob;
    Tokenizer t;
    memcpy(p, good.p, good.n);
    CHECK(token_open(p, good.n - 1, &t) == TOKEN_ERROR_VOCAB, "a truncated blob opens");
    CHECK(token_open(p, 8, &t) == TOKEN_ERROR_VOCAB, "8 bytes open");
    memmove(p + 4, p, good.n);
    CHECK(token_open(p + 4, good.n, &t) == TOKEN_ERROR_VOCAB, "a misaligned blob opens");
    memcpy(p, good.p, good.n);
    for (size_t i = 0; i < sizeof(VocabHeader); i++) {
        for (int bit = 0; bit < 8; bit += 7) {
            p[i] ^= (uint8_t)(1 << bit);
            use_damaged(p, good.n);
            p[i] = good.p[i];
        }
    }
    for (int round = 0; round < 300; round++) {
        for (int k = 0; k < 400; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            p[sizeof(VocabHeader) + (seed >> 33) % (good.n - sizeof(VocabHeader))] =
                (uint8_t)(seed >> 25);
        }
        use_damaged(p, good.n);
        if (round % 10 == 0) memcpy(p, good.p, good.n);
    }
    free(blob);
    CHECK(true, "survived");
}

/* ---- every fixture --------------------------------------------------------------------------- */

static void test_fixtures(const char *shared) {
    static const char *const names[] = {"baichuan",     "command-r", "deepseek-coder",
                                        "deepseek-llm", "falcon",    "gemma-4",
                                        "gpt-2",        "gpt-neox",  "llama-bpe",
                                        "llama-spm",    "mpt",       "phi-3",
                                        "qwen2",        "qwen35",    "refact",
                                        "starcoder"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Arena *a = arena_create();
        Tokenizer t;
        const char *gguf = arena_printf(a, "%s/fixtures/vocab/ggml-vocab-%s.gguf", shared,
                                        names[i]);
        if (pack_file(a, gguf, &t).p) {
            if (!strcmp(names[i], "llama-spm") || !strcmp(names[i], "deepseek-llm"))
                test_long(&t, names[i]);
            check_table(&t, arena_printf(a, "%s/fixtures/tokenizer/%s.tsv", shared, names[i]),
                        names[i]);
        }
        arena_destroy(a);
    }
}

static void gw_tokenizer(GgufWriter *w, const char *model, const char *pre, uint64_t n,
                         const char *const *tokens) {
    gw_string(w, "general.architecture", "llama");
    gw_string(w, "tokenizer.ggml.model", model);
    if (pre) gw_string(w, "tokenizer.ggml.pre", pre);
    gw_strings(w, "tokenizer.ggml.tokens", n, tokens);
}

/* ---- small vocabularies ---------------------------------------------------------------------- */

enum { MANY = 64 };
typedef struct {
    GgufWriter w;
    Arena *a;
    Tokenizer t;
} Small;

static bool small_open(Small *s) {
    FailTrap trap;
    s->a = arena_create();
    if (fail_catch(&trap)) {
        CHECK(false, "%s", trap.message);
        return false;
    }
    Bytes blob = vocab_pack(s->a, gguf_parse(s->a, "x.gguf", gw_finish(&s->w)));
    fail_pop(&trap);
    CHECK(token_open(blob.p, blob.n, &s->t) == TOKEN_OK, "the blob does not open");
    return true;
}

static void small_close(Small *s) {
    gw_free(&s->w);
    arena_destroy(s->a);
}

#define CHECK_IDS(t, text, flags, ...)                                                             \
    check_encode(t, (Str){(char *)(text), sizeof(text) - 1}, flags, (uint32_t[]){__VA_ARGS__},     \
                 sizeof((uint32_t[]){__VA_ARGS__}) / 4, text)
#define CHECK_TEXT(t, want, flags, ...)                                                            \
    check_text(t, (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4, flags,         \
               (Str){(char *)(want), sizeof(want) - 1}, want)

#define BLOCK "\xe2\x96\x81"

/* SPM: scores, space prefix, byte fallback, longest special token first, stripping of Phi-3. */
static void test_spm(void) {
    static const char *const tokens[] = {"<unk>", "<s>",     "</s>",   BLOCK, "a",      "b",
                                         "ab",    BLOCK "a", "<0xFF>", "<x>", "<x><x>", "c"};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 6, 3, 4, 5};
    static const float scores[] = {0, 0, 0, -5, -5, -5, -1, -2, 0, 0, 0, 0};
    Small s = {0};
    gw_string(&s.w, "general.name", "My Phi-3 mini");
    gw_tokenizer(&s.w, "llama", NULL, 12, tokens);
    gw_array(&s.w, "tokenizer.ggml.token_type", GGUF_I32, 12, types, sizeof types);
    gw_array(&s.w, "tokenizer.ggml.scores", GGUF_F32, 12, scores, sizeof scores);
    if (small_open(&s)) {
        CHECK_IDS(&s.t, "ab", TOKEN_ADD_SPECIAL, 1, 3, 6); /* "ab" outranks " a" */
        CHECK_IDS(&s.t, "aa", 0, 7, 4);
        CHECK_IDS(&s.t, "a\xff", 0, 7, 8);
        CHECK_IDS(&s.t, "aq", 0, 7, 0); /* no byte token: unknown */
        CHECK_IDS(&s.t, "a<x><x><x>  a", TOKEN_PARSE_SPECIAL, 7, 10, 9, 7);
        CHECK_IDS(&s.t, "<x><x> b", 0, 10, 3, 5);
        CHECK_TEXT(&s.t, "ab", 0, 3, 6);
        CHECK_TEXT(&s.t, " ab", TOKEN_REMOVE_SPECIAL, 1, 3, 6);
        CHECK_TEXT(&s.t, "a<x>", TOKEN_UNPARSE_SPECIAL, 7, 9);
        CHECK_TEXT(&s.t, "a", 0, 7, 9, 11);
        CHECK(token_is_eog(&s.t, 2) && token_is_control(&s.t, 9) && !token_is_control(&s.t, 10),
              "types");
    }
    small_close(&s);
}

/* BPE: merges whose parts are no tokens, dropped bytes, rank before place, clean-up of spaces, EOG
 * exceptions. */
static void test_bpe(void) {
    static const char *const tokens[] = {"a",           "b",           "ab",       "abc",
                                         "\xc4\xa0",    "<|end|>",     "<|call|>", "<|return|>",
                                         "<|channel|>", ".",           "ba",       "",
                                         "a",           "<|unused_1|>"};
    static const char *const merges[] = {"c a", "b c", "a bc", "b a", "a b", "b c", "nospace", " "};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1, 3};
    static const int32_t suppress[] = {3, 900, -1};
    Small s = {0};
    gw_tokenizer(&s.w, "gpt2", "gpt-2", 14, tokens);
    gw_array(&s.w, "tokenizer.ggml.token_type", GGUF_I32, 14, types, sizeof types);
    gw_strings(&s.w, "tokenizer.ggml.merges", 8, merges);
    gw_array(&s.w, "tokenizer.ggml.suppress_tokens", GGUF_I32, 3, suppress, sizeof suppress);
    if (small_open(&s)) {
        size_t n;
        CHECK_IDS(&s.t, "abc", 0, 3);
        CHECK_IDS(&s.t, "aba", 0, 12, 10); /* "b a" ranks before "a b"; the last of equal texts */
        CHECK_IDS(&s.t, "ab", 0, 2);
        CHECK_IDS(&s.t, "caq", 0,
                  12); /* "ca" is no token and goes byte by byte: "c" and "q" have none */
        CHECK_IDS(&s.t, "<|end|>a<|unused_1|>", TOKEN_PARSE_SPECIAL, 5, 12);
        CHECK_TEXT(&s.t, "a.", 0, 0, 4, 9);
        CHECK_TEXT(&s.t, "[EMPTY_11]", 0, 11);
        CHECK(!token_is_eog(&s.t, 5) && token_is_eog(&s.t, 6) && token_is_eog(&s.t, 7), "EOG");
        CHECK(!token_is_control(&s.t, 5) && !token_is_control(&s.t, 8), "types of gpt-oss tokens");
        CHECK(token_suppressed(&s.t, &n)[0] == 3 && n == 1, "suppressed tokens");
    }
    small_close(&s);
}

static void test_hold(void) {
    CHECK(token_utf8_hold("", 0) == 0 && token_utf8_hold("abc", 3) == 0, "ASCII");
    CHECK(token_utf8_hold("a\xc3", 2) == 1 && token_utf8_hold("a\xc3\xa9", 3) == 0, "two bytes");
    CHECK(token_utf8_hold("\xe2\x96", 2) == 2 && token_utf8_hold("\xe2\x96\x81", 3) == 0,
          "three bytes");
    CHECK(token_utf8_hold("\xf0\x9f\x98", 3) == 3 && token_utf8_hold("\xf0\x9f\x98\x80", 4) == 0,
          "four bytes");
    CHECK(token_utf8_hold("\x80\x80\x80\x80", 4) == 0 && token_utf8_hold("\xff", 1) == 0,
          "invalid bytes");
}

int main(void) {
    verbosity = 0;
    const char *shared = check_shared();
    Arena *a = arena_create();
    Tokenizer t;
    Bytes blob = pack_file(a, example, &t);
    if (blob.p) {
        test_example(&t);
        test_round_trip(&t);
        test_long(&t, "example");
        test_damage(blob);
    }
    arena_destroy(a);
    test_spm();
    test_bpe();
    test_hold();
    if (shared) test_fixtures(shared);
    else SKIP("tokenizer fixtures: QCC_SHARED is not set");
    return check_done();
}
