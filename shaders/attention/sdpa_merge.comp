#version 460
// Second pass of sdpa_vector.comp: joins the parts of a row, at most 256. A workgroup takes a row.
#include "lib/codecs.glsl"
layout(local_size_x = 128) in;
#include "attention/attention.glsl"

const uint UNROLL = 16u;
shared float tops[256], sums[256];

void main() {
    uint64_t line = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint heads = a.kv * a.group, lane = gl_LocalInvocationIndex;
    if (line >= uint64_t(a.batch) * heads * a.l) return;
    uint width = a.dv + 2u;
    Floats p = Floats(a.parts + line * a.splits * width * 4ul);
    for (uint s = lane; s < 256u; s += 128u) {
        tops[s] = s < a.splits ? p.v[s * width] : NEG_INF;
        sums[s] = s < a.splits ? p.v[s * width + 1u] : 0.0;
    }
    barrier();
    float extra = sink(uint((line / a.l) % heads)), most = extra;
    // Past the last part there are neutral numbers.
    for (uint s = 0u; s < a.splits; s += UNROLL)
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) most = max(most, tops[s + u]);
    float base = finite(most), total = exp2(extra - base);
    for (uint s = 0u; s < a.splits; s += UNROLL)
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) total += sums[s + u] * exp2(tops[s + u] - base);
    barrier();
    // From here on `tops` holds the factors of the parts.
    for (uint s = lane; s < 256u; s += 128u) tops[s] = exp2(tops[s] - base);
    barrier();
    for (uint f = lane; f < a.dv; f += 128u) {
        float x = 0.0;
        for (uint first = 0u; first < a.splits; first += UNROLL) {
            float y[UNROLL];
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u) y[u] = p.v[min(first + u, a.splits - 1u) * width + 2u + f];
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
                if (first + u < a.splits) x = fma(y[u], tops[first + u], x);
        }
        b_store(a.dst + (line * a.dv + f) * B_SIZE, x / total);
    }
}
