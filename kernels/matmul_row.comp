/*qcc
op = "matmul"
needs = { "subgroup_shuffle" }
roles = { "w", "x", "y", "bias", "res" }

function legal(t, c)
  if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
    return false, "the size of subgroups is not known"
  end
  return true
end

function knobs(t, c)
  local list = {}
  for _, n in ipairs { 32, 64, 16 } do
    for _, NR in ipairs { 2, 4 } do
      if n >= t.subgroup then list[#list + 1] = { LOCAL = n, SUBGROUP = t.subgroup, TM = math.min(8, t.subgroup), NR = NR } end
    end
  end
  return list
end

-- As matvec_row.comp: for devices whose subgroups are vectors of a processor. Vectors of four share too little.
function speed(t, c, k) return t.subgroup == 8 and 4 or t.subgroup < 8 and 0.7 or 0.05 end

function groups(t, c, k)
  return (c.ROWS + k.LOCAL * k.NR - 1) // (k.LOCAL * k.NR), (c.M + k.TM - 1) // k.TM, 1
end
*/
/* matmul_row.comp - M rows of activations times a matrix, as matmul.comp, for devices whose subgroups are vectors of a processor.
 *
 * An invocation has NR rows of the matrix and TM tokens. Of each token's activations one invocation loads the next four and passes
 * them round by shuffles. No shared memory, no barriers, and little code: see matvec_row.comp. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x = LOCAL) in;
#include "lib/codes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
#include "lib/product.glsl"

void main() {
    uint row0 = gl_WorkGroupID.x * (LOCAL * NR) + gl_LocalInvocationID.x, m0 = gl_WorkGroupID.y * TM;
    uint own = min(m0 + gl_SubgroupInvocationID % TM, M - 1u);
    float acc[NR][TM];
    [[unroll]] for (uint r = 0u; r < NR; r++)
        [[unroll]] for (uint m = 0u; m < TM; m++) acc[r][m] = 0.0;
    [[dont_unroll]] for (uint unit = 0u; unit < UNITS; unit++) {
        FmtUnit w[NR];
        [[unroll]] for (uint r = 0u; r < NR; r++) w[r] = fmt_load(min(row0 + r * LOCAL, ROWS - 1u) * UNITS + unit);
        [[dont_unroll]] for (uint j = 0u; j < 8u; j++) {
            vec4 x = x_quad(own, 32u * unit + 4u * j), b[NR];
#ifdef COLUMNS_AT
            x *= columns4(32u * unit + 4u * j);
#endif
            [[unroll]] for (uint r = 0u; r < NR; r++) b[r] = weight4(w[r], j);
            [[unroll]] for (uint m = 0u; m < TM; m++) {
                vec4 a = subgroupShuffle(x, m);
                [[unroll]] for (uint r = 0u; r < NR; r++) acc[r][m] += dot(b[r], a);
            }
        }
    }
#ifdef OUTLIERS
    [[dont_unroll]] for (uint i = 0u; i < OUTLIERS; i++)
        [[unroll]] for (uint r = 0u; r < NR; r++) {
            uint o = outlier(min(row0 + r * LOCAL, ROWS - 1u), i), e = outlier_column(o);
            float w = outlier_value(o);
            [[unroll]] for (uint m = 0u; m < TM; m++)
                acc[r][m] += w * x_1[min(m0 + m, M - 1u) * X_STRIDE + e];
        }
#endif
    [[dont_unroll]] for (uint i = 0u; i < NR * TM; i++) {
        float v = 0.0; /* acc[i / TM][i % TM], without an array in memory */
        [[unroll]] for (uint n = 0u; n < NR * TM; n++) v = n == i ? acc[n / TM][n % TM] : v;
        put_output(m0 + i % TM, row0 + i / TM * LOCAL, v);
    }
}
