#version 460
// Input of a convolution to values (conv/winograd.glsl): a thread takes the 6 x 6 inputs of a tile of 4 x 4 outputs for
// WIDTH channels. Defines: WIDTH, LANES. Grid: blocks of LANES threads, channels fastest.
#extension GL_GOOGLE_include_directive : require
#include "conv/winograd.glsl"

layout(local_size_x = LANES) in;
layout(push_constant, scalar) uniform Push {
    uvec2 x, values;
    uint tiles, first;          // tiles of this dispatch, and the first of them
    uint tiles_y, tiles_x;      // tiles of an image
    uint size_y, size_x;        // of the input
    int low_y, low_x;           // zeros before it
    uint step, step_y, step_x;  // element strides of the input
    uint channels, ld;          // ld: elements between rows of the values
} p;

void main() {
    uint id = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * LANES + gl_LocalInvocationIndex;
    uint blocks = p.channels / WIDTH, tile = id / blocks, channel = id % blocks * WIDTH;
    if (tile >= p.tiles) return;
    uint q = (p.first + tile) / p.tiles_x;
    int from_x = int((p.first + tile) % p.tiles_x) * 4 - p.low_x;
    int from_y = int(q % p.tiles_y) * 4 - p.low_y;
    uint image = q / p.tiles_y * p.step + channel;

    PACK t[6][6];
    [[unroll]] for (uint j = 0; j < 6; j++) {
        uint x = uint(from_x + int(j));
        PACK d[6];
        [[unroll]] for (uint i = 0; i < 6; i++) {
            uint y = uint(from_y + int(i)), at = (image + y * p.step_y + x * p.step_x) / WIDTH;
            // Something is read outside the input too: no branch keeps loads from being in flight together.
            bool inside = all(lessThan(uvec2(x, y), uvec2(p.size_x, p.size_y)));
            PACK v = Packs(p.x).v[inside ? at : 0];
            d[i] = inside ? v : PACK(0);
        }
        values_of(d);
        [[unroll]] for (uint i = 0; i < 6; i++) t[i][j] = d[i];
    }
    [[unroll]] for (uint i = 0; i < 6; i++) {
        values_of(t[i]);
        [[unroll]] for (uint j = 0; j < 6; j++)
            Packs(p.values).v[(((i * 6 + j) * p.tiles + tile) * p.ld + channel) / WIDTH] = t[i][j];
    }
}
