#version 460
// The second half of an assignment: each place that updates have claimed (shaders/index/scatter_keys.comp, MODE 2) fetches what the
// last of them has, any other one what the base has where that lies elsewhere; updates lie in the order of their numbers. An invocation
// has four places, WG apart.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t owners, base, dst, updates;  // owners: the number of an update, plus one, for each place
    int64_t step;                         // elements from a place to the next one
    uint total;
};

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first = wg * 4u * WG + gl_LocalInvocationIndex, owner[4];
    A_C x[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint i = first + j * WG;
        owner[j] = i < total ? Raw4(owners + 4ul * i).v : 0u;
    }
    bool writes[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint i = first + j * WG;
        writes[j] = owner[j] != 0u || (base != dst && i < total);
        uint64_t own = updates + uint64_t(owner[j] - 1u) * A_SIZE;
        if (writes[j]) x[j] = a_load(owner[j] != 0u ? own : at(base, int64_t(i) * step, A_SIZE));
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (writes[j]) b_store(at(dst, int64_t(first + j * WG) * step, B_SIZE), x[j]);
}
