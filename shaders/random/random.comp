#version 460
// Random bits, and floats made of them (FINISH): each lane runs four neighbouring counters of one key and writes the two
// runs of four words that they yield, 16 bytes at a time where the addresses allow. ONE: a single key of fewer than 2^30
// counters.
#include "lib/codecs.glsl"
#include "random/threefry.glsl"
#include "random/finish.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t keys, dst, dims, bytes, half_words, lanes;  // bytes and lanes a key
    int64_t key_stride;                                  // between the two words of a key
    uint num_keys, nk, odd;
};

void put(uint64_t base, uint64_t word, uint w) {
    uint64_t p = base + 4ul * word;
    uint left = uint(min(bytes - 4ul * word, 4ul));
    if (left == 4u && (p & 3ul) == 0ul) {
        Raw4(p).v = w;
    } else {
        for (uint k = 0u; k < left; ++k) Raw1(p + k).v = uint8_t((w >> (8u * k)) & 0xffu);
    }
}

void put4(uint64_t base, uint64_t word, uint count, uvec4 w) {
    uint64_t p = base + 4ul * word;
    if (count == 4u && (p & 15ul) == 0ul && 4ul * (word + 4ul) <= bytes) {
        Vec16(p).v = w;
    } else {
        for (uint k = 0u; k < count; ++k) put(base, word + k, w[k]);
    }
}

#ifdef ONE
void main() {
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    if (id >= uint(lanes)) return;
    uvec2 key = uvec2(Raw4(keys).v, Raw4(at(keys, key_stride, 4u)).v);
    uint c = 4u * id, half_n = uint(half_words), counters = half_n + odd;
    uvec4 lo, hi;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint a = c + j;
        uvec2 r = threefry(key, uvec2(a, a >= half_n ? 0u : a + counters));
        lo[j] = finish(r.x);
        hi[j] = finish(r.y);
    }
    uint64_t p = dst + 4ul * c, q = p + 4ul * counters;
    if ((uint(dst) & 15u) == 0u && (counters & 3u) == 0u && 4ul * (c + counters + 4u) <= bytes) {
        Vec16(p).v = lo;
        Vec16(q).v = hi;
    } else {
        put4(dst, c, min(4u, counters - c), lo);
        if (c < half_n) put4(dst, c + counters, min(4u, half_n - c), hi);
    }
}
#else
void main() {
    uint64_t id = uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    uint k = uint(id / lanes);
    uint64_t c = (id - k * lanes) * 4ul;
    if (k >= num_keys) return;
    uint64_t kp = at(keys, offset_of(dims, 0u, nk, k), 4u), base = dst + k * bytes;
    uvec2 key = uvec2(Raw4(kp).v, Raw4(at(kp, key_stride, 4u)).v);
    uint64_t counters = half_words + odd;
    uvec4 lo, hi;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint64_t a = c + j;
        bool last = odd == 1u && a == half_words;
        uvec2 r = threefry(key, uvec2(uint(a), last ? 0u : uint(a + counters)));
        lo[j] = finish(r.x);
        hi[j] = finish(r.y);
    }
    put4(base, c, uint(min(4ul, counters - c)), lo);
    if (c < half_words) put4(base, c + counters, uint(min(4ul, half_words - c)), hi);
}
#endif
