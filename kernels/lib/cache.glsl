// Writing rows of the key/value cache.
//
// A cache type (kv/*.glsl) stores a row (one position of one head, HD elements) as KV_UNITS units of 16 bytes, KV_E elements
// each, padded with zeros. It defines
//   KvRaw                               what a unit is in memory
//   KV_DECLARE(access, name)            the storage buffer(s) of role `name`
//   KV_FETCH(name, row, unit)           -> KvRaw; row = head * CTX + position
//   KV_STORE(name, row, unit, raw)
//   kv_decode(raw, unit, out x[KV_E])
//   kv_encode(x[KV_E], unit, peak)      -> KvRaw; peak: largest magnitudes of the two blocks of KV_BLOCK elements that share
//                                       this unit's word of scales (KV_BLOCK 0: no scales)
// and in its header bytes(nkv, ctx, hd), the size of all keys (or values) of a layer.

shared float cache_row[2u * HD]; // rows to be stored: a key, and behind it a value

// Unit `unit` of the row that stands at cache_row[base].
KvRaw cache_encode(uint base, uint unit) {
    float x[KV_E];
    vec2 peak = vec2(0.0);
    for (uint e = 0u; e < KV_E; e++) {
        uint i = unit * KV_E + e;
        x[e] = i < HD ? cache_row[base + i] : 0.0;
    }
#if KV_BLOCK > 0
    uint first = unit / 4u * 64u;
    for (uint e = 0u; e < 64u; e++) {
        float v = first + e < HD ? abs(cache_row[base + first + e]) : 0.0;
        if (e < 32u) peak.x = max(peak.x, v);
        else peak.y = max(peak.y, v);
    }
#endif
    return kv_encode(x, unit, peak);
}
