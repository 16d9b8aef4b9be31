/* test_limits.c - limits of targets: bindings that roles share, and plans for targets that are
 * small in one respect. A plan is legal (plan_verify aborts otherwise), or there is one line that
 * names the limit. */
#include "../../compiler/embed.h"
#include "../../compiler/plan.h"
#include "check.h"
#include <string.h>

/* ---- every role is declared where its binding has it ----------------------------------------- */

static void check_line(const char *path, const char *line, size_t n) {
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)n, line);
    const char *bind = strstr(text, "binding = BIND_");
    if (!bind) return;
    char want[80], role[40] = "";
    sscanf(bind, "binding = BIND_%39[a-z#_]", role);
    snprintf(want, sizeof want, "{ layout(offset = AT_%s) ", role);
    CHECK(strstr(text, want), "%s: %s", path, text);
}

static void test_declarations(void) {
    for (const EmbeddedFile *f = embedded_files; f->path; f++) {
        if (strncmp(f->path, "kernels/", 8) != 0) continue;
        for (const char *s = f->text, *end = s + f->n; s < end;) {
            const char *eol = memchr(s, '\n', (size_t)(end - s));
            if (!eol) eol = end;
            check_line(f->path, s, (size_t)(eol - s));
            s = eol + 1;
        }
    }
}

/* ---- bindings -------------------------------------------------------------------------------- */

/* x, y and z lie in zone 0, w far from v in zone 1. */
static KernelChoice numbered(uint32_t most, uint32_t range) {
    static const char *const roles[] = {"x", "w", "y", "v", "z"};
    static const RolePlace place[] = {
        {0, 4096, 64}, {1, 0, 1024}, {0, 1024, 512}, {1, 1 << 20, 16}, {0, 8192, 32}};
    Target t = {.max_storage_bindings = most, .max_storage_range = range};
    KernelOp op = {.op = "test"};
    KernelChoice c = {0};
    for (int i = 0; i < 5; i++) {
        kernel_op_role(&op, roles[i]);
        op.place[i] = place[i];
        c.role[c.n_roles++].name = roles[i];
    }
    bindings_number(&t, &op, &c);
    return c;
}

static void check_bindings(uint32_t most, uint32_t range, uint32_t n, const char *expected) {
    KernelChoice c = numbered(most, range);
    char text[200] = "";
    for (uint32_t i = 0; i < c.n_roles; i++) {
        size_t k = strlen(text);
        snprintf(text + k, sizeof text - k, "%s%s %u:%u", i ? ", " : "", c.role[i].name,
                 c.role[i].binding, c.role[i].at);
    }
    CHECK(c.n_bindings == n && strcmp(text, expected) == 0, "%u of %u: %s", c.n_bindings, n, text);
}

static void test_bindings(void) {
    check_bindings(5, 1 << 27, 5, "x 0:0, w 1:0, y 2:0, v 3:0, z 4:0");
    check_bindings(4, 1 << 27, 4, "x 0:3072, w 1:0, y 0:0, v 2:0, z 3:0");
    check_bindings(3, 1 << 27, 3, "x 0:3072, w 1:0, y 0:0, v 2:0, z 0:7168");
    check_bindings(2, 1 << 27, 2, "x 0:3072, w 1:0, y 0:0, v 1:1048576, z 0:7168");
    check_bindings(1, 1 << 27, 2,
                   "x 0:3072, w 1:0, y 0:0, v 1:1048576, z 0:7168"); /* zones stay apart */
    check_bindings(2, 1 << 20, 3,
                   "x 0:3072, w 1:0, y 0:0, v 2:0, z 0:7168"); /* v lies beyond one range */
    check_bindings(2, 5000, 4, "x 0:3072, w 1:0, y 0:0, v 2:0, z 3:0");
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void target_limit(Target *t, const char *name, uint64_t v) {
    uint32_t u = (uint32_t)v;
    if (!strcmp(name, "maxStorageBufferRange")) t->max_storage_range = v;
    else if (!strcmp(name, "maxBufferSize")) t->max_buffer = v;
    else if (!strcmp(name, "maxMemoryAllocationSize")) t->max_allocation = v;
    else if (!strcmp(name, "storage buffers")) t->max_storage_bindings = u;
    else if (!strcmp(name, "invocations")) t->max_invocations = u;
    else if (!strcmp(name, "shared memory")) t->shared_bytes = u;
    else if (!strcmp(name, "workgroups")) t->max_groups[0] = t->max_groups[1] = u;
    else if (!strcmp(name, "memory budget")) t->device_heap = v;
    else CHECK(false, "%s", name);
}

static char model[4096] = "tests/data/llama-tied.gguf";

/* Plans the model for a target with one limit lowered. Returns whether there is a plan; otherwise
 * the line names the limit. */
static bool plan_with(const char *target, const char *name, uint64_t v) {
    Arena *a = arena_create();
    FailTrap trap;
    volatile bool planned = false;
    if (fail_catch(&trap)) {
        CHECK(trap.kind == FAIL_USER && strstr(trap.message, name) && !strchr(trap.message, '\n'),
              "%s %s %llu: %s", target, name, (unsigned long long)v, trap.message);
        CHECK(strstr(trap.message, target), "%s", trap.message);
    } else {
        Target *t = target_read(a, target, 0);
        Model *m = model_read(a, gguf_open(a, model));
        PlanOptions o = {.n_ctx = 256, .batch = 64};
        Program *g = fuse(a, graph_build(a, m, o.n_ctx, NULL));
        target_limit(t, name, v);
        plan_make(a, g, t, &o);
        planned = true;
        fail_pop(&trap);
    }
    arena_destroy(a);
    return planned;
}

/* From nothing to much: lines first, then plans, and no line behind a plan. */
static void sweep(const char *target, const char *name, uint64_t from, uint64_t to,
                  uint32_t factor) {
    bool planned = false;
    uint32_t lines = 0;
    for (uint64_t v = from; v <= to; v *= factor) {
        bool now = plan_with(target, name, v);
        CHECK(now || !planned, "%s: %s: a plan for less, none for %llu", target, name,
              (unsigned long long)v);
        planned = now, lines += !now;
    }
    CHECK(planned && lines, "%s: %s: %u lines, %s", target, name, lines,
          planned ? "then plans" : "no plan");
}

static void test_plans(void) {
    static const char *const targets[] = {"android-2022-baseline", "amd-rx-9070xt-radv"};
    for (int i = 0; i < 2; i++) {
        sweep(targets[i], "maxStorageBufferRange", 1, 1 << 27, 8);
        sweep(targets[i], "maxBufferSize", 1, 1 << 27, 8);
        sweep(targets[i], "maxMemoryAllocationSize", 1, 1 << 27, 8);
        sweep(targets[i], "memory budget", 16, 1 << 28, 16);
        sweep(targets[i], "storage buffers", 1, 8, 2);
        sweep(targets[i], "invocations", 1, 1024, 2);
        sweep(targets[i], "shared memory", 16, 65536, 4);
        sweep(targets[i], "workgroups", 1, 65536, 16);
    }
}

int main(void) {
    test_declarations();
    test_bindings();
    test_plans();
    if (check_shared()) { /* experts are cut into parts in a way of their own */
        snprintf(model, sizeof model, "%s/fixtures/models/mixtral.gguf", check_shared());
        test_plans();
        /* the codebook of the weights takes its part of shared memory */
        snprintf(model, sizeof model, "%s/fixtures/models/q/llama-IQ1_S.gguf", check_shared());
        sweep("android-2022-baseline", "shared memory", 4096, 65536, 2);
        sweep("amd-rx-9070xt-radv", "shared memory", 4096, 65536, 2);
    } else {
        SKIP("limits of models with experts or codebooks");
    }
    return check_done();
}
