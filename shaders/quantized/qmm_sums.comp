#version 460
// Products that stand in memory, those of COMBINED picks of a token behind each other, times a weight each and added up: what
// qmm_combine.comp does besides the products, rounded in the same places. An invocation has OWN neighbours of a row.
// Defines: those of quantized/qmm.glsl with JOINED 1, THREADS, COMBINED, OWN (1, or what 4, 8 or 16 bytes hold), optionally
// BIASED (a row of an array for each matrix is added to products first, by the indices of their picks), WIDE (weights of
// float32), AFTER: a function of GLSL of a sum and its place. x are the products, `norm` the weights, rows the tokens, N0 the
// length of a row.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "quantized/qmm.glsl"
layout(local_size_x = THREADS) in;
#include "quantized/joined.glsl"

// The elements of an invocation, from `at` on, in as many words as they have.
uvec4 own_elements(uint at) {
#if OWN == V
    return Chunks(p.x).v[at / OWN];
#elif 2 * OWN == V
    return uvec4(Pairs(p.x).v[at / OWN], 0, 0);
#else
    return uvec4(Words(p.x).v[at / OWN], 0, 0, 0);
#endif
}

void sums() {
    uint i = ((gl_WorkGroupID.x + p.tile0) * THREADS + gl_LocalInvocationIndex) * OWN;
    uint token = i / N0, col = i % N0;
    if (token >= p.rows) return;
    precise float sum[OWN];
    [[unroll]] for (uint e = 0; e < OWN; e++) sum[e] = 0;
    [[unroll]] for (uint j = 0; j < COMBINED; j++) {
        uint pick = token * COMBINED + j, at = pick * N0 + col;
        float weight = weight_of(pick);
#ifdef BIASED
        uint matrix = picked(p.w[2], pick, p.s[2].x, (p.s[2].y & 1u) != 0);
#else
        const uint matrix = 0;
#endif
#if OWN > 1
        uvec4 c = own_elements(at);
#endif
        [[unroll]] for (uint e = 0; e < OWN; e++) {
#if OWN > 1
            float y = chunk_element(c, e);
#else
            float y = load_element(p.x, at);
#endif
            precise float part = with_added(y, added_to(matrix, col + e)) * weight;
            sum[e] += weighed(part);
        }
    }
    [[unroll]] for (uint e = 0; e < OWN; e++) store_sum(i + e, sum[e]);
}

void main() {
#ifdef PROGRESS
    await_others(p.progress_number, p.progress_awaited, p.progress_waits);
    sums();
    tell_others(p.progress_number);
#else
    sums();
#endif
}
