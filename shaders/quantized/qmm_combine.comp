#version 460
// What the picked experts of a token give, added up: COMBINED products of one row of x each with a matrix that is picked by an
// index, times a weight each (src/vulkan/kernels/quantized/qmm_joined/mod.rs). Teams of TPR threads have a pick each, or
// several in turn, and R rows of its codes. Products, those with what is added to them (BIASED: a row of an array for each
// matrix), weighted ones and their sum in float32 are rounded as if they had been stored.
// Workgroups with the same rows follow each other, token by token.
// Defines: DTYPE, MODE, BITS, GROUP, TRANSPOSE 1, JOINED 1, PICKS, UNIT, TPR, TEAM_COUNT, R, COMBINED, optionally ALIGNED
// (codes of a unit are read 16 or 8 bytes at a time), SUBGROUP, CLUSTERED, BIASED, WIDE (weights of float32), AFTER: a
// function of GLSL of a sum and its place.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#ifdef CLUSTERED
#extension GL_KHR_shader_subgroup_clustered : require
#endif
#endif

#include "quantized/qmm.glsl"
#define THREADS (TPR * TEAM_COUNT)
layout(local_size_x = THREADS) in;
#include "quantized/joined.glsl"
#include "lib/team_sum.glsl"
#include "quantized/joined_results.glsl"
#include "quantized/units.glsl"
#include "quantized/one_by_one.glsl"

shared float products[COMBINED * R];
shared float weights[COMBINED];

void main() {
    uint i = gl_LocalInvocationIndex, team = i / TPR, lane = i % TPR;
    uint group = gl_WorkGroupID.x + p.tile0, token = group % p.rows, row0 = group / p.rows * R;
    const uint units = K / UNIT;
    // Weights are on their way while products are made; there are as many threads as picks.
    float weight = 0;
    if (i < COMBINED) weight = weight_of(token * COMBINED + i);
    [[dont_unroll]] for (uint first = 0; first < COMBINED; first += TEAM_COUNT) {
        // The last turn may have fewer picks than teams: barriers want all of them.
        uint own = min(first + team, COMBINED - 1), pick = token * COMBINED + own;
        uint matrix = picked(p.w[2], pick, p.s[2].x, (p.s[2].y & 1u) != 0);
        uvec2 x = advance(p.x, pick, K, SHIFT), w[1], s[1], b[1];
        w[0] = advance(p.w[0], matrix, N0 * ROW_WORDS, 2);
        s[0] = advance(p.s[0], matrix, N0 * ROW_GROUPS, FACTOR_SHIFT);
        b[0] = advance(p.b[0], matrix, N0 * ROW_GROUPS, FACTOR_SHIFT);
        float acc[R], others[R];
        [[unroll]] for (uint r = 0; r < R; r++) {
            acc[r] = 0;
            others[r] = added_to(matrix, min(row0 + r, N0 - 1));
        }
        uint next[R][UNIT_WORDS];
        load_codes(w, row0, N0, min(lane, units - 1), next);
        [[dont_unroll]] for (uint u = lane; u < units; u += TPR) {
            uint words[R][UNIT_WORDS] = next;
            if (u + TPR < units) load_codes(w, row0, N0, u + TPR, next);
            uvec4 chunks[CHUNKS];
            [[unroll]] for (uint c = 0; c < CHUNKS; c++) chunks[c] = Chunks(x).v[u * CHUNKS + c];
            add_unit(s, b, row0, N0, u, words, chunks, acc);
        }
        [[unroll]] for (uint r = 0; r < R; r++) {
            float total = acc[r];
            TEAM_SUM(total)
            if (lane == 0 && row0 + r < N0 && !is_finite(total))
                total = one_by_one(x, 0, w[0], s[0], b[0], row0 + r, K);
            if (lane == 0) products[own * R + r] = with_added(rounded(total), others[r]);
        }
    }
    if (i < COMBINED) weights[i] = weight;
    barrier();
    if (i < R && row0 + i < N0) {
        precise float sum = 0;
        [[unroll]] for (uint j = 0; j < COMBINED; j++) {
            precise float part = products[j * R + i] * weights[j];
            sum += weighed(part);
        }
        store_sum(token * N0 + row0 + i, sum);
    }
}
