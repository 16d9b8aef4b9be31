/*qcc
op = "combine"
roles = { "x", "route", "y", "res" }
function knobs(t, c) return { { LOCAL = 128 }, { LOCAL = 64 } } end
function groups(t, c, k) return (c.K + k.LOCAL - 1) // k.LOCAL, c.M, 1 end
*/
// y = sum of weight * x over a row's N_USED slots, in their order, plus the residual.
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_x) readonly buffer X { layout(offset = AT_x) float x[]; };
layout(std430, set = 0, binding = BIND_route) readonly buffer Route { layout(offset = AT_route) uvec2 route[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
#ifdef BIND_res
layout(std430, set = 0, binding = BIND_res) readonly buffer Res { layout(offset = AT_res) float res[]; };
#endif

void main() {
    uint i = gl_GlobalInvocationID.x, m = gl_WorkGroupID.y;
    if (i >= K) return;
    float sum = 0.0;
    for (uint j = 0u; j < N_USED; j++) {
        uint pair = m * N_USED + j;
        sum += uintBitsToFloat(route[pair].y) * x[pair * K + i];
    }
#ifdef BIND_res
    sum += res[m * K + i];
#endif
    y[m * K + i] = sum;
}
