#version 460
// Where cooperative matrices of 16-bit operands (16 x 16 by 16 x COLS) and float sums lie in the lanes of a subgroup of
// 32: matrices whose elements are their numbers are loaded, and each lane writes what it got: eight elements of the left
// side, COLS / 2 of the right side, as many of the sums. Nothing is as expected where float16 has no subnormal numbers in
// products, which kernels make of codes.
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#include "lib/codecs.glsl"
layout(local_size_x = 32) in;

const uint OWN = COLS / 2u;
shared uvec4 halves[32], floats[64];

layout(push_constant, scalar) uniform Push { uint64_t dst; };

void put(uint i, uint v) { Raw4(dst + (gl_SubgroupInvocationID * (8u + 2u * OWN) + i) * 4ul).v = v; }

void main() {
    for (uint e = gl_SubgroupInvocationID; e < 256u; e += 32u) {
        floats[e / 4u][e % 4u] = floatBitsToUint(float(e));
        if (e % 2u == 0u) {
#if DTYPE == 2
            uint pair = (floatBitsToUint(float(e)) >> 16) | (floatBitsToUint(float(e + 1u)) & 0xffff0000u);
#else
            uint pair = packHalf2x16(vec2(e, e + 1u));
#endif
            halves[e / 8u][e % 8u / 2u] = pair;
        }
    }
    barrier();
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> left;
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseB> right;
    coopmat<float, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseAccumulator> sums;
    coopMatLoad(left, halves, 0, 2, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, halves, 0, COLS / 8, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(sums, floats, 0, COLS / 4, gl_CooperativeMatrixLayoutRowMajor);
    bool as_many = left.length() == 8 && right.length() == OWN && sums.length() == OWN;
#if DTYPE == 1
    barrier();
    halves[gl_SubgroupInvocationID] = uvec4(0x00010001u);
    barrier();
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> smallest;
    coopMatLoad(smallest, halves, 0, 2, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<ELEMENT, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseB> large =
        coopmat<ELEMENT, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseB>(16384.0);
    coopmat<float, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseAccumulator> products =
        coopmat<float, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseAccumulator>(0.0);
    products = coopMatMulAdd(smallest, large, products);
    [[unroll]] for (uint i = 0u; i < OWN; ++i) as_many = as_many && products[i] == 0.015625; // 16 times 2^-24 times 2^14
#endif
    [[unroll]] for (uint i = 0u; i < 8u; ++i) put(i, as_many ? uint(float(left[i])) : 256u);
    [[unroll]] for (uint i = 0u; i < OWN; ++i) {
        put(8u + i, as_many ? uint(float(right[i])) : 256u);
        put(8u + OWN + i, as_many ? uint(sums[i]) : 256u);
    }
}
