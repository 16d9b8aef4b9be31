/*qcc
op = "matvec"
needs = { "subgroup_shuffle" }
roles = { "w", "x", "y", "nw", "bias", "res", "step" }

function legal(t, c)
  if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
    return false, "the size of subgroups is not known"
  end
  if c.PROLOGUE == 2 and c.HD % 4 ~= 0 then return false, "heads of a multiple of 4 elements only" end
  return true
end

function knobs(t, c)
  local list = {}
  for _, n in ipairs { 32, 16, 64 } do
    if n >= t.subgroup then list[#list + 1] = { LOCAL = n, SUBGROUP = t.subgroup } end
  end
  return list
end

-- Neighbouring invocations read weights a row apart: as good as any where a subgroup is a vector of a processor, bad on a GPU.
function speed(t, c, k) return t.subgroup <= 8 and 1 or 0.05 end

function groups(t, c, k)
  local n = (c.ROWS + k.LOCAL - 1) // k.LOCAL
  local x = math.min(n, t.max_groups[1])
  return x, (n + x - 1) // x, 1
end
*/
/* matvec_row.comp - y = W x for one row of activations, as matvec.comp, for devices whose subgroups are vectors of a processor.
 *
 * An invocation has one output to itself and walks along its row. The activations of a unit are loaded (and normed or merged)
 * once, a quad by each of eight invocations, and passed round by shuffles. No shared memory, no barriers, and little
 * code: such devices read memory one invocation at a time, and compile a kernel at its first dispatch. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x = LOCAL) in;
#include "lib/codes.glsl"
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

const uint PARTS = EPILOGUE == 1u ? 2u : 1u;       /* rows: gate and up make one output */
const uint QUADS = SUBGROUP < 8u ? 8u / SUBGROUP : 1u; /* of a unit's activations, that an invocation loads */

#ifdef BIND_step
const bool ALIGNED = K % 32u == 0u && X_STRIDE % 4u == 0u; /* quads of the row are in memory as such */
#else
const bool ALIGNED = K % 32u == 0u;
#endif

uint x_start() {
#ifdef BIND_step
    uint valid = min(M, step_words[STEP_END] - step_words[STEP_POS]);
    return (max(valid, 1u) - 1u) * X_STRIDE;
#else
    return 0u;
#endif
}

#ifdef NS
/* Four elements from NS partial results of attention. */
vec4 merged4(uint e) {
    uint h = e / HD, pair = N_HEAD * NS * HD + 2u * NS * h;
    float top = -1e30, sum = 0.0;
    vec4 v = vec4(0.0);
    [[dont_unroll]] for (uint s = 0u; s < NS; s++) {
        float before = top, m = x_1[pair + 2u * s];
        top = max(top, m);
        float keep = exp(before - top), f = exp(m - top);
        sum = sum * keep + f * x_1[pair + 2u * s + 1u];
        v = v * keep + f * x_4[((h * NS + s) * HD + e % HD) / 4u];
    }
    return v / sum;
}
#endif

/* Elements e .. e + 3 of the row of activations; zeros behind its end. */
vec4 x_quad(uint start, uint e) {
#ifdef NS
    if (PROLOGUE == 2u) return K % 32u == 0u ? merged4(e) : e < K ? merged4(e) : vec4(0.0);
#endif
    if (ALIGNED) return x_4[(start + e) / 4u];
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

/* Unit w times its activations, of which each of the first eight invocations (or fewer with more quads) has one quad. */
float unit_dot(FmtUnit w, vec4 x[QUADS]) {
    vec2 t = vec2(0.0), sums = vec2(0.0);
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        vec4 a = subgroupShuffle(x[j % QUADS], j / QUADS);
#if FMT_CODES
        t[j >> 2] += dot(codes_float(fmt_code4(w, j)), a);
#else
        t[j >> 2] += dot(fmt_value4(w, j), a);
#endif
#ifdef FMT_HAS_MIN
        sums[j >> 2] += a.x + a.y + (a.z + a.w);
#endif
    }
#if FMT_CODES
    float d = dot(fmt_scale(w), t);
#else
    float d = t.x + t.y;
#endif
#ifdef FMT_HAS_MIN
    d += dot(fmt_min(w), sums);
#endif
    return d;
}

#ifdef OUTLIERS
float outliers_sum(uint row, uint start) {
    float sum = 0.0;
    [[dont_unroll]] for (uint i = 0u; i < OUTLIERS; i++) {
        uint o = outlier(row, i), e = outlier_column(o);
        float x = x_quad(start, e & ~3u)[e & 3u];
#ifdef BIND_nw
        x *= nw_1[e];
#endif
        sum += outlier_value(o) * x;
    }
    return sum;
}
#endif

float silu(float v) { return v / (1.0 + exp(-v)); }

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint row = group * LOCAL + gl_LocalInvocationID.x, safe = min(row, ROWS - 1u);
    uint start = x_start(), slot = gl_SubgroupInvocationID % 8u * QUADS;
    vec2 acc = vec2(0.0);
    float squares = 0.0;
    [[dont_unroll]] for (uint unit = 0u; unit < UNITS; unit++) {
        vec4 x[QUADS];
        [[unroll]] for (uint i = 0u; i < QUADS; i++) {
            x[i] = x_quad(start, 32u * unit + 4u * (slot + i));
#ifdef BIND_nw
            squares += dot(x[i], x[i]);
            x[i] *= nw_quad(32u * unit + 4u * (slot + i));
#endif
#ifdef COLUMNS_AT
            x[i] *= columns4(32u * unit + 4u * (slot + i));
#endif
        }
        [[dont_unroll]] for (uint part = 0u; part < PARTS; part++) {
            float d = unit_dot(fmt_load((part * ROWS + safe) * UNITS + unit), x);
            if (part == 0u) acc.x += d;
            else acc.y += d;
        }
    }
#ifdef OUTLIERS
    acc.x += outliers_sum(safe, start);
    if (PARTS == 2u) acc.y += outliers_sum(ROWS + safe, start);
#endif
#ifdef BIND_nw
    float sum = 0.0;
    for (uint i = 0u; i < 8u / QUADS; i++) sum += subgroupShuffle(squares, i);
    acc *= inversesqrt(sum / float(K) + EPS);
#endif
    if (row >= ROWS) return;
    float v = EPILOGUE == 1u ? silu(acc.x) * acc.y : acc.x;
    uint column = row < SPLIT ? Y0 + row : Y1 + row - SPLIT;
#ifdef BIND_bias
    v += bias[column];
#endif
#ifdef BIND_res
    v += res[column];
#endif
    y[column] = v;
}
