/*qcc
op = "attention"
needs = { "subgroup_shuffle" }
roles = { "step", "qkv", "kc", "vc", "y" }
local elements = { f32 = 4, f16 = 8, q8_0 = 16 }
local function units(c)
    local e = elements[c.KV] or 8
    return e == 16 and (c.HD + 31) // 32 * 2 or (c.HD + e - 1) // e
end
function legal(t, c)
    if t.subgroup > 16 then return false, "for small subgroups" end
    if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
        return false, "the size of subgroups is not known"
    end
    return true
end
function knobs(t, c)
    local n, LPP = units(c), t.subgroup
    while LPP > 1 and LPP // 2 >= n do LPP = LPP // 2 end
    return { { LOCAL = t.subgroup, SUBGROUP = t.subgroup, LPP = LPP } }
end
function groups(t, c, k) return (c.M * (c.NH // c.NKV) + k.LOCAL - 1) // k.LOCAL, c.NKV, 1 end
-- As matvec_row.comp: for devices whose subgroups are vectors of a processor.
function speed(t, c, k) return t.subgroup <= 8 and 4 or 0.05 end
*/
// Causal attention of M rows, as attention.comp, for devices whose subgroups are vectors of a processor.
//
// An invocation has one (row, head) pair to itself. The subgroup loads LINES positions at once, LPP invocations each, and passes
// keys and values round by shuffles. No shared memory, no barriers.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_qkv) readonly buffer Qkv { layout(offset = AT_qkv) float qkv[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
KV_DECLARE(readonly, kc)
KV_DECLARE(readonly, vc)

const uint GQA = NH / NKV, PAIRS = M * GQA;
const uint LINES = LOCAL / LPP;               // positions side by side
const uint UPL = (KV_UNITS + LPP - 1u) / LPP; // units of a position in an invocation
const uint ROW = KV_UNITS * KV_E;
const float LOWEST = -1e30;

float q[ROW], o[ROW];

// Units of a row that this invocation loads.
uint unit_of(uint u) { return min(u * LPP + gl_SubgroupInvocationID % LPP, KV_UNITS - 1u); }

void scores(uint row, out float s[LINES]) {
    [[unroll]] for (uint i = 0u; i < LINES; i++) s[i] = 0.0;
    [[unroll]] for (uint u = 0u; u < UPL; u++) {
        float x[KV_E];
        KvRaw raw = KV_FETCH(kc, row, unit_of(u));
        kv_decode(raw, unit_of(u), x);
        [[unroll]] for (uint p = 0u; p < LPP; p++)
            [[unroll]] for (uint e = 0u; e < KV_E; e++)
                if (u * LPP + p < KV_UNITS)
                    [[unroll]] for (uint i = 0u; i < LINES; i++)
                        s[i] += q[(u * LPP + p) * KV_E + e] * subgroupShuffle(x[e], i * LPP + p);
    }
}

void values_add(uint row, float weight[LINES], float keep) {
    [[unroll]] for (uint u = 0u; u < UPL; u++) {
        float x[KV_E];
        KvRaw raw = KV_FETCH(vc, row, unit_of(u));
        kv_decode(raw, unit_of(u), x);
        [[unroll]] for (uint p = 0u; p < LPP; p++)
            [[unroll]] for (uint e = 0u; e < KV_E; e++)
                if (u * LPP + p < KV_UNITS) {
                    float v = o[(u * LPP + p) * KV_E + e] * keep;
                    [[unroll]] for (uint i = 0u; i < LINES; i++) v += weight[i] * subgroupShuffle(x[e], i * LPP + p);
                    o[(u * LPP + p) * KV_E + e] = v;
                }
    }
}

void main() {
    uint kv_head = gl_WorkGroupID.y, tile = gl_NumWorkGroups.x - 1u - gl_WorkGroupID.x; // the longest first
    uint pair = tile * LOCAL + gl_SubgroupInvocationID, safe = min(pair, PAIRS - 1u), line = gl_SubgroupInvocationID / LPP;
    uint position = min(step_word[STEP_POS], CTX), valid = rows_within(CTX);
    uint visible = position + min(safe / GQA + 1u, valid);
    uint end = position + min((tile * LOCAL + LOCAL - 1u) / GQA + 1u, valid);
    uint from = (safe / GQA * (NH + 2u * NKV) + kv_head * GQA + safe % GQA) * HD;
    [[dont_unroll]] for (uint i = 0u; i < ROW; i++) {
        q[i] = i < HD ? SCALE * qkv[from + min(i, HD - 1u)] : 0.0;
        o[i] = 0.0;
    }
    float m = LOWEST, l = 0.0;
    [[dont_unroll]] for (uint at = 0u; at < end; at += LINES) {
        uint row = kv_head * CTX + min(at + line, end - 1u);
        float s[LINES], top = m;
        scores(row, s);
        [[unroll]] for (uint i = 0u; i < LINES; i++)
            if (at + i < visible) top = max(top, s[i]);
        float keep = exp(m - top);
        m = top;
        l *= keep;
        [[unroll]] for (uint i = 0u; i < LINES; i++) {
            s[i] = at + i < visible ? exp(s[i] - top) : 0.0;
            l += s[i];
        }
        values_add(row, s, keep);
    }
    float scale = l > 0.0 ? 1.0 / l : 0.0;
    uint to = (safe / GQA * NH + kv_head * GQA + safe % GQA) * HD;
    if (pair < PAIRS)
        [[dont_unroll]] for (uint i = 0u; i < HD; i++) y[to + i] = o[i] * scale;
}
