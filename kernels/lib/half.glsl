// Nearest f16, ties to even, subnormals included, as 16 bits. (packHalf2x16 may round otherwise and flush subnormals.)
uint half_bits(float x) {
    uint u = floatBitsToUint(x), sign_ = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return sign_ | 0x7e00u;
    if (a >= 0x477ff000u) return sign_ | 0x7c00u;
    if (a >= 0x38800000u) return sign_ | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13);
    uint shift = 126u - (a >> 23), mantissa = (a & 0x7fffffu) | 0x800000u;
    if (shift > 24u) return sign_;
    uint r = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u), middle = 1u << (shift - 1u);
    return sign_ | (r + (rest > middle || (rest == middle && (r & 1u) != 0u) ? 1u : 0u));
}
