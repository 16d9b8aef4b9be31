/*qcc
needs = {}
function shared_bytes(t, c, k) return k.CHUNK * 136 end
-- Where subgroups are vectors of a processor, staging and barriers are slow.
function speed(t, c, k) return t.subgroup <= 8 and 0.25 or 1 end
*/
/* f32.glsl - dot products of units in f32. A chunk of the activations stands in shared memory, quads of neighbouring units side
 * by side so that neighbouring lanes read neighbouring words. */
#extension GL_EXT_control_flow_attributes : require
#include "lib/codes.glsl"
#include "lib/stage.glsl"
shared vec4 inner_x[8u * CHUNK];
shared vec2 inner_sums[CHUNK]; /* of the unit's first and second 16 activations */

void inner_put(uint slot, vec4 v[8]) {
    vec4 a = vec4(0.0), b = vec4(0.0);
    for (uint j = 0u; j < 4u; j++) a += v[j], b += v[j + 4u];
    for (uint j = 0u; j < 8u; j++) inner_x[j * CHUNK + slot] = v[j];
    inner_sums[slot] = vec2(a.x + a.y + (a.z + a.w), b.x + b.y + (b.z + b.w));
}

void inner_put_quad(uint slot, uint j, vec4 v, bool real) {
    float sum = half_sum(v.x + v.y + (v.z + v.w));
    if (!real) return;
    inner_x[j * CHUNK + slot] = v;
    if (j % 4u == 0u) inner_sums[slot][j / 4u] = sum;
}

/* Activation e of a slot. */
float inner_at(uint slot, uint e) { return inner_x[e / 4u * CHUNK + slot][e & 3u]; }

/* acc[r] += unit w[r] of row r times the activations in the slot. */
void inner_dot(FmtUnit w[NR], uint slot, inout float acc[NR]) {
#if FMT_CODES
    vec2 t[NR];
    for (uint r = 0u; r < NR; r++) t[r] = vec2(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        vec4 a = inner_x[j * CHUNK + slot], b = inner_x[(j + 4u) * CHUNK + slot];
        [[unroll]] for (uint r = 0u; r < NR; r++) {
            t[r].x += dot(codes_float(fmt_code4(w[r], j)), a);
            t[r].y += dot(codes_float(fmt_code4(w[r], j + 4u)), b);
        }
    }
    [[unroll]] for (uint r = 0u; r < NR; r++) {
        acc[r] += dot(fmt_scale(w[r]), t[r]);
#ifdef FMT_HAS_MIN
        acc[r] += dot(fmt_min(w[r]), inner_sums[slot]);
#endif
    }
#else
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        vec4 a = inner_x[j * CHUNK + slot];
        [[unroll]] for (uint r = 0u; r < NR; r++) acc[r] += dot(fmt_value4(w[r], j), a);
    }
#endif
}
