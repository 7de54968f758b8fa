#version 460
// Tiles of rows behind the first `most` (warpgroup_runs.comp): there are none where picks are sorted, as was said. One result an
// invocation, by plain arithmetic.
// Defines: DTYPE. Grid: any.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/element.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uvec2 x, tiles, d;
    uint most, n, k;
    uint lda, ldb, ldd; // elements between rows of x, of a right matrix and of the result
} p;

void main() {
    uint all = Chunks(p.tiles).v[0].x;
    for (uint t = p.most + gl_WorkGroupID.x; t < all; t += gl_NumWorkGroups.x) {
        uvec4 tile = Chunks(p.tiles).v[1 + t];
        for (uint i = gl_LocalInvocationIndex; i < tile.w * p.n; i += 256) {
            uint row = tile.z + i / p.n, col = i % p.n;
            uvec2 x = advance(p.x, row, p.lda, 1), w = advance(tile.xy, col, p.ldb, 1);
            float sum = 0;
            for (uint k = 0; k < p.k; k++) sum = fma(load_element(x, k), load_element(w, k), sum);
            store_element(advance(p.d, row, p.ldd, 1), col, sum);
        }
    }
}
