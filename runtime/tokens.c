/* tokens.c - tokenize, detokenize and logits: the parts of a model, for scripts. */
#include "command.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool command_tokenize(App *a) {
    uint64_t bytes = 0;
    uint32_t n = 0;
    char *text = input_read("-", &bytes);
    if (!text) return false;
    unsigned flags = (a->options->no_bos ? 0u : TOKEN_ADD_SPECIAL) |
                     (a->options->special ? TOKEN_PARSE_SPECIAL : 0u);
    uint32_t *ids = input_encode(a, text, bytes, flags, &n);
    free(text);
    if (!ids) return false;
    for (uint32_t i = 0; i < n; i++) (void)printf(i ? " %u" : "%u", ids[i]);
    (void)putchar('\n');
    free(ids);
    return output_finish();
}

bool command_detokenize(App *a) {
    uint32_t n = 0;
    uint32_t *ids = command_tokenizer(a) ? input_ids(a, "-", &n) : NULL;
    if (!ids) return false;
    unsigned flags = (a->options->no_bos ? (unsigned)TOKEN_REMOVE_SPECIAL : 0u) |
                     (a->options->special ? (unsigned)TOKEN_UNPARSE_SPECIAL : 0u);
    int32_t bytes = token_detokenize(a->tokenizer, ids, n, flags, NULL, 0);
    char *text = bytes >= 0 ? error_alloc((uint64_t)bytes, 1, "text") : NULL;
    if (text) bytes = token_detokenize(a->tokenizer, ids, n, flags, text, (size_t)bytes);
    if (text && bytes >= 0) (void)fwrite(text, 1, (size_t)bytes, stdout);
    if (bytes < 0) (void)error_user("cannot turn the ids into text: %s", token_error(bytes));
    free(ids);
    free(text);
    return bytes >= 0 && text && output_finish();
}

typedef struct {
    FILE *f;
    uint32_t n_vocab;
} LogitsFile;

static bool write_row(void *ctx, uint32_t position, const float *logits) {
    LogitsFile *l = ctx;
    (void)position;
    return fwrite(logits, sizeof *logits, l->n_vocab, l->f) == l->n_vocab;
}

/* Writes beside `out` and renames: whole or not at all. A device or pipe is written as it is: it
 * must not be renamed over. */
static bool logits_write(App *a, const uint32_t *ids, uint32_t n, bool single) {
    const char *out = a->options->out;
    char temporary[4200];
    if (snprintf(temporary, sizeof temporary, "%s.partial", out) >= (int)sizeof temporary)
        return error_user("--out: the name is too long");
    struct stat st;
    bool direct = stat(out, &st) == 0 && !S_ISREG(st.st_mode);
    LogitsFile l = {.f = fopen(direct ? out : temporary, "wb"), .n_vocab = a->plan->n_vocab};
    if (!l.f) return error_user("%s: cannot be written: %s", out, strerror(errno));
    bool ok = session_start(&a->session, ids, n, 0, NULL) &&
              session_logits(&a->session, single, write_row, &l);
    errno = 0;
    bool written = !ferror(l.f);
    written = fclose(l.f) == 0 && written;
    if (ok && !written)
        ok = error_environment("%s: cannot be written: %s", out, strerror(errno ? errno : ENOSPC));
    if (ok && !direct && rename(temporary, out) != 0)
        ok = error_environment("%s: cannot be written: %s", out, strerror(errno));
    if (!ok && !direct) (void)remove(temporary);
    return ok;
}

bool command_logits(App *a) {
    const Options *o = a->options;
    uint32_t n = 0;
    if (!o->tokens || !o->out) return error_usage("logits needs --tokens FILE and --out FILE");
    bool single = o->path && strcmp(o->path, "decode") == 0;
    if (o->path && !single && strcmp(o->path, "prefill") != 0)
        return error_usage("--path takes prefill or decode, found '%s'", o->path);
    uint32_t *ids = input_ids(a, o->tokens, &n);
    bool ok = ids && input_fits(a, n) && command_session(a) && logits_write(a, ids, n, single);
    free(ids);
    return ok;
}
