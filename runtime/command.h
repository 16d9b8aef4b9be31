/* command.h - the commands of a compiled program, and what they share. Each returns false after a
 * failure was reported. */
#ifndef QCC_COMMAND_H
#define QCC_COMMAND_H
#include "session.h"
#include "token.h"

typedef struct {
    /* generate */
    const char *text, *file, *tokens; /* -p, -f, --tokens; at most one */
    bool from_stdin;                  /* - */
    uint64_t n;                       /* -n; 0: until the end of the text or of the context */
    bool ids, echo, ignore_eos;
    Sampling sampling;
    int64_t device; /* --device, -1: the best */
    /* bench: -1 means the default, or what fits */
    int64_t bench_prompt, bench_steps;
    uint64_t repetitions, depth;
    bool json, profile;
    /* the others */
    bool no_bos, special;
    const char *out, *path; /* --out, --path prefill|decode */
} Options;

typedef struct {
    const Plan *plan;
    const Options *options;
    Payload payload;
    uint8_t *vocab;       /* the tokenizer's blob */
    Tokenizer *tokenizer; /* NULL until command_tokenizer */
    Session session;
} App;

bool command_generate(App *a);
bool command_bench(App *a);
bool command_verify(App *a);
bool command_info(App *a);
bool command_perplexity(App *a);
bool command_tokenize(App *a);
bool command_detokenize(App *a);
bool command_logits(App *a);

bool command_session(App *a);   /* opens the device, once */
bool command_tokenizer(App *a); /* reads the vocabulary, once */

/* The manifest's value of a string key ("accuracy"), or false; manifest is NUL-terminated JSON. */
bool info_string(const char *manifest, const char *key, char *out, uint32_t size);

/* input.c. Results are malloc'ed; NULL: reported. "-" is stdin. */
char *input_read(const char *path, uint64_t *bytes); /* whole file, with a NUL behind it */
/* Numbers separated by spaces, commas or newlines, each below n_vocab. */
uint32_t *input_ids(App *a, const char *path, uint32_t *n);
uint32_t *input_encode(App *a, const char *text, uint64_t bytes, unsigned flags, uint32_t *n);
/* A prompt of n tokens: at least one, at most the context. */
bool input_fits(const App *a, uint32_t n);
bool output_finish(void); /* flushes stdout; reports what could not be written */
#endif
