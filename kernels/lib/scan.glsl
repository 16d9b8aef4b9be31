/* scan.glsl - running sums and the best pair over a workgroup. Include it after reduce.glsl (which see: SUBGROUP, invocation()).
 *
 * Functions contain barriers; integer sums, so the order does not matter. Shared memory: 12 * LOCAL bytes, with SUBGROUP
 * 12 * LOCAL / SUBGROUP. */
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
const uint SCAN_PARTS = LOCAL / SUBGROUP;
/* Parts at a time: code is expensive where a subgroup is a vector of a processor. */
const uint SCAN_STEP = SUBGROUP <= 8u ? 1u : min(8u, SCAN_PARTS);
#else
const uint SCAN_PARTS = LOCAL;
#endif
shared uint scan_x[SCAN_PARTS], scan_y[SCAN_PARTS], scan_z[SCAN_PARTS];

uvec3 scan_at(uint i) { return uvec3(scan_x[i], scan_y[i], scan_z[i]); }
void scan_put(uint i, uvec3 v) {
    scan_x[i] = v.x;
    scan_y[i] = v.y;
    scan_z[i] = v.z;
}

/* Sum over the invocations before this one; `total` is that of all. */
uvec3 group_scan(uvec3 v, out uvec3 total) {
    barrier();
#ifdef SUBGROUP
    uvec3 before = subgroupExclusiveAdd(v);
    if (gl_SubgroupInvocationID == SUBGROUP - 1u) scan_put(gl_SubgroupID, before + v);
    barrier();
    total = uvec3(0u);
    [[dont_unroll]] for (uint i = 0u; i < SCAN_PARTS; i += SCAN_STEP)
        [[unroll]] for (uint j = i; j < i + SCAN_STEP; j++) {
            uvec3 s = scan_at(j);
            if (j < gl_SubgroupID) before += s;
            total += s;
        }
    return before;
#else
    uint id = invocation();
    uvec3 sum = v;
    scan_put(id, sum);
    barrier();
    for (uint n = 1u; n < LOCAL; n *= 2u) {
        if (id >= n) sum += scan_at(id - n);
        barrier();
        scan_put(id, sum);
        barrier();
    }
    total = scan_at(LOCAL - 1u);
    return sum - v;
#endif
}

/* The pair with the largest x; of equal ones that with the smallest y. */
uvec2 scan_better(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a; }
uvec2 group_best(uvec2 v) {
    barrier();
#ifdef SUBGROUP
    uint x = subgroupMax(v.x), y = subgroupMin(v.x == x ? v.y : 0xffffffffu);
    if (gl_SubgroupInvocationID == 0u) scan_put(gl_SubgroupID, uvec3(x, y, 0u));
    barrier();
    uvec2 best = scan_at(0u).xy;
    [[dont_unroll]] for (uint i = 0u; i < SCAN_PARTS; i += SCAN_STEP)
        [[unroll]] for (uint j = i; j < i + SCAN_STEP; j++) best = scan_better(best, scan_at(j).xy);
    return best;
#else
    uint id = invocation();
    scan_put(id, uvec3(v, 0u));
    barrier();
    for (uint n = LOCAL / 2u; n > 0u; n /= 2u) {
        if (id < n) scan_put(id, uvec3(scan_better(scan_at(id).xy, scan_at(id + n).xy), 0u));
        barrier();
    }
    return scan_at(0u).xy;
#endif
}
