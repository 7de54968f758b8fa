#version 460
// Exact sums of scattered floats: integers are added by atomics, whose order does not matter, and each place rounds once.
// A float is m * 2^(e - 150), m of 24 bits less the DROP ones that its format lacks. Each place has BINS sums of 64 bits; bin k
// takes addends whose exponents are at most k * WINDOW and less than (k + 1) * WINDOW below the top one, each shifted to the unit of
// the bin, which has room for as many as may meet. The top exponent is that of all addends, what the places hold included. Where
// all of them span more than the bins do, each place has a top exponent of its own, and what lies below its bins is cut.
// MODE 0 finds the exponents of all addends, a word from each workgroup, and clears CLEARED bins and the marks. 1 makes one word of these,
// clears the other bins and marks places with their top exponents, or that NaN or infinities meet there, where any of that is needed. 2
// adds. 3 writes the sums, of the base where the result lies elsewhere all. Axis fields: length, step in the base, step in the updates.
// The table: the exponents of all (16 bytes), BINS times `padded` sums, `padded` marks, a word for each workgroup of MODE 0.
#include "lib/codecs.glsl"
#ifdef ATOMIC64
#extension GL_EXT_shader_atomic_int64 : require
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Sum { uint64_t v; };
#endif
#define FIELDS 3
#include "index/indexed.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, base, dst, params, table;
    uint total, span, padded, window;  // updates (elements that src holds, for MODE 0), places; the latter padded; exponents
    uint each;                         // updates of a lane, for MODE 2; workgroups of MODE 0, for MODE 1
};

// What is known of addends: the largest exponent, 255 less the least one, whether some are not finite.
#define TOP_AT 16u
#define ODD 0x80000000u

// Marks of a place, above its top exponent, which does not matter there.
#define NAN 0x100u
#define PLUS 0x200u
#define MINUS 0x400u

uint magnitude(uint b) { return b & 0x7fffffffu; }
uint exponent_of(uint b) { return max((b >> 23) & 0xffu, 1u); }
uint flag_of(uint b) { return magnitude(b) > 0x7f800000u ? NAN : b >> 31 == 0u ? PLUS : MINUS; }
bool finite(uint b) { return magnitude(b) < 0x7f800000u; }

uint64_t sum_at(uint k, uint i) { return table + 16ul + (uint64_t(k) * padded + i) * 8ul; }
uint64_t mark_at(uint i) { return table + 16ul + (uint64_t(padded) * (2u * BINS) + i) * 4ul; }

// Bins in use, and whether places have exponents of their own.
uint bins(uint known, out bool wide, out uint top, out bool odd) {
    top = (known & ~ODD) >> TOP_AT;
    odd = known >= ODD;
    uint range = top + (known & 0xffffu) - 255u;
    wide = top != 0u && range >= BINS * window;
    return top == 0u ? 0u : wide ? BINS : range / window + 1u;
}

// The bin of a finite number and what it adds there.
uint addend(uint b, uint top, out int64_t x) {
    uint e = exponent_of(b), below = top - e, k = 0u;
    [[unroll]] for (uint j = 1u; j < BINS; ++j) k += below >= j * window ? 1u : 0u;
    uint m = ((b & 0x7fffffu) | ((b & 0x7f800000u) != 0u ? 0x800000u : 0u)) >> DROP;
    int up = int((k + 1u) * window) - 1 - int(below);
    uvec2 y = up >= 0 ? uvec2(m << uint(up), (m >> 1) >> uint(31 - up)) : uvec2(up > -32 ? m >> uint(-up) : 0u, 0u);
    int64_t z = int64_t(packUint2x32(y));
    x = b >> 31 != 0u ? -z : z;
    return k;
}

#if MODE < 2
shared uint of_lanes[WG];

uint joined(uint a, uint b) {
    const uint tops = 0x7fff0000u, lows = 0xffffu;
    return ((a | b) & ODD) | max(a & tops, b & tops) | max(a & lows, b & lows);
}

uint of_workgroup(uint known) {
    uint t = gl_LocalInvocationIndex;
    of_lanes[t] = known;
    barrier();
    for (uint n = WG / 2u; n > 0u; n >>= 1) {
        if (t < n) of_lanes[t] = joined(of_lanes[t], of_lanes[t + n]);
        barrier();
    }
    return of_lanes[0];
}
#endif

#if MODE == 0
// `least` is one less than the least magnitude: zero is the largest there.
void look(uint b, bool only_finite, inout uint most, inout uint least) {
    uint m = magnitude(b);
    if (only_finite && !finite(b)) m = 0u;
    most = max(most, m);
    least = min(least, m - 1u);
}

// Elements that lie one behind the other, 16 bytes at a time; LOADS of a lane are on their way together.
void look_through(uint64_t from, uint count, bool only_finite, inout uint most, inout uint least) {
    uint64_t aligned = from & ~15ul;
    uint before = uint(from - aligned) / A_SIZE, vectors = (before + count + A_VEC - 1u) / A_VEC;
    uint step = gl_NumWorkGroups.x * WG;
    for (uint i = gl_WorkGroupID.x * WG + gl_LocalInvocationIndex; i < vectors; i += LOADS * step) {
        uvec4 v[LOADS];
        [[unroll]] for (uint j = 0u; j < LOADS; ++j) {
            if (i + j * step < vectors) v[j] = Vec16(aligned + 16ul * (i + j * step)).v;
        }
        [[unroll]] for (uint j = 0u; j < LOADS; ++j) {
            uint at_vector = i + j * step;
            if (at_vector >= vectors) continue;
            bool whole = at_vector > 0u && at_vector + 1u < vectors;
            [[unroll]] for (uint k = 0u; k < A_VEC; ++k) {
                uint n = at_vector * A_VEC + k;
                if (whole || (n >= before && n < before + count)) look(floatBitsToUint(a_elem(v[j], k)), only_finite, most, least);
            }
        }
    }
}

void look_at_all(bool only_finite, out uint most, out uint least) {
    most = 0u;
    least = 0xffffffffu;
    look_through(src, total, only_finite, most, least);
    look_through(base, span, only_finite, most, least);
}

void main() {
    uint t = gl_LocalInvocationIndex, step = gl_NumWorkGroups.x * WG, first = gl_WorkGroupID.x * WG + t;
    for (uint i = first; i < padded / 2u * CLEARED; i += step) Vec16(table + 16ul + 16ul * i).v = uvec4(0u);
    for (uint i = first; i < padded / 4u; i += step) Vec16(mark_at(4u * i)).v = uvec4(0u);
    uint most, least, known = 0u;
    look_at_all(false, most, least);
    if (!finite(most)) {
        known = ODD;
        look_at_all(true, most, least);
    }
    if (most != 0u) known |= (exponent_of(most) << TOP_AT) | (255u - exponent_of(least + 1u));
    known = of_workgroup(known);
    if (t == 0u) Raw4(mark_at(padded + gl_WorkGroupID.x)).v = known;
}
#elif MODE == 3
#if A_MANTISSA == 10
#define QUANTUM (-24)
#define INFINITE 0x7c00u
#else
#define QUANTUM (-126 - A_MANTISSA)
#define INFINITE (0x7f800000u >> DROP_STORED)
#endif

void put(uint i, uint bits) {
#if A_SIZE == 2
    Raw2(at(dst, int64_t(i), 2u)).v = uint16_t(bits);
#else
    Raw4(at(dst, int64_t(i), 4u)).v = bits;
#endif
}

// The float next to mag * 2^unit, which is not zero, or to a little more; ties to even.
uint rounded(uint64_t mag, int unit, bool more, bool minus) {
    uvec2 w = unpackUint2x32(mag);
    int msb = w.y != 0u ? 32 + findMSB(w.y) : findMSB(w.x);
    w = unpackUint2x32(mag << uint(63 - msb));
    // The first digit counts 2^e and the last one that is kept 2^q, `cut` below the top of the upper word.
    int e = msb + unit, q = max(e - A_MANTISSA, QUANTUM), cut = 31 - (e - q);
    uint m = cut < 32 ? w.y >> uint(cut) : 0u, rest = cut <= 32 ? w.y << uint(32 - cut) : 0u;
    more = more || w.x != 0u;
    m += rest > 0x80000000u || (rest == 0x80000000u && (more || (m & 1u) != 0u)) ? 1u : 0u;
    uint bits = min((uint(q - QUANTUM) << A_MANTISSA) + m, INFINITE);
    return bits | (minus ? 0x80000000u >> DROP_STORED : 0u);
}

// Whether all of a base and of two bins at most fit into one sum.
bool fits(uint n) { return n <= 2u && n * window + A_MANTISSA + 1u <= 62u; }

// Whether a sum stays below 2^62 after a shift.
bool below_2_62(int64_t x, uint up) {
    uint limit = 1u << (29u - up);
    return unpackUint2x32(uint64_t(x)).y + limit < 2u * limit;
}

// The float that bins and what the place held come to.
uint value_of(int64_t sum[BINS], uint n, uint top, uint b) {
    int64_t acc = sum[0];
    uint used = 1u;
    bool more = false;
    if (fits(n) && below_2_62(sum[0], n == 2u ? window : 0u) && below_2_62(sum[1], 0u)) {
        used = n;
        if (n == 2u) acc = (acc << window) + sum[1];
        uint m = (b & 0x7fffffu) | ((b & 0x7f800000u) != 0u ? 0x800000u : 0u);
        int64_t x = int64_t(uint64_t(m >> DROP) << ((n * window - 1u - (top - exponent_of(b))) & 63u));
        acc += b >> 31 != 0u ? -x : x;
    } else {
        if (magnitude(b) != 0u) {
            int64_t x;
            uint k = addend(b, top, x);
            [[unroll]] for (uint j = 0u; j < BINS; ++j) sum[j] += j == k ? x : 0l;
        }
        // What a bin has beyond WINDOW bits is carried to the one above; what stays is not negative.
        [[unroll]] for (uint k = BINS - 1u; k > 0u; --k) {
            sum[k - 1u] += sum[k] >> window;
            sum[k] &= (1l << window) - 1l;
        }
        acc = sum[0];
        int64_t most = 1l << (62u - window);
        [[unroll]] for (uint k = 1u; k < BINS; ++k) {
            if (used == k && acc < most && acc > -most) {
                acc = (acc << window) | sum[k];
                ++used;
            } else {
                more = more || sum[k] != 0l;
            }
        }
    }
    bool minus = acc < 0l;
    uint64_t mag = uint64_t(!minus ? acc : more ? ~acc : -acc);
    int unit = int(top) - int(used * window) + 1 + DROP - 150;
    return mag == 0ul ? 0u : rounded(mag, unit, more, minus);
}

void finish(uint i, uint held, int64_t sum[BINS], uint n, bool wide, uint top, bool odd) {
    bool any = false;
    [[unroll]] for (uint k = 0u; k < BINS; ++k) any = any || sum[k] != 0l;
    uint mark = wide || odd ? Raw4(mark_at(i)).v : 0u, met = mark & ~0xffu;
    if (!any && met == 0u) {
        if (base != dst) put(i, held);
        return;
    }
    uint b = floatBitsToUint(A_DEC(held));
    if (!finite(b) || met != 0u) {
        met |= finite(b) ? 0u : flag_of(b);
        bool minus = met == MINUS, infinite = met == PLUS || minus;
        put(i, (infinite ? INFINITE : INFINITE | (1u << (A_MANTISSA - 1))) | (minus ? 0x80000000u >> DROP_STORED : 0u));
    } else {
        put(i, value_of(sum, n, wide ? mark : top, b));
    }
}

// PLACES places a lane, WG apart. What is read of all of them is on its way together.
void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first = wg * PLACES * WG + gl_LocalInvocationIndex, known = Raw4(table).v, held[PLACES], top;
    uvec2 v[PLACES][BINS];
    [[unroll]] for (uint j = 0u; j < PLACES; ++j) {
        uint i = min(first + j * WG, span - 1u);
        held[j] = a_bits(at(base, int64_t(i), A_SIZE));
        [[unroll]] for (uint k = 0u; k < BINS; ++k) v[j][k] = k < CLEARED ? Raw8(sum_at(k, i)).v : uvec2(0u);
    }
    bool wide, odd;
    uint n = bins(known, wide, top, odd);
    if (base == dst && n == 0u && !odd) return;
    [[unroll]] for (uint j = 0u; j < PLACES; ++j) {
        uint i = first + j * WG;
        if (i >= span) continue;
        int64_t sum[BINS];
        [[unroll]] for (uint k = 0u; k < BINS; ++k) {
            if (k >= CLEARED && k < n) v[j][k] = Raw8(sum_at(k, i)).v;
            sum[k] = int64_t(packUint2x32(v[j][k]));
        }
        finish(i, held[j], sum, n, wide, top, odd);
    }
}
#else
// Where an update goes and where it lies; false if it is dropped.
bool place_of(uint r, out uint place, out uint64_t from) {
    int64_t to = 0l, dense = 0l, pos[NPICK];
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS, c = r;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        to += int64_t(c) * Words(params).v[w + 1u];
        dense += int64_t(c) * Words(params).v[w + 2u];
        [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] += int64_t(c) * Words(params).v[w + 3u + p];
    }
    const uint first = AXES * AXIS_WORDS;
    bool inside = true;
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) {
        int i = picked(params, first, p, pos[p]);
        inside = inside && i >= 0;
        to += int64_t(i) * Words(params).v[first + 4u * p + 1u];
    }
    place = uint(to);
    from = at(src, dense, A_SIZE);
    return inside;
}

#if MODE == 1
void mark(uint place, uint b, bool wide) {
    if (!finite(b)) atomicOr(Raw4(mark_at(place)).v, flag_of(b));
    else if (wide && magnitude(b) != 0u) atomicMax(Raw4(mark_at(place)).v, exponent_of(b));
}

void main() {
    uint t = gl_LocalInvocationIndex, step = gl_NumWorkGroups.x * WG, first = gl_WorkGroupID.x * WG + t, known = 0u, top;
    uvec4 v = Vec16(mark_at(padded + 4u * t)).v;
    [[unroll]] for (uint k = 0u; k < 4u; ++k) known = joined(known, 4u * t + k < each ? v[k] : 0u);
    known = of_workgroup(known);
    if (first == 0u) Raw4(table).v = known;
    bool wide, odd;
    uint n = bins(known, wide, top, odd);
    for (uint k = CLEARED; k < n; ++k)
        for (uint i = first; i < padded / 2u; i += step) Vec16(sum_at(k, 2u * i)).v = uvec4(0u);
    if (!wide && !odd) return;
    for (uint i = first; i < total; i += step) {
        uint place;
        uint64_t from;
        if (place_of(i, place, from)) mark(place, floatBitsToUint(a_load(from)), wide);
    }
    if (!wide) return;
    for (uint i = first; i < span; i += step) {
        uint b = floatBitsToUint(a_load(at(base, int64_t(i), A_SIZE)));
        if (finite(b)) mark(i, b, true);
    }
}
#else
void add(uint64_t to, uvec2 x) {
#ifdef ATOMIC64
    atomicAdd(Sum(to).v, packUint2x32(x));
#else
    // Each addition of the lower halves that wraps around is one more above.
    uint old = atomicAdd(Raw4(to).v, x.x);
    x.y += old + x.x < old ? 1u : 0u;
    if (x.y != 0u) atomicAdd(Raw4(to + 4ul).v, x.y);
#endif
}

// Sums that a workgroup has seen first, so that those that many updates go to do not wait for one another in memory.
#define NONE 0xffffffffu
shared uint seen[SEEN], sum_low[SEEN], sum_high[SEEN];

void meet(uint key, uvec2 x) {
    uint slot = (key * 0x9e3779b1u) >> (32u - SEEN_BITS);
    uint was = atomicCompSwap(seen[slot], NONE, key);
    if (was == NONE || was == key) {
        uint old = atomicAdd(sum_low[slot], x.x);
        x.y += old + x.x < old ? 1u : 0u;
        if (x.y != 0u) atomicAdd(sum_high[slot], x.y);
    } else {
        add(table + 16ul + 8ul * key, x);
    }
}

void one(uint place, uint b, bool wide, uint top) {
    if (magnitude(b) == 0u || !finite(b)) return;
    if (wide) {
        top = Raw4(mark_at(place)).v;
        if (top > 0xffu) return;
    }
    int64_t x;
    uint key = addend(b, top, x) * padded + place;
    if (x != 0l) meet(key, unpackUint2x32(uint64_t(x)));
}

// BATCH updates, WG apart, or `count` of them: what is read of them is on its way together. Others are zero.
void some(uint i, uint count, bool wide, uint top) {
    uint place[BATCH], b[BATCH];
    [[unroll]] for (uint j = 0u; j < BATCH; ++j) {
        uint64_t from;
        bool mine = place_of(min(i + j * WG, total - 1u), place[j], from) && j < count && i + j * WG < total;
        uint bits = floatBitsToUint(a_load(from));
        b[j] = mine ? bits : 0u;
    }
    [[unroll]] for (uint j = 0u; j < BATCH; ++j) one(place[j], b[j], wide, top);
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex, top;
    bool wide, odd;
    bins(Raw4(table).v, wide, top, odd);
    for (uint k = t; k < SEEN; k += WG) {
        seen[k] = NONE;
        sum_low[k] = sum_high[k] = 0u;
    }
    barrier();
    uint first = wg * WG * each + t;
    for (uint k = 0u; k < each; k += BATCH) some(first + k * WG, each - k, wide, top);
    barrier();
    for (uint k = t; k < SEEN; k += WG)
        if (seen[k] != NONE) add(table + 16ul + 8ul * seen[k], uvec2(sum_low[k], sum_high[k]));
}
#endif
#endif
