/* cache.h - the key/value cache in C, for tests of the kernels that touch it: layouts of
 * kernels/kv/NAME.glsl written a second time, and the table of rotations. */
#ifndef QCC_TESTS_CACHE_H
#define QCC_TESTS_CACHE_H
#include "../../compiler/select.h"

typedef struct {
    KvType type;
    uint32_t nkv, ctx, hd;
} Cache;

uint16_t cache_half(float x); /* nearest, ties to even */
float cache_half_value(uint16_t h);
size_t cache_bytes(const Cache *c);
/* One row (hd elements) at [head][position]. put rounds as the type does. */
void cache_put(const Cache *c, void *memory, uint32_t head, uint32_t position, const float *x);
void cache_get(const Cache *c, const void *memory, uint32_t head, uint32_t position, float *x);
/* Do the row's bytes (padding and scales too) equal? */
bool cache_same(const Cache *c, const void *a, const void *b, uint32_t head, uint32_t position);
/* Is `got` a nearest rounding of x? Allows for x being off by a few f32 roundings of the row's
 * largest element. */
bool cache_rounded(const Cache *c, const float *x, const float *got);

/* The buffer of role rope, and the true rotation in double: pairs as HALVES says, n_rot elements of
 * the row. */
float *cache_rope_table(Arena *a, uint32_t n_ctx, uint32_t n_rot, size_t *bytes);
void cache_rotate(const float *x, double *y, uint32_t position, uint32_t hd, uint32_t n_rot,
                  bool halves);
#endif
