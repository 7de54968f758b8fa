#version 460
// Sums of products of values to the outputs of a convolution (conv/winograd.glsl): a thread makes 4 x 4 outputs for
// WIDTH channels. Defines: WIDTH, LANES. Grid: blocks of LANES threads, channels fastest.
#extension GL_GOOGLE_include_directive : require
#include "conv/winograd.glsl"

layout(local_size_x = LANES) in;
layout(push_constant, scalar) uniform Push {
    uvec2 sums, y;
    uint tiles, first;          // tiles of this dispatch, and the first of them
    uint tiles_y, tiles_x;      // tiles of an image
    uint size_y, size_x;        // of the output
    uint step, step_y, step_x;  // element strides of the output
    uint channels, ld;          // ld: elements between rows of the sums
} p;

void main() {
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * LANES + gl_LocalInvocationIndex;
    uint blocks = p.channels / WIDTH, tile = id / blocks, channel = id % blocks * WIDTH;
    if (tile >= p.tiles) return;
    uint q = (p.first + tile) / p.tiles_x;
    uint x = (p.first + tile) % p.tiles_x * 4, y = q % p.tiles_y * 4;
    uint at = q / p.tiles_y * p.step + y * p.step_y + x * p.step_x + channel;

    PACK t[4][6];
    [[unroll]] for (uint j = 0; j < 6; j++) {
        PACK m[6];
        [[unroll]] for (uint i = 0; i < 6; i++)
            m[i] = Packs(p.sums).v[(((i * 6 + j) * p.tiles + tile) * p.ld + channel) / WIDTH];
        outputs_of(m);
        [[unroll]] for (uint i = 0; i < 4; i++) t[i][j] = m[i];
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        outputs_of(t[i]);
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (y + i < p.size_y && x + j < p.size_x)
                Packs(p.y).v[(at + i * p.step_y + j * p.step_x) / WIDTH] = t[i][j];
    }
}
