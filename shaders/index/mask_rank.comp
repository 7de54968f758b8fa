#version 460
// How many elements before it in its row are true, for each element of a boolean matrix. MODE 0 counts the true
// elements of each block of WG * ITEMS, MODE 1 turns the counts of a row into sums of those before (one
// workgroup a row), MODE 2 writes the ranks.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, sums, dims;  // dims: of a row, then of its elements
    uint rows, n, blocks, row_axes, axes;
};

const uint ITEMS = 16u;
shared uint part[WG];

// Sum over the lanes before this one; the last word of `part` is left as the sum over all.
uint before(uint v, uint t) {
    part[t] = v;
    barrier();
    for (uint s = 1u; s < WG; s <<= 1) {
        uint x = t >= s ? part[t - s] : 0u;
        barrier();
        part[t] += x;
        barrier();
    }
    return part[t] - v;
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
#if MODE == 1
    if (wg >= rows) return;
    uint carry = 0u;
    for (uint b = 0u; b < blocks; b += WG) {
        uint64_t p = sums + 4ul * (uint64_t(wg) * blocks + b + t);
        uint v = b + t < blocks ? Raw4(p).v : 0u, x = before(v, t);
        if (b + t < blocks) Raw4(p).v = carry + x;
        carry += part[WG - 1u];
        barrier();
    }
#else
    if (wg >= rows * blocks) return;
    uint row = wg / blocks, first = (wg % blocks) * (WG * ITEMS) + t * ITEMS, mask = 0u;
    uint64_t p = src + offset_of(dims, 0u, row_axes, row);
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j)
        if (first + j < n && uint(Raw1(p + offset_of(dims, row_axes, axes, first + j)).v) != 0u) mask |= 1u << j;
    uint x = before(bitCount(mask), t);
#if MODE == 0
    if (t == WG - 1u) Raw4(sums + 4ul * wg).v = part[WG - 1u];
#else
    x += Raw4(sums + 4ul * wg).v;
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j)
        if (first + j < n)
            Raw4(dst + 4ul * (uint64_t(row) * n + first + j)).v = x + bitCount(mask & ((1u << j) - 1u));
#endif
#endif
}
