/*qcc
op = "matmul"
roles = { "w", "x", "y", "bias", "res" }

-- Tiles of BM tokens and BN rows; each invocation has TM x TN of the outputs. Large tiles only where they fill the device.
function knobs(t, c)
  local list = {}
  local function add(BM, BN, TM, TN)
    local LOCAL = BM // TM * (BN // TN)
    if LOCAL > t.max_invocations then return end
    list[#list + 1] = { LOCAL = LOCAL, BM = BM, BN = BN, TM = TM, TN = TN }
  end
  local function fills(BM, BN) return (c.M + BM - 1) // BM * ((c.ROWS + BN - 1) // BN) >= t.n_units end
  if c.M > 64 and fills(128, 64) then add(128, 64, 8, 4) end
  if c.M > 32 and fills(64, 64) then add(64, 64, 4, 4) end
  if c.M > 16 then add(32, 64, 4, 4) end
  if c.M > 32 then add(64, 32, 4, 4) end
  add(16, 64, 2, 4)
  add(16, 32, 2, 2)
  return list
end

function shared_bytes(t, c, k) return 4 * 32 * (k.BM + k.BN + 2) end

function groups(t, c, k) return (c.ROWS + k.BN - 1) // k.BN, (c.M + k.BM - 1) // k.BM, 1 end
*/
/* matmul.comp - M rows of activations times a matrix, in f32. A workgroup has a tile of BM tokens and BN rows of weights and walks
 * along K by units, which it stages decoded in shared memory with the unit's element as the slow dimension. */
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = LOCAL) in;
#include "lib/codes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
#include "lib/product.glsl"

const uint SX = BM + 1u, SW = BN + 1u; /* odd: neighbouring elements of a row fall into different banks */
const uint NM = BM / TM, NN = BN / TN; /* invocations along each side; outputs of one are NM and NN apart */
shared float xs[32u * SX];
shared float ws[32u * SW];

#ifdef OUTLIERS
uint walk[(BN + LOCAL - 1u) / LOCAL]; /* along the rows that an invocation stages */
#endif

void stage(uint id, uint m0, uint row0, uint unit) {
    for (uint i = id; i < BM * 8u; i += LOCAL) {
        uint m = i / 8u, e = 4u * (i % 8u);
        vec4 v = x_quad(min(m0 + m, M - 1u), 32u * unit + e);
#ifdef COLUMNS_AT
        v *= columns4(32u * unit + e);
#endif
        for (uint j = 0u; j < 4u; j++) xs[(e + j) * SX + m] = v[j];
    }
    for (uint r = id; r < BN; r += LOCAL) {
        FmtUnit u = fmt_load(min(row0 + r, ROWS - 1u) * UNITS + unit);
        [[unroll]] for (uint k = 0u; k < 8u; k++) {
            vec4 v = weight4(u, k);
            for (uint j = 0u; j < 4u; j++) ws[(4u * k + j) * SW + r] = v[j];
        }
#ifdef OUTLIERS
        uint o;
        while (outlier_next(min(row0 + r, ROWS - 1u), unit, walk[r / LOCAL], o))
            ws[(o & 31u) * SW + r] = outlier_value(o);
#endif
    }
}

void main() {
    uint id = gl_LocalInvocationID.x, n = id % NN, t = id / NN;
    uint row0 = gl_WorkGroupID.x * BN, m0 = gl_WorkGroupID.y * BM;
    float acc[TM][TN];
    for (uint i = 0u; i < TM; i++)
        for (uint j = 0u; j < TN; j++) acc[i][j] = 0.0;
#ifdef OUTLIERS
    for (uint i = 0u; i < (BN + LOCAL - 1u) / LOCAL; i++) walk[i] = 0u;
#endif
    for (uint unit = 0u; unit < UNITS; unit++) {
        barrier();
        stage(id, m0, row0, unit);
        barrier();
        for (uint k = 0u; k < 32u; k++) {
            float a[TM], b[TN];
            [[unroll]] for (uint i = 0u; i < TM; i++) a[i] = xs[k * SX + i * NM + t];
            [[unroll]] for (uint j = 0u; j < TN; j++) b[j] = ws[k * SW + j * NN + n];
            [[unroll]] for (uint i = 0u; i < TM; i++)
                [[unroll]] for (uint j = 0u; j < TN; j++) acc[i][j] += a[i] * b[j];
        }
    }
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN; j++)
            put_output(m0 + i * NM + t, row0 + j * NN + n, acc[i][j]);
}
