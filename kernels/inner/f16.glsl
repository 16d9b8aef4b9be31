/*qcc
needs = { "f16" }
function legal(t, c)
  if c.FORMAT_CODES ~= 1 then return false, "the format has no integer codes" end
  if c.FAST ~= 1 then return false, "f16 sums are for --accuracy fast" end
  return true
end
function shared_bytes(t, c, k) return k.CHUNK * 80 end
-- Half the conversions and products of f32. Vectors of a processor gain nothing.
function speed(t, c, k) return t.subgroup <= 8 and 0.1 or 1.2 end
*/
/* f16.glsl - dot products of units in packed f16, for devices without integer dot product. The 32
 * activations of a unit are divided by the largest, so that no sum overflows (16 weights times codes
 * below 128); halves of a unit are summed in f16, all else in f32. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "lib/stage.glsl"
shared uvec4 inner_x[4u * CHUNK]; /* [two quads][slot]; words of a quad: elements 0 and 2, 1 and 3 */
shared vec4 inner_unit[CHUNK];    /* scale, -, sums of the first and second 16 activations */

uvec2 inner_pack(vec4 v) {
    return uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw)));
}

void inner_put_quad(uint slot, uint j, vec4 v, bool real) {
    vec4 size = abs(v);
    float most = unit_max(max(max(size.x, size.y), max(size.z, size.w)));
    float sum = half_sum(v.x + v.y + (v.z + v.w));
    if (!real) return;
    uvec2 words = inner_pack(v * (most > 0.0 ? 1.0 / most : 0.0));
    uint at = j / 2u * CHUNK + slot, first = j % 2u * 2u;
    inner_x[at][first] = words.x;
    inner_x[at][first + 1u] = words.y;
    if (j == 0u) inner_unit[slot].xz = vec2(most, sum);
    if (j == 4u) inner_unit[slot].w = sum;
}

void inner_put(uint slot, vec4 v[8]) {
    vec4 a = vec4(0.0), b = vec4(0.0), top = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 8u; j++) top = max(top, abs(v[j]));
    for (uint j = 0u; j < 4u; j++) a += v[j], b += v[j + 4u];
    float most = max(max(top.x, top.y), max(top.z, top.w)), inverse = most > 0.0 ? 1.0 / most : 0.0;
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        inner_x[i * CHUNK + slot] = uvec4(inner_pack(v[2u * i] * inverse), inner_pack(v[2u * i + 1u] * inverse));
    inner_unit[slot] = vec4(most, 0.0, a.x + a.y + (a.z + a.w), b.x + b.y + (b.z + b.w));
}

/* Activation e of a slot, as its f16 has it. */
float inner_at(uint slot, uint e) {
    uint word = inner_x[e / 8u * CHUNK + slot][e / 4u % 2u * 2u + (e & 1u)];
    return inner_unit[slot].x * float(unpackFloat2x16(word)[e / 2u & 1u]);
}

/* Codes at bytes 0 and 2 of a word: with the sign bit flipped they are the low bits of 1024 + 128 + code. */
f16vec2 inner_codes(uint c) {
    return unpackFloat2x16((c & 0x00ff00ffu) ^ 0x64806480u) - float16_t(1152.0);
}

/* acc[r] += unit w[r] of row r times the activations in the slot. */
void inner_dot(FmtUnit w[NR], uint slot, inout float acc[NR]) {
    vec4 unit = inner_unit[slot];
    vec2 t[NR];
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
        uvec4 x[2] = uvec4[2](inner_x[2u * h * CHUNK + slot], inner_x[(2u * h + 1u) * CHUNK + slot]);
        [[unroll]] for (uint r = 0u; r < NR; r++) {
            f16vec2 sum = f16vec2(0.0);
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uint c = fmt_code4(w[r], 4u * h + j), first = j % 2u * 2u;
                sum += inner_codes(c) * unpackFloat2x16(x[j / 2u][first]);
                sum += inner_codes(c >> 8) * unpackFloat2x16(x[j / 2u][first + 1u]);
            }
            t[r][h] = float(sum.x) + float(sum.y);
        }
    }
    [[unroll]] for (uint r = 0u; r < NR; r++) {
        acc[r] += unit.x * dot(fmt_scale(w[r]), t[r]);
#ifdef FMT_HAS_MIN
        acc[r] += dot(fmt_min(w[r]), unit.zw);
#endif
    }
}
