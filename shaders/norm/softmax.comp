#version 460
// Softmax (or, with LSE, log of the sum of exponentials) over the last axis, accumulated in float. PARTS stores what LSE
// adds up: the row's maximum, and the logarithm of the sum of exponentials above it.
// MODE 0 keeps the row in registers: NV vectors a lane, TPR lanes a row, read once and written once.
// MODE 1 walks longer rows twice, the first time with a running maximum and rescaled sum.
// A row whose maximum is infinite gives NaN (softmax) or that maximum (LSE), one with NaN gives NaN.
#include "lib/codecs.glsl"
#include "lib/expf.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;
    int64_t stride;
    uint rows, n, nk;
};

#define ACC float
bool summing;
float comb(float a, float b) { return summing ? a + b : max(a, b); }
#ifdef SG
float sg_xor(float v, uint m) { return subgroupShuffleXor(v, m); }
#endif
#include "lib/group.glsl"

#define NEG_INF uintBitsToFloat(0xff800000u)
#ifdef VEC
const uint V = A_VEC;
#else
const uint V = 1u;
#endif

float at_index(uint64_t p, uint i) { return a_load(at(p, int64_t(i) * stride, A_SIZE)); }

// The V elements of vector i of the row, -inf past its end.
void read(uint64_t p, uint i, out float x[V]) {
#ifdef VEC
    [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = NEG_INF;
    if (i * V + V <= n) {
        uvec4 v = Vec16(p + 16ul * i).v;
        [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = a_elem(v, k);
    } else {
        [[unroll]] for (uint k = 0u; k < V; ++k) if (i * V + k < n) x[k] = at_index(p, i * V + k);
    }
#else
    x[0] = i < n ? at_index(p, i) : NEG_INF;
#endif
}

void write(uint64_t q, uint i, float x[V]) {
#ifdef VEC
    if (i * V + V <= n) {
        Vec16(q + 16ul * i).v = b_vector(x);
    } else {
        [[unroll]] for (uint k = 0u; k < V; ++k) if (i * V + k < n) b_store(q + uint64_t(i * V + k) * B_SIZE, x[k]);
    }
#else
    if (i < n) b_store(q + uint64_t(i) * B_SIZE, x[0]);
#endif
}

// The difference to a row's maximum `m` that its elements are summed by; with LSE, NaN stands for nothing but NaN.
float below(float x, float m) {
#ifdef LSE
    float d = x - (isinf(m) ? 0.0 : m);
    return is_nan(d) ? d : min(d, 0.0);
#else
    return x - m;
#endif
}

void write_lse(uint row, float m, float s) {
    float l = is_nan(s) ? s : isinf(m) ? m : log_f32(s);
#ifdef PARTS
    b_store(dst + uint64_t(row) * 2ul * B_SIZE, m);
    b_store(dst + (uint64_t(row) * 2ul + 1ul) * B_SIZE, l);
#else
    b_store(dst + uint64_t(row) * B_SIZE, isinf(m) ? l : m + l);
#endif
}

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = lane_id();
    uint t = lane % TPR, row = wg * (WG / TPR) + lane / TPR;
    bool live = row < rows;
    uint64_t p = at(src, offset_of(dims, 0u, nk, min(row, rows - 1u)), A_SIZE);
    uint64_t q = dst + uint64_t(row) * n * B_SIZE;
#if MODE == 0
    float x[NV][V], m = NEG_INF, s = 0.0;
    [[unroll]] for (uint j = 0u; j < NV; ++j) read(p, t + j * TPR, x[j]);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) m = max(m, x[j][k]);
    summing = false;
    m = group_reduce(m, lane);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) {
            x[j][k] = exp_f32(below(x[j][k], m));
            s += x[j][k];
        }
    summing = true;
    s = group_reduce(s, lane);
#ifdef LSE
    if (live && t == 0u) write_lse(row, m, s);
#else
    float f = 1.0 / s;
    if (live) {
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            [[unroll]] for (uint k = 0u; k < V; ++k) x[j][k] *= f;
            write(q, t + j * TPR, x[j]);
        }
    }
#endif
#else
    float x[4][V], m = NEG_INF, s = 0.0;
    uint vectors = (n + V - 1u) / V;
    for (uint i = t; i < vectors; i += 4u * TPR) {
        float top = m;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) read(p, i + j * TPR, x[j]);
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            [[unroll]] for (uint k = 0u; k < V; ++k) top = max(top, x[j][k]);
        float base = top == NEG_INF ? 0.0 : top;
        s *= exp_f32(below(m, base));
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            [[unroll]] for (uint k = 0u; k < V; ++k) s += exp_f32(below(x[j][k], base));
        m = top;
    }
    summing = false;
    float top = group_reduce(m, lane);
    if (m != top) s *= exp_f32(m - top);
    summing = true;
    s = group_reduce(s, lane);
#ifdef LSE
    if (live && t == 0u) write_lse(row, top, s);
#else
    float f = 1.0 / s;
    if (live) {
        for (uint i = t; i < vectors; i += 4u * TPR) {
            [[unroll]] for (uint j = 0u; j < 4u; ++j) read(p, i + j * TPR, x[j]);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                [[unroll]] for (uint k = 0u; k < V; ++k) x[j][k] = exp_f32(x[j][k] - top) * f;
                write(q, i + j * TPR, x[j]);
            }
        }
    }
#endif
#endif
}
