#version 460
// Attention of many queries on cooperative matrices of subgroup scope. A workgroup of TEAMS subgroups takes 16 rows
// each of the heads that share a key head and walks their keys 64 at a time. Keys and values are staged as 16-bit
// elements; those to come are on their way in registers meanwhile.
// HELD (see matmul/fragment.glsl): scores stay in the registers that they are summed in; four lanes share two rows, and
// weights become an operand where they are (as in FlashAttention-2). The next tile's scores are multiplied while this
// one's become weights (as in FlashAttention-3, here left to the compiler's scheduler: nothing branches in between).
// Without it scores go through shared memory as float, where each row belongs to LANES / 16 lanes, and come back as
// 16-bit weights in the same place; sums of values are then scaled when a maximum has grown by more than SLACK
// (FlashAttention-4's conditional rescaling), and weights stay below 2^SLACK.
// Defines: HD, HV (features of keys and values, padded to 16), WD (words of a staged row), LANES, TEAMS.
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
#include "lib/codecs.glsl"
#include "attention/attention.glsl"
#define THREADS (TEAMS * LANES)
layout(local_size_x = THREADS) in;

const uint BM = 16u * TEAMS, BN = 64u, SW = 17u;
#ifdef HELD
// Regions of `mem`: keys, values. Queries before them and results behind them take both.
const uint KEYS = 0u, VALUES = BN * WD, SCORES = 0u, ALL = max(2u * BN * WD, BM * max(SW, uint(WD)));
#else
// Regions of `mem`: staged rows, scores, factors.
const uint KEYS = 0u, VALUES = 0u, SCORES = BN * WD, FACTORS = SCORES + BM * SW, ALL = FACTORS + 4u * BM;
#endif
shared uvec4 mem[ALL];
#ifdef PLAIN
shared float pair[THREADS];
#endif

#include "matmul/fragment.glsl"

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
// The same for whole tiles that keep every lane busy: a lane's words are as many rows apart, `there` is where its first
// one lies in the first tile.
#define FETCH_TILE(part, words, base, step, first, rows, count, there)                           \
    if (THREADS % (words) == 0u && BN * (words) % THREADS == 0u && (rows) >= BN && (count) == 8u * (words)) { \
        uint64_t p = at(there, int64_t(first) * (step), A_SIZE);                                 \
        int64_t apart = int64_t(THREADS / (words)) * (step) * A_SIZE;                            \
        [[unroll]] for (uint i = 0u; i < PARTS(words); ++i) part[i] = Vec16(p + i * apart).v;    \
    } else {                                                                                     \
        FETCH(part, words, base, step, first, rows, count)                                       \
    }
#define FIRST_WORD(words, base, step)                                                            \
    at(base, int64_t(gl_LocalInvocationIndex / (words)) * (step) + gl_LocalInvocationIndex % (words) * 8u, A_SIZE)
#define PUT(part, words, to)                                                                     \
    [[unroll]] for (uint i = 0u; i < PARTS(words); ++i) {                                        \
        uint e = gl_LocalInvocationIndex + i * THREADS;                                          \
        if (BN * (words) % THREADS == 0u || e < BN * (words))                                    \
            mem[(to) + e / (words) * WD + e % (words)] = part[i];                                \
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
#ifdef HELD
#define SHARING(x, what)                                       \
    [[unroll]] for (uint m = 1u; m < 4u; m *= 2u) { float y = other(x, m); x = what; }
#else
#define SHARING(x, what)                                       \
    [[unroll]] for (uint m = 16u; m < LANES; m *= 2u) { float y = other(x, m); x = what; }
#endif
#ifdef PLAIN
float other(float x, uint m) {
    barrier();
    pair[gl_LocalInvocationIndex] = x;
    barrier();
    return pair[gl_LocalInvocationIndex ^ m];
}
bool none_of_them(bool x) { return false; }
#else
float other(float x, uint m) { return subgroupShuffleXor(x, m); }
bool none_of_them(bool x) {
    uint any = uint(x);
    [[unroll]] for (uint m = 1u; m < LANES; m *= 2u) any |= subgroupShuffleXor(any, m);
    return any == 0u;
}
#endif
float row_max(float x) {
    SHARING(x, max(x, y))
    return x;
}
float row_sum(float x) {
    SHARING(x, x + y)
    return x;
}

// Whether every row sees all keys of the tile as they are. Scores in units of log 2 are then products times a factor,
// which is applied with the maximum taken off where it is positive.
bool seen_by_all(uint first, uint end, uint low) {
#if defined(MASK_BOOL) || defined(MASK_ADD)
    return false;
#elif defined(CAUSAL)
    return first + BN <= end && int(first + BN) <= int(low) + 1 + int(a.n) - int(a.l);
#else
    return first + BN <= end;
#endif
}

#define MULTIPLY_KEYS(s)                                                                         \
    [[unroll]] for (uint m = 0u; m < 4u; ++m) {                                                  \
        zero_sums(s[m]);                                                                         \
        [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) {                                        \
            RIGHT x;                                                                             \
            load_right_transposed(x, KEYS + m * 16u * WD + k * 2u, WD);                              \
            multiply(q[k], x, s[m]);                                                             \
        }                                                                                        \
    }
#define MULTIPLY_VALUES(w)                                                                       \
    [[unroll]] for (uint f = 0u; f < HV / 16u; ++f) {                                            \
        [[unroll]] for (uint k = 0u; k < 4u; ++k) {                                              \
            RIGHT x;                                                                             \
            load_right(x, VALUES + k * 16u * WD + f * 2u, WD);                                   \
            multiply(w[k], x, o[f]);                                                             \
        }                                                                                        \
    }

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
    uint64_t kfirst = FIRST_WORD(WORDS_K, kbase, kstep), vfirst = FIRST_WORD(WORDS_V, vbase, vstep);

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

    // The row of this lane, and its columns of scores, or of results.
    uint r = sg * 16u + lane % 16u, c0 = lane / 16u * COLS;
    uint row = min(row0 + r, all - 1u), h = kv * a.group + row / l, qi = row % l;
#ifdef HELD
    uint hs[2], qs[2];
    float top[2], sum[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint mine = min(row0 + sg * 16u + held_row(4u * j), all - 1u);
        hs[j] = kv * a.group + mine / l;
        qs[j] = mine % l;
        top[j] = sink(hs[j]);
        sum[j] = top[j] == NEG_INF || lane % 4u != 0u ? 0.0 : 1.0;
    }
#else
    float top = sink(h), sum = top == NEG_INF || c0 != 0u ? 0.0 : 1.0;
#endif
    float units = a.scale * LOG2E;

    uvec4 next_k[PARTS(WORDS_K)], next_v[PARTS(WORDS_V)];
#ifdef HELD
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, 0u, end, d, kfirst)
    barrier();
    PUT(next_k, WORDS_K, KEYS)
    barrier();
    uint coming = min(BN, end - 1u);
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
    FETCH_TILE(next_v, WORDS_V, vbase, vstep, 0u, end, dv, vfirst)
    SUMS s[4];
    MULTIPLY_KEYS(s)
    for (uint first = 0u; first < end; first += BN) {
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        PUT(next_v, WORDS_V, VALUES)
        barrier();
        coming = min(first + 2u * BN, end - 1u);
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
        coming = min(first + BN, end - 1u);
        FETCH_TILE(next_v, WORDS_V, vbase, vstep, coming, end - coming, dv, vfirst)
        bool free = seen_by_all(first, end, low) && units > 0.0;
        float factor = free ? units : 1.0;
        if (!free) {
            [[unroll]] for (uint m = 0u; m < 4u; ++m)
                [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                    uint key = first + m * 16u + held_col(i);
                    element(s[m], i) = score(element(s[m], i), b, hs[i / 4u], qs[i / 4u], key, end);
                }
        }
        // No branch from here on: products of the tile ahead and arithmetic on this one fill each other's gaps.
        SUMS ahead[4];
        MULTIPLY_KEYS(ahead)
        float most[2] = float[](NEG_INF, NEG_INF), base[2], keep[2];
        [[unroll]] for (uint m = 0u; m < 4u; ++m)
            [[unroll]] for (uint i = 0u; i < 8u; ++i) most[i / 4u] = max(most[i / 4u], element(s[m], i));
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            most[j] = row_max(most[j] * factor);
            base[j] = max(most[j], top[j]);
            keep[j] = top[j] == base[j] ? 1.0 : exp2(top[j] - base[j]);
            sum[j] *= keep[j];
            top[j] = base[j];
            base[j] = finite(base[j]);
        }
        [[unroll]] for (uint m = 0u; m < 4u; ++m)
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                float x = exp2(fma(element(s[m], i), factor, -base[i / 4u]));
                sum[i / 4u] += x;
                element(s[m], i) = x;
            }
        [[unroll]] for (uint f = 0u; f < HV / 16u; ++f)
            [[unroll]] for (uint i = 0u; i < 8u; ++i) element(o[f], i) *= keep[i / 4u];
        LEFT w[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k) left_of_sums(w[k], s[k]);
        MULTIPLY_VALUES(w)
        [[unroll]] for (uint m = 0u; m < 4u; ++m) s[m] = ahead[m];
    }
#else
    for (uint first = 0u; first < end; first += BN) {
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, first, end - first, d, kfirst)
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        FETCH_TILE(next_v, WORDS_V, vbase, vstep, first, end - first, dv, vfirst)
        barrier();
        bool free = seen_by_all(first, end, low) && units > 0.0;
        float factor = free ? units : 1.0;
        [[unroll]] for (uint m = 0u; m < 4u; ++m) {
            SUMS s;
            zero_sums(s);
            [[unroll]] for (uint k = 0u; k < HD / 16u; ++k) {
                RIGHT x;
                load_right_transposed(x, m * 16u * WD + k * 2u, WD);
                multiply(q[k], x, s);
            }
            store_sums(s, SCORES + sg * 16u * SW + m * 4u, SW);
        }
        barrier();
        PUT(next_v, WORDS_V, VALUES)
        float s[COLS], most = NEG_INF;
        [[unroll]] for (uint c = 0u; c < COLS; c += 4u) {
            vec4 x = uintBitsToFloat(mem[SCORES + r * SW + (c0 + c) / 4u]);
            [[unroll]] for (uint k = 0u; k < 4u; ++k) s[c + k] = x[k];
        }
        if (!free)
            [[unroll]] for (uint c = 0u; c < COLS; ++c) s[c] = score(s[c], b, h, qi, first + c0 + c, end);
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
        MULTIPLY_VALUES(w)
    }
#endif

#ifdef HELD
    float f = 1.0;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) sum[j] = 1.0 / row_sum(sum[j]);
    [[unroll]] for (uint k = 0u; k < HV / 16u; ++k)
        [[unroll]] for (uint i = 0u; i < 8u; ++i) element(o[k], i) *= sum[i / 4u];
#else
    float f = 1.0 / row_sum(sum);
#endif
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
