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

/* Element i of a plane of bytes. */
uint w_u8(uint plane, uint i) { return w_1[plane / 4u + (i >> 2)] >> 8u * (i & 3u) & 0xffu; }

/* Five-bit numbers of weights 4k .. 4k + 3 as pack_fives of lib/format.h wrote them. */
uint fives4(uvec4 q, uint low, uint k) {
    uint w = q[k & 3u];
    return k < 4u ? w & 0x1f1f1f1fu : (w >> 3 & 0x1c1c1c1cu) | (low >> 2u * (k & 3u) & 0x03030303u);
}

/* Digit n of the four bytes that ternary_byte of lib/format.h made, as codes: 0 .. 2 become -1 .. 1 by
 * way of 127 .. 129. Two bytes at a time, in the halves of a word. */
uint ternary_power(uint n) {
    return ((n & 1u) != 0u ? 3u : 1u) * ((n & 2u) != 0u ? 9u : 1u) * (n == 4u ? 81u : 1u);
}
uint ternary_code4(uint w, uint power) {
    uint even = (w & 0x00ff00ffu) * power & 0x00ff00ffu;
    uint uneven = (w >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu;
    uint t = (even * 3u >> 8 & 0x00030003u) | (uneven * 3u & 0x03000300u);
    return (t + 0x7f7f7f7fu) ^ 0x80808080u;
}

/* Eight nibbles from words that have their bits at the bottom of each. */
uint nibbles8(uint a, uint b, uint c, uint d) {
    const uint m = 0x11111111u;
    return (a & m) | (b & m) << 1 | (c & m) << 2 | (d & m) << 3;
}
/* Bytes of weights 4k .. 4k + 3 from their low and high halves, in the order of pack_nibbles. */
uint bytes4(uint low, uint high, uint k) {
    return (k & 1u) == 0u ? (low & 0x0f0f0f0fu) | (high & 0x0f0f0f0fu) << 4
                          : (low >> 4 & 0x0f0f0f0fu) | (high & 0xf0f0f0f0u);
}
/* Values of the numbers iq4_number of lib/format.h, bit by bit, for eight weights at once: a .. d
 * are the number's bits, lowest first. */
uint iq4_code4(uvec4 q, uint k) {
    uint a = q[k >> 1], b = a >> 1, c = a >> 2, d = a >> 3, e = ~b & (a | c);
    uint low = nibbles8(d | (a ^ b), ~(d | e), a ^ ((~a | d) & (b | (a & c))), ~(a | d) | e);
    uint high = nibbles8(c, ~(b ^ (c | (a ^ (d & (a | ~b))))), ~(a ^ (c | (~a & ~b & d))),
                         ~(d ^ (a & ~c)));
    return bytes4(low, high, k);
}
/* The same of fp4_number: -12 .. 12. */
uint fp4_code4(uvec4 q, uint k) {
    uint a = q[k >> 1], b = a >> 1, c = a >> 2, d = a >> 3;
    uint sign = (a ^ (~c & (b | (a & ~d)))) & 0x11111111u;
    return bytes4(nibbles8(b & c, ~d & (b | c), a, a ^ (~c & (b | d))), 15u * sign, k);
}

/* Scale and minimum of the b-th 32 weights as pack_head of lib/format.h wrote them, without d and dmin. */
uint head_low(uvec4 h, uint b) { return (b < 4u ? h.y : h.z) >> (8u * (b & 3u)); }
uint head_high(uvec4 h, uint b) { return h.w >> (4u * b); }
float head_scale(uvec4 h, uint b) { return float((head_low(h, b) & 15u) | (head_high(h, b) & 3u) << 4); }
float head_min(uvec4 h, uint b) { return float((head_low(h, b) >> 4 & 15u) | (head_high(h, b) & 12u) << 2); }
