#version 460
// Which updates of a scatter meet. Updates (without their rows) are numbered line by line; the key of each says
// where it goes, 0xffffffff for one that is dropped. Axis fields: length, what a step adds to the key.
// MODE 0 writes the keys, of 16 bits with SHORT. MODE 1 links each update to the next one of equal key in its line (per_line at most
// WG): low bits the number of that update, LAST or GONE, top bit set unless it is the first. MODE 2 leaves the
// number of the last update of each key, plus one, in a table. MODE 3 assigns updates that lie in the order of their numbers itself: a
// workgroup has a line, of which that table lies in shared memory.
#include "lib/codecs.glsl"
#define FIELDS 2
#include "index/indexed.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t dst, params, updates;
    int64_t step;  // elements of the destination from a place to the next one
    uint total, per_line, places;  // places of a line
};

#define DROPPED 0xffffffffu
#define LAST 0x7fffffffu
#define GONE 0x7ffffffeu
#define FOLLOWS 0x80000000u

uint key_of(uint u) {
    uint r = u, key = 0u;
    int64_t pos[NPICK];
    [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS, c = r;
        if (d > 1u) {
            uint size = uint(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        key += c * uint(Words(params).v[w + 1u]);
        [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] += int64_t(c) * Words(params).v[w + 2u + k];
    }
    const uint first = AXES * AXIS_WORDS;
    [[unroll]] for (uint k = 0u; k < NPICK; ++k) {
        int i = picked(params, first, k, pos[k]);
        if (i < 0) return DROPPED;
        key += uint(i) * uint(Words(params).v[first + 4u * k + 1u]);
    }
    return key;
}

#if MODE == 1
shared uint keys[WG];
#elif MODE == 3
shared uint last[PLACES];
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, t = gl_LocalInvocationIndex;
#if MODE == 1
    // Whole lines in each workgroup.
    uint live = WG / per_line * per_line, u = wg * live + t;
    bool mine = t < live && u < total;
    uint key = mine ? key_of(u) : DROPPED;
    keys[t] = key;
    barrier();
    if (!mine) return;
    uint line = t / per_line * per_line, link = key == DROPPED ? GONE | FOLLOWS : LAST;
    if (key != DROPPED) {
        for (uint j = line; j < t; ++j) link |= keys[j] == key ? FOLLOWS : 0u;
        for (uint j = line + per_line - 1u; j > t; --j)
            if (keys[j] == key) link = (link & FOLLOWS) | (u - t + j);
    }
    Raw4(dst + 4ul * u).v = link;
#elif MODE == 3
    uint line = wg, first = line * per_line, place0 = line * places;
    if (first >= total) return;
    for (uint p = t; p < places; p += WG) last[p] = 0u;
    barrier();
    for (uint j = t; j < per_line; j += WG) {
        uint key = key_of(first + j);
        if (key != DROPPED) atomicMax(last[key - place0], j + 1u);
    }
    barrier();
    for (uint j = t; j < per_line; j += WG) {
        uint key = key_of(first + j);
        if (key == DROPPED || last[key - place0] != j + 1u) continue;
        A_C x = a_load(updates + uint64_t(first + j) * A_SIZE);
        b_store(at(dst, int64_t(key) * step, A_SIZE), x);
    }
#else
    uint u = wg * WG + t;
    if (u >= total) return;
    uint key = key_of(u);
#if MODE == 0 && defined(SHORT)
    Raw2(dst + 2ul * u).v = uint16_t(key & 0xffffu);
#elif MODE == 0
    Raw4(dst + 4ul * u).v = key;
#else
    if (key != DROPPED) atomicMax(Raw4(dst + 4ul * key).v, u + 1u);
#endif
#endif
}
