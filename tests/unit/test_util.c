/* Memory, errors, text and files of the compiler. */
#define _POSIX_C_SOURCE 200809L
#include "../../compiler/util.h"
#include "check.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int released[4], n_released;
static void release(void *arg) { released[n_released++] = *(int *)arg; }

static void test_arena(void) {
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 5000, 70000, 3 << 20, 8};
    Arena *a = arena_create();
    int one = 1, two = 2;
    arena_defer(a, release, &one);
    for (size_t i = 0; i < 40 * sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i % (sizeof sizes / sizeof *sizes)];
        uint8_t *p = arena_alloc(a, n);
        size_t dirty = 0;
        for (size_t k = 0; k < n; k++) dirty += p[k];
        CHECK(p && (uintptr_t)p % 16 == 0 && dirty == 0, "%zu bytes", n);
        memset(p, 0xff, n);
    }
    arena_defer(a, release, &two);
    int *x = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < 1000; i++) {
        x = arena_grow(a, x, i, &cap, sizeof *x);
        x[i] = (int)i;
    }
    CHECK(x[0] == 0 && x[999] == 999 && cap >= 1000 && cap < 4000, "grow %zu", cap);
    CHECK(!strcmp(arena_printf(a, "%s-%d", "x", 5), "x-5") &&
              !strcmp(arena_strndup(a, "abc", 2), "ab"),
          "strings");
    arena_destroy(a);
    CHECK(n_released == 2 && released[0] == 2 && released[1] == 1,
          "deferred releases run last first");
    arena_destroy(NULL);
}

static void raise_inner(void) { fail(FAIL_USAGE, "inner %d", 1); }

static void test_fail(void) {
    FailTrap outer, inner;
    if (fail_catch(&outer)) {
        CHECK(outer.kind == FAIL_USER && !strcmp(outer.message, "outer after inner 1"), "%s",
              outer.message);
    } else {
        if (fail_catch(&inner)) {
            CHECK(inner.kind == FAIL_USAGE, "%d", (int)inner.kind);
            fail(FAIL_USER, "outer after %s", inner.message);
        }
        raise_inner();
    }
    char large[3000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    if (fail_catch(&outer)) CHECK(strlen(outer.message) == sizeof outer.message - 1, "cut");
    else fail(FAIL_USER, "%s", large);
}

static void try_alloc(size_t n, size_t size) {
    FailTrap t;
    Arena *a = arena_create();
    if (fail_catch(&t)) {
        CHECK(t.kind == FAIL_ENVIRONMENT && strstr(t.message, "out of memory"), "%s", t.message);
    } else {
        arena_alloc_array(a, n, size);
        fail_pop(&t);
        CHECK(false, "%zu x %zu allocated", n, size);
    }
    arena_destroy(a);
}

static void test_text(void) {
    Arena *a = arena_create();
    Text t = {.arena = a};
    for (int i = 0; i < 1000; i++) text_printf(&t, "%d,", i % 10);
    text_append(&t, "end", 3);
    CHECK(t.n == 2003 && strlen(t.s) == t.n && !strcmp(t.s + 1998, "9,end"), "%zu", t.n);
    static const struct {
        const char *in;
        size_t max;
        const char *out;
    } shown[] = {
        {"plain", 10, "plain"},
        {"plain", 5, "plain"},
        {"plain", 4, "plai..."},
        {"", 3, ""},
        {"a\nb\x1b[0m", 20, "a\\x0Ab\\x1B[0m"},
        {"\xc3\xa9\xe2\x96\x81\xf0\x9f\x98\x80", 20, "\xc3\xa9\xe2\x96\x81\xf0\x9f\x98\x80"},
        {"\xc3\xa9\xe2\x96\x81", 1, "\xc3\xa9..."},
        {"\xff\xc3", 20, "\\xFF\\xC3"},                            /* not UTF-8 */
        {"\xc0\x80\xe0\x80\x80", 20, "\\xC0\\x80\\xE0\\x80\\x80"}, /* overlong */
        {"\xed\xa0\x80", 20, "\\xED\\xA0\\x80"},                   /* surrogate */
        {"\xe2\x80\xae", 20, "\\xE2\\x80\\xAE"},                   /* right-to-left override */
        {"\xc2\x9b", 20, "\\xC2\\x9B"},                            /* control sequence introducer */
        {"\xf4\x90\x80\x80", 20, "\\xF4\\x90\\x80\\x80"},          /* above U+10FFFF */
    };
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *out = printable(a, shown[i].in, strlen(shown[i].in), shown[i].max);
        CHECK(!strcmp(out, shown[i].out), "%s: %s", shown[i].out, out);
    }
    static const struct {
        uint64_t n;
        const char *s;
    } sizes[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1536, "1.50 KiB"},
        {1048575, "1.00 MiB"},
        {10 << 20, "10.0 MiB"},
        {(uint64_t)3 << 40, "3.00 TiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK(!strcmp(human_bytes(a, sizes[i].n), sizes[i].s), "%s: %s", sizes[i].s,
              human_bytes(a, sizes[i].n));
    arena_destroy(a);
}

static void test_parse_bytes(void) {
    static const struct {
        const char *s;
        uint64_t n;
    } good[] = {
        {"0", 0},
        {"123", 123},
        {"5B", 5},
        {"512M", 512 << 20},
        {"4GiB", (uint64_t)4 << 30},
        {"4g", (uint64_t)4 << 30},
        {"1.5K", 1536},
        {"2KB", 2000},
        {"1T", (uint64_t)1 << 40},
        {"9007199254740993", 9007199254740993},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t n = 0;
        CHECK(parse_bytes(good[i].s, &n) && n == good[i].n, "%s: %llu", good[i].s,
              (unsigned long long)n);
    }
    static const char *const bad[] = {"",
                                      "-1",
                                      " 1",
                                      "1 ",
                                      "x",
                                      "1X",
                                      "1Ki",
                                      "1KiBs",
                                      "1.",
                                      "1.5",
                                      "99999999999999999999",
                                      "9999999999G",
                                      "G",
                                      "1P"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t n;
        CHECK(!parse_bytes(bad[i], &n), "'%s' accepted", bad[i]);
    }
}

/* Catches what file_write or file_mkdirs reports; NULL if it succeeds. */
static const char *write_message(const char *path, const void *p, size_t n, bool make_directory) {
    static FailTrap t;
    if (fail_catch(&t)) return t.kind == FAIL_ENVIRONMENT ? t.message : "wrong kind";
    if (make_directory) file_mkdirs(path);
    else file_write(path, p, n, 0644);
    fail_pop(&t);
    return NULL;
}

static void test_files(void) {
    char dir[] = "/tmp/qcc-test-util.XXXXXX", path[300], deep[300];
    if (!mkdtemp(dir)) {
        CHECK(false, "%s", dir);
        return;
    }
    snprintf(deep, sizeof deep, "%s/a//b/c/", dir);
    snprintf(path, sizeof path, "%s/a/b/c/file", dir);
    CHECK(!write_message(deep, NULL, 0, true) && !write_message(deep, NULL, 0, true), "mkdirs");
    Arena *a = arena_create();
    CHECK(!write_message(path, "hello", 5, false), "write");
    Bytes b = file_map(a, path);
    CHECK(b.n == 5 && !memcmp(b.p, "hello", 5), "read back");
    CHECK(!write_message(path, "", 0, false) && file_map(a, path).n == 0,
          "replace by an empty file");
    CHECK(b.n == 5 && !memcmp(b.p, "hello", 5), "an old mapping is untouched");
    struct stat st;
    CHECK(!write_message(path, "x", 1, false) && !stat(path, &st) &&
              (st.st_mode & 0777 & ~0644u) == 0,
          "mode");
    CHECK(!write_message("/dev/null", "x", 1, false) && !stat("/dev/null", &st) &&
              S_ISCHR(st.st_mode),
          "device");
    const char *full = write_message("/dev/full", "x", 1, false);
    CHECK(full && !strcmp(full, "/dev/full: cannot write: No space left on device"), "%s",
          full ? full : "written");
    const char *folder = write_message(deep, "x", 1, false);
    CHECK(folder && strstr(folder, "Is a directory"), "%s", folder ? folder : "written");
    strcat(path, "/x");
    CHECK(write_message(path, "x", 1, false) && write_message(path, NULL, 0, true), "below a file");
    Bytes proc = file_map(a, "/proc/self/stat"); /* a file that cannot be mapped */
    CHECK(proc.n > 10, "%zu", proc.n);
    arena_destroy(a);
    char command[340];
    snprintf(command, sizeof command, "test $(find %s -type f | wc -l) = 1 && rm -r %s", dir, dir);
    CHECK(!system(command), "temporary files are left");
}

static void test_cache_dir(void) {
    Arena *a = arena_create();
    setenv("HOME", "/home/x", 1);
    setenv("XDG_CACHE_HOME", "/c", 1);
    CHECK(!strcmp(cache_dir(a), "/c/qcc"), "XDG_CACHE_HOME");
    setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK(!strcmp(cache_dir(a), "/home/x/.cache/qcc"), "HOME");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    CHECK(!cache_dir(a), "neither");
    arena_destroy(a);
}

int main(void) {
    test_arena();
    test_fail();
    try_alloc(SIZE_MAX, 1);
    try_alloc(SIZE_MAX / 2, 4);
    try_alloc(1, SIZE_MAX / 2 + 1);
    test_text();
    test_parse_bytes();
    test_files();
    test_cache_dir();
    CHECK(now_s() > 0, "clock");
    return check_done();
}
