#version 460
// Gradient of the kernel of a convolution in which every input channel is a group. A workgroup takes LANES blocks
// of CHANNELS output channels, TAPS kernel elements and a part of the output positions; it writes float32
// sums (part, output channel, kernel element) that are added up afterwards.
// Push: a is the input, b the cotangent of the output (m positions, ldb apart), d the sums; n output channels, k
// kernel elements, lda output channels of an input channel, k_split positions of a part.
// Defines: DTYPE, CHANNELS (V or 1), LANES, TAPS, and those of lib/conv.glsl. Grid: channels, parts, taps.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/matmul.glsl"
#include "lib/conv.glsl"
#include "lib/conv_channels.glsl"

#define ROWS (256 / LANES)
layout(local_size_x = 256) in;

shared float totals[256 * CHANNELS];

void main() {
    load_geometry();
    uint lane = gl_LocalInvocationIndex % LANES, row = gl_LocalInvocationIndex / LANES;
    uint channel = ((gl_WorkGroupID.x + p.tile0) * LANES + lane) * CHANNELS;
    uint tap0 = (gl_WorkGroupID.z + p.batch0) * TAPS;
    uint begin = gl_WorkGroupID.y * p.k_split, end = min(p.m, begin + p.k_split);
    bool live = channel < p.n;
    uint from = channel / p.lda;
    Site taps[TAPS];
    [[unroll]] for (uint t = 0; t < TAPS; t++) taps[t] = tap0 + t < p.k ? kernel_site(tap0 + t) : nowhere();
    float sums[TAPS][CHANNELS];
    [[unroll]] for (uint t = 0; t < TAPS; t++)
        [[unroll]] for (uint c = 0; c < CHANNELS; c++) sums[t][c] = 0;
    if (live) {
        for (uint i = begin + row; i < end; i += ROWS) {
            Site o = output_site(i);
            float dy[CHANNELS] = channels_at(p.b, i * p.ldb + channel);
            [[unroll]] for (uint t = 0; t < TAPS; t++) {
                if (inside(o, taps[t])) {
                    float x[CHANNELS] = channels_at(p.a, uint(o.offset + taps[t].offset) + from);
                    [[unroll]] for (uint c = 0; c < CHANNELS; c++) sums[t][c] = fma(x[c], dy[c], sums[t][c]);
                }
            }
        }
    }
    uvec2 d = advance(p.d, gl_WorkGroupID.y, p.n * p.k, 2);
    [[unroll]] for (uint t = 0; t < TAPS; t++) {
        [[unroll]] for (uint c = 0; c < CHANNELS; c++) totals[gl_LocalInvocationIndex * CHANNELS + c] = sums[t][c];
        barrier();
        for (uint half_ = ROWS / 2; half_ > 0; half_ /= 2) {
            if (row < half_) {
                [[unroll]] for (uint c = 0; c < CHANNELS; c++)
                    totals[gl_LocalInvocationIndex * CHANNELS + c] +=
                        totals[(gl_LocalInvocationIndex + half_ * LANES) * CHANNELS + c];
            }
            barrier();
        }
        if (row == 0 && live && tap0 + t < p.k) {
            [[unroll]] for (uint c = 0; c < CHANNELS; c++)
                Floats(d).v[(channel + c) * p.k + tap0 + t] = totals[lane * CHANNELS + c];
        }
        barrier();
    }
}
