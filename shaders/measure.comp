#version 460
// What a device is measured by: MODE 0 multiplies and adds in registers, four chains of 16 a lane and step; MODE 1 reads
// memory once; MODE 2 does nothing; MODE 3 multiplies matrices of 16 x 16 float16, four chains a subgroup. Results are
// stored only where they could not be foreseen.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#if MODE == 3
#pragma use_vulkan_memory_model
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Chunks { uvec4 v[]; };
layout(push_constant, scalar) uniform Push { Chunks data; uint count; uint steps; };

void main() {
#if MODE == 0
    vec4 a = vec4(gl_LocalInvocationIndex) + vec4(0.0, 0.1, 0.2, 0.3);
    // Not constants: some devices multiply those at another rate.
    float by = 1.0 - 0.001 * float(1u + gl_LocalInvocationIndex % 7u), plus = 0.5 * float(gl_LocalInvocationIndex);
    for (uint i = 0u; i < steps; ++i) {
        [[unroll]] for (uint j = 0u; j < 16u; ++j) a = fma(a, vec4(by), vec4(plus));
    }
    if (a.x + a.y + a.z + a.w == -1.0) {
        data.v[0] = floatBitsToUint(a);
    }
#elif MODE == 1
    uvec4 a = uvec4(0u);
    for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 256u) {
        a ^= data.v[i];
    }
    if (a == uvec4(steps)) {
        data.v[0] = a;
    }
#elif MODE == 3
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> a, b, c, d;
    // Four of the same would be one.
    a = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(float(gl_SubgroupID));
    b = a + a;
    c = b + a;
    d = c + b;
    float16_t some = float16_t(float(steps) * 1e-6);
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> x =
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(some);
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> y =
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>(some);
    for (uint i = 0u; i < steps; ++i) {
        a = coopMatMulAdd(x, y, a);
        b = coopMatMulAdd(x, y, b);
        c = coopMatMulAdd(x, y, c);
        d = coopMatMulAdd(x, y, d);
    }
    a = a + b * 2.0 + c * 3.0 + d * 4.0;
    if (a[0] == -1.0) {
        data.v[0].x = 1u;
    }
#else
    if (gl_GlobalInvocationID.x == count) {
        data.v[0].x = steps;
    }
#endif
}
