#version 460
// One pass of a stable radix sort of long rows by 8-bit digits, least significant first, as three kernels (MODE):
//   0 count    digits of each tile: counts[row][digit][tile]
//   1 scan     counts of a digit to the number of its elements in earlier tiles; totals[row][digit]
//   2 scatter  elements of a tile to their places: ranked among equal digits by ballots, ordered by digit in
//              shared memory, written in runs
// No workgroup waits for another. FIRST reads elements of the source, LAST writes the destination; between them are
// keys (with indices for ARG, or with the words of ids_in from the first pass on for CARRY) in scratch. GATHER writes
// the values at the indices.
#include "lib/codecs.glsl"
#include "sort/order.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;                      // dims: nk source ones, then nk destination ones
    uint64_t keys_in, ids_in, keys_out, ids_out;  // scratch, rows of n
    uint64_t counts;                              // then totals, rows * 256 * tiles words further on
    int64_t src_stride, dst_stride;
    uint n, tiles, nk, rows, shift;
};

const uint TILE = WG * ITEMS;

uint digit_of(KEY k) { return uint(k >> shift) & 255u; }
uint64_t count_at(uint row, uint d, uint tile) {
    return counts + ((uint64_t(row) * 256u + d) * tiles + tile) * 4ul;
}
uint64_t total_at(uint row, uint d) { return counts + (uint64_t(rows) * 256u * tiles + row * 256ul + d) * 4ul; }

#if MODE != 1
#ifdef ARG
#define to_key key_of
#else
#define to_key strict_of
#endif
uint64_t row_base;
KEY key_at(uint row, uint e) {
#ifdef FIRST
    return to_key(a_bits(at(row_base, int64_t(e) * src_stride, A_SIZE)));
#else
    return Key(keys_in + (uint64_t(row) * n + e) * KEY_SIZE).v;
#endif
}
#endif

#if MODE == 0
// Several histograms, whose banks differ.
const uint COPIES = 4u, PITCH = 264u;
shared uint hist[COPIES * PITCH];

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
    uint row = wg / tiles, tile = wg - row * tiles, first = tile * TILE;
    if (row >= rows) return;
#ifdef FIRST
    row_base = at(src, offset_of(dims, 0u, nk, row), A_SIZE);
#endif
    for (uint d = t; d < COPIES * PITCH; d += WG) hist[d] = 0u;
    barrier();
    KEY k[ITEMS];
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) k[i] = key_at(row, min(first + i * WG + t, n - 1u));
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        if (first + i * WG + t >= n) continue;
        // Neighbours have counts of their own: equal digits would queue up.
        atomicAdd(hist[t % COPIES * PITCH + digit_of(k[i])], 1u);
    }
    barrier();
    for (uint d = t; d < 256u; d += WG) {
        uint sum = 0u;
        [[unroll]] for (uint c = 0u; c < COPIES; ++c) sum += hist[c * PITCH + d];
        Raw4(count_at(row, d, tile)).v = sum;
    }
}

#elif MODE == 1
#ifdef FEW  // one workgroup a row, a lane a digit
void main() {
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (row >= rows) return;
    for (uint d = gl_LocalInvocationIndex; d < 256u; d += WG) {
        uint sum = 0u;
        for (uint i = 0u; i < tiles; ++i) {
            uint c = Raw4(count_at(row, d, i)).v;
            Raw4(count_at(row, d, i)).v = sum;
            sum += c;
        }
        Raw4(total_at(row, d)).v = sum;
    }
}
#else  // one workgroup a row and digit
shared uint sums[WG / SG_SIZE];

void main() {
    uint64_t wg = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint row = uint(wg >> 8), d = uint(wg) & 255u;
    if (row >= rows) return;
    uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, s = gl_SubgroupInvocationID;
    uint carry = 0u;
    for (uint q = 0u; q < tiles; q += 4u * WG) {
        uint c[4], sum = 0u;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint e = q + lane * 4u + i;
            c[i] = e < tiles ? Raw4(count_at(row, d, e)).v : 0u;
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) { uint x = c[i]; c[i] = sum; sum += x; }
        uint v = sum;
        for (uint o = 1u; o < SG_SIZE; o <<= 1) {
            uint y = subgroupShuffle(v, s >= o ? s - o : s);
            if (s >= o) v += y;
        }
        barrier();
        if (s == SG_SIZE - 1u) sums[gl_SubgroupID] = v;
        barrier();
        uint before = carry + v - sum;
        for (uint g = 0u; g < WG / SG_SIZE; ++g) {
            if (g < gl_SubgroupID) before += sums[g];
            carry += sums[g];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint e = q + lane * 4u + i;
            if (e < tiles) Raw4(count_at(row, d, e)).v = before + c[i];
        }
    }
    if (lane == 0u) Raw4(total_at(row, d)).v = carry;
}
#endif

#else
const uint GROUPS = WG / SG_SIZE;
shared KEY sk[TILE];                  // also the indices
shared uint seen[GROUPS * 256u];      // digits of each subgroup, then of those before it
shared uint local[256], place[256];   // digits before a digit in the tile; from there to its place in the row
shared uint earlier[256];             // elements of a digit in earlier tiles
const uint EACH = (256u + WG - 1u) / WG;
shared uvec2 stretch[GROUPS];         // sums over the digits of a subgroup

#if SG_SIZE > 32
#define MASK uvec2
#define LANES_BELOW(s) uvec2((s) < 32u ? (1u << (s)) - 1u : 0xffffffffu, (s) < 32u ? 0u : (1u << ((s) - 32u)) - 1u)
#define ballot(b) subgroupBallot(b).xy
uint bits(MASK m) { return uint(bitCount(m.x) + bitCount(m.y)); }
#else
#define MASK uint
#define LANES_BELOW(s) ((1u << (s)) - 1u)
#define ballot(b) subgroupBallot(b).x
uint bits(MASK m) { return uint(bitCount(m)); }
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint s = gl_SubgroupInvocationID, g = gl_SubgroupID, t = g * SG_SIZE + s;
    uint row = wg / tiles, tile = wg - row * tiles, first = tile * TILE;
    if (row >= rows) return;
    uint count = min(TILE, n - first);
#if defined(FIRST) || defined(GATHER)
    row_base = at(src, offset_of(dims, 0u, nk, row), A_SIZE);
#endif
    for (uint d = t; d < GROUPS * 256u; d += WG) seen[d] = 0u;
    KEY k[ITEMS];
    uint rank[ITEMS];
    // A subgroup takes neighbouring elements, one a lane at a time: their order is that of (i, lane).
    uint e0 = g * (SG_SIZE * ITEMS) + s;
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint e = e0 + i * SG_SIZE;
        k[i] = KEY_TOP;  // behind all others of its digit, and never written
        if (e < count) k[i] = key_at(row, first + e);
    }
#ifdef ARG
    uint id[ITEMS];
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint e = first + e0 + i * SG_SIZE;
#if defined(FIRST) && !defined(CARRY)
        id[i] = e;
#else
        id[i] = e < n ? Raw4(ids_in + (uint64_t(row) * n + e) * 4ul).v : 0u;
#endif
    }
#endif
    for (uint d = t; d < 256u; d += WG) {
        place[d] = Raw4(total_at(row, d)).v;
        earlier[d] = Raw4(count_at(row, d, tile)).v;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint d = digit_of(k[i]);
        MASK peers = ballot(true);
        [[unroll]] for (uint b = 0u; b < 8u; ++b) {
            bool bit = (d >> b & 1u) != 0u;
            MASK set = ballot(bit);
            peers &= bit ? set : ~set;
        }
        uint below = bits(peers & LANES_BELOW(s)), all = bits(peers);
        uint before = seen[g * 256u + d];
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        if (below + 1u == all) seen[g * 256u + d] = before + all;
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        rank[i] = before + below;
    }
    barrier();
    for (uint d = t; d < 256u; d += WG) {
        uint sum = 0u;
        [[unroll]] for (uint h = 0u; h < GROUPS; ++h) {
            uint c = seen[h * 256u + d];
            seen[h * 256u + d] = sum;
            sum += c;
        }
        local[d] = sum;
    }
    barrier();
    // Exclusive sums over the digits, a stretch of them a lane.
    uint d0 = t * EACH, d1 = min(d0 + EACH, 256u);
    uvec2 sum = uvec2(0u);
    for (uint d = d0; d < d1; ++d) {
        uvec2 x = uvec2(local[d], place[d]);
        local[d] = sum.x;
        place[d] = sum.y;
        sum += x;
    }
    uvec2 v = sum;
    for (uint o = 1u; o < SG_SIZE; o <<= 1) {
        uvec2 y = subgroupShuffle(v, s >= o ? s - o : s);
        if (s >= o) v += y;
    }
    if (s == SG_SIZE - 1u) stretch[g] = v;
    barrier();
    v -= sum;
    for (uint h = 0u; h < g; ++h) v += stretch[h];
    for (uint d = d0; d < d1; ++d) {
        uint here = local[d] + v.x;
        local[d] = here;
        place[d] += v.y + earlier[d] - here;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint d = digit_of(k[i]);
        rank[i] += local[d] + seen[g * 256u + d];
        sk[rank[i]] = k[i];
    }
    barrier();
    uint64_t row0 = uint64_t(row) * n;
#ifdef LAST
    uint64_t out0 = at(dst, offset_of(dims, nk, nk, row), OUT_SIZE);
#endif
    uint to[ITEMS];
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint e = i * WG + t;
        KEY key = sk[e];
        to[i] = place[digit_of(key)] + e;
        if (e < count) {
#ifndef LAST
            Key(keys_out + (row0 + to[i]) * KEY_SIZE).v = key;
#elif !defined(ARG)
            raw_store(at(out0, int64_t(to[i]) * dst_stride, A_SIZE), raw_of(key));
#endif
        }
    }
#ifdef ARG
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) sk[rank[i]] = KEY(id[i]);
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint e = i * WG + t;
        if (e < count) {
            uint index = uint(sk[e]);
#ifndef LAST
            Raw4(ids_out + (row0 + to[i]) * 4ul).v = index;
#elif defined(GATHER)
            raw_store(at(out0, int64_t(to[i]) * dst_stride, A_SIZE), a_bits(at(row_base, int64_t(index) * src_stride, A_SIZE)));
#else
            Raw4(at(out0, int64_t(to[i]) * dst_stride, 4u)).v = index;
#endif
        }
    }
#endif
}
#endif
