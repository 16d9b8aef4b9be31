/* f16.glsl - IEEE binary16 to f32, exact for subnormals (scales of some formats are subnormal as a rule), without f16 arithmetic. */
#ifndef QCC_F16_GLSL
#define QCC_F16_GLSL
#if HAS_F16_DENORM
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 16); /* DenormPreserve */

vec2 f16x2(uint w) { return unpackHalf2x16(w); }
#else
/* Exponents move from bias 15 to 127. A subnormal m * 2^-24 is (1 + m/1024) * 2^-14 without its hidden one. */
float f16_of(uint h) {
    uint bits = (h & 0x7fffu) << 13, sign = (h & 0x8000u) << 16;
    float normal = uintBitsToFloat(bits + (bits >= 0x0f800000u ? 0x70000000u : 0x38000000u));
    float small = uintBitsToFloat(bits + 0x38800000u) - uintBitsToFloat(0x38800000u);
    return uintBitsToFloat(floatBitsToUint(bits < 0x00800000u ? small : normal) | sign);
}
vec2 f16x2(uint w) { return vec2(f16_of(w & 0xffffu), f16_of(w >> 16)); }
#endif
#endif
