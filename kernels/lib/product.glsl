/* product.glsl - activations and outputs of the matmul kernels: M rows of x, of X_STRIDE elements, in;
 * y[m][column of the row] = v (+ bias) (+ residual) out, as kernels/README.md has it. */
layout(set = 0, binding = BIND_x) readonly buffer X1 { layout(offset = AT_x) float x_1[]; };
layout(set = 0, binding = BIND_x) readonly buffer X4 { layout(offset = AT_x) vec4 x_4[]; };
layout(set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };
#ifdef BIND_bias
layout(set = 0, binding = BIND_bias) readonly buffer Bias { layout(offset = AT_bias) float bias[]; };
#endif
#ifdef BIND_res
layout(set = 0, binding = BIND_res) readonly buffer Res { layout(offset = AT_res) float res[]; };
#endif

/* Elements e .. e + 3 of a row, e below K rounded up to a unit; zeros behind its end. */
vec4 x_quad(uint m, uint e) {
    if (K % 32u == 0u && X_STRIDE % 4u == 0u) return x_4[(m * X_STRIDE + e) / 4u];
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < 4u; i++)
        if (e + i < K) v[i] = x_1[m * X_STRIDE + e + i];
    return v;
}

/* Nothing for what lies behind the last token or row. */
void put_output(uint m, uint row, float v) {
    if (m >= M || row >= ROWS) return;
    uint column = row < SPLIT ? Y0 + row : Y1 + row - SPLIT;
#ifdef BIND_bias
    v += bias[column];
#endif
#ifdef BIND_res
    v += res[m * Y_STRIDE + column];
#endif
    y[m * Y_STRIDE + column] = v;
}
