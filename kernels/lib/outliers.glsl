/* outliers.glsl - weights that stand beside the codes of a row, which are zero there: words with the
 * column in the low half and f16 in the high one, by rising column, OUTLIERS in each row. Included
 * after format and inner loop; nothing is left of it where a format has none. */
#ifdef OUTLIERS
uint outlier(uint row, uint i) { return w_1[OUTLIERS_AT / 4u + row * OUTLIERS + i]; }
uint outlier_column(uint o) { return o & 0xffffu; }
float outlier_value(uint o) { return f16x2(o >> 16).x; }

/* Walks along a row, unit by unit; `at` starts as zero. Gives each outlier of a unit, then false. */
bool outlier_next(uint row, uint unit, inout uint at, out uint o) {
    o = 0u;
    for (; at < OUTLIERS; at++) {
        o = outlier(row, at);
        if (outlier_column(o) / 32u >= unit) break;
    }
    if (at == OUTLIERS || outlier_column(o) / 32u > unit) return false;
    at++;
    return true;
}

/* v is a quad of the row's weights, without outliers. */
vec4 outliers_put(uint row, uint quad, vec4 v) {
    uint first = 0u, end = OUTLIERS;
    while (first < end) {
        uint middle = (first + end) / 2u;
        if (outlier_column(outlier(row, middle)) < 4u * quad) first = middle + 1u;
        else end = middle;
    }
    for (; first < OUTLIERS; first++) {
        uint o = outlier(row, first), e = outlier_column(o) - 4u * quad;
        if (e >= 4u) break;
        v[e] = outlier_value(o);
    }
    return v;
}

#ifdef CHUNK
/* An outlier's part of the sum where an inner loop has staged the activations of n units, from unit
 * `first` on, in slots from `slot` on. */
float outlier_product(uint o, uint first, uint n, uint slot) {
    uint unit = outlier_column(o) / 32u - first;
    if (unit >= n) return 0.0;
    return outlier_value(o) * inner_at(slot + unit, o & 31u);
}
#endif
#endif
