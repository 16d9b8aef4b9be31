/* graph_lua.c - what an architecture's description (arch/NAME.lua) can say, and running it.
 *
 * A description is a chunk that returns a function of the model; that function returns the value of
 * the logits. Globals:
 *
 *   key(NAME, default)         metadata ARCH.NAME: number, boolean or string; default if absent
 *   tensor(NAME)               a tensor, or nil. t.name, t.ne[1..4]; t:rows(first, n), some rows
 *   embed(NAME, width, factor) the token's row of NAME.weight
 *   rms_norm(x, NAME, eps, g)  NAME.weight; over groups of g elements, without g over all
 *   linear(x, NAME, width, t)  NAME.weight, .bias, .scale, the last two if there; t overrides them
 *   rope(x, t)                 t has the fields of struct Rope
 *   attention(q, k, v, t)      t has the fields of struct Attention
 *   moe(x, NAME, t)            NAME_gate_inp, NAME_{gate,up,down}_exps; t: n_expert, n_used, n_ff
 *   silu(x), a + b, a * b      values; x.width
 *   refuse(TEXT)               this model cannot be compiled: fails with the file's name and TEXT
 *
 * The model has the fields of struct Model (m.n_head[i] from i = 0), and n_ctx. Every tensor of the
 * file must have been asked for by the end: one that was not belongs to something unknown. */
#include "graph.h"
#include "lua_host.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARCH_DIRECTORY "compiler/arch"
#define META_VALUE "qcc.value"
#define META_TENSOR "qcc.tensor"

typedef struct {
    Arena *arena;
    const Model *model;
    Graph *graph;
    bool *used; /* [n_tensors] */
} Build;

static Build *build_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t to_u32(lua_State *L, int index, const char *what) {
    int is_number;
    lua_Integer v = lua_tointegerx(L, index, &is_number);
    if (!is_number)
        lua_host_fail(L, "%s: expected an integer, found %s", what, luaL_typename(L, index));
    if (v < 0 || v >= (lua_Integer)GRAPH_NONE)
        lua_host_fail(L, "%s: %lld is out of range", what, (long long)v);
    return (uint32_t)v;
}

static float to_float(lua_State *L, int index, const char *what) {
    int is_number;
    double v = lua_tonumberx(L, index, &is_number);
    if (!is_number)
        lua_host_fail(L, "%s: expected a number, found %s", what, luaL_typename(L, index));
    return (float)v;
}

static const char *to_name(lua_State *L, int index, const char *what) {
    if (lua_type(L, index) != LUA_TSTRING)
        lua_host_fail(L, "%s: expected a name, found %s", what, luaL_typename(L, index));
    return lua_tostring(L, index);
}

static uint32_t to_value(lua_State *L, int index, const char *what) {
    uint32_t *v = luaL_testudata(L, index, META_VALUE);
    if (!v) lua_host_fail(L, "%s: expected a value, found %s", what, luaL_typename(L, index));
    return *v;
}

static const GgufTensor *to_tensor(lua_State *L, int index, const char *what) {
    const GgufTensor **t = luaL_testudata(L, index, META_TENSOR);
    if (!t) lua_host_fail(L, "%s: expected a tensor, found %s", what, luaL_typename(L, index));
    return *t;
}

static void need_table(lua_State *L, int index, const char *what) {
    if (!lua_istable(L, index))
        lua_host_fail(L, "%s: expected a table, found %s", what, luaL_typename(L, index));
}

static uint32_t field_u32(lua_State *L, int table, const char *name) {
    lua_getfield(L, table, name);
    uint32_t v = to_u32(L, -1, name);
    lua_pop(L, 1);
    return v;
}

static float field_float(lua_State *L, int table, const char *name) {
    lua_getfield(L, table, name);
    float v = to_float(L, -1, name);
    lua_pop(L, 1);
    return v;
}

static bool field_bool(lua_State *L, int table, const char *name) {
    lua_getfield(L, table, name);
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

/* The tensor in a field, or NULL if there is no table or no such field. */
static const GgufTensor *field_tensor(lua_State *L, int table, const char *name) {
    if (!lua_istable(L, table)) return NULL;
    const GgufTensor *t = lua_getfield(L, table, name) == LUA_TNIL ? NULL : to_tensor(L, -1, name);
    lua_pop(L, 1);
    return t;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const GgufTensor *find_tensor(Build *b, const char *name) {
    const Gguf *file = b->model->gguf;
    const GgufTensor *t = gguf_tensor(file, name);
    if (t) b->used[t - file->tensors] = true;
    return t;
}

static const GgufTensor *find_part(Build *b, const char *name, const char *suffix) {
    return find_tensor(b, arena_printf(b->arena, "%s%s", name, suffix));
}

static const GgufTensor *need_part(Build *b, const char *name, const char *suffix) {
    const GgufTensor *t = find_part(b, name, suffix);
    return t ? t : model_need(b->model, arena_printf(b->arena, "%s%s", name, suffix));
}

static void push_tensor(lua_State *L, const GgufTensor *t) {
    *(const GgufTensor **)lua_newuserdatauv(L, sizeof t, 0) = t;
    luaL_setmetatable(L, META_TENSOR);
}

static int lua_tensor(lua_State *L) {
    const GgufTensor *t = find_tensor(build_of(L), to_name(L, 1, "tensor"));
    if (!t) return 0;
    push_tensor(L, t);
    return 1;
}

/* t:rows(first, n): rows of a matrix, elements of a vector. A view: no bytes are copied. */
static int tensor_rows(lua_State *L) {
    Build *b = build_of(L);
    const GgufTensor *t = to_tensor(L, 1, "rows");
    uint64_t first = to_u32(L, 2, "rows: first"), n = to_u32(L, 3, "rows: count");
    uint32_t d = t->n_dims > 1;
    if (t->n_dims > 2) lua_host_fail(L, "rows: %s has %u dimensions", t->name, t->n_dims);
    if (n == 0 || first + n > t->ne[d])
        fail(FAIL_USER, "%s: tensor %s: %llu rows, expected at least %llu", b->model->gguf->path,
             t->name, (unsigned long long)t->ne[d], (unsigned long long)(first + n));
    GgufTensor *view = arena_copy(b->arena, t, sizeof *t);
    uint64_t row_bytes = t->bytes / t->ne[d];
    view->name = arena_printf(b->arena, "%s[%llu..%llu]", t->name, (unsigned long long)first,
                              (unsigned long long)(first + n - 1));
    view->ne[d] = n;
    view->data += first * row_bytes;
    view->bytes = n * row_bytes;
    push_tensor(L, view);
    return 1;
}

static int tensor_index(lua_State *L) {
    const GgufTensor *t = to_tensor(L, 1, "tensor");
    const char *name = to_name(L, 2, "tensor field");
    if (strcmp(name, "name") == 0) return lua_pushstring(L, t->name), 1;
    if (strcmp(name, "rows") == 0) {
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_pushcclosure(L, tensor_rows, 1);
        return 1;
    }
    if (strcmp(name, "ne") != 0) lua_host_fail(L, "a tensor has no field %s", name);
    lua_createtable(L, 4, 0);
    for (int i = 0; i < 4; i++) lua_pushinteger(L, (lua_Integer)t->ne[i]), lua_seti(L, -2, i + 1);
    return 1;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int push_node(lua_State *L, const GraphNode *n) {
    Build *b = build_of(L);
    *(uint32_t *)lua_newuserdatauv(L, sizeof(uint32_t), 0) = graph_add(b->arena, b->graph, n);
    luaL_setmetatable(L, META_VALUE);
    return 1;
}

/* A node whose value is as wide as its first input; named after its last input:
 * "blk.0.attn_q.rope". */
static GraphNode node_after(lua_State *L, GraphOp op, uint32_t n_in, const char *suffix) {
    Build *b = build_of(L);
    GraphNode n = {.op = op, .n_in = n_in};
    for (uint32_t i = 0; i < n_in; i++) n.in[i] = to_value(L, (int)i + 1, graph_op_name(op));
    n.width = b->graph->node[n.in[0]].width;
    n.name = arena_printf(b->arena, "%s.%s", b->graph->node[n.in[n_in - 1]].name, suffix);
    return n;
}

static int op_embed(lua_State *L) {
    const char *name = to_name(L, 1, "embed");
    return push_node(L, &(GraphNode){.op = OP_EMBED,
                                     .name = name,
                                     .width = to_u32(L, 2, "embed: width"),
                                     .weight = need_part(build_of(L), name, ".weight"),
                                     .factor = lua_isnoneornil(L, 3)
                                                   ? 1
                                                   : to_float(L, 3, "embed: factor")});
}

static int op_rms_norm(lua_State *L) {
    Build *b = build_of(L);
    uint32_t x = to_value(L, 1, "rms_norm");
    const char *name = to_name(L, 2, "rms_norm");
    GraphNode n = {.op = OP_RMS_NORM,
                   .name = name,
                   .n_in = 1,
                   .in = {x},
                   .width = b->graph->node[x].width,
                   .weight = need_part(b, name, ".weight"),
                   .eps = to_float(L, 3, "rms_norm: epsilon")};
    uint32_t group = lua_isnoneornil(L, 4) ? n.width : to_u32(L, 4, "rms_norm: group");
    if (n.weight->ne[0] != group)
        fail(FAIL_USER, "%s: tensor %s: groups of %llu, expected %u", b->model->gguf->path,
             n.weight->name, (unsigned long long)n.weight->ne[0], group);
    return push_node(L, &n);
}

static int op_linear(lua_State *L) {
    Build *b = build_of(L);
    const char *name = to_name(L, 2, "linear");
    GraphNode n = {.op = OP_LINEAR,
                   .name = name,
                   .n_in = 1,
                   .in = {to_value(L, 1, "linear")},
                   .width = to_u32(L, 3, "linear: width"),
                   .weight = field_tensor(L, 4, "weight"),
                   .bias = field_tensor(L, 4, "bias"),
                   .scale = field_tensor(L, 4, "scale")};
    if (!n.weight) n.weight = need_part(b, name, ".weight");
    if (!n.bias) n.bias = find_part(b, name, ".bias");
    if (!n.scale) n.scale = find_part(b, name, ".scale");
    return push_node(L, &n);
}

static int op_rope(lua_State *L) {
    GraphNode n = node_after(L, OP_ROPE, 1, "rope");
    need_table(L, 2, "rope");
    n.rope = (Rope){.n_head = field_u32(L, 2, "n_head"),
                    .head_dim = field_u32(L, 2, "head_dim"),
                    .n_rot = field_u32(L, 2, "n_rot"),
                    .halves = field_bool(L, 2, "halves"),
                    .base = field_float(L, 2, "base"),
                    .freq_scale = field_float(L, 2, "freq_scale"),
                    .ext_factor = field_float(L, 2, "ext_factor"),
                    .attn_factor = field_float(L, 2, "attn_factor"),
                    .beta_fast = field_float(L, 2, "beta_fast"),
                    .beta_slow = field_float(L, 2, "beta_slow"),
                    .n_ctx_orig = field_u32(L, 2, "n_ctx_orig"),
                    .factors = field_tensor(L, 2, "factors")};
    return push_node(L, &n);
}

static int op_attention(lua_State *L) {
    Build *b = build_of(L);
    GraphNode n = node_after(L, OP_ATTENTION, 3, "attention");
    int layer = b->graph->node[n.in[0]].layer; /* it is no more v's than q's or k's */
    if (layer >= 0) n.name = arena_printf(b->arena, "blk.%d.attention", layer);
    need_table(L, 4, "attention");
    n.attention = (Attention){.n_head = field_u32(L, 4, "n_head"),
                              .n_head_kv = field_u32(L, 4, "n_head_kv"),
                              .head_dim = field_u32(L, 4, "head_dim"),
                              .scale = field_float(L, 4, "scale")};
    return push_node(L, &n);
}

static int op_moe(lua_State *L) {
    Build *b = build_of(L);
    uint32_t x = to_value(L, 1, "moe");
    const char *name = to_name(L, 2, "moe");
    need_table(L, 3, "moe");
    GraphNode n = {.op = OP_MOE,
                   .n_in = 1,
                   .in = {x},
                   .width = b->graph->node[x].width,
                   .name = arena_printf(b->arena, "%s_moe", name)};
    n.moe = (Moe){.n_expert = field_u32(L, 3, "n_expert"),
                  .n_used = field_u32(L, 3, "n_used"),
                  .n_ff = field_u32(L, 3, "n_ff"),
                  .router = need_part(b, name, "_gate_inp.weight"),
                  .gate = need_part(b, name, "_gate_exps.weight"),
                  .up = need_part(b, name, "_up_exps.weight"),
                  .down = need_part(b, name, "_down_exps.weight"),
                  .gate_scale = find_part(b, name, "_gate_exps.scale"),
                  .up_scale = find_part(b, name, "_up_exps.scale"),
                  .down_scale = find_part(b, name, "_down_exps.scale")};
    return push_node(L, &n);
}

static int op_silu(lua_State *L) {
    GraphNode n = node_after(L, OP_SILU, 1, "silu");
    return push_node(L, &n);
}

static int op_add(lua_State *L) {
    GraphNode n = node_after(L, OP_ADD, 2, "add");
    return push_node(L, &n);
}

static int op_mul(lua_State *L) {
    GraphNode n = node_after(L, OP_MUL, 2, "mul");
    return push_node(L, &n);
}

static int value_index(lua_State *L) {
    uint32_t v = to_value(L, 1, "value");
    const char *name = to_name(L, 2, "value field");
    if (strcmp(name, "width") != 0) lua_host_fail(L, "a value has no field %s", name);
    lua_pushinteger(L, build_of(L)->graph->node[v].width);
    return 1;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int lua_refuse(lua_State *L) {
    fail(FAIL_USER, "%s: %s", build_of(L)->model->gguf->path, to_name(L, 1, "refuse"));
}

static int lua_key(lua_State *L) {
    Build *b = build_of(L);
    const char *name = to_name(L, 1, "key");
    const GgufKv *kv = gguf_find(b->model->gguf,
                                 arena_printf(b->arena, "%s.%s", b->model->arch, name));
    if (!kv || kv->type == GGUF_ARRAY) return lua_settop(L, 2), 1;
    double v;
    if (kv->type == GGUF_STRING) lua_pushlstring(L, kv->strings[0].s, kv->strings[0].n);
    else if (kv->type == GGUF_BOOL) lua_pushboolean(L, gguf_number(kv, 0) != 0);
    else if (v = gguf_number(kv, 0), v == floor(v) && fabs(v) < 9e15)
        lua_pushinteger(L, (lua_Integer)v);
    else lua_pushnumber(L, v);
    return 1;
}

static void set_uint(lua_State *L, const char *name, uint32_t v) {
    lua_pushinteger(L, v);
    lua_setfield(L, -2, name);
}

static void set_float(lua_State *L, const char *name, float v) {
    lua_pushnumber(L, (double)v);
    lua_setfield(L, -2, name);
}

static void set_per_layer(lua_State *L, const char *name, const uint32_t *v, uint32_t n) {
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) lua_pushinteger(L, v[i]), lua_seti(L, -2, i);
    lua_setfield(L, -2, name);
}

static void push_model(lua_State *L, const Model *m, uint32_t n_ctx) {
    lua_newtable(L);
    lua_pushstring(L, m->arch);
    lua_setfield(L, -2, "arch");
    lua_pushstring(L, m->rope_scaling);
    lua_setfield(L, -2, "rope_scaling");
    set_uint(L, "n_ctx", n_ctx);
    set_uint(L, "n_ctx_train", m->n_ctx_train);
    set_uint(L, "n_embd", m->n_embd);
    set_uint(L, "n_layer", m->n_layer);
    set_uint(L, "n_vocab", m->n_vocab);
    set_per_layer(L, "n_head", m->n_head, m->n_layer);
    set_per_layer(L, "n_head_kv", m->n_head_kv, m->n_layer);
    set_per_layer(L, "n_ff", m->n_ff, m->n_layer);
    set_uint(L, "head_dim", m->head_dim);
    set_uint(L, "head_dim_v", m->head_dim_v);
    set_uint(L, "n_rot", m->n_rot);
    set_float(L, "norm_eps", m->norm_eps);
    set_float(L, "rope_base", m->rope_base);
    set_float(L, "rope_factor", m->rope_factor);
    set_uint(L, "rope_n_ctx_orig", m->rope_n_ctx_orig);
    set_float(L, "rope_attn_factor", m->rope_attn_factor);
    set_uint(L, "n_expert", m->n_expert);
    set_uint(L, "n_expert_used", m->n_expert_used);
}

/* ---- running a description ------------------------------------------------------------------- */

static void set_functions(lua_State *L, Build *b, const luaL_Reg *functions) {
    lua_pushlightuserdata(L, b);
    luaL_setfuncs(L, functions, 1);
    lua_pop(L, 1);
}

static void open_bindings(lua_State *L, Build *b) {
    static const luaL_Reg globals[] = {{"tensor", lua_tensor},
                                       {"key", lua_key},
                                       {"refuse", lua_refuse},
                                       {"embed", op_embed},
                                       {"rms_norm", op_rms_norm},
                                       {"linear", op_linear},
                                       {"rope", op_rope},
                                       {"attention", op_attention},
                                       {"moe", op_moe},
                                       {"silu", op_silu},
                                       {NULL, NULL}};
    static const luaL_Reg value[] = {{"__add", op_add},
                                     {"__mul", op_mul},
                                     {"__index", value_index},
                                     {NULL, NULL}};
    static const luaL_Reg tensor[] = {{"__index", tensor_index}, {NULL, NULL}};
    lua_pushglobaltable(L);
    set_functions(L, b, globals);
    luaL_newmetatable(L, META_VALUE);
    set_functions(L, b, value);
    luaL_newmetatable(L, META_TENSOR);
    set_functions(L, b, tensor);
}

void graph_check_arch(Arena *a, const Gguf *g, const char *arch, const char *lua_path) {
    size_t n;
    const char **known = lua_host_list(a, lua_path, ARCH_DIRECTORY, &n);
    Text list = {.arena = a};
    for (size_t i = 0; i < n; i++) {
        if (strcmp(known[i], arch) == 0) return;
        text_printf(&list, "%s%s", i ? ", " : "", known[i]);
    }
    fail(FAIL_USER, "%s: general.architecture is \"%s\", known are: %s", g->path,
         printable(a, arch, strlen(arch), 64), n ? list.s : "none");
}

/* Tensors that nothing computes with: layers that are not run, scales of activations. */
static bool is_ignorable(const Model *m, const char *name) {
    uint32_t layer;
    size_t n = strlen(name);
    if (sscanf(name, "blk.%u.", &layer) == 1 && layer >= m->n_layer) return true;
    return n > 12 && strcmp(name + n - 12, ".input_scale") == 0;
}

static void check_all_used(const Build *b) {
    const Gguf *file = b->model->gguf;
    for (size_t i = 0; i < file->n_tensors; i++)
        if (!b->used[i] && !is_ignorable(b->model, file->tensors[i].name))
            fail(FAIL_USER, "%s: tensor %s: %s models have none: a variant that qcc does not know",
                 file->path, file->tensors[i].name, b->model->arch);
}

Graph *graph_build(Arena *a, const Model *m, uint32_t n_ctx, const char *lua_path) {
    graph_check_arch(a, m->gguf, m->arch, lua_path);
    Build *b = ARENA_NEW(a, Build);
    b->arena = a;
    b->model = m;
    b->used = ARENA_ARRAY(a, bool, m->gguf->n_tensors);
    b->graph = ARENA_NEW(a, Graph);
    b->graph->model = m;
    b->graph->n_ctx = n_ctx ? n_ctx : m->n_ctx_train;
    lua_State *L = lua_host_open(a, LUA_DESCRIPTION, lua_path);
    open_bindings(L, b);
    lua_settop(L, 0);
    lua_host_load(L, arena_printf(a, ARCH_DIRECTORY "/%s.lua", m->arch));
    lua_host_call(L, 0, 1);
    push_model(L, m, b->graph->n_ctx);
    lua_host_call(L, 1, 1);
    b->graph->logits = to_value(L, -1, "the description's result");
    check_all_used(b);
    return b->graph;
}
