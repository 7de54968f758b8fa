#version 460
// The largest and the smallest magnitude but zero of float32 rows, by stretches of K: bits of both for each stretch and row;
// of the smallest one less, so that rows of zeros have the largest number.
// Nothing is left of the block at a yet (parts/parts.glsl). Push: c is the operand (strides c_rs of rows, c_cs along K, one
// of which is 1 or meets an axis of one), m rows of k, d the result. Defines: ALONG where K is contiguous, STRETCH. Grid: blocks of rows (8 ALONG, else 32), stretches.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define DTYPE 0
#include "matmul/matmul.glsl"
#include "parts/parts.glsl"

layout(local_size_x = 256) in;

#ifdef ALONG
#define ROWS 8
#define LANES 32
#else
#define ROWS 32
#define LANES 8
#endif

shared uvec2 found[256];

void main() {
    uint self = gl_LocalInvocationIndex;
#ifdef ALONG
    uint r = self / LANES, lane = self % LANES;
#else
    uint r = self % ROWS, lane = self / ROWS;
#endif
    uint row = (gl_WorkGroupID.x + p.tile0) * ROWS + r;
    if (self == 0 && gl_WorkGroupID.x + p.tile0 == 0 && gl_WorkGroupID.y == 0) ANY_LEFT(p.a) = 0;
    uint end = min(p.k, (gl_WorkGroupID.y + 1) * STRETCH);
    uint largest = 0, smallest = 0xffffffffu;
    if (row < p.m) {
        uint from = row * p.c_rs;
        [[dont_unroll]] for (uint k = gl_WorkGroupID.y * STRETCH + lane; k < end; k += 8 * LANES) {
            [[unroll]] for (uint i = 0; i < 8; i++) {
                // What comes again changes nothing.
                uint at = k + i * LANES < end ? k + i * LANES : k;
                uint bits = Words(p.c).v[from + at * p.c_cs] & 0x7fffffffu;
                largest = max(largest, bits);
                smallest = min(smallest, bits - 1);
            }
        }
    }
    found[r * LANES + lane] = uvec2(largest, smallest);
    barrier();
    [[unroll]] for (uint n = LANES / 2; n > 0; n /= 2) {
        if (lane < n) {
            uvec2 other = found[r * LANES + lane + n], own = found[r * LANES + lane];
            found[r * LANES + lane] = uvec2(max(own.x, other.x), min(own.y, other.y));
        }
        barrier();
    }
    if (lane == 0 && row < p.m) Pairs(p.d).v[gl_WorkGroupID.y * p.m + row] = found[r * LANES];
}
