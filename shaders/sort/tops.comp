#version 460
// The least elements of long rows, or the greatest ones (TOP), few of them, as sorting has them. A row is cut into
// segments; a workgroup finds those of its segment, and what all segments found is the row of the next level, until there
// is one segment. A segment is read once for each digit, the highest first, until those with the digits that were found
// are few (CAP); these are kept in shared memory, where each counts those before it.
// FIRST reads elements of the source, LAST writes the destination; between them are keys (with indices for ARG) in
// scratch. GATHER writes the values at the indices. What comes out does not depend on the order of atomic operations.
#include "lib/codecs.glsl"
#include "sort/order.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;                      // dims: nk source ones, then nk destination ones
    uint64_t keys_in, ids_in, keys_out, ids_out;  // scratch, rows of n in, of segments * count out
    int64_t src_stride, dst_stride;
    uint n, segments, nk, rows, count;
};

#define CAP 512u
#define DIGIT 11u
#define BINS 2048u
#define AHEAD 8u
shared uint hist[BINS];
shared uint part[WG];
shared uvec3 found;  // the digit, elements before it, elements that have it
shared uint taken;
shared KEY kept[CAP];
#ifdef ARG
shared uint ids[CAP];
#define to_key key_of
#else
#define to_key strict_of
#endif

// The greatest come first where they are asked for.
KEY turned(KEY k) {
#ifdef TOP
    k = ~k;
#endif
#if A_SIZE < 4
    k &= (1u << KEY_BITS) - 1u;
#endif
    return k;
}

uint64_t row_base, row0;
uint start;

KEY key_at(uint e) {
#ifdef FIRST
    return turned(to_key(a_bits(at(row_base, int64_t(start + e) * src_stride, A_SIZE))));
#else
    return Key(keys_in + (row0 + start + e) * KEY_SIZE).v;
#endif
}

#ifdef ARG
uint id_at(uint e) {
#ifdef FIRST
    return start + e;
#else
    return Raw4(ids_in + (row0 + start + e) * 4ul).v;
#endif
}
#endif

// The sum of x over the lanes up to this one.
uint sum_to(uint x, uint t) {
    barrier();
    part[t] = x;
    barrier();
    for (uint o = 1u; o < WG; o <<= 1) {
        uint y = t >= o ? part[t - o] : 0u;
        barrier();
        part[t] += y;
        barrier();
    }
    return part[t];
}

// Counts a digit of the elements whose higher ones are `prefix`. A lane adds equal digits that follow each other at once:
// they would queue up.
void count_digit(uint len, uint t, uint above, KEY prefix, uint low, uint mask) {
    uint last = 0u, run = 0u;
    for (uint q = 0u; q < len; q += AHEAD * WG) {
        KEY k[AHEAD];
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) k[i] = key_at(min(q + i * WG + t, len - 1u));
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            bool in_ = q + i * WG + t < len && (above == KEY_BITS || (k[i] >> above) == prefix);
            uint d = uint(k[i] >> low) & mask;
            if (in_ && d != last) {
                if (run > 0u) atomicAdd(hist[last], run);
                last = d;
                run = 0u;
            }
            run += uint(in_);
        }
    }
    if (run > 0u) atomicAdd(hist[last], run);
}

// Keeps the elements whose digits above `low` come up to `prefix`, or before it.
void keep(uint len, uint t, KEY prefix, uint low, bool before) {
    for (uint q = 0u; q < len; q += AHEAD * WG) {
        KEY k[AHEAD];
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) k[i] = key_at(min(q + i * WG + t, len - 1u));
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            uint e = q + i * WG + t;
            bool few = low == KEY_BITS || (before ? k[i] < prefix : (k[i] >> low) <= prefix);
            if (e < len && few) {
                uint slot = atomicAdd(taken, 1u);
                kept[slot] = k[i];
#ifdef ARG
                ids[slot] = id_at(e);
#endif
            }
        }
    }
}

// Keeps the first `need` of `equal` elements that are `key`, or the last ones, behind those that are kept. With indices
// it matters which: a lane has neighbouring elements.
void keep_equal(uint len, uint t, KEY key, uint need, uint equal, uint slot) {
#ifdef ARG
    uint each = (len + WG - 1u) / WG, e0 = min(t * each, len), e1 = min(e0 + each, len), own = 0u;
    for (uint e = e0; e < e1; ++e) own += uint(key_at(e) == key);
    uint r = sum_to(own, t) - own;
#ifdef TOP
    uint skip = equal - need;
#else
    uint skip = 0u;
#endif
    for (uint e = e0; e < e1 && r < skip + need; ++e) {
        if (key_at(e) != key) continue;
        if (r >= skip) {
            kept[slot + r - skip] = key;
            ids[slot + r - skip] = id_at(e);
        }
        ++r;
    }
#else
    for (uint i = t; i < need; i += WG) kept[slot + i] = key;
#endif
}

void emit(uint row, uint segment, uint place, KEY key, uint id) {
#ifdef TOP
    place = count - 1u - place;
#endif
#ifdef LAST
    uint64_t q = at(dst, offset_of(dims, nk, nk, row) + int64_t(place) * dst_stride, OUT_SIZE);
#if defined(GATHER)
    raw_store(q, a_bits(at(row_base, int64_t(id) * src_stride, A_SIZE)));
#elif defined(ARG)
    Raw4(q).v = id;
#else
    raw_store(q, raw_of(turned(key)));
#endif
#else
    uint64_t o = (uint64_t(row) * segments + segment) * count + place;
    Key(keys_out + o * KEY_SIZE).v = key;
#ifdef ARG
    Raw4(ids_out + o * 4ul).v = id;
#endif
#endif
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
    uint row = wg / segments, segment = wg - row * segments;
    if (row >= rows) return;
    start = uint(uint64_t(n) * segment / segments);
    uint len = uint(uint64_t(n) * (segment + 1u) / segments) - start;
    row0 = uint64_t(row) * n;
#if defined(FIRST) || defined(GATHER)
    row_base = at(src, offset_of(dims, 0u, nk, row), A_SIZE);
#endif
    if (t == 0u) taken = 0u;
    uint low = KEY_BITS, below = 0u, inside = len;
    KEY prefix = KEY(0);
    [[dont_unroll]] while (below + inside > CAP && low > 0u) {
        uint above = low, width = min(low, DIGIT);
        low -= width;
        for (uint d = t; d < BINS; d += WG) hist[d] = 0u;
        barrier();
        count_digit(len, t, above, prefix, low, (1u << width) - 1u);
        barrier();
        const uint EACH = BINS / WG;
        uint sum = 0u, rest = count - below;
        for (uint i = 0u; i < EACH; ++i) sum += hist[t * EACH + i];
        uint upto = sum_to(sum, t), before = upto - sum;
        if (before < rest && rest <= upto) {
            uint d = t * EACH;
            while (before + hist[d] < rest) before += hist[d++];
            found = uvec3(d, before, hist[d]);
        }
        barrier();
        prefix = (prefix << width) | KEY(found.x);
        below += found.y;
        inside = found.z;
    }
    bool many = below + inside > CAP;  // with one key
    barrier();
    keep(len, t, prefix, low, many);
    if (many) keep_equal(len, t, prefix, count - below, inside, below);
    barrier();
    uint total = many ? count : below + inside;
    for (uint c = t; c < total; c += WG) {
        KEY key = kept[c];
        uint id = 0u, rank = 0u;
#ifdef ARG
        id = ids[c];
#endif
        for (uint o = 0u; o < total; ++o) {
            KEY other = kept[o];
#if defined(ARG) && defined(TOP)
            bool ahead = ids[o] > id;
#elif defined(ARG)
            bool ahead = ids[o] < id;
#else
            bool ahead = o < c;
#endif
            rank += uint(other < key || (other == key && ahead));
        }
        if (rank < count) emit(row, segment, rank, key, id);
    }
}
