/* generate.c - a prompt in, text or token ids out as they are sampled. */
#include "command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    App *app;
    bool any;       /* an id was printed */
    bool ended;     /* by an end-of-generation token */
    char text[256]; /* bytes that wait for the rest of a character */
    size_t n_text;
} Output;

static bool text_write(Output *o, size_t n) {
    bool ok = fwrite(o->text, 1, n, stdout) == n && fflush(stdout) == 0;
    memmove(o->text, o->text + n, o->n_text - n);
    o->n_text -= n;
    return ok;
}

/* Longer pieces than the buffer (a vocabulary may hold long runs of spaces) are allocated. */
static bool text_piece(Output *o, uint32_t id) {
    size_t room = sizeof o->text - o->n_text;
    int32_t n = token_piece(o->app->tokenizer, id, o->app->options->special, o->text + o->n_text,
                            room);
    if (n < 0) return error_user("token %u cannot be printed: %s", id, token_error(n));
    if ((size_t)n <= room) {
        o->n_text += (size_t)n;
        return text_write(o, o->n_text - token_utf8_hold(o->text, o->n_text));
    }
    char *piece = error_alloc((uint64_t)n, 1, "text");
    bool ok = piece && text_write(o, o->n_text) &&
              token_piece(o->app->tokenizer, id, o->app->options->special, piece, (size_t)n) == n &&
              fwrite(piece, 1, (size_t)n, stdout) == (size_t)n;
    free(piece);
    return ok;
}

static bool on_token(void *ctx, uint32_t id) {
    Output *o = ctx;
    const Options *options = o->app->options;
    if (id >= o->app->plan->n_vocab)
        return error_environment("the device sampled token %u of %u: run `verify`", id,
                                 o->app->plan->n_vocab);
    bool end = !options->ignore_eos && o->app->tokenizer && token_is_eog(o->app->tokenizer, id);
    if (options->ids) {
        if (printf("%s%u", o->any ? " " : "", id) < 0 || fflush(stdout) != 0) return false;
    } else if (!end && !text_piece(o, id)) {
        return false;
    }
    o->any = true;
    o->ended = end;
    return !end;
}

/* The prompt's ids from whatever option gave it. */
static uint32_t *prompt_ids(App *a, uint32_t *n) {
    const Options *o = a->options;
    if (o->tokens) return input_ids(a, o->tokens, n);
    uint64_t bytes = o->text ? strlen(o->text) : 0;
    char *file = o->text ? NULL : input_read(o->from_stdin ? "-" : o->file, &bytes);
    if (!o->text && !file) return NULL;
    unsigned flags = (o->no_bos ? 0u : TOKEN_ADD_SPECIAL) | TOKEN_PARSE_SPECIAL;
    uint32_t *ids = input_encode(a, file ? file : o->text, bytes, flags, n);
    /* what encoding put behind the text would end the generation before it starts */
    const VocabHeader *h = a->tokenizer ? a->tokenizer->header : NULL;
    if (ids && h && !o->no_bos && (h->flags & VOCAB_ADD_EOS) && *n > 1 && ids[*n - 1] == h->eos)
        --*n;
    free(file);
    return ids;
}

static void echo_prompt(App *a, const uint32_t *ids, uint32_t n) {
    if (a->options->ids) {
        for (uint32_t i = 0; i < n; i++) (void)printf("%u ", ids[i]);
        return;
    }
    int32_t bytes = token_detokenize(a->tokenizer, ids, n,
                                     TOKEN_REMOVE_SPECIAL | TOKEN_UNPARSE_SPECIAL, NULL, 0);
    char *text = bytes > 0 ? error_alloc((uint64_t)bytes, 1, "text") : NULL;
    if (text && token_detokenize(a->tokenizer, ids, n, TOKEN_REMOVE_SPECIAL | TOKEN_UNPARSE_SPECIAL,
                                 text, (size_t)bytes) == bytes)
        (void)fwrite(text, 1, (size_t)bytes, stdout);
    free(text);
}

static bool generate(App *a, const uint32_t *ids, uint32_t n) {
    const Options *options = a->options;
    if (!options->ids && !command_tokenizer(a)) return false;
    if (options->ids && load_find(&a->payload, FRAME_VOCAB, 0) && !command_tokenizer(a))
        return false; /* for the end of text */
    if (!input_fits(a, n) || !command_session(a)) return false;
    uint64_t room = (uint64_t)a->plan->n_ctx - n + 1,
             most = options->n && options->n < room ? options->n : room;
    Output o = {.app = a};
    if (options->echo) echo_prompt(a, ids, n);
    bool ok = session_start(&a->session, ids, n, 0, &options->sampling) &&
              session_generate(&a->session, (uint32_t)most, on_token, &o);
    (void)fwrite(o.text, 1, o.n_text, stdout);
    if (o.any || options->ids) (void)putchar('\n');
    if (!output_finish() || !ok || error_status()) return false;
    if (!o.ended && most == room && options->n != most)
        error_note("stopped: the context of %u tokens is full", a->plan->n_ctx);
    return true;
}

bool command_generate(App *a) {
    uint32_t n = 0;
    uint32_t *ids = prompt_ids(a, &n);
    bool ok = ids && generate(a, ids, n);
    free(ids);
    return ok;
}
