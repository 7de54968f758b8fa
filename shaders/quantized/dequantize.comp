#version 460
// Values of codes: eight a thread. Products with the scale and sums with the bias are rounded to DTYPE one by one.
// Defines: DTYPE, MODE, BITS, GROUP. Rows follow each other without gaps, so one row of all codes is enough; the
// last axis is a multiple of 16. With PICKED rows are those of a table by indices of I_WORDS words (I_SIGNED: negative ones
// count from the end), others held inside it.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/element.glsl"
#include "quantized/quant.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uvec2 w, s, b, d;
#ifdef PICKED
    uvec2 at;
#endif
    uint packs, first; // packs of this dispatch
#ifdef PICKED
    uint per_row, rows; // packs of a row, rows of the table
#endif
} p;

float nearest(float x) { return bits_to_float(float_to_bits(x)); }

#ifdef PICKED
// The row of the table that stands at place `i`, as gathers find it.
uint picked(uint i) {
    int row = int(Words(p.at).v[I_WORDS * i]);
#if I_WORDS == 2
    int high = int(Words(p.at).v[2 * i + 1]);
    if (high != row >> 31 || I_SIGNED == 0 && high < 0) row = I_SIGNED == 1 && high < 0 ? -0x7fffffff - 1 : 0x7fffffff;
#else
    if (I_SIGNED == 0 && row < 0) row = 0x7fffffff;
#endif
    if (row < 0) row += int(p.rows);
    return uint(clamp(row, 0, int(p.rows) - 1));
}
#endif

void main() {
    uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x * 256 + gl_WorkGroupID.x * 256 + gl_LocalInvocationIndex;
    if (i >= p.packs) return;
#ifdef PICKED
    uint at = i / p.per_row, in_row = i - at * p.per_row, row = picked(at), groups = p.per_row / (GROUP / 8);
    uvec2 w = advance(p.w, row, p.per_row * BITS / 4, 2), s = advance(p.s, row, groups, FACTOR_SHIFT);
    uvec2 b = advance(p.b, row, groups, FACTOR_SHIFT);
#else
    uint in_row = i;
    uvec2 w = p.w, s = p.s, b = p.b;
#endif
    uint g = in_row / (GROUP / 8);
    uvec2 pack = load_pack(w, 0, in_row * 8);
    float scale = nearest(factor(s, g));
#if MODE == 0
    float bias = factor(b, g);
#endif
    uint bits[8];
    [[unroll]] for (uint e = 0; e < 8; e++) {
        precise float y = code(pack, e) * scale;
#if MODE == 0
        precise float z = nearest(y) + bias;
        y = z;
#endif
        bits[e] = float_to_bits(y);
    }
#if DTYPE == 0
    Chunks(p.d).v[2 * i] = uvec4(bits[0], bits[1], bits[2], bits[3]);
    Chunks(p.d).v[2 * i + 1] = uvec4(bits[4], bits[5], bits[6], bits[7]);
#else
    Chunks(p.d).v[i] = uvec4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16, bits[4] | bits[5] << 16,
                             bits[6] | bits[7] << 16);
#endif
}
