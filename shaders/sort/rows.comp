#version 460
// Stable sort of many short rows. A workgroup has a block of rows in shared memory; each lane counts, for a few elements,
// those of their rows that come before them. Rows are padded to STEP keys that come last.
// ROWS_IN, ROWS_OUT: neighbouring lanes read, or write, neighbouring rows, where these lie closer than elements do.
#include "lib/codecs.glsl"
#include "sort/order.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;  // dims: nk source ones, then nk destination ones
    int64_t src_stride, dst_stride;
    uint n, nk, rows, block, pitch;  // block: rows of a workgroup, pitch: from row to row in shared memory
};

#ifdef ARG
#define to_key key_of
#else
#define to_key strict_of
#endif

#define STEP 4u
const uint TILE = WG * ITEMS;
shared KEY sk[TILE];

// Row and column of element e of `count` rows.
uvec2 by_row(uint e) {
    uint row = e / n;
    return uvec2(row, e - row * n);
}
uvec2 by_column(uint e, uint count) {
    uint column = e / count;
    return uvec2(e - column * count, column);
}
#ifdef ROWS_IN
#define read_at(e) by_column(e, count)
#else
#define read_at(e) by_row(e)
#endif
#ifdef ROWS_OUT
#define written_at(e) by_column(e, count)
#else
#define written_at(e) by_row(e)
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
    uint64_t first64 = uint64_t(wg) * block;
    if (first64 >= uint64_t(rows)) return;
    uint first = uint(first64), count = min(block, rows - first), all = count * n;
    uint padded = (n + STEP - 1u) & ~(STEP - 1u);
    if (padded != n) {
        [[unroll]] for (uint j = 0u; j < ITEMS; ++j) sk[t + j * WG] = KEY_TOP;
        barrier();
    }
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uint e = t + j * WG;
        if (e < all) {
            uvec2 p = read_at(e);
            int64_t row = offset_of(dims, 0u, nk, first + p.x);
            sk[p.x * pitch + p.y] = to_key(a_bits(at(src, row + int64_t(p.y) * src_stride, A_SIZE)));
        }
    }
    barrier();
    KEY key[ITEMS];
    uint base[ITEMS], column[ITEMS], rank[ITEMS];
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uvec2 p = by_row(min(t + j * WG, all - 1u));
        base[j] = p.x * pitch;
        column[j] = p.y;
        rank[j] = 0u;
        key[j] = sk[base[j] + p.y];
    }
    [[dont_unroll]] for (uint k = 0u; k < padded; k += STEP) {
        [[unroll]] for (uint j = 0u; j < ITEMS; ++j)
            [[unroll]] for (uint a = 0u; a < STEP; ++a) {
                KEY other = sk[base[j] + k + a];
                rank[j] += uint(other < key[j] || (other == key[j] && k + a < column[j]));
            }
    }
    barrier();
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
#ifdef ARG
        if (t + j * WG < all) sk[base[j] + rank[j]] = KEY(column[j]);
#else
        if (t + j * WG < all) sk[base[j] + rank[j]] = key[j];
#endif
    }
    barrier();
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uint e = t + j * WG;
        if (e < all) {
            uvec2 p = written_at(e);
            KEY x = sk[p.x * pitch + p.y];
            uint64_t q = at(dst, offset_of(dims, nk, nk, first + p.x) + int64_t(p.y) * dst_stride, OUT_SIZE);
#if defined(GATHER)
            int64_t row = offset_of(dims, 0u, nk, first + p.x);
            raw_store(q, a_bits(at(src, row + int64_t(uint(x)) * src_stride, A_SIZE)));
#elif defined(ARG)
            Raw4(q).v = uint(x);
#else
            raw_store(q, raw_of(x));
#endif
        }
    }
}
