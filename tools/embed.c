/* embed.c - writes files as a C table that compiler/embed.h declares.
 *
 *     embed OUT.c FILE...
 *
 * Paths are kept as given, so run it from the project's root. The table is sorted by path: the order of the
 * arguments does not change the output. The output is complete or absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One string literal per line of text; every byte that C could read otherwise as an octal escape. */
static void write_byte(FILE *out, int c) {
    if (c == '\n') fputs("\\n\"\n\"", out);
    else if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
    else if (c == '?' || c < ' ' || c > '~') fprintf(out, "\\%03o", (unsigned)c);
    else fputc(c, out);
}

static int write_file(FILE *out, size_t i, const char *path, size_t *n) {
    FILE *in = fopen(path, "rb");
    if (!in) return perror(path), 1;
    fprintf(out, "static const char file_%zu[] =\n\"", i);
    int c;
    for (*n = 0; (c = getc(in)) != EOF; (*n)++) write_byte(out, c);
    fputs("\";\n\n", out);
    int failed = ferror(in);
    if (failed) perror(path);
    fclose(in);
    return failed;
}

static int write_table(FILE *out, char **path, size_t n) {
    fputs("/* Written by tools/embed.c; do not edit. */\n#include \"compiler/embed.h\"\n\n", out);
    size_t *bytes = calloc(n + 1, sizeof *bytes);
    if (!bytes) return perror("embed"), 1;
    int failed = 0;
    for (size_t i = 0; i < n && !failed; i++) failed = write_file(out, i, path[i], &bytes[i]);
    fputs("const EmbeddedFile embedded_files[] = {\n", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "    {\"%s\", file_%zu, %zu},\n", path[i], i, bytes[i]);
    fputs("    {NULL, NULL, 0},\n};\n", out);
    free(bytes);
    return failed;
}

int main(int argc, char **argv) {
    if (argc < 2) return fputs("usage: embed OUT.c FILE...\n", stderr), 2;
    size_t n = (size_t)argc - 2;
    qsort(argv + 2, n, sizeof *argv, compare);
    FILE *out = fopen(argv[1], "wb");
    if (!out) return perror(argv[1]), 1;
    int failed = write_table(out, argv + 2, n);
    if (fclose(out) != 0 && !failed) perror(argv[1]), failed = 1;
    if (failed) remove(argv[1]);
    return failed;
}
