/* select_text.c - operations, and the text that is compiled for a choice: see select.h. */
#include "select_private.h"
#include <string.h>

void kernel_op_uint(KernelOp *op, const char *name, uint64_t v) {
    ASSERT(op->n_constants < KERNEL_MAX_CONSTANTS && v <= UINT32_MAX);
    op->constants[op->n_constants++] = (Constant){name, (double)v, false};
}
void kernel_op_float(KernelOp *op, const char *name, double v) {
    ASSERT(op->n_constants < KERNEL_MAX_CONSTANTS);
    op->constants[op->n_constants++] = (Constant){name, v, true};
}
void kernel_op_weights(KernelOp *op, const Format *f, uint32_t k,
                       const uint64_t plane[FORMAT_MAX_PLANES]) {
    static const char *const name[FORMAT_MAX_PLANES] = {"PLANE0", "PLANE1", "PLANE2", "PLANE3"};
    op->format = f;
    kernel_op_uint(op, "K", k);
    for (uint32_t p = 0; p < FORMAT_MAX_PLANES; p++)
        kernel_op_uint(op, name[p], p < f->n_planes ? plane[p] : 0);
    if (f->columns) kernel_op_uint(op, "COLUMNS_AT", plane[f->n_planes - 1]);
    if (format_outliers(f, k) == 0) return;
    kernel_op_uint(op, "OUTLIERS", format_outliers(f, k));
    kernel_op_uint(op, "OUTLIERS_AT", plane[f->n_planes - 1]);
}
void kernel_op_role(KernelOp *op, const char *role) {
    ASSERT(op->n_roles < KERNEL_MAX_ROLES);
    op->roles[op->n_roles++] = role;
}

uint32_t format_shared(const KernelOp *op) { return op->format ? op->format->shared_bytes : 0; }

static int constant_print(Arena *a, Text *out, const Constant *c) {
    if (c->is_float) {
        char *s = arena_printf(a, "%.9g", c->value);
        text_printf(out, "#define %s %s%s\n", c->name, s, strpbrk(s, ".en") ? "" : ".0");
    } else {
        text_printf(out, "#define %s %uu\n", c->name, (uint32_t)c->value);
    }
    return 0;
}

const char *kv_name(KvType t) { return t == KV_F16 ? "f16" : t == KV_F32 ? "f32" : "q8_0"; }

const char *wrapper_text(const KernelLibrary *l, const KernelOp *op, const KernelFile *f,
                         const KernelFile *inner, const KernelChoice *c) {
    Arena *a = l->arena;
    Text out = {.arena = a};
    text_printf(&out, "#version 450\n");
    for (uint32_t i = 0; i < op->n_constants; i++) constant_print(a, &out, &op->constants[i]);
    for (uint32_t i = 0; i < c->n_knobs; i++) constant_print(a, &out, &c->knobs[i]);
    for (uint32_t i = 0; i < c->n_roles; i++)
        text_printf(&out, "#define BIND_%s %u\n#define AT_%s %u\n", c->role[i].name,
                    c->role[i].binding, c->role[i].name, c->role[i].at);
    for (int i = 0; i < N_CAP; i++) {
        text_printf(&out, "#define HAS_");
        for (const char *p = capability_names[i]; *p; p++)
            text_printf(&out, "%c", *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
        text_printf(&out, " %d\n", l->target->caps[i]);
    }
    if (op->format) text_printf(&out, "#include \"formats/%s.h\"\n", op->format->name);
    if (op->uses_kv) text_printf(&out, "#include \"kv/%s.glsl\"\n", kv_name(op->kv));
    if (inner) text_printf(&out, "#include \"%s\"\n", inner->file);
    uint32_t codebook = format_shared(op);
    if (codebook) text_printf(&out, "#define main kernel_main\n");
    text_printf(&out, "#include \"%s\"\n", f->file);
    if (codebook)
        text_printf(&out,
                    "#undef main\nvoid main() {\n    fmt_prepare(gl_LocalInvocationIndex, LOCAL);\n"
                    "    barrier();\n    kernel_main();\n}\n");
    return out.s;
}

const char *label_text(Arena *a, const KernelOp *op, const KernelChoice *c) {
    Text out = {.arena = a};
    text_printf(&out, "%s%s%s", c->file, c->inner ? "/" : "", c->inner ? c->inner : "");
    if (op->format) text_printf(&out, " %s", op->format->name);
    for (uint32_t i = 0; i < c->n_knobs; i++)
        text_printf(&out, " %s=%g", c->knobs[i].name, c->knobs[i].value);
    return out.s;
}
