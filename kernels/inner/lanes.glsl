/*qcc
needs = { "subgroup_arithmetic" }
function knobs(t, c) return { SUBGROUP = t.subgroup } end
function shared_bytes(t, c, k) return 16 * math.ceil(k.LOCAL / t.subgroup) end
*/
// Sums over the invocations of a group, by subgroup arithmetic. inner/shared.glsl is the same in shared memory only.
// Subgroups are full and of SUBGROUP lanes; every function must be reached by the whole group.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#define GROUP_SUBGROUPS ((LOCAL + SUBGROUP - 1u) / SUBGROUP)
shared uint group_x[GROUP_SUBGROUPS], group_y[GROUP_SUBGROUPS], group_z[GROUP_SUBGROUPS];

// Number of this invocation, 0 .. LOCAL-1: the order of group_scan.
uint group_index() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }

// Exclusive sum over the invocations before this one; `total` is the sum of all.
uvec3 group_scan(uvec3 v, out uvec3 total) {
    uvec3 before = subgroupExclusiveAdd(v), sum = subgroupAdd(v);
    barrier();
    if (subgroupElect()) {
        group_x[gl_SubgroupID] = sum.x;
        group_y[gl_SubgroupID] = sum.y;
        group_z[gl_SubgroupID] = sum.z;
    }
    barrier();
    total = uvec3(0u);
    for (uint i = 0u; i < GROUP_SUBGROUPS; i++) {
        uvec3 s = uvec3(group_x[i], group_y[i], group_z[i]);
        if (i < gl_SubgroupID) before += s;
        total += s;
    }
    return before;
}

// The pair with the largest x; of equal ones, that with the smallest y.
uvec2 group_best(uvec2 v) {
    uint x = subgroupMax(v.x), y = subgroupMin(v.x == x ? v.y : 0xffffffffu);
    barrier();
    if (subgroupElect()) {
        group_x[gl_SubgroupID] = x;
        group_y[gl_SubgroupID] = y;
    }
    barrier();
    uvec2 best = uvec2(group_x[0], group_y[0]);
    for (uint i = 1u; i < GROUP_SUBGROUPS; i++)
        if (group_x[i] > best.x || (group_x[i] == best.x && group_y[i] < best.y)) best = uvec2(group_x[i], group_y[i]);
    return best;
}

float group_sum(float v) {
    float s = subgroupAdd(v);
    barrier();
    if (subgroupElect()) group_x[gl_SubgroupID] = floatBitsToUint(s);
    barrier();
    s = 0.0;
    for (uint i = 0u; i < GROUP_SUBGROUPS; i++) s += uintBitsToFloat(group_x[i]);
    return s;
}
