/* bindings.c - storage buffers of a kernel: one for each role, or, where the target allows fewer,
 * some for several roles.
 *
 * Roles that share a binding are blocks at offsets of one descriptor, which covers them and what
 * lies between. The bytes of the roles of an operation do not overlap, so nothing is said twice. */
#include "select.h"
#include <string.h>

/* GLSL's layout(offset) is a signed number. */
static const uint64_t MOST = INT32_MAX;

static const RolePlace *place_of(const KernelOp *op, const char *role) {
    for (uint32_t i = 0; i < op->n_roles; i++)
        if (strcmp(op->roles[i], role) == 0) return &op->place[i];
    return NULL;
}

static RolePlace cover(const RolePlace *x, const RolePlace *y) {
    uint64_t from = x->offset < y->offset ? x->offset : y->offset;
    uint64_t x_end = x->offset + x->bytes, y_end = y->offset + y->bytes;
    return (RolePlace){x->zone, from, (x_end > y_end ? x_end : y_end) - from};
}

/* Joins the two bindings with the smallest cover; false if none can be joined. */
static bool join_nearest(KernelChoice *c, RolePlace *at, uint64_t limit) {
    uint64_t best = UINT64_MAX;
    uint32_t to = 0, from = 0;
    for (uint32_t i = 0; i < c->n_bindings; i++)
        for (uint32_t k = i + 1; k < c->n_bindings; k++) {
            if (at[i].zone != at[k].zone || !at[i].bytes || !at[k].bytes) continue;
            uint64_t bytes = cover(&at[i], &at[k]).bytes;
            if (bytes <= limit && bytes < best) best = bytes, to = i, from = k;
        }
    if (best == UINT64_MAX) return false;
    at[to] = cover(&at[to], &at[from]);
    c->n_bindings--;
    memmove(at + from, at + from + 1, (c->n_bindings - from) * sizeof *at);
    for (uint32_t r = 0; r < c->n_roles; r++) {
        if (c->role[r].binding == from) c->role[r].binding = to;
        else if (c->role[r].binding > from) c->role[r].binding--;
    }
    return true;
}

void bindings_number(const Target *t, const KernelOp *op, KernelChoice *c) {
    RolePlace at[KERNEL_MAX_ROLES];
    c->n_bindings = c->n_roles;
    for (uint32_t r = 0; r < c->n_roles; r++) {
        c->role[r].binding = r, c->role[r].at = 0;
        at[r] = *place_of(op, c->role[r].name);
    }
    uint64_t limit = t->max_storage_range < MOST ? t->max_storage_range : MOST;
    while (c->n_bindings > t->max_storage_bindings && join_nearest(c, at, limit)) {
    }
    for (uint32_t r = 0; c->n_bindings < c->n_roles && r < c->n_roles; r++)
        c->role[r].at = (uint32_t)(place_of(op, c->role[r].name)->offset -
                                   at[c->role[r].binding].offset);
}
