/* input.c - files, token ids and text as commands take them; what the commands open on demand. */
#include "command.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool command_session(App *a) {
    if (a->session.plan) return true;
    return session_init(&a->session, a->plan, &a->payload, (int)a->options->device);
}

bool command_tokenizer(App *a) {
    if (a->tokenizer) return true;
    const PayloadFrame *f = load_find(&a->payload, FRAME_VOCAB, 0);
    if (!f) return error_user("this program has no tokenizer; use --tokens and --ids");
    a->vocab = load_read(&a->payload, f);
    a->tokenizer = a->vocab ? error_alloc(1, sizeof *a->tokenizer, "the tokenizer") : NULL;
    if (!a->tokenizer) return false;
    int32_t r = token_open(a->vocab, (size_t)f->raw_bytes, a->tokenizer);
    if (r != TOKEN_OK)
        return error_user("the tokenizer of this program cannot be used: %s; compile it again",
                          token_error(r));
    const VocabHeader *h = a->tokenizer->header;
    uint32_t n = a->plan->n_vocab;
    if (h->n_tokens <= n && (h->bos == VOCAB_NONE || h->bos < n) &&
        (h->eos == VOCAB_NONE || h->eos < n))
        return true;
    return error_user("the tokenizer of this program has %u tokens, the model %u; compile it again",
                      h->n_tokens, n);
}

char *input_read(const char *path, uint64_t *bytes) {
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, cap = 1 << 16;
    bool ok = f != NULL;
    while (ok && !feof(f)) {
        char *more = n + 1 < cap && text ? text : realloc(text, cap = text ? cap * 2 : cap);
        if (!more) {
            (void)error_environment("out of memory: reading %s", path);
            ok = false;
            break;
        }
        text = more;
        n += fread(text + n, 1, cap - n - 1, f);
        if (ferror(f)) ok = false;
    }
    if (!ok)
        (void)error_user("%s: cannot be read: %s", standard ? "stdin" : path,
                         strerror(errno)); /* silent if reported */
    if (f && !standard) (void)fclose(f);
    if (!ok) return free(text), NULL;
    text[n] = 0;
    *bytes = n;
    return text;
}

/* The next number of *at, skipping separators: 1, or 0 at the end, or -1 for something else. */
static int next_id(const char **at, uint64_t *id) {
    while (isspace((unsigned char)**at) || **at == ',') ++*at;
    if (!**at) return 0;
    if (!isdigit((unsigned char)**at)) return -1;
    for (*id = 0; isdigit((unsigned char)**at); ++*at)
        if (*id < 1ull << 40) *id = *id * 10 + (uint64_t)(**at - '0');
    return isspace((unsigned char)**at) || **at == ',' || !**at ? 1 : -1;
}

uint32_t *input_ids(App *a, const char *path, uint32_t *n) {
    uint64_t bytes = 0, id = 0;
    char *text = input_read(path, &bytes);
    uint32_t *ids = text ? error_alloc(bytes / 2 + 1, sizeof *ids, "token ids") : NULL;
    const char *at = text, *name = strcmp(path, "-") == 0 ? "stdin" : path;
    int r = ids ? 1 : -1;
    for (*n = 0; ids && (r = next_id(&at, &id)) == 1; ids[(*n)++] = (uint32_t)id)
        if (id >= a->plan->n_vocab) {
            (void)error_user("%s: token %u is %llu, expected an id below %u", name, *n,
                             (unsigned long long)id, a->plan->n_vocab);
            break;
        }
    if (ids && r == 0 && at < text + bytes) r = -1; /* a NUL byte */
    if (ids && r < 0)
        (void)error_user("%s: token %u, at byte %llu, is not a number; expected ids separated by "
                         "spaces",
                         name, *n, (unsigned long long)(at - text));
    free(text);
    if (r == 0) return ids;
    free(ids);
    return NULL;
}

uint32_t *input_encode(App *a, const char *text, uint64_t bytes, unsigned flags, uint32_t *n) {
    if (!command_tokenizer(a)) return NULL;
    int32_t r = token_encode(a->tokenizer, text, (size_t)bytes, flags, NULL, 0);
    uint32_t *ids = r >= 0 ? error_alloc((uint64_t)r + 1, sizeof *ids, "token ids") : NULL;
    if (ids) r = token_encode(a->tokenizer, text, (size_t)bytes, flags, ids, (size_t)r);
    if (r == TOKEN_ERROR_MEMORY)
        (void)error_environment("out of memory: tokenizing %llu bytes", (unsigned long long)bytes);
    else if (r < 0) (void)error_user("cannot tokenize the text: %s", token_error(r));
    if (r < 0) return free(ids), NULL;
    *n = (uint32_t)r;
    return ids;
}

bool input_fits(const App *a, uint32_t n) {
    if (n == 0) return error_user("the prompt is empty; expected at least one token");
    if (n <= a->plan->n_ctx) return true;
    return error_user("the prompt has %u tokens, the context of this program %u; shorten it, or "
                      "recompile with --ctx %u",
                      n, a->plan->n_ctx, n);
}

bool output_finish(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    return error_environment("cannot write the output: %s", strerror(errno ? errno : EIO));
}
