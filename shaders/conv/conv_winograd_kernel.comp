#version 460
// Kernel of a convolution to values (conv/winograd.glsl), input channels by output channels for each. A workgroup reads
// 8 input channels of 32 output channels, as the kernel usually lies, and turns them round in shared memory.
#define WIDTH 1
#extension GL_GOOGLE_include_directive : require
#include "conv/winograd.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uvec2 w, values;
    uint inputs, outputs;
    uint step_o, step_y, step_x, step_c; // element strides of the kernel
    uint ld;                             // elements between rows of the values
    uint flip;                           // bit 0: mirrored along x; bit 1: along y
} p;

shared float part[9][8 * 33];

void main() {
    uint lane = gl_LocalInvocationIndex, c0 = gl_WorkGroupID.y * 8, o0 = gl_WorkGroupID.x * 32;
    uint c = lane % 8, o = lane / 8;
    uint at = min(o0 + o, p.outputs - 1) * p.step_o + min(c0 + c, p.inputs - 1) * p.step_c;
    [[unroll]] for (uint i = 0; i < 9; i++) {
        uint y = (p.flip & 2u) != 0 ? 2 - i / 3 : i / 3, x = (p.flip & 1u) != 0 ? 2 - i % 3 : i % 3;
        part[i][c * 33 + o] = Packs(p.w).v[at + y * p.step_y + x * p.step_x];
    }
    barrier();
    c = lane / 32;
    o = lane % 32;
    if (c0 + c >= p.inputs || o0 + o >= p.outputs) return;
    float t[3][6], u[6];
    [[unroll]] for (uint j = 0; j < 3; j++) {
        uint k = c * 33 + o;
        kernel_values(part[j][k], part[3 + j][k], part[6 + j][k], u);
        [[unroll]] for (uint i = 0; i < 6; i++) t[j][i] = u[i];
    }
    [[unroll]] for (uint i = 0; i < 6; i++) {
        kernel_values(t[0][i], t[1][i], t[2][i], u);
        [[unroll]] for (uint j = 0; j < 6; j++)
            Packs(p.values).v[((i * 6 + j) * p.inputs + c0 + c) * p.ld + o0 + o] = u[j];
    }
}
