#version 460
// One row of x times up to three matrices, whose rows of K elements are dense: TPR threads walk a row in 16-byte chunks, each
// on R rows at once, UNROLL chunks ahead, and add up by subgroups (SUBGROUP, its size is then fixed) or a shared tree. The
// matrices' workgroups follow each other. With NORM the row is normalised by the root of its mean square first, by each
// workgroup on its own: into shared memory (STAGED, as long as the row), or where it is read. AFTER and PAIR as in
// quantized/qmm_rows.comp.
// Defines: DTYPE, JOINED, TPR, R, UNROLL, optionally NORM, STAGED, AFTER, PAIR, SUBGROUP, CLUSTERED. Grid: rows.
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

#define THREADS 256
layout(local_size_x = THREADS) in;
#include "quantized/joined_push.glsl"
#include "lib/element.glsl"
#include "quantized/joined.glsl"
#include "lib/team_sum.glsl"
#include "quantized/joined_results.glsl"

#ifdef STAGED
shared uvec4 staged[K / V];
#endif

// Chunk c of R rows from row0 on; n rows are there.
void load_rows(uvec2 w[SIDES], uint row0, uint n, uint c, out uvec4 chunks[R]) {
    [[unroll]] for (uint r = 0; r < R; r++)
        chunks[r] = Chunks(w[r / EACH]).v[min(row0 + r % EACH, n - 1) * (K / V) + c];
}

#ifdef NORM
float inverse_root() {
    float sum = 0;
    [[dont_unroll]] for (uint c = gl_LocalInvocationIndex; c < K / V; c += THREADS)
        sum = square_sum(Chunks(p.x).v[c], sum);
    return root_of(sum);
}
#endif

void main() {
    uint team = gl_LocalInvocationIndex / TPR, lane = gl_LocalInvocationIndex % TPR;
    uint group = gl_WorkGroupID.x + p.tile0, n, matrix = matrix_of(group, TEAMS * R, n);
    uint row0 = (group * TEAMS + team) * EACH;
    uvec2 w[SIDES];
    [[unroll]] for (uint i = 0; i < SIDES; i++) w[i] = p.w[matrix + i];

    uvec4 next[UNROLL][R];
    [[unroll]] for (uint u = 0; u < UNROLL; u++) load_rows(w, row0, n, min(lane + u * TPR, K / V - 1), next[u]);
#ifdef NORM
    float root = inverse_root();
#ifdef STAGED
    [[dont_unroll]] for (uint c = gl_LocalInvocationIndex; c < K / V; c += THREADS)
        staged[c] = normalised(Chunks(p.x).v[c], Chunks(p.norm).v[c], root);
    barrier();
#endif
#endif

    float acc[R];
    [[unroll]] for (uint r = 0; r < R; r++) acc[r] = 0;
    [[dont_unroll]] for (uint c = lane; c < K / V; c += UNROLL * TPR) {
        uvec4 now[UNROLL][R] = next;
        if (c + UNROLL * TPR < K / V) {
            [[unroll]] for (uint u = 0; u < UNROLL; u++)
                load_rows(w, row0, n, min(c + (UNROLL + u) * TPR, K / V - 1), next[u]);
        }
        [[unroll]] for (uint u = 0; u < UNROLL; u++) {
            uint at = c + u * TPR;
            if (at < K / V) {
#ifdef STAGED
                uvec4 cx = staged[at];
#elif defined(NORM)
                uvec4 cx = normalised(Chunks(p.x).v[at], Chunks(p.norm).v[at], root);
#else
                uvec4 cx = Chunks(p.x).v[at];
#endif
                [[unroll]] for (uint r = 0; r < R; r++)
                    [[unroll]] for (uint e = 0; e < V; e++)
                        acc[r] = fma(chunk_element(now[u][r], e), chunk_element(cx, e), acc[r]);
            }
        }
    }

    float found[R];
    [[unroll]] for (uint r = 0; r < R; r++) {
        float total = acc[r];
        TEAM_SUM(total)
        found[r] = total;
    }
    store_found(found, matrix, 0, row0, n, lane);
}
