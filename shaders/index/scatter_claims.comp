#version 460
// The second half of an assignment: each place that updates have claimed (shaders/index/scatter_keys.comp, MODE 3) gets the bits
// of the last of them. An invocation has four places, WG apart.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t claims, dst;
    int64_t step;  // elements from a place to the next one
    uint total;
};

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first = wg * 4u * WG + gl_LocalInvocationIndex;
    uvec2 claim[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint i = first + j * WG;
        claim[j] = i < total ? Raw8(claims + 8ul * i).v : uvec2(0u);
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (claim[j].y != 0u) b_store(at(dst, int64_t(first + j * WG) * step, B_SIZE), claim[j].x);
}
