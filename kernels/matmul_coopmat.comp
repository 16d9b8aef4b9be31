/*qcc
op = "matmul"
needs = { "coopmat", "f16", "subgroup_arithmetic" }
roles = { "w", "x", "y", "bias", "res" }

-- Weights are rounded to f16: on the example model the logits are then off by 1.5e-3, more than exact mode allows.
function legal(t, c)
  if c.FAST ~= 1 then return false, "rounds weights to f16, which --accuracy exact does not allow" end
  if not t.caps.subgroup_size_control and t.subgroup_min ~= t.subgroup_max then
    return false, "the subgroup size varies"
  end
  return true
end

-- A workgroup has BM tokens and BN rows; its WM x WN subgroups share them. BU units of K are staged at a time.
function knobs(t, c)
  local list = {}
  local digits = c.FAST == 1 and 1 or 2
  local function add(BM, BN, WM, WN, BU)
    list[#list + 1] = { LOCAL = WM * WN * t.subgroup, SUBGROUP = t.subgroup, BM = BM, BN = BN, WM = WM, WN = WN, BU = BU,
                        DIGITS = digits }
  end
  -- Tiles large enough to pay for staging, but enough of them: `full` is their number per unit of the device.
  local function fills(BM, BN, full)
    return ((c.M + BM - 1) // BM) * ((c.ROWS + BN - 1) // BN) >= full * t.n_units
  end
  if c.M > 64 and fills(128, 256, 1.25) then add(128, 256, 2, 4, 1) end
  if c.M > 64 and fills(128, 128, 0.75) then add(128, 128, 2, 4, 2) add(128, 128, 2, 4, 1) end
  if c.M > 32 and fills(64, 128, 0.75) then add(64, 128, 2, 4, 2) end
  if c.M > 32 and fills(64, 64, 1) then add(64, 64, 2, 2, 2) end
  if c.M > 16 and fills(32, 64, 0.75) then add(32, 64, 1, 4, 2) end
  add(16, 64, 1, 4, 2)
  add(16, 32, 1, 2, 2)
  return list
end

function shared_bytes(t, c, k)
  return 16 * (4 * k.BU + 1) * (k.BM * k.DIGITS + k.BN) + 4 * 256 * k.WM * k.WN
end

function groups(t, c, k) return (c.ROWS + k.BN - 1) // k.BN, (c.M + k.BM - 1) // k.BM, 1 end

function speed(t, c, k) return c.FAST == 1 and 8 or 5 end
*/
/* matmul_coopmat.comp - M rows of activations times a matrix by 16 x 16 x 16 products of f16 numbers with f32 sums.
 *
 * Weights are decoded to f16. Activations are the sum of DIGITS f16 numbers: with two they keep 22 bits. A step is requested
 * while others of the group still multiply the one before; requesting it earlier costs more in registers than it hides. Staged
 * rows are padded by 16 bytes against bank conflicts. Every loop that indexes `acc` must unroll, or it goes to memory (a fifth of the
 * speed): constant bounds in all loops inside. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = LOCAL) in;
#include "lib/codes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
#include "lib/product.glsl"

const uint PITCH = 4u * BU + 1u;                  /* of a staged row, in groups of eight f16 */
const uint TM = BM / WM / 16u, TN = BN / WN / 16u; /* products of a subgroup */
const uint X_EACH = (BM * BU * 4u + LOCAL - 1u) / LOCAL, W_EACH = (BN * BU + LOCAL - 1u) / LOCAL;
const uint STEPS = (UNITS + BU - 1u) / BU;
shared uvec4 xs[DIGITS * BM * PITCH];
shared uvec4 ws[BN * PITCH];
shared float tile[WM * WN * 256u];

/* The nearest f16 numbers as bits; what is too large becomes the largest. */
uvec2 halves(vec4 v) {
    f16vec4 h = f16vec4(clamp(v, -65504.0, 65504.0));
    return uvec2(packFloat2x16(h.xy), packFloat2x16(h.zw));
}
vec4 rounded(vec4 v) { return vec4(f16vec4(clamp(v, -65504.0, 65504.0))); }

void request(uint id, uint m0, uint row0, uint step, out vec4 x[2u * X_EACH], out FmtUnit w[W_EACH]) {
    [[unroll]] for (uint i = 0u; i < W_EACH; i++) {
        uint t = min(i * LOCAL + id, BN * BU - 1u), unit = min(step * BU + t % BU, UNITS - 1u);
        w[i] = fmt_load(min(row0 + t / BU, ROWS - 1u) * UNITS + unit);
    }
    [[unroll]] for (uint i = 0u; i < X_EACH; i++) {
        uint t = min(i * LOCAL + id, BM * BU * 4u - 1u);
        uint m = min(m0 + t / (4u * BU), M - 1u), e = 32u * BU * step + 8u * (t % (4u * BU));
        x[2u * i] = e < K ? x_quad(m, e) : vec4(0.0);
        x[2u * i + 1u] = e < K ? x_quad(m, e + 4u) : vec4(0.0);
#ifdef COLUMNS_AT
        uint column = min(e, 32u * UNITS - 8u); /* behind the end x is zero */
        x[2u * i] *= columns4(column);
        x[2u * i + 1u] *= columns4(column + 4u);
#endif
    }
}

#ifdef OUTLIERS
uint walk[W_EACH]; /* along the rows that an invocation stages */

/* Puts a row's outliers into a unit that stands at a group of eight. */
void stage_outliers(uint row, uint unit, uint at, inout uint walked) {
    uint o;
    while (outlier_next(row, unit, walked, o)) {
        uint e = o & 31u, shift = 16u * (e & 1u), group = at + e / 8u, pair = e / 2u & 3u;
        ws[group][pair] = (ws[group][pair] & 0xffff0000u >> shift) | o >> 16 << shift;
    }
}
#endif

void stage(uint id, uint row0, uint step, vec4 x[2u * X_EACH], FmtUnit w[W_EACH]) {
    [[unroll]] for (uint i = 0u; i < X_EACH; i++) {
        uint t = i * LOCAL + id, at = t / (4u * BU) * PITCH + t % (4u * BU);
        if (t >= BM * BU * 4u) continue;
        xs[at] = uvec4(halves(x[2u * i]), halves(x[2u * i + 1u]));
        if (DIGITS == 2u)
            xs[(DIGITS - 1u) * BM * PITCH + at] = uvec4(halves(x[2u * i] - rounded(x[2u * i])),
                                                        halves(x[2u * i + 1u] - rounded(x[2u * i + 1u])));
    }
    [[unroll]] for (uint i = 0u; i < W_EACH; i++) {
        uint t = i * LOCAL + id;
        if (t >= BN * BU) continue;
        bool inside = step * BU + t % BU < UNITS;
        [[unroll]] for (uint k = 0u; k < 4u; k++)
            ws[t / BU * PITCH + 4u * (t % BU) + k] =
                inside ? uvec4(halves(weight4(w[i], 2u * k)), halves(weight4(w[i], 2u * k + 1u))) : uvec4(0u);
    }
#ifdef OUTLIERS
    for (uint i = 0u; i < W_EACH; i++) {
        uint t = i * LOCAL + id, row = min(row0 + t / BU, ROWS - 1u);
        if (t < BN * BU) stage_outliers(row, step * BU + t % BU, t / BU * PITCH + 4u * (t % BU), walk[i]);
    }
#endif
}

void main() {
    uint id = gl_LocalInvocationID.x, sub = gl_SubgroupID, wm = sub / WN, wn = sub % WN;
    uint row0 = gl_WorkGroupID.x * BN, m0 = gl_WorkGroupID.y * BM;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc[TM * TN];
    [[unroll]] for (uint i = 0u; i < TM * TN; i++)
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    vec4 x[2u * X_EACH];
    FmtUnit w[W_EACH];
#ifdef OUTLIERS
    [[unroll]] for (uint i = 0u; i < W_EACH; i++) walk[i] = 0u;
#endif
    for (uint step = 0u; step < STEPS; step++) {
        request(id, m0, row0, step, x, w);
        barrier();
        stage(id, row0, step, x, w);
        barrier();
        [[unroll]] for (uint k = 0u; k < 2u * BU; k++) {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b[TN];
            [[unroll]] for (uint j = 0u; j < TN; j++)
                coopMatLoad(b[j], ws, (wn * TN + j) * 16u * PITCH + 2u * k, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < TM; i++)
                [[unroll]] for (uint d = 0u; d < DIGITS; d++) {
                    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
                    coopMatLoad(a, xs, (d * BM + (wm * TM + i) * 16u) * PITCH + 2u * k, PITCH,
                                gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint j = 0u; j < TN; j++) acc[i * TN + j] = coopMatMulAdd(a, b[j], acc[i * TN + j]);
                }
        }
    }
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN; j++) {
            barrier();
            coopMatStore(acc[i * TN + j], tile, sub * 256u, 16u, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            [[unroll]] for (uint n = 0u; n < 256u / SUBGROUP; n++) {
                uint e = n * SUBGROUP + gl_SubgroupInvocationID;
                put_output(m0 + (wm * TM + i) * 16u + e / 16u, row0 + (wn * TN + j) * 16u + e % 16u, tile[sub * 256u + e]);
            }
        }
}
