/*qcc
op = "attention_decode"
needs = { "subgroup_shuffle" }
roles = { "step", "qkv", "rope", "kc", "vc", "y" }
local elements = { f32 = 4, f16 = 8, q8_0 = 16 }
local function units(c)
    local e = elements[c.KV] or 8
    return e == 16 and (c.HD + 31) // 32 * 2 or (c.HD + e - 1) // e, e
end
function legal(t, c)
    if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
        return false, "the size of subgroups is not known"
    end
    return true
end
function knobs(t, c)
    local n, LPP = units(c), t.subgroup
    while LPP > 1 and LPP // 2 >= n do LPP = LPP // 2 end
    return { { LOCAL = t.subgroup, SUBGROUP = t.subgroup, LPP = LPP, HEADS = c.NH // c.NKV } }
end
function shared_bytes(t, c, k)
    local n, e = units(c)
    return 4 * k.HEADS * n * e + 8 * c.HD
end
function groups(t, c, k) return c.NS, c.NKV, 1 end
-- One subgroup per part is little for a GPU, and right where a subgroup is a vector of a processor.
function speed(t, c, k) return t.subgroup <= 8 and 1.5 or 0.05 end
*/
// Attention of one token, as attention_decode.comp, in little code and without waiting: a group is one subgroup, takes the
// query heads in turn, and finds the new key and value in the cache, where it has put them itself.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
#define ATTENTION_CACHE coherent
#define barrier subgroupBarrier
#include "lib/attention.glsl"
layout(local_size_x = LOCAL) in;

const uint LINES = LOCAL / LPP;               // positions side by side
const uint UPL = (KV_UNITS + LPP - 1u) / LPP; // units per lane
const uint PAIRS = HD / 2u;

// The query heads, scaled, and the new key, rotated; the new value.
void rows_prepare(uint lane, uint kv_head, uint position) {
    [[dont_unroll]] for (uint w = lane; w < (GQA + 1u) * PAIRS; w += LOCAL) {
        uint h = w / PAIRS, i = w % PAIRS, a = rope_first(i), b = rope_second(i);
        uint at = (h < GQA ? kv_head * GQA + h : NH + kv_head) * HD;
        vec2 x = rope_turn(vec2(qkv[at + a], qkv[at + b]), i, position);
        if (h < GQA) {
            query[(h * ROW + a) / 4u][(h * ROW + a) & 3u] = SCALE * x.x;
            query[(h * ROW + b) / 4u][(h * ROW + b) & 3u] = SCALE * x.y;
        } else {
            cache_row[a] = x.x;
            cache_row[b] = x.y;
        }
    }
    [[dont_unroll]] for (uint i = lane; i < HD; i += LOCAL) cache_row[HD + i] = qkv[(NH + NKV + kv_head) * HD + i];
    subgroupBarrier();
}

void rows_store(uint lane, uint row) {
    [[dont_unroll]] for (uint i = lane; i < 2u * KV_UNITS; i += LOCAL) {
        uint u = i % KV_UNITS;
        KvRaw raw = cache_encode(i < KV_UNITS ? 0u : HD, u);
        if (i < KV_UNITS) {
            KV_STORE(kc, row, u, raw);
        } else {
            KV_STORE(vc, row, u, raw);
        }
    }
    subgroupBarrier();
}

uint unit_of(uint u, uint part) { return min(u * LPP + part, KV_UNITS - 1u); }
bool unit_real(uint u, uint part) { return KV_UNITS % LPP == 0u || u * LPP + part < KV_UNITS; }

float q[UPL * KV_E], o[UPL * KV_E], m, l;

void head_begin(uint h, uint part) {
    m = LOWEST;
    l = 0.0;
    [[unroll]] for (uint u = 0u; u < UPL; u++)
        [[unroll]] for (uint e = 0u; e < KV_E; e++) {
            uint i = unit_of(u, part) * KV_E + e;
            float x = query[(h * ROW + i) / 4u][i & 3u]; // padding where it is not real: a select, no branch
            q[u * KV_E + e] = unit_real(u, part) && (ROW == HD || i < HD) ? x : 0.0;
            o[u * KV_E + e] = 0.0;
        }
}

// The position of a line; nothing if it is not valid.
void attend(uint row, uint part, bool valid) {
    float s = 0.0, x[KV_E];
    [[unroll]] for (uint u = 0u; u < UPL; u++) {
        KvRaw key = KV_FETCH(kc, row, unit_of(u, part));
        kv_decode(key, unit_of(u, part), x);
        [[unroll]] for (uint e = 0u; e < KV_E; e++) s += q[u * KV_E + e] * x[e];
    }
    [[unroll]] for (uint d = 1u; d < LPP; d *= 2u) s += subgroupShuffleXor(s, d);
    float top = valid ? max(m, s) : m, keep = exp(m - top), weight = valid ? exp(s - top) : 0.0;
    m = top;
    l = l * keep + weight;
    [[unroll]] for (uint u = 0u; u < UPL; u++) {
        KvRaw value = KV_FETCH(vc, row, unit_of(u, part));
        kv_decode(value, unit_of(u, part), x);
        [[unroll]] for (uint e = 0u; e < KV_E; e++) o[u * KV_E + e] = o[u * KV_E + e] * keep + weight * x[e];
    }
}

// Sums over the lines, to the part's place in y.
void head_end(uint head, uint s, uint lane, uint part) {
    float top = m;
    [[unroll]] for (uint d = LPP; d < SUBGROUP; d *= 2u) top = max(top, subgroupShuffleXor(top, d));
    float keep = exp(m - top);
    l *= keep;
    [[unroll]] for (uint d = LPP; d < SUBGROUP; d *= 2u) l += subgroupShuffleXor(l, d);
    if (lane == 0u) {
        y[partial_weight(head, s)] = top;
        y[partial_weight(head, s) + 1u] = l;
    }
    [[unroll]] for (uint u = 0u; u < UPL; u++) {
        float v[KV_E];
        [[unroll]] for (uint e = 0u; e < KV_E; e++) {
            v[e] = o[u * KV_E + e] * keep;
            [[unroll]] for (uint d = LPP; d < SUBGROUP; d *= 2u) v[e] += subgroupShuffleXor(v[e], d);
        }
        if (lane >= LPP || !unit_real(u, part)) continue;
        uint first = unit_of(u, part) * KV_E, at = partial_output(head, s) + first;
        [[unroll]] for (uint e = 0u; e < KV_E; e++)
            if (ROW == HD || first + e < HD) y[at + e] = v[e];
    }
}

void main() {
    uint s = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y;
    uint lane = gl_SubgroupInvocationID, part = lane % LPP, line = lane / LPP;
    uint position = step_word[STEP_POS], n = min(position, CTX - 1u) + 1u;
    uint begin = part_begin(s, n), end = part_begin(s + 1u, n);
    rows_prepare(lane, kv_head, position);
    if (begin < end && end == n && position < CTX) rows_store(lane, kv_head * CTX + position);
    [[dont_unroll]] for (uint h = 0u; h < GQA; h++) {
        head_begin(h, part);
        [[dont_unroll]] for (uint at = begin; at < end; at += LINES)
            attend(kv_head * CTX + min(at + line, end - 1u), part, at + line < end);
        head_end(kv_head * GQA + h, s, lane, part);
    }
}
