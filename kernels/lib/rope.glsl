// Rotary positions. A head's elements are taken as HD/2 pairs: the first N_ROT/2 are rotated, the others are not.
layout(std430, set = 0, binding = BIND_rope) readonly buffer Rope { layout(offset = AT_rope) vec2 rope[]; };

const uint ROPE_COARSE = 256u * (N_ROT / 2u);

uint rope_first(uint pair) { return HALVES != 0u && pair < N_ROT / 2u ? pair : 2u * pair; }
uint rope_second(uint pair) { return HALVES != 0u && pair < N_ROT / 2u ? pair + N_ROT / 2u : 2u * pair + 1u; }

vec2 rope_turn(vec2 x, uint pair, uint position) {
    if (pair >= N_ROT / 2u) return x;
    vec2 a = rope[(position & 255u) * (N_ROT / 2u) + pair], b = rope[ROPE_COARSE + (position >> 8) * (N_ROT / 2u) + pair];
    vec2 r = vec2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
    return vec2(x.x * r.x - x.y * r.y, x.x * r.y + x.y * r.x);
}
