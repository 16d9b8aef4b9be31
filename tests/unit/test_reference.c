/* The exact reference against independent logits of every llama-family fixture, and the fused
 * program against the reference, step by step. */
#include "../../compiler/fuse.h"
#include "../../compiler/reference.h"
#include "check.h"
#include "formats.h"
#include <dirent.h>
#include <math.h>
#include <string.h>

/* The references were computed in f32: their own error is up to 3.4e-5 at worst, 5e-7 relative. */
#define MOST_REL_RMS 2e-6
#define MOST_ABS 6e-5
#define LEAST_MARGIN 1e-3 /* between the two best, for a greedy token to count */

typedef struct {
    Arena *arena;
    const char *name;
    const Gguf *file, *ref;
    const Graph *graph;
} Case;

static const char *directory(Arena *a) {
    return arena_printf(a, "%s/fixtures/models", check_shared());
}

static const float *ref_f32(const Case *c, const char *name) {
    const GgufTensor *t = gguf_tensor(c->ref, name);
    ASSERT(t);
    return arena_copy(c->arena, t->data, t->bytes);
}

static const uint32_t *ref_ids(const Case *c, const char *name, uint32_t *n) {
    const GgufTensor *t = gguf_tensor(c->ref, name);
    ASSERT(t);
    *n = (uint32_t)t->ne[0];
    return arena_copy(c->arena, t->data, t->bytes);
}

/* Name of a weight format that this build lacks, or NULL. */
static const char *missing_format(const Gguf *g, Arena *a) {
    for (size_t i = 0; i < g->n_tensors; i++)
        if (!format_by_gguf_type(g->tensors[i].type))
            return format_gguf_type_name(a, g->tensors[i].type);
    return NULL;
}

/* Root mean square of the difference, over that of the values after each position's mean is taken
 * off. */
static double rel_rms(const float *got, const float *want, uint32_t n, uint32_t n_position) {
    double error = 0, power = 0;
    for (uint32_t p = 0; p < n_position; p++, got += n, want += n) {
        double mean = 0;
        for (uint32_t i = 0; i < n; i++) mean += (double)want[i] / n;
        for (uint32_t i = 0; i < n; i++) {
            error += pow((double)got[i] - (double)want[i], 2);
            power += pow((double)want[i] - mean, 2);
        }
    }
    return sqrt(error / power);
}

static double max_abs(const float *got, const float *want, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static uint32_t argmax(const float *x, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static void check_logits(const Case *c, Reference *r, const uint32_t *prompt, uint32_t n) {
    uint32_t n_vocab = c->graph->model->n_vocab, head = n / 3;
    float *logits = ARENA_ARRAY(c->arena, float, (size_t)n *n_vocab);
    const float *want = ref_f32(c, "logits");
    reference_run(r, prompt, head, logits, false); /* in two calls: positions go on */
    reference_run(r, prompt + head, n - head, logits + (size_t)head * n_vocab, false);
    double rms = rel_rms(logits, want, n_vocab, n),
           abs = max_abs(logits, want, (size_t)n * n_vocab);
    CHECK(rms < MOST_REL_RMS && abs < MOST_ABS, "%s: rel_rms %g, max_abs %g", c->name, rms, abs);
    CHECK(reference_position(r) == n, "%s: position %u", c->name, reference_position(r));
    /* the last position alone, all in one call: the same bits */
    float *last = ARENA_ARRAY(c->arena, float, n_vocab);
    reference_reset(r);
    reference_run(r, prompt, n, last, true);
    CHECK(memcmp(last, logits + (size_t)(n - 1) * n_vocab, sizeof *last * n_vocab) == 0,
          "%s: last position alone differs", c->name);
}

/* Feeds the reference's own continuation, so that one near tie does not spoil what follows. */
static void check_greedy(const Case *c, Reference *r, const uint32_t *prompt, uint32_t n) {
    uint32_t n_gen, n_vocab = c->graph->model->n_vocab, n_wrong = 0;
    const uint32_t *want = ref_ids(c, "gen_tokens", &n_gen);
    const float *margin = ref_f32(c, "gen_margin");
    float *logits = ARENA_ARRAY(c->arena, float, n_vocab);
    reference_reset(r);
    reference_run(r, prompt, n, logits, true);
    for (uint32_t i = 0; i < n_gen; i++) {
        n_wrong += (double)margin[i] > LEAST_MARGIN && argmax(logits, n_vocab) != want[i];
        reference_run(r, &want[i], 1, logits, true);
    }
    CHECK(n_wrong == 0, "%s: %u of %u greedy tokens differ", c->name, n_wrong, n_gen);
}

/* ---- the fused program, evaluated from the graph's own values -------------------------------- */

/* Values of the graph's nodes for all tokens of one call. */
typedef struct {
    const Case *c;
    float **value; /* [n_node] */
} Seen;

static void remember(void *arg, uint32_t node, const float *value, uint32_t n_token) {
    Seen *s = arg;
    s->value[node] = arena_copy(s->c->arena, value,
                                sizeof *value * n_token * s->c->graph->node[node].width);
}

static double row_dot(const Matrix *m, uint32_t row, const float *x, float *scratch) {
    uint32_t k = (uint32_t)m->weight->ne[0];
    format_decode_row(m->format, m->weight->data + row * format_row_bytes(m->format, k), k,
                      scratch);
    double y = 0;
    for (uint32_t i = 0; i < k; i++) y += (double)scratch[i] * (double)x[i];
    float scale = 1, bias = 0;
    if (m->scale) memcpy(&scale, m->scale->data, sizeof scale);
    if (m->bias) memcpy(&bias, m->bias->data + row * sizeof bias, sizeof bias);
    return y * (double)scale + (double)bias;
}

static double silu(double x) { return x / (1 + exp(-x)); }

static void normalize(const Step *s, const float *x, uint32_t n, float *y) {
    double square = 0;
    for (uint32_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++) {
        float w = 1;
        if (s->norm) memcpy(&w, s->norm->data + i * sizeof w, sizeof w);
        y[i] = s->norm ? (float)((double)x[i] / sqrt(square / n + (double)s->eps) * (double)w)
                       : x[i];
    }
}

/* One token through a linear step. */
static void eval_linear(Arena *a, const Program *p, const Step *s, float *const value[]) {
    uint32_t k = p->value[s->in].width, column = s->out_column;
    float *x = ARENA_ARRAY(a, float, k), *row = ARENA_ARRAY(a, float, k), *out = value[s->out];
    normalize(s, value[s->in], k, x);
    uint32_t n_stacked = s->act == ACT_SWIGLU ? 1 : s->n_matrix;
    for (uint32_t i = 0; i < n_stacked; i++)
        for (uint32_t o = 0; o < s->matrix[i].rows; o++, column++) {
            double y = row_dot(&s->matrix[i], o, x, row);
            if (s->act == ACT_SWIGLU) y = silu(y) * row_dot(&s->matrix[1], o, x, row);
            if (s->residual != GRAPH_NONE) y += (double)value[s->residual][column];
            out[column] = (float)y;
        }
}

static uint32_t node_named(const Graph *g, const char *name) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (strcmp(g->node[i].name, name) == 0) return i;
    return GRAPH_NONE;
}

/* The stacked q, k, v before rotation. */
static void check_qkv(Arena *a, const Step *s, const Seen *seen, uint32_t token,
                      const float *value) {
    const Graph *g = seen->c->graph;
    for (const char *part = "qkv"; *part; part++) {
        uint32_t node = node_named(g, arena_printf(a, "blk.%d.attn_%c", s->layer, *part));
        ASSERT(node != GRAPH_NONE);
        uint32_t width = g->node[node].width;
        double error = max_abs(value, seen->value[node] + (size_t)token * width, width);
        CHECK(error < 2e-5, "%s: %s: input of attention, %c: %g", seen->c->name, s->name, *part,
              error);
        value += width;
    }
}

/* Attention and experts take the graph's result: their steps keep the node's parameters as they
 * are. */
static void eval_step(Arena *a, const Program *p, const Step *s, const Seen *seen, uint32_t token,
                      float *const value[]) {
    const Graph *g = p->graph;
    uint32_t width = p->value[s->out].width, node = GRAPH_NONE;
    if (s->kind == STEP_EMBED) node = 0;
    if (s->kind == STEP_ATTENTION)
        node = node_named(g, arena_printf(a, "blk.%d.attention", s->layer));
    if (s->kind == STEP_MOE) node = node_named(g, arena_printf(a, "blk.%d.ffn_moe.add", s->layer));
    if (node != GRAPH_NONE)
        memcpy(value[s->out], seen->value[node] + (size_t)token * width, sizeof(float) * width);
    if (s->kind == STEP_ATTENTION) check_qkv(a, s, seen, token, value[s->in]);
    if (s->kind == STEP_LINEAR) eval_linear(a, p, s, value);
    for (uint32_t i = 0; s->kind == STEP_GATE && i < width; i++)
        value[s->out][i] = (float)(silu((double)value[s->in][i]) * (double)value[s->residual][i]);
}

static void check_program(const Case *c, const uint32_t *prompt, uint32_t n) {
    Arena *a = arena_create();
    Program *p = fuse(a, c->graph);
    program_verify(p);
    Seen seen = {c, ARENA_ARRAY(a, float *, c->graph->n_node)};
    Reference *r = reference_create(a, c->graph, n, KV_F32);
    float *logits = ARENA_ARRAY(a, float, (size_t)n * c->graph->model->n_vocab);
    reference_trace(r, remember, &seen);
    reference_run(r, prompt, n, logits, false);
    float **value = ARENA_ARRAY(a, float *, p->n_value);
    for (uint32_t i = 0; i < p->n_value; i++) value[i] = ARENA_ARRAY(a, float, p->value[i].width);
    uint32_t token = n - 1, n_vocab = c->graph->model->n_vocab;
    for (uint32_t i = 0; i < p->n_step; i++) eval_step(a, p, &p->step[i], &seen, token, value);
    double error = max_abs(value[p->logits], logits + (size_t)token * n_vocab, n_vocab);
    CHECK(error < 2e-5, "%s: the fused program's logits differ by %g", c->name, error);
    arena_destroy(a);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void check_kv(const Case *c, const uint32_t *prompt, uint32_t n) {
    static const struct {
        KvType kv;
        double least, most;
    } rounding[] = {{KV_F16, 1e-6, 5e-3}, {KV_Q8_0, 1e-4, 5e-2}};
    uint32_t n_vocab = c->graph->model->n_vocab;
    float *logits = ARENA_ARRAY(c->arena, float, (size_t)n *n_vocab);
    const float *want = ref_f32(c, "logits");
    for (size_t i = 0; i < sizeof rounding / sizeof *rounding; i++) {
        Reference *r = reference_create(c->arena, c->graph, n, rounding[i].kv);
        reference_run(r, prompt, n, logits, false);
        double rms = rel_rms(logits, want, n_vocab, n);
        CHECK(rms > rounding[i].least && rms < rounding[i].most, "%s: cache type %d: rel_rms %g",
              c->name, (int)rounding[i].kv, rms);
    }
}

static void check_case(Case *c, bool all) {
    Model *m = model_read(c->arena, c->file);
    Graph *g = graph_build(c->arena, m, 512, NULL);
    graph_verify(g);
    c->graph = g;
    uint32_t n;
    const uint32_t *prompt = ref_ids(c, "prompt", &n);
    Reference *r = reference_create(c->arena, g, n + 32, KV_F32);
    check_logits(c, r, prompt, n);
    check_greedy(c, r, prompt, n);
    check_program(c, prompt, n);
    if (all) check_kv(c, prompt, n);
}

static void check_model(const char *name, bool all) {
    Arena *a = arena_create();
    Case c = {.arena = a, .name = name};
    FailTrap t;
    if (fail_catch(&t)) {
        CHECK(false, "%s: %s", name, t.message);
    } else {
        c.file = gguf_open(a, arena_printf(a, "%s/%s.gguf", directory(a), name));
        c.ref = gguf_open(a, arena_printf(a, "%s/%s.ref.gguf", directory(a), name));
        const char *missing = missing_format(c.file, a);
        if (missing) SKIP("%s: no weight format %s here", name, missing);
        else if (test_formats_in(a, c.file)) check_case(&c, all);
        fail_pop(&t);
    }
    arena_destroy(a);
}

static int by_name(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* q/llama-TYPE: a file for each weight format. */
static void check_formats(Arena *a) {
    DIR *d = opendir(arena_printf(a, "%s/q", directory(a)));
    const char **name = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t length = strlen(e->d_name);
        if (strncmp(e->d_name, "llama-", 6) != 0 || strstr(e->d_name, ".ref.") || length < 6)
            continue;
        name = arena_grow(a, name, n, &cap, sizeof *name);
        name[n++] = arena_printf(a, "q/%.*s", (int)length - 5, e->d_name);
    }
    if (d) closedir(d);
    CHECK(n > 0, "no files q/llama-*.gguf");
    if (n) qsort(name, n, sizeof *name, by_name);
    for (size_t i = 0; i < n; i++) check_model(name[i], false);
}

int main(void) {
    static const char *const names[] = {"llama",      "llama-f32",         "llama-tied",
                                        "llama-bias", "llama-bigeps",      "llama-linear-rope",
                                        "llama-yarn", "llama3-ropefreqs",  "mistral-nemo-style",
                                        "mixtral",    "llama-nvfp4-scale", "mixtral-nvfp4-scale"};
    if (!check_shared()) {
        SKIP("QCC_SHARED is not set: no reference logits");
        return check_done();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_model(names[i], i < 2);
    Arena *a = arena_create();
    check_formats(a);
    arena_destroy(a);
    return check_done();
}
