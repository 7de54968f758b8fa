#version 460
// RMS or (CENTRED) layer normalisation of the last axis, accumulated in float and rounded once. Weight and bias
// have the dtype of the rows and are there with WEIGHT and BIAS; with ADDED rounded results are added to another array,
// whose rows lie one behind the other.
// MODE 0 keeps the row in registers: NV vectors a lane, TPR lanes a row, read once and written once.
// MODE 1 walks longer rows again for each sum and for the result.
// With VEC, rows and vectors are whole 16-byte vectors.
#include "lib/float_controls.glsl"
#include "lib/codecs.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, weight, bias, dims, added;
    int64_t stride, wstride, bstride;
    uint rows, n, nk;
    float eps;
};

#define ACC float
float comb(float a, float b) { return a + b; }
#ifdef SG
float sg_xor(float v, uint m) { return subgroupShuffleXor(v, m); }
#endif
#include "lib/group.glsl"

#ifdef VEC
const uint V = A_VEC;
#define CHUNK uvec4
CHUNK chunk(uint64_t p, int64_t step, uint i) { return Vec16(p + 16ul * i).v; }
float elem(CHUNK c, uint k) { return a_elem(c, k); }
#else
const uint V = 1u;
#define CHUNK float
CHUNK chunk(uint64_t p, int64_t step, uint i) { return a_load(at(p, int64_t(i) * step, A_SIZE)); }
float elem(CHUNK c, uint k) { return c; }
#endif

void write(uint64_t q, uint64_t r, uint i, float x[V], CHUNK w, CHUNK b, float inv) {
#ifdef ADDED
    CHUNK other = chunk(r, 1l, i);
#endif
    [[unroll]] for (uint k = 0u; k < V; ++k) {
        x[k] *= inv;
#ifdef WEIGHT
        x[k] *= elem(w, k);
#endif
#ifdef BIAS
        x[k] += elem(b, k);
#endif
#ifdef ADDED
        x[k] = A_DEC(B_ENC(x[k])) + elem(other, k);
#endif
    }
#ifdef VEC
    Vec16(q + 16ul * i).v = b_vector(x);
#else
    b_store(q + uint64_t(i) * B_SIZE, x[0]);
#endif
}

float inverse(float squares) {
    precise float power = squares / float(n), inv = 1.0 / sqrt(power + eps);
    return inv;
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = lane_id();
    uint t = lane % TPR, row = wg * (WG / TPR) + lane / TPR, vectors = n / V;
    bool live = row < rows;
    uint64_t p = at(src, row_offset(dims, nk, min(row, rows - 1u)), A_SIZE);
    uint64_t q = dst + uint64_t(row) * n * B_SIZE;
    uint64_t r = added + uint64_t(row) * n * B_SIZE;
    float s = 0.0, mean = 0.0;
#if MODE == 0
    CHUNK c[NV], w[NV], b[NV];
    float x[NV][V];
    [[unroll]] for (uint j = 0u; j < NV; ++j) {
        uint i = min(t + j * TPR, vectors - 1u);
        c[j] = chunk(p, stride, i);
#ifdef WEIGHT
        w[j] = chunk(weight, wstride, i);
#endif
#ifdef BIAS
        b[j] = chunk(bias, bstride, i);
#endif
    }
    [[unroll]] for (uint j = 0u; j < NV; ++j) {
        bool in_row = t + j * TPR < vectors;
        [[unroll]] for (uint k = 0u; k < V; ++k) {
            x[j][k] = in_row ? elem(c[j], k) : 0.0;
#ifdef CENTRED
            s += x[j][k];
#else
            s = fma(x[j][k], x[j][k], s);
#endif
        }
    }
    s = group_reduce(s, lane);
#ifdef CENTRED
    mean = s / float(n);
    s = 0.0;
    [[unroll]] for (uint j = 0u; j < NV; ++j) {
        bool in_row = t + j * TPR < vectors;
        [[unroll]] for (uint k = 0u; k < V; ++k) {
            x[j][k] = in_row ? x[j][k] - mean : 0.0;
            s = fma(x[j][k], x[j][k], s);
        }
    }
    s = group_reduce(s, lane);
#endif
    float inv = inverse(s);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        if (live && t + j * TPR < vectors) write(q, r, t + j * TPR, x[j], w[j], b[j], inv);
#else
#define EACH(BODY) \
    for (uint first = t; first < vectors; first += 4u * TPR) { \
        CHUNK c[4]; \
        [[unroll]] for (uint j = 0u; j < 4u; ++j) c[j] = chunk(p, stride, min(first + j * TPR, vectors - 1u)); \
        [[unroll]] for (uint j = 0u; j < 4u; ++j) { \
            uint i = first + j * TPR; \
            if (i < vectors) { BODY } \
        } \
    }
#ifdef CENTRED
    EACH([[unroll]] for (uint k = 0u; k < V; ++k) s += elem(c[j], k);)
    mean = group_reduce(s, lane) / float(n);
    s = 0.0;
#endif
    EACH([[unroll]] for (uint k = 0u; k < V; ++k) { float d = elem(c[j], k) - mean; s = fma(d, d, s); })
    float inv = inverse(group_reduce(s, lane));
    if (live) {
        EACH(
            float x[V];
            CHUNK w;
            CHUNK b;
            [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = elem(c[j], k) - mean;
            if (HAS_WEIGHT) w = chunk(weight, wstride, i);
            if (HAS_BIAS) b = chunk(bias, bstride, i);
            write(q, r, i, x, w, b, inv);
        )
    }
#endif
}
