#version 460
// y = W x for up to eight vectors x, W stored with K contiguous: TPR threads walk a row in 16-byte chunks,
// each on R rows at once, and add up by subgroups (SUBGROUP, its size is then fixed) or a shared tree.
// Push: a is W (m rows, lda apart), b holds n vectors ldb apart, d (d_rs by row, d_cs by vector).
// Defines: DTYPE, WIDE, ADDMM, FUSED, PARTIAL, TPR, R, VECTORS, optionally SUBGROUP,
// CLUSTERED (several rows share a subgroup). Grid: rows, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#ifdef CLUSTERED
#extension GL_KHR_shader_subgroup_clustered : require
#endif
#endif

#include "matmul/matmul.glsl"

#define THREADS 256
layout(local_size_x = THREADS) in;

#include "lib/team_sum.glsl"

void main() {
    uint team = gl_LocalInvocationIndex / TPR, lane = gl_LocalInvocationIndex % TPR;
    uint row0 = ((gl_WorkGroupID.x + p.tile0) * TEAMS + team) * R;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 w = batch_a(batch), x = batch_b(batch);
    uint k_begin = gl_WorkGroupID.y * p.k_split;
    uint k_end = min(p.k, k_begin + p.k_split);

    float acc[R][VECTORS];
    [[unroll]] for (uint r = 0; r < R; r++)
        [[unroll]] for (uint v = 0; v < VECTORS; v++) acc[r][v] = 0;

    uint k = k_begin + lane * V;
#ifdef WIDE
    if (row0 + R <= p.m) {
        for (; k + V + (UNROLL - 1) * TPR * V <= k_end; k += UNROLL * TPR * V) {
            uvec4 cw[UNROLL][R];
            [[unroll]] for (uint u = 0; u < UNROLL; u++)
                [[unroll]] for (uint r = 0; r < R; r++)
                    cw[u][r] = Chunks(w).v[((row0 + r) * p.lda + k) / V + u * TPR];
            [[unroll]] for (uint u = 0; u < UNROLL; u++) {
                [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                    uvec4 cx = Chunks(x).v[(min(v, p.n - 1) * p.ldb + k) / V + u * TPR];
                    [[unroll]] for (uint r = 0; r < R; r++)
                        [[unroll]] for (uint e = 0; e < V; e++)
                            acc[r][v] = fma(chunk_element(cw[u][r], e), chunk_element(cx, e), acc[r][v]);
                }
            }
        }
    }
#endif
    for (; k < k_end; k += TPR * V) {
        [[unroll]] for (uint r = 0; r < R; r++) {
            uvec4 cw = load_chunk(w, row0 + r, p.m, k, k_end, p.lda);
            [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                uvec4 cx = load_chunk(x, v, p.n, k, k_end, p.ldb);
                [[unroll]] for (uint e = 0; e < V; e++)
                    acc[r][v] = fma(chunk_element(cw, e), chunk_element(cx, e), acc[r][v]);
            }
        }
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = batch_d(batch);
#endif
    uvec2 addend = begin_epilogue(batch);
    [[unroll]] for (uint r = 0; r < R; r++) {
        [[unroll]] for (uint v = 0; v < VECTORS; v++) {
            float total = acc[r][v];
            TEAM_SUM(total)
            if (lane == 0 && row0 + r < p.m && v < p.n) {
#ifdef PARTIAL
                Floats(d).v[(row0 + r) * p.n + v] = total;
#else
                store_element(d, (row0 + r) * p.d_rs + v * p.d_cs, epilogue(total, addend, row0 + r, v));
#endif
            }
        }
    }
}
