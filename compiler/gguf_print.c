/* gguf_print.c - what `qcc inspect` shows of a file: metadata, tensors, totals by type. */
#include "gguf_private.h"
#include "gguf_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_WIDTH = 72, NAME_WIDTH_MOST = 63, N_TYPES = 64 };

static void print_string(Text *out, GgufString s, size_t width) {
    const char *p = printable(out->arena, s.s, s.n, width);
    text_append(out, p, strlen(p));
}

/* The shortest decimal that reads back as the same number. */
static void print_float(Text *out, double x, bool single) {
    char s[40];
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        double back = strtod(s, NULL);
        if (single ? (float)back == (float)x : back == x) break;
    }
    text_append(out, s, strlen(s));
}

static void print_int64(Text *out, const uint8_t *p, bool is_signed) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << 8 * i;
    if (is_signed) text_printf(out, "%lld", (long long)x);
    else text_printf(out, "%llu", (unsigned long long)x);
}

static void print_element(Text *out, const GgufKv *kv, GgufType type, uint64_t i) {
    switch (type) {
    case GGUF_BOOL: text_printf(out, "%s", gguf_number(kv, i) != 0 ? "true" : "false"); break;
    case GGUF_F32: print_float(out, gguf_number(kv, i), true); break;
    case GGUF_F64: print_float(out, gguf_number(kv, i), false); break;
    case GGUF_U64:
    case GGUF_I64: print_int64(out, kv->data + i * 8, type == GGUF_I64); break;
    case GGUF_STRING:
        text_append(out, "\"", 1);
        print_string(out, kv->strings[i], 24);
        text_append(out, "\"", 1);
        break;
    default: text_printf(out, "%.0f", gguf_number(kv, i));
    }
}

/* As many elements as fit in the width. */
static void print_array(Text *out, const GgufKv *kv) {
    size_t start = out->n;
    text_append(out, "[", 1);
    for (uint64_t i = 0; i < kv->n; i++) {
        if (i) text_append(out, ", ", 2);
        if (out->n - start > VALUE_WIDTH && i + 1 < kv->n) {
            text_append(out, "...", 3);
            break;
        }
        print_element(out, kv, kv->elem, i);
    }
    text_append(out, "]", 1);
}

static void print_kv(Text *out, const GgufKv *kv, int width) {
    const char *key = printable(out->arena, kv->key.s, kv->key.n, NAME_WIDTH_MOST);
    const char *type = gguf_type_name(kv->type);
    if (kv->type == GGUF_ARRAY)
        type = arena_printf(out->arena, "%s[%llu]", gguf_type_name(kv->elem),
                            (unsigned long long)kv->n);
    text_printf(out, "  %-*s  %-14s ", width, key, type);
    if (kv->type == GGUF_ARRAY) print_array(out, kv);
    else if (kv->type != GGUF_STRING) print_element(out, kv, kv->type, 0);
    else {
        print_string(out, kv->strings[0], VALUE_WIDTH);
        if (kv->strings[0].n > VALUE_WIDTH) text_printf(out, " (%zu bytes)", kv->strings[0].n);
    }
    text_append(out, "\n", 1);
}

static void print_metadata(const Gguf *g, Text *out) {
    int width = 0;
    for (size_t i = 0; i < g->n_kv; i++) {
        size_t n = g->kv[i].key.n < NAME_WIDTH_MOST ? g->kv[i].key.n : NAME_WIDTH_MOST;
        if ((int)n > width) width = (int)n;
    }
    text_printf(out, "\nmetadata (%zu)\n", g->n_kv);
    for (size_t i = 0; i < g->n_kv; i++) print_kv(out, &g->kv[i], width);
}

static uint64_t n_elements(const GgufTensor *t) {
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

static const char *shape_text(Arena *a, const GgufTensor *t) {
    Text s = {.arena = a};
    for (uint32_t d = 0; d < t->n_dims; d++)
        text_printf(&s, d ? " x %llu" : "%llu", (unsigned long long)t->ne[d]);
    return s.s;
}

static void print_tensors(const Gguf *g, Text *out) {
    Arena *a = out->arena;
    size_t name_width = 4, shape_width = 5;
    for (size_t i = 0; i < g->n_tensors; i++) {
        size_t name = strlen(gguf_shown_name(g, g->tensors[i].name)),
               shape = strlen(shape_text(a, &g->tensors[i]));
        if (name > name_width) name_width = name;
        if (shape > shape_width) shape_width = shape;
    }
    text_printf(out, "\ntensors (%zu)\n", g->n_tensors);
    if (g->n_tensors)
        text_printf(out, "  %-*s  %-7s  %-*s  %10s\n", (int)name_width, "name", "type",
                    (int)shape_width, "shape", "size");
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        text_printf(out, "  %-*s  %-7s  %-*s  %10s\n", (int)name_width, gguf_shown_name(g, t->name),
                    gguf_type_label(a, t->type), (int)shape_width, shape_text(a, t),
                    human_bytes(a, t->bytes));
    }
}

typedef struct {
    uint64_t n_tensors, n_weights, bytes;
} Total;

static void print_total(Text *out, const char *name, const Total *t) {
    text_printf(out, "  %-7s  %7llu  %14llu  %15llu  %10s  %7.4g\n", name,
                (unsigned long long)t->n_tensors, (unsigned long long)t->n_weights,
                (unsigned long long)t->bytes, human_bytes(out->arena, t->bytes),
                t->n_weights ? 8 * (double)t->bytes / (double)t->n_weights : 0);
}

static void print_totals(const Gguf *g, Text *out) {
    Total by_type[N_TYPES] = {0}, all = {0};
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        ASSERT(t->type < N_TYPES);
        Total *into[] = {&by_type[t->type], &all};
        for (int k = 0; k < 2; k++) {
            into[k]->n_tensors++;
            into[k]->n_weights += n_elements(t);
            into[k]->bytes += t->bytes;
        }
    }
    if (!g->n_tensors) return;
    text_printf(out, "\ntotals\n  %-7s  %7s  %14s  %15s  %10s  %7s\n", "type", "tensors", "weights",
                "bytes", "size", "bits/w");
    for (;;) { /* the largest first */
        uint32_t most = 0;
        for (uint32_t i = 1; i < N_TYPES; i++)
            if (by_type[i].bytes > by_type[most].bytes) most = i;
        if (!by_type[most].bytes) break;
        print_total(out, gguf_type_label(out->arena, most), &by_type[most]);
        by_type[most].bytes = 0;
    }
    print_total(out, "all", &all);
}

void gguf_print(const Gguf *g, Text *out) {
    text_printf(out, "%s\n  GGUF version %u, %s", g->path, g->version,
                human_bytes(out->arena, g->file_bytes));
    if (g->n_parts > 1) text_printf(out, " in %u parts", g->n_parts);
    text_printf(out, ", data aligned to %u bytes\n", g->alignment);
    print_metadata(g, out);
    print_tensors(g, out);
    print_totals(g, out);
}
