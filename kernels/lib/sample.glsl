/* sample.glsl - what the stages of the sampler share. They run in order, with a barrier between:
 *
 *   sample_1  repetition penalty; logits become ordered keys; the best of every region
 *   sample_2  histogram of the distances from the largest logit: counts and masses
 *   sample_3  the few that can survive the filters, region by region in the order of their ids
 *   sample_4  exact limits of top-k and top-p, the draw, and the step block
 *
 * What is chosen, in this order:
 *   1. penalty: each id among the latest REPEAT_LAST tokens is penalised once: logit > 0 ? logit / p : logit * p
 *   2. temperature 0: the largest logit, the lowest id on ties. Otherwise
 *   3. top-k: the k largest logits; 0 = all. Of equal ones the lower ids
 *   4. top-p: of those, in that order, the fewest whose probabilities (at temperature 1) reach p of the sum; at least one
 *   5. min-p: of those, logits >= largest + ln(min_p)
 *   6. temperature: of those, one is drawn with probabilities softmax(logit / temperature), by inverting the cumulative
 *      distribution in the order of ids at a random point.
 * The random number comes from Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011), with
 * the position of the token as the counter and the seed as the key: it depends on nothing else.
 *
 * Probabilities are integers: mass = exp(logit - largest) in units of 2^-26, rounded, computed by additions and multiplications
 * of f32 in a fixed order. So sums do not depend on their order, and all drivers agree. A mass is handled as two
 * halves of 13 bits whose sums over the vocabulary fit 32 bits each. NaN counts as smaller than -infinity. */
#include "lib/rows.glsl"
#include "lib/reduce.glsl"
#include "lib/scan.glsl"
layout(std430, set = 0, binding = BIND_scratch) buffer Scratch { layout(offset = AT_scratch) uint scratch[]; };

/* A region is a run of ids that a workgroup of the first stages takes. At most 256 regions. */
const uint REGION = N_VOCAB <= 65536u ? 256u : N_VOCAB <= 131072u ? 512u : N_VOCAB <= 262144u ? 1024u : 2048u;
const uint REGIONS = (N_VOCAB + REGION - 1u) / REGION;
const uint BINS = 1024u; /* of distance, 1/32 wide; the last one holds all that is further */

/* Words of the scratch buffer; sample_1.comp states its size. */
const uint AT_FOUND = 0u;                 /* what sample_3 tells sample_4 */
const uint AT_BEST = 32u;                 /* [256][2] key, id: the best of a region */
const uint AT_COUNT = 544u;               /* [256] survivors of a region */
const uint AT_BINS = 800u;                /* [3][BINS] count, low and high halves of the mass */
const uint AT_SUM = AT_BINS + 3u * BINS;  /* [256][2] mass of the survivors of a region, at the temperature */
const uint AT_KEY = AT_SUM + 512u;        /* [REGIONS * REGION] */
const uint AT_LIST_KEY = AT_KEY + REGIONS * REGION;
const uint AT_LIST_ID = AT_LIST_KEY + REGIONS * REGION;

/* ---- step block ---- */
float sample_temperature() { return uintBitsToFloat(step_word[STEP_TEMPERATURE]); }
bool sample_greedy() { return !(sample_temperature() > 0.0); }
bool top_k_on() { return step_word[STEP_TOP_K] != 0u && step_word[STEP_TOP_K] < N_VOCAB; }
bool top_p_on() { return uintBitsToFloat(step_word[STEP_TOP_P]) < 1.0; }
bool min_p_on() { return uintBitsToFloat(step_word[STEP_MIN_P]) > 0.0; }

/* ---- keys: unsigned integers in the order of the logits ---- */
uint key_of(float x) {
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0u; /* NaN */
    if (u == 0x80000000u) u = 0u;
    return (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
}
float key_value(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key); }

/* Distance below the largest, >= 0. */
const float FAR = 1e30;
float key_distance(uint key, uint largest) {
    if (key == largest) return 0.0;
    if (key == 0u) return FAR;
    precise float d = key_value(largest) - key_value(key);
    return d >= 0.0 && d < FAR ? d : FAR;
}
uint distance_bin(float d) { return min(BINS - 1u, uint(min(d, 100.0) * 32.0)); }

/* exp(-d) * 2^26, d >= 0, in two halves (low, high). 2^-f by its Taylor series about 1/2. */
uvec2 mass_of(float d) {
    precise float t = min(d, 100.0) * 1.44269504;
    float n = floor(t);
    precise float g = (t - n - 0.5) * -0.693147181;
    precise float e = 1.0 + g * (1.0 + g * (0.5 + g * (0.166666667 + g * (0.0416666667 + g * (0.00833333333 + g * 0.00138888889)))));
    precise float scaled = e * (0.707106781 * 67108864.0) * uintBitsToFloat(uint(127.0 - min(n, 60.0)) << 23) + 0.5;
    uint w = min(uint(scaled), 67108863u);
    return uvec2(w & 8191u, w >> 13);
}

/* ---- 64 bits: (low, high) ---- */
uvec2 wide_mass(uvec2 sum) { /* of sums of halves */
    uint low = sum.x + (sum.y << 13);
    return uvec2(low, (sum.y >> 19) + (low < sum.x ? 1u : 0u));
}
bool wide_less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }
uvec2 wide_sub(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u)); }
uvec2 wide_add(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + (low < a.x ? 1u : 0u));
}
/* top_p of a mass, rounded up; at least 1. */
uvec2 wide_top_p(uvec2 mass) {
    float p = uintBitsToFloat(step_word[STEP_TOP_P]);
    uint f = p > 0.0 ? uint(p * 4294967296.0) : 0u, h0, l0, h1, l1;
    umulExtended(mass.x, f, h0, l0);
    umulExtended(mass.y, f, h1, l1);
    uvec2 r = wide_add(uvec2(l1, h1), uvec2(h0, 0u));
    if (l0 != 0u) r = wide_add(r, uvec2(1u, 0u));
    return r == uvec2(0u) ? uvec2(1u, 0u) : r;
}

/* ---- the draw ---- */

/* Philox 4x32-10. */
uvec4 philox(uvec4 c, uvec2 key) {
    for (uint i = 0u; i < 10u; i++) {
        uint h0, l0, h1, l1;
        umulExtended(0xD2511F53u, c.x, h0, l0);
        umulExtended(0xCD9E8D57u, c.z, h1, l1);
        c = uvec4(h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

/* High half of the product of two wide numbers: uniform in [0, b) for a uniform a. */
uvec2 wide_scale(uvec2 a, uvec2 b) {
    uint h0, l0, h1, l1, h2, l2, h3, l3;
    umulExtended(a.x, b.x, h0, l0);
    umulExtended(a.y, b.x, h1, l1);
    umulExtended(a.x, b.y, h2, l2);
    umulExtended(a.y, b.y, h3, l3);
    uvec2 middle = wide_add(wide_add(uvec2(h0, 0u), uvec2(l1, 0u)), uvec2(l2, 0u));
    return wide_add(wide_add(uvec2(h1, 0u), uvec2(h2, 0u)), wide_add(uvec2(l3, h3), uvec2(middle.y, 0u)));
}

/* The best of all regions: key and id. */
uvec2 best_of_all() {
    uvec2 best = uvec2(0u, 0xffffffffu);
    for (uint r = invocation(); r < REGIONS; r += LOCAL)
        best = scan_better(best, uvec2(scratch[AT_BEST + 2u * r], scratch[AT_BEST + 2u * r + 1u]));
    return group_best(best);
}

/* The first bin at which the running count reaches `want.x` (by_mass false), or the running mass reaches the wide number `want`. */
struct BinFound { uint bin; uvec3 before, at; }; /* sums (count, low, high) of the bins before, and of this one */
shared uint found_word[7];
BinFound bin_find(uvec2 want, bool by_mass) {
    const uint PER = BINS / LOCAL;
    uint first = invocation() * PER;
    uvec3 own[PER], sum = uvec3(0u), total;
    for (uint i = 0u; i < PER; i++) {
        uint b = AT_BINS + first + i;
        own[i] = uvec3(scratch[b], scratch[b + BINS], scratch[b + 2u * BINS]);
        sum += own[i];
    }
    uvec3 before = group_scan(sum, total);
    if (invocation() == 0u) found_word[0] = BINS;
    barrier();
    for (uint i = 0u; i < PER; i++) {
        uvec3 after = before + own[i];
        bool reached = by_mass ? wide_less(wide_mass(before.yz), want) && !wide_less(wide_mass(after.yz), want)
                               : before.x < want.x && after.x >= want.x;
        if (reached) {
            found_word[0] = first + i;
            found_word[1] = before.x;
            found_word[2] = before.y;
            found_word[3] = before.z;
            found_word[4] = own[i].x;
            found_word[5] = own[i].y;
            found_word[6] = own[i].z;
        }
        before = after;
    }
    barrier();
    BinFound f = BinFound(found_word[0], uvec3(found_word[1], found_word[2], found_word[3]),
                          uvec3(found_word[4], found_word[5], found_word[6]));
    if (f.bin == BINS) f = BinFound(BINS, total, uvec3(0u)); /* never reached: all */
    barrier();
    return f;
}
