/*qcc
needs = { "idot" }
function legal(t, c)
  if c.FORMAT_CODES ~= 1 then return false, "the format has no integer codes" end
  return true
end
function knobs(t, c) return { DIGITS = c.FAST == 1 and 1 or 2 } end
function shared_bytes(t, c, k) return k.CHUNK * (32 * k.DIGITS + 16) end
-- Vectors of a processor multiply as fast in f32, and need no conversion.
function speed(t, c, k) return t.subgroup <= 8 and 0.15 or 1.5 end
*/
/* idot.glsl - dot products of units by four-way integer dot products. The 32 activations of a unit share a scale and become
 * fixed-point numbers of DIGITS int8 digits: one digit is 8-bit quantization, two give 16 bits. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int inner_sdot(int a, int b, spirv_literal int packed_4x8);

#include "lib/stage.glsl"
shared uvec4 inner_x[2u * DIGITS * CHUNK]; /* [digit][half][slot] */
shared vec4 inner_unit[CHUNK]; /* scale, -, sums of the first and second 16 activations */

uint inner_pack(ivec4 v) {
    return uint(v.x & 255) | uint(v.y & 255) << 8 | uint(v.z & 255) << 16 | uint(v.w) << 24;
}

const float INNER_RANGE = DIGITS == 1u ? 127.0 : 32512.0;

void inner_put_quad(uint slot, uint j, vec4 v, bool real) {
    vec4 size = abs(v);
    float most = unit_max(max(max(size.x, size.y), max(size.z, size.w)));
    float sum = half_sum(v.x + v.y + (v.z + v.w));
    if (!real) return;
    ivec4 q = ivec4(round(v * (most > 0.0 ? INNER_RANGE / most : 0.0)));
    ivec4 h = DIGITS == 1u ? q : (q + 128) >> 8;
    uint at = j / 4u * CHUNK + slot;
    inner_x[at][j % 4u] = inner_pack(h);
    if (DIGITS == 2u) inner_x[(2u * DIGITS - 2u) * CHUNK + at][j % 4u] = inner_pack(q - (h << 8));
    if (j == 0u) inner_unit[slot].xz = vec2(most / INNER_RANGE, sum);
    if (j == 4u) inner_unit[slot].w = sum;
}

void inner_put(uint slot, vec4 v[8]) {
    vec4 a = vec4(0.0), b = vec4(0.0), top = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 8u; j++) top = max(top, abs(v[j]));
    for (uint j = 0u; j < 4u; j++) a += v[j], b += v[j + 4u];
    float most = max(max(top.x, top.y), max(top.z, top.w));
    float inverse = most > 0.0 ? INNER_RANGE / most : 0.0;
    uvec4 high[2], low[2];
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        ivec4 q = ivec4(round(v[j] * inverse)), h = DIGITS == 1u ? q : (q + 128) >> 8;
        high[j >> 2][j & 3u] = inner_pack(h);
        low[j >> 2][j & 3u] = inner_pack(q - (h << 8));
    }
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        inner_x[i * CHUNK + slot] = high[i];
        if (DIGITS == 2u) inner_x[(2u * DIGITS - 2u + i) * CHUNK + slot] = low[i];
    }
    inner_unit[slot] = vec4(most / INNER_RANGE, 0.0, a.x + a.y + (a.z + a.w), b.x + b.y + (b.z + b.w));
}

/* Activation e of a slot, as its digits have it. */
float inner_at(uint slot, uint e) {
    uint i = e / 16u, shift = 8u * (e & 3u);
    int high = int(inner_x[i * CHUNK + slot][e / 4u & 3u]) << (24u - shift) >> 24;
    if (DIGITS == 1u) return inner_unit[slot].x * float(high);
    int low = int(inner_x[(2u * DIGITS - 2u + i) * CHUNK + slot][e / 4u & 3u]) << (24u - shift) >> 24;
    return inner_unit[slot].x * float(256 * high + low);
}

/* acc[r] += unit w[r] of row r times the activations in the slot. */
void inner_dot(FmtUnit w[NR], uint slot, inout float acc[NR]) {
    vec4 unit = inner_unit[slot];
    vec2 t[NR];
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uvec4 high = inner_x[i * CHUNK + slot], low = inner_x[(2u * DIGITS - 2u + i) * CHUNK + slot];
        [[unroll]] for (uint r = 0u; r < NR; r++) {
            int h = 0, l = 0;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                int c = int(fmt_code4(w[r], 4u * i + j));
                h += inner_sdot(c, int(high[j]), 0);
                if (DIGITS == 2u) l += inner_sdot(c, int(low[j]), 0);
            }
            t[r][i] = float(DIGITS == 2u ? 256 * h + l : h);
        }
    }
    [[unroll]] for (uint r = 0u; r < NR; r++) {
        acc[r] += unit.x * dot(fmt_scale(w[r]), t[r]);
#ifdef FMT_HAS_MIN
        acc[r] += dot(fmt_min(w[r]), unit.zw);
#endif
    }
}
