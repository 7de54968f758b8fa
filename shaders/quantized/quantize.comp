#version 460
// Codes, scale and bias of one group a thread: the twin of src/cpu/quantized/quant.rs, step by step.
// Defines: DTYPE, MODE, BITS, GROUP, optionally GLOBAL (a global scale is read).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/float_controls.glsl"
#include "lib/math.glsl"
#include "lib/element.glsl"
#include "quantized/quant.glsl"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uvec2 x, w, s, b, global;
    uint groups, first; // groups of this dispatch
} p;

float nearest(float x) { return bits_to_float(float_to_bits(x)); }

uint fp4(float x) {
    float a = m_abs(x);
    uint c = uint(a > 0.25) + uint(a > 0.75) + uint(a > 1.25) + uint(a > 1.75) + uint(a > 2.5) + uint(a > 3.5)
        + uint(a > 5.0);
    return m_isfinite(x) ? c | (x < 0.0 && c > 0 ? 8u : 0u) : 0u;
}

void main() {
    uint g = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
    if (g >= p.groups) return;
    uint at = g * GROUP;
#if MODE == 0
    const float top = float(MASK);
    float low = M_INF, high = -M_INF;
    for (uint i = 0; i < GROUP; i++) {
        float v = load_element(p.x, at + i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    float scale, bias;
    precise float span = high - low;
#if BITS == 1
    scale = max(span, 1e-7);
    bias = low;
#else
    float ratio = max(m_div(span, top), 1e-7);
    bool below = m_abs(low) > m_abs(high);
    float edge = below ? low : high;
    ratio = below ? ratio : -ratio;
    float count = roundEven(m_div(edge, ratio));
    scale = count != 0.0 ? m_div(edge, count) : ratio;
    bias = count != 0.0 ? edge : 0.0;
#endif
    store_element(p.s, g, scale);
    store_element(p.b, g, bias);
#else
    float largest = 0;
    for (uint i = 0; i < GROUP; i++) {
        float v = m_abs(load_element(p.x, at + i));
        largest = v > largest ? v : largest;
    }
    float ratio = nearest(m_div(largest, MODE == 2 ? 448.0 : 6.0));
#ifdef GLOBAL
    float widen = m_div(2688.0, Floats(p.global).v[0]);
#endif
#if MODE == 3
#ifdef GLOBAL
    precise float widened = ratio * widen;
    ratio = widened;
#endif
    uint byte = m_to_fp8(ratio);
    float scale = e4m3(byte);
#else
    uint u = floatBitsToUint(ratio);
    uint byte = u == 0 ? 127 : min((u >> 23) + uint((u & 0x7fffffu) != 0), 254);
    float scale = nearest(e8m0(byte));
#endif
    Bytes(p.s).v[g] = uint8_t(byte);
#endif
    uint held = 0, count_bits = 0, word = g * (GROUP / 16 * BITS / 2);
    for (uint i = 0; i < GROUP; i++) {
        float v = load_element(p.x, at + i);
#if MODE == 0
        precise float from = v - bias;
        float y = roundEven(m_div(from, scale));
        uint q = y > 0.0 ? uint(min(y, top)) : 0;
#else
        float y = nearest(m_div(v, scale));
#ifdef GLOBAL
        precise float wide = y * widen;
        y = wide;
#endif
#if MODE == 2
        uint q = m_to_fp8(y);
#else
        uint q = fp4(y);
#endif
#endif
        held |= q << count_bits;
        count_bits += BITS;
        if (count_bits >= 32) {
            Words(p.w).v[word++] = held;
            count_bits -= 32;
            // What did not fit; a shift by all bits of a word is undefined.
            held = count_bits > 0 ? q >> (BITS - count_bits) : 0;
        }
    }
}
