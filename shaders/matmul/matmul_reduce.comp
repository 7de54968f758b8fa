#version 460
// Adds the float32 partial sums of a split-K product in a fixed order, applies the epilogue and rounds.
// Push: a holds the sums (batch, splits, m, n), d (d_rs, d_cs), k_split the number of splits.
// Defines: DTYPE, ADDMM, FUSED. Grid: blocks of m * n, 1, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"

layout(local_size_x = 256) in;

void main() {
    uint i = (gl_WorkGroupID.x + p.tile0) * 256 + gl_LocalInvocationIndex;
    uint size = p.m * p.n;
    if (i >= size) return;
    uint batch = gl_WorkGroupID.z + p.batch0;
    Floats sums = Floats(advance(p.a, batch * p.k_split, size, 2));
    float total = 0;
    for (uint s = 0; s < p.k_split; s++) total += sums.v[s * size + i];
    uvec2 addend = begin_epilogue(batch);
    uint row = i / p.n, col = i % p.n;
    store_element(batch_d(batch), row * p.d_rs + col * p.d_cs, epilogue(total, addend, row, col));
}
