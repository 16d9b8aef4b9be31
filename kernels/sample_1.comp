/*qcc
op = "sample_1"
roles = { "step", "tokens", "ring", "logits", "scratch" }
function legal(t, c) return c.N_VOCAB <= 524288, "vocabularies above 524288 entries" end
local function region(c)
    return c.N_VOCAB <= 65536 and 256 or c.N_VOCAB <= 131072 and 512 or c.N_VOCAB <= 262144 and 1024 or 2048
end
function scratch_words(c)
    local r = region(c)
    return 800 + 3 * 1024 + 512 + 3 * ((c.N_VOCAB + r - 1) // r * r)
end
function knobs(t, c)
    local list, n = {}, t.max_invocations >= 256 and 256 or 128
    if t.caps.subgroup_arithmetic and t.subgroup <= n then list[1] = { LOCAL = n, SUBGROUP = t.subgroup } end
    list[#list + 1] = { LOCAL = 128 }
    return list
end
function shared_bytes(t, c, k) return 16 * k.LOCAL // (k.SUBGROUP or 1) + region(c) // 8 end
function groups(t, c, k) return (c.N_VOCAB + region(c) - 1) // region(c), 1, 1 end
*/
// First stage of the sampler (lib/sample.glsl): penalty, keys, the best of every region; and clears the histogram.
#define STEP_ACCESS readonly
#include "lib/sample.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_tokens) readonly buffer Tokens { layout(offset = AT_tokens) uint tokens[]; };
layout(std430, set = 0, binding = BIND_logits) readonly buffer Logits { layout(offset = AT_logits) float logits[]; };

shared uint seen[REGION / 32u]; // a bit per id of the region: among the latest tokens

void seen_fill(uint t, uint first, uint known) {
    for (uint i = t; i < REGION / 32u; i += LOCAL) seen[i] = 0u;
    barrier();
    uint last = min(step_word[STEP_REPEAT_LAST], known);
    for (uint i = known - last + t; i < known; i += LOCAL) {
        uint id = tokens[i];
        if (id >= first && id - first < REGION) atomicOr(seen[(id - first) / 32u], 1u << ((id - first) & 31u));
    }
    barrier();
}

void main() {
    uint t = invocation(), first = gl_WorkGroupID.x * REGION;
    float penalty = uintBitsToFloat(step_word[STEP_REPEAT_PENALTY]);
    bool penalise = penalty > 0.0 && penalty != 1.0;
    if (penalise) seen_fill(t, first, min(step_word[STEP_POS] + rows_within(CTX), CTX));
    uvec2 best = uvec2(0u, 0xffffffffu);
    for (uint i = t; i < REGION; i += LOCAL) {
        uint id = first + i;
        if (id >= N_VOCAB) break;
        float x = logits[id];
        if (penalise && (seen[i / 32u] >> (i & 31u) & 1u) != 0u) x = x > 0.0 ? x / penalty : x * penalty;
        uint key = key_of(x);
        scratch[AT_KEY + id] = key;
        best = scan_better(best, uvec2(key, id));
    }
    best = group_best(best);
    if (t == 0u) {
        scratch[AT_BEST + 2u * gl_WorkGroupID.x] = best.x;
        scratch[AT_BEST + 2u * gl_WorkGroupID.x + 1u] = best.y;
    }
    for (uint i = gl_WorkGroupID.x * LOCAL + t; i < 3u * BINS; i += REGIONS * LOCAL) scratch[AT_BINS + i] = 0u;
}
