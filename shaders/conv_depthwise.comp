#version 460
// Convolution in which every input channel is a group: a thread sums RUN outputs along x for CHANNELS
// neighbouring output channels. Push: a is the input, b the kernel as (kernel elements, n output channels), d the
// output; m output positions, k kernel elements, lda output channels of an input channel.
// Defines: DTYPE, CHANNELS (V or 1), RUN, and those of lib/conv.glsl. Grid: blocks of 256 threads.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/matmul.glsl"
#include "lib/conv.glsl"
#include "lib/conv_channels.glsl"

layout(local_size_x = 256) in;

void main() {
    load_geometry();
    uint id = (gl_WorkGroupID.x + p.tile0) * 256 + gl_LocalInvocationIndex;
    uint blocks = (p.n + CHANNELS - 1) / CHANNELS;
    uint out_x = uint(GEO(out_x, 20)), runs = (out_x + RUN - 1) / RUN;
    uint channel = id % blocks * CHANNELS, run = id / blocks;
    uint line = run / runs, first = run % runs * RUN;
    if (line >= p.m / out_x) return;
    Site sites[RUN];
    [[unroll]] for (uint r = 0; r < RUN; r++) {
        uint x = first + r;
        sites[r] = x < out_x ? output_site(line * out_x + x) : nowhere();
    }
    float sums[RUN][CHANNELS];
    [[unroll]] for (uint r = 0; r < RUN; r++)
        [[unroll]] for (uint c = 0; c < CHANNELS; c++) sums[r][c] = 0;
    uint from = channel / p.lda;
    for (uint k = 0; k < p.k; k++) {
        Site tap = kernel_site(k);
        float w[CHANNELS] = channels_at(p.b, k * p.n + channel);
        [[unroll]] for (uint r = 0; r < RUN; r++) {
            if (inside(sites[r], tap)) {
                float x[CHANNELS] = channels_at(p.a, uint(sites[r].offset + tap.offset) + from);
                [[unroll]] for (uint c = 0; c < CHANNELS; c++) sums[r][c] = fma(x[c], w[c], sums[r][c]);
            }
        }
    }
    [[unroll]] for (uint r = 0; r < RUN; r++) {
        if (first + r < out_x) store_channels(p.d, result_row(line * out_x + first + r) + channel, sums[r]);
    }
}
