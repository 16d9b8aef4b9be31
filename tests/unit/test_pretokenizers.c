/* test_pretokenizers.c - the table of pre-tokenizers and the matcher of their expressions:
 * everything compiles, cuts where it should, and takes time in proportion to the text. */
#include <string.h>
#include "../../compiler/pretokenizers.h"
#include "../../runtime/token_parts.h"
#include "check.h"

/* The budget of the matcher bounds its steps: no pre-tokenizer may come near it on any of these. */
static void test_pretokenizers(void) {
    enum { N = 30000 };
    static const uint32_t units[][2] = {{' ', ' '},       {'\n', '\n'},   {'A', 'A'},
                                        {'a', 'A'},       {'7', '7'},     {'\'', '\''},
                                        {'\'', 's'},      {'!', '!'},     {'!', '/'},
                                        {0x4e00, 0x4e00}, {0x301, 0x301}, {' ', '\n'},
                                        {0x3000, ' '},    {'A', 0x301}};
    static uint32_t cps[N + 1];
    static uint8_t classes[N + 1], cuts[N + 2];
    static Regex r;
    for (size_t p = 0; pretokenizer_at(p); p++) {
        const Pretokenizer *pre = pretokenizer_at(p);
        char exprs[8192];
        size_t n = 0;
        for (int i = 0; pre->exprs[i]; n += strlen(pre->exprs[i++]) + 1)
            memcpy(exprs + n, pre->exprs[i], strlen(pre->exprs[i]) + 1);
        bool compiled = regex_compile(&r, exprs, n);
        CHECK(compiled, "pre-tokenizer '%s' does not compile", pre->names);
        for (size_t u = 0; compiled && u < sizeof units / sizeof units[0]; u++) {
            for (size_t i = 0; i < N; i++) cps[i] = units[u][i & 1];
            cps[N] = u & 1 ? 'x' : 0x3042;
            for (size_t i = 0; i <= N; i++) classes[i] = unicode_class(cps[i]);
            CHECK(regex_split(&r, cps, classes, N + 1, cuts), "'%s', text %zu: too slow",
                  pre->names, u);
        }
    }
    CHECK(pretokenizer_find("llama-bpe", 9) == pretokenizer_find("llama3", 6), "two names of one");
    CHECK(!pretokenizer_find("llama", 5) && !pretokenizer_find("", 0), "names that do not exist");
}

static void check_bad_regex(const char *expr) {
    static Regex r;
    CHECK(!regex_compile(&r, expr, strlen(expr) + 1), "'%s' is accepted", expr);
}

static void test_bad_regexes(void) {
    static const char *const bad[] = {
        "(",       ")",    "(?:a",   "[a",
        "[z-a]",   "a{",   "a{3",    "a{5,2}",
        "*",       "\\",   "\\p{Q}", "\\p",
        "\\u{zz}", "(?!a", "a)",     "(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:a))))))))))",
        "(#",      "[&&",  "[a&&[b]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) check_bad_regex(bad[i]);
    static Regex r;
    CHECK(!regex_compile(&r, "a", 1), "an expression without its end is accepted");
    CHECK(!regex_compile(&r, "", 1), "an empty expression is accepted");
}

/* The pieces of a text, with | between. */
static void check_split(const char *name, const char *text, const char *want) {
    static Regex r;
    const Pretokenizer *pre = pretokenizer_find(name, strlen(name));
    char exprs[8192], got[512];
    uint32_t cps[128];
    uint8_t classes[128], cuts[129];
    size_t n_exprs = 0, n = 0, n_got = 0;
    CHECK(pre, "no pre-tokenizer '%s'", name);
    for (int i = 0; pre && pre->exprs[i]; n_exprs += strlen(pre->exprs[i++]) + 1)
        memcpy(exprs + n_exprs, pre->exprs[i], strlen(pre->exprs[i]) + 1);
    if (!pre || !regex_compile(&r, exprs, n_exprs)) return;
    for (size_t at = 0, bytes = strlen(text); at < bytes; n++) {
        at += utf8_decode(text + at, bytes - at, &cps[n]);
        classes[n] = unicode_class(cps[n]);
    }
    regex_split(&r, cps, classes, n, cuts);
    for (size_t i = 0; i < n; i++) {
        if (i && cuts[i]) got[n_got++] = '|';
        n_got += utf8_encode(cps[i], got + n_got);
    }
    got[n_got] = 0;
    CHECK(!strcmp(got, want), "%s: \"%s\", expected \"%s\"", name, got, want);
}

static void test_splits(void) {
    check_split("gpt-2", "I'll  go, it's 2024\n\n x", "I|'ll| | go|,| it|'s| 2024|\n\n| x");
    check_split("llama3", "DON'T 12345!\n\n  x", "DON|'T| |123|45|!\n\n| | x");
    check_split("qwen2", "a12 (b)", "a|1|2| (|b|)");
    check_split("gpt-4o", "HelloWorld ABCdef it's", "Hello|World| ABCdef| it's");
    check_split("tekken", "HelloWorld 12", "Hello|World| |1|2");
    check_split("superbpe", "a1234567 123", "a|1|234|567| |123");
    check_split("tiny_aya", "1234 12a", "1|234| |12|a");
    check_split("deepseek-v3", "\xe6\x97\xa5\xe6\x9c\xac 12345~",
                "\xe6\x97\xa5\xe6\x9c\xac| |123|45|~");
    check_split("kimi-k2", "\xe6\x97\xa5\xe6\x9c\xac ab's", "\xe6\x97\xa5\xe6\x9c\xac| ab's");
    check_split("exaone-moe", "one two, 3", "one two|,| |3");
    check_split("deepseek-llm", "ab  \n cd  ", "ab|  |\n| cd|  ");
    check_split("gemma4", "a b\n\nc", "a b|\n\n|c");
    check_split("falcon", "a,b 12345", "a|,|b| |123|45");
    check_split("chameleon", "IMGIMGABZ<sentinel:12>", "IMGIMGABZ|<|sentinel|:|1|2|>");
}

int main(void) {
    test_pretokenizers();
    test_bad_regexes();
    test_splits();
    return check_done();
}
