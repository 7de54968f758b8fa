#version 460
// An array with every STEP-th column of a range replaced: the dense result is written once, 16 bytes an invocation, which run on
// from row to row.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

#define V (16u / UNIT)

layout(buffer_reference, scalar, buffer_reference_align = UNIT) writeonly buffer Unit { STORED v; };

layout(push_constant, scalar) uniform Push {
    uint64_t src, update, dst;
    int64_t row_step, col_step;       // of the update, in elements
    uint total, width, start, count;  // elements in all and of a row, first column that is replaced, how many are
};

#include "index/units.glsl"

void main() {
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (i > (total - 1u) / V) return;
    uint first = i * V, row = first / width, col = first - row * width;
    uvec4 v = Vec16(src + uint64_t(i) * 16ul).v;
    [[unroll]] for (uint k = 0u; k < V; ++k) {
        // Before the first one the difference wraps around.
        uint q = (col - start) / STEP;
        if (q < count && q * STEP == col - start && first + k < total)
            put(v, k, BITS(REF(at(update, int64_t(row) * row_step + int64_t(q) * col_step, UNIT)).v));
        if (++col == width) {
            col = 0u;
            ++row;
        }
    }
    uint64_t q = dst + uint64_t(i) * 16ul;
    if (first + V > total) {
        [[dont_unroll]] for (uint k = 0u; first + k < total; ++k)
            Unit(q + uint64_t(k) * UNIT).v = STORED(taken(v, k));
        return;
    }
    Vec16(q).v = v;
}
