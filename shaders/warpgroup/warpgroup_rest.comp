#version 460
// Tiles of rows behind the first `most` (warpgroup_runs.comp): there are none where picks are sorted, as was said. One result an
// invocation, by plain arithmetic.
// Defines: DTYPE; CODES where right matrices are codes of four bits with a scale and a bias for each GROUP. Grid: any.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/element.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uvec2 x, tiles, d, w, scales, biases;
    uint most, n, k;
    uint lda, ldb, ldd, lds;    // elements between rows of x, of a right matrix (words of codes), of the result, of scales
    uint step, scale_step;      // bytes between right matrices, and their scales
} p;

float nearest(float x) { return bits_to_float(float_to_bits(x)); }

void main() {
    uint all = Chunks(p.tiles).v[0].x;
    for (uint t = p.most + gl_WorkGroupID.x; t < all; t += gl_NumWorkGroups.x) {
        uvec4 tile = Chunks(p.tiles).v[1 + t];
        for (uint i = gl_LocalInvocationIndex; i < tile.z * p.n; i += 256) {
            uint row = tile.y + i / p.n, col = i % p.n;
            uvec2 x = advance(p.x, row, p.lda, 1);
#ifdef CODES
            uvec2 w = advance(advance(p.w, tile.x, p.step, 0), col, p.ldb, 2);
            uvec2 scales = advance(advance(p.scales, tile.x, p.scale_step, 0), col, p.lds, 1);
            uvec2 biases = advance(advance(p.biases, tile.x, p.scale_step, 0), col, p.lds, 1);
#else
            uvec2 w = advance(advance(p.w, tile.x, p.step, 0), col, p.ldb, 1);
#endif
            float sum = 0;
            for (uint k = 0; k < p.k; k++) {
#ifdef CODES
                float code = float(Words(w).v[k / 8] >> 4 * (k % 8) & 15u);
                float y = nearest(nearest(code * load_element(scales, k / GROUP)) + load_element(biases, k / GROUP));
#else
                float y = load_element(w, k);
#endif
                sum = fma(load_element(x, k), y, sum);
            }
            store_element(advance(p.d, row, p.ldd, 1), col, sum);
        }
    }
}
