/* test_models.c - end to end: qcc compiles a model, the executable runs on the local driver, and
 * its logits and greedy ids are compared with an independent reference; twice, byte for byte. */
#include "check.h"
#include "formats.h"
#include "gguf_writer.h"
#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *build, *work;

static int shell(Arena *a, const char *fmt, ...) {
    va_list v;
    va_start(v, fmt);
    char command[4096];
    (void)vsnprintf(command, sizeof command, fmt, v);
    va_end(v);
    (void)a;
    return system(command);
}

static Bytes result(Arena *a, const char *name) {
    const char *path = arena_printf(a, "%s/%s", work, name);
    return access(path, R_OK) == 0 ? file_map(a, path) : (Bytes){0};
}

/* Root of the mean squared error over that of the centred reference, all positions together. */
static double rel_rms(const float *got, const float *want, size_t rows, size_t n) {
    double e = 0, s = 0;
    for (size_t r = 0; r < rows; r++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++) mean += want[r * n + i];
        mean /= (double)n;
        for (size_t i = 0; i < n; i++) {
            double d = (double)got[r * n + i] - (double)want[r * n + i], c = want[r * n + i] - mean;
            e += d * d, s += c * c;
        }
    }
    return s > 0 ? sqrt(e / s) : e > 0;
}

static bool formats_known(const Gguf *g) {
    for (size_t i = 0; i < g->n_tensors; i++)
        if (!format_by_gguf_type(g->tensors[i].type)) return false;
    return true;
}

static void ids_write(Arena *a, const int32_t *id, size_t n) {
    Text t = {.arena = a};
    for (size_t i = 0; i < n; i++) text_printf(&t, "%d ", (int)id[i]);
    file_write(arena_printf(a, "%s/ids", work), t.s, t.n, 0600);
}

static void check_logits(Arena *a, const char *label, const Gguf *ref, const char *path_kind) {
    const GgufTensor *want = gguf_tensor(ref, "logits");
    int status = shell(a, "%s/m logits --tokens %s/ids --out %s/logits --path %s 2>%s/err", work,
                       work, work, path_kind, work);
    Bytes got = result(a, "logits");
    CHECK(status == 0 && got.n == want->bytes, "%s, %s: status %d, %zu bytes", label, path_kind,
          status, got.n);
    if (status != 0 || got.n != want->bytes) return;
    double e = rel_rms((const float *)(const void *)got.p, (const float *)(const void *)want->data,
                       want->ne[1], want->ne[0]);
    CHECK(e < 1e-3, "%s, %s: relative RMS error %.3g", label, path_kind, e);
    shell(a, "%s/m logits --tokens %s/ids --out %s/again --path %s 2>%s/err", work, work, work,
          path_kind, work);
    Bytes again = result(a, "again");
    CHECK(again.n == got.n && memcmp(again.p, got.p, got.n) == 0, "%s, %s: a second run differs",
          label, path_kind);
}

/* Greedy ids up to the first step whose margin is small. */
static void check_greedy(Arena *a, const char *label, const Gguf *ref) {
    const GgufTensor *want = gguf_tensor(ref, "gen_tokens"),
                     *margin = gguf_tensor(ref, "gen_margin");
    int status = shell(a, "%s/m --tokens %s/ids -n %u --temp 0 --ids --ignore-eos >%s/out 2>%s/err",
                       work, work, (unsigned)want->ne[0], work, work);
    Bytes out = result(a, "out");
    CHECK(status == 0, "%s: status %d", label, status);
    char *at = arena_strndup(a, (const char *)out.p, out.n);
    for (size_t i = 0; i < want->ne[0]; i++) {
        float m;
        int32_t id;
        memcpy(&m, margin->data + 4 * i, 4), memcpy(&id, want->data + 4 * i, 4);
        if (m < 0.01f) return;
        long got = strtol(at, &at, 10);
        CHECK(got == id, "%s: step %zu gives %ld, expected %d (margin %.3g)", label, i, got,
              (int)id, (double)m);
        if (got != id) return;
    }
}

static void check_model(const char *model, const char *reference, const char *flags) {
    Arena *a = arena_create();
    FailTrap t;
    const char *slash = strrchr(reference, '/'),
               *label = arena_printf(a, "%s %s", slash ? slash + 1 : reference, flags);
    if (fail_catch(&t)) {
        CHECK(false, "%s: %s", label, t.message);
        arena_destroy(a);
        return;
    }
    const Gguf *g = gguf_open(a, model);
    if (!formats_known(g)) {
        SKIP("%s: a weight format is not there", label);
    } else if (test_formats_in(a, g)) {
        Gguf *ref = gguf_open(a, reference);
        const GgufTensor *prompt = gguf_tensor(ref, "prompt");
        ids_write(a, (const int32_t *)(const void *)prompt->data, prompt->ne[0]);
        shell(a, "rm -f %s/m", work);
        int status = shell(a, "%s/qcc -q --check 0 '%s' -o %s/m %s 2>%s/err", build, model, work,
                           flags, work);
        Bytes err = result(a, "err");
        const char *message = arena_strndup(a, (const char *)err.p, err.n < 300 ? err.n : 300);
        CHECK(status == 0, "%s: qcc: %s", label, message);
        if (status == 0) {
            check_logits(a, label, ref, "prefill");
            check_logits(a, label, ref, "decode");
            check_greedy(a, label, ref);
        }
    }
    fail_pop(&t);
    arena_destroy(a);
}

static void check_directory(const char *dir, const char *prefix) {
    Arena *a = arena_create();
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        size_t k = strlen(name);
        if (strncmp(name, prefix, strlen(prefix)) == 0 && k > 9 &&
            strcmp(name + k - 9, ".ref.gguf") == 0)
            check_model(arena_printf(a, "%s/%.*s.gguf", dir, (int)(k - 9), name),
                        arena_printf(a, "%s/%s", dir, name), "");
        free(list[i]);
    }
    if (n >= 0) free(list);
    arena_destroy(a);
}

/* The same input twice gives the same bytes. */
static void check_reproducible(Arena *a, const char *model) {
    int s =
        shell(a,
              "%s/qcc -q '%s' -o %s/a && %s/qcc -q -j 1 --no-cache '%s' -o %s/b && cmp %s/a %s/b",
              build, model, work, build, model, work, work, work);
    CHECK(s == 0, "two builds of %s differ", model);
    s = shell(a, "! ldd %s/a | grep -vE 'linux-vdso|libc\\.|libm\\.|ld-linux'", work);
    CHECK(s == 0, "the executable needs more than libc");
}

/* The metadata of a whole model, for the first part of one that is split. */
static void metadata_copy(GgufWriter *w, const Gguf *g) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (size_t i = 0; i < g->n_kv; i++) {
        const GgufKv *kv = &g->kv[i];
        gw_raw_key(w, kv->key.s, kv->key.n, kv->type);
        if (kv->type == GGUF_ARRAY) gw_put_int(&w->kv, kv->elem, 4), gw_put_int(&w->kv, kv->n, 8);
        if (kv->strings)
            for (uint64_t k = 0; k < kv->n; k++)
                gw_put_string(&w->kv, kv->strings[k].s, kv->strings[k].n);
        else gw_put(&w->kv, kv->data, kv->n * bytes[kv->type == GGUF_ARRAY ? kv->elem : kv->type]);
    }
}

/* The example as three parts, the first without tensors; any of them names the model. */
static void check_split(Arena *a, const char *model, const char *reference) {
    enum { PARTS = 3 };
    const Gguf *g = gguf_open(a, model);
    for (int part = 0; part < PARTS; part++) {
        GgufWriter w = {0};
        if (part == 0) metadata_copy(&w, g);
        gw_int(&w, "split.no", GGUF_U16, part);
        gw_int(&w, "split.count", GGUF_U16, PARTS);
        gw_int(&w, "split.tensors.count", GGUF_I32, (int64_t)g->n_tensors);
        for (size_t i = 0; part > 0 && i < g->n_tensors; i++) {
            const GgufTensor *t = &g->tensors[i];
            if ((i < g->n_tensors / 2) == (part == 1))
                gw_tensor(&w, t->name, t->type, t->n_dims, t->ne, t->data, t->bytes);
        }
        Bytes file = gw_finish(&w);
        file_write(arena_printf(a, "%s/split-%05d-of-%05d.gguf", work, part + 1, PARTS), file.p,
                   file.n, 0600);
        gw_free(&w);
    }
    const char *second = arena_printf(a, "%s/split-00002-of-%05d.gguf", work, PARTS);
    check_model(second, reference, "");
    shell(a, "rm -f %s/split-00003-*", work);
    CHECK(shell(a, "%s/qcc -q '%s' -o %s/gone 2>%s/err", build, second, work, work) != 0 &&
              result(a, "gone").n == 0,
          "a part that is gone");
}

/* A factor for a matrix whose format has no place for it: left out it would give nonsense. */
static void check_scale_refused(Arena *a, const char *model) {
    const Gguf *g = gguf_open(a, model);
    GgufWriter w = {0};
    metadata_copy(&w, g);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        gw_tensor(&w, t->name, t->type, t->n_dims, t->ne, t->data, t->bytes);
    }
    gw_tensor(&w, "blk.0.attn_q.scale", 0, 1, (uint64_t[]){1}, (float[]){2}, 4);
    Bytes file = gw_finish(&w);
    file_write(arena_printf(a, "%s/scale.gguf", work), file.p, file.n, 0600);
    gw_free(&w);
    int status = shell(a, "%s/qcc -q %s/scale.gguf -o %s/scale 2>%s/err", build, work, work, work);
    Bytes err = result(a, "err");
    CHECK(WEXITSTATUS(status) == 1 && result(a, "scale").n == 0 &&
              memmem(err.p, err.n, "'blk.0.attn_q.scale': scales of whole matrices", 46),
          "a scale that its matrix cannot take: status %d, %.*s", status, (int)err.n, err.p);
}

int main(void) {
    Arena *a = arena_create();
    build = getenv("BUILD") ? getenv("BUILD") : "build";
    char dir[] = "/tmp/qcc-test.XXXXXX";
    work = mkdtemp(dir);
    const char *example = "examples/tiny-stories-3m-q4_k_m.gguf";
    const char *example_reference = "tests/data/tiny-stories-3m-q4_k_m.p0.ref.gguf";
    check_model(example, example_reference, "");
    check_split(a, example, example_reference);
    check_reproducible(a, example);
    check_scale_refused(a, "tests/data/llama-tied.gguf");
    check_model("tests/data/llama-tied.gguf", "tests/data/llama-tied.ref.gguf", "");
    check_model("tests/data/llama-bias.gguf", "tests/data/llama-bias.ref.gguf", "--kv f32");
    if (check_shared() && getenv("QCC_ALL_MODELS")) {
        const char *models = arena_printf(a, "%s/fixtures/models", check_shared());
        static const char *const families[] = {"llama", "mistral", "mixtral"};
        for (size_t i = 0; i < 3; i++) check_directory(models, families[i]);
        check_directory(arena_printf(a, "%s/q", models), "llama-");
        static const char *const stories[] = {"f16", "q8_0", "q4_k_m"};
        for (size_t i = 0; i < 3; i++)
            for (int p = 0; p < 5; p++)
                check_model(arena_printf(a, "%s/models/tiny-stories-3m-%s.gguf", check_shared(),
                                         stories[i]),
                            arena_printf(a, "%s/models/refs/tiny-stories-3m-%s.p%d.ref.gguf",
                                         check_shared(), stories[i], p),
                            "");
    } else {
        SKIP("models of the shared fixtures");
    }
    shell(a, "rm -rf %s", work);
    arena_destroy(a);
    return check_done();
}
