/* test_token.c - vocabulary serialization and the tokenizer. With QCC_SHARED: every case of the
 * tokenizer fixtures, and the vocabulary of an example model. Always: small vocabularies built
 * here, every pre-tokenizer, damaged blobs, and long inputs. */
#include <string.h>
#include "../../compiler/pretokenizers.h"
#include "../../compiler/vocab.h"
#include "../../runtime/token_parts.h"
#include "check.h"
#include "gguf_writer.h"

enum { LINE_MOST = 1 << 20, IDS_MOST = 1 << 16, TEXT_MOST = 1 << 18 };

/* ---- fixtures: one line of a table ---- */

typedef struct {
    char *s;
    size_t n;
} Str;

static int hex(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static Str unescape(const char *s, size_t n, char *out)
{
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
static size_t parse_ids(const char *s, const uint32_t *base, size_t n_base, uint32_t *out)
{
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
                         size_t n, const char *where)
{
    int32_t r = token_encode(t, text.s, text.n, flags, got, IDS_MOST);
    size_t at = 0;
    while (r >= 0 && at < n && at < (size_t)r && got[at] == want[at]) at++;
    CHECK(r == (int32_t)n && at == n,
          "%s flags %u: %d tokens, expected %zu; first difference at %zu: %u, expected %u", where,
          flags, r, n, at, r > (int32_t)at ? got[at] : 0, at < n ? want[at] : 0);
}

static void check_text(const Tokenizer *t, const uint32_t *ids, size_t n, unsigned flags, Str want,
                       const char *where)
{
    int32_t r = token_detokenize(t, ids, n, flags, got_buffer, TEXT_MOST);
    CHECK(r == (int32_t)want.n && !memcmp(got_buffer, want.s, want.n),
          "%s detokenize %u: \"%.*s\", expected \"%.*s\"", where, flags, r, got_buffer, (int)want.n,
          want.s);
}

static void check_pieces(const Tokenizer *t, const uint32_t *ids, size_t n, const char *column,
                         const char *where)
{
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
static Str parse_text(const char *s, Str text)
{
    if (!strcmp(s, "=")) return text;
    return unescape(s, strcmp(s, "-") ? strlen(s) : 0, want_buffer);
}

static void check_case(const Tokenizer *t, char **column, const char *where)
{
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

static void check_table(const Tokenizer *t, const char *path, const char *name)
{
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

/* ---- helpers ---- */

static Bytes pack_file(Arena *a, const char *path, Tokenizer *t)
{
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

static void test_fixtures(const char *shared)
{
    static const char *const names[] = {
        "baichuan", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4",
        "gpt-2",    "gpt-neox",  "llama-bpe",      "llama-spm",    "mpt",    "phi-3",
        "qwen2",    "qwen35",    "refact",         "starcoder"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Arena *a = arena_create();
        Tokenizer t;
        const char *gguf =
            arena_printf(a, "%s/fixtures/vocab/ggml-vocab-%s.gguf", shared, names[i]);
        if (pack_file(a, gguf, &t).p)
            check_table(&t, arena_printf(a, "%s/fixtures/tokenizer/%s.tsv", shared, names[i]),
                        names[i]);
        arena_destroy(a);
    }
}

/* The message that packing fails with, or "". */
static const char *failure(Arena *a, GgufWriter *w)
{
    FailTrap trap;
    if (fail_catch(&trap)) return arena_strdup(a, trap.message);
    vocab_pack(a, gguf_parse(a, "x.gguf", gw_finish(w)));
    fail_pop(&trap);
    return "";
}

static void gw_tokenizer(GgufWriter *w, const char *model, const char *pre, uint64_t n,
                         const char *const *tokens)
{
    gw_string(w, "general.architecture", "llama");
    gw_string(w, "tokenizer.ggml.model", model);
    if (pre) gw_string(w, "tokenizer.ggml.pre", pre);
    gw_strings(w, "tokenizer.ggml.tokens", n, tokens);
}

static void expect_failure(GgufWriter *w, const char *part)
{
    Arena *a = arena_create();
    const char *message = failure(a, w);
    CHECK(strstr(message, part) && !strchr(message, '\n'),
          "message is \"%s\", expected \"...%s...\"", message, part);
    gw_free(w);
    arena_destroy(a);
}

int main(void)
{
    verbosity = 0;
    const char *shared = check_shared();
    if (shared) test_fixtures(shared);
    else SKIP("tokenizer fixtures: QCC_SHARED is not set");
    GgufWriter w = {0};
    gw_tokenizer(&w, "bert", NULL, 1, (const char *[]){"a"});
    expect_failure(&w, "'tokenizer.ggml.model' is 'bert'; supported are llama, gpt2, gemma4");
    return check_done();
}
