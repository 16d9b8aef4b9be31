/* print.c - a target as text. */
#include "internal.h"
#include <string.h>

static const char *size_text(Text *out, uint64_t n) {
    return n >= UINT64_C(1) << 62 ? "no limit" : human_bytes(out->arena, n);
}

static void print_limits(const Target *t, Text *out) {
    text_printf(out, "  memory      %s device-local, %s\n", human_bytes(out->arena, t->device_heap),
                t->unified ? "shared with the host" : "apart from the host's");
    text_printf(out,
                "  buffers     range %s, buffer %s, allocation %s, offsets by %u, %u bindings\n",
                size_text(out, t->max_storage_range), size_text(out, t->max_buffer),
                size_text(out, t->max_allocation), t->storage_alignment, t->max_storage_bindings);
    text_printf(out, "  workgroup   %u invocations (%u x %u x %u), shared memory %s\n",
                t->max_invocations, t->max_local[0], t->max_local[1], t->max_local[2],
                human_bytes(out->arena, t->shared_bytes));
    text_printf(out, "  grid        %u x %u x %u on %u units\n", t->max_groups[0], t->max_groups[1],
                t->max_groups[2], t->n_units);
    text_printf(out, "  subgroup    %u", t->subgroup);
    if (t->subgroup_min != t->subgroup_max)
        text_printf(out, " (%u to %u)", t->subgroup_min, t->subgroup_max);
    text_printf(out, "\n");
}

static void print_capabilities(const Target *t, Text *out) {
    text_printf(out, "  has        ");
    for (int i = 0; i < N_CAP; i++)
        if (t->caps[i]) text_printf(out, " %s", capability_names[i]);
    text_printf(out, "\n");
    for (int i = 0; i < N_CAP; i++)
        if (!t->caps[i])
            text_printf(out, "  has not     %s (%s)\n", capability_names[i], t->missing[i]);
    if (t->caps[CAP_COOPMAT]) {
        text_printf(out, "  coopmat    ");
        for (uint32_t i = 0; i < t->n_coopmat; i++)
            text_printf(out, " %ux%ux%u", t->coopmat[i].m, t->coopmat[i].n, t->coopmat[i].k);
        text_printf(out, "\n");
    }
}

void target_print(const Target *t, Text *out) {
    text_printf(out, "target %s: %s, Vulkan %u.%u, vendor %04x, device %04x, driver %08x\n",
                t->name, t->device_name, t->api_version >> 22 & 0x7f, t->api_version >> 12 & 0x3ff,
                t->vendor_id, t->device_id, t->driver_version);
    print_limits(t, out);
    print_capabilities(t, out);
    text_printf(out,
                "  cost        %s: read %.4g GB/s, dispatch %.3g us, barrier %.3g us, submit %.3g "
                "us, f32 %.0f GFLOPS, "
                "idot %.0f GOPS\n",
                t->measured ? "measured" : "estimated", (double)t->read_gbps,
                (double)t->dispatch_us, (double)t->barrier_us, (double)t->submit_us,
                (double)t->flops_gf, (double)t->idot_gops);
}

void target_list(Text *out) {
    for (const EmbeddedFile *f = embedded_files; f->path; f++) {
        const char *name = rules_builtin_name(out->arena, f);
        if (!name) continue;
        const Target *t = profile_parse(out->arena, name, f->text, f->n);
        text_printf(out, "%-24s %-48s %s\n", name, t->device_name,
                    human_bytes(out->arena, t->device_heap));
    }
}
