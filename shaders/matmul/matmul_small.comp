#version 460
// Products whose rows of results and K are short: a thread makes a row of results of any of the products, in registers. One
// right matrix for all (TOGETHER) goes through shared memory, others through the cache.
// Defines: DTYPE, TA, TB, KS and NS (powers of two that hold K and N, from four on), optionally TOGETHER, ADDMM, FUSED. Grid: rows
// of all products; k_split is how many products there are.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"

#define THREADS 256
layout(local_size_x = THREADS) in;

#ifdef TOGETHER
shared vec4 right[KS * NS / 4];
#endif

// Element (q, j) of a right matrix; those behind its ends are its last ones.
float right_element(uvec2 b, uint q, uint j) {
    q = min(q, p.k - 1);
    j = min(j, p.n - 1);
    return load_element(b, TB == 1 ? j * p.ldb + q : q * p.ldb + j);
}

void main() {
    uint id = (gl_WorkGroupID.x + p.tile0) * THREADS + gl_LocalInvocationIndex, batch = id / p.m, row = id % p.m;
#ifdef TOGETHER
    [[dont_unroll]] for (uint e = gl_LocalInvocationIndex; e < KS * NS; e += THREADS)
        right[e / 4][e % 4] = right_element(p.b, e / NS, e % NS);
    barrier();
#endif
    if (batch >= p.k_split) return;
    uvec2 a = batch_a(batch);
#ifndef TOGETHER
    uvec2 b = batch_b(batch);
#endif
    float x[KS], y[NS];
    [[unroll]] for (uint q = 0; q < KS; q++)
        x[q] = q < p.k ? load_element(a, TA == 1 ? q * p.lda + row : row * p.lda + q) : 0.0;
    [[unroll]] for (uint j = 0; j < NS; j++) y[j] = 0;
    [[unroll]] for (uint q = 0; q < KS; q++) {
        if (q < p.k) {
            [[unroll]] for (uint j = 0; j < NS; j++) {
#ifdef TOGETHER
                y[j] = fma(x[q], right[(q * NS + j) / 4][j % 4], y[j]);
#else
                if (j < p.n) y[j] = fma(x[q], right_element(b, q, j), y[j]);
#endif
            }
        }
    }
    uvec2 d = batch_d(batch), c = begin_epilogue(batch);
    [[unroll]] for (uint j = 0; j < NS; j += 4) {
        if (j >= p.n) break;
        uint n = min(p.n - j, 4);
        [[unroll]] for (uint e = 0; e < 4; e++)
            if (e < n) y[j + e] = epilogue(y[j + e], c, row, j + e);
        if (n == 4 && (p.flags & 1u) != 0) {
            store_four(d, RESULT(row, j), vec4(y[j], y[j + 1], y[j + 2], y[j + 3]));
        } else {
            [[unroll]] for (uint e = 0; e < 4; e++)
                if (e < n) store_element(d, RESULT(row, j + e), y[j + e]);
        }
    }
}
