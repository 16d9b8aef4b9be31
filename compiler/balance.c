/* balance.c - see balance.h. */
#include "balance.h"
#include "weights.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- the largest weight of every column ------------------------------------------------------ */

typedef struct {
    const Gguf *file;
    atomic_size_t *next; /* tensor */
    float *row;          /* [longest row], of this thread */
} Scan;

static void tensor_scan(const GgufTensor *t, float *row) {
    const Format *f = format_by_gguf_type(t->type);
    uint32_t k = (uint32_t)t->ne[0];
    uint64_t n_rows = t->ne[1] * t->ne[2] * t->ne[3], bytes = format_row_bytes(f, k);
    for (uint32_t i = 0; i < k; i++) t->columns[i] = 0;
    for (uint64_t r = 0; r < n_rows; r++) {
        format_decode_row(f, t->data + r * bytes, k, row);
        for (uint32_t i = 0; i < k; i++) {
            float size = fabsf(row[i]);
            if (size > t->columns[i] && isfinite(size)) t->columns[i] = size;
        }
    }
    pages_release(t->data, t->bytes);
}

static void *scan_run(void *arg) {
    const Scan *s = arg;
    for (size_t i; (i = atomic_fetch_add(s->next, 1)) < s->file->n_tensors;)
        if (s->file->tensors[i].columns) tensor_scan(&s->file->tensors[i], s->row);
    return NULL;
}

static bool scan(Arena *a, const Gguf *file, uint32_t n_threads) {
    enum { MOST = 64 };
    uint64_t longest = 0;
    for (size_t i = 0; i < file->n_tensors; i++)
        if (file->tensors[i].columns && file->tensors[i].ne[0] > longest)
            longest = file->tensors[i].ne[0];
    if (longest == 0) return false;
    atomic_size_t next = 0;
    pthread_t thread[MOST];
    uint32_t n = 0;
    for (; n + 1 < n_threads && n < MOST; n++) {
        Scan *s = ARENA_NEW(a, Scan);
        *s = (Scan){file, &next, ARENA_ARRAY(a, float, longest)};
        if (pthread_create(&thread[n], NULL, scan_run, s) != 0) break;
    }
    scan_run(&(Scan){file, &next, ARENA_ARRAY(a, float, longest)});
    for (uint32_t i = 0; i < n; i++) pthread_join(thread[i], NULL);
    return true;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* Gives all tensors the larger numbers of them; whether one changed. */
static bool join(const GgufTensor *const tensor[], uint32_t n) {
    bool changed = false;
    for (uint32_t i = 1; i < n; i++) {
        const GgufTensor *t = tensor[0], *u = tensor[i];
        if (!t || !u || !t->columns || !u->columns || t->store != u->store) continue;
        for (uint64_t j = 0; j < t->ne[0]; j++) {
            float most = fmaxf(t->columns[j], u->columns[j]);
            changed = changed || t->columns[j] < most || u->columns[j] < most;
            t->columns[j] = u->columns[j] = most;
        }
    }
    return changed;
}

/* Matrices of one part. It does no harm where they are apart for another reason. */
static bool join_steps(const Program *p) {
    bool changed = false;
    for (uint32_t i = 0; i < p->n_step; i++) {
        const Step *s = &p->step[i];
        const GgufTensor *tensor[STEP_MAX_MATRIX] = {0};
        for (uint32_t m = 0; m < s->n_matrix; m++) tensor[m] = s->matrix[m].weight;
        changed = join(tensor, s->n_matrix) || changed;
        if (s->kind == STEP_MOE)
            changed = join((const GgufTensor *[]){s->moe.gate, s->moe.up}, 2) || changed;
    }
    return changed;
}

/* A power of the largest weight, whose mean is 1 (the geometric one, of columns that are not
 * zero). */
static void scales_make(float *column, uint64_t k) {
    const double exponent = 0.5; /* 0.25 to 1 are as good on the example model, 0 is worse */
    const double most = 0x1p30;  /* so that no product overflows or is lost */
    double sum = 0, n = 0;
    for (uint64_t i = 0; i < k; i++)
        if (column[i] > 0) sum += log((double)column[i]), n++;
    for (uint64_t i = 0; i < k; i++) {
        double v = column[i] > 0 ? exp(exponent * (log((double)column[i]) - sum / n)) : 1;
        column[i] = (float)fmin(fmax(v, 1 / most), most);
    }
}

void balance_columns(Arena *a, const Program *p, uint32_t n_threads) {
    const Gguf *file = p->graph->model->gguf;
    if (!scan(a, file, n_threads)) return;
    while (join_steps(p)) {
    }
    for (size_t i = 0; i < file->n_tensors; i++)
        if (file->tensors[i].columns) scales_make(file->tensors[i].columns, file->tensors[i].ne[0]);
}
