#version 460
// Convolution in which every input channel is a group: a thread sums four outputs along x for CHANNELS
// neighbouring output channels. Push: a is the input, b the kernel as (kernel elements, n output channels), d the
// output; m output positions, k kernel elements, lda output channels of an input channel.
// Defines: DTYPE, CHANNELS (V or 1), and those of conv/conv.glsl. Grid: blocks of 256 threads.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"
#include "conv/conv.glsl"
#include "conv/conv_channels.glsl"

layout(local_size_x = 256) in;

void main() {
    load_geometry();
    uint id = (gl_WorkGroupID.x + p.tile0) * 256 + gl_LocalInvocationIndex;
    uint blocks = (p.n + CHANNELS - 1) / CHANNELS;
    uint out_x = uint(GEO(out_x, 20)), runs = (out_x + 3) / 4;
    uint channel = id % blocks * CHANNELS, run = id / blocks;
    uint line = run / runs, first = run % runs * 4;
    if (line >= p.m / out_x) return;
    uint row = line * out_x + first;
    Site o = output_site(row);
    // The site of the output so many further on along x.
#define AFTER(s, i) moved(s, i * GEO(stride_x, 8))
    PACK sum0 = NOTHING, sum1 = NOTHING, sum2 = NOTHING, sum3 = NOTHING;
    uint from = channel / p.lda;
    for (uint k = 0; k < p.k; k++) {
        Site s = met(o, kernel_site(k));
        PACK w = channels_at(p.b, k * p.n + channel);
        sum0 += TIMES(channels_where(p.a, s, from), w);
        sum1 += TIMES(channels_where(p.a, AFTER(s, 1), from), w);
        sum2 += TIMES(channels_where(p.a, AFTER(s, 2), from), w);
        sum3 += TIMES(channels_where(p.a, AFTER(s, 3), from), w);
    }
    store_channels(p.d, result_row(row) + channel, sum0);
    if (first + 1 < out_x) store_channels(p.d, result_row(row + 1) + channel, sum1);
    if (first + 2 < out_x) store_channels(p.d, result_row(row + 2) + channel, sum2);
    if (first + 3 < out_x) store_channels(p.d, result_row(row + 3) + channel, sum3);
}
