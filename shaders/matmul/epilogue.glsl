// What a compiled function computes on the results of a product before they are stored (src/kernels/matmul/epilogue.rs).
// The host defines FUSED and, made from the program: FUSED_CODE, the function
//   float fused(float x, uint e, uint col FUSED_PARAMS)
// of the float32 result, its offset in the batch's part of the result and its column; FUSED_GLOBALS, the addresses
// of the arrays that it reads, as variables; FUSED_BEGIN, their values for batch `i`; FUSED_PARAMS and FUSED_ARGS,
// the same as further parameters and arguments, each after a comma; FUSED_MATH where it calls lib/math.glsl.
#extension GL_EXT_shader_8bit_storage : require
#include "lib/float_controls.glsl"
#include "lib/types.glsl"
#ifdef FUSED_MATH
#include "lib/math.glsl"
#endif

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Fused {
    float alpha, beta;
    uvec2 at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 1) readonly buffer Bytes { uint8_t v[]; };

FUSED_GLOBALS
FUSED_CODE
