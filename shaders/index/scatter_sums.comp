#version 460
// Exact sums of scattered floats: integers are added by atomics, whose order does not matter, and each place rounds once.
// A float is m * 2^(e - 150), m of 24 bits less the DROP ones that its format lacks. Each place has BINS sums of 64 bits; bin k
// takes addends whose exponents are at most k * WINDOW and less than (k + 1) * WINDOW below the top one, each shifted to the unit of
// the bin, which has room for as many as may meet. The top exponent is that of all addends, what the places hold included. Where
// all of them span more than the bins do, each place has a top exponent of its own, and what lies below its bins is cut.
// MODE 0 finds the exponents of all addends and clears CLEARED bins, 1 clears what else is in use, 2 finds the top exponents of places and which
// of them meet NaN or infinities, where any of that is needed, 3 adds, 4 writes the sums. Axis fields: length, step in the base,
// step in the updates.
// The table: state (16 bytes), BINS times `padded` sums, `padded` top exponents, `padded` flags.
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
    uint64_t src, dst, params, table;
    uint total, span, padded, window;  // updates (elements that src holds, for MODE 0), places; the latter padded; exponents
    uint each;                         // updates of a lane, for MODE 3
};

// Largest exponent, 255 less the least one, flags of all addends.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer State { uint top, low, flags, unused; };

#define NAN 1u
#define PLUS 2u
#define MINUS 4u

uint magnitude(uint b) { return b & 0x7fffffffu; }
uint exponent_of(uint b) { return max((b >> 23) & 0xffu, 1u); }
uint flag_of(uint b) { return magnitude(b) > 0x7f800000u ? NAN : b >> 31 == 0u ? PLUS : MINUS; }
bool finite(uint b) { return magnitude(b) < 0x7f800000u; }

uint64_t sum_at(uint k, uint i) { return table + 16ul + (uint64_t(k) * padded + i) * 8ul; }
uint64_t top_at(uint i) { return table + 16ul + (uint64_t(padded) * (2u * BINS) + i) * 4ul; }
uint64_t flags_at(uint i) { return table + 16ul + (uint64_t(padded) * (2u * BINS + 1u) + i) * 4ul; }

// Bins in use, and whether places have exponents of their own.
uint bins(out bool wide, out uint top, out bool flags) {
    State s = State(table);
    top = s.top;
    flags = s.flags != 0u;
    uint range = top + s.low - 255u;
    wide = top != 0u && range >= BINS * window;
    return top == 0u ? 0u : wide ? BINS : range / window + 1u;
}

// The bin of a finite number and what it adds there.
uint addend(uint b, uint top, out int64_t x) {
    uint e = exponent_of(b), below = top - e, k = 0u;
    [[unroll]] for (uint j = 1u; j < BINS; ++j) k += below >= j * window ? 1u : 0u;
    uint m = (b & 0x7fffffu) | ((b & 0x7f800000u) != 0u ? 0x800000u : 0u);
    int up = int((k + 1u) * window) - 1 - int(below);
    uint64_t y = uint64_t(m >> DROP);
    y = up >= 0 ? y << uint(up) : up > -32 ? y >> uint(-up) : 0ul;
    x = b >> 31 != 0u ? -int64_t(y) : int64_t(y);
    return k;
}

#if MODE == 0
shared uint found[3];

void look(uint b, inout uint top, inout uint low, inout uint flags) {
    if (!finite(b)) flags = 1u;
    else if (magnitude(b) != 0u) {
        uint e = exponent_of(b);
        top = max(top, e);
        low = max(low, 255u - e);
    }
}

// Elements that lie one behind the other, 16 bytes at a time; loads of a lane are on their way together.
void look_through(uint64_t from, uint count, uint first, uint step, inout uint top, inout uint low, inout uint flags) {
    uint64_t aligned = from & ~15ul;
    uint before = uint(from - aligned) / A_SIZE, vectors = (before + count + A_VEC - 1u) / A_VEC;
    for (uint i = first; i < vectors; i += 4u * step) {
        uvec4 v[4];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = Vec16(aligned + 16ul * min(i + j * step, vectors - 1u)).v;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint at_vector = min(i + j * step, vectors - 1u);
            bool whole = at_vector > 0u && at_vector + 1u < vectors;
            [[unroll]] for (uint k = 0u; k < A_VEC; ++k) {
                uint n = at_vector * A_VEC + k;
                if (whole || (n >= before && n < before + count)) look(floatBitsToUint(a_elem(v[j], k)), top, low, flags);
            }
        }
    }
}

void main() {
    uint t = gl_LocalInvocationIndex, step = gl_NumWorkGroups.x * WG, first = gl_WorkGroupID.x * WG + t;
    for (uint i = first; i < padded / 2u * CLEARED; i += step) Vec16(table + 16ul + 16ul * i).v = uvec4(0u);
    uint top = 0u, low = 0u, flags = 0u;
    look_through(src, total, first, step, top, low, flags);
    look_through(dst, span, first, step, top, low, flags);
    if (t < 3u) found[t] = 0u;
    barrier();
    if (top != 0u) {
        atomicMax(found[0], top);
        atomicMax(found[1], low);
    }
    if (flags != 0u) atomicOr(found[2], 1u);
    barrier();
    if (t < 3u && found[t] != 0u) atomicMax(Raw4(table + 4ul * t).v, found[t]);
}
#elif MODE == 1
// Four places at a time.
void clear(uint i, uint n, bool wide, bool flags) {
    for (uint k = CLEARED; k < n; ++k) {
        Vec16(sum_at(k, i)).v = uvec4(0u);
        Vec16(sum_at(k, i + 2u)).v = uvec4(0u);
    }
    if (flags) Vec16(flags_at(i)).v = uvec4(0u);
    if (!wide) return;
    uvec4 tops = uvec4(0u);
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        if (i + k >= span) continue;
        uint b = floatBitsToUint(a_load(at(dst, int64_t(i + k), A_SIZE)));
        if (finite(b) && magnitude(b) != 0u) tops[k] = exponent_of(b);
    }
    Vec16(top_at(i)).v = tops;
}

void main() {
    bool wide, flags;
    uint top, n = bins(wide, top, flags);
    if (n <= CLEARED && !flags) return;
    uint step = gl_NumWorkGroups.x * WG * 4u, first = (gl_WorkGroupID.x * WG + gl_LocalInvocationIndex) * 4u;
    for (uint i = first; i < padded; i += step) clear(i, n, wide, flags);
}
#elif MODE == 4
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

// The float next to mag * 2^unit, or to a little more; ties to even.
uint rounded(uint64_t mag, int unit, bool more, bool minus) {
    uvec2 w = unpackUint2x32(mag);
    int msb = w.y != 0u ? 32 + findMSB(w.y) : findMSB(w.x);
    int q = max(msb + unit - A_MANTISSA, QUANTUM), s = q - unit;
    uint m;
    if (s <= 0) {
        m = uint(mag << uint(-s));
    } else if (s > 63) {
        m = 0u;
    } else {
        uint64_t rest = mag & ((1ul << uint(s)) - 1ul), half_of = 1ul << uint(s - 1);
        m = uint(mag >> uint(s));
        m += rest > half_of || (rest == half_of && (more || (m & 1u) != 0u)) ? 1u : 0u;
    }
    uint bits = min((uint(q - QUANTUM) << A_MANTISSA) + m, INFINITE);
    return bits | (minus ? 0x80000000u >> DROP_STORED : 0u);
}

void finish(uint i, int64_t sum[BINS], uint top, bool wide, bool flags) {
    bool any = false;
    [[unroll]] for (uint k = 0u; k < BINS; ++k) any = any || sum[k] != 0l;
    uint met = flags ? Raw4(flags_at(i)).v : 0u;
    if (!any && met == 0u) return;
    uint b = floatBitsToUint(a_load(at(dst, int64_t(i), A_SIZE)));
    if (!finite(b) || met != 0u) {
        met |= finite(b) ? 0u : flag_of(b);
        bool minus = met == MINUS, infinite = met == PLUS || minus;
        put(i, (infinite ? INFINITE : INFINITE | (1u << (A_MANTISSA - 1))) | (minus ? 0x80000000u >> DROP_STORED : 0u));
        return;
    }
    if (wide) top = Raw4(top_at(i)).v;
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
    int64_t acc = sum[0], most = 1l << (62u - window);
    uint used = 1u;
    bool more = false;
    [[unroll]] for (uint k = 1u; k < BINS; ++k) {
        if (used == k && acc < most && acc > -most) {
            acc = (acc << window) | sum[k];
            ++used;
        } else {
            more = more || sum[k] != 0l;
        }
    }
    bool minus = acc < 0l;
    uint64_t mag = uint64_t(!minus ? acc : more ? ~acc : -acc);
    int unit = int(top) - int(used * window) + 1 + DROP - 150;
    put(i, mag == 0ul ? 0u : rounded(mag, unit, more, minus));
}

// Two places a lane.
void main() {
    uint i = ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex) * 2u, top;
    bool wide, flags;
    uint n = bins(wide, top, flags);
    if (i >= span || (n == 0u && !flags)) return;
    uvec4 v[BINS];
    [[unroll]] for (uint k = 0u; k < BINS; ++k) v[k] = k < n ? Vec16(sum_at(k, i)).v : uvec4(0u);
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        int64_t sum[BINS];
        [[unroll]] for (uint k = 0u; k < BINS; ++k) sum[k] = int64_t(packUint2x32(j == 0u ? v[k].xy : v[k].zw));
        if (i + j < span) finish(i + j, sum, top, wide, flags);
    }
}
#else
bool place_of(uint r, out uint place, out uint64_t from) {
    int64_t base = 0l, dense = 0l, pos[NPICK];
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS, c = r;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        base += int64_t(c) * Words(params).v[w + 1u];
        dense += int64_t(c) * Words(params).v[w + 2u];
        [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] += int64_t(c) * Words(params).v[w + 3u + p];
    }
    const uint first = AXES * AXIS_WORDS;
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) {
        int i = picked(params, first, p, pos[p]);
        if (i < 0) return false;
        base += int64_t(i) * Words(params).v[first + 4u * p + 1u];
    }
    place = uint(base);
    from = at(src, dense, A_SIZE);
    return true;
}

#if MODE == 2
void look(uint i, bool wide) {
    uint place;
    uint64_t from;
    if (!place_of(i, place, from)) return;
    uint b = floatBitsToUint(a_load(from));
    if (!finite(b)) atomicOr(Raw4(flags_at(place)).v, flag_of(b));
    else if (wide && magnitude(b) != 0u) atomicMax(Raw4(top_at(place)).v, exponent_of(b));
}

void main() {
    bool wide, flags;
    uint top;
    bins(wide, top, flags);
    if (!wide && !flags) return;
    uint step = gl_NumWorkGroups.x * WG, first = gl_WorkGroupID.x * WG + gl_LocalInvocationIndex;
    for (uint i = first; i < total; i += step) look(i, wide);
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

void one(uint i, bool wide, uint top) {
    uint place;
    uint64_t from;
    if (!place_of(i, place, from)) return;
    uint b = floatBitsToUint(a_load(from));
    if (magnitude(b) == 0u || !finite(b)) return;
    if (wide) top = Raw4(top_at(place)).v;
    int64_t x;
    uint k = addend(b, top, x);
    if (x != 0l) meet(k * padded + place, unpackUint2x32(uint64_t(x)));
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex, top;
    bool wide, flags;
    bins(wide, top, flags);
    for (uint k = t; k < SEEN; k += WG) {
        seen[k] = NONE;
        sum_low[k] = sum_high[k] = 0u;
    }
    barrier();
    uint first = wg * WG * each + t;
    for (uint k = 0u; k < each; ++k)
        if (first + k * WG < total) one(first + k * WG, wide, top);
    barrier();
    for (uint k = t; k < SEEN; k += WG)
        if (seen[k] != NONE) add(table + 16ul + 8ul * seen[k], uvec2(sum_low[k], sum_high[k]));
}
#endif
#endif
