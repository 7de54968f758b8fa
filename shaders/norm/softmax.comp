#version 460
// Softmax (or, with LSE, log of the sum of exponentials) over the last axis, accumulated in float. PARTS stores what LSE
// adds up: the row's maximum, and the logarithm of the sum of exponentials above it. LESS, with LSE, stores the row less
// that logarithm, which is rounded to the dtype first.
// MODE 0 keeps the row in registers: NV vectors a lane, TPR lanes a row, read once and written once; with RAW as they are.
// MODE 1 walks longer rows twice, the first time with a running maximum and rescaled sum, NV vectors of a lane at a time.
// With SPLIT it is one of the walks over a part of a row, of which there are `parts`: the first leaves the part's maximum and
// sum, and with LAST whoever comes last joins these for the row; the second (JOINED) begins with joining them.
// VEC reads and writes 16 bytes at a time, with SHIFTED from rows that begin anywhere (and are written where they begin
// alike). A row whose maximum is infinite gives NaN (softmax) or that maximum (LSE), one with NaN gives NaN.
#include "lib/codecs.glsl"
#include "lib/expf.glsl"
#ifdef LAST
#include "lib/last.glsl"
#endif
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
#ifdef SPLIT
    uint64_t pairs, counters;  // a maximum and a sum for each part; LAST: a zero for each row, left zero
#endif
    uint rows, n, nk;
#ifdef SPLIT
    uint parts, chunk;  // vectors of a part, some rounds of all lanes
#endif
};

#define ACC float
bool summing;
float comb(float a, float b) { return summing ? a + b : max(a, b); }
#ifdef SG
float sg_xor(float v, uint m) { return subgroupShuffleXor(v, m); }
#endif
#include "lib/group.glsl"

#if B_SIZE == 2
// Results of 16 bits do not show what the instruction leaves off; not every driver takes infinities.
float exp_below(float x) { return x < -104.0 ? 0.0 : exp2(x * 1.44269504088896341); }
#else
#define exp_below exp_f32
#endif

#define NEG_INF uintBitsToFloat(0xff800000u)
#ifdef VEC
const uint V = A_VEC;
#else
const uint V = 1u;
#endif

float at_index(uint64_t p, uint i) { return a_load(at(p, int64_t(i) * stride, A_SIZE)); }

#ifdef SHIFTED
// Vectors are those of memory: the first one of a row may begin with so many elements of what lies before it.
uint lead;
#else
const uint lead = 0u;
#endif

// Position of vector i, and whether all of it belongs to the row.
int first_of(uint i) { return int(i * V) - int(lead); }
bool whole(int first) { return first >= 0 && uint(first) + V <= n; }

// The V elements of vector i of the row, -inf outside it.
void read(uint64_t p, uint i, out float x[V]) {
#ifdef VEC
    int first = first_of(i);
    [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = NEG_INF;
    if (whole(first)) {
        uvec4 v = Vec16(p + uint64_t(first) * A_SIZE).v;
        [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = a_elem(v, k);
    } else {
        [[unroll]] for (int k = 0; k < int(V); ++k)
            if (first + k >= 0 && first + k < int(n)) x[k] = at_index(p, uint(first + k));
    }
#else
    x[0] = i < n ? at_index(p, i) : NEG_INF;
#endif
}

#ifdef RAW
// The same without looking at them.
uvec4 read_raw(uint64_t p, uint i) {
    int first = first_of(i);
    if (whole(first)) return Vec16(p + uint64_t(first) * A_SIZE).v;
    uvec4 v = uvec4(A_ENC(NEG_INF) * 0x10001u);
    [[unroll]] for (int k = 0; k < int(V); ++k)
        if (first + k >= 0 && first + k < int(n))
            v[k >> 1] = bitfieldInsert(v[k >> 1], a_bits(p + uint64_t(first + k) * A_SIZE), 16 * (k & 1), 16);
    return v;
}
#endif

#if !defined LSE || defined LESS
void write(uint64_t q, uint i, float x[V]) {
#ifdef VEC
    int first = first_of(i);
    if (whole(first)) {
        Vec16(q + uint64_t(first) * B_SIZE).v = b_vector(x);
    } else {
        [[unroll]] for (int k = 0; k < int(V); ++k)
            if (first + k >= 0 && first + k < int(n)) b_store(q + uint64_t(first + k) * B_SIZE, x[k]);
    }
#else
    if (i < n) b_store(q + uint64_t(i) * B_SIZE, x[0]);
#endif
}
#endif

// The difference to a row's maximum `m` that its elements are summed by; with LSE, NaN stands for nothing but NaN.
float below(float x, float m) {
#ifdef LSE
    float d = x - (isinf(m) ? 0.0 : m);
    return is_nan(d) ? d : min(d, 0.0);
#else
    return x - m;
#endif
}

float above(float m, float s) { return is_nan(s) ? s : isinf(m) ? m : log_f32(s); }

float lse_of(float m, float s) {
    float l = above(m, s);
    return isinf(m) ? l : m + l;
}

void write_lse(uint row, float m, float s) {
#ifdef PARTS
    b_store(dst + uint64_t(row) * 2ul * B_SIZE, m);
    b_store(dst + (uint64_t(row) * 2ul + 1ul) * B_SIZE, above(m, s));
#else
    b_store(dst + uint64_t(row) * B_SIZE, lse_of(m, s));
#endif
}

// What every result of a row takes, and a result of an exponential, or with LESS of an element.
#ifdef LESS
float factor(float m, float s) { return A_DEC(B_ENC(lse_of(m, s))); }
float result(float x, float f) { return x - f; }
#else
float factor(float m, float s) { return 1.0 / s; }
float result(float e, float f) { return e * f; }
#endif

// The maximum of a row's lanes, and the sum that goes with it, of those of each lane.
void join_lanes(inout float m, inout float s, uint lane) {
    summing = false;
    float top = group_reduce(m, lane);
    if (m != top) s *= exp_below(m - top);
    summing = true;
    s = group_reduce(s, lane);
    m = top;
}

#ifdef SPLIT
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Pair { vec2 v; };

// The maximum and the sum of a row from those of its parts.
vec2 join_parts(uint row, uint lane) {
    float m = NEG_INF, s = 0.0;
    for (uint i = lane; i < parts; i += WG) {
        vec2 part = Pair(pairs + 8ul * (uint64_t(row) * parts + i)).v;
        float top = max(m, part.x), base = top == NEG_INF ? 0.0 : top;
        s = s * exp_below(below(m, base)) + part.y * exp_below(below(part.x, base));
        m = top;
    }
    join_lanes(m, s, lane);
    return vec2(m, s);
}
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = lane_id();
#ifdef SPLIT
    uint t = lane, row = wg / parts, part = wg - row * parts;
#else
    uint t = lane % TPR, row = wg * (WG / TPR) + lane / TPR;
#endif
    bool live = row < rows;
    uint64_t p = at(src, row_offset(dims, nk, min(row, rows - 1u)), A_SIZE);
    uint64_t q = dst + uint64_t(row) * n * B_SIZE;
#ifdef SHIFTED
    lead = uint(p & 15ul) / A_SIZE;
#endif
#ifdef RAW
    uvec4 raw[NV];
    float m = NEG_INF, s = 0.0;
    [[unroll]] for (uint j = 0u; j < NV; ++j) raw[j] = read_raw(p, t + j * TPR);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) m = max(m, a_elem(raw[j], k));
    summing = false;
    m = group_reduce(m, lane);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) s += exp_below(below(a_elem(raw[j], k), m));
    summing = true;
    s = group_reduce(s, lane);
    float f = factor(m, s);
    if (live) {
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            float y[V];
            [[unroll]] for (uint k = 0u; k < V; ++k) {
#ifdef LESS
                y[k] = result(a_elem(raw[j], k), f);
#else
                y[k] = result(exp_below(below(a_elem(raw[j], k), m)), f);
#endif
            }
            write(q, t + j * TPR, y);
        }
    }
#elif MODE == 0
    float x[NV][V], m = NEG_INF, s = 0.0;
    [[unroll]] for (uint j = 0u; j < NV; ++j) read(p, t + j * TPR, x[j]);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) m = max(m, x[j][k]);
    summing = false;
    m = group_reduce(m, lane);
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        [[unroll]] for (uint k = 0u; k < V; ++k) {
            float e = exp_below(below(x[j][k], m));
            s += e;
#ifndef LESS
            x[j][k] = e;
#endif
        }
    summing = true;
    s = group_reduce(s, lane);
#if defined LSE && !defined LESS
    if (live && t == 0u) write_lse(row, m, s);
#else
    float f = factor(m, s);
    if (live) {
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            [[unroll]] for (uint k = 0u; k < V; ++k) x[j][k] = result(x[j][k], f);
            write(q, t + j * TPR, x[j]);
        }
    }
#endif
#else
    float x[NV][V], m = NEG_INF, s = 0.0;
    uint vectors = (n + lead + V - 1u) / V, first = t;
#ifdef SPLIT
    first += part * chunk;
    vectors = min(vectors, (part + 1u) * chunk);
#endif
#ifdef JOINED
    vec2 both = join_parts(min(row, rows - 1u), lane);
    m = both.x;
    s = both.y;
#else
    for (uint i = first; i < vectors; i += NV * TPR) {
        float top = m;
        [[unroll]] for (uint j = 0u; j < NV; ++j) read(p, i + j * TPR, x[j]);
        [[unroll]] for (uint j = 0u; j < NV; ++j)
            [[unroll]] for (uint k = 0u; k < V; ++k) top = max(top, x[j][k]);
        float base = top == NEG_INF ? 0.0 : top;
        s *= exp_below(below(m, base));
        [[unroll]] for (uint j = 0u; j < NV; ++j)
            [[unroll]] for (uint k = 0u; k < V; ++k) s += exp_below(below(x[j][k], base));
        m = top;
    }
    join_lanes(m, s, lane);
#endif
#if defined SPLIT && !defined JOINED
    if (live && t == 0u) Pair(pairs + 8ul * (uint64_t(row) * parts + part)).v = vec2(m, s);
#ifdef LAST
    if (!comes_last(counters + 4ul * row, parts, live)) return;
    vec2 both = join_parts(row, lane);
    if (t == 0u) write_lse(row, both.x, both.y);
#endif
#elif defined LSE && !defined LESS
    if (live && t == 0u) write_lse(row, m, s);
#else
    float f = factor(m, s);
    if (live) {
        for (uint i = first; i < vectors; i += NV * TPR) {
            [[unroll]] for (uint j = 0u; j < NV; ++j) read(p, i + j * TPR, x[j]);
            [[unroll]] for (uint j = 0u; j < NV; ++j) {
                [[unroll]] for (uint k = 0u; k < V; ++k) {
#ifndef LESS
                    x[j][k] = exp_below(x[j][k] - m);
#endif
                    x[j][k] = result(x[j][k], f);
                }
                write(q, i + j * TPR, x[j]);
            }
        }
    }
#endif
#endif
}
