/*qcc
op = "norm"
needs = { "subgroup_arithmetic" }
roles = { "x", "nw", "y" }
function legal(t, c)
    if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
        return false, "the size of subgroups is not known"
    end
    return true
end
function knobs(t, c) return { { LOCAL = t.subgroup, SUBGROUP = t.subgroup } } end
function groups(t, c, k) return c.M, 1, 1 end
-- As matvec_row.comp: for devices whose subgroups are vectors of a processor.
function speed(t, c, k) return t.subgroup <= 8 and 1.5 or 0.05 end
*/
// y = x / sqrt(mean(x^2) + EPS) * nw, as norm.comp, in little code: one subgroup per row.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_x) readonly buffer X { layout(offset = AT_x) float x[]; };
layout(std430, set = 0, binding = BIND_nw) readonly buffer Weight { layout(offset = AT_nw) float nw[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };

void main() {
    uint lane = gl_SubgroupInvocationID, row = gl_WorkGroupID.x * K;
    float sum = 0.0;
    [[dont_unroll]] for (uint at = lane; at < K; at += LOCAL) sum += x[row + at] * x[row + at];
    float scale = inversesqrt(subgroupAdd(sum) / float(K) + EPS);
    [[dont_unroll]] for (uint at = lane; at < K; at += LOCAL) y[row + at] = x[row + at] * scale * nw[at];
}
