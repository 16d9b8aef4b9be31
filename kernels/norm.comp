/*qcc
op = "norm"
roles = { "x", "nw", "y" }
function knobs(t, c)
    local list = {}
    for _, n in ipairs(c.K >= 2048 and { 512, 256, 128 } or c.K >= 512 and { 256, 128 } or { 64, 128 }) do
        if t.caps.subgroup_arithmetic and n >= t.subgroup then list[#list + 1] = { LOCAL = n, SUBGROUP = t.subgroup } end
        list[#list + 1] = { LOCAL = n }
    end
    return list
end
function shared_bytes(t, c, k) return 4 * k.LOCAL // (k.SUBGROUP or 1) end
function groups(t, c, k) return c.M, 1, 1 end
*/
// y = x / sqrt(mean(x^2) + EPS) * nw: one group per row.
#include "lib/reduce.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_x) readonly buffer X { layout(offset = AT_x) float x[]; };
layout(std430, set = 0, binding = BIND_nw) readonly buffer Weight { layout(offset = AT_nw) float nw[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };

const uint KEEP = 16u; // elements that an invocation keeps between the two passes; the others are read again

void main() {
    uint t = invocation(), row = gl_WorkGroupID.x * K;
    float kept[KEEP], sum = 0.0;
    for (uint i = 0u; i < KEEP; i++) {
        uint at = t + i * LOCAL;
        kept[i] = at < K ? x[row + at] : 0.0;
        sum += kept[i] * kept[i];
    }
    for (uint at = t + KEEP * LOCAL; at < K; at += LOCAL) sum += x[row + at] * x[row + at];
    float scale = 1.0 / sqrt(group_sum(sum) / float(K) + EPS);
    for (uint i = 0u; i < KEEP; i++) {
        uint at = t + i * LOCAL;
        if (at < K) y[row + at] = kept[i] * scale * nw[at];
    }
    for (uint at = t + KEEP * LOCAL; at < K; at += LOCAL) y[row + at] = x[row + at] * scale * nw[at];
}
