/* check.h - the smallest test harness: CHECK counts and names failures; every test main ends with
 * `return check_done();` */
#ifndef QCC_CHECK_H
#define QCC_CHECK_H
#include <stdio.h>
#include <stdlib.h>

static int check_passed, check_failed, check_skipped;
#define CHECK(cond, ...)                                                                           \
    ((cond) ? (void)check_passed++                                                                 \
            : (check_failed++, printf("FAIL %s:%d %s: ", __FILE__, __LINE__, #cond),               \
               printf(__VA_ARGS__), (void)putchar('\n')))
#define SKIP(...) (check_skipped++, printf("skip: "), printf(__VA_ARGS__), (void)putchar('\n'))
static inline const char *check_shared(void) {
    return getenv("QCC_SHARED");
} /* NULL: no fixtures here */
static inline int check_done(void) {
    printf("%d passed, %d failed, %d skipped\n", check_passed, check_failed, check_skipped);
    return check_failed ? 1 : 0;
}
#endif
