#version 460
// Attention of many queries on cooperative matrices of subgroup scope. A workgroup of four subgroups takes 64 rows
// of the heads that share a key head and walks their keys 64 at a time; a subgroup has 16 rows. Keys, then values,
// are staged as 16-bit elements; values are on their way in registers while scores are multiplied. (Keys on their
// way during the product before them cost more registers than they save time: 48 against 122 TFLOP/s on an H200.)
// Scores go through shared memory as float, where each row belongs to LANES / 16 lanes, and come back as 16-bit
// weights in the same place. Values are summed in registers, scaled by a matrix whose rows hold their factors when a
// maximum has grown by more than SLACK (FlashAttention-4's conditional rescaling); weights stay below 2^SLACK.
// Defines: HD, HV (features of keys and values, padded to 16), WD (words of a staged row), LANES.
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
#ifndef PLAIN
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/elem.glsl"
#include "lib/attention.glsl"
layout(local_size_x = 4 * LANES) in;

const uint BM = 64u, BN = 64u, SW = 17u, THREADS = 4u * LANES;
// Regions of `mem`: staged rows, scores, factors.
const uint SCORES = BN * WD, FACTORS = SCORES + BM * SW;
shared uvec4 mem[FACTORS + 4u * 64u];
#ifdef PLAIN
shared float pair[THREADS];
#endif

#include "lib/fragment.glsl"

const uint SHARERS = LANES / 16u, COLS = 64u / SHARERS;
const float SLACK = 8.0;

// A staged tile has BN rows; a lane brings every THREADS-th word of it.
#define WORDS_K (HD / 8u)
#define WORDS_V (HV / 8u)
#define PARTS(words) ((BN * (words) + THREADS - 1u) / THREADS)

// Words of rows that are not there become zeros; something is read for them nevertheless.
#define FETCH(part, words, base, step, first, rows, count)                                       \
    [[unroll]] for (uint i = 0u; i < PARTS(words); ++i) {                                        \
        uint e = gl_LocalInvocationIndex + i * THREADS, r = e / (words), c = e % (words);        \
        bool there = r < (rows) && c * 8u < (count);                                             \
        uint64_t p = at(base, int64_t((first) + min(r, (rows) - 1u)) * (step), A_SIZE);          \
        uvec4 x = Vec16(p + (there ? 16ul * c : 0ul)).v, none = uvec4(0u);                       \
        part[i] = there ? x : none;                                                              \
    }
#define PUT(part, words)                                                                         \
    [[unroll]] for (uint i = 0u; i < PARTS(words); ++i) {                                        \
        uint e = gl_LocalInvocationIndex + i * THREADS;                                          \
        if (BN * (words) % THREADS == 0u || e < BN * (words))                                    \
            mem[e / (words) * WD + e % (words)] = part[i];                                       \
    }

// Weights as elements, rounded to nearest. They are not negative; NaN reaches the result through the sum.
uvec4 weights(float w[8]) {
    uvec4 v;
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
#ifdef B_BF16
        uint lo = floatBitsToUint(w[2u * k]) + 0x8000u, hi = floatBitsToUint(w[2u * k + 1u]) + 0x8000u;
        v[k] = (lo >> 16) | (hi & 0xffff0000u);
#else
        v[k] = packHalf2x16(vec2(w[2u * k], w[2u * k + 1u]));
#endif
    }
    return v;
}

// What the lanes that share a row make of their values.
#ifdef PLAIN
float row_max(float x) {
    uint tid = frag_group() * LANES + frag_lane();
    barrier();
    pair[tid] = x;
    barrier();
    for (uint i = 0u; i < SHARERS; ++i) x = max(x, pair[tid - frag_lane() + frag_lane() % 16u + 16u * i]);
    return x;
}
float row_sum(float x) {
    uint tid = frag_group() * LANES + frag_lane();
    barrier();
    pair[tid] = x;
    barrier();
    x = 0.0;
    for (uint i = 0u; i < SHARERS; ++i) x += pair[tid - frag_lane() + frag_lane() % 16u + 16u * i];
    return x;
}
bool none_of_them(bool x) { return false; }
#else
float row_max(float x) {
    [[unroll]] for (uint m = 16u; m < LANES; m *= 2u) x = max(x, subgroupShuffleXor(x, m));
    return x;
}
float row_sum(float x) {
    [[unroll]] for (uint m = 16u; m < LANES; m *= 2u) x += subgroupShuffleXor(x, m);
    return x;
}
// Each row belongs to lanes 16 apart, which agree.
bool none_of_them(bool x) {
    uint any = uint(x);
    [[unroll]] for (uint m = 1u; m < 16u; m *= 2u) any |= subgroupShuffleXor(any, m);
    return any == 0u;
}
#endif

void main() {
    uint lane = frag_lane(), sg = frag_group();
    uint l = a.l, n = a.n, d = a.d, dv = a.dv, all = a.rows;
    uint tiles = (all + BM - 1u) / BM;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    // The rows that see most keys come first.
    uint tile = tiles - 1u - id % tiles, line = id / tiles;
    uint kv = line % a.kv, b = line / a.kv;
    if (b >= a.batch) return;
    uint row0 = tile * BM, rows = min(BM, all - row0), end = n;
    // The first query whose row is here.
    bool one = row0 / l == (row0 + rows - 1u) / l;
    uint low = one ? row0 % l : 0u;
#ifdef CAUSAL
    // No row sees more keys than its last query; a row that sees none takes all.
    uint high = one ? (row0 + rows - 1u) % l : l - 1u;
    if (low + n >= l) end = high + 1u + n - l;
#endif
    int64_t kstep = a.ks[2], vstep = a.vs[2];
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);

    for (uint e = gl_LocalInvocationIndex; e < BM * WORDS_K; e += THREADS) {
        uint r = e / WORDS_K, c = e % WORDS_K, row = min(row0 + r, all - 1u);
        uint64_t p = q_row(b, kv * a.group + row / l, row % l) + 16ul * c;
        mem[r * WD + c] = c * 8u < d ? Vec16(p).v : uvec4(0u);
    }
    barrier();
    LEFT q[HD / 16u];
    [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) load_left(q[k], sg * 16u * WD + k * 2u, WD);
    SUMS o[HV / 16u];
    [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) zero_sums(o[f]);

    // The row of this lane, and its columns of scores.
    uint r = sg * 16u + lane % 16u, c0 = lane / 16u * COLS;
    uint row = min(row0 + r, all - 1u), h = kv * a.group + row / l, qi = row % l;
    float top = sink(h), sum = top == NEG_INF || c0 != 0u ? 0.0 : 1.0;
    float units = a.scale * LOG2E;

    for (uint first = 0u; first < end; first += BN) {
        uvec4 next_k[PARTS(WORDS_K)];
        FETCH(next_k, WORDS_K, kbase, kstep, first, end - first, d)
        barrier();
        PUT(next_k, WORDS_K)
        uvec4 next_v[PARTS(WORDS_V)];
        FETCH(next_v, WORDS_V, vbase, vstep, first, end - first, dv)
        barrier();
        [[unroll]] for (uint m = 0u; m < 4u; ++m) {
            SUMS s;
            zero_sums(s);
            [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) {
                RIGHT x;
                load_right_turned(x, m * 16u * WD + k * 2u, WD);
                multiply(q[k], x, s);
            }
            store_sums(s, SCORES + sg * 16u * SW + m * 4u, SW);
        }
        barrier();
        PUT(next_v, WORDS_V)
        float s[COLS], most = NEG_INF;
        [[unroll]] for (uint c = 0u; c < COLS; c += 4u) {
            vec4 x = uintBitsToFloat(mem[SCORES + r * SW + (c0 + c) / 4u]);
            [[unroll]] for (uint k = 0u; k < 4u; ++k) s[c + k] = x[k];
        }
        bool free = first + BN <= end;
#ifdef CAUSAL
        free = free && int(first + BN) <= int(low) + 1 + int(n) - int(l);
#endif
#if defined(MASK_BOOL) || defined(MASK_ADD)
        free = false;
#endif
        // Scores in units of log 2 are s * factor; a positive factor is applied with the maximum taken off.
        float factor = units;
        free = free && units > 0.0;
        if (!free) {
            factor = 1.0;
            [[unroll]] for (uint c = 0u; c < COLS; ++c) s[c] = score(s[c], b, h, qi, first + c0 + c, end);
        }
        [[unroll]] for (uint c = 0u; c < COLS; ++c) most = max(most, s[c]);
        most *= factor;
        // From here on no lane reads scores any more.
        most = row_max(most);
        bool grown = most > top + SLACK;
        float base = grown ? most : top, keep = 1.0;
        if (grown) {
            keep = exp2(top - base);
            sum *= keep;
            top = base;
        }
        base = finite(base);
        [[unroll]] for (uint c = 0u; c < COLS; c += 8u) {
            float w[8];
            [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                w[k] = exp2(fma(s[c + k], factor, -base));
                sum += w[k];
            }
            mem[SCORES + r * SW + (c0 + c) / 8u] = weights(w);
        }
        bool same = none_of_them(grown);
        if (!same) {
            [[unroll]] for (uint i = 0u; i < 4u / SHARERS; ++i)
                mem[FACTORS + r * 4u + lane / 16u * (4u / SHARERS) + i] = uvec4(floatBitsToUint(keep));
        }
        barrier();
        if (!same) {
            SUMS keeps;
            load_sums(keeps, FACTORS + sg * 64u, 4u);
            [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) scale_sums(o[f], keeps);
        }
        LEFT w[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k) load_left(w[k], SCORES + sg * 16u * SW + k * 2u, SW);
        [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) {
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                RIGHT x;
                load_right(x, k * 16u * WD + f * 2u, WD);
                multiply(w[k], x, o[f]);
            }
        }
    }

    float f = 1.0 / row_sum(sum);
    uint64_t to = a.dst + ((uint64_t(b) * a.kv * a.group + h) * l + qi) * dv * B_SIZE;
    [[unroll]] for (uint f0 = 0u; f0 < HV / 16u; f0 += 4u) {
        barrier();
        [[unroll]] for (uint k = 0u; k < 4u; ++k)
            if (f0 + k < HV / 16u) store_sums(o[f0 + k], SCORES + sg * 16u * SW + k * 4u, SW);
        barrier();
        [[unroll]] for (uint c = 0u; c < COLS; c += 8u) {
            uint e = f0 * 16u + c0 + c;
            if (row0 + r < all && e < dv) {
                float x[8];
                [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                    uint i = c0 + c + k;
                    x[k] = uintBitsToFloat(mem[SCORES + r * SW + i / 4u][i % 4u]) * f;
                }
                Vec16(to + uint64_t(e) * B_SIZE).v = b_vector(x);
            }
        }
    }
}
