/* error.c - messages, exit status, checked allocation. */
#include "error.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *program = "program";
static atomic_int status;

void error_name(const char *argv0) {
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL;
    if (argv0 && *argv0) program = slash ? slash + 1 : argv0;
}

int error_status(void) { return atomic_load(&status); }

/* One write per line, so that lines of threads and validation layers do not mix. */
static void error_print(const char *fmt, va_list args, const char *tail) {
    char text[1200];
    (void)vsnprintf(text, sizeof text, fmt, args);
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s: %s%s\n", program, text, tail);
}

static bool error_first(int code) {
    int none = 0;
    return atomic_compare_exchange_strong(&status, &none, code);
}

#define ERROR_BODY(code, tail)                                                                     \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        if (error_first(code)) error_print(fmt, args, tail);                                       \
        va_end(args);                                                                              \
        return false;                                                                              \
    } while (0)

bool error_user(const char *fmt, ...) { ERROR_BODY(1, ""); }
bool error_usage(const char *fmt, ...) { ERROR_BODY(2, " (see --help)"); }
bool error_environment(const char *fmt, ...) { ERROR_BODY(3, ""); }

void error_note(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    error_print(fmt, args, "");
    va_end(args);
}

char *error_bytes(uint64_t bytes, char buf[32]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    unsigned u = 0;
    for (; x >= 1024 && u < 4; u++) x /= 1024;
    (void)snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", x, unit[u]);
    return buf;
}

void *error_alloc(uint64_t n, uint64_t size, const char *what) {
    if (n == 0) n = 1;
    void *p = n <= SIZE_MAX / size ? calloc((size_t)n, (size_t)size) : NULL;
    char text[32];
    if (!p) (void)error_environment("out of memory: %s for %s", error_bytes(n * size, text), what);
    return p;
}
