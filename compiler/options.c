/* options.c - options of a compilation, by name: the command line and build scripts use the same
 * table. */
#include "compile.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    bool has_value;
    void (*set)(Arena *a, CompileOptions *o, const char *name, const char *value);
} Option;

static uint32_t number(const char *name, const char *value, unsigned long least,
                       unsigned long most) {
    char *end;
    unsigned long v = value && *value >= '0' && *value <= '9' ? strtoul(value, &end, 10)
                                                              : (end = NULL, 0UL);
    if (!end || *end || v < least || v > most)
        fail(FAIL_USAGE, "--%s takes a number from %lu to %lu, not '%s'", name, least, most, value);
    return (uint32_t)v;
}

static size_t one_of(const char *name, const char *value, const char *const *words,
                     const char *list) {
    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], value) == 0) return i;
    fail(FAIL_USAGE, "--%s takes one of %s, not '%s'", name, list, value);
}

#define SETTER(f) static void f(Arena *a, CompileOptions *o, const char *name, const char *value)
#define UNUSED (void)a, (void)name
SETTER(set_output) {
    UNUSED;
    o->output = value;
}
SETTER(set_target) {
    UNUSED;
    o->target = value;
}
SETTER(set_device) {
    (void)a;
    o->device = number(name, value, 0, 255);
}
SETTER(set_ctx) {
    (void)a;
    o->plan.n_ctx = number(name, value, 1, 1 << 24);
}
SETTER(set_batch) {
    (void)a;
    o->plan.batch = number(name, value, 1, 4096);
}
SETTER(set_cc) {
    UNUSED;
    o->cc = value;
}
SETTER(set_emit) {
    UNUSED;
    o->emit_dir = value;
}
SETTER(set_lua_path) {
    UNUSED;
    o->plan.lua_path = value;
}
SETTER(set_check) {
    (void)a;
    o->n_check = (int)number(name, value, 0, 1024);
}
SETTER(set_threads) {
    (void)a;
    o->n_threads = number(name, value, 1, 64);
}
SETTER(set_symbols) {
    UNUSED;
    (void)value;
    o->keep_symbols = true;
}
SETTER(set_no_cache) {
    UNUSED;
    (void)value;
    o->no_cache = true;
}
SETTER(set_quiet) {
    UNUSED;
    (void)value;
    (void)o;
    verbosity = 0;
}
SETTER(set_verbose) {
    UNUSED;
    (void)value;
    (void)o;
    verbosity = 2;
}
SETTER(set_kv) {
    (void)a;
    static const char *const words[] = {"f16", "f32", "q8_0", NULL};
    static const KvType types[] = {KV_F16, KV_F32, KV_Q8_0};
    o->plan.kv = types[one_of(name, value, words, "f16, f32, q8_0")];
}
SETTER(set_accuracy) {
    (void)a;
    static const char *const words[] = {"exact", "fast", NULL};
    o->plan.accuracy = one_of(name, value, words, "exact, fast") ? ACCURACY_FAST : ACCURACY_EXACT;
}
SETTER(set_budget) {
    (void)a;
    if (!parse_bytes(value, &o->plan.vram_budget) || o->plan.vram_budget == 0)
        fail(FAIL_USAGE, "--%s takes a size such as 6G or 512M, not '%s'", name, value);
}
SETTER(set_weights) { /* given again: further rules */
    (void)name;
    o->weights = o->weights ? arena_printf(a, "%s,%s", o->weights, value) : value;
}
SETTER(set_dump) {
    static const char *const words[] = {"model", "graph", "steps", "plan", "kernels", NULL};
    char *save, *copy = arena_strdup(a, value);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
        o->dump |= 1u << one_of(name, w, words, "model, graph, steps, plan, kernels");
}

static const Option table[] = {
    {"o", true, set_output},
    {"output", true, set_output},
    {"target", true, set_target},
    {"device", true, set_device},
    {"ctx", true, set_ctx},
    {"batch", true, set_batch},
    {"kv", true, set_kv},
    {"accuracy", true, set_accuracy},
    {"vram-budget", true, set_budget},
    {"cc", true, set_cc},
    {"emit", true, set_emit},
    {"dump", true, set_dump},
    {"lua-path", true, set_lua_path},
    {"check", true, set_check},
    {"j", true, set_threads},
    {"weights", true, set_weights},
    {"symbols", false, set_symbols},
    {"no-cache", false, set_no_cache},
    {"q", false, set_quiet},
    {"v", false, set_verbose},
};

static const Option *option_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

bool compile_option_has_value(const char *name) {
    const Option *p = option_find(name);
    return p && p->has_value;
}

bool compile_option(Arena *a, CompileOptions *o, const char *name, const char *value) {
    const Option *p = option_find(name);
    if (!p) return false;
    if (p->has_value && !value)
        fail(FAIL_USAGE, "option %s%s needs a value", strlen(name) == 1 ? "-" : "--", name);
    p->set(a, o, name, value);
    return true;
}
