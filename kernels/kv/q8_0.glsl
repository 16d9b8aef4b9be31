/*qcc
function bytes(nkv, ctx, hd)
    local blocks = (hd + 31) // 32
    return (nkv * ctx * (32 * blocks + 4 * ((blocks + 1) // 2)) + 15) // 16 * 16
end
*/
// Cache of int8 codes with an f16 scale per 32 elements of a head: x = code * scale, scale = largest magnitude / 127.
// Codes [NKV][CTX][32 * blocks] come first, then scales as pairs in a word, [NKV][CTX][(blocks + 1) / 2].
// What a cache type defines is described in lib/cache.glsl.
#include "lib/f16.glsl"
#include "lib/half.glsl"
#define KV_E 16u
#define KV_UNITS ((HD + 31u) / 32u * 2u)
#define KV_BLOCK 32
#define KV_ROW_SCALES ((KV_UNITS + 3u) / 4u)
#define KV_SCALE0 (NKV * CTX * KV_UNITS * 4u)
struct KvRaw { uvec4 code; uint scale; };

#define KV_DECLARE(access, name) \
    layout(std430, set = 0, binding = BIND_##name) access buffer Cache_##name { layout(offset = AT_##name) uvec4 name[]; }; \
    layout(std430, set = 0, binding = BIND_##name) access buffer Scale_##name { layout(offset = AT_##name) uint name##_scale[]; };
#define KV_FETCH(name, row, unit) \
    KvRaw(name[(row) * KV_UNITS + (unit)], name##_scale[KV_SCALE0 + (row) * KV_ROW_SCALES + (unit) / 4u])
#define KV_STORE(name, row, unit, raw) \
    name[(row) * KV_UNITS + (unit)] = (raw).code; \
    if (((unit) & 3u) == 0u) name##_scale[KV_SCALE0 + (row) * KV_ROW_SCALES + (unit) / 4u] = (raw).scale

void kv_decode(KvRaw r, uint unit, out float x[KV_E]) {
    float scale = f16x2(r.scale)[(unit >> 1) & 1u];
    for (uint w = 0u; w < 4u; w++) {
        int c = int(r.code[w]);
        for (int b = 0; b < 4; b++) x[4u * w + uint(b)] = float(bitfieldExtract(c, 8 * b, 8)) * scale;
    }
}
KvRaw kv_encode(float x[KV_E], uint unit, vec2 peak) {
    float top = (unit & 2u) == 0u ? peak.x : peak.y, inverse_ = top > 0.0 ? 127.0 / top : 0.0;
    uvec4 c;
    for (uint w = 0u; w < 4u; w++) {
        c[w] = 0u;
        for (uint b = 0u; b < 4u; b++) {
            float v = x[4u * w + b] * inverse_;
            int q = int(clamp(floor(abs(v) + 0.5), 0.0, 127.0));
            c[w] |= (uint(v < 0.0 ? -q : q) & 0xffu) << (8u * b);
        }
    }
    return KvRaw(c, half_bits(peak.x / 127.0) | half_bits(peak.y / 127.0) << 16);
}
