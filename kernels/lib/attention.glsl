// What the attention kernels of one token share: the parts, and the rows that a group prepares before it attends.
#include "lib/rope.glsl"
#include "lib/cache.glsl"

layout(std430, set = 0, binding = BIND_qkv) readonly buffer Qkv { layout(offset = AT_qkv) float qkv[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
KV_DECLARE(ATTENTION_CACHE, kc)
KV_DECLARE(ATTENTION_CACHE, vc)

const uint GQA = NH / NKV;             // query heads of a key/value head
const uint ROW = KV_UNITS * KV_E;      // elements of a padded row, a multiple of 4
const float LOWEST = -1e30;

shared vec4 query[HEADS * ROW / 4u];   // HEADS rotated query heads, scaled
shared KvRaw fresh[2u * KV_UNITS];     // the new key and value as they stand in the cache

// First position of part s of n: a function of n and NS only. A short context has fewer parts than NS, since a part below 64
// positions takes no less time, and empty ones are not read.
uint part_begin(uint s, uint n) { return min(n, s * max((n + NS - 1u) / NS, 64u)); }

void query_prepare(uint t, uint kv_head, uint first, uint position) {
    for (uint w = t; w < HEADS * ROW / 2u; w += LOCAL) {
        uint h = w / (ROW / 2u), i = w % (ROW / 2u), row = h * ROW;
        if (i < HD / 2u) {
            uint a = rope_first(i), b = rope_second(i), at = (kv_head * GQA + min(first + h, GQA - 1u)) * HD;
            vec2 x = SCALE * rope_turn(vec2(qkv[at + a], qkv[at + b]), i, position);
            query[(row + a) / 4u][(row + a) & 3u] = x.x;
            query[(row + b) / 4u][(row + b) & 3u] = x.y;
        } else { // padding
            query[(row + 2u * i) / 4u][(row + 2u * i) & 3u] = 0.0;
            query[(row + 2u * i) / 4u][(row + 2u * i + 1u) & 3u] = 0.0;
        }
    }
}

// Rotates the new key, rounds key and value as the cache does, stores both and leaves them in `fresh`. For the whole group.
void fresh_prepare(uint t, uint kv_head, uint position) {
    for (uint i = t; i < HD / 2u; i += LOCAL) {
        uint a = rope_first(i), b = rope_second(i), k = (NH + kv_head) * HD, v = (NH + NKV + kv_head) * HD;
        vec2 x = rope_turn(vec2(qkv[k + a], qkv[k + b]), i, position);
        cache_row[a] = x.x;
        cache_row[b] = x.y;
        cache_row[HD + a] = qkv[v + a];
        cache_row[HD + b] = qkv[v + b];
    }
    barrier();
    for (uint i = t; i < 2u * KV_UNITS; i += LOCAL) {
        uint u = i % KV_UNITS, row = kv_head * CTX + position;
        KvRaw raw = cache_encode(i < KV_UNITS ? 0u : HD, u);
        fresh[i] = raw;
        if (i < KV_UNITS) {
            KV_STORE(kc, row, u, raw);
        } else {
            KV_STORE(vc, row, u, raw);
        }
    }
}

// Words of a partial result (kernels/README.md).
uint partial_output(uint head, uint s) { return (head * NS + s) * HD; }
uint partial_weight(uint head, uint s) { return NH * NS * HD + 2u * (head * NS + s); }
