/* main.c - arguments of a compiled program; the commands are in files of their names. */
#include "command.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "%s: the language model %s (%s), compiled to this program by qcc %s.\n"
    "It needs nothing but a Vulkan driver.\n"
    "\n"
    "Continue a text:\n"
    "  %s -p \"Once upon a time\" -n 100\n"
    "  -p TEXT | -f FILE | -      the prompt: a text, a file, standard input; byte for byte\n"
    "  --tokens FILE|-            the prompt as token ids, separated by spaces\n"
    "  -n N                       at most N tokens (until the text ends or the context of %u is "
    "full)\n"
    "  --temp T                   0: always the likeliest token; higher: more variety (0.8)\n"
    "  --top-k K                  only the K likeliest tokens, 0: all (40)\n"
    "  --top-p P                  only the likeliest tokens that make up the probability P, 1: all "
    "(0.95)\n"
    "  --min-p P                  only tokens with P times the probability of the best one, 0: all "
    "(0.05)\n"
    "  --repeat-penalty R         makes the latest tokens less likely, 1: off (1)\n"
    "  --repeat-last N            how many of them (64)\n"
    "  --seed S                   equal seeds give equal texts (0)\n"
    "  --ids                      print token ids instead of text\n"
    "  --echo                     print the prompt too\n"
    "  --special                  print control tokens too\n"
    "  --ignore-eos               go on behind the end of the text\n"
    "  --no-bos                   the prompt without the token that begins a text\n"
    "\n"
    "Other commands:\n"
    "  bench [-p 512] [-n 128] [-r 5] [-d DEPTH] [--json | --profile]\n"
    "                             tokens per second: prompt, and single tokens behind DEPTH "
    "others;\n"
    "                             --profile: time of every operation instead\n"
    "  verify                     does this device compute the right thing? (exit status 1 if "
    "not)\n"
    "  info [--json]              what this program is made of; needs no device\n"
    "  perplexity FILE [--json]   how well the model predicts a text\n"
    "  tokenize [--no-bos] [--special]\n"
    "                             text on standard input to ids; --special: control tokens are "
    "recognised; needs no device\n"
    "  detokenize [--no-bos] [--special]\n"
    "                             ids to text; --no-bos drops the first BOS, --special prints "
    "control tokens\n"
    "  logits --tokens FILE|- --out FILE [--path prefill|decode]\n"
    "                             float32 little-endian [tokens][%u] for every position\n"
    "\n"
    "All that use a device take --device N (the best one that can run this program).\n"
    "Environment: QCC_VALIDATE=1 runs under the Vulkan validation layer.\n"
    "Exit status: 0 done, 1 wrong input or damaged program, 2 wrong usage, 3 no device, driver or "
    "memory.\n";

typedef enum { KIND_FLAG, KIND_TEXT, KIND_COUNT, KIND_SIGNED, KIND_U32, KIND_REAL } ValueKind;
typedef struct {
    const char *name;
    ValueKind kind;
    void *to; /* bool, const char *, uint64_t, int64_t, uint32_t, float */
    double least, most;
} Option;

static bool parse_whole(const Option *o, const char *s, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(s, &end, 10);
    if (*s >= '0' && *s <= '9' && !*end && !errno && (double)*out >= o->least &&
        (double)*out <= o->most)
        return true;
    return error_usage("%s takes a whole number from %.0f to %.0f, found '%s'", o->name, o->least,
                       o->most, s);
}

static bool parse_real(const Option *o, const char *s) {
    char *end;
    double x = strtod(s, &end);
    if (end == s || *end || !(x >= o->least && x <= o->most))
        return error_usage("%s takes a number from %g to %g, found '%s'", o->name, o->least,
                           o->most, s);
    *(float *)o->to = (float)x;
    return true;
}

static bool parse_value(const Option *o, const char *s) {
    uint64_t n;
    switch (o->kind) {
    case KIND_FLAG: *(bool *)o->to = true; return true;
    case KIND_TEXT: *(const char **)o->to = s; return true;
    case KIND_REAL: return parse_real(o, s);
    case KIND_COUNT:
        if (!parse_whole(o, s, &n)) return false;
        *(uint64_t *)o->to = n;
        return true;
    case KIND_SIGNED:
        if (!parse_whole(o, s, &n)) return false;
        *(int64_t *)o->to = (int64_t)n;
        return true;
    case KIND_U32: break;
    }
    if (!parse_whole(o, s, &n)) return false;
    *(uint32_t *)o->to = (uint32_t)n;
    return true;
}

/* Options end with a NULL name. A word that is not an option goes to *word, once, if word is not
 * NULL. */
static bool parse(const Option *options, int argc, char **argv, const char *command,
                  const char **word) {
    for (int i = 0; i < argc; i++) {
        const Option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0) o++;
        if (o->name) {
            bool flag = o->kind == KIND_FLAG;
            if (!flag && i + 1 >= argc) return error_usage("%s needs a value", o->name);
            if (!parse_value(o, flag ? NULL : argv[++i])) return false;
        } else if (word && !*word && (argv[i][0] != '-' || !argv[i][1])) {
            *word = argv[i];
        } else {
            return error_usage("%s%sunknown %s '%s'", command, *command ? ": " : "",
                               argv[i][0] == '-' ? "option" : "argument", argv[i]);
        }
    }
    return true;
}

#define DEVICE {"--device", KIND_SIGNED, &o->device, 0, 255}
#define END {NULL, KIND_FLAG, NULL, 0, 0}

static bool parse_generate(Options *o, int argc, char **argv) {
    const char *word = NULL;
    Sampling *s = &o->sampling;
    const Option options[] = {{"-p", KIND_TEXT, &o->text, 0, 0},
                              {"-f", KIND_TEXT, &o->file, 0, 0},
                              {"--tokens", KIND_TEXT, &o->tokens, 0, 0},
                              {"-n", KIND_COUNT, &o->n, 1, 1e9},
                              {"--temp", KIND_REAL, &s->temperature, 0, 100},
                              {"--top-k", KIND_U32, &s->top_k, 0, 1e9},
                              {"--top-p", KIND_REAL, &s->top_p, 0, 1},
                              {"--min-p", KIND_REAL, &s->min_p, 0, 1},
                              {"--repeat-penalty", KIND_REAL, &s->repeat_penalty, 0.01, 100},
                              {"--repeat-last", KIND_U32, &s->repeat_last, 0, 1e9},
                              {"--seed", KIND_COUNT, &s->seed, 0, 1.8446744073709552e19},
                              {"--ids", KIND_FLAG, &o->ids, 0, 0},
                              {"--echo", KIND_FLAG, &o->echo, 0, 0},
                              {"--special", KIND_FLAG, &o->special, 0, 0},
                              {"--ignore-eos", KIND_FLAG, &o->ignore_eos, 0, 0},
                              {"--no-bos", KIND_FLAG, &o->no_bos, 0, 0},
                              DEVICE,
                              END};
    if (!parse(options, argc, argv, "", &word)) return false;
    if (word && strcmp(word, "-") != 0)
        return error_usage("unknown command '%s'; expected bench, verify, info, perplexity, "
                           "tokenize, detokenize, logits, or a prompt with -p",
                           word);
    o->from_stdin = word != NULL;
    int prompts = (o->text != NULL) + (o->file != NULL) + (o->tokens != NULL) +
                  (o->from_stdin ? 1 : 0);
    if (prompts == 0)
        return error_usage("no prompt; give one with -p TEXT, -f FILE, --tokens FILE or -");
    return prompts == 1 || error_usage("more than one prompt; give one of -p, -f, --tokens and -");
}

static bool parse_bench(Options *o, int argc, char **argv) {
    const Option options[] = {{"-p", KIND_SIGNED, &o->bench_prompt, 0, 1e9},
                              {"-n", KIND_SIGNED, &o->bench_steps, 0, 1e9},
                              {"-r", KIND_COUNT, &o->repetitions, 1, 1e6},
                              {"-d", KIND_COUNT, &o->depth, 0, 1e9},
                              {"--json", KIND_FLAG, &o->json, 0, 0},
                              {"--profile", KIND_FLAG, &o->profile, 0, 0},
                              DEVICE,
                              END};
    if (!parse(options, argc, argv, "bench", NULL)) return false;
    return !(o->json && o->profile) || error_usage("bench: give one of --json and --profile");
}

static bool parse_verify(Options *o, int argc, char **argv) {
    const Option options[] = {DEVICE, END};
    return parse(options, argc, argv, "verify", NULL);
}

static bool parse_info(Options *o, int argc, char **argv) {
    const Option options[] = {{"--json", KIND_FLAG, &o->json, 0, 0}, END};
    return parse(options, argc, argv, "info", NULL);
}

static bool parse_perplexity(Options *o, int argc, char **argv) {
    const Option options[] = {{"--json", KIND_FLAG, &o->json, 0, 0}, DEVICE, END};
    if (!parse(options, argc, argv, "perplexity", &o->file)) return false;
    return o->file || error_usage("perplexity needs a FILE");
}

static bool parse_tokenize(Options *o, int argc, char **argv) {
    const Option options[] = {{"--no-bos", KIND_FLAG, &o->no_bos, 0, 0},
                              {"--special", KIND_FLAG, &o->special, 0, 0},
                              END};
    return parse(options, argc, argv, "tokenize", NULL);
}

static bool parse_logits(Options *o, int argc, char **argv) {
    const Option options[] = {{"--tokens", KIND_TEXT, &o->tokens, 0, 0},
                              {"--out", KIND_TEXT, &o->out, 0, 0},
                              {"--path", KIND_TEXT, &o->path, 0, 0},
                              DEVICE,
                              END};
    return parse(options, argc, argv, "logits", NULL);
}

static const struct Command {
    const char *name;
    bool (*parse)(Options *o, int argc, char **argv);
    bool (*run)(App *a);
} commands[] = {
    {"bench", parse_bench, command_bench},
    {"verify", parse_verify, command_verify},
    {"info", parse_info, command_info},
    {"perplexity", parse_perplexity, command_perplexity},
    {"tokenize", parse_tokenize, command_tokenize},
    {"detokenize", parse_tokenize, command_detokenize},
    {"logits", parse_logits, command_logits},
    {NULL, parse_generate, command_generate},
};

static bool wants_help(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
        if (strcmp(argv[i], "-p") == 0) i++; /* its text */
    }
    return false;
}

static bool run(const struct Command *c, const Options *o) {
    App *a = error_alloc(1, sizeof *a, "the program");
    if (!a) return false;
    a->plan = &plan;
    a->options = o;
    bool ok = load_open(&a->payload, &plan) && c->run(a);
    if (a->session.plan) session_finish(&a->session);
    load_close(&a->payload);
    free(a->tokenizer);
    free(a->vocab);
    free(a);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {.device = -1,
                 .bench_prompt = -1,
                 .bench_steps = -1,
                 .repetitions = 5,
                 .sampling = {.temperature = 0.8f,
                              .top_k = 40,
                              .top_p = 0.95f,
                              .min_p = 0.05f,
                              .repeat_penalty = 1,
                              .repeat_last = 64}};
    const struct Command *c = commands;
    error_name(argc > 0 ? argv[0] : NULL);
    if (wants_help(argc, argv)) {
        (void)printf(help_text, argv[0], plan.model_name, plan.arch, plan.qcc_version, argv[0],
                     plan.n_ctx, plan.n_vocab);
        return output_finish() ? 0 : error_status();
    }
    while (c->name && (argc < 2 || strcmp(c->name, argv[1]) != 0)) c++;
    int used = argc < 1 ? argc : c->name ? 2 : 1;
    bool ok = c->parse(&o, argc - used, argv + used);
    ok = ok && run(c, &o);
    return error_status() ? error_status() : ok ? 0 : 3;
}
