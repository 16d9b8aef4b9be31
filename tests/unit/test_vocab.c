/* test_vocab.c - vocabularies that cannot be serialized say why, in one line. What comes out of
 * those that can is the business of test_token.c. */
#include "../../compiler/vocab.h"
#include <string.h>
#include "check.h"
#include "gguf_writer.h"

/* The message that packing fails with, or "". */
static const char *failure(Arena *a, GgufWriter *w) {
    FailTrap trap;
    if (fail_catch(&trap)) return arena_strdup(a, trap.message);
    vocab_pack(a, gguf_parse(a, "x.gguf", gw_finish(w)));
    fail_pop(&trap);
    return "";
}

static void gw_tokenizer(GgufWriter *w, const char *model, const char *pre, uint64_t n,
                         const char *const *tokens) {
    gw_string(w, "general.architecture", "llama");
    gw_string(w, "tokenizer.ggml.model", model);
    if (pre) gw_string(w, "tokenizer.ggml.pre", pre);
    gw_strings(w, "tokenizer.ggml.tokens", n, tokens);
}

static void expect_failure(GgufWriter *w, const char *part) {
    Arena *a = arena_create();
    const char *message = failure(a, w);
    CHECK(strstr(message, part) && !strchr(message, '\n'),
          "message is \"%s\", expected \"...%s...\"", message, part);
    gw_free(w);
    arena_destroy(a);
}

static void gw_bpe(GgufWriter *w, const char *pre) {
    gw_tokenizer(w, "gpt2", pre, 2, (const char *[]){"a", "b"});
}

static void test_failures(void) {
    GgufWriter w = {0};
    static const char *const models[] = {"bert", "t5", "none", "rwkv", "lla"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        gw_tokenizer(&w, models[i], NULL, 1, (const char *[]){"a"});
        char want[120];
        snprintf(want, sizeof want,
                 "x.gguf: metadata key 'tokenizer.ggml.model' is '%s'; supported are llama, gpt2,"
                 " gemma4",
                 models[i]);
        expect_failure(&w, want);
    }
    gw_string(&w, "general.architecture", "llama");
    expect_failure(&w, "'tokenizer.ggml.model' is missing");
    gw_string(&w, "tokenizer.ggml.model", "llama");
    expect_failure(&w, "'tokenizer.ggml.tokens' is missing");
    gw_bpe(&w, "gpt-2");
    expect_failure(&w, "'tokenizer.ggml.merges' is missing");
    gw_bpe(&w, "no-such");
    expect_failure(&w, "'tokenizer.ggml.pre' is 'no-such'");
    gw_bpe(&w, "gpt-2");
    gw_array(&w, "tokenizer.ggml.token_type", GGUF_I32, 1, (int32_t[]){1}, 4);
    expect_failure(&w, "'tokenizer.ggml.token_type' has 1 elements; 'tokenizer.ggml.tokens' has 2");
    gw_tokenizer(&w, "llama", NULL, 1, (const char *[]){"a"});
    gw_array(&w, "tokenizer.ggml.scores", GGUF_F32, 1, (uint32_t[]){0x7fc00000}, 4);
    expect_failure(&w, "'tokenizer.ggml.scores': element 0 is not a number");
    gw_tokenizer(&w, "llama", NULL, 0, NULL);
    expect_failure(&w, "has 0 elements; expected 1 to");
}

int main(void) {
    verbosity = 0;
    test_failures();
    return check_done();
}
