/*qcc
op = "attention"
roles = { "step", "qkv", "kc", "vc", "y" }
local function padded(c)
    local e = ({ f32 = 4, f16 = 8, q8_0 = 32 })[c.KV] or 8
    return (c.HD + e - 1) // e * e
end
function knobs(t, c)
    local rows, list = c.M * (c.NH // c.NKV), {}
    local function add(LOCAL, TQ, TK, LINES) list[#list + 1] = { LOCAL = LOCAL, TQ = TQ, TK = TK, LINES = LINES } end
    if rows > 64 then add(256, 64, 32, 8) end
    if rows > 16 then add(256, 32, 32, 8) end
    add(128, 16, 32, 8)
    add(128, 8, 16, 8)
    add(64, 4, 8, 4)
    return list
end
function shared_bytes(t, c, k)
    local row = padded(c)
    return 4 * (k.TQ * row + k.TK * (row + 4) + k.TQ * (k.TK + 4))
end
function groups(t, c, k) return (c.M * (c.NH // c.NKV) + k.TQ - 1) // k.TQ, c.NKV, 1 end
*/
// Causal attention of M rows over the cache, which holds their keys and values already.
//
// A group takes TQ of the M * GQA (row, head) pairs of one key/value head, and walks over tiles of TK positions with an
// online softmax (Dao et al., arXiv 2205.14135). Invocations stand in LINES lines: an invocation has the same pairs
// (line, line + LINES, ...) for scores and outputs, and of them the columns col, col + COLS, ...
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_qkv) readonly buffer Qkv { layout(offset = AT_qkv) float qkv[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
KV_DECLARE(readonly, kc)
KV_DECLARE(readonly, vc)

const uint GQA = NH / NKV, PAIRS = M * GQA;
const uint ROW4 = KV_UNITS * KV_E / 4u, LINE4 = ROW4 + 1u; // a padded row, and its place in a tile, in vec4
const uint COLS = LOCAL / LINES, PER_LINE = TQ / LINES;
const uint KEYS = (TK + COLS - 1u) / COLS;                  // keys of an invocation
const uint OUTS = (ROW4 + COLS - 1u) / COLS;                // vec4 of a head
const uint LOADS = (TK * KV_UNITS + LOCAL - 1u) / LOCAL;
const uint SCORE = TK + 4u;
const float LOWEST = -1e30;

shared vec4 query[TQ * ROW4];
shared vec4 rows[TK * LINE4]; // keys, then values
shared float score[TQ * SCORE];

KvRaw raw[LOADS];

// Positions behind `last` repeat it.
#define FETCH(name) \
    for (uint i = 0u; i < LOADS; i++) { \
        uint w = min(t + i * LOCAL, TK * KV_UNITS - 1u); \
        raw[i] = KV_FETCH(name, kv_head * CTX + min(at + w / KV_UNITS, last), w % KV_UNITS); \
    }

void rows_store(uint t) {
    for (uint i = 0u; i < LOADS; i++) {
        uint w = t + i * LOCAL, u = w % KV_UNITS;
        if (w >= TK * KV_UNITS) break;
        float x[KV_E];
        kv_decode(raw[i], u, x);
        for (uint e = 0u; e < KV_E; e += 4u)
            rows[w / KV_UNITS * LINE4 + (u * KV_E + e) / 4u] = vec4(x[e], x[e + 1u], x[e + 2u], x[e + 3u]);
    }
}

void query_load(uint t, uint first, uint kv_head) {
    for (uint w = t; w < TQ * ROW4 * 4u; w += LOCAL) {
        uint pair = first + w / (ROW4 * 4u), i = w % (ROW4 * 4u);
        uint at = (pair / GQA * (NH + 2u * NKV) + kv_head * GQA + pair % GQA) * HD + i;
        query[w / 4u][w & 3u] = pair < PAIRS && i < HD ? SCALE * qkv[at] : 0.0;
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, kv_head = gl_WorkGroupID.y, line = t / COLS, col = t % COLS;
    uint first = (gl_NumWorkGroups.x - 1u - gl_WorkGroupID.x) * TQ; // the longest first
    uint position = min(step_word[STEP_POS], CTX), valid = rows_within(CTX);
    uint visible[PER_LINE]; // positions that a pair sees
    float m[PER_LINE], l[PER_LINE];
    vec4 o[PER_LINE][OUTS];
    for (uint r = 0u; r < PER_LINE; r++) {
        visible[r] = position + min((first + line + r * LINES) / GQA + 1u, valid);
        m[r] = LOWEST;
        l[r] = 0.0;
        for (uint j = 0u; j < OUTS; j++) o[r][j] = vec4(0.0);
    }
    uint end = position + min((first + TQ - 1u) / GQA + 1u, valid), last = max(end, 1u) - 1u, at = 0u;
    FETCH(kc)
    query_load(t, first, kv_head);
    for (; at < end; at += TK) {
        rows_store(t);
        barrier();
        FETCH(vc)
        float s[PER_LINE][KEYS];
        for (uint r = 0u; r < PER_LINE; r++)
            for (uint j = 0u; j < KEYS; j++) s[r][j] = 0.0;
        for (uint i = 0u; i < ROW4; i++) {
            vec4 k[KEYS];
            for (uint j = 0u; j < KEYS; j++) k[j] = rows[min(col + j * COLS, TK - 1u) * LINE4 + i];
            for (uint r = 0u; r < PER_LINE; r++) {
                vec4 q = query[(line + r * LINES) * ROW4 + i];
                for (uint j = 0u; j < KEYS; j++) s[r][j] += dot(q, k[j]);
            }
        }
        for (uint r = 0u; r < PER_LINE; r++)
            for (uint j = 0u; j < KEYS; j++) {
                uint c = col + j * COLS;
                if (at + c >= visible[r]) s[r][j] = LOWEST;
                if (c < TK) score[(line + r * LINES) * SCORE + c] = s[r][j];
            }
        barrier();
        rows_store(t);
        for (uint r = 0u; r < PER_LINE; r++) {
            float top = m[r];
            for (uint c = 0u; c < TK; c++) top = max(top, score[(line + r * LINES) * SCORE + c]);
            float keep = exp(m[r] - top);
            m[r] = top;
            l[r] *= keep;
            for (uint j = 0u; j < OUTS; j++) o[r][j] *= keep;
        }
        barrier();
        for (uint r = 0u; r < PER_LINE; r++)
            for (uint j = 0u; j < KEYS; j++) {
                uint c = col + j * COLS;
                if (c < TK) score[(line + r * LINES) * SCORE + c] = exp(s[r][j] - m[r]);
            }
        barrier();
        at += TK;
        FETCH(kc)
        at -= TK;
        for (uint c = 0u; c < TK; c++) {
            vec4 v[OUTS];
            for (uint j = 0u; j < OUTS; j++) v[j] = rows[c * LINE4 + min(col + j * COLS, ROW4 - 1u)];
            for (uint r = 0u; r < PER_LINE; r++) {
                float p = score[(line + r * LINES) * SCORE + c];
                l[r] += p;
                for (uint j = 0u; j < OUTS; j++) o[r][j] += p * v[j];
            }
        }
        barrier();
    }
    for (uint r = 0u; r < PER_LINE; r++) {
        uint pair = first + line + r * LINES;
        if (pair >= PAIRS) break;
        float scale = l[r] > 0.0 ? 1.0 / l[r] : 0.0;
        uint to = (pair / GQA * NH + kv_head * GQA + pair % GQA) * HD;
        for (uint j = 0u; j < OUTS; j++)
            for (uint e = 0u; e < 4u; e++) {
                uint i = (col + j * COLS) * 4u + e;
                if (i < HD) y[to + i] = o[r][j][e] * scale;
            }
    }
}
