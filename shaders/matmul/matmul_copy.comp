#version 460
// Brings an operand into a form that a product kernel takes: (batch, m, n) with any strides becomes rows of
// d_rs >= n elements, the tail of each row zero. Also the beta * c of a product over nothing (SCALE).
// Push: c is the source (signed strides c_rs, c_cs, c_b0, c_b1), d the result (d_rs, d_b).
// Defines: DTYPE as in matmul/matmul.glsl, or 3 for complex64. Grid: blocks of m * d_rs, 1, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#if DTYPE == 3
#define COMPLEX
#endif
#include "matmul/matmul.glsl"

layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Complexes { uvec2 v[]; };

// The host puts the source's address at its lowest element; strides are signed and their sum is not negative.
void main() {
    uint i = (gl_WorkGroupID.x + p.tile0) * 256 + gl_LocalInvocationIndex;
    if (i >= p.m * p.d_rs) return;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uint row = i / p.d_rs, col = i % p.d_rs;
    uint from = batch % p.nb0 * p.c_b0 + batch / p.nb0 * p.c_b1 + row * p.c_rs + col * p.c_cs + p.flags;
#ifdef COMPLEX
    uvec2 d = advance(p.d, batch, p.d_b, 3);
    Complexes(d).v[i] = col < p.n ? Complexes(p.c).v[from] : uvec2(0);
#elif defined(SCALE)
    store_element(batch_d(batch), i, p.beta * load_element(p.c, from));
#elif DTYPE == 0
    Words(batch_d(batch)).v[i] = col < p.n ? load_bits(p.c, from) : 0;
#else
    Halves(batch_d(batch)).v[i] = uint16_t(col < p.n ? load_bits(p.c, from) : 0);
#endif
}
