/*qcc
function bytes(nkv, ctx, hd) return nkv * ctx * ((hd + 7) // 8) * 16 end
*/
// Cache of f16 pairs. What a cache type defines is described in lib/cache.glsl.
#include "lib/half.glsl"
#define KV_E 8u
#define KV_UNITS ((HD + 7u) / 8u)
#define KV_BLOCK 0
struct KvRaw { uvec4 code; };

#define KV_DECLARE(access, name) layout(std430, set = 0, binding = BIND_##name) access buffer Cache_##name { layout(offset = AT_##name) uvec4 name[]; };
#define KV_FETCH(name, row, unit) KvRaw(name[(row) * KV_UNITS + (unit)])
#define KV_STORE(name, row, unit, raw) name[(row) * KV_UNITS + (unit)] = (raw).code

// A driver that flushes f16 subnormals reads elements below 2^-14 as zero.
void kv_decode(KvRaw r, uint unit, out float x[KV_E]) {
    for (uint e = 0u; e < 4u; e++) {
        vec2 v = unpackHalf2x16(r.code[e]);
        x[2u * e] = v.x;
        x[2u * e + 1u] = v.y;
    }
}
KvRaw kv_encode(float x[KV_E], uint unit, vec2 peak) {
    uvec4 c;
    for (uint e = 0u; e < 4u; e++) c[e] = half_bits(x[2u * e]) | half_bits(x[2u * e + 1u]) << 16;
    return KvRaw(c);
}
