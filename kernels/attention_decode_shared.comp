/*qcc
op = "attention_decode"
roles = { "step", "qkv", "rope", "kc", "vc", "y" }
local elements = { f32 = 4, f16 = 8, q8_0 = 16 }
local function units(c)
    local e = elements[c.KV] or 8
    return e == 16 and (c.HD + 31) // 32 * 2 or (c.HD + e - 1) // e, e
end
function knobs(t, c)
    local n, e = units(c)
    local gqa, list = c.NH // c.NKV, {}
    for _, n in ipairs { 128, 64 } do
        local HEADS = math.min(gqa, math.max(1, 32 // e), math.max(1, 768 // c.HD))
        HEADS = math.ceil(gqa / math.ceil(gqa / HEADS))
        list[#list + 1] = { LOCAL = n, HEADS = HEADS }
    end
    return list
end
function shared_bytes(t, c, k)
    local n, e = units(c)
    return 8 * k.HEADS * n * e + 8 * c.HD + 2 * n * 32 + 4 * k.HEADS * (k.LOCAL + 16)
end
function groups(t, c, k) return c.NS, c.NKV, 1 end
function speed(t, c, k) return 0.5 end
*/
// Attention of one token, as attention_decode.comp, without any subgroup operation: an invocation takes one position at a time
// for the scores, then 16 bytes of a value's columns for the weighted sum.
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
#define ATTENTION_CACHE
#include "lib/attention.glsl"
layout(local_size_x = LOCAL) in;

const uint SLICES = LOCAL / KV_UNITS; // invocations that share a column take positions in turn
shared float score[HEADS * LOCAL];
shared float reduced[HEADS * 16u];
shared float sum_o[HEADS * ROW];

KvRaw cache_key(uint kv_head, uint p, uint u, uint fresh_at) {
    if (p == fresh_at) return fresh[u];
    return KV_FETCH(kc, kv_head * CTX + p, u);
}
KvRaw cache_value(uint kv_head, uint p, uint u, uint fresh_at) {
    if (p == fresh_at) return fresh[KV_UNITS + u];
    return KV_FETCH(vc, kv_head * CTX + p, u);
}

void scores(uint t, uint kv_head, uint p, uint end, uint fresh_at) {
    float s[HEADS];
    for (uint h = 0u; h < HEADS; h++) s[h] = 0.0;
    for (uint u = 0u; p < end && u < KV_UNITS; u++) {
        float x[KV_E];
        kv_decode(cache_key(kv_head, p, u, fresh_at), u, x);
        for (uint h = 0u; h < HEADS; h++)
            for (uint e = 0u; e < KV_E; e += 4u) {
                vec4 q = query[(h * ROW + u * KV_E + e) / 4u];
                s[h] += q.x * x[e] + q.y * x[e + 1u] + q.z * x[e + 2u] + q.w * x[e + 3u];
            }
    }
    for (uint h = 0u; h < HEADS; h++) score[h * LOCAL + t] = p < end ? s[h] : LOWEST;
}

// Largest (or sum of) score[h][..] in 16 pieces per head; the caller finishes after a barrier.
void reduce_begin(uint t, bool sum) {
    for (uint w = t; w < HEADS * 16u; w += LOCAL) {
        float r = sum ? 0.0 : LOWEST;
        for (uint i = w & 15u; i < LOCAL; i += 16u) {
            float v = score[(w / 16u) * LOCAL + i];
            r = sum ? r + v : max(r, v);
        }
        reduced[w] = r;
    }
}
float reduce_end(uint h, bool sum) {
    float r = reduced[h * 16u];
    for (uint i = 1u; i < 16u; i++) r = sum ? r + reduced[h * 16u + i] : max(r, reduced[h * 16u + i]);
    return r;
}

float o[HEADS][KV_E], m[HEADS], l[HEADS]; // l: of this invocation's positions

void tile(uint t, uint kv_head, uint at, uint end, uint fresh_at) {
    scores(t, kv_head, at + t, end, fresh_at);
    barrier();
    reduce_begin(t, false);
    barrier();
    for (uint h = 0u; h < HEADS; h++) {
        float top = max(m[h], reduce_end(h, false)), keep = exp(m[h] - top);
        float p = at + t < end ? exp(score[h * LOCAL + t] - top) : 0.0;
        m[h] = top;
        l[h] = l[h] * keep + p;
        score[h * LOCAL + t] = p;
        for (uint e = 0u; e < KV_E; e++) o[h][e] *= keep;
    }
    barrier();
    uint u = t % KV_UNITS;
    for (uint i = t / KV_UNITS; i < min(LOCAL, end - at) && t < SLICES * KV_UNITS; i += SLICES) {
        float x[KV_E];
        kv_decode(cache_value(kv_head, at + i, u, fresh_at), u, x);
        for (uint h = 0u; h < HEADS; h++)
            for (uint e = 0u; e < KV_E; e++) o[h][e] += score[h * LOCAL + i] * x[e];
    }
    barrier();
}

// Sums over slices and invocations, and writes the partial result.
void finish(uint t, uint kv_head, uint first, uint s) {
    for (uint slice = 0u; slice < SLICES; slice++) {
        if (t / KV_UNITS == slice)
            for (uint h = 0u; h < HEADS; h++)
                for (uint e = 0u; e < KV_E; e++) {
                    uint at = h * ROW + t % KV_UNITS * KV_E + e;
                    sum_o[at] = slice == 0u ? o[h][e] : sum_o[at] + o[h][e];
                }
        barrier();
    }
    for (uint h = 0u; h < HEADS; h++) score[h * LOCAL + t] = l[h];
    barrier();
    reduce_begin(t, true);
    barrier();
    for (uint h = 0u; h < HEADS && first + h < GQA; h++) {
        uint head = kv_head * GQA + first + h;
        for (uint i = t; i < HD; i += LOCAL) y[partial_output(head, s) + i] = sum_o[h * ROW + i];
        if (t == 0u) {
            y[partial_weight(head, s)] = m[h];
            y[partial_weight(head, s) + 1u] = reduce_end(h, true);
        }
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, s = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y;
    uint position = step_word[STEP_POS], n = min(position, CTX - 1u) + 1u;
    uint begin = part_begin(s, n), end = part_begin(s + 1u, n);
    bool newest = begin < end && end == n && position < CTX;
    for (uint first = 0u; first < GQA; first += HEADS) {
        if (first > 0u) barrier();
        query_prepare(t, kv_head, first, position);
        if (first == 0u && newest) fresh_prepare(t, kv_head, position);
        barrier();
        for (uint h = 0u; h < HEADS; h++) {
            m[h] = LOWEST;
            l[h] = 0.0;
            for (uint e = 0u; e < KV_E; e++) o[h][e] = 0.0;
        }
        for (uint at = begin; at < end; at += LOCAL) tile(t, kv_head, at, end, newest ? position : CTX);
        finish(t, kv_head, first, s);
    }
}
