/* spirv.c - see spirv.h. */
#include "spirv.h"
#include "embed.h"
#include <ctype.h>
#include <pthread.h>
#include <shaderc/shaderc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef QCC_SHADERC_VERSION
#define QCC_SHADERC_VERSION "unknown"
#endif

enum { SPIRV_MAGIC = 0x07230203, CACHE_FORMAT = 3 };

/* ---- sources: embedded files, or those of a directory that overrides them -------------------- */

static Bytes source_find(Arena *a, const char *dir, const char *name) {
    if (dir) {
        const char *path = arena_printf(a, "%s/kernels/%s", dir, name);
        if (access(path, R_OK) == 0) return file_map(a, path);
    }
    return embedded_find(arena_printf(a, "kernels/%s", name));
}

/* Feeds text and, recursively, every file that it could include into the hash. */
static void source_hash(Arena *a, const char *dir, XXH3_state_t *h, const char *s, size_t n,
                        int depth) {
    XXH3_128bits_update(h, s, n);
    static const char word[] = "#include \"";
    const char *end = s + n;
    for (const char *p = s; depth < 8 && (p = memchr(p, '#', (size_t)(end - p))); p++) {
        if ((size_t)(end - p) < sizeof word || memcmp(p, word, sizeof word - 1) != 0) continue;
        const char *name = p + sizeof word - 1;
        const char *close = memchr(name, '"', (size_t)(end - name));
        if (!close) return;
        Bytes b = source_find(a, dir, arena_strndup(a, name, (size_t)(close - name)));
        if (b.p) source_hash(a, dir, h, (const char *)b.p, b.n, depth + 1);
    }
}

/* ---- the compiler ---------------------------------------------------------------------------- */

typedef struct {
    Arena *arena;
    const char *dir;
} IncludeContext;

static shaderc_include_result *include_resolve(void *user, const char *requested, int type,
                                               const char *from, size_t depth) {
    (void)type, (void)from, (void)depth;
    IncludeContext *c = user;
    shaderc_include_result *r = ARENA_NEW(c->arena, shaderc_include_result);
    Bytes b = source_find(c->arena, c->dir, requested);
    if (b.p) {
        r->source_name = arena_strdup(c->arena, requested);
        r->source_name_length = strlen(requested);
        r->content = (const char *)b.p;
        r->content_length = b.n;
    } else {
        r->source_name = "";
        r->content = arena_printf(c->arena, "no kernel file '%s'", requested);
        r->content_length = strlen(r->content);
    }
    return r;
}
static void include_release(void *user, shaderc_include_result *r) { (void)user, (void)r; }

/* SPIR-V 1.3 is what Vulkan 1.1 reads; newer devices get 1.5, which newer extensions ask for. 1.6
 * only where an extension does not do with less: there some compilers state the workgroup's size by
 * ids, and subgroup sizes may vary unasked. */
typedef struct {
    shaderc_env_version vulkan;
    shaderc_spirv_version spirv;
} Environment;

static Environment environment_of(uint32_t api_version, uint32_t needs) {
    if (needs & 1u << CAP_COOPMAT2)
        return (Environment){shaderc_env_version_vulkan_1_3, shaderc_spirv_version_1_6};
    if ((api_version >> 12 & 0x3ff) >= 3)
        return (Environment){shaderc_env_version_vulkan_1_3, shaderc_spirv_version_1_5};
    return (Environment){shaderc_env_version_vulkan_1_1, shaderc_spirv_version_1_3};
}

static shaderc_compilation_result_t compile_text(shaderc_compiler_t c, IncludeContext *inc,
                                                 const char *name, const char *source,
                                                 Environment e) {
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan, e.vulkan);
    shaderc_compile_options_set_target_spirv(o, e.spirv);
    shaderc_compile_options_set_optimization_level(o, shaderc_optimization_level_performance);
    shaderc_compile_options_set_include_callbacks(o, include_resolve, include_release, inc);
    shaderc_compilation_result_t r = shaderc_compile_into_spv(c, source, strlen(source),
                                                              shaderc_compute_shader, name, "main",
                                                              o);
    shaderc_compile_options_release(o);
    return r;
}

/* ---- facts read back from a module ----------------------------------------------------------- */

static bool module_reflect(SpirvJob *j) {
    size_t n = j->bytes / 4;
    if (j->bytes % 4 || n < 5 || j->words[0] != SPIRV_MAGIC) return false;
    enum {
        OP_EXECUTION_MODE = 16,
        OP_DECORATE = 71,
        MODE_LOCAL_SIZE = 17,
        DECORATION_BINDING = 33
    };
    j->n_bindings = 0, j->local_size = 0;
    for (size_t i = 5; i < n;) {
        uint32_t count = j->words[i] >> 16, op = j->words[i] & 0xffff;
        if (count == 0 || count > n - i) return false;
        const uint32_t *w = j->words + i;
        if (op == OP_EXECUTION_MODE && count >= 6 && w[2] == MODE_LOCAL_SIZE)
            j->local_size = w[3] * w[4] * w[5];
        if (op == OP_DECORATE && count >= 4 && w[2] == DECORATION_BINDING &&
            w[3] + 1 > j->n_bindings)
            j->n_bindings = w[3] + 1;
        i += count;
    }
    j->hash = XXH3_64bits(j->words, j->bytes);
    return j->local_size > 0;
}

/* ---- the cache ------------------------------------------------------------------------------- */

typedef struct {
    XXH128_hash_t key;
    uint64_t bytes, hash;
} CacheHeader;

static bool cache_load(Arena *a, const char *path, XXH128_hash_t key, SpirvJob *j) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    CacheHeader h;
    bool ok = fread(&h, sizeof h, 1, f) == 1 && XXH128_isEqual(h.key, key) && h.bytes >= 20 &&
              h.bytes < 64u << 20;
    if (ok) {
        j->words = arena_alloc(a, h.bytes);
        j->bytes = h.bytes;
        ok = fread(j->words, 1, h.bytes, f) == h.bytes &&
             XXH3_64bits(j->words, h.bytes) == h.hash && module_reflect(j);
    }
    fclose(f);
    return ok;
}

/* A cache that cannot be written is no error: the next run compiles again. */
static void cache_store(Arena *a, const char *path, XXH128_hash_t key, const SpirvJob *j) {
    const char *tmp = arena_printf(a, "%s.%ld.%p", path, (long)getpid(), (const void *)j);
    FILE *f = fopen(tmp, "wb");
    if (!f) return;
    CacheHeader h = {key, j->bytes, XXH3_64bits(j->words, j->bytes)};
    bool ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(j->words, 1, j->bytes, f) == j->bytes;
    ok = fclose(f) == 0 && ok;
    if (!ok || rename(tmp, path) != 0) unlink(tmp);
}

/* ---- parallel compilation -------------------------------------------------------------------- */

typedef struct {
    SpirvJob *jobs;
    size_t n;
    atomic_size_t next;
    const char *dir, *cache;
    const char **error; /* [n] */
} Batch;

/* Memory of a thread: arenas are not shared between threads. Results are copied out by the
 * caller. */
typedef struct {
    Batch *batch;
    Arena *arena;
    shaderc_compiler_t compiler;
    pthread_t thread;
    bool started;
} Worker;

static void job_compile(Worker *w, size_t i) {
    SpirvJob *j = &w->batch->jobs[i];
    XXH3_state_t *h = XXH3_createState();
    XXH3_128bits_reset(h);
    char setup[128];
    Environment e = environment_of(j->api_version, j->needs);
    int k = snprintf(setup, sizeof setup, "%d|%s|%u|%u", CACHE_FORMAT, QCC_SHADERC_VERSION,
                     (unsigned)e.vulkan, (unsigned)e.spirv);
    XXH3_128bits_update(h, setup, (size_t)k);
    source_hash(w->arena, w->batch->dir, h, j->source, strlen(j->source), 0);
    XXH128_hash_t key = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    const char *path = w->batch->cache
                           ? arena_printf(w->arena, "%s/%016llx%016llx.spv", w->batch->cache,
                                          (unsigned long long)key.high64,
                                          (unsigned long long)key.low64)
                           : NULL;
    if (path && cache_load(w->arena, path, key, j)) return;
    if (!w->compiler) w->compiler = shaderc_compiler_initialize();
    IncludeContext inc = {w->arena, w->batch->dir};
    shaderc_compilation_result_t r = compile_text(w->compiler, &inc, j->name, j->source, e);
    if (shaderc_result_get_compilation_status(r) != shaderc_compilation_status_success) {
        w->batch->error[i] = arena_strdup(w->arena, shaderc_result_get_error_message(r));
    } else {
        j->bytes = shaderc_result_get_length(r);
        j->words = arena_copy(w->arena, shaderc_result_get_bytes(r), j->bytes);
        if (!module_reflect(j))
            w->batch->error[i] = "the shader compiler returned a malformed module";
        else if (path) cache_store(w->arena, path, key, j);
    }
    shaderc_result_release(r);
}

static void *worker_run(void *arg) {
    Worker *w = arg;
    for (size_t i; (i = atomic_fetch_add(&w->batch->next, 1)) < w->batch->n;) job_compile(w, i);
    if (w->compiler) shaderc_compiler_release(w->compiler);
    return NULL;
}

static void arena_release(void *a) { arena_destroy(a); }

void spirv_compile(Arena *a, SpirvJob *jobs, size_t n, uint32_t n_threads, const char *override_dir,
                   bool use_cache) {
    const char *cache = NULL;
    if (use_cache && cache_dir(a)) {
        cache = arena_printf(a, "%s/spirv", cache_dir(a));
        file_mkdirs(cache);
        if (access(cache, W_OK) != 0) cache = NULL;
    }
    Batch b = {.jobs = jobs,
               .n = n,
               .dir = override_dir,
               .cache = cache,
               .error = ARENA_ARRAY(a, const char *, n)};
    if (n_threads < 1) n_threads = 1;
    if (n_threads > n) n_threads = n ? (uint32_t)n : 1;
    Worker *w = ARENA_ARRAY(a, Worker, n_threads);
    for (uint32_t t = 0; t < n_threads; t++) {
        w[t] = (Worker){.batch = &b, .arena = arena_create()};
        arena_defer(a, arena_release, w[t].arena); /* the modules live there */
        if (t > 0) w[t].started = pthread_create(&w[t].thread, NULL, worker_run, &w[t]) == 0;
    }
    worker_run(&w[0]);
    for (uint32_t t = 1; t < n_threads; t++)
        if (w[t].started) pthread_join(w[t].thread, NULL);
    for (size_t i = 0; i < n; i++)
        if (b.error[i])
            fail(FAIL_ENVIRONMENT,
                 "kernel '%s' does not compile with this shader compiler (%s): %s", jobs[i].name,
                 QCC_SHADERC_VERSION, b.error[i]);
}

/* ---- what the shader compiler itself can do -------------------------------------------------- */

static const char *const ability_text[N_CAP] = {
    [CAP_IDOT] = "#extension GL_EXT_spirv_intrinsics : require\n"
                 "spirv_instruction(extensions=[\"SPV_KHR_integer_dot_product\"], "
                 "capabilities=[6019,6018], id=4450)\n"
                 "int sdot4(int a, int b, spirv_literal int fmt);\n"
                 "layout(set=0,binding=0) buffer B { int b[]; };\nvoid main() { b[0] = sdot4(b[1], "
                 "b[2], 0); }\n",
    [CAP_COOPMAT] = "#extension GL_KHR_cooperative_matrix : require\n#extension "
                    "GL_KHR_memory_scope_semantics : require\n"
                    "void main() {}\n",
    [CAP_COOPMAT2] = "#extension GL_NV_cooperative_matrix2 : require\n#extension "
                     "GL_KHR_cooperative_matrix : require\n"
                     "void main() {}\n",
};

const ShaderAbility *shader_ability(void) {
    static ShaderAbility s;
    static bool known;
    if (known) return &s;
    Arena *a = arena_create();
    IncludeContext inc = {a, NULL};
    shaderc_compiler_t c = shaderc_compiler_initialize();
    s.version = QCC_SHADERC_VERSION;
    for (int i = 0; i < N_CAP; i++) {
        s.caps[i] = true;
        if (!ability_text[i]) continue;
        const char *text = arena_printf(a, "#version 450\n%s", ability_text[i]);
        shaderc_compilation_result_t r =
            compile_text(c, &inc, "probe", text, environment_of((1u << 22) | (3u << 12), 1u << i));
        s.caps[i] = shaderc_result_get_compilation_status(r) == shaderc_compilation_status_success;
        shaderc_result_release(r);
    }
    shaderc_compiler_release(c);
    arena_destroy(a);
    known = true;
    return &s;
}
