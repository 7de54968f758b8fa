#version 460
// Values of codes: eight a thread. Products with the scale and sums with the bias are rounded to DTYPE one by one.
// Defines: DTYPE, MODE, BITS, GROUP. Rows follow each other without gaps, so one row of all codes is enough; the
// last axis is a multiple of 16.
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
    uint packs, first; // packs of this dispatch
} p;

float nearest(float x) { return bits_to_float(float_to_bits(x)); }

void main() {
    uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x * 256 + gl_WorkGroupID.x * 256 + gl_LocalInvocationIndex;
    if (i >= p.packs) return;
    uint g = i / (GROUP / 8);
    uvec2 pack = load_pack(p.w, 0, i * 8);
    float scale = nearest(factor(p.s, g));
#if MODE == 0
    float bias = factor(p.b, g);
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
