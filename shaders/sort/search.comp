#version 460
// Binary search: for each value, how many elements of its sorted row come before it (RIGHT: or are equal to it).
#include "lib/codecs.glsl"
#include "sort/order.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t sorted, values, dst;
    uint64_t count, m, stride;  // m values a row; stride: elements from row to row of the sequences
    uint n;
};

void main() {
    uint64_t wg = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint64_t i = wg * WG + gl_LocalInvocationIndex;
    if (i >= count) return;
    uint64_t row = sorted + (stride == 0ul ? 0ul : i / m * stride) * A_SIZE;
    KEY value = key_of(a_bits(values + i * A_SIZE));
    uint lo = 0u, hi = n;
    while (lo < hi) {
        uint mid = lo + ((hi - lo) >> 1);
        KEY k = key_of(a_bits(row + uint64_t(mid) * A_SIZE));
#ifdef RIGHT
        bool before = k <= value;
#else
        bool before = k < value;
#endif
        if (before) lo = mid + 1u;
        else hi = mid;
    }
    Raw4(dst + i * 4ul).v = lo;
}
