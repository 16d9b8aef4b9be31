/* pack.c - see pack.h.
 *
 * A job is a run of rows of one packed part (all its planes), or one vector. Jobs are produced by
 * threads, in rounds, and written in order: the file does not depend on the number of threads.
 * Pages of the model are given back after use. */
#include "pack.h"
#include "../runtime/payload.h"
#include "weights.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

enum { ZSTD_LEVEL = 6, HASH_CHUNK = 16 << 20 };

typedef struct {
    PayloadFrame frame;
    uint8_t *raw, *stored; /* stored == raw for CODEC_STORED */
    size_t cap_stored;
} Piece;

typedef struct {
    const Buffer *buffer;
    uint64_t row0, n_rows;
    uint32_t n_pieces;
    Piece piece[FORMAT_MAX_PLANES];
    const GgufTensor *broken; /* one of its tensors holds a number that is infinite or none */
} Job;

typedef struct {
    const CompiledPlan *plan;
    Job *jobs;
    size_t first, last;
    atomic_size_t next;
} Round;

/* ---- contents -------------------------------------------------------------------------------- */

/* The factor of a row; a row of tensor->ne[1] rows each of experts may have one of its own. */
static float range_scale(const RowRange *r, uint64_t row) {
    float s;
    uint64_t i = r->scale->ne[0] > 1 ? row / r->tensor->ne[1] : 0;
    memcpy(&s, r->scale->data + 4 * i, sizeof s);
    return s;
}

static bool row_scale(const RowRange *r, uint64_t row, uint8_t *factor) {
    float f, s = range_scale(r, row);
    memcpy(&f, factor, sizeof f);
    f *= s;
    memcpy(factor, &f, sizeof f);
    return isfinite(s);
}

/* All rows of a part have the same scales of columns: balance.h. */
static void columns_put(const Buffer *b, uint8_t *raw) {
    const float *columns = b->range[0].tensor->columns;
    memcpy(raw, columns, 4ull * b->k);
    for (uint32_t i = 1; i < b->n_ranges; i++)
        ASSERT(memcmp(b->range[i].tensor->columns, columns, 4ull * b->k) == 0);
}

/* Packs rows row0 .. row0 + n_rows of a part, whose rows are ranges of tensors in order. */
static bool part_pack(Job *j) {
    const Buffer *b = j->buffer;
    const Format *f = b->format;
    uint64_t done = 0, base = 0;
    for (uint32_t i = 0; i < b->n_ranges && done < j->n_rows; base += b->range[i++].n_rows) {
        const RowRange *r = &b->range[i];
        uint64_t row = j->row0 + done;
        if (row >= base + r->n_rows) continue;
        uint64_t from = row - base, n = r->n_rows - from;
        if (n > j->n_rows - done) n = j->n_rows - done;
        const GgufTensor *t = r->tensor;
        void *scratch = malloc(weights_scratch_bytes(t) + 1);
        if (!scratch) return false;
        for (uint64_t k = 0; k < n; k++) {
            uint8_t *plane[FORMAT_MAX_PLANES] = {0};
            for (uint32_t q = 0; q < f->n_planes; q++)
                plane[q] = j->piece[q].raw + (done + k) * format_plane_row_bytes(f, q, b->k);
            format_pack_row(f, weights_row(t, r->row0 + from + k, scratch), b->k, plane);
            if (r->scale && !row_scale(r, r->row0 + from + k, plane[f->factor_plane]))
                j->broken = r->scale;
        }
        if (!gguf_rows_finite(t, r->row0 + from, n)) j->broken = t;
        uint64_t file_row = t->bytes / (t->ne[1] * t->ne[2] * t->ne[3]);
        pages_release(t->data + (r->row0 + from) * file_row, n * file_row);
        free(scratch);
        done += n;
    }
    ASSERT(done == j->n_rows);
    if (f->columns && j->row0 == 0) columns_put(b, j->piece[f->n_planes - 1].raw);
    return true;
}

/* The rotary table of kernels/README.md: 256 fine rotations, then one for every 256 positions. */
static void rope_fill(const Rope *r, uint64_t floats, float *out) {
    uint32_t pairs = r->n_rot / 2;
    uint64_t rows = floats / 2 / pairs;
    for (uint64_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < pairs; i++) {
            double c, s, c0, s0;
            rope_angle(r, (uint32_t)(row < 256 ? row : (row - 256) * 256), i, &c, &s);
            rope_angle(r, 0, i, &c0, &s0); /* (magnitude, 0): coarse rotations have magnitude one */
            double scale = row < 256 ? 1 : 1 / c0;
            out[2 * (row * pairs + i)] = (float)(c * scale);
            out[2 * (row * pairs + i) + 1] = (float)(s * scale);
        }
}

static void vector_fill(Job *j, uint8_t *raw) {
    const Buffer *b = j->buffer;
    if (b->rope) {
        rope_fill(b->rope, b->bytes / 4, (float *)raw);
        return;
    }
    raw += 4ull * b->skip;
    for (uint32_t i = 0; i < b->n_tensors; i++) {
        const GgufTensor *t = b->tensor[i];
        if (!gguf_rows_finite(t, 0, t->ne[1] * t->ne[2] * t->ne[3])) j->broken = t;
        memcpy(raw, t->data, t->bytes);
        raw += t->bytes;
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool piece_alloc(Piece *p, uint64_t bytes) {
    p->frame.raw_bytes = bytes;
    p->raw = calloc(1, bytes + 1);
    return p->raw != NULL;
}

/* zstd where it shrinks by more than 1 %, stored otherwise. */
static bool piece_compress(Piece *p) {
    size_t n = p->frame.raw_bytes, bound = ZSTD_compressBound(n);
    uint8_t *out = malloc(bound);
    if (!out) return false;
    /* a sample decides for large pieces whether trying is worth the time */
    size_t probe = n > 256 << 10 ? 64 << 10 : n;
    size_t k = ZSTD_compress(out, bound, p->raw + (n - probe) / 2, probe, 1);
    bool worth = !ZSTD_isError(k) && k < probe - probe / 100;
    if (worth) k = ZSTD_compress(out, bound, p->raw, n, ZSTD_LEVEL);
    if (worth && !ZSTD_isError(k) && k < n - n / 100) {
        p->stored = out, p->frame.codec = CODEC_ZSTD, p->frame.stored_bytes = k;
    } else {
        free(out);
        p->stored = p->raw, p->frame.codec = CODEC_STORED, p->frame.stored_bytes = n;
    }
    p->frame.hash = XXH3_64bits(p->stored, p->frame.stored_bytes);
    return true;
}

static void piece_free(Piece *p) {
    if (p->stored != p->raw) free(p->stored);
    free(p->raw);
    p->raw = p->stored = NULL;
}

/* Bytes of plane i that the job writes: scales of columns come with a part's first rows. */
static uint64_t piece_bytes(const Job *j, uint32_t i) {
    const Buffer *b = j->buffer;
    if (b->format->columns && i + 1 == b->format->n_planes)
        return j->row0 ? 0 : format_columns_bytes(b->k);
    return format_plane_row_bytes(b->format, i, b->k) * j->n_rows;
}

static bool job_run(Job *j) {
    const Buffer *b = j->buffer;
    const Format *f = b->format;
    j->n_pieces = f ? f->n_planes : 1;
    for (uint32_t i = 0; i < j->n_pieces; i++) {
        uint64_t row = f ? format_plane_row_bytes(f, i, b->k) : 0;
        if (!piece_alloc(&j->piece[i], f ? piece_bytes(j, i) : b->bytes)) return false;
        j->piece[i].frame.kind = FRAME_WEIGHTS;
        j->piece[i].frame.id = b->zone;
        j->piece[i].frame.target_offset = b->offset + (f ? b->plane[i] + row * j->row0 : 0);
    }
    if (!f) vector_fill(j, j->piece[0].raw);
    else if (!part_pack(j)) return false;
    for (uint32_t i = 0; i < j->n_pieces; i++)
        if (!piece_compress(&j->piece[i])) return false;
    return true;
}

static void *round_run(void *arg) {
    Round *r = arg;
    bool ok = true;
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < r->last;) ok = job_run(&r->jobs[i]) && ok;
    return ok ? r : NULL;
}

/* Row runs of about PAYLOAD_FRAME_MAX bytes; a multiple of 16 rows keeps every plane at whole
 * words. */
static Job *jobs_make(Arena *a, const CompiledPlan *p, size_t *n) {
    Job *jobs = NULL;
    size_t cap = 0;
    *n = 0;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const Buffer *b = &p->buffer[i];
        if (b->kind != BUFFER_PART && b->kind != BUFFER_VECTOR) continue;
        uint64_t rows = b->kind == BUFFER_PART ? b->rows : 1, step = rows;
        if (b->kind == BUFFER_PART) {
            step = PAYLOAD_FRAME_MAX / (b->bytes / rows + 1) / 16 * 16;
            if (step == 0) step = 16;
        }
        for (uint64_t r = 0; r < rows; r += step) {
            jobs = arena_grow(a, jobs, *n, &cap, sizeof *jobs);
            jobs[(*n)++] =
                (Job){.buffer = b, .row0 = r, .n_rows = rows - r < step ? rows - r : step};
        }
    }
    return jobs;
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct {
    Arena *arena;
    const char *path, *tmp;
    FILE *f;
    uint64_t at;
    PayloadFrame *frames;
    size_t n, cap;
} Output;

static void output_release(void *arg) {
    Output *o = arg;
    if (o->f) fclose(o->f);
    if (o->tmp) unlink(o->tmp);
}

_Noreturn static void output_fail(const Output *o) {
    fail(FAIL_ENVIRONMENT, "%s: cannot write: %s; nothing was left behind", o->path,
         strerror(errno));
}

static void put(Output *o, const void *p, uint64_t n) {
    if (n && fwrite(p, 1, n, o->f) != n) output_fail(o);
    o->at += n;
}

static void align(Output *o, uint64_t to) {
    static const uint8_t zero[PAYLOAD_ALIGN];
    put(o, zero, round_up(o->at, to) - o->at);
}

static void frame_put(Output *o, PayloadFrame f, const void *p) {
    align(o, f.kind == FRAME_WEIGHTS && f.stored_bytes >= PAYLOAD_ALIGN ? PAYLOAD_ALIGN : 16);
    f.file_offset = o->at;
    put(o, p, f.stored_bytes);
    o->frames = arena_grow(o->arena, o->frames, o->n, &o->cap, sizeof *o->frames);
    o->frames[o->n++] = f;
}

static void blob_put(Output *o, const PackBlob *b) {
    Piece p = {.frame = {.kind = b->kind, .id = b->id, .raw_bytes = b->bytes.n},
               .raw = malloc(b->bytes.n + 1)};
    if (!p.raw) fail(FAIL_ENVIRONMENT, "out of memory");
    memcpy(p.raw, b->bytes.p, b->bytes.n);
    if (!piece_compress(&p)) fail(FAIL_ENVIRONMENT, "out of memory");
    frame_put(o, p.frame, p.stored);
    piece_free(&p);
}

static void elf_put(Output *o, const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in) fail(FAIL_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
    char buf[1 << 16];
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;) put(o, buf, n);
    fclose(in);
    align(o, PAYLOAD_ALIGN);
}

static void round_write(Output *o, const Round *r) {
    for (Job *j = r->jobs + r->first; j < r->jobs + r->last; j++) {
        if (j->broken) gguf_check_data(r->plan->program->graph->model->gguf, j->broken);
        for (uint32_t k = 0; k < j->n_pieces; k++) {
            if (j->piece[k].frame.raw_bytes) frame_put(o, j->piece[k].frame, j->piece[k].stored);
            piece_free(&j->piece[k]);
        }
    }
}

static void weights_put(Output *o, const CompiledPlan *p, uint32_t n_threads) {
    size_t n_jobs, per_round = 2 * (size_t)n_threads;
    Job *jobs = jobs_make(o->arena, p, &n_jobs);
    double start = now_s(), told = start;
    for (size_t first = 0; first < n_jobs; first += per_round) {
        Round r = {p, jobs, first, first + per_round < n_jobs ? first + per_round : n_jobs, first};
        pthread_t t[64];
        uint32_t started = 0;
        while (started + 1 < n_threads && started < 64 &&
               pthread_create(&t[started], NULL, round_run, &r) == 0)
            started++;
        bool ok = round_run(&r) != NULL;
        for (uint32_t i = 0; i < started; i++) {
            void *result;
            pthread_join(t[i], &result);
            ok = ok && result;
        }
        if (!ok) fail(FAIL_ENVIRONMENT, "out of memory while packing weights");
        round_write(o, &r);
        if (now_s() - told > 1 && now_s() - start > 2) {
            told = now_s();
            note(1, "packing weights: %zu of %zu (%.0f%%)", r.last, n_jobs,
                 100.0 * (double)r.last / (double)n_jobs);
        }
    }
}

static void footer_put(Output *o, uint64_t payload, uint64_t plan_hash) {
    align(o, 16);
    PayloadFooter f = {.payload_offset = payload,
                       .index_offset = o->at,
                       .n_frames = o->n,
                       .plan_hash = plan_hash};
    memcpy(f.magic, PAYLOAD_MAGIC, sizeof f.magic);
    f.index_hash = XXH3_64bits(o->frames, o->n * sizeof *o->frames);
    put(o, o->frames, o->n * sizeof *o->frames);
    f.file_bytes = o->at + sizeof f;
    f.footer_hash = XXH3_64bits(&f, offsetof(PayloadFooter, footer_hash));
    put(o, &f, sizeof f);
}

uint64_t pack_write(Arena *a, const CompiledPlan *p, const char *elf_path, const PackBlob *blobs,
                    uint32_t n_blobs, uint64_t plan_hash, uint32_t n_threads,
                    const char *out_path) {
    Output *o = ARENA_NEW(a, Output);
    *o = (Output){.arena = a,
                  .path = out_path,
                  .tmp = arena_printf(a, "%s.tmp.%ld", out_path, (long)getpid())};
    arena_defer(a, output_release, o);
    struct stat st;
    if (stat(out_path, &st) == 0 && !S_ISREG(st.st_mode))
        fail(FAIL_USER, "%s: a program is written to a file; this is a %s", out_path,
             S_ISDIR(st.st_mode) ? "directory" : "device or pipe");
    o->f = fopen(o->tmp, "wb");
    if (!o->f) output_fail(o);
    setvbuf(o->f, NULL, _IOFBF, 1 << 20);
    elf_put(o, elf_path);
    uint64_t payload = o->at;
    for (uint32_t i = 0; i < n_blobs; i++) blob_put(o, &blobs[i]);
    weights_put(o, p, n_threads ? n_threads : 1);
    footer_put(o, payload, plan_hash);
    FILE *f = o->f;
    bool ok = fflush(f) == 0 && fchmod(fileno(f), 0755) == 0;
    o->f = NULL;
    if (fclose(f) != 0 || !ok || rename(o->tmp, out_path) != 0) output_fail(o);
    o->tmp = NULL;
    return o->at;
}

uint64_t pack_hash_model(const Gguf *g) {
    XXH3_state_t *h = XXH3_createState();
    if (!h) fail(FAIL_ENVIRONMENT, "out of memory");
    XXH3_64bits_reset(h);
    for (uint32_t i = 0; i < g->n_parts; i++)
        for (size_t at = 0; at < g->parts[i].n; at += HASH_CHUNK) {
            size_t n = g->parts[i].n - at < HASH_CHUNK ? g->parts[i].n - at : HASH_CHUNK;
            XXH3_64bits_update(h, g->parts[i].p + at, n);
            pages_release(g->parts[i].p + at, n);
        }
    uint64_t v = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return v;
}
