/*qcc
op = "gate"
roles = { "x", "y" }
function knobs(t, c) return { { LOCAL = 256 }, { LOCAL = 128 } } end
function groups(t, c, k) return (c.F + k.LOCAL - 1) // k.LOCAL, c.M, 1 end
*/
// y = silu(gate) * up, where gate and up are the halves of a row of x.
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_x) readonly buffer X { layout(offset = AT_x) float x[]; };
layout(std430, set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x, m = gl_WorkGroupID.y;
    if (i >= F) return;
    float gate = x[m * X_STRIDE + i], up = x[m * X_STRIDE + F + i];
    y[m * F + i] = gate / (1.0 + exp(-gate)) * up;
}
