#version 460
// Attention of many queries on cooperative matrices of subgroup scope. A workgroup of four subgroups takes 64 rows
// of the heads that share a key head and walks their keys 64 at a time; a subgroup has 16 rows. Keys, then values,
// are staged as 16-bit elements; scores go through shared memory as float, where each row belongs to LANES / 16
// lanes, and come back as 16-bit weights in the same place. Values are summed in registers; they are scaled for a
// new maximum by a matrix whose rows hold their factors. Defines: HD, HV (features of keys and values, padded to 16),
// WD (words of a staged row), LANES.
#ifndef PLAIN
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/elem.glsl"
#include "lib/attention.glsl"
layout(local_size_x = 4 * LANES) in;

const uint BM = 64u, BN = 64u, SW = 17u, THREADS = 4u * LANES;
// Regions of `mem`: staged rows, scores, factors.
const uint SCORES = BN * WD, FACTORS = SCORES + BM * SW;
shared uvec4 mem[FACTORS + 4u * 64u];
shared float pair[THREADS];

#include "lib/fragment.glsl"

const uint SHARERS = LANES / 16u, COLS = 64u / SHARERS;

// Stages rows of keys or values; those that are not there become zeros.
void stage(uint64_t base, int64_t step, uint first, uint rows, uint words, uint count) {
    for (uint e = gl_LocalInvocationIndex; e < BN * words; e += THREADS) {
        uint r = e / words, c = e % words;
        bool there = r < rows && c * 8u < count;
        uint64_t p = at(base, int64_t(first + r) * step, A_SIZE) + 16ul * c;
        mem[r * WD + c] = there ? Vec16(p).v : uvec4(0u);
    }
}

void main() {
    uint tid = frag_group() * LANES + frag_lane(), lane = frag_lane(), sg = frag_group();
    uint tiles = (a.rows + BM - 1u) / BM;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    // The rows that see most keys come first.
    uint tile = tiles - 1u - id % tiles, line = id / tiles;
    uint kv = line % a.kv, b = line / a.kv;
    if (b >= a.batch) return;
    uint row0 = tile * BM, rows = min(BM, a.rows - row0), end = a.n;
#ifdef CAUSAL
    // No row sees more keys than its last query; a row that sees none takes all.
    bool one = row0 / a.l == (row0 + rows - 1u) / a.l;
    uint low = one ? row0 % a.l : 0u, high = one ? (row0 + rows - 1u) % a.l : a.l - 1u;
    if (low + a.n >= a.l) end = high + 1u + a.n - a.l;
#endif
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);

    for (uint e = gl_LocalInvocationIndex; e < BM * (HD / 8u); e += THREADS) {
        uint r = e / (HD / 8u), c = e % (HD / 8u), row = min(row0 + r, a.rows - 1u);
        uint64_t p = q_row(b, kv * a.group + row / a.l, row % a.l) + 16ul * c;
        mem[r * WD + c] = c * 8u < a.d ? Vec16(p).v : uvec4(0u);
    }
    barrier();
    LEFT q[HD / 16u];
    [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) load_left(q[k], sg * 16u * WD + k * 2u, WD);
    SUMS o[HV / 16u];
    [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) zero_sums(o[f]);

    // The row of this lane, and its columns of scores.
    uint r = sg * 16u + lane / SHARERS, c0 = lane % SHARERS * COLS;
    uint row = min(row0 + r, a.rows - 1u), h = kv * a.group + row / a.l, qi = row % a.l;
    float top = sink(h), sum = top == NEG_INF || c0 != 0u ? 0.0 : 1.0;

    for (uint first = 0u; first < end; first += BN) {
        barrier();
        stage(kbase, a.ks[2], first, end - first, HD / 8u, a.d);
        barrier();
        [[unroll]] for (uint n = 0u; n < 4u; ++n) {
            SUMS s;
            zero_sums(s);
            [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) {
                RIGHT x;
                load_right_turned(x, n * 16u * WD + k * 2u, WD);
                multiply(q[k], x, s);
            }
            store_sums(s, SCORES + sg * 16u * SW + n * 4u, SW);
        }
        barrier();
        stage(vbase, a.vs[2], first, end - first, HV / 8u, a.dv);
        float s[COLS], most = NEG_INF;
        [[unroll]] for (uint c = 0u; c < COLS; ++c) {
            float x = uintBitsToFloat(mem[SCORES + r * SW + (c0 + c) / 4u][c % 4u]);
            s[c] = score(x, b, h, qi, first + c0 + c, end);
            most = max(most, s[c]);
        }
        pair[tid] = most;
        barrier();
        most = top;
        [[unroll]] for (uint i = 0u; i < SHARERS; ++i) most = max(most, pair[tid / SHARERS * SHARERS + i]);
        float base = finite(most), keep = exp2(top - base);
        sum *= keep;
        top = most;
        [[unroll]] for (uint c = 0u; c < COLS; c += 8u) {
            uvec4 w = uvec4(0u);
            [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                float x = exp2(s[c + k] - base);
                sum += x;
                b_put(w, k, x);
            }
            mem[SCORES + r * SW + (c0 + c) / 8u] = w;
        }
        [[unroll]] for (uint i = 0u; i < 4u / SHARERS; ++i)
            mem[FACTORS + r * 4u + lane % SHARERS * (4u / SHARERS) + i] = uvec4(floatBitsToUint(keep));
        barrier();
        SUMS keeps;
        load_sums(keeps, FACTORS + sg * 64u, 4u);
        LEFT w[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k) load_left(w[k], SCORES + sg * 16u * SW + k * 2u, SW);
        [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) {
            scale_sums(o[f], keeps);
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                RIGHT x;
                load_right(x, k * 16u * WD + f * 2u, WD);
                multiply(w[k], x, o[f]);
            }
        }
    }

    barrier();
    pair[tid] = sum;
    barrier();
    sum = 0.0;
    [[unroll]] for (uint i = 0u; i < SHARERS; ++i) sum += pair[tid / SHARERS * SHARERS + i];
    float f = 1.0 / sum;
    uint64_t to = a.dst + ((uint64_t(b) * a.kv * a.group + h) * a.l + qi) * a.dv * B_SIZE;
    [[unroll]] for (uint f0 = 0u; f0 < HV / 16u; f0 += 4u) {
        barrier();
        [[unroll]] for (uint k = 0u; k < 4u; ++k)
            if (f0 + k < HV / 16u) store_sums(o[f0 + k], SCORES + sg * 16u * SW + k * 4u, SW);
        barrier();
        [[unroll]] for (uint c = 0u; c < COLS; c += 8u) {
            uint e = f0 * 16u + c0 + c;
            if (row0 + r < a.rows && e < a.dv) {
                uvec4 w = uvec4(0u);
                [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                    uint at = c0 + c + k;
                    b_put(w, k, uintBitsToFloat(mem[SCORES + r * SW + at / 4u][at % 4u]) * f);
                }
                Vec16(to + uint64_t(e) * B_SIZE).v = w;
            }
        }
    }
}
