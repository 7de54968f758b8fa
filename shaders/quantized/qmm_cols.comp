#version 460
// Up to eight rows of x times a quantised matrix whose rows run along the results: a thread owns a pack of eight
// results and every SLICES-th k of its split; slices are added through shared memory. K of x is contiguous. From four
// rows on values are rounded as dequantised ones: the product is then that of the dequantised matrix.
// Defines: DTYPE, MODE, BITS, GROUP, TRANSPOSE 0, SLICES, UNROLL, VECTORS, PARTIAL (float32 sums of a split).
// Grid: blocks of results, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "quantized/qmm.glsl"

#define THREADS 256
#define COLS (THREADS / SLICES)
layout(local_size_x = THREADS) in;

shared float sums[THREADS * 8];

void main() {
    uint lane = gl_LocalInvocationIndex % COLS, slice = gl_LocalInvocationIndex / COLS;
    uint block = (gl_WorkGroupID.x + p.tile0) * COLS, col = (block + lane) * 8;
    uint batch = gl_WorkGroupID.z + p.batch0, wi = pick_w(batch);
    uvec2 x = matrix_x(pick_x(batch)), w = matrix_w(wi), s = matrix_s(wi), b = matrix_b(wi);
    uint k_end = min(p.k, (gl_WorkGroupID.y + 1) * p.k_split);

    float acc[VECTORS][8];
    [[unroll]] for (uint v = 0; v < VECTORS; v++)
        [[unroll]] for (uint e = 0; e < 8; e++) acc[v][e] = 0;

    uint k = gl_WorkGroupID.y * p.k_split + slice;
    if (col < p.n) {
        for (; k < k_end; k += UNROLL * SLICES) {
            uvec2 pack[UNROLL];
            float scale[UNROLL], bias[UNROLL];
            [[unroll]] for (uint i = 0; i < UNROLL; i++) {
                // A row beyond the end repeats the last one; x is taken as zero there.
                uint row = min(k + i * SLICES, k_end - 1);
                pack[i] = load_pack(w, row * ROW_WORDS, col);
                scale[i] = factor(s, row * ROW_GROUPS + col / GROUP);
#if MODE == 0
                bias[i] = factor(b, row * ROW_GROUPS + col / GROUP);
#else
                bias[i] = 0;
#endif
            }
            [[unroll]] for (uint i = 0; i < UNROLL; i++) {
                uint row = k + i * SLICES;
                float y[VECTORS];
                [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                    y[v] = load_element(x, min(v, p.m - 1) * p.x_rs + min(row, k_end - 1));
                    y[v] = row < k_end ? y[v] : 0;
                }
                [[unroll]] for (uint e = 0; e < 8; e++) {
#if VECTORS >= 4
                    float value = stored_value(code(pack[i], e), scale[i], bias[i]);
#else
                    float value = fma(code(pack[i], e), scale[i], bias[i]);
#endif
                    [[unroll]] for (uint v = 0; v < VECTORS; v++) acc[v][e] = fma(value, y[v], acc[v][e]);
                }
            }
        }
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = matrix_d(batch);
#endif
    [[unroll]] for (uint v = 0; v < VECTORS; v++) {
        barrier();
        [[unroll]] for (uint e = 0; e < 8; e++) sums[e * THREADS + gl_LocalInvocationIndex] = acc[v][e];
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < COLS * 8; i += THREADS) {
            uint e = i % 8, owner = i / 8, at = block * 8 + i;
            float total = 0;
            for (uint j = 0; j < SLICES; j++) total += sums[e * THREADS + j * COLS + owner];
            if (at < p.n && v < p.m) {
#ifdef PARTIAL
                Floats(d).v[v * p.n + at] = total;
#else
                store_element(d, v * p.n + at, total);
#endif
            }
        }
    }
}
