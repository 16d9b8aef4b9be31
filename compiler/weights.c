/* weights.c - see weights.h. */
#include "weights.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Format *file_format(const GgufTensor *t) { return format_by_gguf_type(t->type); }

const Format *weights_format(const GgufTensor *t) { return t->store ? t->store : file_format(t); }

uint64_t weights_row_bytes(const GgufTensor *t) {
    return format_row_bytes(weights_format(t), (uint32_t)t->ne[0]);
}

size_t weights_scratch_bytes(const GgufTensor *t) {
    return t->store ? t->ne[0] * sizeof(float) + weights_row_bytes(t) : 0;
}

const uint8_t *weights_row(const GgufTensor *t, uint64_t row, void *scratch) {
    uint32_t k = (uint32_t)t->ne[0];
    const uint8_t *file = t->data + row * format_row_bytes(file_format(t), k);
    if (!t->store) return file;
    float *x = scratch;
    uint8_t *blocks = (uint8_t *)(x + k);
    format_decode_row(file_format(t), file, k, x);
    for (uint32_t i = 0; t->store->columns && i < k; i++) x[i] /= t->columns[i];
    format_quantize_row(t->store, x, k, blocks);
    return blocks;
}

void weights_values(const GgufTensor *t, uint64_t row, void *scratch, float *out) {
    uint32_t k = (uint32_t)t->ne[0];
    const Format *f = weights_format(t);
    format_decode_row(f, weights_row(t, row, scratch), k, out);
    for (uint32_t i = 0; f->columns && i < k; i++) out[i] *= t->columns[i];
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct {
    const char *pattern;  /* NULL: every matrix */
    const Format *format; /* NULL: as in the file */
    uint32_t n_fit;
} Rule;

static const char *own_formats(Arena *a) {
    Text t = {.arena = a};
    for (const Format *const *f = formats; *f; f++)
        if ((*f)->quantize) text_printf(&t, "%s%s", t.n ? ", " : "", (*f)->name);
    return t.s;
}

/* "2.5%" as millionths. */
static uint32_t share_read(const char *format, const char *text) {
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 50))
        fail(FAIL_USAGE, "--weights: the share of outliers of %s is '%s'; it must be 0%% to 50%%",
             format, text);
    return (uint32_t)lround(percent * 1e4);
}

/* NAME or NAME:SHARE% */
static const Format *format_read(Arena *a, char *name) {
    char *share = strchr(name, ':');
    if (share) *share++ = 0;
    const Format *f = format_by_name(name);
    if (!f || !f->quantize)
        fail(FAIL_USAGE, "--weights: cannot make the format '%s'; there are %s, and keep", name,
             own_formats(a));
    if (share && !f->outliers)
        fail(FAIL_USAGE, "--weights: %s has no outliers: '%s' does not apply", name, share);
    return share ? format_with_outliers(a, f, share_read(name, share)) : f;
}

/* Matrices stand in one part only if their formats are one object: rules share it. */
static Rule rule_read(Arena *a, char *word, const Rule *before, size_t n) {
    Rule r = {0};
    char *equals = strchr(word, '='), *name = equals ? equals + 1 : word;
    if (equals) *equals = 0, r.pattern = word;
    if (strcmp(name, "keep") == 0) return r;
    r.format = format_read(a, name);
    const Format *same = format_by_name(r.format->name);
    if (same->outliers == r.format->outliers) r.format = same;
    for (size_t i = 0; i < n; i++) {
        const Format *f = before[i].format;
        if (f && f->name == same->name && f->outliers == r.format->outliers) r.format = f;
    }
    return r;
}

static Rule *rules_read(Arena *a, const char *rules, size_t *n) {
    Rule *rule = NULL;
    size_t cap = 0;
    char *save, *copy = arena_strdup(a, rules);
    *n = 0;
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        rule = arena_grow(a, rule, *n, &cap, sizeof *rule);
        rule[*n] = rule_read(a, w, rule, *n);
        (*n)++;
    }
    if (*n == 0)
        fail(FAIL_USAGE,
             "--weights takes FORMAT or PATTERN=FORMAT, separated by commas; formats are %s",
             own_formats(a));
    return rule;
}

static bool is_matrix(const GgufTensor *t) {
    size_t n = strlen(t->name);
    return t->n_dims >= 2 && t->ne[1] > 1 && n > 7 && strcmp(t->name + n - 7, ".weight") == 0;
}

static bool is_router(const GgufTensor *t) { return strstr(t->name, "ffn_gate_inp") != NULL; }

static bool is_plain(const GgufTensor *t) { /* F32, F16, BF16 */
    const Format *f = file_format(t);
    return f && !f->codes && f->block_n == 1;
}

/* The last rule that fits; all that fit are counted. */
static const Rule *rule_find(Rule *rule, size_t n, const GgufTensor *t) {
    const Rule *found = NULL;
    for (size_t i = 0; i < n; i++) {
        bool fits = rule[i].pattern ? fnmatch(rule[i].pattern, t->name, 0) == 0 : !is_router(t);
        if (fits) rule[i].n_fit++, found = &rule[i];
    }
    return found;
}

static void store_as(Arena *a, GgufTensor *t, const Format *f) {
    t->store = f;
    if (!f->columns) return;
    t->columns = ARENA_ARRAY(a, float, t->ne[0]);
    for (uint64_t i = 0; i < t->ne[0]; i++) t->columns[i] = 1;
}

void weights_choose(Arena *a, Gguf *g, const char *rules) {
    size_t n, n_quantized = 0, n_ragged = 0, n_long = 0;
    Rule *rule = rules_read(a, rules, &n);
    GgufTensor *tensors = arena_copy(a, g->tensors, g->n_tensors * sizeof *tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        GgufTensor *t = &tensors[i];
        if (!is_matrix(t)) continue;
        const Rule *r = rule_find(rule, n, t);
        if (!r || !r->format) continue;
        if (!is_plain(t)) n_quantized++;
        else if (t->ne[0] % r->format->block_n != 0) n_ragged++;
        else if (r->format->outliers && t->ne[0] > FORMAT_OUTLIER_COLUMNS) n_long++;
        else store_as(a, t, r->format);
    }
    for (size_t i = 0; i < n; i++)
        if (rule[i].n_fit == 0)
            fail(FAIL_USAGE, "--weights: '%s' fits no matrix of %s; qcc inspect lists them",
                 rule[i].pattern ? rule[i].pattern : "*", g->path);
    if (n_quantized)
        note(1, "--weights: %zu matrices are quantized in the file already and stay as they are",
             n_quantized);
    if (n_ragged)
        note(1,
             "--weights: %zu matrices stay as they are: their rows are no multiple of the format's "
             "block",
             n_ragged);
    if (n_long)
        note(
            1,
            "--weights: %zu matrices stay as they are: outliers are for rows of at most %d weights",
            n_long, FORMAT_OUTLIER_COLUMNS);
    g->tensors = tensors;
}
