/* reduce.glsl - sums and maxima over a workgroup, in a fixed order, for any subgroup size.
 *
 * Include it after the knobs: LOCAL (a power of two) and, where subgroup operations are to be used, SUBGROUP (the size, a power of two
 * <= LOCAL; needs subgroup_arithmetic). All functions contain barriers: call them in uniform control flow. All
 * invocations get the result. Number invocations with invocation(), which is the order that subgroups have.
 * Shared memory: 4 * LOCAL bytes, or 4 * LOCAL / SUBGROUP. */
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
uint invocation() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }
shared float reduce_part[LOCAL / SUBGROUP];
#else
uint invocation() { return gl_LocalInvocationID.x; }
shared float reduce_part[LOCAL];
#endif

#ifdef SUBGROUP
#define REDUCE_FUNCTION(name, join, over_subgroup)                                             \
    float name(float v) {                                                                      \
        float s = over_subgroup(v);                                                            \
        if (LOCAL == SUBGROUP) return s;                                                       \
        barrier();                                                                             \
        if (gl_SubgroupInvocationID == 0u) reduce_part[gl_SubgroupID] = s;                     \
        barrier();                                                                             \
        s = reduce_part[0];                                                                    \
        for (uint i = 1u; i < LOCAL / SUBGROUP; i++) s = join(s, reduce_part[i]);              \
        return s;                                                                              \
    }
#else
#define REDUCE_FUNCTION(name, join, over_subgroup)                                             \
    float name(float v) {                                                                      \
        uint id = gl_LocalInvocationID.x;                                                      \
        barrier();                                                                             \
        reduce_part[id] = v;                                                                   \
        barrier();                                                                             \
        for (uint s = LOCAL / 2u; s > 0u; s >>= 1) {                                           \
            if (id < s) reduce_part[id] = join(reduce_part[id], reduce_part[id + s]);          \
            barrier();                                                                         \
        }                                                                                      \
        return reduce_part[0];                                                                 \
    }
#endif
float reduce_add(float a, float b) { return a + b; }
REDUCE_FUNCTION(group_sum, reduce_add, subgroupAdd)
REDUCE_FUNCTION(group_max, max, subgroupMax)
