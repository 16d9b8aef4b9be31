/* grid.glsl - codebooks of weights in shared memory, and what formats make of their entries. A format
 * states FMT_GRID, a list of words, and FMT_SHARED_BYTES, their size; every kernel with such a
 * format starts with fmt_prepare. */
const uint fmt_table[FMT_SHARED_BYTES / 4] = uint[](FMT_GRID);
shared uint fmt_grid[FMT_SHARED_BYTES / 4];

void fmt_prepare(uint lane, uint lanes) {
    for (uint i = lane; i < FMT_SHARED_BYTES / 4; i += lanes) fmt_grid[i] = fmt_table[i];
}

/* Codebooks of eight two-bit values an entry, two entries a word. */
uint grid_entry(uint i) { return fmt_grid[i >> 1] >> 16u * (i & 1u) & 0xffffu; }
/* The first (part 0) or second four of an entry's values, a byte each. */
uint grid_bits4(uint entry, uint part) {
    uint b = entry >> 8u * part & 0xffu;
    b = (b | b << 12) & 0x000f000fu;
    return (b | b << 6) & 0x03030303u;
}
/* ... as magnitudes 8, 25, 43. */
uint grid_octet4(uint entry, uint part) {
    uint b = grid_bits4(entry, part);
    return 0x08080808u + 17u * b + (b >> 1 & 0x01010101u);
}
/* Eight times the value, -1 0 1, plus 1 or minus 1. */
uint ternary4(uint entry, uint part, uint minus) {
    uint b = grid_bits4(entry, part) << 3; /* 8 (value + 1) */
    return (b + (minus == 0u ? 0x79797979u : 0x77777777u)) ^ 0x80808080u;
}

/* Eight signs, of which seven are stored: an even number is minus. */
uint octet_signs(uint stored) { return stored | uint(bitCount(stored) & 1) << 7; }
/* Four magnitudes, none zero, with the signs of bits 0..3 (1: minus). */
uint signed4(uint magnitudes, uint signs) {
    uint minus = (signs & 15u) * 0x00204081u & 0x01010101u;
    return (magnitudes ^ minus * 255u) + minus;
}
