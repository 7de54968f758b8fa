#version 460
// Scatter in the order of the updates, where no two lanes meet in an element. Axis fields: length, step in the
// base, step in the updates (both in units of V elements), step in the numbering of updates, step of the key.
// DUP 0: no two updates meet. DUP 1: links (shaders/index/scatter_keys.comp) say which do: for OP 0 the last one
// writes, else the first one combines all in their order. DUP 2 (OP 0): a table says which one is the last. DUP 3:
// integers of 32 bits are combined by atomics, whose order does not matter, and so are the largest and the least of floats.
// The last CHAIN_AXES records, length and step in the updates, lead from a number to its update.
#include "lib/codecs.glsl"
#define FIELDS 5
#include "index/indexed.glsl"
#include "index/combine.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, params, links, total;
    uint inner, shift, chain_axes;  // vectors of a row, its log2 or 32, axes of the numbering
    int row_step;                   // of the updates along a row, in vectors
};

#define FIRST (AXES * AXIS_WORDS)
#if DUP == 3 && A_KIND == 2
// Bits of floats are ordered as integers are: as signed ones where the sign is plus, else as unsigned ones the other way round. NaN is
// the one that comes after all others; whoever finds another one there replaces it.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Signed { int v; };
void extreme(uint64_t to, float x) {
    const uint nan = OP == 3 ? 0x7fc00000u : 0xffc00000u;
    uint u = is_nan(x) ? nan : floatBitsToUint(x);
    if (is_nan(uintBitsToFloat(Word(to).v))) {
        atomicExchange(Word(to).v, nan);
    } else if (int(u) >= 0) {
        if (OP == 3) atomicMax(Signed(to).v, int(u));
        else atomicMin(Signed(to).v, int(u));
    } else {
        if (OP == 3) atomicMin(Word(to).v, u);
        else atomicMax(Word(to).v, u);
    }
}
#elif DUP == 3
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Word { A_C v; };
#endif

#define LAST 0x7fffffffu
#define FOLLOWS 0x80000000u

int64_t update_of(uint u) {
    int64_t off = 0l;
    const uint first = FIRST + 4u * NPICK;
    for (uint d = chain_axes; d > 0u; --d) {
        uint w = first + (d - 1u) * 2u, c = u;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            u = c / size;
            c -= u * size;
        }
        off += int64_t(c) * Words(params).v[w + 1u];
    }
    return off;
}

void one(UINT i) {
    UINT r = shift < 32u ? i >> shift : i / inner;
    uint k = uint(i - r * inner), number = 0u, key = 0u;
    int64_t base = int64_t(k), from = int64_t(k) * row_step, pos[NPICK];
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS;
        UINT c = r;
        if (d > 1u) {
            UINT size = UINT(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        base += int64_t(c) * Words(params).v[w + 1u];
        from += int64_t(c) * Words(params).v[w + 2u];
#if DUP == 1 || DUP == 2
        number += uint(c) * uint(Words(params).v[w + 3u]);
#endif
#if DUP == 2
        key += uint(c) * uint(Words(params).v[w + 4u]);
#endif
        [[unroll]] for (uint p = 0u; p < NPICK; ++p) pos[p] += int64_t(c) * Words(params).v[w + 5u + p];
    }
#if DUP == 1
    uint link = Raw4(links + 4ul * number).v;
#if OP == 0
    if ((link & LAST) != LAST) return;
#else
    if (link >= FOLLOWS) return;
#endif
#endif
    [[unroll]] for (uint p = 0u; p < NPICK; ++p) {
        int at_axis = picked(params, FIRST, p, pos[p]);
#ifndef HOLD
        if (at_axis < 0) return;
#endif
        base += int64_t(at_axis) * Words(params).v[FIRST + 4u * p + 1u];
#if DUP == 2
        key += uint(at_axis) * uint(Words(params).v[FIRST + 4u * NPICK + 2u * chain_axes + p]);
#endif
    }
#if DUP == 2
    if (Raw4(links + 4ul * key).v != number + 1u) return;
#endif
    uint64_t to = at(dst, base * V, A_SIZE);
#if SPLAT
    #define UPDATE(offset) load_updates(at(src, offset, A_SIZE))
#else
    #define UPDATE(offset) load_updates(at(src, (offset) * V, A_SIZE))
#endif
#if DUP == 3 && A_KIND == 2
    extreme(to, UPDATE(from).x[0]);
#elif DUP == 3 && OP == 1
    atomicAdd(Word(to).v, UPDATE(from).x[0]);
#elif DUP == 3 && OP == 3
    atomicMax(Word(to).v, UPDATE(from).x[0]);
#elif DUP == 3
    atomicMin(Word(to).v, UPDATE(from).x[0]);
#elif OP == 0
    store_lanes(to, UPDATE(from));
#else
    Lanes acc = combine_lanes(load_lanes(to), UPDATE(from));
#if DUP == 1
    from -= update_of(number);
    for (link &= LAST; link != LAST; link = Raw4(links + 4ul * link).v & LAST)
        acc = combine_lanes(acc, UPDATE(from + update_of(link)));
#endif
    store_lanes(to, acc);
#endif
}

void main() {
    UINT i = UINT(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (i < total) one(i);
}
