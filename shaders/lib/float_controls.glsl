// Execution modes of float32 arithmetic that the host found on the device (PRESERVE_NAN, PRESERVE_DENORM,
// ROUND_EVEN), for kernels that rest on lib/math.glsl: without them a driver was seen to drop `precise`.
#ifndef FLOAT_CONTROLS
#define FLOAT_CONTROLS
#if defined(PRESERVE_NAN) || defined(PRESERVE_DENORM) || defined(ROUND_EVEN)
#extension GL_EXT_spirv_intrinsics : require
#endif
#ifdef PRESERVE_NAN
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
#endif
#ifdef PRESERVE_DENORM
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 32);
#endif
#ifdef ROUND_EVEN
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 32);
#endif
#endif
