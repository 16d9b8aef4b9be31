/*qcc
op = "sample_4"
needs = { "subgroup_arithmetic" }
roles = { "step", "tokens", "ring", "logits", "scratch" }
function legal(t, c)
    if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
        return false, "the size of subgroups is not known"
    end
    return true
end
function knobs(t, c) return { { LOCAL = t.subgroup, SUBGROUP = t.subgroup } } end
function shared_bytes(t, c, k) return 64 end
function groups(t, c, k) return 1, 1, 1 end
-- Looks at the list some fifty times: wrong for a GPU, right where code is expensive and a subgroup is a vector of a processor.
function speed(t, c, k) return t.subgroup <= 8 and 1.5 or 0.05 end
*/
// Last stage of the sampler (lib/sample.glsl), as sample_4.comp, in little code: all three searches (the limit of top-k, that of
// top-p, the draw) are bisections bit by bit over one function, the sum of weights up to a point.
#extension GL_EXT_control_flow_attributes : require
#define STEP_ACCESS
#define barrier subgroupBarrier
#include "lib/sample.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_tokens) writeonly buffer Tokens { layout(offset = AT_tokens) uint tokens[]; };
layout(std430, set = 0, binding = BIND_ring) writeonly buffer Ring { layout(offset = AT_ring) uint ring[]; };

const uint ID_BITS = 20u, ALL_IDS = (1u << ID_BITS) - 1u;

// Entries are ordered by descending keys, then ascending ids. A place stands for itself and all before it.
struct Place { uint key, id; };
const Place LAST_PLACE = Place(0u, ALL_IDS);
bool within(Place p, uint key, uint id) { return key > p.key || (key == p.key && id <= p.id); }

// What is summed: the number of entries, or masses of distances times `factor`; in bins from..to, no further than `deepest`.
struct Weight { bool by_mass; uint from, to; float factor, deepest; };

// Sum over the listed entries with ids first..last up to all three places.
uvec2 sum_up_to(Weight w, uint largest, uint first, uint last, Place a, Place b, Place c) {
    uvec2 sum = uvec2(0u);
    uint end = min(last / REGION + 1u, REGIONS);
    [[dont_unroll]] for (uint r = first / REGION; r < end; r++) {
        uint count = scratch[AT_COUNT + r];
        [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < count; i += LOCAL) {
            uint key = scratch[AT_LIST_KEY + r * REGION + i], id = scratch[AT_LIST_ID + r * REGION + i];
            float d = key_distance(key, largest);
            uint bin = distance_bin(d);
            bool taken = bin >= w.from && bin <= w.to && d <= w.deepest && id >= first && id <= last && within(a, key, id) &&
                         within(b, key, id) && within(c, key, id);
            if (taken) sum += w.by_mass ? mass_of(d * w.factor) : uvec2(1u, 0u);
        }
    }
    return uvec2(subgroupAdd(sum.x), subgroupAdd(sum.y));
}

uint choose(uint largest, uint position) {
    uint bin = scratch[AT_FOUND], left = step_word[STEP_TOP_K] - scratch[AT_FOUND + 1u];
    bool cut = bin < BINS && scratch[AT_FOUND + 7u] != 0u && left < scratch[AT_FOUND + 4u];
    uvec2 before = uvec2(scratch[AT_FOUND + 2u], scratch[AT_FOUND + 3u]), at = uvec2(scratch[AT_FOUND + 5u], scratch[AT_FOUND + 6u]);
    float deepest = min_p_on() ? -log(min(uintBitsToFloat(step_word[STEP_MIN_P]), 1.0)) : FAR;
    Place top_k = LAST_PLACE, top_p = LAST_PLACE, place = LAST_PLACE;
    [[dont_unroll]] for (uint search = cut ? 0u : top_p_on() ? 1u : 2u; search < 3u; search += search == 0u && !top_p_on() ? 2u : 1u) {
        bool draw = search == 2u;
        Weight w = Weight(search > 0u, 0u, bin, draw ? 1.0 / sample_temperature() : 1.0, draw ? deepest : FAR);
        uvec2 want = uvec2(left, 0u), passed = uvec2(0u); // of the draw: the sum of ids below `first`
        uint first = 0u;
        place = LAST_PLACE;
        [[dont_unroll]] for (uint bit = 33u + ID_BITS; bit > 0u;) {
            // The first round sums all; then bits of the key (not for the draw), then bits of the id.
            bool all = bit == 33u + ID_BITS, of_key = bit > ID_BITS;
            Place next = place;
            if (!all && of_key) next.key |= 1u << (bit - ID_BITS - 1u);
            if (!of_key) next.id &= ~(1u << (bit - 1u));
            w.from = search == 0u || (search == 1u && all) ? bin : 0u;
            uint last = draw ? next.id : ALL_IDS;
            uvec2 sum = passed + sum_up_to(w, largest, first, last, top_k, top_p, draw ? LAST_PLACE : next);
            if (all) {
                if (search == 1u) want = wide_top_p(wide_mass(before + (cut ? sum : at)));
                if (draw) {
                    uvec4 random = philox(uvec4(position, 0u, 0u, 0u), uvec2(step_word[STEP_SEED_LO], step_word[STEP_SEED_HI]));
                    want = wide_add(wide_scale(random.xy, wide_mass(sum)), uvec2(1u, 0u));
                }
            } else if (!wide_less(wide_mass(sum), want)) {
                place = next;
            } else if (draw) {
                passed = sum;
                first = next.id + 1u;
            }
            bit = all && draw ? ID_BITS : bit - 1u;
        }
        if (search == 0u) top_k = place;
        if (search == 1u) top_p = place;
    }
    return place.id;
}

void main() {
    uint valid = rows_within(CTX), position = step_word[STEP_POS] + valid;
    if (valid == 0u) return;
    uvec2 best = best_of_all();
    uint id = best.y;
    if (!sample_greedy()) id = choose(best.x, position);
    if (gl_SubgroupInvocationID != 0u) return;
    ring[position] = id;
    if (step_word[STEP_END] <= position) { // else the token is given
        tokens[position] = id;
        step_word[STEP_END] = position + 1u;
    }
    step_word[STEP_POS] = position;
}
