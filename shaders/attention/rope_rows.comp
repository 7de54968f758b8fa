#version 460
// Rotary embedding of the rows of arrays of (batch, heads, positions, FEATURES) by the same angles, the first DIMS features of
// them; with NORM rows that have weights are first normalised by the root of their mean square and rounded. Others are
// copied as they are. A workgroup has one row, and a lane of it pairs WG apart. For few rows: rope.comp reads and
// writes whole vectors, and computes the angles of several heads once.
#include "lib/float_controls.glsl"
#include "lib/codecs.glsl"
#include "lib/math.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 64u;
layout(constant_id = 1) const uint TPR = 1u; // lanes that sum up a row
layout(constant_id = 2) const uint FEATURES = 64u;
layout(constant_id = 3) const uint DIMS = 64u; // that are turned

struct Item {
    uint64_t src, dst, weight;
    int from[3], to[3]; // elements from one batch, head and position to the next
    uint heads, first;  // first row
    uint rotated, pad;
};
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Items { Item v[]; };

layout(push_constant, scalar) uniform Push {
    uint64_t items, table, starts;
    uint count, positions;
    int start, tstep, ostep;
    float scale, sign;
    float eps;
    uint features; // FEATURES; with eps not known to the compiler, so that norm.comp computes the same
};
#include "attention/rope.glsl"

#ifdef NORM
#define ACC float
float comb(float a, float b) { return a + b; }
#ifdef SG
float sg_xor(float v, uint mask) { return subgroupShuffleXor(v, mask); }
#endif
#include "lib/group.glsl"

// Sum of the squares of a row, in the order in which norm.comp adds them; every TPR lanes have all of it.
float squares(uint64_t p, uint lane) {
#ifdef VEC
    const uint V = A_VEC;
#else
    const uint V = 1u;
#endif
    float s = 0.0;
    [[unroll]] for (uint j = 0u; j < SUM_VECTORS; ++j) {
        uint i = lane % TPR + j * TPR;
        if (i < FEATURES / V) {
#ifdef VEC
            uvec4 c = Vec16(p + 16ul * i).v;
            [[unroll]] for (uint k = 0u; k < V; ++k) s = fma(a_elem(c, k), a_elem(c, k), s);
#else
            float x = a_load(p + uint64_t(i) * A_SIZE);
            s = fma(x, x, s);
#endif
        }
    }
    return group_reduce(s, lane);
}
#else
uint lane_id() { return gl_LocalInvocationIndex; }
#endif

float load(uint64_t p, uint i) { return a_load(p + uint64_t(i) * A_SIZE); }

#if A_SIZE == 2
void copy(uint64_t from, uint64_t to) { Raw2(to).v = Raw2(from).v; }
#else
void copy(uint64_t from, uint64_t to) { Raw4(to).v = Raw4(from).v; }
#endif

uint64_t place(uint64_t base, int step[3], uint b, uint h, uint t) {
    return at(base, int64_t(b) * step[0] + int64_t(h) * step[1] + int64_t(t) * step[2], A_SIZE);
}

void main() {
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, k = 0u, lane = lane_id();
    while (k + 1u < count && row >= Items(items).v[k + 1u].first) ++k;
    Item item = Items(items).v[k];
    row -= item.first;
    uint t = row % positions, h = row / positions % item.heads, b = row / positions / item.heads;
    uint64_t p = place(item.src, item.from, b, h, t), q = place(item.dst, item.to, b, h, t);
    const uint pairs = FEATURES / 2u, turned = DIMS / 2u;
    float x[PER_LANE], y[PER_LANE];
#ifdef TRADITIONAL
#define FIRST(i) (2u * (i))
#define SECOND(i) (2u * (i) + 1u)
#else
// Neighbours behind those that are turned.
#define FIRST(i) ((i) < turned ? (i) : 2u * (i))
#define SECOND(i) ((i) < turned ? (i) + turned : 2u * (i) + 1u)
#endif
    if (item.rotated == 0u) {
        for (uint i = lane; i < FEATURES; i += WG) copy(p + uint64_t(i) * A_SIZE, q + uint64_t(i) * A_SIZE);
        return;
    }
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        uint i = min(lane + j * WG, pairs - 1u);
        x[j] = load(p, FIRST(i));
        y[j] = load(p, SECOND(i));
    }
#ifdef NORM
    if (item.weight != 0ul) {
        precise float power = squares(p, lane) / float(features), root = 1.0 / sqrt(power + eps);
        [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
            uint i = min(lane + j * WG, pairs - 1u);
            x[j] = A_DEC(B_ENC(x[j] * root * load(item.weight, FIRST(i))));
            y[j] = A_DEC(B_ENC(y[j] * root * load(item.weight, SECOND(i))));
        }
    }
#endif
    int first = start;
    if (starts != 0ul) first = Int(starts + uint64_t(int64_t(b) * ostep * 4l)).v;
    precise float position = float(first + int(t)) * scale;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        uint i = lane + j * WG;
        if (i < pairs) {
            vec2 z = vec2(x[j], y[j]);
            if (i < turned) z = turn_pair(z, turn(i, position));
            b_store(q + uint64_t(FIRST(i)) * B_SIZE, z.x);
            b_store(q + uint64_t(SECOND(i)) * B_SIZE, z.y);
        }
    }
}
