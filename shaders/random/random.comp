#version 460
// Random bits, and floats made of them (FINISH 0 bits, 1 unit, 2 symmetric, 3 erfinv, 4 normal, as in
// src/kernels/random/draw.rs): each lane runs four neighbouring counters of one key and writes the two runs of four words
// that they yield, 16 bytes at a time where the addresses allow. ONE: a single key of fewer than 2^30 counters.
#include "lib/codecs.glsl"
#include "random/threefry.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t keys, dst, dims, bytes, half_words, lanes;  // bytes and lanes a key
    int64_t key_stride;                                  // between the two words of a key
    uint num_keys, nk, odd;
};

#if FINISH >= 3
// FACTOR times the inverse error function of x in (-1, 1), as m_erfinv in lib/math.glsl but with the device's
// logarithm: what that is off by is damped to less than 3 ULP.
#if FINISH == 4
#define FACTOR 1.41421353816986083984375
#else
#define FACTOR 1.0
#endif
float erfinv(float x) {
    // (1 - x) (1 + x) keeps what x * x would lose near one.
    precise float s = (1.0 - x) * (1.0 + x);
    float w = log2(s) * -0.693147180559945309;
    float u = w - 2.5;
    float p = fma(2.81022636e-8 * FACTOR, u, 3.43273939e-7 * FACTOR);
    p = fma(p, u, -3.5233877e-6 * FACTOR);
    p = fma(p, u, -4.39150654e-6 * FACTOR);
    p = fma(p, u, 2.1858087e-4 * FACTOR);
    p = fma(p, u, -1.25372503e-3 * FACTOR);
    p = fma(p, u, -4.17768164e-3 * FACTOR);
    p = fma(p, u, 2.46640727e-1 * FACTOR);
    p = fma(p, u, 1.50140941 * FACTOR);
    // One number of 300.
    [[dont_flatten]] if (w >= 5.0) {
        u = sqrt(w) - 3.0;
        p = fma(-2.00214257e-4 * FACTOR, u, 1.00950558e-4 * FACTOR);
        p = fma(p, u, 1.34934322e-3 * FACTOR);
        p = fma(p, u, -3.67342844e-3 * FACTOR);
        p = fma(p, u, 5.73950773e-3 * FACTOR);
        p = fma(p, u, -7.6224613e-3 * FACTOR);
        p = fma(p, u, 9.43887047e-3 * FACTOR);
        p = fma(p, u, 1.00167406 * FACTOR);
        p = fma(p, u, 2.83297682 * FACTOR);
    }
    return p * x;
}
#endif

uint finish(uint w) {
#if FINISH == 0
    return w;
#else
    const float below_one = 0.999999940395355225;
    precise float u = min(float(w) * 2.3283064365386962890625e-10, below_one);
#if FINISH >= 2
    // Doubling is exact, so that fused or not, there is one rounding.
    u = fma(2.0, u, -below_one);
#endif
#if FINISH >= 3
    u = erfinv(u);
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
