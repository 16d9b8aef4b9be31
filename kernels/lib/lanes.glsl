/* lanes.glsl - sums over LANES neighbouring invocations, of NR values at once, in a fixed order.
 *
 * Include it after reduce.glsl, with the knobs LOCAL, LANES (a power of two) and NR. SUBGROUP needs subgroup_clustered or
 * subgroup_shuffle besides. The first lane gets the result; contains barriers where LANES is not within one subgroup.
 * Shared memory: 4 * NR * LOCAL bytes, with SUBGROUP 4 * NR * LOCAL / SUBGROUP, none if LANES <= SUBGROUP. */
#ifdef SUBGROUP
#if HAS_SUBGROUP_CLUSTERED
#extension GL_KHR_shader_subgroup_clustered : require
#elif HAS_SUBGROUP_SHUFFLE
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
const uint LANES_PARTS = LANES <= SUBGROUP ? 1u : LOCAL / SUBGROUP;
const uint LANES_WIDTH = LANES <= SUBGROUP ? 1u : LANES / SUBGROUP; /* parts that make one sum */

float lanes_within(float v) {
    if (LANES >= SUBGROUP) return subgroupAdd(v);
#if HAS_SUBGROUP_CLUSTERED
    return subgroupClusteredAdd(v, LANES < SUBGROUP ? LANES : 1u);
#elif HAS_SUBGROUP_SHUFFLE
    for (uint s = LANES / 2u; s > 0u; s >>= 1) v += subgroupShuffleXor(v, s);
    return v;
#endif
}
#else
const uint LANES_PARTS = LOCAL, LANES_WIDTH = LANES;
#endif
shared float lanes_part[NR * LANES_PARTS];

void lanes_sum(inout float v[NR]) {
    uint id = invocation(), part = id;
#ifdef SUBGROUP
    for (uint r = 0u; r < NR; r++) v[r] = lanes_within(v[r]);
    if (LANES <= SUBGROUP) return;
    part = gl_SubgroupID;
    barrier();
    if (gl_SubgroupInvocationID == 0u)
        for (uint r = 0u; r < NR; r++) lanes_part[r * LANES_PARTS + part] = v[r];
    barrier();
    part -= part % LANES_WIDTH;
    for (uint r = 0u; r < NR; r++) {
        v[r] = 0.0;
        for (uint i = 0u; i < LANES_WIDTH; i++) v[r] += lanes_part[r * LANES_PARTS + part + i];
    }
#else
    barrier();
    for (uint r = 0u; r < NR; r++) lanes_part[r * LOCAL + id] = v[r];
    barrier();
    for (uint s = LANES / 2u; s > 0u; s >>= 1) {
        if (id % LANES < s)
            for (uint r = 0u; r < NR; r++) lanes_part[r * LOCAL + id] += lanes_part[r * LOCAL + id + s];
        barrier();
    }
    for (uint r = 0u; r < NR; r++) v[r] = lanes_part[r * LOCAL + id];
#endif
}
