#version 460
// Sums rows of n elements into lines, row f from element f * hop on: every lane adds up one element of a line, in
// the order of the rows.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;
    int64_t row_stride, stride;
    uint64_t total;
    uint lines, rows, n, hop, len, nk;
};

void main() {
    uint64_t i = uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (i >= total) return;
    uint line = uint(i / len), p = uint(i - uint64_t(line) * len);
    uint64_t base = at(src, offset_of(dims, 0u, nk, line), A_SIZE);
    uint last = min(p / hop, rows - 1u), first = p < n ? 0u : (p - n) / hop + 1u;
    A_C sum = A_C(0.0);
    for (uint f = first; f <= last; ++f)
        sum += a_load(at(base, int64_t(f) * row_stride + int64_t(p - f * hop) * stride, A_SIZE));
    b_store(dst + i * B_SIZE, sum);
}
