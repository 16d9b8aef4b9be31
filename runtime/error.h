/* error.h - one line per failure, and the exit status of the program.
 *
 * The functions print `PROGRAM: message`, remember the status and return false, so that a caller
 * writes `return error_user(...)`. When several threads fail, the first one is printed and the
 * others are silent. */
#ifndef QCC_ERROR_H
#define QCC_ERROR_H
#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ERROR_PRINTF __attribute__((format(printf, 1, 2)))
#else
#define ERROR_PRINTF
#endif

void error_name(const char *argv0);
bool error_user(const char *fmt, ...) ERROR_PRINTF;  /* exit 1: input, or a damaged executable */
bool error_usage(const char *fmt, ...) ERROR_PRINTF; /* exit 2; adds where help is */
bool error_environment(const char *fmt,
                       ...) ERROR_PRINTF;           /* exit 3: driver, device, memory, system */
void error_note(const char *fmt, ...) ERROR_PRINTF; /* prints a line, changes no status */
int error_status(void);                             /* 0 while nothing failed */

/* "1.5 GiB" into buf, which is returned. */
char *error_bytes(uint64_t bytes, char buf[32]);
/* malloc and calloc that report what the memory was for. */
void *error_alloc(uint64_t n, uint64_t size, const char *what);
#endif
