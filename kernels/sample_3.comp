/*qcc
op = "sample_3"
roles = { "step", "tokens", "ring", "logits", "scratch" }
local function region(c)
    return c.N_VOCAB <= 65536 and 256 or c.N_VOCAB <= 131072 and 512 or c.N_VOCAB <= 262144 and 1024 or 2048
end
function knobs(t, c)
    local list, n = {}, t.max_invocations >= 256 and 256 or 128
    if t.caps.subgroup_arithmetic and t.subgroup <= n then list[1] = { LOCAL = n, SUBGROUP = t.subgroup } end
    list[#list + 1] = { LOCAL = 128 }
    return list
end
function shared_bytes(t, c, k) return 32 + 16 * k.LOCAL // (k.SUBGROUP or 1) end
function groups(t, c, k) return (c.N_VOCAB + region(c) - 1) // region(c), 1, 1 end
*/
// Third stage of the sampler (lib/sample.glsl): a list of those that the filters may leave, by whole bins. Every group finds the same
// limits; the bins' sums do not tell exactly which logits of the limiting bins survive, so all of these are listed.
#define STEP_ACCESS readonly
#include "lib/sample.glsl"
layout(local_size_x = LOCAL) in;

void main() {
    if (sample_greedy()) return;
    uint t = invocation(), largest = best_of_all().x, first = gl_WorkGroupID.x * REGION;
    BinFound k = BinFound(BINS, uvec3(0u), uvec3(0u));
    uint limit = BINS;
    uvec2 want = uvec2(0xffffffffu); // never reached: finds the sum of all
    for (uint pass = 0u; pass < 2u; pass++) { // top-k, then top-p
        bool by_mass = pass == 1u || !top_k_on();
        if (pass == 1u && !top_p_on()) break;
        if (pass == 1u) want = wide_top_p(wide_mass(k.before.yz + k.at.yz));
        else if (!by_mass) want = uvec2(step_word[STEP_TOP_K], 0u);
        BinFound f = bin_find(want, by_mass);
        if (pass == 0u) k = f;
        limit = min(limit, f.bin);
    }
    // The exact mass of the k largest is needed for top-p: then the bin that top-k cuts must be listed, unless it weighs nothing.
    uint extra = top_p_on() && k.bin < BINS && k.at.yz != uvec2(0u) ? k.bin : BINS;
    float deepest = min_p_on() && !top_p_on() ? -log(min(uintBitsToFloat(step_word[STEP_MIN_P]), 1.0)) : FAR;

    const uint PER = REGION / LOCAL;
    float inverse_temperature = 1.0 / sample_temperature();
    uint key[PER], begin = first + t * PER;
    uvec3 own = uvec3(0u), total; // count, mass at the temperature
    bool take[PER];
    for (uint i = 0u; i < PER; i++) {
        key[i] = begin + i < N_VOCAB ? scratch[AT_KEY + begin + i] : 0u;
        float d = key_distance(key[i], largest);
        uint b = distance_bin(d);
        take[i] = begin + i < N_VOCAB && ((b <= limit && (d <= deepest || b == k.bin)) || b == extra);
        if (take[i]) own += uvec3(1u, mass_of(d * inverse_temperature));
    }
    uint to = first + group_scan(own, total).x;
    for (uint i = 0u; i < PER; i++)
        if (take[i]) {
            scratch[AT_LIST_KEY + to] = key[i];
            scratch[AT_LIST_ID + to] = begin + i;
            to++;
        }
    if (t == 0u) {
        scratch[AT_COUNT + gl_WorkGroupID.x] = total.x;
        scratch[AT_SUM + 2u * gl_WorkGroupID.x] = total.y;
        scratch[AT_SUM + 2u * gl_WorkGroupID.x + 1u] = total.z;
        if (gl_WorkGroupID.x == 0u) {
            scratch[AT_FOUND] = k.bin;
            for (uint i = 0u; i < 3u; i++) {
                scratch[AT_FOUND + 1u + i] = k.before[i];
                scratch[AT_FOUND + 4u + i] = k.at[i];
            }
            scratch[AT_FOUND + 7u] = k.bin < BINS && (k.bin <= limit || k.bin == extra) ? 1u : 0u; // that bin is listed
        }
    }
}
