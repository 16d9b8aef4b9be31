/*qcc
function bytes(nkv, ctx, hd) return nkv * ctx * ((hd + 3) // 4) * 16 end
*/
// Cache of f32. What a cache type defines is described in lib/cache.glsl.
#define KV_E 4u
#define KV_UNITS ((HD + 3u) / 4u)
#define KV_BLOCK 0
struct KvRaw { uvec4 code; };

#define KV_DECLARE(access, name) layout(std430, set = 0, binding = BIND_##name) access buffer Cache_##name { layout(offset = AT_##name) uvec4 name[]; };
#define KV_FETCH(name, row, unit) KvRaw(name[(row) * KV_UNITS + (unit)])
#define KV_STORE(name, row, unit, raw) name[(row) * KV_UNITS + (unit)] = (raw).code

void kv_decode(KvRaw r, uint unit, out float x[KV_E]) {
    for (uint e = 0u; e < 4u; e++) x[e] = uintBitsToFloat(r.code[e]);
}
KvRaw kv_encode(float x[KV_E], uint unit, vec2 peak) {
    return KvRaw(uvec4(floatBitsToUint(x[0]), floatBitsToUint(x[1]), floatBitsToUint(x[2]), floatBitsToUint(x[3])));
}
