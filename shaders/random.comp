#version 460
// Random bits, and floats made of them (FINISH 0 bits, 1 unit, 2 symmetric, 3 erfinv, 4 normal, as in
// src/kernels/draw.rs): each lane runs four neighbouring counters of one key and writes the two runs of four words
// that they yield, 16 bytes at a time where the addresses allow.
#include "lib/elem.glsl"
#include "lib/threefry.glsl"
#if FINISH >= 3
#include "lib/math.glsl"
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t keys, dst, dims, bytes, half_words, lanes;  // bytes and lanes a key
    int64_t key_stride;                                  // between the two words of a key
    uint num_keys, nk, odd;
};

uint finish(uint w) {
#if FINISH == 0
    return w;
#else
    const float below_one = 0.999999940395355225;
    precise float u = min(float(w) * 2.3283064365386962890625e-10, below_one);
#if FINISH >= 2
    u = 2.0 * u - below_one;
#endif
#if FINISH >= 3
    u = m_erfinv(u);
#endif
#if FINISH == 4
    u = 1.41421353816986083984375 * u;
#endif
    return floatBitsToUint(u);
#endif
}

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

void main() {
    uint64_t id = uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WG + gl_LocalInvocationIndex;
    uint k;
    uint64_t c;
    if (num_keys == 1u) {
        k = 0u;
        c = id * 4ul;
        if (id >= lanes) return;
    } else {
        k = uint(id / lanes);
        c = (id - k * lanes) * 4ul;
        if (k >= num_keys) return;
    }
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
