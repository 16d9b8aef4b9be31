/*qcc
op = "topk"
roles = { "x", "route" }
function knobs(t, c)
    local list = {}
    for _, n in ipairs{ t.subgroup, 32, 128 } do
        if t.caps.subgroup_arithmetic and n >= t.subgroup then
            list[#list + 1] = { LOCAL = n, SUBGROUP = t.subgroup }
        end
        if n >= 32 then list[#list + 1] = { LOCAL = n } end
    end
    return list
end
function shared_bytes(t, c, k) return 4 * k.LOCAL // (k.SUBGROUP or 1) end
function groups(t, c, k) return c.M, 1, 1 end
*/
// A row's experts: softmax over N_EXPERT logits, the N_USED largest (the lowest id on ties) in
// falling order, their weights normalised. One group per row; whatever the logits are, the ids are
// N_USED different experts.
#include "lib/reduce.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_x) readonly buffer X { layout(offset = AT_x) float x[]; };
layout(std430, set = 0, binding = BIND_route) writeonly buffer Route { layout(offset = AT_route) uvec2 route[]; };

const uint PER = (N_EXPERT + LOCAL - 1u) / LOCAL; // experts of an invocation
const float LEAST = -3e38, LEAST_SUM = 6.103515625e-5;

float logit(uint i) {
    float v = x[i];
    bool is_nan = (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u;
    return is_nan ? LEAST : clamp(v, LEAST, -LEAST);
}

void main() {
    uint t = invocation(), row = gl_WorkGroupID.x, id[N_USED];
    float own[PER], chosen[N_USED], all = 0.0, kept = 0.0;
    for (uint i = 0u; i < PER; i++) {
        uint e = t + i * LOCAL;
        own[i] = e < N_EXPERT ? logit(row * N_EXPERT + e) : LEAST;
    }
    for (uint j = 0u; j < N_USED; j++) {
        uint best_id = N_EXPERT, last = max(j, 1u) - 1u;
        float best = LEAST;
        for (uint i = 0u; i < PER; i++) {
            uint e = t + i * LOCAL;
            bool tie = own[i] == chosen[last] && e > id[last];
            bool left = j == 0u || own[i] < chosen[last] || tie;
            if (e < N_EXPERT && left && (best_id == N_EXPERT || own[i] > best)) {
                best = own[i];
                best_id = e;
            }
        }
        chosen[j] = group_max(best);
        id[j] = uint(-group_max(best == chosen[j] ? -float(best_id) : -float(N_EXPERT)));
    }
    float top = chosen[0];
    for (uint i = 0u; i < PER; i++)
        if (t + i * LOCAL < N_EXPERT) all += exp(own[i] - top);
    all = group_sum(all);
    for (uint j = 0u; j < N_USED; j++) {
        chosen[j] = exp(chosen[j] - top) / all;
        kept += chosen[j];
    }
    if (t != 0u) return;
    for (uint j = 0u; j < N_USED; j++)
        route[row * N_USED + j] = uvec2(id[j], floatBitsToUint(chosen[j] / max(kept, LEAST_SUM)));
}
