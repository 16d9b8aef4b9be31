/* util.h - memory, errors and text for the compiler.
 *
 * Memory: an Arena owns everything allocated from it and is freed as a whole. A function that
 * allocates takes the arena first. Arena memory is zeroed. Running out of memory is an environment
 * failure, never a null pointer.
 *
 * Errors: `fail` never returns. It unwinds to the innermost `fail_catch`; without one it prints the
 * message and exits. Resources that an unwinding must release (files, mappings, temporary files)
 * are registered on the arena with `arena_defer`, and released, last first, when the arena is
 * freed. */
#ifndef QCC_UTIL_H
#define QCC_UTIL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define QCC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args), nonnull(fmt)))
#else
#define QCC_PRINTF(fmt, args)
#endif

typedef struct Arena Arena;
Arena *arena_create(void);
void arena_destroy(Arena *a); /* runs the deferred releases, then frees; accepts NULL */
void *arena_alloc(Arena *a, size_t bytes); /* zeroed, 16-byte aligned; bytes may be 0 */
void *arena_copy(Arena *a, const void *p, size_t bytes);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) QCC_PRINTF(2, 3);
void arena_defer(Arena *a, void (*release)(void *), void *arg);
/* Fault injection for tests: the n-th allocation from now on fails once (0: none). QCC_FAIL_ALLOC=n
 * does it for a process. */
void arena_fail_after(unsigned n);
#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc_array((a), (n), sizeof(T)))
void *arena_alloc_array(Arena *a, size_t n, size_t size); /* n * size, checked */
/* Grows a dynamic array that lives on the arena: returns items with room for at least n + 1
 * elements. */
void *arena_grow(Arena *a, void *items, size_t n, size_t *cap, size_t size);

/* The exit status of the process that fails this way. */
typedef enum { FAIL_USER = 1, FAIL_USAGE = 2, FAIL_ENVIRONMENT = 3 } FailKind;
/* One line, without a trailing newline: what, where, expected, found, what to do. */
_Noreturn void fail(FailKind kind, const char *fmt, ...) QCC_PRINTF(2, 3);
/* A bug in qcc: prints how to report it and aborts. */
_Noreturn void fail_bug(const char *file, int line, const char *what);
#define ASSERT(x) ((x) ? (void)0 : fail_bug(__FILE__, __LINE__, #x))

typedef struct FailTrap {
    jmp_buf env;
    struct FailTrap *outer;
    FailKind kind;
    char message[1024];
} FailTrap;
void fail_push(FailTrap *t);
void fail_pop(FailTrap *t);
/* if (fail_catch(&t)) { ... t.kind, t.message ... } else { ...; fail_pop(&t); }   Catching pops the
 * trap. */
#define fail_catch(t) (fail_push(t), setjmp((t)->env))

/* Growing text. */
typedef struct {
    Arena *arena;
    char *s;
    size_t n, cap;
} Text;
void text_printf(Text *t, const char *fmt, ...) QCC_PRINTF(2, 3);
void text_append(Text *t, const char *s, size_t n);

typedef struct {
    const uint8_t *p;
    size_t n;
} Bytes;
/* Maps or reads a whole file; released with the arena. Fails (user) naming the path. */
Bytes file_map(Arena *a, const char *path);
/* Writes a whole file beside `path` under a temporary name and renames it: whole or not at all. */
void file_write(const char *path, const void *p, size_t n, unsigned mode);
/* Creates directories as `mkdir -p` does. */
void file_mkdirs(const char *path);
/* $XDG_CACHE_HOME/qcc or ~/.cache/qcc (NULL when neither is known). */
const char *cache_dir(Arena *a);

/* Untrusted bytes made printable (\xHH escapes), at most about `max` characters, for messages. */
const char *printable(Arena *a, const char *s, size_t n, size_t max);
/* "1.5 GiB" */
const char *human_bytes(Arena *a, uint64_t n);
/* "512M", "4GiB", "123" -> bytes; false if malformed. */
bool parse_bytes(const char *s, uint64_t *out);

double now_s(void); /* monotonic clock */

/* 0 quiet, 1 normal, 2 verbose: progress and notes go to stderr. */
extern int verbosity;
void note(int level, const char *fmt, ...) QCC_PRINTF(2, 3);

static inline uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }
static inline uint64_t div_up(uint64_t x, uint64_t by) { return (x + by - 1) / by; }

/* Gives the whole pages of a read-only mapping back to the system: it stays valid. */
void pages_release(const void *p, uint64_t n);
#endif
