/* stage.glsl - activations on their way into shared memory, a unit of 32 by eight neighbouring
 * invocations where subgroups allow, so that they read neighbouring words; else by one.
 *
 * An inner loop includes it for unit_max and half_sum and defines inner_put_quad and inner_put; a
 * kernel defines `vec4 staged_quad(uint slot, uint j)`, elements 4j .. 4j + 3 of a slot, and then
 * includes it again, with STAGE defined, for stage_units. SUBGROUP (knob) needs subgroup_clustered or
 * subgroup_shuffle. */
#ifndef STAGE
#ifdef SUBGROUP
#if HAS_SUBGROUP_CLUSTERED
#extension GL_KHR_shader_subgroup_clustered : require
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
const bool STAGE_QUADS = SUBGROUP >= 8u;

/* Of the eight invocations of a unit. */
float unit_max(float v) {
#if HAS_SUBGROUP_CLUSTERED
    return subgroupClusteredMax(v, STAGE_QUADS ? 8u : 1u);
#else
    for (uint s = 4u; s > 0u; s >>= 1) v = max(v, subgroupShuffleXor(v, s));
    return v;
#endif
}
/* Of the four invocations of half a unit. */
float half_sum(float v) {
#if HAS_SUBGROUP_CLUSTERED
    return subgroupClusteredAdd(v, STAGE_QUADS ? 4u : 1u);
#else
    for (uint s = 2u; s > 0u; s >>= 1) v += subgroupShuffleXor(v, s);
    return v;
#endif
}
#else
const bool STAGE_QUADS = false;
float unit_max(float v) { return v; }
float half_sum(float v) { return v; }
#endif
#else
/* Slots 0 .. n - 1. All invocations, numbered as in reduce.glsl, in uniform control flow. */
void stage_units(uint id, uint n) {
    if (STAGE_QUADS) {
        for (uint at = 0u; at < 8u * n; at += LOCAL) {
            uint slot = (at + id) / 8u, j = id % 8u;
            vec4 v = slot < n ? staged_quad(slot, j) : vec4(0.0);
            inner_put_quad(slot, j, v, slot < n);
        }
    } else {
        for (uint slot = id; slot < n; slot += LOCAL) {
            vec4 v[8];
            [[unroll]] for (uint j = 0u; j < 8u; j++) v[j] = staged_quad(slot, j);
            inner_put(slot, v);
        }
    }
}
#endif
