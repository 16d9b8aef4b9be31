/*qcc
op = "attention_decode"
needs = { "subgroup_shuffle" }
roles = { "step", "qkv", "rope", "kc", "vc", "y" }
local elements = { f32 = 4, f16 = 8, q8_0 = 16 }
local function units(c)
    local e = elements[c.KV] or 8
    return e == 16 and (c.HD + 31) // 32 * 2 or (c.HD + e - 1) // e, e
end
function knobs(t, c)
    local n, e = units(c)
    local gqa, list = c.NH // c.NKV, {}
    local function add(LOCAL, LPP, AHEAD)
        LPP = math.min(LPP, t.subgroup)
        while LPP > 1 and LPP // 2 >= n do LPP = LPP // 2 end
        local per = (n + LPP - 1) // LPP * e     -- elements of a row in one lane
        local HEADS = math.min(gqa, math.max(1, 64 // per))
        HEADS = math.ceil(gqa / math.ceil(gqa / HEADS))
        list[#list + 1] = { LOCAL = LOCAL, SUBGROUP = t.subgroup, LPP = LPP, AHEAD = AHEAD, HEADS = HEADS }
    end
    add(256, 16, 4)
    add(128, 16, 2)
    if t.subgroup < 64 then add(64, 8, 2) end
    return list
end
function shared_bytes(t, c, k)
    local n, e = units(c)
    local sg = (k.LOCAL + t.subgroup - 1) // t.subgroup
    return 4 * k.HEADS * n * e + 8 * c.HD + 2 * n * 32 + 4 * sg * k.HEADS * (n * e + 2)
end
function groups(t, c, k) return c.NS, c.NKV, 1 end
*/
// Attention of one token: a group takes a part of the positions of one key/value head, for all of its query heads.
//
// LPP lanes share a position: each holds some 16-byte units of its key and value; a score is summed over them by shuffles. AHEAD
// positions are loaded before any is used. HEADS query heads are done in one pass over the part, bounded by registers.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
#define ATTENTION_CACHE
#include "lib/attention.glsl"
layout(local_size_x = LOCAL) in;

const uint SUBGROUPS = (LOCAL + SUBGROUP - 1u) / SUBGROUP;
const uint LINES = LOCAL / LPP;                    // positions side by side
const uint UPL = (KV_UNITS + LPP - 1u) / LPP;      // units per lane
shared vec4 part_o[SUBGROUPS * HEADS * ROW / 4u];
shared vec2 part_ml[SUBGROUPS * HEADS];

KvRaw key[AHEAD][UPL], value[AHEAD][UPL];

uint unit_of(uint u, uint lane) { return min(u * LPP + lane, KV_UNITS - 1u); }
bool unit_real(uint u, uint lane) { return KV_UNITS % LPP == 0u || u * LPP + lane < KV_UNITS; }

// Positions from `at` on; those behind `last` repeat it. The new one is not in memory yet.
void fetch(uint kv_head, uint at, uint last, uint lane, uint fresh_at) {
    for (uint k = 0u; k < AHEAD; k++)
        for (uint u = 0u; u < UPL; u++) {
            uint p = min(at + k * LINES, last), row = kv_head * CTX + (p == fresh_at && p > 0u ? p - 1u : p);
            key[k][u] = KV_FETCH(kc, row, unit_of(u, lane));
            value[k][u] = KV_FETCH(vc, row, unit_of(u, lane));
        }
}

void take_fresh(uint at, uint last, uint lane, uint fresh_at) {
    for (uint k = 0u; k < AHEAD; k++)
        if (min(at + k * LINES, last) == fresh_at)
            for (uint u = 0u; u < UPL; u++) {
                key[k][u] = fresh[unit_of(u, lane)];
                value[k][u] = fresh[KV_UNITS + unit_of(u, lane)];
            }
}

float o[HEADS][UPL * KV_E], m[HEADS], l[HEADS];

void attend(uint at, uint end, uint lane) {
    float s[AHEAD][HEADS];
    for (uint k = 0u; k < AHEAD; k++)
        for (uint h = 0u; h < HEADS; h++) s[k][h] = 0.0;
    for (uint u = 0u; u < UPL; u++) {
        float x[AHEAD][KV_E];
        for (uint k = 0u; k < AHEAD; k++) kv_decode(key[k][u], unit_of(u, lane), x[k]);
        if (unit_real(u, lane))
            for (uint h = 0u; h < HEADS; h++)
                for (uint e = 0u; e < KV_E; e += 4u) {
                    vec4 q = query[(h * ROW + unit_of(u, lane) * KV_E + e) / 4u];
                    for (uint k = 0u; k < AHEAD; k++)
                        s[k][h] += q.x * x[k][e] + q.y * x[k][e + 1u] + q.z * x[k][e + 2u] + q.w * x[k][e + 3u];
                }
    }
    for (uint h = 0u; h < HEADS; h++) {
        float top = m[h];
        for (uint k = 0u; k < AHEAD; k++) {
            for (uint d = 1u; d < LPP; d *= 2u) s[k][h] += subgroupShuffleXor(s[k][h], d);
            if (at + k * LINES >= end) s[k][h] = LOWEST;
            top = max(top, s[k][h]);
        }
        float keep = exp(m[h] - top);
        m[h] = top;
        l[h] *= keep;
        for (uint k = 0u; k < AHEAD; k++) {
            s[k][h] = exp(s[k][h] - top);
            l[h] += s[k][h];
        }
        for (uint i = 0u; i < UPL * KV_E; i++) o[h][i] *= keep;
    }
    for (uint u = 0u; u < UPL; u++)
        for (uint k = 0u; k < AHEAD; k++) {
            float x[KV_E];
            kv_decode(value[k][u], unit_of(u, lane), x);
            for (uint h = 0u; h < HEADS; h++)
                for (uint e = 0u; e < KV_E; e++) o[h][u * KV_E + e] += s[k][h] * x[e];
        }
}

// Sums of the positions of a subgroup, into shared memory.
void merge_lines(uint lane) {
    for (uint h = 0u; h < HEADS; h++) {
        float top = m[h];
        for (uint d = LPP; d < SUBGROUP; d *= 2u) top = max(top, subgroupShuffleXor(top, d));
        float keep = exp(m[h] - top);
        l[h] *= keep;
        for (uint d = LPP; d < SUBGROUP; d *= 2u) l[h] += subgroupShuffleXor(l[h], d);
        for (uint i = 0u; i < UPL * KV_E; i++) {
            o[h][i] *= keep;
            for (uint d = LPP; d < SUBGROUP; d *= 2u) o[h][i] += subgroupShuffleXor(o[h][i], d);
        }
        uint at = gl_SubgroupID * HEADS + h;
        if (gl_SubgroupInvocationID == 0u) part_ml[at] = vec2(top, l[h]);
        if (gl_SubgroupInvocationID < LPP)
            for (uint u = 0u; u < UPL; u++)
                if (unit_real(u, lane))
                    for (uint e = 0u; e < KV_E; e += 4u)
                        part_o[(at * ROW + unit_of(u, lane) * KV_E + e) / 4u] =
                            vec4(o[h][u * KV_E + e], o[h][u * KV_E + e + 1u], o[h][u * KV_E + e + 2u], o[h][u * KV_E + e + 3u]);
    }
}

void merge_subgroups(uint t, uint kv_head, uint first, uint s) {
    for (uint w = t; w < HEADS * HD; w += LOCAL) {
        uint h = w / HD, i = w % HD;
        if (first + h >= GQA) break;
        float top = LOWEST, sum = 0.0, weight = 0.0;
        for (uint g = 0u; g < SUBGROUPS; g++) top = max(top, part_ml[g * HEADS + h].x);
        for (uint g = 0u; g < SUBGROUPS; g++) {
            vec2 ml = part_ml[g * HEADS + h];
            float f = exp(ml.x - top);
            weight += f * ml.y;
            sum += f * part_o[((g * HEADS + h) * ROW + i) / 4u][i & 3u];
        }
        uint head = kv_head * GQA + first + h;
        y[partial_output(head, s) + i] = sum;
        if (i == 0u) {
            y[partial_weight(head, s)] = top;
            y[partial_weight(head, s) + 1u] = weight;
        }
    }
}

void main() {
    uint s = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y;
    uint t = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID, lane = t % LPP, line = t / LPP;
    uint position = step_word[STEP_POS], n = min(position, CTX - 1u) + 1u;
    uint begin = part_begin(s, n), end = part_begin(s + 1u, n), last = max(end, 1u) - 1u;
    bool newest = begin < end && end == n && position < CTX;
    uint fresh_at = newest ? position : CTX;
    for (uint first = 0u; first < GQA; first += HEADS) {
        if (begin < end) fetch(kv_head, begin + line, last, lane, fresh_at); // before anything that it does not depend on
        if (first > 0u) barrier();
        query_prepare(t, kv_head, first, position);
        if (first == 0u && newest) fresh_prepare(t, kv_head, position);
        barrier();
        for (uint h = 0u; h < HEADS; h++) {
            m[h] = LOWEST;
            l[h] = 0.0;
            for (uint i = 0u; i < UPL * KV_E; i++) o[h][i] = 0.0;
        }
        for (uint at = begin + line; at < end; at += LINES * AHEAD) {
            if (at != begin + line) fetch(kv_head, at, last, lane, fresh_at);
            take_fresh(at, last, lane, fresh_at);
            attend(at, end, lane);
        }
        merge_lines(lane);
        barrier();
        merge_subgroups(t, kv_head, first, s);
    }
}
