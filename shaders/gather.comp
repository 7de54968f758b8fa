#version 460
// Gather: each unit of UNIT bytes (1 to 16) of the dense array is read where the walk and the index arrays
// lead. Rows that lie together move in wide units, two in flight a lane. Indices out of range are held inside
// their axis. Axis fields: length, step in the base in units.
#include "lib/elem.glsl"
#define FIELDS 2
#define HOLD
#include "lib/indexed.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, params, total;  // total: units to write
    uint inner, shift, axes;           // units of a row, its log2 or 32, other axes
};

uint64_t source_of(UINT u) {
    UINT r = shift < 32u ? u >> shift : u / inner;
    int64_t off = int64_t(u - r * inner), pos[NPICK];
    [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] = 0l;
    for (uint d = axes; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS;
        UINT c = r;
        if (d > 1u) {
            UINT size = UINT(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        off += int64_t(c) * Words(params).v[w + 1u];
        [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] += int64_t(c) * Words(params).v[w + 2u + k];
    }
    uint first = axes * AXIS_WORDS;
    [[unroll]] for (uint k = 0u; k < NPICK; ++k)
        off += int64_t(picked(params, first, k, pos[k])) * Words(params).v[first + 4u * k + 1u];
    return at(src, off, UNIT);
}

void main() {
    UINT first = UINT(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * (2u * WG) + gl_LocalInvocationIndex;
    BITS v[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) v[j] = BITS(REF(source_of(first + j * WG)).v);
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) REF(dst + uint64_t(first + j * WG) * UNIT).v = STORED(v[j]);
}
