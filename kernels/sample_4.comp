/*qcc
op = "sample_4"
roles = { "step", "tokens", "ring", "logits", "scratch" }
function knobs(t, c)
    local list, n = {}, t.max_invocations >= 256 and 256 or 128
    if t.caps.subgroup_arithmetic and t.subgroup <= n then list[1] = { LOCAL = n, SUBGROUP = t.subgroup } end
    list[#list + 1] = { LOCAL = 128 }
    return list
end
function shared_bytes(t, c, k) return 64 + 3 * 1024 + 1024 + 16 * k.LOCAL // (k.SUBGROUP or 1) end
function groups(t, c, k) return 1, 1, 1 end
*/
// Last stage of the sampler (lib/sample.glsl), one group: the exact limits, the draw, tokens, ring and step block.
#define STEP_ACCESS
#include "lib/sample.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_tokens) writeonly buffer Tokens { layout(offset = AT_tokens) uint tokens[]; };
layout(std430, set = 0, binding = BIND_ring) writeonly buffer Ring { layout(offset = AT_ring) uint ring[]; };

shared uint listed_before[257]; // survivors in the regions before
shared uint digit_x[256], digit_y[256];
shared uint picked[4];

// ---- the list, as one sequence in the order of ids

void list_open() {
    uint t = invocation(), n = (REGIONS + LOCAL - 1u) / LOCAL, own = 0u;
    for (uint i = 0u; i < n; i++)
        if (t * n + i < REGIONS) own += scratch[AT_COUNT + t * n + i];
    uvec3 total;
    uint before = group_scan(uvec3(own, 0u, 0u), total).x;
    for (uint i = 0u; i < n; i++)
        if (t * n + i < REGIONS) {
            listed_before[t * n + i] = before;
            before += scratch[AT_COUNT + t * n + i];
        }
    if (t == 0u) listed_before[REGIONS] = total.x;
    barrier();
}
uint list_size() { return listed_before[REGIONS]; }

// Entry i stands in region r, the last one that begins at or before it. Entries are visited in ascending order: `list_slot` moves on.
uint list_region(uint i) {
    uint low = 0u, high = REGIONS;
    while (high - low > 1u) {
        uint middle = (low + high) / 2u;
        if (listed_before[middle] <= i) low = middle;
        else high = middle;
    }
    return low;
}
uint list_slot(uint i, inout uint r) {
    while (listed_before[r + 1u] <= i) r++;
    return r * REGION + i - listed_before[r];
}

// ---- limits: the last (key, id) in the order of descending keys, then ascending ids, that survives in one bin

struct Limit { uint bin, key, id; };
const Limit NO_LIMIT = Limit(BINS, 0u, 0xffffffffu);

bool within(Limit l, uint bin, uint key, uint id) {
    return bin < l.bin || (bin == l.bin && (key > l.key || (key == l.key && id <= l.id)));
}

uvec2 weight(bool by_mass, float d) { return by_mass ? mass_of(d) : uvec2(1u, 0u); }

// Lists the slots of those entries of a bin that are within `outer`, in order; returns how many. Their keys are not needed any more
// at the places where the first stage left them, so the list stands there.
layout(std430, set = 0, binding = BIND_scratch) coherent buffer Shortlist { layout(offset = AT_scratch) uint shortlist[]; };

uint shortlist_fill(Limit outer, uint bin, uint largest) {
    uint t = invocation(), per = (list_size() + LOCAL - 1u) / LOCAL;
    uint begin = min(t * per, list_size()), end = min(begin + per, list_size()), first = list_region(begin), r = first;
    uvec3 own = uvec3(0u), total;
    for (uint i = begin; i < end; i++) {
        uint slot = list_slot(i, r), key = scratch[AT_LIST_KEY + slot];
        if (distance_bin(key_distance(key, largest)) == bin && within(outer, bin, key, scratch[AT_LIST_ID + slot])) own.x++;
    }
    uint to = AT_KEY + group_scan(own, total).x;
    r = first;
    for (uint i = begin; i < end && own.x > 0u; i++) {
        uint slot = list_slot(i, r), key = scratch[AT_LIST_KEY + slot];
        if (distance_bin(key_distance(key, largest)) != bin || !within(outer, bin, key, scratch[AT_LIST_ID + slot])) continue;
        shortlist[to++] = slot;
        own.x--;
    }
    memoryBarrierBuffer();
    barrier();
    return total.x;
}

// One digit of the search: of the n listed entries whose key matches `prefix` under `mask`, sums of weights per value of the 8
// bits at `shift`. Takes the digit where the sum from the top reaches `want`; `want` becomes what is left.
uint digit_find(uint n, bool by_mass, uint largest, uint prefix, uint mask, uint shift, inout uvec2 want) {
    uint t = invocation();
    for (uint i = t; i < 256u; i += LOCAL) {
        digit_x[i] = 0u;
        digit_y[i] = 0u;
    }
    barrier();
    for (uint i = t; i < n; i += LOCAL) {
        uint key = scratch[AT_LIST_KEY + shortlist[AT_KEY + i]];
        if ((key & mask) != prefix) continue;
        uvec2 w = weight(by_mass, key_distance(key, largest));
        atomicAdd(digit_x[key >> shift & 255u], w.x);
        if (w.y != 0u) atomicAdd(digit_y[key >> shift & 255u], w.y);
    }
    barrier();
    const uint PER = (256u + LOCAL - 1u) / LOCAL;
    uvec3 own = uvec3(0u), total;
    for (uint i = 0u; i < PER; i++)
        if (t * PER + i < 256u) own.xy += uvec2(digit_x[255u - t * PER - i], digit_y[255u - t * PER - i]);
    uvec2 before = group_scan(own, total).xy;
    for (uint i = 0u; i < PER && t * PER + i < 256u; i++) {
        uint digit = 255u - t * PER - i;
        uvec2 after = before + uvec2(digit_x[digit], digit_y[digit]);
        if (wide_less(wide_mass(before), want) && !wide_less(wide_mass(after), want)) {
            uvec2 left = wide_sub(want, wide_mass(before));
            picked[0] = digit;
            picked[1] = left.x;
            picked[2] = left.y;
        }
        before = after;
    }
    barrier();
    want = uvec2(picked[1], picked[2]);
    uint digit = picked[0];
    barrier();
    return digit;
}

// Id of the wanted one (from 1) of the n listed entries that have this key.
uint tie_find(uint n, uint key, uint wanted) {
    uint t = invocation(), per = (n + LOCAL - 1u) / LOCAL, begin = min(t * per, n), end = min(begin + per, n);
    uvec3 own = uvec3(0u), total;
    for (uint i = begin; i < end; i++)
        if (scratch[AT_LIST_KEY + shortlist[AT_KEY + i]] == key) own.x++;
    uint before = group_scan(own, total).x;
    bool here = before < wanted && before + own.x >= wanted;
    for (uint i = begin; i < end && here; i++) {
        uint slot = shortlist[AT_KEY + i];
        if (scratch[AT_LIST_KEY + slot] == key && ++before == wanted) picked[0] = scratch[AT_LIST_ID + slot];
    }
    barrier();
    uint id = picked[0];
    barrier();
    return id;
}

// The limit in `bin` where the sum of weights reaches `want` (it does).
Limit limit_find(Limit outer, uint bin, bool by_mass, uint largest, uvec2 want) {
    uint prefix = 0u, mask = 0u, listed = shortlist_fill(outer, bin, largest);
    for (uint shift = 24u;; shift -= 8u) {
        prefix |= digit_find(listed, by_mass, largest, prefix, mask, shift, want) << shift;
        mask |= 255u << shift;
        if (shift == 0u) break;
    }
    uint w = wide_mass(weight(by_mass, key_distance(prefix, largest))).x, n = 0u; // n: entries with this key that it takes
    for (uint bit = 1u << 19; bit > 0u; bit >>= 1) {
        uvec2 sum;
        umulExtended(n + bit - 1u, w, sum.y, sum.x);
        if (wide_less(sum, want)) n += bit;
    }
    return Limit(bin, prefix, tie_find(listed, prefix, n));
}

// Sum of masses of the entries of a bin within the limit, in halves.
uvec2 mass_within(Limit l, uint largest) {
    uvec3 sum = uvec3(0u), total;
    uint r = list_region(invocation());
    for (uint i = invocation(); i < list_size(); i += LOCAL) {
        uint slot = list_slot(i, r), key = scratch[AT_LIST_KEY + slot];
        float d = key_distance(key, largest);
        if (distance_bin(d) == l.bin && within(l, l.bin, key, scratch[AT_LIST_ID + slot])) sum.xy += mass_of(d);
    }
    group_scan(sum, total);
    return total.xy;
}

// ---- the draw

// Mass of an entry at the temperature; 0 if it does not survive.
uvec2 drawn_mass(uint slot, uint largest, Limit k, Limit p, float deepest, float inverse_temperature) {
    uint key = scratch[AT_LIST_KEY + slot];
    float d = key_distance(key, largest);
    uint bin = distance_bin(d);
    if (d > deepest || bin > min(k.bin, p.bin)) return uvec2(0u);
    if (bin == k.bin || bin == p.bin) {
        uint id = scratch[AT_LIST_ID + slot];
        if (!within(k, bin, key, id) || !within(p, bin, key, id)) return uvec2(0u);
    }
    return mass_of(d * inverse_temperature);
}

// Entries (or regions) [begin, end), of which one is drawn, and where: the point, below the sum of their masses.
struct Drawing { uint begin, end; uvec2 point; };

struct Filter { uint largest; Limit k, p; float deepest, inverse_temperature; };

uvec2 piece_mass(uint from, uint to, bool regions, Filter f) {
    uvec2 sum = uvec2(0u);
    uint r = regions ? 0u : list_region(from);
    for (uint i = from; i < to; i++)
        sum += regions ? uvec2(scratch[AT_SUM + 2u * i], scratch[AT_SUM + 2u * i + 1u])
                       : drawn_mass(list_slot(i, r), f.largest, f.k, f.p, f.deepest, f.inverse_temperature);
    return sum;
}

// Narrows down to one entry: each round, every invocation takes an equal piece, and the one that holds the random point goes on.
// Where all that is listed survives, the regions' sums are known: the first rounds narrow down to a region.
uint draw(uint largest, Limit k, Limit p, uint position) {
    float deepest = min_p_on() ? -log(min(uintBitsToFloat(step_word[STEP_MIN_P]), 1.0)) : FAR;
    Filter f = Filter(largest, k, p, deepest, 1.0 / sample_temperature());
    bool regions = k.bin == BINS && p.bin == BINS, has_point = false;
    Drawing d = Drawing(0u, regions ? REGIONS : list_size(), uvec2(0u));
    while (true) {
        if (has_point && regions && d.end - d.begin == 1u) {
            regions = false;
            d = Drawing(listed_before[d.begin], listed_before[d.begin + 1u], d.point);
        }
        if (has_point && d.end - d.begin == 1u) break;
        uint per = (d.end - d.begin + LOCAL - 1u) / LOCAL;
        uint from = min(d.begin + invocation() * per, d.end), to = min(from + per, d.end);
        uvec3 own = uvec3(piece_mass(from, to, regions, f), 0u), total, before = group_scan(own, total);
        if (!has_point) {
            uvec4 random = philox(uvec4(position, 0u, 0u, 0u), uvec2(step_word[STEP_SEED_LO], step_word[STEP_SEED_HI]));
            d.point = wide_scale(random.xy, wide_mass(total.xy));
            has_point = true;
        }
        uvec2 low = wide_mass(before.xy), high = wide_mass(before.xy + own.xy);
        if (!wide_less(d.point, low) && wide_less(d.point, high)) {
            uvec2 left = wide_sub(d.point, low);
            picked[0] = from;
            picked[1] = to;
            picked[2] = left.x;
            picked[3] = left.y;
        }
        barrier();
        d = Drawing(picked[0], picked[1], uvec2(picked[2], picked[3]));
        barrier();
    }
    uint r = list_region(d.begin);
    return scratch[AT_LIST_ID + list_slot(d.begin, r)];
}

uint choose(uint largest, uint position) {
    list_open();
    BinFound found = BinFound(scratch[AT_FOUND], uvec3(scratch[AT_FOUND + 1u], scratch[AT_FOUND + 2u], scratch[AT_FOUND + 3u]),
                              uvec3(scratch[AT_FOUND + 4u], scratch[AT_FOUND + 5u], scratch[AT_FOUND + 6u]));
    Limit k = NO_LIMIT, p = NO_LIMIT;
    uvec2 k_mass = found.before.yz + found.at.yz;
    for (uint pass = 0u; pass < 2u; pass++) { // top-k, then top-p
        bool by_mass = pass == 1u, cut;
        uint bin = found.bin;
        uvec2 want;
        if (by_mass) {
            cut = top_p_on();
            if (cut) {
                uvec2 before = wide_mass(found.before.yz);
                want = wide_top_p(wide_mass(k_mass));
                if (found.bin == BINS || !wide_less(before, want)) {
                    BinFound f = bin_find(want, true);
                    bin = f.bin;
                    before = wide_mass(f.before.yz);
                }
                want = wide_sub(want, before);
            }
        } else {
            want = uvec2(step_word[STEP_TOP_K] - found.before.x, 0u);
            if (bin < BINS) k = Limit(bin, 0u, 0xffffffffu);
            cut = bin < BINS && scratch[AT_FOUND + 7u] != 0u && want.x < found.at.x;
        }
        if (!cut) continue;
        Limit l = limit_find(k, bin, by_mass, largest, want);
        if (by_mass) p = l;
        else {
            k = l;
            if (top_p_on()) k_mass = found.before.yz + mass_within(k, largest);
        }
    }
    return draw(largest, k, p, position);
}

void main() {
    uint valid = rows_within(CTX), position = step_word[STEP_POS] + valid;
    if (valid == 0u) return;
    uvec2 best = best_of_all();
    uint id = best.y;
    if (!sample_greedy()) id = choose(best.x, position);
    if (invocation() != 0u) return;
    ring[position] = id;
    if (step_word[STEP_END] <= position) { // else the token is given
        tokens[position] = id;
        step_word[STEP_END] = position + 1u;
    }
    step_word[STEP_POS] = position;
}
