#version 460
// take: dst[o, j, i] = src[o, indices[j], i]. Rows are copied in units of UNIT bytes (1 to 16), two in
// flight a lane. Negative indices count from the end; others are held inside the axis, so that no index can
// read outside the source. Indices have I_SIZE bytes.
#include "lib/elem.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, idx, dst, dims, total;  // total: units to write
    int64_t stride;                       // of the axis, in units
    uint inner, count, len, no, ni, nj;   // units a row, indices, axis length; dims: outer, inner, indices
    uint shift;                           // log2 of inner, or 32
};

#ifdef BIG
#define UINT uint64_t
#else
#define UINT uint
#endif

uint index(uint j) {
    uint64_t p = at(idx, offset_of(dims, no + ni, nj, j), I_SIZE);
#if I_SIZE == 8
    // The length fits 31 bits: a high word of neither 0 nor -1 is out of range.
    uvec2 w = Raw8(p).v;
    bool negative = I_SIGNED == 1 && int(w.y) < 0;
    uint i = negative ? len + w.x : w.x;
    if (negative && (w.y != 0xffffffffu || i >= len)) return 0u;
    return !negative && w.y != 0u ? len - 1u : min(i, len - 1u);
#elif I_SIGNED
    int i = I_DEC(I_RAW(p).v);
    return uint(clamp(i < 0 ? i + int(len) : i, 0, int(len) - 1));
#else
    return min(uint(I_RAW(p).v), len - 1u);
#endif
}

uint64_t source_of(UINT u) {
    UINT r = shift < 32u ? u >> shift : u / inner;
    uint k = uint(u - r * inner), o = 0u, j = uint(r);
    int64_t off = 0l;
    if (no > 0u) {
        o = uint(r / count);
        j = uint(r - UINT(o) * count);
        off = offset_of(dims, 0u, no, o);
    }
    off += int64_t(uint64_t(index(j))) * stride;
    return at(src, off + (ni == 0u ? int64_t(k) : offset_of(dims, no, ni, k)), UNIT);
}

void main() {
    UINT first = UINT(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * (2u * WG) + gl_LocalInvocationIndex;
    BITS v[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) v[j] = BITS(REF(source_of(first + j * WG)).v);
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) REF(dst + uint64_t(first + j * WG) * UNIT).v = STORED(v[j]);
}
