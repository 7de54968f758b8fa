#version 460
// y = W x for up to eight vectors x, W stored with its rows (the results) contiguous: a thread owns one
// 16-byte chunk of V results and every SLICES-th k of its split; slices are added through shared memory.
// Push: a is W (k lines, lda apart, m results each), b holds n vectors ldb apart, d as in gemv_rows.
// Defines: DTYPE, WIDE, ADDMM, FUSED, PARTIAL, SLICES, VECTORS. Grid: blocks of results, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"

#define THREADS 256
#define UNROLL 4
#define COLS (THREADS / SLICES)
layout(local_size_x = THREADS) in;

shared float sums[THREADS * V];

void main() {
    uint col = gl_LocalInvocationIndex % COLS, slice = gl_LocalInvocationIndex / COLS;
    uint row0 = ((gl_WorkGroupID.x + p.tile0) * COLS + col) * V;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 w = batch_a(batch), x = batch_b(batch);
    uint k_begin = gl_WorkGroupID.y * p.k_split;
    uint k_end = min(p.k, k_begin + p.k_split);

    float acc[VECTORS][V];
    [[unroll]] for (uint v = 0; v < VECTORS; v++)
        [[unroll]] for (uint e = 0; e < V; e++) acc[v][e] = 0;

    uint k = k_begin + slice;
#ifdef WIDE
    if (row0 + V <= p.m) {
        for (; k + (UNROLL - 1) * SLICES < k_end; k += UNROLL * SLICES) {
            uvec4 c[UNROLL];
            [[unroll]] for (uint u = 0; u < UNROLL; u++)
                c[u] = Chunks(w).v[((k + u * SLICES) * p.lda + row0) / V];
            [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                [[unroll]] for (uint u = 0; u < UNROLL; u++) {
                    float s = load_element(x, min(v, p.n - 1) * p.ldb + k + u * SLICES);
                    [[unroll]] for (uint e = 0; e < V; e++)
                        acc[v][e] = fma(s, chunk_element(c[u], e), acc[v][e]);
                }
            }
        }
    }
#endif
    for (; k < k_end; k += SLICES) {
        uvec4 c = load_chunk(w, k, k_end, row0, p.m, p.lda);
        [[unroll]] for (uint v = 0; v < VECTORS; v++) {
            float s = load_element(x, min(v, p.n - 1) * p.ldb + k);
            [[unroll]] for (uint e = 0; e < V; e++) acc[v][e] = fma(s, chunk_element(c, e), acc[v][e]);
        }
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = batch_d(batch);
#endif
    uvec2 addend = begin_epilogue(batch);
    [[unroll]] for (uint v = 0; v < VECTORS; v++) {
        barrier();
        [[unroll]] for (uint e = 0; e < V; e++) sums[e * THREADS + gl_LocalInvocationIndex] = acc[v][e];
        barrier();
        // COLS * V results, spread over the threads.
        for (uint i = gl_LocalInvocationIndex; i < COLS * V; i += THREADS) {
            uint e = i % V, owner = i / V;
            float total = 0;
            [[unroll]] for (uint s = 0; s < SLICES; s++) total += sums[e * THREADS + s * COLS + owner];
            uint row = (gl_WorkGroupID.x + p.tile0) * COLS * V + i;
            if (row < p.m && v < p.n) {
#ifdef PARTIAL
                Floats(d).v[row * p.n + v] = total;
#else
                store_element(d, row * p.d_rs + v * p.d_cs, epilogue(total, addend, row, v));
#endif
            }
        }
    }
}
