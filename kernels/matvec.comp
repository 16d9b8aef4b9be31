/*qcc
op = "matvec"
inner = { "f32", "f16", "idot" }
roles = { "w", "x", "y", "nw", "bias", "res", "step" }

function legal(t, c)
  if c.PROLOGUE == 2 and c.HD % 4 ~= 0 then return false, "heads of a multiple of 4 elements only" end
  return true
end

local function sizes(c)
  return (c.K + 31) // 32, c.EPILOGUE == 1 and 2 * c.ROWS or c.ROWS
end

-- Factors of attention's parts.
local function factor_bytes(c) return c.PROLOGUE == 2 and 4 * c.N_HEAD * c.NS or 0 end

-- Activations are staged whole, or in the largest chunk that leaves room for the reductions.
local function chunk(t, units, lanes, room)
  local most = (t.shared_bytes - room) // 136
  if units <= most then return units end
  return most // lanes * lanes
end

-- A set is dropped if most of its lanes would idle, or if the work does not fill its workgroups.
function knobs(t, c)
  local units, rows = sizes(c)
  local list = {}
  local function add(LOCAL, LANES, NR, PASSES)
    -- Units of plain numbers fill many registers.
    if c.FORMAT_CODES ~= 1 then NR = c.EPILOGUE == 1 and 2 or 1 end
    if LOCAL > t.max_invocations or LANES > LOCAL then return end
    if LANES > 4 and units * 2 <= LANES then return end
    local s = t.fixed_subgroup
    if s and s > LOCAL then s = nil end
    local room = s and 4 * (NR + 1) * LOCAL // s or 4 * (NR + 1) * LOCAL
    local CHUNK = chunk(t, units, LANES, room + factor_bytes(c))
    if CHUNK < 1 or CHUNK < units and PASSES > 1 then return end
    list[#list + 1] = { LOCAL = LOCAL, LANES = LANES, NR = NR, PASSES = PASSES, CHUNK = CHUNK, SUBGROUP = s }
  end
  local wide = t.max_invocations >= 256 and 256 or 128
  local full = rows * math.min(units, 32) >= 64 * t.n_units * wide
  if units >= 48 then add(wide, 32, full and 4 or 2, 1) end
  add(wide, 16, 2, 1)
  add(wide, 32, 2, 1)
  add(wide, 8, 2, 1)
  if full then add(2 * wide, 32, 4, 2) end
  add(wide, 16, 4, 2)
  if units >= 256 then add(wide, wide, 4, 1) end
  add(128, 4, 2, 1)
  add(64, 8, 2, 1)
  return list
end

function shared_bytes(t, c, k)
  local parts = k.SUBGROUP and k.LOCAL // k.SUBGROUP or k.LOCAL
  local sums = k.SUBGROUP and k.LANES <= k.SUBGROUP and 1 or parts
  return 4 * parts + 4 * k.NR * sums + factor_bytes(c)
end

function groups(t, c, k)
  local _, rows = sizes(c)
  local each = k.LOCAL // k.LANES * k.NR * k.PASSES
  local n = (rows + each - 1) // each
  local x = math.min(n, t.max_groups[1])
  return x, (n + x - 1) // x, 1
end
*/
/* matvec.comp - y = W x for one row of activations, with what comes before and after it.
 *
 * LANES invocations share NR rows, PASSES times; each takes every LANES-th unit of 32 weights. Weights of the first step are
 * requested before the activations, those of the next pass before the sums of this one. Activations are staged in chunks of CHUNK
 * units; RMS norm multiplies the sums at the end by its factor, so that activations are read once. */
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = LOCAL) in;
#include "lib/reduce.glsl"
#include "lib/lanes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
#include "lib/step.h"
layout(set = 0, binding = BIND_x) readonly buffer X1 { layout(offset = AT_x) float x_1[]; };
layout(set = 0, binding = BIND_x) readonly buffer X4 { layout(offset = AT_x) vec4 x_4[]; };
layout(set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
#ifdef BIND_nw
layout(set = 0, binding = BIND_nw) readonly buffer NW1 { layout(offset = AT_nw) float nw_1[]; };
layout(set = 0, binding = BIND_nw) readonly buffer NW4 { layout(offset = AT_nw) vec4 nw_4[]; };
#endif
#ifdef BIND_bias
layout(set = 0, binding = BIND_bias) readonly buffer Bias { layout(offset = AT_bias) float bias[]; };
#endif
#ifdef BIND_res
layout(set = 0, binding = BIND_res) readonly buffer Res { layout(offset = AT_res) float res[]; };
#endif
#ifdef BIND_step
layout(set = 0, binding = BIND_step) readonly buffer Step { layout(offset = AT_step) uint step_words[]; };
#endif

const uint TEAMS = LOCAL / LANES;
const uint OUT = EPILOGUE == 1u ? NR / 2u : NR; /* outputs of a team: gate and up make one */
const uint STEPS = (min(CHUNK, UNITS) + LANES - 1u) / LANES;
const uint CHUNKS = (UNITS + CHUNK - 1u) / CHUNK;

/* ---- activations ---- */

uint x_start() {
#ifdef BIND_step
    uint valid = min(M, step_words[STEP_END] - step_words[STEP_POS]);
    return (max(valid, 1u) - 1u) * X_STRIDE;
#else
    return 0u;
#endif
}

#ifdef NS
/* exp(m_s - max) / sum for each head and part. */
shared float factor[PROLOGUE == 2u ? N_HEAD * NS : 1u];

void factors_prepare(uint id) {
    for (uint i = id; i < N_HEAD * NS; i += LOCAL) {
        uint pair = N_HEAD * NS * HD + 2u * NS * (i / NS);
        float top = -1e30, sum = 0.0;
        for (uint s = 0u; s < NS; s++) top = max(top, x_1[pair + 2u * s]);
        for (uint s = 0u; s < NS; s++) sum += exp(x_1[pair + 2u * s] - top) * x_1[pair + 2u * s + 1u];
        uint own = pair + 2u * (i % NS);
        factor[i] = x_1[own + 1u] > 0.0 ? exp(x_1[own] - top) / sum : 0.0;
    }
    barrier();
}

/* Four elements from partial results of attention; empty parts are not read. */
vec4 merged4(uint e) {
    uint h = e / HD;
    vec4 v = vec4(0.0);
    for (uint s = 0u; s < NS; s++) {
        float f = factor[h * NS + s];
        if (f > 0.0) v += f * x_4[((h * NS + s) * HD + e % HD) / 4u];
    }
    return v;
}
#endif

/* Elements e .. e + 3 of the row of activations; zeros behind its end. */
vec4 x_quad(uint start, uint e) {
#ifdef NS
    if (PROLOGUE == 2u) return e < K ? merged4(e) : vec4(0.0);
#endif
    if (K % 32u == 0u && start % 4u == 0u) return x_4[(start + e) / 4u];
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < 4u; i++)
        if (e + i < K) v[i] = x_1[start + e + i];
    return v;
}

#ifdef BIND_nw
vec4 nw_quad(uint e) {
    if (K % 32u == 0u) return nw_4[e / 4u];
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < 4u; i++)
        if (e + i < K) v[i] = nw_1[e + i];
    return v;
}
#endif

uint stage_start, stage_unit; /* of the row, and of the chunk */
float squares = 0.0;          /* this invocation's part of the sum */

vec4 staged_quad(uint slot, uint j) {
    uint e = 32u * (stage_unit + slot) + 4u * j;
    vec4 v = x_quad(stage_start, e);
#ifdef BIND_nw
    squares += dot(v, v);
    v *= nw_quad(e);
#endif
#ifdef COLUMNS_AT
    v *= columns4(e);
#endif
    return v;
}
#define STAGE
#include "lib/stage.glsl"

void stage(uint id, uint chunk) {
    stage_unit = chunk * CHUNK;
    stage_units(id, min(CHUNK, UNITS - stage_unit));
}

/* ---- rows ---- */

/* Row of the matrix for output o, as gate (0) or up (1); those past the end repeat the last. */
uint row_of(uint o, uint part) { return min(o, ROWS - 1u) + part * ROWS; }

/* Unit `at` of each row of the team whose first output is o; lanes past the chunk repeat its last unit. */
void load(out FmtUnit w[NR], uint o, uint chunk, uint at) {
    uint unit = min(chunk * CHUNK + at, min(chunk * CHUNK + CHUNK, UNITS) - 1u);
    [[unroll]] for (uint r = 0u; r < NR; r++)
        w[r] = fmt_load(row_of(o + r % OUT, r / OUT) * UNITS + unit);
}

float silu(float v) { return v / (1.0 + exp(-v)); }

void finish(uint o, float acc[NR]) {
    for (uint r = 0u; r < OUT; r++) {
        uint row = o + r;
        if (row >= ROWS) return;
        float v = acc[r];
        if (EPILOGUE == 1u) v = silu(v) * acc[OUT + r - (EPILOGUE == 1u ? 0u : OUT)];
        uint column = row < SPLIT ? Y0 + row : Y1 + row - SPLIT;
#ifdef BIND_bias
        v += bias[column];
#endif
#ifdef BIND_res
        v += res[column];
#endif
        y[column] = v;
    }
}

void main() {
    uint id = invocation(), lane = id % LANES, team = id / LANES;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first = group * PASSES * TEAMS;
    if (first * OUT >= ROWS) return;
    uint o = (first + team) * OUT;
    FmtUnit w[NR];
    load(w, o, 0u, lane);
    stage_start = x_start();
#ifdef NS
    if (PROLOGUE == 2u) factors_prepare(id);
#endif
    float norm = 1.0;
    for (uint pass = 0u; pass < PASSES; pass++) {
        float acc[NR];
        [[unroll]] for (uint r = 0u; r < NR; r++) acc[r] = 0.0;
        for (uint chunk = 0u; chunk < CHUNKS; chunk++) {
            if (pass == 0u || CHUNKS > 1u) {
                if (chunk > 0u || pass > 0u) barrier();
                stage(id, chunk);
                barrier();
            }
            uint n = min(CHUNK, UNITS - chunk * CHUNK);
            for (uint s = 0u; s < STEPS; s++) {
                FmtUnit next[NR];
                bool last = s + 1u == STEPS, end = last && chunk + 1u == CHUNKS;
                uint ahead = last ? chunk + 1u : chunk;
                if (!end) load(next, o, ahead, last ? lane : (s + 1u) * LANES + lane);
                else if (pass + 1u < PASSES) load(next, o + TEAMS * OUT, 0u, lane);
                if (s * LANES + lane < n) inner_dot(w, s * LANES + lane, acc);
                w = next;
            }
#ifdef OUTLIERS
            for (uint i = lane; i < OUTLIERS; i += LANES)
                [[unroll]] for (uint r = 0u; r < NR; r++)
                    acc[r] += outlier_product(outlier(row_of(o + r % OUT, r / OUT), i), chunk * CHUNK, n, 0u);
#endif
        }
        lanes_sum(acc);
#ifdef BIND_nw
        if (pass == 0u) norm = inversesqrt(group_sum(squares) / float(K) + EPS);
        [[unroll]] for (uint r = 0u; r < NR; r++) acc[r] *= norm;
#endif
        if (lane == 0u) finish(o, acc);
        o += TEAMS * OUT;
    }
}
