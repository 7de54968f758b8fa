#version 460
// Gradient of the kernel of a convolution in which every input channel is a group. A workgroup takes LANES blocks
// of CHANNELS output channels, TAPS kernel elements and a part of the output positions; it writes float32
// sums (part, output channel, kernel element) that are added up afterwards.
// Push: a is the input, b the cotangent of the output (m positions, ldb apart), d the sums; n output channels, k
// kernel elements, lda output channels of an input channel, k_split positions of a part.
// Defines: DTYPE, CHANNELS (V or 1), LANES, TAPS (1, 3, 4 or 5), and those of conv/conv.glsl. Grid: channels, parts, taps.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"
#include "conv/conv.glsl"
#include "conv/conv_channels.glsl"

#define ROWS (256 / LANES)

// As in lib/each.glsl, a list.
#if TAPS == 1
#define EACH_TAP(f) f(0)
#elif TAPS == 3
#define EACH_TAP(f) f(0) f(1) f(2)
#elif TAPS == 4
#define EACH_TAP(f) f(0) f(1) f(2) f(3)
#elif TAPS == 5
#define EACH_TAP(f) f(0) f(1) f(2) f(3) f(4)
#else
#error number of taps is not listed
#endif

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
    PACK sums[TAPS];
    [[unroll]] for (uint t = 0; t < TAPS; t++) {
        taps[t] = kernel_site(min(tap0 + t, p.k - 1));
        sums[t] = NOTHING;
    }
    if (live) {
        for (uint i = begin + row; i < end; i += ROWS) {
            Site o = output_site(i);
            PACK dy = channels_at(p.b, i * p.ldb + channel);
#define ADD(t) sums[t] += TIMES(channels_where(p.a, met(o, taps[t]), from), dy);
            EACH_TAP(ADD)
        }
    }
    uvec2 d = advance(p.d, gl_WorkGroupID.y, p.n * p.k, 2);
    [[unroll]] for (uint t = 0; t < TAPS; t++) {
        [[unroll]] for (uint c = 0; c < CHANNELS; c++)
            totals[gl_LocalInvocationIndex * CHANNELS + c] = channel_of(sums[t], c);
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
