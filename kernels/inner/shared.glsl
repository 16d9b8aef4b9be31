/*qcc
function shared_bytes(t, c, k) return 12 * k.LOCAL end
*/
// Sums over the invocations of a group (LOCAL, a power of two), in shared memory: needs no capability. The same functions as
// inner/lanes.glsl; every one must be reached by the whole group.
shared uint group_x[LOCAL], group_y[LOCAL], group_z[LOCAL];

uint group_index() { return gl_LocalInvocationID.x; }

uvec3 group_scan(uvec3 v, out uvec3 total) {
    uint t = gl_LocalInvocationID.x;
    uvec3 sum = v;
    for (uint step_ = 1u; step_ < LOCAL; step_ *= 2u) {
        barrier();
        group_x[t] = sum.x;
        group_y[t] = sum.y;
        group_z[t] = sum.z;
        barrier();
        if (t >= step_) sum += uvec3(group_x[t - step_], group_y[t - step_], group_z[t - step_]);
    }
    barrier();
    group_x[t] = sum.x;
    group_y[t] = sum.y;
    group_z[t] = sum.z;
    barrier();
    total = uvec3(group_x[LOCAL - 1u], group_y[LOCAL - 1u], group_z[LOCAL - 1u]);
    return sum - v;
}

uvec2 group_best(uvec2 v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    group_x[t] = v.x;
    group_y[t] = v.y;
    for (uint n = LOCAL / 2u; n > 0u; n /= 2u) {
        barrier();
        if (t < n) {
            uint x = group_x[t + n], y = group_y[t + n];
            if (x > group_x[t] || (x == group_x[t] && y < group_y[t])) {
                group_x[t] = x;
                group_y[t] = y;
            }
        }
    }
    barrier();
    return uvec2(group_x[0], group_y[0]);
}

float group_sum(float v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    group_x[t] = floatBitsToUint(v);
    for (uint n = LOCAL / 2u; n > 0u; n /= 2u) {
        barrier();
        if (t < n) group_x[t] = floatBitsToUint(uintBitsToFloat(group_x[t]) + uintBitsToFloat(group_x[t + n]));
    }
    barrier();
    return uintBitsToFloat(group_x[0]);
}
