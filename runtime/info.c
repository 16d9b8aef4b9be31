/* info.c - the manifest: as it is (--json), or as an indented list. */
#include "command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INFO_DEPTH = 32 };

static const char *skip_space(const char *s) { return s + strspn(s, " \t\r\n"); }

/* Behind the string that starts at s (a quote). */
static const char *skip_string(const char *s) {
    for (s++; *s && *s != '"'; s++)
        if (*s == '\\' && s[1]) s++;
    return *s ? s + 1 : s;
}

static const char *print_string(const char *s) {
    const char *end = skip_string(s);
    for (s++; s < end - 1; s++) {
        if (*s == '\\' && s + 1 < end - 1) s++;
        (void)putchar(*s);
    }
    return end;
}

static const char *print_scalar(const char *s) {
    if (*s == '"') return print_string(s);
    size_t n = strcspn(s, ",]} \t\r\n");
    (void)fwrite(s, 1, n, stdout);
    return s + n;
}

/* A container that holds no other one goes on one line. */
static bool is_flat(const char *s) {
    for (s++; *s && *s != ']' && *s != '}'; s = *s == '"' ? skip_string(s) : s + 1)
        if (*s == '[' || *s == '{') return false;
    return true;
}

/* Prints the members of the container at s; returns behind it. */
static const char *print_members(const char *s, int depth) {
    bool object = *s == '{', flat = depth > 0 && is_flat(s), first = true;
    for (s = skip_space(s + 1); *s && *s != ']' && *s != '}'; first = false) {
        if (flat && !first) (void)fputs(", ", stdout);
        if (!flat) (void)printf("%*s", 2 * depth, "");
        if (object) {
            s = skip_space(print_scalar(s));
            if (*s == ':') s = skip_space(s + 1);
            (void)fputs(flat ? " " : ": ", stdout);
        }
        bool nested = (*s == '{' || *s == '[') && depth < INFO_DEPTH;
        if (nested && !is_flat(s)) (void)putchar('\n');
        const char *next = nested ? print_members(s, depth + 1) : print_scalar(s);
        if (next == s) break; /* not JSON */
        if (!flat && !(nested && !is_flat(s))) (void)putchar('\n');
        s = skip_space(next);
        if (*s == ',') s = skip_space(s + 1);
    }
    return *s ? s + 1 : s;
}

bool info_string(const char *manifest, const char *key, char *out, uint32_t size) {
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *s = strstr(manifest, quoted);
    if (!s) return false;
    s = skip_space(s + strlen(quoted));
    if (*s != ':') return false;
    s = skip_space(s + 1);
    if (*s != '"') return false;
    size_t n = (size_t)(skip_string(s) - s) - 2;
    if (n >= size) return false;
    memcpy(out, s + 1, n);
    out[n] = 0;
    return true;
}

bool command_info(App *a) {
    const PayloadFrame *f = load_find(&a->payload, FRAME_MANIFEST, 0);
    if (!f) return error_user("this executable is damaged (it has no manifest); compile it again");
    char *text = (char *)load_read(&a->payload, f);
    if (!text) return false;
    const char *s = skip_space(text);
    if (a->options->json || (*s != '{' && *s != '[')) {
        (void)fputs(text, stdout);
        if (f->raw_bytes && text[f->raw_bytes - 1] != '\n') (void)putchar('\n');
    } else {
        (void)print_members(s, 0);
    }
    free(text);
    return output_finish();
}
