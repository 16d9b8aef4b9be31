/* util.c - see util.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* madvise */
#endif
#include "util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int verbosity = 1;

/* ---- arena ----------------------------------------------------------------------------------- */

/* Under the address sanitizer every allocation is a chunk of its own, so that overruns are seen. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_SEPARATE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_SEPARATE 1
#endif
#endif
#ifndef ARENA_SEPARATE
#define ARENA_SEPARATE 0
#endif

enum { ARENA_ALIGN = 16, CHUNK_FIRST = 16 << 10, CHUNK_LARGEST = 1 << 20 };

typedef struct Chunk {
    _Alignas(ARENA_ALIGN) struct Chunk *next;
} Chunk;

typedef struct Defer {
    struct Defer *next;
    void (*release)(void *);
    void *arg;
} Defer;

struct Arena {
    Chunk *chunks;
    Defer *defers;
    uint8_t *free; /* in the newest shared chunk */
    size_t n_free;
    size_t next_chunk;
};

/* Allocations until the injected failure: 0 = never, -1 = the environment has not been read yet. */
static _Atomic long long fault_left = -1;

void arena_fail_after(unsigned n) { atomic_store(&fault_left, (long long)n); }

static bool fault_due(void) {
    long long left = atomic_load(&fault_left);
    if (left < 0) {
        const char *s = getenv("QCC_FAIL_ALLOC");
        long long n = s ? strtoll(s, NULL, 10) : 0;
        if (atomic_compare_exchange_strong(&fault_left, &left, n > 0 ? n : 0)) left = n > 0 ? n : 0;
    }
    while (left > 0)
        if (atomic_compare_exchange_weak(&fault_left, &left, left - 1)) return left == 1;
    return false;
}

static _Noreturn void out_of_memory(size_t bytes) {
    fail(FAIL_ENVIRONMENT, "out of memory: %zu bytes could not be allocated", bytes);
}

Arena *arena_create(void) {
    Arena *a = fault_due() ? NULL : calloc(1, sizeof *a);
    if (!a) out_of_memory(sizeof *a);
    a->next_chunk = CHUNK_FIRST;
    return a;
}

void arena_destroy(Arena *a) {
    if (!a) return;
    while (a->defers) { /* a release may still use arena memory, so chunks go last */
        Defer *d = a->defers;
        a->defers = d->next;
        d->release(d->arg);
    }
    for (Chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

static uint8_t *chunk_create(Arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
    Chunk *c = calloc(1, sizeof *c + bytes);
    if (!c) out_of_memory(bytes);
    c->next = a->chunks;
    a->chunks = c;
    return (uint8_t *)(c + 1);
}

void *arena_alloc(Arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2 || fault_due()) out_of_memory(bytes);
    if (ARENA_SEPARATE) return chunk_create(a, bytes);
    bytes = (bytes + (bytes == 0) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (bytes > a->n_free) {
        if (bytes > a->next_chunk / 4) return chunk_create(a, bytes);
        a->free = chunk_create(a, a->next_chunk);
        a->n_free = a->next_chunk;
        if (a->next_chunk < CHUNK_LARGEST) a->next_chunk *= 2;
    }
    void *p = a->free;
    a->free += bytes;
    a->n_free -= bytes;
    return p;
}

void *arena_alloc_array(Arena *a, size_t n, size_t size) {
    if (size && n > SIZE_MAX / 2 / size) out_of_memory(SIZE_MAX);
    return arena_alloc(a, n * size);
}

void *arena_copy(Arena *a, const void *p, size_t bytes) {
    void *q = arena_alloc(a, bytes);
    if (bytes) memcpy(q, p, bytes);
    return q;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
    if (n == SIZE_MAX) out_of_memory(n);
    char *q = arena_alloc(a, n + 1);
    if (n) memcpy(q, s, n);
    return q;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

void arena_defer(Arena *a, void (*release)(void *), void *arg) {
    Defer *d = ARENA_NEW(a, Defer);
    d->next = a->defers;
    d->release = release;
    d->arg = arg;
    a->defers = d;
}

void *arena_grow(Arena *a, void *items, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return items;
    size_t grown = *cap < 8 ? 16 : *cap * 2;
    if (grown <= n) grown = n + 1;
    void *p = arena_alloc_array(a, grown, size);
    if (n) memcpy(p, items, n * size);
    *cap = grown;
    return p;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static _Thread_local FailTrap *trap;

void fail_push(FailTrap *t) {
    t->outer = trap;
    t->message[0] = 0;
    trap = t;
}

void fail_pop(FailTrap *t) {
    ASSERT(trap == t);
    trap = t->outer;
}

_Noreturn void fail(FailKind kind, const char *fmt, ...) {
    char message[sizeof trap->message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    FailTrap *t = trap;
    if (!t) {
        fflush(stdout);
        fprintf(stderr, "qcc: %s\n", message);
        exit((int)kind);
    }
    trap = t->outer;
    t->kind = kind;
    memcpy(t->message, message, sizeof message);
    longjmp(t->env, 1);
}

_Noreturn void fail_bug(const char *file, int line, const char *what) {
    fflush(stdout);
    fprintf(stderr,
            "qcc: internal error at %s:%d: %s\n"
            "This is a bug in qcc. Please report it with the command line, the output of\n"
            "`qcc --version` and of `qcc inspect MODEL`, and the target file.\n",
            file, line, what);
    abort();
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_reserve(Text *t, size_t more) {
    if (more < t->cap - t->n) return; /* one byte stays for the NUL */
    if (more > SIZE_MAX / 4 || t->cap > SIZE_MAX / 4) out_of_memory(more);
    size_t cap = t->cap ? t->cap * 2 : 256;
    if (cap <= t->n + more) cap = t->n + more + 1;
    char *s = arena_alloc(t->arena, cap);
    if (t->n) memcpy(s, t->s, t->n);
    t->s = s;
    t->cap = cap;
}

void text_append(Text *t, const char *s, size_t n) {
    text_reserve(t, n);
    if (n) memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void text_printf(Text *t, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    text_reserve(t, (size_t)n);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
    va_end(again);
    t->n += (size_t)n;
}

/* Length of the valid and harmless UTF-8 character at s, 0 if there is none. Control characters and
 * those that reorder or hide text are not harmless in a terminal. */
static size_t utf8_harmless(const unsigned char *s, size_t n) {
    uint32_t c = s[0];
    if (c < 0x80) return c >= 0x20 && c != 0x7f;
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || len > n) return 0;
    c &= 0x7fu >> len;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < 0xa0 || (len == 3 && c < 0x800) || (len == 4 && c < 0x10000) || c > 0x10ffff) return 0;
    if ((c >= 0xd800 && c < 0xe000) || c == 0xad || c == 0x61c || c == 0xfeff || c >= 0xe0000)
        return 0;
    if ((c >= 0x200b && c < 0x2010) || (c >= 0x2028 && c < 0x202f) || (c >= 0x2060 && c < 0x2070))
        return 0;
    return len;
}

const char *printable(Arena *a, const char *s, size_t n, size_t max) {
    size_t shown = n < max ? n : max; /* bytes at most: every character is at least one */
    char *out = arena_alloc_array(a, shown + 2, 4), *o = out;
    size_t i = 0;
    for (size_t chars = 0; i < n && chars < max; chars++) {
        const unsigned char *u = (const unsigned char *)s + i;
        size_t len = utf8_harmless(u, n - i);
        if (!len) {
            o += sprintf(o, "\\x%02X", *u);
            len = 1;
        } else {
            memcpy(o, u, len);
            o += len;
        }
        i += len;
    }
    memcpy(o, i < n ? "..." : "", i < n ? 4 : 1);
    return out;
}

const char *human_bytes(Arena *a, uint64_t n) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n < 1024) return arena_printf(a, "%u B", (unsigned)n);
    double x = (double)n / 1024;
    int u = 0;
    for (; x >= 1023.95 && u < 5; u++) x /= 1024;
    return arena_printf(a, x < 9.995 ? "%.2f %s" : "%.1f %s", x, units[u]);
}

/* As in GNU tools: K, M, G, T and KiB, ... are powers of 1024; KB, MB, ... are powers of 1000. */
static bool parse_unit(const char *s, double *unit) {
    static const char letters[] = "KMGT";
    *unit = 1;
    if (!*s || !strcmp(s, "B")) return true;
    const char *l = strchr(letters, *s >= 'a' ? *s - 'a' + 'A' : *s);
    if (!l) return false;
    double base = 1024;
    if (!strcmp(s + 1, "B")) base = 1000;
    else if (s[1] && strcmp(s + 1, "iB")) return false;
    for (int i = 0; i <= l - letters; i++) *unit *= base;
    return true;
}

bool parse_bytes(const char *s, uint64_t *out) {
    double whole = 0, fraction = 0, step = 0.1, unit;
    uint64_t exact = 0;
    if (*s < '0' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        whole = whole * 10 + (*s - '0');
        if (whole >= 9e18) return false;
        exact = exact * 10 + (uint64_t)(*s - '0');
    }
    if (*s == '.' && s[1] >= '0' && s[1] <= '9')
        for (s++; *s >= '0' && *s <= '9'; s++, step /= 10) fraction += (*s - '0') * step;
    if (!parse_unit(s, &unit) || whole * unit >= 9e18 || (unit == 1 && fraction > 0)) return false;
    *out = exact * (uint64_t)unit + (uint64_t)(fraction * unit + 0.5);
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct {
    void *p;
    size_t n;
    bool mapped;
} Mapping;

static void mapping_release(void *arg) {
    Mapping *m = arg;
    if (m->mapped) munmap(m->p, m->n);
    else free(m->p);
}

/* Reads to the end; what has been read stays in *m also on failure. Returns errno, or 0. */
static int read_all(int fd, Mapping *m) {
    for (size_t cap = 0;;) {
        if (m->n == cap) {
            cap = cap ? cap * 2 : 64 << 10;
            void *p = realloc(m->p, cap);
            if (!p) return ENOMEM;
            m->p = p;
        }
        ssize_t got = read(fd, (char *)m->p + m->n, cap - m->n);
        if (got == 0) return 0;
        if (got > 0) m->n += (size_t)got;
        else if (errno != EINTR) return errno;
    }
}

Bytes file_map(Arena *a, const char *path) {
    Mapping *m = ARENA_NEW(a, Mapping);
    arena_defer(a, mapping_release, m);
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
    struct stat st;
    if (fd < 0) fail(FAIL_USER, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &st)) error = errno;
    else if (S_ISDIR(st.st_mode)) error = EISDIR;
    else if (S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size <= SIZE_MAX / 2) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) *m = (Mapping){p, (size_t)st.st_size, true};
    }
    if (!error && !m->mapped) error = read_all(fd, m);
    close(fd);
    if (error)
        fail(error == ENOMEM ? FAIL_ENVIRONMENT : FAIL_USER, "%s: cannot read: %s", path,
             strerror(error));
    return (Bytes){m->p, m->n};
}

static int write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t put = write(fd, p, n < 1u << 30 ? n : 1u << 30);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

/* Opens, writes and closes. Returns errno, or 0. */
static int write_file(const char *path, int flags, const void *p, size_t n, unsigned mode) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, (mode_t)mode);
    if (fd < 0) return errno;
    int error = write_all(fd, p, n);
    /* a full disk may show only here; pipes and devices cannot be synchronized */
    if (!error && fsync(fd) && errno != EINVAL && errno != EROFS && errno != ENOTSUP) error = errno;
    if (close(fd) && !error && errno != EINTR) error = errno;
    return error;
}

void file_write(const char *path, const void *p, size_t n, unsigned mode) {
    static atomic_uint serial;
    struct stat st;
    int error = 0;
    /* a device or pipe must not be renamed over */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        error = S_ISDIR(st.st_mode) ? EISDIR : write_file(path, 0, p, n, mode);
    } else {
        size_t cap = strlen(path) + 48;
        char *temp = malloc(cap);
        if (!temp) out_of_memory(cap);
        /* a killed process may have left a file of that name */
        for (int tries = 0; tries == 0 || (error == EEXIST && tries < 100); tries++) {
            snprintf(temp, cap, "%s.%ld-%u.tmp", path, (long)getpid(),
                     atomic_fetch_add(&serial, 1u));
            error = write_file(temp, O_CREAT | O_EXCL, p, n, mode);
        }
        if (!error && rename(temp, path)) error = errno;
        if (error && error != EEXIST) unlink(temp);
        free(temp);
    }
    if (error) fail(FAIL_ENVIRONMENT, "%s: cannot write: %s", path, strerror(error));
}

void file_mkdirs(const char *path) {
    size_t n = strlen(path);
    char *s = malloc(n + 1);
    if (!s) out_of_memory(n + 1);
    memcpy(s, path, n + 1);
    int error = 0;
    for (size_t i = 1; i <= n && !error; i++) {
        if (s[i] != '/' && s[i]) continue;
        char c = s[i];
        struct stat st;
        s[i] = 0;
        if (mkdir(s, 0777)) {
            error = errno; /* may be EEXIST, EROFS, EACCES for a directory that is there */
            if (stat(s, &st) == 0) error = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
        }
        s[i] = c;
    }
    free(s);
    if (error) fail(FAIL_ENVIRONMENT, "%s: cannot create the directory: %s", path, strerror(error));
}

const char *cache_dir(Arena *a) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/') return arena_printf(a, "%s/qcc", xdg);
    if (home && home[0] == '/') return arena_printf(a, "%s/.cache/qcc", home);
    return NULL;
}

/* ---- clock and notes ------------------------------------------------------------------------- */

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void note(int level, const char *fmt, ...) {
    if (verbosity < level) return;
    va_list ap;
    va_start(ap, fmt);
    flockfile(stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(ap);
}

void pages_release(const void *p, uint64_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              from = ((uintptr_t)p + page - 1) / page * page, to = ((uintptr_t)p + n) / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}
