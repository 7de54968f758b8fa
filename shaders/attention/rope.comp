#version 460
// Rotary embedding of (batch, heads, positions, features). A thread turns one unit of a position for HEADS heads,
// so that sines and cosines are computed once for them: with VEC a vector of V features and the one that is half of
// the rotated features apart, or (TRADITIONAL) a vector of V / 2 pairs; without VEC one pair. Units past the rotated
// features are copied. Angles per position come from a table; with WAVES it holds wavelengths.
#include "lib/float_controls.glsl"
#include "lib/codecs.glsl"
#include "lib/math.glsl"
layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, table, starts;
    int64_t sb, sh, st, sd, tstep, ostep;
    uint batch, heads, positions, features, rotated;
    int start;
    float scale, sign;
};

#ifdef VEC
const uint V = A_VEC;
#define CHUNK uvec4
CHUNK chunk(uint64_t p, uint i) { return Vec16(p + uint64_t(i) * A_SIZE).v; }
float elem(CHUNK c, uint k) { return a_elem(c, k); }
void write(uint64_t q, uint i, float x[V]) { Vec16(q + uint64_t(i) * B_SIZE).v = b_vector(x); }
#else
const uint V = 1u;
#define CHUNK float
CHUNK chunk(uint64_t p, uint i) { return a_load(at(p, int64_t(i) * sd, A_SIZE)); }
float elem(CHUNK c, uint k) { return c; }
void write(uint64_t q, uint i, float x[V]) { b_store(q + uint64_t(i) * B_SIZE, x[0]); }
#endif

#if defined(TRADITIONAL) && defined(VEC)
const uint PAIRS = V / 2u;
#else
const uint PAIRS = V;
#endif
#include "attention/rope.glsl"

void main() {
    uint64_t id = (uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256ul
        + gl_LocalInvocationIndex;
    uint pairs = rotated / 2u, turns = pairs / PAIRS, units = turns + (features - rotated) / V;
    uint blocks = (heads + HEADS - 1u) / HEADS;
    if (id >= uint64_t(batch) * blocks * positions * units) return;
    uint64_t line = id / units;
    uint u = uint(id - line * units), t = uint(line % positions);
    line /= positions;
    uint h0 = uint(line % blocks) * HEADS, b = uint(line / blocks);
    uint64_t p = at(src, int64_t(b) * sb + int64_t(h0) * sh + int64_t(t) * st, A_SIZE);
    uint64_t q = dst + ((uint64_t(b) * heads + h0) * positions + t) * features * B_SIZE;
    uint64_t pstep = uint64_t(sh * int64_t(A_SIZE)), qstep = uint64_t(positions) * features * B_SIZE;
    uint live = min(HEADS, heads - h0);
    if (u >= turns) {
        uint i = rotated + (u - turns) * V;
        [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
            if (h < live) {
                CHUNK c = chunk(p + h * pstep, i);
                float x[V];
                [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = elem(c, k);
                write(q + h * qstep, i, x);
            }
        }
        return;
    }
#ifdef TRADITIONAL
    uint i0 = u * PAIRS * 2u, i1 = i0 + 1u;
#else
    uint i0 = u * PAIRS, i1 = i0 + pairs;
#endif
    CHUNK c0[HEADS], c1[HEADS];
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        uint64_t row = p + min(h, live - 1u) * pstep;
        c0[h] = chunk(row, i0);
#if !(defined(TRADITIONAL) && defined(VEC))
        c1[h] = chunk(row, i1);
#endif
    }
    int first = start;
    if (starts != 0ul) first = Int(starts + uint64_t(int64_t(b) * ostep * 4l)).v;
    precise float position = float(first + int(t)) * scale;
    vec2 by[PAIRS];
    [[unroll]] for (uint k = 0u; k < PAIRS; ++k) by[k] = turn(u * PAIRS + k, position);
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        if (h < live) {
            float x[V], y[V];
#if defined(TRADITIONAL) && defined(VEC)
            [[unroll]] for (uint k = 0u; k < PAIRS; ++k) {
                vec2 z = turn_pair(vec2(elem(c0[h], 2u * k), elem(c0[h], 2u * k + 1u)), by[k]);
                x[2u * k] = z.x;
                x[2u * k + 1u] = z.y;
            }
            write(q + h * qstep, i0, x);
#else
            [[unroll]] for (uint k = 0u; k < V; ++k) {
                vec2 z = turn_pair(vec2(elem(c0[h], k), elem(c1[h], k)), by[k]);
                x[k] = z.x;
                y[k] = z.y;
            }
            write(q + h * qstep, i0, x);
            write(q + h * qstep, i1, y);
#endif
        }
    }
}
