#version 460
// Second pass of sdpa_vector.comp: joins the parts of a row. A workgroup takes a row.
#include "lib/elem.glsl"
layout(local_size_x = 128) in;
#include "lib/attention.glsl"

void main() {
    uint64_t line = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint heads = a.kv * a.group;
    if (line >= uint64_t(a.batch) * heads * a.l) return;
    uint width = a.dv + 2u;
    Floats p = Floats(a.parts + line * a.splits * width * 4ul);
    float extra = sink(uint((line / a.l) % heads)), most = extra;
    for (uint s = 0u; s < a.splits; ++s) most = max(most, p.v[s * width]);
    float base = finite(most), total = exp2(extra - base);
    for (uint s = 0u; s < a.splits; ++s) total += p.v[s * width + 1u] * exp2(p.v[s * width] - base);
    for (uint f = gl_LocalInvocationIndex; f < a.dv; f += 128u) {
        float x = 0.0;
        for (uint s = 0u; s < a.splits; ++s) x = fma(p.v[s * width + 2u + f], exp2(p.v[s * width] - base), x);
        b_store(a.dst + (line * a.dv + f) * B_SIZE, x / total);
    }
}
