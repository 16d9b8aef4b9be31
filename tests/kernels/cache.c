/* cache.c - see cache.h. */
#include "cache.h"
#include <math.h>
#include <string.h>

static const double ROPE_BASE = 10000;

uint16_t cache_half(float x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs((double)x);
    if (isnan(a)) return 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e;
    frexp(a, &e);
    if (e < -13) e = -13; /* subnormals share the exponent of the smallest normal numbers */
    double unit = ldexp(1, e - 11), r = nearbyint(a / unit);
    if (r == 2048) r = 1024, e++;
    return (uint16_t)(sign |
                      (r < 1024 ? (uint16_t)r : (uint16_t)((e + 14) << 10 | ((int)r - 1024))));
}

float cache_half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(h & 0x8000 ? -v : v);
}

static uint32_t padded(const Cache *c) {
    uint32_t to = c->type == KV_F32 ? 4 : c->type == KV_F16 ? 8 : 32;
    return (c->hd + to - 1) / to * to;
}
static size_t row_bytes(const Cache *c) {
    return padded(c) * (c->type == KV_F32 ? 4u : c->type == KV_F16 ? 2u : 1u);
}
static size_t scale_bytes(const Cache *c) {
    return c->type == KV_Q8_0 ? (padded(c) / 32 + 1) / 2 * 4 : 0;
}

size_t cache_bytes(const Cache *c) {
    return ((size_t)c->nkv * c->ctx * (row_bytes(c) + scale_bytes(c)) + 15) / 16 * 16;
}

static size_t row_at(const Cache *c, uint32_t head, uint32_t position) {
    return ((size_t)head * c->ctx + position) * row_bytes(c);
}
static size_t scale_at(const Cache *c, uint32_t head, uint32_t position) {
    return (size_t)c->nkv * c->ctx * row_bytes(c) +
           ((size_t)head * c->ctx + position) * scale_bytes(c);
}

static void put_q8(const Cache *c, uint8_t *row, uint8_t *scale, const float *x) {
    memset(scale, 0, scale_bytes(c));
    for (uint32_t b = 0; b < padded(c) / 32; b++) {
        float peak = 0;
        for (uint32_t i = 32 * b; i < 32 * b + 32 && i < c->hd; i++)
            peak = fmaxf(peak, fabsf(x[i]));
        float inverse = peak > 0 ? 127 / peak : 0;
        uint16_t h = cache_half(peak / 127);
        memcpy(scale + 2 * b, &h, 2);
        for (uint32_t i = 32 * b; i < 32 * b + 32; i++)
            row[i] = (uint8_t)(int8_t)(i < c->hd ? roundf(x[i] * inverse) : 0);
    }
}

void cache_put(const Cache *c, void *memory, uint32_t head, uint32_t position, const float *x) {
    uint8_t *row = (uint8_t *)memory + row_at(c, head, position);
    if (c->type == KV_Q8_0) {
        put_q8(c, row, (uint8_t *)memory + scale_at(c, head, position), x);
        return;
    }
    memset(row, 0, row_bytes(c));
    for (uint32_t i = 0; i < c->hd; i++) {
        uint16_t h = cache_half(x[i]);
        if (c->type == KV_F32) memcpy(row + 4 * i, &x[i], 4);
        else memcpy(row + 2 * i, &h, 2);
    }
}

void cache_get(const Cache *c, const void *memory, uint32_t head, uint32_t position, float *x) {
    const uint8_t *row = (const uint8_t *)memory + row_at(c, head, position);
    const uint8_t *scale = (const uint8_t *)memory + scale_at(c, head, position);
    for (uint32_t i = 0; i < c->hd; i++) {
        uint16_t h;
        if (c->type == KV_F32) memcpy(&x[i], row + 4 * i, 4);
        else if (c->type == KV_F16) memcpy(&h, row + 2 * i, 2), x[i] = cache_half_value(h);
        else
            memcpy(&h, scale + 2 * (i / 32), 2), x[i] = (float)(int8_t)row[i] * cache_half_value(h);
    }
}

bool cache_same(const Cache *c, const void *a, const void *b, uint32_t head, uint32_t position) {
    size_t at = row_at(c, head, position), scale = scale_at(c, head, position);
    return memcmp((const char *)a + at, (const char *)b + at, row_bytes(c)) == 0 &&
           memcmp((const char *)a + scale, (const char *)b + scale, scale_bytes(c)) == 0;
}

bool cache_rounded(const Cache *c, const float *x, const float *got) {
    for (uint32_t i = 0; i < c->hd; i++) {
        double peak = 0, step = 0, size = fabs((double)x[i]);
        for (uint32_t k = i / 32 * 32; k < i / 32 * 32 + 32 && k < c->hd; k++)
            peak = fmax(peak, fabs((double)x[k]));
        int e;
        frexp(size, &e);
        if (c->type == KV_F16) step = ldexp(1, (e < -13 ? -13 : e) - 11) / 2;
        if (c->type == KV_Q8_0) step = peak / 254 + size / 2048;
        if (!(fabs((double)got[i] - x[i]) <= step + 1e-6 * peak)) return false;
    }
    return true;
}

static double frequency(uint32_t pair, uint32_t n_rot) {
    return pow(ROPE_BASE, -2.0 * pair / n_rot);
}

float *cache_rope_table(Arena *a, uint32_t n_ctx, uint32_t n_rot, size_t *bytes) {
    uint32_t rows = 256 + (n_ctx + 255) / 256;
    *bytes = (size_t)rows * n_rot * sizeof(float);
    float *table = ARENA_ARRAY(a, float, (size_t)rows *n_rot);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < n_rot / 2; i++) {
            double angle = (r < 256 ? r : (r - 256) * 256.0) * frequency(i, n_rot);
            table[r * n_rot + 2 * i] = (float)cos(angle);
            table[r * n_rot + 2 * i + 1] = (float)sin(angle);
        }
    return table;
}

void cache_rotate(const float *x, double *y, uint32_t position, uint32_t hd, uint32_t n_rot,
                  bool halves) {
    for (uint32_t i = 0; i < hd; i++) y[i] = x[i];
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        uint32_t p = halves ? i : 2 * i, q = halves ? i + n_rot / 2 : 2 * i + 1;
        double angle = position * frequency(i, n_rot), cosine = cos(angle), sine = sin(angle);
        y[p] = x[p] * cosine - x[q] * sine;
        y[q] = x[p] * sine + x[q] * cosine;
    }
}
