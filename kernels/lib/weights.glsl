/* weights.glsl - role w seen as words of 32, 64 and 128 bits, and single elements of planes. Included by formats. */
#define UNITS ((K + 31u) / 32u) /* of a row */
layout(set = 0, binding = BIND_w) readonly buffer W1 { layout(offset = AT_w) uint w_1[]; };
layout(set = 0, binding = BIND_w) readonly buffer W2 { layout(offset = AT_w) uvec2 w_2[]; };
layout(set = 0, binding = BIND_w) readonly buffer W4 { layout(offset = AT_w) uvec4 w_4[]; };

/* Element i of a plane of 16-bit numbers, in the low half. `plane` is its offset in bytes. */
uint w_u16(uint plane, uint i) {
    uint w = w_1[plane / 4u + (i >> 1)];
    return (i & 1u) == 0u ? w & 0xffffu : w >> 16;
}

/* Five-bit numbers of weights 4k .. 4k + 3 as pack_fives of lib/format.h wrote them. */
uint fives4(uvec4 q, uint low, uint k) {
    uint w = q[k & 3u];
    return k < 4u ? w & 0x1f1f1f1fu : (w >> 3 & 0x1c1c1c1cu) | (low >> 2u * (k & 3u) & 0x03030303u);
}

/* Scale and minimum of the b-th 32 weights as pack_head of lib/format.h wrote them, without d and dmin. */
uint head_low(uvec4 h, uint b) { return (b < 4u ? h.y : h.z) >> (8u * (b & 3u)); }
uint head_high(uvec4 h, uint b) { return h.w >> (4u * b); }
float head_scale(uvec4 h, uint b) { return float((head_low(h, b) & 15u) | (head_high(h, b) & 3u) << 4); }
float head_min(uvec4 h, uint b) { return float((head_low(h, b) >> 4 & 15u) | (head_high(h, b) & 12u) << 2); }
