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
#include "attention/preamble.glsl"
#include "attention/attention.glsl"

const uint BN = 64u;
#ifdef HELD
// Regions of `mem`: keys, values. Queries before them and results behind them take both.
const uint KEYS = 0u, VALUES = BN * WD, SCORES = 0u, ALL = max(2u * BN * WD, BM * max(SW, uint(WD)));
#else
// Regions of `mem`: staged rows, scores, factors.
const uint KEYS = 0u, VALUES = 0u, SCORES = BN * WD, FACTORS = SCORES + BM * SW, ALL = FACTORS + 4u * BM;
#endif
shared uvec4 mem[ALL];

#include "matmul/fragment.glsl"
#include "attention/stage.glsl"
#include "attention/mask.glsl"

const float SLACK = 8.0;

// Weights as elements, rounded to nearest. They are not negative; NaN reaches the result through the sum.
uvec4 weights(float w[8]) {
    uvec4 v;
    EACH for (uint k = 0u; k < 4u; ++k) {
#ifdef B_BF16
        uint lo = floatBitsToUint(w[2u * k]) + 0x8000u, hi = floatBitsToUint(w[2u * k + 1u]) + 0x8000u;
        v[k] = (lo >> 16) | (hi & 0xffff0000u);
#else
        v[k] = packHalf2x16(vec2(w[2u * k], w[2u * k + 1u]));
#endif
    }
    return v;
}

#ifdef PLAIN
bool none_of_them(bool x) { return false; }
#else
bool none_of_them(bool x) {
    uint any = uint(x);
    EACH for (uint m = 1u; m < LANES; m *= 2u) any |= subgroupShuffleXor(any, m);
    return any == 0u;
}
#endif

// Whether every row sees all keys of the tile as they are. Scores in units of log 2 are then products times a factor,
// which is applied with the maximum taken off where it is positive.
bool seen_by_all(uint first, uint end, uint low, uint bits) {
#if defined(MASK_BOOL) || defined(MASK_ADD)
    return first + BN <= end && bits == SEEN;
#elif defined(CAUSAL)
    return first + BN <= end && int(first + BN) <= int(low) + 1 + int(a.n) - int(a.l);
#else
    return first + BN <= end;
#endif
}

// The mask of a lane's scores: pair j is that of columns from held_col(j & 2) on in row held_row(4 (j & 1)).
#define READ_PAIRS                                                                               \
    EACH for (uint j = 0u; j < 16u; ++j)                                                         \
        pairs[j] = mask_pair(masks[j & 1u], first + j / 4u * 16u + held_col(j & 2u));

#define MULTIPLY_KEYS(s)                                                                         \
    EACH for (uint m = 0u; m < 4u; ++m) {                                                        \
        zero_sums(s[m]);                                                                         \
        EACH for (uint k = 0u; k < HD / 16u; ++k) {                                              \
            RIGHT x;                                                                             \
            load_right_transposed(x, KEYS + m * 16u * WD + k * 2u, WD);                          \
            multiply(q[k], x, s[m]);                                                             \
        }                                                                                        \
    }
#define MULTIPLY_VALUES(w)                                                                       \
    EACH for (uint f = 0u; f < HV / 16u; ++f) {                                                  \
        EACH for (uint k = 0u; k < 4u; ++k) {                                                    \
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
    uint low = one ? row0 % l : 0u, high = one ? (row0 + rows - 1u) % l : l - 1u;
#ifdef CAUSAL
    // No row sees more keys than its last query; a row that sees none takes all.
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
    EACH for (uint k = 0u; k < HD / 16u; ++k) load_left(q[k], sg * 16u * WD + k * 2u, WD);
    SUMS o[HV / 16u];
    EACH for (uint f = 0u; f < HV / 16u; ++f) zero_sums(o[f]);

    // The row of this lane, and its columns of scores, or of results.
    uint r = sg * 16u + lane % 16u, c0 = lane / 16u * COLS;
    uint row = min(row0 + r, all - 1u), h = kv * a.group + row / l, qi = row % l;
#ifdef HELD
    uint hs[2], qs[2];
    float top[2], sum[2];
#ifdef PAIRS
    uint64_t masks[2];
#endif
    EACH for (uint j = 0u; j < 2u; ++j) {
        uint mine = min(row0 + sg * 16u + held_row(4u * j), all - 1u);
        hs[j] = kv * a.group + mine / l;
        qs[j] = mine % l;
        top[j] = sink(hs[j]);
        sum[j] = top[j] == NEG_INF || lane % 4u != 0u ? 0.0 : 1.0;
#ifdef PAIRS
        masks[j] = mask_row(b, hs[j], qs[j]);
#endif
    }
#else
    float top = sink(h), sum = top == NEG_INF || c0 != 0u ? 0.0 : 1.0;
#endif
    float units = a.scale * LOG2E;

    uvec4 next_k[PARTS(WORDS_K)], next_v[PARTS(WORDS_V)];
#ifdef HELD
    uint bits, after_bits, third_bits, fourth_bits;
    Walk walk = Walk(one ? blocks_of(b, hs[0]) : 0ul, low, high, end, ~0u, 0u);
    uint first = next_block(walk, 0u, bits), after = next_block(walk, first + BN, after_bits);
    uint third = next_block(walk, after + BN, third_bits);
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, first, end - first, d, kfirst)
    barrier();
    PUT(next_k, WORDS_K, KEYS)
    barrier();
    uint coming = min(after, end - 1u);
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
    FETCH_TILE(next_v, WORDS_V, vbase, vstep, first, end - first, dv, vfirst)
    SUMS s[4];
    MULTIPLY_KEYS(s)
    while (first < end) {
        bool free = seen_by_all(first, end, low, bits) && units > 0.0;
#ifdef PAIRS
        uint pairs[16];
#ifdef EARLY
        if (!free) READ_PAIRS
#endif
#endif
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        PUT(next_v, WORDS_V, VALUES)
        barrier();
        coming = min(third, end - 1u);
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
        coming = min(after, end - 1u);
        FETCH_TILE(next_v, WORDS_V, vbase, vstep, coming, end - coming, dv, vfirst)
        float factor = free ? units : 1.0;
        if (!free) {
#if defined(PAIRS) && !defined(EARLY)
            READ_PAIRS
#endif
            EACH for (uint m = 0u; m < 4u; ++m)
                EACH for (uint i = 0u; i < 8u; ++i) {
                    uint key = first + m * 16u + held_col(i);
#ifdef PAIRS
                    uint x = of_pair(pairs[4u * m + (i & 2u) + i / 4u], i & 1u);
                    element(s[m], i) = key < end ? with_mask(element(s[m], i) * units, x) : NEG_INF;
#else
                    element(s[m], i) = score(element(s[m], i), b, hs[i / 4u], qs[i / 4u], key, end);
#endif
                }
        }
        uint fourth = next_block(walk, third + BN, fourth_bits);
        // No branch from here on: products of the tile ahead and arithmetic on this one fill each other's gaps.
        SUMS ahead[4];
        MULTIPLY_KEYS(ahead)
        float most[2] = float[](NEG_INF, NEG_INF), base[2], keep[2];
        EACH for (uint m = 0u; m < 4u; ++m)
            EACH for (uint i = 0u; i < 8u; ++i) most[i / 4u] = max(most[i / 4u], element(s[m], i));
        EACH for (uint j = 0u; j < 2u; ++j) {
            most[j] = row_max(most[j] * factor);
            base[j] = max(most[j], top[j]);
            keep[j] = top[j] == base[j] ? 1.0 : exp2(top[j] - base[j]);
            sum[j] *= keep[j];
            top[j] = base[j];
            base[j] = finite(base[j]);
        }
        EACH for (uint m = 0u; m < 4u; ++m)
            EACH for (uint i = 0u; i < 8u; ++i) {
                float x = exp2(fma(element(s[m], i), factor, -base[i / 4u]));
                sum[i / 4u] += x;
                element(s[m], i) = x;
            }
        EACH for (uint f = 0u; f < HV / 16u; ++f)
            EACH for (uint i = 0u; i < 8u; ++i) element(o[f], i) *= keep[i / 4u];
        LEFT w[4];
        EACH for (uint k = 0u; k < 4u; ++k) left_of_sums(w[k], s[k]);
        MULTIPLY_VALUES(w)
        EACH for (uint m = 0u; m < 4u; ++m) s[m] = ahead[m];
        first = after;
        after = third;
        third = fourth;
        bits = after_bits;
        after_bits = third_bits;
        third_bits = fourth_bits;
    }
#else
    for (uint first = 0u; first < end; first += BN) {
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, first, end - first, d, kfirst)
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        FETCH_TILE(next_v, WORDS_V, vbase, vstep, first, end - first, dv, vfirst)
        barrier();
        bool free = seen_by_all(first, end, low, SEEN | OTHER) && units > 0.0;
        float factor = free ? units : 1.0;
        EACH for (uint m = 0u; m < 4u; ++m) {
            SUMS s;
            zero_sums(s);
            EACH for (uint k = 0u; k < HD / 16u; ++k) {
                RIGHT x;
                load_right_transposed(x, m * 16u * WD + k * 2u, WD);
                multiply(q[k], x, s);
            }
            store_sums(s, SCORES + sg * 16u * SW + m * 4u, SW);
        }
        barrier();
        PUT(next_v, WORDS_V, VALUES)
        float s[COLS], most = NEG_INF;
        EACH for (uint c = 0u; c < COLS; c += 4u) {
            vec4 x = uintBitsToFloat(mem[SCORES + r * SW + (c0 + c) / 4u]);
            EACH for (uint k = 0u; k < 4u; ++k) s[c + k] = x[k];
        }
        if (!free)
            EACH for (uint c = 0u; c < COLS; ++c) s[c] = score(s[c], b, h, qi, first + c0 + c, end);
        EACH for (uint c = 0u; c < COLS; ++c) most = max(most, s[c]);
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
        EACH for (uint c = 0u; c < COLS; c += 8u) {
            float w[8];
            EACH for (uint k = 0u; k < 8u; ++k) {
                w[k] = exp2(fma(s[c + k], factor, -base));
                sum += w[k];
            }
            mem[SCORES + r * SW + (c0 + c) / 8u] = weights(w);
        }
        bool same = none_of_them(grown);
        if (!same) {
            EACH for (uint i = 0u; i < 4u / SHARERS; ++i)
                mem[FACTORS + r * 4u + lane / 16u * (4u / SHARERS) + i] = uvec4(floatBitsToUint(keep));
        }
        barrier();
        if (!same) {
            SUMS keeps;
            load_sums(keeps, FACTORS + sg * 64u, 4u);
            EACH for (uint f = 0u; f < HV / 16u; ++f) scale_sums(o[f], keeps);
        }
        LEFT w[4];
        EACH for (uint k = 0u; k < 4u; ++k) load_left(w[k], SCORES + sg * 16u * SW + k * 2u, SW);
        MULTIPLY_VALUES(w)
    }
#endif

#ifdef HELD
    float f = 1.0;
    EACH for (uint j = 0u; j < 2u; ++j) {
        sum[j] = row_sum(sum[j]);
#ifdef KEPT
        // For the gradient.
        if (row0 + sg * 16u + held_row(4u * j) < all && lane % 4u == 0u)
            Floats(a.parts + extent_at(b, hs[j], qs[j])).v[0] = extent_of(top[j], sum[j]);
#endif
        sum[j] = 1.0 / sum[j];
    }
    EACH for (uint k = 0u; k < HV / 16u; ++k)
        EACH for (uint i = 0u; i < 8u; ++i) element(o[k], i) *= sum[i / 4u];
#else
    float f = 1.0 / row_sum(sum);
#endif
    uint64_t to = a.dst + ((uint64_t(b) * a.kv * a.group + h) * l + qi) * dv * B_SIZE;
    WRITE_ROWS(o, HV, dv, to, f, row0 + r < all)
}
