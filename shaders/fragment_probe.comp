#version 460
// Where cooperative matrices of 16 x 16 lie in the lanes of a subgroup of 32: matrices whose elements are their numbers
// are loaded, and each lane writes what it got: eight elements of sums, then eight of a left operand.
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/elem.glsl"
#define LANES 32u
#define THREADS LANES
layout(local_size_x = 32) in;
shared uvec4 mem[64 + 32];
#include "lib/fragment.glsl"

layout(push_constant, scalar) uniform Push { uint64_t dst; };

void main() {
    uint lane = frag_lane();
    for (uint e = lane; e < 256u; e += 32u) {
        mem[e / 4u][e % 4u] = floatBitsToUint(float(e));
        uint at = 64u + e / 8u, q = e % 8u / 2u;
        if (e % 2u == 0u) {
#if DTYPE == 2
            mem[at][q] = (floatBitsToUint(float(e)) >> 16) | (floatBitsToUint(float(e + 1u)) & 0xffff0000u);
#else
            mem[at][q] = packHalf2x16(vec2(e, e + 1u));
#endif
        }
    }
    barrier();
    SUMS sums;
    LEFT left;
    load_sums(sums, 0, 4);
    load_left(left, 64, 2);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        Raw4(dst + (lane * 16u + i) * 4ul).v = i < sums.length() ? uint(sums[i]) : 256u;
        Raw4(dst + (lane * 16u + 8u + i) * 4ul).v = i < left.length() ? uint(float(left[i])) : 256u;
    }
    if (lane == 0u) Raw4(dst + 2048ul).v = sums.length() * 16u + left.length();
}
