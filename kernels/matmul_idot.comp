/*qcc
op = "matmul"
needs = { "idot" }
roles = { "w", "x", "y", "bias", "res" }

function legal(t, c)
  if c.FORMAT_CODES ~= 1 then return false, "the format has no integer codes" end
  if c.OUTLIERS then return false, "outliers are no integers" end
  return true
end

-- Tiles as in matmul.comp.
function knobs(t, c)
  local list = {}
  local function add(BM, BN, TM, TN)
    local LOCAL = BM // TM * (BN // TN)
    if LOCAL > t.max_invocations then return end
    list[#list + 1] = { LOCAL = LOCAL, BM = BM, BN = BN, TM = TM, TN = TN, DIGITS = c.FAST == 1 and 1 or 2,
                        SUBGROUP = t.fixed_subgroup and t.fixed_subgroup <= LOCAL and t.fixed_subgroup or nil }
  end
  local function fills(BM, BN) return (c.M + BM - 1) // BM * ((c.ROWS + BN - 1) // BN) >= t.n_units end
  if c.M > 64 and fills(128, 64) and t.subgroup > 4 then add(128, 64, 8, 4) end
  if c.M > 32 and fills(64, 64) then add(64, 64, 4, 4) end
  if c.M > 16 then add(32, 64, 4, 4) end
  if c.M > 32 then add(64, 32, 4, 4) end
  add(16, 64, 2, 4)
  add(16, 32, 2, 2)
  return list
end

function shared_bytes(t, c, k) return 4 * (8 * k.DIGITS * (k.BM + 1) + 3 * k.BM + 8 * (k.BN + 1) + 4 * k.BN) end

function groups(t, c, k) return (c.ROWS + k.BN - 1) // k.BN, (c.M + k.BM - 1) // k.BM, 1 end

-- Four products an instruction, for each digit. Vectors of a processor multiply as fast in f32.
function speed(t, c, k)
  if t.subgroup <= 8 then return 0.1 end
  return 0.8 * math.max(1, t.idot_gops / t.flops_gf) / (c.FAST == 1 and 1 or 2)
end
*/
/* matmul_idot.comp - M rows of activations times a matrix of integer codes, by four-way integer dot
 * products. A workgroup has a tile of BM tokens and BN rows of weights and walks along K by units. The
 * 32 activations of a unit share a scale and become fixed-point numbers of DIGITS int8 digits, as in
 * inner/idot.glsl. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
uint invocation() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }
#else
uint invocation() { return gl_LocalInvocationID.x; }
#endif
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int sdot(int a, int b, spirv_literal int packed_4x8);
layout(local_size_x = LOCAL) in;
#include "lib/columns.glsl"
#include "lib/stage.glsl"
#include "lib/product.glsl"

const uint SX = BM + 1u, SW = BN + 1u; /* odd: neighbouring quads of a row fall into different banks */
const uint NM = BM / TM, NN = BN / TN; /* invocations along each side; outputs of one are NM and NN apart */
const float RANGE = DIGITS == 1u ? 127.0 : 32512.0;
shared uint xs[DIGITS * 8u * SX]; /* [digit, high first][quad][token] */
shared float x_scale[BM];
shared vec2 x_sums[BM]; /* of the unit's first and second 16 activations */
shared uint ws[8u * SW];
shared vec2 w_scale[BN], w_min[BN];

vec4 x_scaled(uint m, uint e) {
#ifdef COLUMNS_AT
    return x_quad(m, e) * columns4(e);
#else
    return x_quad(m, e);
#endif
}

uint pack(ivec4 v) { return uint(v.x & 255) | uint(v.y & 255) << 8 | uint(v.z & 255) << 16 | uint(v.w) << 24; }
float largest(vec4 v) { return max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))); }
float total(vec4 v) { return v.x + v.y + (v.z + v.w); }

void put(uint m, uint j, vec4 v, float most) {
    ivec4 q = ivec4(round(v * (most > 0.0 ? RANGE / most : 0.0)));
    ivec4 h = DIGITS == 1u ? q : (q + 128) >> 8;
    xs[j * SX + m] = pack(h);
    if (DIGITS == 2u) xs[(DIGITS * 8u - 8u + j) * SX + m] = pack(q - (h << 8));
}

void stage_x(uint id, uint m0, uint unit) {
    if (STAGE_QUADS) {
        for (uint at = 0u; at < BM * 8u; at += LOCAL) {
            uint m = (at + id) / 8u, j = id % 8u;
            vec4 v = m < BM ? x_scaled(min(m0 + m, M - 1u), 32u * unit + 4u * j) : vec4(0.0);
            float most = unit_max(largest(v)), sum = half_sum(total(v));
            if (m >= BM) continue;
            put(m, j, v, most);
            if (j == 0u) x_scale[m] = most / RANGE;
            if (j % 4u == 0u) x_sums[m][j / 4u] = sum;
        }
    } else {
        for (uint m = id; m < BM; m += LOCAL) {
            vec4 v[8];
            vec2 sums = vec2(0.0);
            float most = 0.0;
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                v[j] = x_scaled(min(m0 + m, M - 1u), 32u * unit + 4u * j);
                most = max(most, largest(v[j]));
                sums[j / 4u] += total(v[j]);
            }
            [[unroll]] for (uint j = 0u; j < 8u; j++) put(m, j, v[j], most);
            x_scale[m] = most / RANGE;
            x_sums[m] = sums;
        }
    }
}

void stage_w(uint id, uint row0, uint unit) {
    for (uint r = id; r < BN; r += LOCAL) {
        FmtUnit u = fmt_load(min(row0 + r, ROWS - 1u) * UNITS + unit);
        [[unroll]] for (uint k = 0u; k < 8u; k++) ws[k * SW + r] = fmt_code4(u, k);
        w_scale[r] = fmt_scale(u);
#ifdef FMT_HAS_MIN
        w_min[r] = fmt_min(u);
#endif
    }
}

float acc[TM][TN];

/* Products of half a unit: 16 weights with one scale. */
void half_dot(uint t, uint n, uint part) {
    int sum[TM][TN];
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN; j++) sum[i][j] = 0;
    for (uint d = 0u; d < DIGITS; d++) {
        [[unroll]] for (uint i = 0u; i < TM; i++)
            [[unroll]] for (uint j = 0u; j < TN; j++) sum[i][j] <<= 8;
        for (uint k = 4u * part; k < 4u * part + 4u; k++) {
            int a[TM], b[TN];
            [[unroll]] for (uint i = 0u; i < TM; i++) a[i] = int(xs[(8u * d + k) * SX + i * NM + t]);
            [[unroll]] for (uint j = 0u; j < TN; j++) b[j] = int(ws[k * SW + j * NN + n]);
            [[unroll]] for (uint i = 0u; i < TM; i++)
                [[unroll]] for (uint j = 0u; j < TN; j++) sum[i][j] += sdot(a[i], b[j], 0);
        }
    }
    [[unroll]] for (uint j = 0u; j < TN; j++) {
        float s = w_scale[j * NN + n][part];
        [[unroll]] for (uint i = 0u; i < TM; i++) {
            acc[i][j] += x_scale[i * NM + t] * s * float(sum[i][j]);
#ifdef FMT_HAS_MIN
            acc[i][j] += w_min[j * NN + n][part] * x_sums[i * NM + t][part];
#endif
        }
    }
}

void main() {
    uint id = invocation(), n = id % NN, t = id / NN;
    uint row0 = gl_WorkGroupID.x * BN, m0 = gl_WorkGroupID.y * BM;
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN; j++) acc[i][j] = 0.0;
    for (uint unit = 0u; unit < UNITS; unit++) {
        barrier();
        stage_x(id, m0, unit);
        stage_w(id, row0, unit);
        barrier();
        for (uint part = 0u; part < 2u; part++) half_dot(t, n, part);
    }
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN; j++)
            put_output(m0 + i * NM + t, row0 + j * NN + n, acc[i][j]);
}
