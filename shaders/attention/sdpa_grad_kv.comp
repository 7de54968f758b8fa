#version 460
// The gradients of attention's keys and values. A workgroup takes 16 keys a subgroup, and walks the queries of all heads
// that share their head, BN at a time, in one order: sums do not change from run to run. Extents of rows, and what their
// weights share, come from sdpa_grad_q.comp. Scores lie turned over: keys are rows of a matrix. Defines: HD, HV
// (features of keys and values, padded to 16), WD (words of a staged row), LANES, TEAMS, BN.
#define GRADIENT
#include "attention/preamble.glsl"
#include "attention/attention.glsl"

const uint QUERIES = 0u, COTS = BN * WD, SCORES = 0u, ALL = max(2u * BN * WD, BM * max(SW, uint(WD)));
shared uvec4 mem[ALL];
// Of the staged rows: what is taken off scores, what the cotangents of weights share, the score of a key taken out.
shared float offs[BN], shares[BN], outs[BN];

#include "matmul/fragment.glsl"
#include "attention/stage.glsl"
#include "attention/mask.glsl"
#include "attention/grad.glsl"

const uint FRAGMENTS = BN / 16u;

bool all_seen(uint query, uint key, uint bits) {
#if defined(MASK_BOOL) || defined(MASK_ADD)
    return bits == SEEN;
#elif defined(CAUSAL)
    return int(key + BM) <= int(query) + 1 + int(a.n) - int(a.l);
#else
    return true;
#endif
}

// What is in the mask (see mask.glsl) of the staged queries from `query` on and the keys of this workgroup.
uint tile_bits(uint b, uint h, uint query, uint key) {
    uint bits = SEEN | OTHER;
#ifdef PAIRS
    uint64_t blocks = blocks_of(b, h);
    if (blocks != 0ul) {
        uint word = word_of(blocks, query, min(query + BN, a.l) - 1u, key);
        bits = 0u;
        EACH for (uint j = 0u; j < BM; j += BLOCK)
            if (key + j < a.n) bits |= in_word(word, key + j);
    }
#endif
    return bits;
}

// The mask of eight elements of fragment m, two a word.
#if defined(MASK_BOOL) || defined(MASK_ADD)
#define READ_MASK(m)                                                                             \
    EACH for (uint i = 0u; i < 8u; ++i) {                                                        \
        uint c = min(query + (m) * 16u + held_col(i), l - 1u);                                   \
        uint x = mask_bits(mask_row(b, h, c), min(row0 + sg * 16u + held_row(i), n - 1u));       \
        uint to = 4u * (m) + i / 2u;                                                             \
        masks[to] = (i & 1u) == 0u ? x : masks[to] | x << 16u;                                   \
    }
#else
#define READ_MASK(m)
#endif

void main() {
    uint lane = frag_lane(), sg = frag_group();
    uint l = a.l, n = a.n, d = a.d, dv = a.dv;
    uint tiles = (n + BM - 1u) / BM;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint row0 = id % tiles * BM, line = id / tiles;
    uint kv = line % a.kv, b = line / a.kv;
    if (b >= a.batch) return;
    uint rows = min(BM, n - row0), begin = 0u;
#ifdef CAUSAL
    // Queries that see none of the keys take part where they see no key at all.
    if (n >= l && row0 > n - l) begin = (row0 - (n - l)) / BN * BN;
#endif
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);
    LEFT keys[HD / 16u], values[HV / 16u];
    LOAD_ROWS(keys, WORDS_K, d, n, at(kbase, int64_t(row) * a.ks[2], A_SIZE))
    LOAD_ROWS(values, WORDS_V, dv, n, at(vbase, int64_t(row) * a.vs[2], A_SIZE))
    SUMS dk[HD / 16u], dw[HV / 16u];
    EACH for (uint f = 0u; f < HD / 16u; ++f) zero_sums(dk[f]);
    EACH for (uint f = 0u; f < HV / 16u; ++f) zero_sums(dw[f]);
    float units = a.scale * LOG2E;
    int64_t qstep = a.qs[2], cstep = grad.cs[2];

    // Tiles of queries, head by head: `t` is one of head `t / steps`.
    uint steps = (l - min(begin, l) + BN - 1u) / BN, end = steps * a.group;
    uvec4 next_q[PARTS(WORDS_K)], next_c[PARTS(WORDS_V)];
    float next_off = 0.0, next_share = 0.0;
// The first tile from `t` on that adds something, and what is in its mask.
#define NEXT_TILE(t, bits)                                                                       \
    for (; (t) < end; ++(t)) {                                                                   \
        bits = tile_bits(b, kv * a.group + (t) / steps, begin + (t) % steps * BN, row0);         \
        if (bits != OTHER) break;                                                                \
    }
#define FETCH_QUERIES(t)                                                                         \
    {                                                                                            \
        uint h_ = kv * a.group + (t) / steps, q_ = begin + (t) % steps * BN;                     \
        uint64_t qbase = at(a.q, int64_t(b) * a.qs[0] + int64_t(h_) * a.qs[1], A_SIZE);          \
        uint64_t cbase = at(grad.cot, int64_t(b) * grad.cs[0] + int64_t(h_) * grad.cs[1], A_SIZE);\
        uint64_t qfirst = FIRST_WORD(WORDS_K, qbase, qstep), cfirst = FIRST_WORD(WORDS_V, cbase, cstep);\
        FETCH_TILE(next_q, WORDS_K, qbase, qstep, q_, l - q_, d, qfirst)                         \
        FETCH_TILE(next_c, WORDS_V, cbase, cstep, q_, l - q_, dv, cfirst)                        \
        if (gl_LocalInvocationIndex < BN) {                                                      \
            uint i = q_ + gl_LocalInvocationIndex;                                               \
            uint64_t p = extent_at(b, h_, min(i, l - 1u));                                       \
            next_off = i < l ? Floats(grad.extents + p).v[0] : -LOWEST;                          \
            next_share = Floats(grad.shares + p).v[0];                                           \
        }                                                                                        \
    }
    uint t = 0u, bits = 0u, after_bits = 0u;
    NEXT_TILE(t, bits)
    while (t < end) {
        FETCH_QUERIES(t)
        barrier();
        PUT(next_q, WORDS_K, QUERIES)
        PUT(next_c, WORDS_V, COTS)
        if (gl_LocalInvocationIndex < BN) {
            // Rows behind the last have no weight: nothing reaches their extent.
            bool there = next_off < -LOWEST;
            offs[gl_LocalInvocationIndex] = there ? taken_off(next_off) : next_off;
            outs[gl_LocalInvocationIndex] = there ? taken_out(next_off) : NEG_INF;
            shares[gl_LocalInvocationIndex] = next_share;
        }
        barrier();
        uint h = kv * a.group + t / steps, query = begin + t % steps * BN, after = t + 1u;
        NEXT_TILE(after, after_bits)
        bool free = all_seen(query, row0, bits) && units > 0.0;
        float factor = free ? units : 1.0;
        uint masks[4u * FRAGMENTS];
#ifdef EARLY
        if (!free)
            EACH for (uint m = 0u; m < FRAGMENTS; ++m) { READ_MASK(m) }
#endif
        EACH for (uint m = 0u; m < FRAGMENTS; ++m) {
            SUMS s, g;
            PRODUCTS(s, keys, HD, QUERIES + m * 16u * WD)
            PRODUCTS(g, values, HV, COTS + m * 16u * WD)
            if (!free) {
#ifndef EARLY
                READ_MASK(m)
#endif
                EACH for (uint i = 0u; i < 8u; ++i) {
                    uint c = m * 16u + held_col(i);
                    float x = element(s, i) * units;
#if defined(MASK_BOOL) || defined(MASK_ADD)
                    x = with_mask(x, (masks[4u * m + i / 2u] >> (16u * (i & 1u))) & 0xffffu);
#elif defined(CAUSAL)
                    int last = int(query + c) + int(n) - int(l);
                    x = int(row0 + sg * 16u + held_row(i)) > last ? LOWEST : x;
#endif
                    bool gone = x == LOWEST;
                    element(s, i) = gone ? outs[c] : x;
                    if (REPLACES) element(g, i) = gone ? shares[c] : element(g, i);
                }
            }
            EACH for (uint i = 0u; i < 8u; ++i) {
                uint c = m * 16u + held_col(i);
                float w = exp2(fma(element(s, i), factor, -offs[c]));
                element(s, i) = w;
                element(g, i) = w * (element(g, i) - shares[c]);
            }
            LEFT w, y;
            left_of_sums(w, s);
            left_of_sums(y, g);
            ADD_FEATURES(dw, w, HV, COTS + m * 16u * WD)
            ADD_FEATURES(dk, y, HD, QUERIES + m * 16u * WD)
        }
        t = after;
        bits = after_bits;
    }

    uint r = sg * 16u + lane % 16u, c0 = lane / 16u * COLS;
    uint64_t to = (uint64_t(b) * a.kv + kv) * n + min(row0 + r, n - 1u);
    WRITE_ROWS(dk, HD, d, grad.dk + to * d * B_SIZE, a.scale, row0 + r < n)
    WRITE_ROWS(dw, HV, dv, grad.dv + to * dv * B_SIZE, 1.0, row0 + r < n)
}
