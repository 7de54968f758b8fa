#version 460
// Stable merge sort along one axis on order-preserving unsigned keys, with indices carried along for ARG.
// MODE 0 sorts tiles of WG * ITEMS elements in shared memory; MODE 1 merges pairs of sorted runs, a tile of
// the output for each workgroup, cut by the merge path (Green, McColl, Bader, GPU Merge Path, 2012).
// PART_OUT writes keys and indices to scratch instead of values (or indices) to the destination. GATHER sorts by
// indices and writes the values at them. NaN sorts last; -0 sorts before +0, but is equal to it for ARG.
#include "lib/codecs.glsl"
#include "sort/order.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;                         // dims: nk source ones, then nk destination ones
    uint64_t keys_in, ids_in, keys_out, ids_out;     // scratch, rows of n
    int64_t src_stride, dst_stride;
    uint n, tiles, nk, run, rows;                        // run: length of the sorted runs that are merged
};

#if defined(ARG)
#define to_key key_of
#else
#define to_key strict_of
#endif

const uint TILE = WG * ITEMS;
shared KEY sk[TILE];
#ifdef ARG
shared uint si[TILE];
#define IDS(x) x
#else
#define IDS(x)
#endif
shared uint cut[2];

KEY k[ITEMS];
IDS(uint id[ITEMS];)

void to_shared(uint t) {
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        sk[t * ITEMS + i] = k[i];
        IDS(si[t * ITEMS + i] = id[i];)
    }
}

// How many of the first `diag` elements of the merge of two runs in shared memory come from the first run.
uint path(uint a, uint na, uint b, uint nb, uint diag) {
    uint lo = diag > nb ? diag - nb : 0u, hi = min(diag, na);
    while (lo < hi) {
        uint mid = (lo + hi) >> 1;
        if (sk[a + mid] <= sk[b + diag - 1u - mid]) lo = mid + 1u; else hi = mid;
    }
    return lo;
}

// ITEMS elements of the merge from position diag on, into registers.
void merge_from(uint a, uint na, uint b, uint nb, uint diag) {
    uint i = path(a, na, b, nb, diag), j = diag - i;
    KEY ka = i < na ? sk[a + i] : KEY_TOP, kb = j < nb ? sk[b + j] : KEY_TOP;
    [[unroll]] for (uint s = 0u; s < ITEMS; ++s) {
        bool first = i < na && (j >= nb || ka <= kb);
        k[s] = first ? ka : kb;
        IDS(uint from = first ? a + i : b + j; id[s] = si[min(from, TILE - 1u)];)
        if (first) {
            ++i;
            ka = i < na ? sk[a + i] : KEY_TOP;
        } else {
            ++j;
            kb = j < nb ? sk[b + j] : KEY_TOP;
        }
    }
}

void emit(uint row, uint first, uint count, uint t) {
    barrier();
    to_shared(t);
    barrier();
    int64_t off = offset_of(dims, nk, nk, row);
    for (uint e = t; e < count; e += WG) {
#ifdef PART_OUT
        uint64_t o = uint64_t(row) * n + first + e;
        Key(keys_out + o * KEY_SIZE).v = sk[e];
        IDS(Raw4(ids_out + o * 4ul).v = si[e];)
#else
        uint64_t q = at(dst, off + int64_t(first + e) * dst_stride, OUT_SIZE);
#if defined(GATHER)
        raw_store(q, a_bits(at(src, offset_of(dims, 0u, nk, row) + int64_t(si[e]) * src_stride, A_SIZE)));
#elif defined(ARG)
        Raw4(q).v = si[e];
#else
        raw_store(q, raw_of(sk[e]));
#endif
#endif
    }
}

#if MODE == 1
uint global_path(uint64_t a, uint na, uint64_t b, uint nb, uint diag) {
    uint lo = diag > nb ? diag - nb : 0u, hi = min(diag, na);
    while (lo < hi) {
        uint mid = lo + ((hi - lo) >> 1);
        if (Key(a + uint64_t(mid) * KEY_SIZE).v <= Key(b + uint64_t(diag - 1u - mid) * KEY_SIZE).v) lo = mid + 1u;
        else hi = mid;
    }
    return lo;
}
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
    uint row = wg / tiles, first = (wg - row * tiles) * TILE, count = min(TILE, n - first);
    if (row >= rows) return;
#if MODE == 0
    uint64_t p = at(src, offset_of(dims, 0u, nk, row), A_SIZE);
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        uint e = i * WG + t;
        sk[e] = e < count ? to_key(a_bits(at(p, int64_t(first + e) * src_stride, A_SIZE))) : KEY_TOP;
        IDS(si[e] = first + e;)
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; ++i) {
        k[i] = sk[t * ITEMS + i];
        IDS(id[i] = si[t * ITEMS + i];)
    }
    [[unroll]] for (uint r = 0u; r < ITEMS; ++r)
        [[unroll]] for (uint i = r & 1u; i + 1u < ITEMS; i += 2u)
            if (k[i] > k[i + 1u]) {
                KEY x = k[i]; k[i] = k[i + 1u]; k[i + 1u] = x;
                IDS(uint y = id[i]; id[i] = id[i + 1u]; id[i + 1u] = y;)
            }
    for (uint len = ITEMS; len < TILE; len *= 2u) {
        barrier();
        to_shared(t);
        barrier();
        uint at0 = t * ITEMS, base = at0 & ~(2u * len - 1u);
        merge_from(base, len, base + len, len, at0 - base);
    }
#else
    uint pair = first / (2u * run) * (2u * run);
    uint na = min(run, n - pair), nb = min(run, n - pair - na), d0 = first - pair;
    uint64_t row0 = uint64_t(row) * n, a = row0 + pair, b = a + na;
    if (t < 2u) cut[t] = global_path(keys_in + a * KEY_SIZE, na, keys_in + b * KEY_SIZE, nb, t == 0u ? d0 : d0 + count);
    barrier();
    uint a0 = cut[0], ca = cut[1] - a0, b0 = d0 - a0;
    for (uint e = t; e < count; e += WG) {
        uint64_t o = e < ca ? a + a0 + e : b + b0 + (e - ca);
        sk[e] = Key(keys_in + o * KEY_SIZE).v;
        IDS(si[e] = Raw4(ids_in + o * 4ul).v;)
    }
    barrier();
    merge_from(0u, ca, ca, count - ca, min(t * ITEMS, count));
#endif
    emit(row, first, count, t);
}
