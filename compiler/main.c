/* main.c - the command line. */
#include "compile.h"
#include "emit.h"
#include "script.h"
#include <stdio.h>
#include <string.h>

#ifndef QCC_VERSION
#define QCC_VERSION "0.1.0"
#endif
const char qcc_version[] = QCC_VERSION;

static const char help[] =
    "qcc compiles a GGUF language model into one executable for one GPU.\n"
    "\n"
    "  qcc MODEL.gguf -o OUT [options]    compile; run it with ./OUT -p \"Once upon a time\"\n"
    "  qcc inspect MODEL.gguf             metadata and tensors of a model file\n"
    "  qcc explain MODEL.gguf [options]   what would run on the target: kernels, tiles, bytes, "
    "predicted time, memory\n"
    "  qcc probe [-o FILE] [--measure] [--device N]   describe the local GPU as a profile "
    "(--measure: bandwidth and costs too)\n"
    "  qcc targets                        profiles that are built in\n"
    "  qcc script FILE.lua [ARG...]       build many models for many targets\n"
    "  qcc --version                      version, and what this build's shader compiler can do\n"
    "\n"
    "options\n"
    "  --target T         auto (the local driver, default), a built-in name, or a profile JSON "
    "(vulkaninfo --json writes one)\n"
    "  --device N         with --target auto: which local device\n"
    "  --ctx N            context in tokens (default: the model's, at most 4096)\n"
    "  --batch N          largest prefill chunk in tokens (default by target)\n"
    "  --kv TYPE          cache elements: f16 (default), f32, q8_0\n"
    "  --accuracy MODE    exact (default) or fast: int8 activations\n"
    "  --vram-budget SIZE device memory to use, such as 6G; weights beyond it stay in host memory\n"
    "  --weights RULES    store F32, F16, BF16 matrices as q8_row, q8_2f, q4_block, q1\n"
    "                     or q1t (q1t:5% with 5 % of outliers): FORMAT or\n"
    "                     PATTERN=FORMAT,... (blk.*.ffn_*=q4_block,output.weight=keep); the last\n"
    "                     that fits counts\n"
    "  --check N          check tokens for `OUT verify` (default: as many as take a second; 0: "
    "none)\n"
    "  --cc CMD           C compiler, for instance a cross compiler\n"
    "  --emit DIR         keep the emitted C, kernels and manifest\n"
    "  --dump LIST        print stages: model,graph,steps,plan,kernels\n"
    "  --lua-path DIR     files there replace built-in Lua, kernels and templates\n"
    "  --symbols          keep symbols in the executable\n"
    "  --no-cache         compile every kernel anew\n"
    "  -j N               threads        -q  quiet        -v  say how long each stage takes\n"
    "\n"
    "Exit status: 0 done, 1 something is wrong with the input, 2 with the command line, 3 with the "
    "environment.\n";

typedef struct {
    int n;
    char **v;
    const char *word[4];
    int n_word;
    CompileOptions o;
    bool measure;
} Args;

/* Splits --name=value, and -j4 into letter and value; value is NULL where the argument holds
 * none. */
static const char *argument_name(Arena *a, const char *s, const char **value) {
    const char *name = s + (s[1] == '-' ? 2 : 1), *letter = arena_strndup(a, name, 1);
    *value = NULL;
    if (s[1] == '-') {
        const char *equals = strchr(name, '=');
        if (!equals) return name;
        *value = equals + 1;
        return arena_strndup(a, name, (size_t)(equals - name));
    }
    if (!name[1] || compile_option_has_value(name) || !compile_option_has_value(letter))
        return name;
    *value = name + 1;
    return letter;
}

/* Fills options; other words are collected. Stops at the script's name, whose arguments are its
 * own. */
static int args_read(Arena *a, Args *g, int first) {
    for (int i = first; i < g->n; i++) {
        const char *s = g->v[i], *value;
        if (s[0] != '-' || !s[1]) {
            if (g->n_word == 4) fail(FAIL_USAGE, "unexpected argument '%s'; see qcc --help", s);
            g->word[g->n_word++] = s;
            if (g->n_word == 2 && strcmp(g->word[0], "script") == 0) return i + 1;
            continue;
        }
        const char *name = argument_name(a, s, &value);
        if (strcmp(name, "measure") == 0) {
            g->measure = true;
            continue;
        }
        if (!value && compile_option_has_value(name)) value = ++i < g->n ? g->v[i] : NULL;
        if (!compile_option(a, &g->o, name, value))
            fail(FAIL_USAGE, "unknown option '%s'; see qcc --help", s);
    }
    return g->n;
}

static void print(Text *t) {
    if (t->n) fwrite(t->s, 1, t->n, stdout);
    if (fflush(stdout) != 0 || ferror(stdout))
        fail(FAIL_ENVIRONMENT, "cannot write to standard output");
}

static void run_version(Text *out) {
    const ShaderAbility *s = shader_ability();
    text_printf(out, "qcc %s\nshader compiler: shaderc %s;", qcc_version, s->version);
    const char *const names[] = {"integer dot product", "cooperative matrix",
                                 "cooperative matrix 2"};
    const Capability caps[] = {CAP_IDOT, CAP_COOPMAT, CAP_COOPMAT2};
    for (int i = 0; i < 3; i++)
        text_printf(out, "%s %s: %s", i ? "," : "", names[i], s->caps[caps[i]] ? "yes" : "no");
    text_printf(out, "\n");
}

static void run_probe(Arena *a, const Args *g) {
    const char *json = target_probe_json(a, g->o.device, g->measure);
    if (g->o.output) file_write(g->o.output, json, strlen(json), 0644);
    else fputs(json, stdout);
}

static const char *model_argument(const Args *g, int at) {
    if (g->n_word <= at)
        fail(FAIL_USAGE, "'qcc %s' needs a model file; see qcc --help", g->word[0]);
    if (g->n_word > at + 1)
        fail(FAIL_USAGE, "unexpected argument '%s'; see qcc --help", g->word[at + 1]);
    return g->word[at];
}

static void run(Arena *a, Args *g) {
    Text out = {.arena = a};
    int rest = args_read(a, g, 1);
    if (g->n_word == 0) fail(FAIL_USAGE, "no model given; see qcc --help");
    const char *word = g->word[0];
    if (strcmp(word, "inspect") == 0) {
        gguf_print(gguf_open(a, model_argument(g, 1)), &out);
    } else if (strcmp(word, "explain") == 0) {
        g->o.model = model_argument(g, 1);
        plan_explain(compile_plan(a, &g->o), &out);
    } else if (strcmp(word, "probe") == 0) {
        run_probe(a, g);
    } else if (strcmp(word, "targets") == 0) {
        target_list(&out);
    } else if (strcmp(word, "script") == 0) {
        script_run(a, model_argument(g, 1), g->n - rest, g->v + rest, &g->o);
    } else {
        g->o.model = word;
        if (g->n_word > 1) fail(FAIL_USAGE, "unexpected argument '%s'; see qcc --help", g->word[1]);
        if (!g->o.output && !g->o.dump && !g->o.emit_dir)
            fail(FAIL_USAGE, "no output: add -o OUT (or --dump, --emit DIR)");
        compile(a, &g->o);
    }
    print(&out);
}

int main(int argc, char **argv) {
    Args g = {.n = argc, .v = argv, .o = {.n_check = -1}};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return fputs(help, stdout) < 0;
    Arena *a = arena_create();
    FailTrap trap;
    if (fail_catch(&trap)) {
        arena_destroy(a);
        fprintf(stderr, "qcc: %s\n", trap.message);
        return (int)trap.kind;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        Text out = {.arena = a};
        run_version(&out);
        print(&out);
    } else {
        run(a, &g);
    }
    fail_pop(&trap);
    arena_destroy(a);
    return 0;
}
