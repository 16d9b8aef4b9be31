/* weights.glsl - role w seen as words of 32, 64 and 128 bits, and single elements of planes. Included by formats. */
#define UNITS ((K + 31u) / 32u) /* of a row */
layout(set = 0, binding = BIND_w) readonly buffer W1 { uint w_1[]; };
layout(set = 0, binding = BIND_w) readonly buffer W2 { uvec2 w_2[]; };
layout(set = 0, binding = BIND_w) readonly buffer W4 { uvec4 w_4[]; };

/* Element i of a plane of 16-bit numbers, in the low half. `plane` is its offset in bytes. */
uint w_u16(uint plane, uint i) {
    uint w = w_1[plane / 4u + (i >> 1)];
    return (i & 1u) == 0u ? w & 0xffffu : w >> 16;
}
