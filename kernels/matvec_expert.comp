/*qcc
op = "matvec_expert"
inner = { "f32", "f16", "idot" }
roles = { "w", "x", "route", "tiles", "y", "nw" }

function legal(t, c)
  if c.roles.nw and c.TILE > 1 then return false, "norm for single rows only" end
  return true
end

local function sizes(c)
  return (c.K + 31) // 32, c.EPILOGUE == 1 and 2 * c.ROWS or c.ROWS
end

-- Activations of a tile's rows are staged whole, or in the largest chunk that leaves room for the
-- reductions; tiles leave room for a second group.
local function span(t, c, units, lanes, room)
  local bytes = c.TILE > 1 and t.shared_bytes > 32768 and t.shared_bytes // 2 or t.shared_bytes
  local most = (bytes - room) // (136 * c.TILE)
  if units <= most then return units end
  return most // lanes * lanes
end

function knobs(t, c)
  local units = sizes(c)
  local list = {}
  local function add(LOCAL, LANES, NR)
    if LOCAL > t.max_invocations or LANES > LOCAL then return end
    if LANES > 4 and units * 2 <= LANES then return end
    local s = t.fixed_subgroup
    if s and s > LOCAL then s = nil end
    local room = s and 4 * (NR + 1) * LOCAL // s or 4 * (NR + 1) * LOCAL
    local n = span(t, c, units, LANES, room)
    if n < 1 then return end
    list[#list + 1] = { LOCAL = LOCAL, LANES = LANES, NR = NR, CHUNK = n * c.TILE, SUBGROUP = s }
  end
  local wide = t.max_invocations >= 256 and 256 or 128
  if c.TILE > 1 then
    -- The compiler of a software driver with narrow vectors takes minutes for more.
    local most = t.subgroup <= 4 and c.TILE > 2 and 2 or 4
    add(wide, 8, most)
    add(wide, 4, most)
    add(128, 8, 2)
  else
    if units >= 48 then add(wide, 32, 2) end
    add(wide, 16, 2)
    add(wide, 8, 2)
    add(128, 16, 4)
  end
  add(128, 4, 2)
  add(64, 4, 2)
  return list
end

function shared_bytes(t, c, k)
  local parts = k.SUBGROUP and k.LOCAL // k.SUBGROUP or k.LOCAL
  local sums = k.SUBGROUP and k.LANES <= k.SUBGROUP and 1 or parts
  return 4 * parts + 4 * k.NR * sums
end

function groups(t, c, k)
  local _, rows = sizes(c)
  local each = k.LOCAL // k.LANES * k.NR
  local y = math.min(c.TILES, t.max_groups[2])
  return (rows + each - 1) // each, y, (c.TILES + y - 1) // y
end
*/
/* matvec_expert.comp - y = W_e x for pairs of a row and one of the experts e that it uses.
 *
 * A group takes a tile: up to TILE pairs of one expert, with the same weights. LANES invocations
 * share NR rows of the expert's matrix, each takes every LANES-th unit of 32 weights, which is
 * loaded once for the whole tile. Tiles of an expert that another part holds, and unused ones, end
 * at once. */
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = LOCAL) in;
#include "lib/reduce.glsl"
#include "lib/lanes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
layout(set = 0, binding = BIND_x) readonly buffer X1 { layout(offset = AT_x) float x_1[]; };
layout(set = 0, binding = BIND_x) readonly buffer X4 { layout(offset = AT_x) vec4 x_4[]; };
layout(set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
#ifdef BIND_tiles
layout(set = 0, binding = BIND_tiles) readonly buffer Tiles { layout(offset = AT_tiles) uint tiles[]; };
uint tile_expert(uint tile) { return tiles[tile * (TILE + 1u)]; }
uint tile_pair(uint tile, uint j) { return tiles[tile * (TILE + 1u) + 1u + j]; }
#else
layout(set = 0, binding = BIND_route) readonly buffer Route { layout(offset = AT_route) uvec2 route[]; };
uint tile_expert(uint tile) { return route[tile].x; }
uint tile_pair(uint tile, uint j) { return tile; }
#endif
#ifdef BIND_nw
layout(set = 0, binding = BIND_nw) readonly buffer NW { layout(offset = AT_nw) float nw[]; };
#endif

const uint NONE = 0xffffffffu;
const uint TEAMS = LOCAL / LANES;
const uint OUT = EPILOGUE == 1u ? NR / 2u : NR; /* outputs of a team: gate and up make one */
const uint SPAN = CHUNK / TILE;                 /* units of each row that are staged at once */
const uint STEPS = (min(SPAN, UNITS) + LANES - 1u) / LANES;
const uint CHUNKS = (UNITS + SPAN - 1u) / SPAN;

/* ---- activations ---- */

/* Elements e .. e + 3 of the row that starts at an element; zeros behind its end. */
vec4 x_quad(uint start, uint e) {
    if (K % 32u == 0u && X_STRIDE % 4u == 0u) return x_4[(start + e) / 4u];
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < 4u; i++)
        if (e + i < K) v[i] = x_1[start + e + i];
    return v;
}

uint stage_tile, stage_chunk;
float squares = 0.0; /* this invocation's part of the sum */

/* Zeros for absent rows, and behind the last unit. */
vec4 staged_quad(uint slot, uint j) {
    uint unit = stage_chunk * SPAN + slot % SPAN, e = 32u * unit + 4u * j;
    uint pair = tile_pair(stage_tile, slot / SPAN);
    if (pair == NONE || unit >= UNITS) return vec4(0.0);
    vec4 v = x_quad((X_SLOTS == 1u ? pair : pair / N_USED) * X_STRIDE, e);
#ifdef BIND_nw
    squares += dot(v, v);
    for (uint i = 0u; i < 4u; i++) v[i] *= nw[min(e + i, K - 1u)];
#endif
#ifdef COLUMNS_AT
    v *= columns4(e);
#endif
    return v;
}
#define STAGE
#include "lib/stage.glsl"

/* ---- rows ---- */

/* Row of the part for output o of an expert, as gate (0) or up (1); those past the end repeat the
 * last. */
uint row_of(uint expert, uint o, uint part) {
    return expert * (EPILOGUE == 1u ? 2u * ROWS : ROWS) + part * ROWS + min(o, ROWS - 1u);
}

/* Unit `at` of a chunk in each row of the team whose first output is o; lanes past the chunk repeat
 * its last unit. */
void load(out FmtUnit w[NR], uint expert, uint o, uint chunk, uint at) {
    uint unit = min(chunk * SPAN + at, min(chunk * SPAN + SPAN, UNITS) - 1u);
    [[unroll]] for (uint r = 0u; r < NR; r++)
        w[r] = fmt_load(row_of(expert, o + r % OUT, r / OUT) * UNITS + unit);
}

float silu(float v) { return v / (1.0 + exp(-v)); }

void finish(uint pair, uint o, float acc[NR]) {
    if (pair == NONE) return;
    for (uint r = 0u; r < OUT && o + r < ROWS; r++) {
        float v = acc[r];
        if (EPILOGUE == 1u) v = silu(v) * acc[OUT + r - (EPILOGUE == 1u ? 0u : OUT)];
        y[pair * Y_STRIDE + Y0 + o + r] = v;
    }
}

void main() {
    uint id = invocation(), lane = id % LANES;
    uint tile = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    if (tile >= TILES) return;
    uint expert = tile_expert(tile) - E0; /* that of an unused tile is larger than any */
    if (expert >= EXPERTS) return;
    uint o = (gl_WorkGroupID.x * TEAMS + id / LANES) * OUT;
    stage_tile = tile;
    FmtUnit w[NR];
    load(w, expert, o, 0u, lane);
    float acc[TILE][NR];
    [[unroll]] for (uint j = 0u; j < TILE; j++)
        [[unroll]] for (uint r = 0u; r < NR; r++) acc[j][r] = 0.0;
    for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
        if (chunk > 0u) barrier();
        stage_chunk = chunk;
        stage_units(id, CHUNK);
        barrier();
        uint n = min(SPAN, UNITS - chunk * SPAN);
        for (uint s = 0u; s < STEPS; s++) {
            FmtUnit next[NR];
            bool last = s + 1u == STEPS;
            uint at = s * LANES + lane;
            if (!last || chunk + 1u < CHUNKS)
                load(next, expert, o, last ? chunk + 1u : chunk, last ? lane : at + LANES);
            if (at < n) {
                [[unroll]] for (uint j = 0u; j < TILE; j++) inner_dot(w, j * SPAN + at, acc[j]);
            }
            w = next;
        }
#ifdef OUTLIERS
        [[dont_unroll]] for (uint j = 0u; j < TILE; j++) { /* little code: tiles are large */
            float sum[NR];
            [[unroll]] for (uint r = 0u; r < NR; r++) sum[r] = 0.0;
            [[dont_unroll]] for (uint i = lane; i < OUTLIERS; i += LANES)
                [[unroll]] for (uint r = 0u; r < NR; r++)
                    sum[r] += outlier_product(outlier(row_of(expert, o + r % OUT, r / OUT), i),
                                              chunk * SPAN, n, j * SPAN);
            [[unroll]] for (uint t = 0u; t < TILE; t++)
                [[unroll]] for (uint r = 0u; r < NR; r++) acc[t][r] += t == j ? sum[r] : 0.0;
        }
#endif
    }
#ifdef BIND_nw
    squares = inversesqrt(group_sum(squares) / float(K) + EPS);
#endif
    [[unroll]] for (uint j = 0u; j < TILE; j++) {
        lanes_sum(acc[j]);
#ifdef BIND_nw
        [[unroll]] for (uint r = 0u; r < NR; r++) acc[j][r] *= squares;
#endif
        if (lane == 0u) finish(tile_pair(tile, j), o, acc[j]);
    }
}
