#version 460
// The gated delta rule, step by step: TPR lanes hold a row of a state, one of its value features by all key features,
// E each. What it recalls, what it would answer and the product of key and query are summed together, so that a
// step has one reduction. All operands are contiguous floats. Defines: E, WIDE (a gate for each key feature), MASK.
#include "lib/codecs.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 32u;

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, gate, beta, before, mask, dst, after;
    uint rows, steps, hk, hv, dk, dv;
};

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Float { float v; };

#define ACC vec3
vec3 comb(vec3 a, vec3 b) { return a + b; }
#ifdef SG
vec3 sg_xor(vec3 v, uint m) { return subgroupShuffleXor(v, m); }
#endif
#include "lib/group.glsl"

float get(uint64_t base, uint64_t i) { return Float(base + 4ul * i).v; }

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = lane_id();
    uint t = lane % TPR, row = wg * (WG / TPR) + lane / TPR;
    bool live = row < rows;
    row = min(row, rows - 1u);
    uint d = row % dv, h = row / dv % hv, b = row / dv / hv, hq = h / (hv / hk);
    float s[E];
    [[unroll]] for (uint j = 0u; j < E; ++j) {
        uint i = t + j * TPR;
        s[j] = i < dk ? get(before, uint64_t(row) * dk + i) : 0.0;
    }
    for (uint n = 0u; n < steps; ++n) {
        uint64_t step = uint64_t(b) * steps + n, at = (step * hk + hq) * dk, head = step * hv + h;
        float x[E], y[E], kept[E];
        vec3 sums = vec3(0.0);
        [[unroll]] for (uint j = 0u; j < E; ++j) {
            uint i = t + j * TPR;
            bool there = i < dk;
            x[j] = there ? get(k, at + i) : 0.0;
            y[j] = there ? get(q, at + i) : 0.0;
#ifdef WIDE
            kept[j] = there ? s[j] * get(gate, head * dk + i) : 0.0;
#else
            kept[j] = s[j] * get(gate, head);
#endif
            sums += vec3(kept[j] * x[j], kept[j] * y[j], x[j] * y[j]);
        }
        sums = group_reduce(sums, lane);
        float fresh = (get(v, head * dv + d) - sums.x) * get(beta, head);
        bool on = true;
#ifdef MASK
        on = uint(Raw1(mask + step).v) != 0u;
#endif
        if (on)
            [[unroll]] for (uint j = 0u; j < E; ++j) s[j] = fma(fresh, x[j], kept[j]);
        if (live && t == 0u) Float(dst + 4ul * (head * dv + d)).v = on ? fma(fresh, sums.z, sums.y) : 0.0;
    }
    if (live)
        [[unroll]] for (uint j = 0u; j < E; ++j) {
            uint i = t + j * TPR;
            if (i < dk) Float(after + 4ul * (uint64_t(row) * dk + i)).v = s[j];
        }
}
