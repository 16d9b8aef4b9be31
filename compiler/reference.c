/* reference.c - see reference.h. Products are summed in f64 in an order that does not depend on the
 * number of threads; each weight row is decoded once per matrix and call, so that memory does not
 * grow with the model. */
#include "reference.h"
#include "weights.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 16, N_SUM = 8 };
enum { Q8_BLOCK = 32 };
static const double small_work = 131072; /* multiplications that are not worth a thread */

/* Keys and values of one attention node, f32 [n_ctx][n_head_kv * head_dim], rounded as the cache
 * type says. */
typedef struct {
    float *k, *v;
} Cache;

/* What one thread needs beside its arguments. */
typedef struct {
    float *row;    /* a decoded weight row */
    void *blocks;  /* for weights_values */
    double *score; /* [n_ctx] */
} Scratch;

struct Reference {
    const Graph *graph;
    uint32_t n_ctx, position;
    KvType kv;
    uint32_t n_threads;
    Scratch scratch[MAX_THREADS];
    Cache *cache;   /* [n_node], of attention nodes */
    uint32_t *slot; /* [n_node] the buffer of a node's value; nodes take turns in using one */
    uint32_t n_slot;
    uint32_t *width; /* [n_slot] */
    float **buffer;  /* [n_slot], in `values` */
    uint32_t n_room; /* tokens that buffers have room for */
    Arena *values;
    void (*seen)(void *arg, uint32_t node, const float *value, uint32_t n_token);
    void *seen_arg;
};

static float f32_at(const GgufTensor *t, uint64_t i) {
    float v;
    memcpy(&v, t->data + i * sizeof v, sizeof v);
    return v;
}

/* ---- work in threads ------------------------------------------------------------------------- */

typedef struct {
    void (*part)(const void *arg, const Scratch *s, uint32_t first, uint32_t last);
    const void *arg;
    const Scratch *scratch;
    uint32_t first, last;
} Work;

static void *work_main(void *work) {
    const Work *w = work;
    w->part(w->arg, w->scratch, w->first, w->last);
    return NULL;
}

/* Runs `part` on pieces of 0 .. n-1. What is computed for an item must not depend on the pieces. */
static void work_split(const Reference *r,
                       void (*part)(const void *, const Scratch *, uint32_t, uint32_t),
                       const void *arg, uint32_t n, double cost) {
    uint32_t n_thread = cost < small_work || n < r->n_threads ? 1 : r->n_threads;
    Work work[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    bool started[MAX_THREADS];
    for (uint32_t i = 0; i < n_thread; i++) {
        work[i] = (Work){part, arg, &r->scratch[i], (uint32_t)((uint64_t)n * i / n_thread),
                         (uint32_t)((uint64_t)n * (i + 1) / n_thread)};
        started[i] = i > 0 && pthread_create(&thread[i], NULL, work_main, &work[i]) == 0;
    }
    for (uint32_t i = 0; i < n_thread; i++)
        if (!started[i]) work_main(&work[i]);
    for (uint32_t i = 0; i < n_thread; i++)
        if (started[i]) pthread_join(thread[i], NULL);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Sums of every eighth product, then their sum: as exact as one sum, and the compiler can use
 * vector registers. */
static double dot(const float *a, const float *b, uint32_t n) {
    double sum[N_SUM] = {0}, total = 0;
    uint32_t i = 0;
    for (; i + N_SUM <= n; i += N_SUM)
        for (uint32_t j = 0; j < N_SUM; j++) sum[j] += (double)a[i + j] * (double)b[i + j];
    for (uint32_t j = 0; i < n; i++, j++) sum[j] += (double)a[i] * (double)b[i];
    for (uint32_t j = 0; j < N_SUM; j++) total += sum[j];
    return total;
}

/* y[t][o] = scale * sum_i weight[o][i] x[t][i] + bias[o] */
typedef struct {
    const GgufTensor *weight; /* from row row0 on */
    uint64_t row0;
    uint32_t n_row, k, n_token;
    const GgufTensor *bias; /* or NULL */
    double scale;
    const float *x; /* [n_token][k] */
    float *y;       /* [n_token][n_row] */
} Product;

static void multiply_part(const void *arg, const Scratch *s, uint32_t first, uint32_t last) {
    const Product *p = arg;
    for (uint32_t o = first; o < last; o++) {
        weights_values(p->weight, p->row0 + o, s->blocks, s->row);
        double bias = p->bias ? (double)f32_at(p->bias, o) : 0;
        for (uint32_t t = 0; t < p->n_token; t++) {
            double y = p->scale * dot(s->row, p->x + (size_t)t * p->k, p->k) + bias;
            p->y[(size_t)t * p->n_row + o] = (float)y;
        }
    }
}

static void multiply(const Reference *r, const Product *p) {
    work_split(r, multiply_part, p, p->n_row, (double)p->n_row * p->k * (p->n_token + 1));
}

static void run_linear(const Reference *r, const GraphNode *n, const float *x, uint32_t n_token,
                       float *y) {
    uint32_t k = r->graph->node[n->in[0]].width;
    multiply(r, &(Product){.weight = n->weight,
                           .n_row = n->width,
                           .k = k,
                           .n_token = n_token,
                           .bias = n->bias,
                           .scale = n->scale ? (double)f32_at(n->scale, 0) : 1,
                           .x = x,
                           .y = y});
}

/* ---- values of a token by themselves --------------------------------------------------------- */

static void run_embed(const Reference *r, const GraphNode *n, const uint32_t *token,
                      uint32_t n_token, float *y) {
    for (uint32_t t = 0; t < n_token; t++, y += n->width) {
        weights_values(n->weight, token[t], r->scratch[0].blocks, y);
        for (uint32_t i = 0; i < n->width; i++) y[i] = (float)((double)y[i] * (double)n->factor);
    }
}

static void run_rms_norm(const GraphNode *n, const float *x, uint32_t n_token, float *y) {
    uint32_t group = (uint32_t)n->weight->ne[0];
    size_t end = (size_t)n_token * n->width;
    for (size_t g = 0; g < end; g += group) {
        double inverse = 1 / sqrt(dot(x + g, x + g, group) / group + (double)n->eps);
        for (uint32_t i = 0; i < group; i++)
            y[g + i] = (float)((double)x[g + i] * inverse * (double)f32_at(n->weight, i));
    }
}

static void rotate_head(const Rope *r, uint32_t position, float *head) {
    for (uint32_t i = 0; i < r->n_rot / 2; i++) {
        double c, s;
        rope_angle(r, position, i, &c, &s);
        float *p = r->halves ? &head[i] : &head[2 * i];
        float *q = r->halves ? &head[i + r->n_rot / 2] : &head[2 * i + 1];
        double a = (double)*p, b = (double)*q;
        *p = (float)(a * c - b * s);
        *q = (float)(a * s + b * c);
    }
}

static void run_rope(const Reference *r, const GraphNode *n, const float *x, uint32_t n_token,
                     float *y) {
    memcpy(y, x, sizeof *y * n_token * n->width);
    for (uint32_t t = 0; t < n_token; t++)
        for (uint32_t h = 0; h < n->rope.n_head; h++, y += n->rope.head_dim)
            rotate_head(&n->rope, r->position + t, y);
}

static double silu(double x) { return x / (1 + exp(-x)); }

static void run_elements(const GraphNode *n, const float *a, const float *b, uint32_t n_token,
                         float *y) {
    size_t end = (size_t)n_token * n->width;
    for (size_t i = 0; i < end; i++) {
        if (n->op == OP_ADD) y[i] = a[i] + b[i];
        else if (n->op == OP_MUL) y[i] = a[i] * b[i];
        else y[i] = (float)silu((double)a[i]);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The nearest f16, ties to even. */
static double round_f16(double x) {
    int exponent;
    frexp(x, &exponent);
    double unit = ldexp(1, exponent < -13 ? -24 : exponent - 11);
    double y = nearbyint(x / unit) * unit;
    return fabs(y) >= 65520 ? copysign(INFINITY, x) : y;
}

/* int8 codes times an f16 scale, the largest magnitude / 127; halves are rounded away from zero. */
static void round_q8_block(const float *x, uint32_t n, float *y) {
    float largest = 0;
    for (uint32_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    float inverse = largest > 0 ? 127 / largest : 0;
    double scale = round_f16((double)(largest / 127));
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)roundf(x[i] * inverse) * scale);
}

/* One head's elements; blocks of 32 of them share a scale. */
static void cache_store(KvType kv, const float *x, uint32_t n, float *y) {
    if (kv == KV_F32) memcpy(y, x, sizeof *y * n);
    if (kv == KV_F16)
        for (uint32_t i = 0; i < n; i++) y[i] = (float)round_f16((double)x[i]);
    if (kv == KV_Q8_0)
        for (uint32_t i = 0; i < n; i += Q8_BLOCK)
            round_q8_block(x + i, n - i < Q8_BLOCK ? n - i : Q8_BLOCK, y + i);
}

typedef struct {
    const Attention *shape;
    const Cache *cache;
    uint32_t position;
    const float *q;
    float *y;
} Attend;

/* Softmax of the scores of positions 0 .. n-1, in place. */
static void softmax(double *score, uint32_t n) {
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) largest = fmax(largest, score[i]);
    for (uint32_t i = 0; i < n; i++) sum += score[i] = exp(score[i] - largest);
    for (uint32_t i = 0; i < n; i++) score[i] /= sum;
}

/* Items are heads of tokens. */
static void attend_part(const void *arg, const Scratch *s, uint32_t first, uint32_t last) {
    const Attend *a = arg;
    const Attention *h = a->shape;
    uint32_t stride = h->n_head_kv * h->head_dim;
    for (uint32_t item = first; item < last; item++) {
        uint32_t n_seen = a->position + item / h->n_head + 1;
        uint32_t column = item % h->n_head / (h->n_head / h->n_head_kv) * h->head_dim;
        const float *q = a->q + (size_t)item * h->head_dim;
        const float *k = a->cache->k + column, *v = a->cache->v + column;
        for (uint32_t p = 0; p < n_seen; p++)
            s->score[p] = (double)h->scale * dot(q, k + (size_t)p * stride, h->head_dim);
        softmax(s->score, n_seen);
        for (uint32_t i = 0; i < h->head_dim; i++) {
            double sum = 0;
            for (uint32_t p = 0; p < n_seen; p++)
                sum += s->score[p] * (double)v[(size_t)p * stride + i];
            a->y[(size_t)item * h->head_dim + i] = (float)sum;
        }
    }
}

static void run_attention(const Reference *r, const GraphNode *n, const Cache *cache,
                          const float *const in[], uint32_t n_token, float *y) {
    const Attention *h = &n->attention;
    size_t stride = (size_t)h->n_head_kv * h->head_dim;
    for (uint32_t i = 0; i < n_token * h->n_head_kv; i++) {
        size_t from = (size_t)i * h->head_dim, to = r->position * stride + from;
        cache_store(r->kv, in[1] + from, h->head_dim, cache->k + to);
        cache_store(r->kv, in[2] + from, h->head_dim, cache->v + to);
    }
    Attend a = {h, cache, r->position, in[0], y};
    work_split(r, attend_part, &a, n_token * h->n_head,
               2.0 * n_token * n->width * (r->position + n_token));
}

/* ---- mixture of experts ---------------------------------------------------------------------- */

/* Probabilities of one token's experts: those not among the n_used largest (the first of equals)
 * become 0. */
static void choose_experts(const Moe *m, double *p) {
    softmax(p, m->n_expert);
    double kept = 0;
    for (uint32_t e = 0; e < m->n_expert; e++) {
        uint32_t n_before = 0;
        for (uint32_t o = 0; o < m->n_expert; o++)
            n_before += fabs(p[o]) > fabs(p[e]) || (o < e && fabs(p[o]) == fabs(p[e]));
        if (n_before < m->n_used) kept += p[e];
        else p[e] = -p[e]; /* marked; its size still counts for the others */
    }
    for (uint32_t e = 0; e < m->n_expert; e++) p[e] = p[e] > 0 ? p[e] / kept : 0;
}

static void expert_product(const Reference *r, const GgufTensor *w, const GgufTensor *scale,
                           uint32_t expert, const float *x, uint32_t n_token, float *y) {
    multiply(r, &(Product){.weight = w,
                           .row0 = expert * w->ne[1],
                           .n_row = (uint32_t)w->ne[1],
                           .k = (uint32_t)w->ne[0],
                           .n_token = n_token,
                           .x = x,
                           .y = y,
                           .scale = scale ? (double)f32_at(scale, expert) : 1});
}

typedef struct {
    double *p;                  /* [n_token][n_expert] */
    float *x, *gate, *up, *out; /* rows of the tokens that chose an expert */
    double *sum;                /* [n_token][width] */
} MoeBuffers;

static void run_expert(const Reference *r, const GraphNode *n, const MoeBuffers *b, uint32_t expert,
                       const float *x, uint32_t n_token) {
    const Moe *m = &n->moe;
    uint32_t k = (uint32_t)m->gate->ne[0], n_chosen = 0;
    for (uint32_t t = 0; t < n_token; t++)
        if (b->p[(size_t)t * m->n_expert + expert] > 0)
            memcpy(b->x + (size_t)n_chosen++ * k, x + (size_t)t * k, sizeof *x * k);
    if (!n_chosen) return;
    expert_product(r, m->gate, m->gate_scale, expert, b->x, n_chosen, b->gate);
    expert_product(r, m->up, m->up_scale, expert, b->x, n_chosen, b->up);
    for (size_t i = 0; i < (size_t)n_chosen * m->n_ff; i++)
        b->gate[i] = (float)(silu((double)b->gate[i]) * (double)b->up[i]);
    expert_product(r, m->down, m->down_scale, expert, b->gate, n_chosen, b->out);
    const float *out = b->out;
    for (uint32_t t = 0; t < n_token; t++) {
        double p = b->p[(size_t)t * m->n_expert + expert];
        if (p <= 0) continue;
        for (uint32_t i = 0; i < n->width; i++)
            b->sum[(size_t)t * n->width + i] += p * (double)*out++;
    }
}

static void run_moe(const Reference *r, const GraphNode *n, const float *x, uint32_t n_token,
                    float *y) {
    const Moe *m = &n->moe;
    uint32_t k = (uint32_t)m->gate->ne[0];
    size_t n_p = (size_t)n_token * m->n_expert, n_y = (size_t)n_token * n->width;
    Arena *a = arena_create();
    MoeBuffers b = {.p = ARENA_ARRAY(a, double, n_p),
                    .x = ARENA_ARRAY(a, float, (size_t)n_token *k),
                    .gate = ARENA_ARRAY(a, float, (size_t)n_token * m->n_ff),
                    .up = ARENA_ARRAY(a, float, (size_t)n_token * m->n_ff),
                    .out = ARENA_ARRAY(a, float, n_y),
                    .sum = ARENA_ARRAY(a, double, n_y)};
    float *score = ARENA_ARRAY(a, float, n_p);
    multiply(r, &(Product){.weight = m->router,
                           .n_row = m->n_expert,
                           .k = k,
                           .n_token = n_token,
                           .x = x,
                           .y = score,
                           .scale = 1});
    for (size_t i = 0; i < n_p; i++) b.p[i] = (double)score[i];
    for (uint32_t t = 0; t < n_token; t++) choose_experts(m, b.p + (size_t)t * m->n_expert);
    for (uint32_t e = 0; e < m->n_expert; e++) run_expert(r, n, &b, e, x, n_token);
    for (size_t i = 0; i < n_y; i++) y[i] = (float)b.sum[i];
    arena_destroy(a);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Gives each value a buffer that no value still to be read is in. */
static void assign_slots(Arena *a, Reference *r) {
    const Graph *g = r->graph;
    uint32_t *last_use = ARENA_ARRAY(a, uint32_t, g->n_node);
    uint32_t *busy_until = ARENA_ARRAY(a, uint32_t, g->n_node);
    r->slot = ARENA_ARRAY(a, uint32_t, g->n_node);
    r->width = ARENA_ARRAY(a, uint32_t, g->n_node);
    for (uint32_t i = 0; i < g->n_node; i++) {
        last_use[i] = i;
        for (uint32_t j = 0; j < g->node[i].n_in; j++) last_use[g->node[i].in[j]] = i;
    }
    for (uint32_t i = 0; i < g->n_node; i++) {
        if (i == g->logits) continue; /* goes to the caller */
        uint32_t s = 0;
        while (s < r->n_slot && busy_until[s] >= i) s++;
        if (s == r->n_slot) r->n_slot++;
        r->slot[i] = s;
        busy_until[s] = last_use[i];
        if (r->width[s] < g->node[i].width) r->width[s] = g->node[i].width;
    }
    r->buffer = ARENA_ARRAY(a, float *, r->n_slot);
}

static void make_scratch(Arena *a, Reference *r) {
    uint32_t k = 1;
    for (uint32_t i = 0; i < r->graph->n_node; i++) {
        const GraphNode *n = &r->graph->node[i];
        if (n->width > k) k = n->width;
        if (n->op == OP_MOE && n->moe.n_ff > k) k = n->moe.n_ff;
    }
    const Gguf *file = r->graph->model->gguf;
    size_t blocks = 1;
    for (size_t i = 0; i < file->n_tensors; i++)
        if (weights_scratch_bytes(&file->tensors[i]) > blocks)
            blocks = weights_scratch_bytes(&file->tensors[i]);
    long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    r->n_threads = n_cpu < 1 ? 1 : n_cpu > MAX_THREADS ? MAX_THREADS : (uint32_t)n_cpu;
    for (uint32_t i = 0; i < r->n_threads; i++) {
        r->scratch[i].row = ARENA_ARRAY(a, float, k);
        r->scratch[i].blocks = ARENA_ARRAY(a, float, div_up(blocks, sizeof(float)));
        r->scratch[i].score = ARENA_ARRAY(a, double, r->n_ctx);
    }
}

static void release_values(void *arg) {
    Reference *r = arg;
    arena_destroy(r->values);
    r->values = NULL;
}

Reference *reference_create(Arena *a, const Graph *g, uint32_t n_ctx, KvType kv) {
    Reference *r = ARENA_NEW(a, Reference);
    *r = (Reference){.graph = g, .n_ctx = n_ctx, .kv = kv};
    arena_defer(a, release_values, r);
    r->cache = ARENA_ARRAY(a, Cache, g->n_node);
    for (uint32_t i = 0; i < g->n_node; i++) {
        const GraphNode *n = &g->node[i];
        if (n->op != OP_ATTENTION) continue;
        size_t stride = (size_t)n->attention.n_head_kv * n->attention.head_dim;
        r->cache[i].k = arena_alloc_array(a, n_ctx, stride * sizeof(float));
        r->cache[i].v = arena_alloc_array(a, n_ctx, stride * sizeof(float));
    }
    assign_slots(a, r);
    make_scratch(a, r);
    return r;
}

static void make_room(Reference *r, uint32_t n_token) {
    if (r->values && n_token <= r->n_room) return;
    release_values(r);
    r->values = arena_create();
    r->n_room = n_token;
    for (uint32_t s = 0; s < r->n_slot; s++)
        r->buffer[s] = arena_alloc_array(r->values, n_token, r->width[s] * sizeof(float));
}

static void run_node(Reference *r, uint32_t index, const uint32_t *token, uint32_t n_token,
                     const float *const in[], float *y) {
    const GraphNode *n = &r->graph->node[index];
    switch (n->op) {
    case OP_EMBED: run_embed(r, n, token, n_token, y); break;
    case OP_RMS_NORM: run_rms_norm(n, in[0], n_token, y); break;
    case OP_LINEAR: run_linear(r, n, in[0], n_token, y); break;
    case OP_ROPE: run_rope(r, n, in[0], n_token, y); break;
    case OP_ATTENTION: run_attention(r, n, &r->cache[index], in, n_token, y); break;
    case OP_ADD:
    case OP_MUL:
    case OP_SILU: run_elements(n, in[0], in[1], n_token, y); break;
    case OP_MOE: run_moe(r, n, in[0], n_token, y); break;
    case N_GRAPH_OP: break;
    }
}

void reference_run(Reference *r, const uint32_t *token, uint32_t n, float *logits, bool last_only) {
    const Graph *g = r->graph;
    ASSERT(n > 0 && n <= r->n_ctx - r->position);
    for (uint32_t t = 0; t < n; t++) ASSERT(token[t] < g->model->n_vocab);
    make_room(r, n);
    for (uint32_t i = 0; i < g->n_node; i++) {
        const GraphNode *node = &g->node[i];
        const float *in[GRAPH_MAX_IN] = {NULL};
        for (uint32_t j = 0; j < node->n_in; j++) in[j] = r->buffer[r->slot[node->in[j]]];
        if (i != g->logits) {
            float *y = r->buffer[r->slot[i]];
            run_node(r, i, token, n, in, y);
            if (r->seen) r->seen(r->seen_arg, i, y, n);
        } else if (logits) {
            uint32_t n_skip = last_only ? n - 1 : 0;
            for (uint32_t j = 0; j < node->n_in; j++)
                in[j] += (size_t)n_skip * g->node[node->in[j]].width;
            run_node(r, i, token + n_skip, n - n_skip, in, logits);
            if (r->seen) r->seen(r->seen_arg, i, logits, n - n_skip);
        }
    }
    r->position += n;
}

void reference_reset(Reference *r) { r->position = 0; }

uint32_t reference_position(const Reference *r) { return r->position; }

void reference_trace(Reference *r,
                     void (*seen)(void *arg, uint32_t node, const float *value, uint32_t n_token),
                     void *arg) {
    r->seen = seen;
    r->seen_arg = arg;
}
