#version 460
// What a device is measured by: MODE 0 multiplies and adds in registers, four chains a lane; MODE 1 reads memory once;
// MODE 2 does nothing. Results are stored only where they could not be foreseen.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Chunks { uvec4 v[]; };
layout(push_constant, scalar) uniform Push { Chunks data; uint count; uint steps; };

void main() {
#if MODE == 0
    vec4 a = vec4(gl_LocalInvocationIndex) + vec4(0.0, 0.1, 0.2, 0.3);
    for (uint i = 0u; i < steps; ++i) {
        a = fma(a, vec4(0.999), vec4(0.5));
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
#else
    if (gl_GlobalInvocationID.x == count) {
        data.v[0].x = steps;
    }
#endif
}
