/* emit.c - pushes the plan to Lua as a table, and lets templates/model.c print it. */
#include "emit.h"
#include "lua_host.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void set_integer(lua_State *L, const char *key, uint64_t v) {
    lua_pushinteger(L, (lua_Integer)v);
    lua_setfield(L, -2, key);
}
/* Hashes use all 64 bits; Lua's integers are signed. */
static void set_hex(lua_State *L, const char *key, uint64_t v) {
    char s[24];
    snprintf(s, sizeof s, "0x%016llx", (unsigned long long)v);
    lua_pushstring(L, s);
    lua_setfield(L, -2, key);
}
static void set_string(lua_State *L, const char *key, const char *s) {
    lua_pushstring(L, s);
    lua_setfield(L, -2, key);
}

static const char *const zone_kinds[] = {"ZONE_DEVICE", "ZONE_DEVICE_ZERO", "ZONE_WEIGHTS",
                                         "ZONE_HOST_WEIGHTS", "ZONE_HOST"};
static const char *const sequence_kinds[] = {"SEQUENCE_DECODE", "SEQUENCE_PREFILL",
                                             "SEQUENCE_PREFILL_LAST", "SEQUENCE_LOGITS"};

static void zones_push(lua_State *L, const CompiledPlan *p) {
    lua_newtable(L);
    for (uint32_t i = 0; i < p->n_zones; i++) {
        lua_newtable(L);
        set_string(L, "name", p->zone[i].name);
        set_string(L, "kind", zone_kinds[p->zone[i].kind]);
        set_integer(L, "bytes", p->zone[i].bytes);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "zones");
}

static void kernels_push(lua_State *L, const CompiledPlan *p) {
    lua_newtable(L);
    for (uint32_t i = 0; i < p->n_modules; i++) {
        const KernelChoice *c = p->op[p->module[i].first_op].choice;
        lua_newtable(L);
        set_string(L, "name", p->module[i].label);
        set_integer(L, "n_bindings", c->n_bindings);
        set_integer(L, "local_size", c->local);
        set_integer(L, "subgroup", c->subgroup);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "kernels");
}

static void binding_push(lua_State *L, const char *role, const char *buffer, const RolePlace *at) {
    lua_newtable(L);
    if (role) set_string(L, "role", role);
    if (buffer) set_string(L, "buffer", buffer);
    set_integer(L, "zone", at->zone);
    set_integer(L, "offset", at->offset);
    set_integer(L, "bytes", at->bytes);
}

/* Binding `index` of an operation, with the names of what shares it. */
static void role_binding_push(lua_State *L, const CompiledPlan *p, const PlanOp *o,
                              uint32_t index) {
    const KernelChoice *c = o->choice;
    lua_pushliteral(L, ""), lua_pushliteral(L, "");
    for (uint32_t i = 0, n = 0; i < c->n_roles; i++) {
        if (c->role[i].binding != index) continue;
        const char *plus = n++ ? " + " : "", *name = plan_role_buffer(p, o, c->role[i].name)->name;
        lua_pushfstring(L, "%s%s%s", lua_tostring(L, -2), plus, c->role[i].name),
            lua_replace(L, -3);
        lua_pushfstring(L, "%s%s%s", lua_tostring(L, -1), plus, name), lua_replace(L, -2);
    }
    RolePlace at = plan_binding(p, o, index);
    binding_push(L, lua_tostring(L, -2), lua_tostring(L, -1), &at);
    lua_replace(L, -3), lua_pop(L, 1);
}

static void operation_push(lua_State *L, const CompiledPlan *p, const PlanOp *o) {
    lua_newtable(L);
    set_string(L, "name", o->name);
    if (o->why) set_string(L, "why", o->why);
    set_integer(L, "kernel", o->kernel);
    set_string(L, "barrier", o->barrier ? "true" : "false");
    set_string(L, "split", o->split ? "true" : "false");
    set_integer(L, "bytes", o->op.bytes);
    lua_newtable(L);
    for (int i = 0; i < 3; i++) lua_pushinteger(L, o->choice->groups[i]), lua_rawseti(L, -2, i + 1);
    lua_setfield(L, -2, "groups");
    lua_newtable(L);
    for (uint32_t i = 0; i < o->choice->n_bindings; i++) {
        role_binding_push(L, p, o, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "bindings");
}

static void sequences_push(lua_State *L, const CompiledPlan *p) {
    lua_newtable(L);
    for (uint32_t i = 0; i < p->n_sequences; i++) {
        const PlanSequence *s = &p->sequence[i];
        lua_newtable(L);
        set_string(L, "kind", sequence_kinds[s->kind]);
        set_integer(L, "rows", s->rows);
        lua_newtable(L);
        for (uint32_t k = 0; k < s->n_segments; k++) {
            lua_pushfstring(L, "{%d, %d}", (int)s->segment[k].first, (int)s->segment[k].count);
            lua_rawseti(L, -2, (lua_Integer)k + 1);
        }
        lua_setfield(L, -2, "segments");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "sequences");
}

static void buffer_push(lua_State *L, const CompiledPlan *p, const char *key, uint32_t buffer) {
    const Buffer *b = &p->buffer[buffer];
    binding_push(L, NULL, NULL, &(RolePlace){b->zone, b->offset, b->bytes});
    lua_setfield(L, -2, key);
}

/* ---- what the chosen kernels demand ---------------------------------------------------------- */

static uint64_t largest_binding(const CompiledPlan *p) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->op[i].choice->n_bindings; k++) {
            RolePlace at = plan_binding(p, &p->op[i], k);
            if (at.bytes > n) n = at.bytes;
        }
    return n;
}

static uint64_t largest_zone(const CompiledPlan *p) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_zones; i++) n = p->zone[i].bytes > n ? p->zone[i].bytes : n;
    return n;
}

typedef struct {
    uint32_t invocations, shared, groups[3], bindings, subgroup;
} Demand;

static Demand demand_of(const CompiledPlan *p) {
    Demand d = {0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const KernelChoice *c = p->op[i].choice;
        if (c->local > d.invocations) d.invocations = c->local;
        if (c->shared_bytes > d.shared) d.shared = c->shared_bytes;
        if (c->n_bindings > d.bindings) d.bindings = c->n_bindings;
        for (int k = 0; k < 3; k++)
            if (c->groups[k] > d.groups[k]) d.groups[k] = c->groups[k];
        for (uint32_t k = 0; k < c->n_knobs; k++)
            if (strcmp(c->knobs[k].name, "SUBGROUP") == 0) d.subgroup = (uint32_t)c->knobs[k].value;
    }
    return d;
}

/* Does any module declare the SPIR-V capability? */
static bool modules_use(const CompiledPlan *p, uint32_t capability) {
    enum { OP_CAPABILITY = 17 };
    for (uint32_t m = 0; m < p->n_modules; m++) {
        const uint32_t *w = p->module[m].spirv.words;
        size_t n = p->module[m].spirv.bytes / 4;
        for (size_t i = 5; i < n && (w[i] & 0xffff) == OP_CAPABILITY; i += w[i] >> 16)
            if (w[i + 1] == capability) return true;
    }
    return false;
}

static void field_push(lua_State *L, const char *name, uint64_t value, bool is_bool) {
    lua_newtable(L);
    lua_pushstring(L, name), lua_rawseti(L, -2, 1);
    if (is_bool) lua_pushstring(L, value ? "true" : "false");
    else lua_pushfstring(L, "%I%s", (lua_Integer)value, value > UINT32_MAX / 2 ? "u" : "");
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void needs_push(lua_State *L, const CompiledPlan *p) {
    static const struct {
        const char *field;
        uint32_t capability;
    } uses[] = {
        /* numbers of the SPIR-V specification */
        {"subgroup_arithmetic", 63},
        {"subgroup_shuffle", 65},
        {"subgroup_clustered", 67},
        {"storage16", 4433},
        {"storage8", 4448},
        {"f16", 9},
        {"int8", 39},
        {"integer_dot", 6019},
        {"coopmat", 6022},
        {"bda", 5347},
        {"coopmat2", 5430},
    };
    Demand d = demand_of(p);
    lua_newtable(L);
    set_string(L, "device_name", p->target->device_name);
    lua_newtable(L);
    bool newer = p->target->api_version >=
                 ((1u << 22) | (3u << 12)); /* what its modules are compiled for */
    field_push(L, "api_version", newer ? (1u << 22) | (3u << 12) : (1u << 22) | (1u << 12), false);
    field_push(L, "max_storage_range", largest_binding(p), false);
    field_push(L, "max_allocation", largest_zone(p), false);
    field_push(L, "storage_alignment", p->target->storage_alignment, false);
    field_push(L, "max_invocations", d.invocations, false);
    field_push(L, "shared_bytes", d.shared, false);
    field_push(L, "max_groups_x", d.groups[0], false);
    field_push(L, "max_groups_y", d.groups[1], false);
    field_push(L, "max_bindings", d.bindings, false);
    field_push(L, "subgroup_size", d.subgroup, false);
    bool control = false;
    for (uint32_t i = 0; i < p->n_ops; i++) control = control || p->op[i].choice->subgroup != 0;
    field_push(L, "subgroup_size_control", control, true);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        field_push(L, uses[i].field, modules_use(p, uses[i].capability), true);
    lua_setfield(L, -2, "fields");
    lua_setfield(L, -2, "needs");
}

static void plan_push(lua_State *L, const CompiledPlan *p, const char *manifest) {
    const Model *m = p->program->graph->model;
    lua_newtable(L);
    set_string(L, "model_name", m->name);
    set_string(L, "arch", m->arch);
    set_string(L, "qcc_version", qcc_version);
    set_integer(L, "n_ctx", p->options.n_ctx);
    set_integer(L, "n_vocab", m->n_vocab);
    set_integer(L, "n_layer", m->n_layer);
    set_integer(L, "n_embd", m->n_embd);
    set_integer(L, "decode_bytes", p->decode_bytes);
    set_hex(L, "manifest_hash", XXH3_64bits(manifest, strlen(manifest)));
    zones_push(L, p);
    kernels_push(L, p);
    lua_newtable(L);
    for (uint32_t i = 0; i < p->n_ops; i++)
        operation_push(L, p, &p->op[i]), lua_rawseti(L, -2, (lua_Integer)i + 1);
    lua_setfield(L, -2, "operations");
    sequences_push(L, p);
    buffer_push(L, p, "step", p->step);
    buffer_push(L, p, "tokens", p->tokens);
    buffer_push(L, p, "ring", p->ring);
    buffer_push(L, p, "logits", p->logits);
    buffer_push(L, p, "readback", p->readback);
    needs_push(L, p);
}

/* compile(text, name, env) for the renderer: a chunk with its own globals. */
static int template_compile(lua_State *L) {
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n), *name = luaL_checkstring(L, 2);
    if (luaL_loadbufferx(L, text, n, lua_pushfstring(L, "@%s", name), "t") != LUA_OK)
        return lua_error(L);
    lua_pushvalue(L, 3);
    lua_setupvalue(L, -2, 1);
    return 1;
}

char *emit_c(Arena *a, const CompiledPlan *p, const char *manifest) {
    lua_State *L = lua_host_open(a, LUA_DESCRIPTION, p->options.lua_path);
    Bytes text = lua_host_find(a, p->options.lua_path, "templates/model.c");
    lua_host_load(L, "templates/render.lua");
    lua_host_call(L, 0, 1);
    lua_pushlstring(L, (const char *)text.p, text.n);
    lua_newtable(L);
    plan_push(L, p, manifest);
    lua_setfield(L, -2, "p");
    lua_pushstring(L, "templates/model.c");
    lua_pushcfunction(L, template_compile);
    lua_host_call(L, 4, 1);
    size_t n;
    const char *out = lua_tolstring(L, -1, &n);
    return arena_strndup(a, out, n);
}

/* ---- manifest -------------------------------------------------------------------------------- */

static json_t *hex(uint64_t v) {
    char s[24];
    snprintf(s, sizeof s, "%016llx", (unsigned long long)v);
    return json_string(s);
}

static json_t *manifest_kernels(const CompiledPlan *p) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_modules; i++) {
        json_t *k = json_object();
        json_object_set_new(k, "name", json_string(p->module[i].label));
        json_object_set_new(k, "spirv_xxh3", hex(p->module[i].spirv.hash));
        json_object_set_new(k, "spirv_bytes", json_integer((json_int_t)p->module[i].spirv.bytes));
        json_array_append_new(list, k);
    }
    return list;
}

static json_t *manifest_operations(const CompiledPlan *p) {
    json_t *list = json_array();
    const Batch *b = &p->batch[0];
    for (uint32_t i = b->layers.first; i < b->sample.first + b->sample.count; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(p->op[i].name));
        json_object_set_new(o, "kernel", json_integer(p->op[i].kernel));
        json_object_set_new(o, "bytes", json_integer((json_int_t)p->op[i].op.bytes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *manifest_memory(const CompiledPlan *p) {
    json_t *m = json_object();
    json_object_set_new(m, "weights",
                        json_integer((json_int_t)(p->weight_bytes - p->host_weight_bytes)));
    json_object_set_new(m, "host_weights", json_integer((json_int_t)p->host_weight_bytes));
    json_object_set_new(m, "cache", json_integer((json_int_t)p->kv_bytes));
    json_object_set_new(m, "activations", json_integer((json_int_t)p->scratch_bytes));
    return m;
}

static json_t *manifest_model(const CompiledPlan *p, uint64_t gguf_hash) {
    const Model *m = p->program->graph->model;
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(m->name));
    json_object_set_new(o, "architecture", json_string(m->arch));
    json_object_set_new(o, "gguf_xxh3", hex(gguf_hash));
    json_object_set_new(o, "gguf_bytes", json_integer((json_int_t)m->gguf->file_bytes));
    json_object_set_new(o, "layers", json_integer(m->n_layer));
    json_object_set_new(o, "embedding", json_integer(m->n_embd));
    json_object_set_new(o, "vocabulary", json_integer(m->n_vocab));
    return o;
}

static json_t *manifest_batches(const CompiledPlan *p) {
    json_t *list = json_array();
    for (uint32_t i = 1; i < p->n_batches; i++)
        json_array_append_new(list, json_integer(p->batch[i].rows));
    return list;
}

char *emit_manifest(Arena *a, const CompiledPlan *p, uint64_t gguf_hash, uint32_t n_check_tokens) {
    static const char *const kv[] = {"f16", "f32", "q8_0"};
    json_t *o = json_object();
    json_object_set_new(o, "qcc", json_string(qcc_version));
    json_object_set_new(o, "model", manifest_model(p, gguf_hash));
    json_object_set_new(o, "target", json_string(p->target->name));
    json_object_set_new(o, "device", json_string(p->target->device_name));
    json_object_set_new(o, "context", json_integer(p->options.n_ctx));
    json_object_set_new(o, "prefill_chunks", manifest_batches(p));
    json_object_set_new(o, "kv_cache", json_string(kv[p->options.kv]));
    json_object_set_new(o, "accuracy",
                        json_string(p->options.accuracy == ACCURACY_FAST ? "fast" : "exact"));
    json_object_set_new(o, "memory_bytes", manifest_memory(p));
    json_object_set_new(o, "decode_bytes", json_integer((json_int_t)p->decode_bytes));
    json_object_set_new(o, "predicted_decode_us",
                        json_real(((double)(int64_t)(p->decode_us * 100)) / 100));
    json_object_set_new(o, "check_tokens", json_integer(n_check_tokens));
    json_object_set_new(o, "kernels", manifest_kernels(p));
    json_object_set_new(o, "decode_operations", manifest_operations(p));
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text) fail(FAIL_ENVIRONMENT, "out of memory");
    char *copy = arena_printf(a, "%s\n", text);
    free(text);
    return copy;
}
