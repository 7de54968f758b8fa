#version 460
// Complex product, 16 x 16 tiles of shared memory. Simple rather than fast.
// Defines: TA, TB, ADDMM. Grid: tiles, 1, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define DTYPE 3
#include "matmul/matmul.glsl"

layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Complexes { vec2 v[]; };

shared vec2 tile_a[16][17];
shared vec2 tile_b[16][17];

vec2 times(vec2 x, vec2 y) {
    return vec2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}

void main() {
    uint tiles_n = (p.n + 15) / 16;
    uint t = gl_WorkGroupID.x + p.tile0;
    uint tx = gl_LocalInvocationIndex % 16, ty = gl_LocalInvocationIndex / 16;
    uint row = t / tiles_n * 16 + ty, col = t % tiles_n * 16 + tx;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uint b0 = batch % p.nb0, b1 = batch / p.nb0;
    Complexes a = Complexes(advance(advance(p.a, b0, p.a_b0, 3), b1, p.a_b1, 3));
    Complexes b = Complexes(advance(advance(p.b, b0, p.b_b0, 3), b1, p.b_b1, 3));
    vec2 acc = vec2(0);
    for (uint k0 = 0; k0 < p.k; k0 += 16) {
        uint ka = k0 + tx, kb = k0 + ty;
        uint at_a = TA == 1 ? ka * p.lda + row : row * p.lda + ka;
        uint at_b = TB == 1 ? col * p.ldb + kb : kb * p.ldb + col;
        tile_a[ty][tx] = row < p.m && ka < p.k ? a.v[at_a] : vec2(0);
        tile_b[ty][tx] = kb < p.k && col < p.n ? b.v[at_b] : vec2(0);
        barrier();
        [[unroll]] for (uint k = 0; k < 16; k++) acc += times(tile_a[ty][k], tile_b[k][tx]);
        barrier();
    }
    if (row >= p.m || col >= p.n) return;
#ifdef ADDMM
    Complexes c = Complexes(advance(advance(p.c, b0, p.c_b0, 3), b1, p.c_b1, 3));
    acc *= p.alpha;
    if (p.beta != 0.0) acc += p.beta * c.v[row * p.c_rs + col * p.c_cs];
#endif
    Complexes(advance(p.d, batch, p.d_b, 3)).v[row * p.d_rs + col * p.d_cs] = acc;
}
