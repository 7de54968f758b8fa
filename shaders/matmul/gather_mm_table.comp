#version 460
// What the matrix-product kernels read where operands are picked by index (GATHER, RUNS) or products take
// parts of the inner dimension (SEGMENTS): a table with one entry for each product, or each row of RUNS.
//   GATHER    addresses of both matrices
//   RUNS      address of the right matrix, and the first row beyond that meets another one, at most RUNS on
//   SEGMENTS  first and end position, held inside the inner dimension
// Indices are 32-bit; signed ones (INDEX 2) count from the end where negative. All are held inside the batch,
// so that no index can lead outside an operand.
// Defines: one of the three, A_INDEX and B_INDEX (0 none, 1 unsigned, 2 signed).
#include "lib/codecs.glsl"
layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, ia, ib, table, dims; // dims: nd axes with the strides of a, ia, b and ib, one list each
    int64_t step_a, step_b;             // bytes from one matrix to the next
    uint count, nd, na, nb, size;       // products, axes, matrices of a and b (inner dimension), element size
};

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Entries { uvec4 v[]; };

uint index(uint64_t base, int64_t at, uint n, const bool is_signed) {
    uint i = Raw4(base + uint64_t(at) * 4ul).v;
    if (is_signed && int(i) < 0) i = uint(max(int(i) + int(n), 0));
    return min(i, n - 1u);
}

#if A_INDEX
uint64_t matrix_a(uint i) {
    return a + uint64_t(int64_t(uint64_t(index(ia, offset_of(dims, nd, nd, i), na, A_INDEX == 2))) * step_a);
}
#else
uint64_t matrix_a(uint i) { return at(a, offset_of(dims, 0u, nd, i), size); }
#endif
#if B_INDEX
uint pick_b(uint i) { return index(ib, offset_of(dims, 3u * nd, nd, i), nb, B_INDEX == 2); }
uint64_t matrix_b(uint i) { return b + uint64_t(int64_t(uint64_t(pick_b(i))) * step_b); }
#else
uint64_t matrix_b(uint i) { return at(b, offset_of(dims, 2u * nd, nd, i), size); }
#endif

void main() {
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256u + gl_LocalInvocationIndex;
    if (i >= count) return;
#ifdef SEGMENTS
    uint first = min(Raw4(ia + uint64_t(offset_of(dims, 0u, nd, 2u * i)) * 4ul).v, A_INDEX == 2 ? 0xffffffffu : na);
    uint end = min(Raw4(ia + uint64_t(offset_of(dims, 0u, nd, 2u * i + 1u)) * 4ul).v, A_INDEX == 2 ? 0xffffffffu : na);
#if A_INDEX == 2
    first = uint(clamp(int(first), 0, int(na)));
    end = uint(clamp(int(end), 0, int(na)));
#endif
    Raw8(table + uint64_t(i) * 8ul).v = uvec2(first, max(first, end));
#elif defined(RUNS)
    uint mine = pick_b(i), end = i + 1u;
    while (end < count && end < i + RUNS && pick_b(end) == mine) ++end;
    Entries(table).v[i] = uvec4(unpackUint2x32(matrix_b(i)), end, 0u);
#else
    Entries(table).v[i] = uvec4(unpackUint2x32(matrix_a(i)), unpackUint2x32(matrix_b(i)));
#endif
}
