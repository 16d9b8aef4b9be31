/* codes.glsl - any format as four f32 values, or as codes with scales. Included after the format. */
vec4 codes_float(uint c) {
    int s = int(c);
    return vec4(bitfieldExtract(s, 0, 8), bitfieldExtract(s, 8, 8), bitfieldExtract(s, 16, 8), s >> 24);
}

/* Weights 4k .. 4k + 3 of a unit. */
vec4 weight4(FmtUnit u, uint k) {
#if FMT_CODES
    vec4 w = codes_float(fmt_code4(u, k)) * fmt_scale(u)[k >> 2];
#ifdef FMT_HAS_MIN
    w += fmt_min(u)[k >> 2];
#endif
    return w;
#else
    return fmt_value4(u, k);
#endif
}
