/* compile.c - see compile.h. One call per pass; this file tells the order and nothing else. */
#include "compile.h"
#include "../runtime/payload.h"
#include "balance.h"
#include "emit.h"
#include "link.h"
#include "pack.h"
#include "vocab.h"
#include "weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static uint32_t thread_count(const CompileOptions *o) {
    long n = o->n_threads ? (long)o->n_threads : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

static void dump(Text *t) {
    if (t->n) fwrite(t->s, 1, t->n, stdout);
    t->n = 0;
}

CompiledPlan *compile_plan(Arena *a, const CompileOptions *o) {
    Text out = {.arena = a};
    Gguf *gguf = gguf_open(a, o->model);
    if (o->weights) weights_choose(a, gguf, o->weights);
    graph_check_arch(a, gguf, model_arch(a, gguf), o->plan.lua_path);
    Model *model = model_read(a, gguf);
    if (o->dump & DUMP_MODEL) model_print(model, &out), dump(&out);
    PlanOptions options = o->plan;
    options.n_ctx = plan_context(model, options.n_ctx);
    Graph *graph = graph_build(a, model, options.n_ctx, options.lua_path);
    graph_verify(graph);
    if (o->dump & DUMP_GRAPH) graph_print(graph, &out), dump(&out);
    Program *program = fuse(a, graph);
    program_verify(program);
    if (o->dump & DUMP_STEPS) program_print(program, &out), dump(&out);
    Target *target = target_read(a, o->target ? o->target : "auto", o->device);
    CompiledPlan *p = plan_make(a, program, target, &options);
    if (o->dump & DUMP_PLAN) plan_print(p, &out), dump(&out);
    if (o->dump & DUMP_KERNELS) plan_kernels_print(p, &out), dump(&out);
    return p;
}

/* ---- passes that have no file of their own --------------------------------------------------- */

/* Texts that differ may give one module: not every constant of an operation matters to its
 * kernel. */
static void modules_merge(Arena *a, CompiledPlan *p) {
    uint32_t *to = ARENA_ARRAY(a, uint32_t, p->n_modules), n = 0;
    for (uint32_t i = 0; i < p->n_modules; i++) {
        const SpirvJob *m = &p->module[i].spirv;
        const KernelChoice *c = p->op[p->module[i].first_op].choice;
        uint32_t k = 0;
        for (; k < n; k++) {
            const SpirvJob *o = &p->module[k].spirv;
            const KernelChoice *d = p->op[p->module[k].first_op].choice;
            if (o->hash == m->hash && o->bytes == m->bytes &&
                memcmp(o->words, m->words, m->bytes) == 0 && d->subgroup == c->subgroup &&
                d->n_bindings == c->n_bindings)
                break;
        }
        to[i] = k;
        if (k == n) p->module[n++] = p->module[i];
    }
    p->n_modules = n;
    for (uint32_t i = 0; i < p->n_ops; i++) p->op[i].kernel = to[p->op[i].kernel];
}

/* All modules, then: what a module says of itself is what the plan was made for. */
static void compile_kernels(Arena *a, CompiledPlan *p, const CompileOptions *o) {
    SpirvJob *jobs = ARENA_ARRAY(a, SpirvJob, p->n_modules);
    for (uint32_t i = 0; i < p->n_modules; i++) jobs[i] = p->module[i].spirv;
    spirv_compile(a, jobs, p->n_modules, thread_count(o), o->plan.lua_path, !o->no_cache);
    for (uint32_t i = 0; i < p->n_modules; i++) {
        const KernelChoice *c = p->op[p->module[i].first_op].choice;
        p->module[i].spirv = jobs[i];
        if (jobs[i].local_size != c->local || jobs[i].n_bindings > c->n_bindings)
            fail(FAIL_USER,
                 "kernels/%s.comp: the module has %u invocations and %u bindings, its header says "
                 "%u and %u",
                 c->file, jobs[i].local_size, jobs[i].n_bindings, c->local, c->n_bindings);
    }
    modules_merge(a, p);
}

/* Weights that one token touches, in elements. */
static double model_size(const Model *m) {
    double n = 0;
    for (size_t i = 0; i < m->gguf->n_tensors; i++) {
        const GgufTensor *t = &m->gguf->tensors[i];
        n += (double)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    }
    return n;
}

/* Check vectors: a fixed sequence of ids and the reference's logits for the last of them. */
static Bytes check_vectors(Arena *a, const CompiledPlan *p, const CompileOptions *o,
                           uint32_t *n_tokens) {
    enum { MOST = 20, ROWS = 4 };
    const Model *m = p->program->graph->model;
    const double budget = 1e9; /* multiply-adds that the reference does in about a second */
    double afford = budget / model_size(m);
    uint32_t n = o->n_check >= 0 ? (uint32_t)o->n_check : afford > MOST ? MOST : (uint32_t)afford;
    if (n > p->options.n_ctx) n = p->options.n_ctx;
    *n_tokens = n;
    if (n == 0) {
        note(1, "no check vectors: the reference would take long on a model of this size; --check "
                "N makes them");
        return (Bytes){0};
    }
    PayloadCheck head = {.n_tokens = n, .n_rows = n < ROWS ? n : ROWS, .n_vocab = m->n_vocab};
    uint32_t *token = ARENA_ARRAY(a, uint32_t, n);
    for (uint32_t i = 0, x = 12345; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        token[i] = (uint32_t)(((uint64_t)x * m->n_vocab) >> 32);
    }
    size_t row = m->n_vocab * sizeof(float), bytes = sizeof head + 4ull * n + head.n_rows * row;
    uint8_t *blob = arena_alloc(a, bytes);
    Arena *scratch = arena_create();
    float *logits = ARENA_ARRAY(scratch, float, (size_t)n * m->n_vocab);
    Reference *r = reference_create(scratch, p->program->graph, n, p->options.kv);
    reference_run(r, token, n, logits, false);
    memcpy(blob, &head, sizeof head);
    memcpy(blob + sizeof head, token, 4ull * n);
    memcpy(blob + sizeof head + 4ull * n, logits + (size_t)(n - head.n_rows) * m->n_vocab,
           head.n_rows * row);
    arena_destroy(scratch);
    return (Bytes){blob, bytes};
}

static void emit_files(Arena *a, const CompiledPlan *p, const char *dir, const char *c_text,
                       const char *manifest) {
    file_mkdirs(dir);
    file_write(arena_printf(a, "%s/model.c", dir), c_text, strlen(c_text), 0644);
    file_write(arena_printf(a, "%s/manifest.json", dir), manifest, strlen(manifest), 0644);
    for (uint32_t i = 0; i < p->n_modules; i++) {
        const PlanModule *m = &p->module[i];
        file_write(arena_printf(a, "%s/%s.comp", dir, m->name), m->source, strlen(m->source), 0644);
        file_write(arena_printf(a, "%s/%s.spv", dir, m->name), m->spirv.words, m->spirv.bytes,
                   0644);
    }
}

static void stage(const char *name, double *since) {
    double t = now_s();
    note(2, "%-8s %6.0f ms", name, 1e3 * (t - *since));
    *since = t;
}

void compile(Arena *a, const CompileOptions *o) {
    double start = now_s(), t = start;
    CompiledPlan *p = compile_plan(a, o);
    const Gguf *gguf = p->program->graph->model->gguf;
    stage("plan", &t);
    balance_columns(a, p->program, thread_count(o));
    stage("balance", &t);
    Bytes vocab = vocab_pack(a, gguf);
    stage("vocab", &t);
    compile_kernels(a, p, o);
    stage("spirv", &t);
    uint32_t n_check;
    Bytes check = check_vectors(a, p, o, &n_check);
    stage("check", &t);
    const char *manifest = emit_manifest(a, p, pack_hash_model(gguf), n_check);
    const char *c_text = emit_c(a, p, manifest);
    if (o->emit_dir) emit_files(a, p, o->emit_dir, c_text, manifest);
    stage("emit", &t);
    if (!o->output) return;
    const char *elf = link_elf(a, link_workdir(a), c_text, o->cc, o->keep_symbols);
    stage("link", &t);
    PackBlob *blobs = ARENA_ARRAY(a, PackBlob, p->n_modules + 3);
    uint32_t n = 0;
    blobs[n++] = (PackBlob){FRAME_MANIFEST, 0, {(const uint8_t *)manifest, strlen(manifest)}};
    blobs[n++] = (PackBlob){FRAME_VOCAB, 0, vocab};
    if (check.n) blobs[n++] = (PackBlob){FRAME_CHECK, 0, check};
    for (uint32_t i = 0; i < p->n_modules; i++)
        blobs[n++] = (PackBlob){
            FRAME_SPIRV, i, {(const uint8_t *)p->module[i].spirv.words, p->module[i].spirv.bytes}};
    uint64_t bytes = pack_write(a, p, elf, blobs, n, XXH3_64bits(manifest, strlen(manifest)),
                                thread_count(o), o->output);
    stage("pack", &t);
    if (p->host_weight_bytes)
        note(1,
             "%s of the %s of weights stay in host memory: the budget of device memory is %s (%s)",
             human_bytes(a, p->host_weight_bytes), human_bytes(a, p->weight_bytes),
             human_bytes(a, p->budget),
             p->options.vram_budget ? "--vram-budget"
                                    : "nine tenths of the target's heap; --vram-budget changes it");
    note(1, "%s: %s, %u kernels, %s for %s, context %u, %.1f s", o->output, human_bytes(a, bytes),
         p->n_modules, human_bytes(a, p->weight_bytes), p->target->device_name, p->options.n_ctx,
         now_s() - start);
}
