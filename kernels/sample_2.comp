/*qcc
op = "sample_2"
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
function shared_bytes(t, c, k) return 12 * 1024 + 32 + 16 * k.LOCAL // (k.SUBGROUP or 1) end
function groups(t, c, k) return (c.N_VOCAB + region(c) - 1) // region(c), 1, 1 end
*/
// Second stage of the sampler (lib/sample.glsl): histogram of the distances from the largest logit.
#define STEP_ACCESS readonly
#include "lib/sample.glsl"
layout(local_size_x = LOCAL) in;

shared uint bins[3u * BINS];

void main() {
    if (sample_greedy()) return;
    uint t = invocation(), first = gl_WorkGroupID.x * REGION;
    for (uint i = t; i < 3u * BINS; i += LOCAL) bins[i] = 0u;
    uint largest = best_of_all().x;
    barrier();
    for (uint id = first + t; id < min(first + REGION, N_VOCAB); id += LOCAL) {
        float d = key_distance(scratch[AT_KEY + id], largest);
        uint b = distance_bin(d);
        uvec2 w = mass_of(d);
        atomicAdd(bins[b], 1u);
        if (w.x != 0u) atomicAdd(bins[BINS + b], w.x);
        if (w.y != 0u) atomicAdd(bins[2u * BINS + b], w.y);
    }
    barrier();
    for (uint i = t; i < 3u * BINS; i += LOCAL)
        if (bins[i] != 0u) atomicAdd(scratch[AT_BINS + i], bins[i]);
}
