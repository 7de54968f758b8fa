#version 460
// Scatter of many updates in the order of their keys (stable), so that updates that meet are neighbours, a run.
// A lane has a vector of V elements of the rows of CHUNK updates. A run that one chunk holds, or begins in it,
// goes to the base; what a chunk has of a run that began before it becomes an update of the next LEVEL, with the
// key and the number of its first one. So the result depends on nothing but the operands, and a run of any
// length is shared by many lanes. Axis fields (of the numbering): length, step in the base, step in the updates;
// the last ROW_AXES records, length and the two steps, lead from a vector's number to its place in a row. The
// step of updates is in elements for SPLAT, else in vectors; that of the base in vectors. SHORT keys have 16 bits. With
// ORDERED the keys lie by place. Levels
// are short: what a lane reads for LEVEL updates is asked for at once, for nothing else hides the wait.
#include "lib/codecs.glsl"
#define FIELDS 3
#include "index/indexed.glsl"
#include "index/combine.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, params;      // src: updates, or what the level before left of runs
    uint64_t keys, order, parts;    // keys by number and numbers by place; above the first level both by place
    uint64_t carried_keys, carried_numbers, total;  // total: lanes
    int64_t key_step;               // in the base, of a step of the key; 0 where places do not follow from keys
    uint width, shift, count, per_line, chunk;      // vectors of a row, its log2 or 32, updates
};

layout(buffer_reference, scalar, buffer_reference_align = ACC_ALIGN) buffer Part { Lanes v; };

#define DROPPED 0xffffffffu

// Number of the update at a place in the order; orders are those of a line each.
uint number_at(uint p) {
    uint j = Raw4(order + 4ul * p).v;
#ifdef LEVEL
    return j;
#else
    return per_line == count ? j : p / per_line * per_line + j;
#endif
}

#ifdef LEVEL
uint key_at(uint p) { return Raw4(keys + 4ul * p).v; }
#elif defined(ORDERED)
uint key_at(uint p) {
    uint key = Raw4(keys + 4ul * p).v;
#ifdef SHORT
    return key == 0xffffu ? DROPPED : key;
#else
    return key;
#endif
}
#elif defined(SHORT)
uint key_at(uint p) {
    uint key = uint(Raw2(keys + 2ul * number_at(p)).v);
    return key == 0xffffu ? DROPPED : key;
}
#else
uint key_at(uint p) { return Raw4(keys + 4ul * number_at(p)).v; }
#endif

// Where update u, which is not dropped, goes in the base.
int64_t base_of(uint u) {
    int64_t to = 0l, pos[NPICK];
    [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS, c = u;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            u = c / size;
            c -= u * size;
        }
        to += int64_t(c) * Words(params).v[w + 1u];
        [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] += int64_t(c) * Words(params).v[w + 3u + k];
    }
    const uint first = AXES * AXIS_WORDS;
    [[unroll]] for (uint k = 0u; k < NPICK; ++k)
        to += int64_t(picked(params, first, k, pos[k])) * Words(params).v[first + 4u * k + 1u];
    return to;
}

// The same by its key, where that tells.
int64_t place_of(uint key, uint u) { return key_step != 0l ? int64_t(key) * key_step : base_of(u); }

// Where update u lies.
int64_t update_of(uint u) {
    int64_t from = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS, c = u;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            u = c / size;
            c -= u * size;
        }
        from += int64_t(c) * Words(params).v[w + 2u];
    }
    return from;
}

void row_places(uint w, out int64_t to, out int64_t from) {
    to = 0l;
    from = 0l;
    const uint first = AXES * AXIS_WORDS + 4u * NPICK;
    [[unroll]] for (uint d = ROW_AXES; d > 0u; --d) {
        uint at_word = first + (d - 1u) * 3u, c = w;
        if (d > 1u) {
            uint size = uint(Words(params).v[at_word]);
            w = c / size;
            c -= w * size;
        }
        to += int64_t(c) * Words(params).v[at_word + 1u];
        from += int64_t(c) * Words(params).v[at_word + 2u];
    }
}

// The vector w of the update at place p.
#if SPLAT
#define UPDATE(p) load_updates(at(src, update_of(number_at(p)) + row_from, A_SIZE))
#else
#define UPDATE(p) load_updates(at(src, (update_of(number_at(p)) + row_from) * V, A_SIZE))
#endif

#ifdef LEVEL
void put(uint64_t to, uint64_t part, Lanes x) {
    if (to == 0ul) Part(part).v = x;
    else store_lanes(to, x);
}

void main() {
    uint64_t i = uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (i >= total) return;
    uint c = shift < 32u ? uint(i >> shift) : uint(i / width), w = uint(i - uint64_t(c) * width);
    uint p = c * LEVEL, key[LEVEL], number[LEVEL], before = p > 0u ? key_at(p - 1u) : DROPPED;
    [[unroll]] for (uint k = 0u; k < LEVEL; ++k) {
        uint e = min(p + k, count - 1u);
        key[k] = key_at(e);
        number[k] = number_at(e);
    }
    [[unroll]] for (uint k = 1u; k < LEVEL; ++k)
        if (p + k >= count) key[k] = DROPPED;
    bool carried = key[0] != DROPPED && key[0] == before;
    if (w == 0u) {
        Raw4(carried_keys + 4ul * c).v = carried ? key[0] : DROPPED;
        Raw4(carried_numbers + 4ul * c).v = number[0];
    }
    int64_t row_to, row_from;
    row_places(w, row_to, row_from);
    Lanes part[LEVEL], base[LEVEL];
    uint64_t to[LEVEL], rest = parts + (uint64_t(c) * width + w) * (V * ACC_SIZE);
    [[unroll]] for (uint k = 0u; k < LEVEL; ++k) {
        part[k] = Part(src + (uint64_t(min(p + k, count - 1u)) * width + w) * (V * ACC_SIZE)).v;
        to[k] = 0ul;
        bool joins = k > 0u ? key[k] == key[max(k, 1u) - 1u] : carried;
        if (key[k] != DROPPED && !joins) {
            to[k] = at(dst, (place_of(key[k], number[k]) + row_to) * V, A_SIZE);
            base[k] = load_lanes(to[k]);
        }
    }
    // The run that is open, where it goes (0: to the next level) and what it came to so far.
    bool open = carried;
    uint64_t place = 0ul;
    Lanes acc = part[0];
    [[unroll]] for (uint k = 0u; k < LEVEL; ++k) {
        if (k > 0u && open && key[k] == key[max(k, 1u) - 1u]) {
            acc = combine_lanes(acc, part[k]);
            continue;
        }
        if (k == 0u && carried) continue;
        if (open) put(place, rest, acc);
        open = key[k] != DROPPED;
        if (open) {
            acc = combine_lanes(base[k], part[k]);
            place = to[k];
        }
    }
    if (open) put(place, rest, acc);
}
#else
void main() {
    uint64_t i = uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (i >= total) return;
    uint c = shift < 32u ? uint(i >> shift) : uint(i / width), w = uint(i - uint64_t(c) * width);
    uint p = c * chunk, end = min(p + chunk, count), key = key_at(p);
    bool carried = p > 0u && key_at(p - 1u) == key;
    if (w == 0u) {
        Raw4(carried_keys + 4ul * c).v = carried ? key : DROPPED;
        Raw4(carried_numbers + 4ul * c).v = number_at(p);
    }
    int64_t row_to, row_from;
    row_places(w, row_to, row_from);
    while (p < end) {
        if (key == DROPPED) {
            if (++p < end) key = key_at(p);
            carried = false;
            continue;
        }
        uint64_t q = 0ul;
        Lanes acc = UPDATE(p);
        if (!carried) {
            q = at(dst, (place_of(key, number_at(p)) + row_to) * V, A_SIZE);
            acc = combine_lanes(load_lanes(q), acc);
        }
        for (++p; p < end; ++p) {
            uint next = key_at(p);
            if (next != key) {
                key = next;
                break;
            }
            acc = combine_lanes(acc, UPDATE(p));
        }
        if (carried) Part(parts + (uint64_t(c) * width + w) * (V * ACC_SIZE)).v = acc;
        else store_lanes(q, acc);
        carried = false;
    }
}
#endif
