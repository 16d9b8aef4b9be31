/* columns.glsl - scales of a matrix's columns, which kernels multiply the activations by (a lookup:
 * the row that it finds). Included after the format; nothing is left where a format has none. */
#ifdef COLUMNS_AT
vec4 columns4(uint e) { return uintBitsToFloat(w_4[COLUMNS_AT / 16u + e / 4u]); } /* e .. e + 3 */
#endif
