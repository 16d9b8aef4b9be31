/* bench_kernels.c - speed of the kernels that qcc chooses for the local device, by weight format.
 *
 *     bench_kernels [-k COLUMNS] [-r ROWS] [-n TOKENS] [-m MEGABYTES] [-c GB/S] [-abgwx]
 * [FORMAT...]
 *
 * Independent products of a matrix (4096 rows, 14336 columns) with TOKENS rows of activations (1:
 * matvec, else matmul), each dispatch with weights of its own until MEGABYTES are read (2048; a
 * processor 64), so that they come from memory. One line per format: GB/s of packed weights and
 * their share of the read bandwidth (-c, or measured first) in exact and in fast mode; for several
 * tokens, Tflop/s. -a: every candidate; -x: exact mode only.
 *
 * As in a model, of one token: -b: a barrier after each dispatch; -w: with RMS norm; -g: gate and
 * up with SwiGLU, ROWS each. */
#include "matrix.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    Harness *h;
    uint32_t k, rows, tokens;
    size_t bytes;
    bool all, chained, norm, swiglu;
    double ceiling; /* GB/s */
} Bench;

typedef struct {
    double us;
    const char *label;
} Timing;

/* A matrix of 16 different rows again and again: what they hold does not change the speed. */
static Matrix *matrix_repeated(Arena *a, const Format *f, uint32_t rows, uint32_t k) {
    uint32_t seed = 1, some = 16;
    Matrix *part = matrix_random(a, f, some, k, &seed), *w = ARENA_NEW(a, Matrix);
    *w = (Matrix){.format = f, .rows = rows, .k = k};
    w->packed_bytes = (size_t)format_layout(f, rows, k, w->plane);
    w->packed = arena_alloc(a, w->packed_bytes);
    for (uint32_t p = 0; p < f->n_planes; p++) {
        size_t row = (size_t)format_plane_row_bytes(f, p, k);
        if (f->columns && p + 1 == f->n_planes)
            memcpy(w->packed + w->plane[p], part->packed + part->plane[p], 4ul * k);
        for (uint32_t r = 0; r < rows; r++)
            memcpy(w->packed + w->plane[p] + r * row,
                   part->packed + part->plane[p] + r % some * row, row);
    }
    return w;
}

static void op_describe(KernelOp *op, const Bench *b, const Matrix *w, Accuracy accuracy) {
    *op = (KernelOp){.op = b->tokens > 1 ? "matmul" : "matvec", .accuracy = accuracy};
    matrix_describe(op, w, b->swiglu ? 2 : 1);
    op->flops *= b->tokens;
    kernel_op_role(op, "x"), kernel_op_role(op, "y");
    kernel_op_uint(op, "SPLIT", b->rows), kernel_op_uint(op, "Y0", 0), kernel_op_uint(op, "Y1", 0);
    if (b->tokens > 1) {
        kernel_op_uint(op, "M", b->tokens), kernel_op_uint(op, "X_STRIDE", w->k),
            kernel_op_uint(op, "Y_STRIDE", w->rows);
    } else {
        kernel_op_uint(op, "PROLOGUE", b->norm), kernel_op_uint(op, "EPILOGUE", b->swiglu);
        if (b->norm) kernel_op_role(op, "nw");
        kernel_op_uint(op, "X_LAST", 0), kernel_op_float(op, "EPS", 0);
    }
}

/* Times the kernel that is chosen; with -a prints the others too. */
static Timing product_time(Arena *a, const Bench *b, const Matrix *w, Accuracy accuracy) {
    KernelOp op;
    op_describe(&op, b, w, accuracy);
    uint32_t seed = 2, copies = (uint32_t)(b->bytes / w->packed_bytes);
    copies = copies < 2 ? 2 : copies > 64 ? 64 : copies;
    float *x = random_normals(a, (size_t)b->tokens * w->k, &seed),
          *y = ARENA_ARRAY(a, float, (size_t)b->tokens * w->rows);
    HarnessBuffer buffers[] = {{"x", x, NULL, 4ul * b->tokens * w->k},
                               {"y", NULL, y, 4ul * b->tokens * w->rows},
                               matrix_buffer(w),
                               {"nw", x, NULL, 4ul * w->k}};
    HarnessCase *c;
    const char *why = "";
    uint32_t n = harness_cases(b->h, &op, &c, &why);
    Timing chosen = {0};
    for (uint32_t i = 0; i < n; i++) {
        double us = 0;
        if (strcmp(c[i].profile, "device")) continue;
        const char *failed = harness_time(b->h, &c[i], buffers, 4,
                                          &(HarnessTiming){copies, copies, b->chained}, &us);
        if (failed) fail(FAIL_ENVIRONMENT, "%s: %s", c[i].label, failed);
        if (!chosen.label) chosen = (Timing){us, c[i].choice->label};
        if (!b->all) break;
        printf("    %9.1f us %7.0f GB/s %8.2f Tflop/s  predicted %.1f us  %s\n", us,
               (double)w->packed_bytes / us / 1e3, op.flops / us / 1e6, c[i].choice->us,
               c[i].choice->label);
    }
    if (!chosen.label) fail(FAIL_USER, "%s: no kernel: %s", w->format->name, why);
    return chosen;
}

static void format_bench(const Bench *b, const Format *f, bool fast) {
    Arena *a = arena_create();
    const Matrix *w = matrix_repeated(a, f, b->swiglu ? 2 * b->rows : b->rows, b->k);
    double weights = (double)b->k * w->rows, flops = 2 * weights * b->tokens;
    printf("%-8s %6.3f", f->name, 8.0 * (double)w->packed_bytes / weights);
    for (int accuracy = 0; accuracy < (fast ? 2 : 1); accuracy++) {
        Timing t = product_time(a, b, w, accuracy ? ACCURACY_FAST : ACCURACY_EXACT);
        double gbps = (double)w->packed_bytes / t.us / 1e3;
        if (b->tokens > 1) printf("   %9.1f us %8.2f Tflop/s", t.us, flops / t.us / 1e6);
        else printf("   %9.1f us %6.0f GB/s %5.1f %%", t.us, gbps, 100 * gbps / b->ceiling);
        printf("  %s", t.label);
    }
    printf("\n");
    fflush(stdout);
    arena_destroy(a);
}

/* Read bandwidth of the device in GB/s, as `qcc probe --measure` finds it. */
static double ceiling_measure(Arena *a) {
    const char *device = getenv("QCC_DEVICE");
    json_t *profile = json_loads(target_probe_json(a, device ? (uint32_t)atoi(device) : 0, true), 0,
                                 NULL);
    double gbps = json_number_value(json_object_get(json_object_get(profile, "qcc"), "read_gbps"));
    json_decref(profile);
    return gbps > 0 ? gbps : 1;
}

int main(int argc, char **argv) {
    Bench b = {.k = 14336, .rows = 4096, .tokens = 1};
    bool fast = true;
    for (int o; (o = getopt(argc, argv, "k:r:n:m:c:abgwx")) != -1;) {
        if (o == 'k') b.k = (uint32_t)atoi(optarg);
        else if (o == 'r') b.rows = (uint32_t)atoi(optarg);
        else if (o == 'n') b.tokens = (uint32_t)atoi(optarg);
        else if (o == 'm') b.bytes = (size_t)atoi(optarg) << 20;
        else if (o == 'c') b.ceiling = atof(optarg);
        else if (o == 'a') b.all = true;
        else if (o == 'b') b.chained = true;
        else if (o == 'g') b.swiglu = true;
        else if (o == 'w') b.norm = true;
        else if (o == 'x') fast = false;
        else
            return fprintf(stderr, "usage: bench_kernels [-k COLUMNS] [-r ROWS] [-n TOKENS] [-m "
                                   "MEGABYTES] [-c GB/S] [-abgwx] [FORMAT...]\n"),
                   2;
    }
    if (b.tokens > 1 && (b.norm || b.swiglu))
        return fprintf(stderr, "bench_kernels: -g and -w are of one token\n"), 2;
    Arena *a = arena_create();
    b.h = harness_open(a);
    if (!b.h) return fprintf(stderr, "bench_kernels: no Vulkan device\n"), 3;
    if (!(b.ceiling > 0)) b.ceiling = ceiling_measure(a);
    if (!b.bytes) b.bytes = (size_t)(harness_target(b.h)->subgroup <= 8 ? 64 : 2048) << 20;
    printf("%s: %u x %u, %u token%s, read bandwidth %.0f GB/s\n", harness_target(b.h)->device_name,
           b.rows, b.k, b.tokens, b.tokens > 1 ? "s" : "", b.ceiling);
    printf("format   bits/w   exact%s\n", fast ? ", fast" : "");
    for (const Format *const *f = formats; *f; f++) {
        bool wanted = optind == argc;
        for (int i = optind; i < argc; i++) wanted |= !strcmp((*f)->name, argv[i]);
        if (wanted && b.k % (*f)->block_n == 0) format_bench(&b, *f, fast);
    }
    arena_destroy(a);
    return 0;
}
