#version 460
// The gradient of attention's queries. A workgroup takes 16 rows a subgroup of the heads that share a key head, and walks
// their keys BN at a time; before that for the extent of each row, if attention did not keep it (KEPT). It writes extents,
// and what all weights of a row share of their cotangents, for sdpa_grad_kv.comp. Matrices stay in registers as in
// sdpa_coop.comp with HELD. Defines: HD, HV (features of keys and values, padded to 16), WD (words of a staged row), LANES,
// TEAMS, BN.
#define GRADIENT
#include "attention/preamble.glsl"
#include "attention/attention.glsl"

const uint KEYS = 0u, VALUES = BN * WD, SCORES = 0u, ALL = max(2u * BN * WD, BM * max(SW, uint(WD)));
shared uvec4 mem[ALL];
shared float sums[THREADS];

#include "matmul/fragment.glsl"
#include "attention/stage.glsl"
#include "attention/mask.glsl"
#include "attention/grad.glsl"

const uint FRAGMENTS = BN / 16u;

// What of a row's result and its cotangent a lane sees, by SHARERS lanes a row.
float share(uint64_t cot, uint64_t result, uint part, uint count) {
    float sum = 0.0;
    for (uint c = part * 8u; c < count; c += SHARERS * 8u) {
        uvec4 x = Vec16(cot + 2ul * c).v, y = Vec16(result + 2ul * c).v;
        EACH for (uint k = 0u; k < 8u; ++k) sum = fma(a_elem(x, k), a_elem(y, k), sum);
    }
    return sum;
}

bool all_seen(uint first, uint end, uint low, uint bits) {
#if defined(MASK_BOOL) || defined(MASK_ADD)
    return first + BN <= end && bits == SEEN;
#elif defined(CAUSAL)
    return first + BN <= end && int(first + BN) <= int(low) + 1 + int(a.n) - int(a.l);
#else
    return first + BN <= end;
#endif
}

// Scores of the tile in units of log 2; those that are taken out become the lowest number.
#ifdef PAIRS
#define READ_PAIRS(m)                                                                            \
    EACH for (uint j = 0u; j < 4u; ++j)                                                          \
        pairs[4u * (m) + j] = mask_pair(masks[j & 1u], first + (m) * 16u + held_col(j & 2u));
#define SCORE(s, m, i, key)                                                                      \
    (with_mask((s) * units, of_pair(pairs[4u * (m) + ((i) & 2u) + (i) / 4u], (i) & 1u)))
#else
#define READ_PAIRS(m)
#define SCORE(s, m, i, key) score(s, b, hs[(i) / 4u], qs[(i) / 4u], key, end)
#endif
#define UNITS_OF_LOG2(s)                                                                         \
    EACH for (uint m = 0u; m < FRAGMENTS; ++m) { READ_PAIRS(m) }                                 \
    EACH for (uint m = 0u; m < FRAGMENTS; ++m)                                                   \
        EACH for (uint i = 0u; i < 8u; ++i) {                                                    \
            uint key = first + m * 16u + held_col(i);                                            \
            element(s[m], i) = key < end ? SCORE(element(s[m], i), m, i, key) : NEG_INF;         \
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

#define COT(row)                                                                                 \
    at(grad.cot, int64_t(b) * grad.cs[0] + int64_t(kv * a.group + (row) / l) * grad.cs[1]        \
                     + int64_t((row) % l) * grad.cs[2], A_SIZE)
    LEFT q[HD / 16u], cot[HV / 16u];
    LOAD_ROWS(q, WORDS_K, d, all, q_row(b, kv * a.group + row / l, row % l))
    LOAD_ROWS(cot, WORDS_V, dv, all, COT(row))
    {
        uint t = gl_LocalInvocationIndex, row = min(row0 + t / SHARERS, all - 1u);
        uint64_t result = (uint64_t(b) * a.kv * a.group + kv * a.group + row / l) * l + row % l;
        sums[t] = share(COT(row), a.dst + result * dv * A_SIZE, t % SHARERS, dv);
    }
    barrier();

    uint hs[2], qs[2];
    float top[2], sum[2], shared_[2];
#ifdef PAIRS
    uint64_t masks[2];
#endif
    EACH for (uint j = 0u; j < 2u; ++j) {
        uint place = sg * 16u + held_row(4u * j), mine = min(row0 + place, all - 1u);
        hs[j] = kv * a.group + mine / l;
        qs[j] = mine % l;
        top[j] = NEG_INF;
        sum[j] = shared_[j] = 0.0;
        EACH for (uint k = 0u; k < SHARERS; ++k) shared_[j] += sums[place * SHARERS + k];
#ifdef PAIRS
        masks[j] = mask_row(b, hs[j], qs[j]);
#endif
    }
    float units = a.scale * LOG2E;
    Walk whole = Walk(one ? blocks_of(b, hs[0]) : 0ul, low, high, end, ~0u, 0u), walk = whole;
    uint bits, after_bits;

    uvec4 next_k[PARTS(WORDS_K)], next_v[PARTS(WORDS_V)];
    uint first = next_block(walk, 0u, bits);
#ifndef KEPT
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, first, end - first, d, kfirst)
    while (first < end) {
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        barrier();
        uint after = next_block(walk, first + BN, after_bits), coming = min(after, end - 1u);
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
        bool free = all_seen(first, end, low, bits) && units > 0.0;
        float factor = free ? units : 1.0;
        SUMS s[FRAGMENTS];
        EACH for (uint m = 0u; m < FRAGMENTS; ++m) { PRODUCTS(s[m], q, HD, KEYS + m * 16u * WD) }
#ifdef PAIRS
        uint pairs[4u * FRAGMENTS];
#endif
        if (!free) { UNITS_OF_LOG2(s) }
        float most[2] = float[](NEG_INF, NEG_INF), base[2];
        EACH for (uint m = 0u; m < FRAGMENTS; ++m)
            EACH for (uint i = 0u; i < 8u; ++i) most[i / 4u] = max(most[i / 4u], element(s[m], i));
        EACH for (uint j = 0u; j < 2u; ++j) {
            base[j] = max(row_max(most[j] * factor), top[j]);
            sum[j] *= top[j] == base[j] ? 1.0 : exp2(top[j] - base[j]);
            top[j] = base[j];
            base[j] = finite(base[j]);
        }
        EACH for (uint m = 0u; m < FRAGMENTS; ++m)
            EACH for (uint i = 0u; i < 8u; ++i)
                sum[i / 4u] += exp2(fma(element(s[m], i), factor, -base[i / 4u]));
        first = after;
        bits = after_bits;
    }
    walk = whole;
    first = next_block(walk, 0u, bits);
#endif
    float off[2], out_[2];
    EACH for (uint j = 0u; j < 2u; ++j) {
        uint64_t to = extent_at(b, hs[j], qs[j]);
        bool writes = row0 + sg * 16u + held_row(4u * j) < all && lane % 4u == 0u;
#ifdef KEPT
        float extent = Floats(grad.extents + to).v[0];
#else
        float extent = extent_of(top[j], row_sum(sum[j]));
        if (writes) Floats(grad.extents + to).v[0] = extent;
#endif
        if (writes) Floats(grad.shares + to).v[0] = shared_[j];
        off[j] = taken_off(extent);
        out_[j] = taken_out(extent);
    }

    SUMS o[HD / 16u];
    EACH for (uint f = 0u; f < HD / 16u; ++f) zero_sums(o[f]);
    FETCH_TILE(next_k, WORDS_K, kbase, kstep, first, end - first, d, kfirst)
    FETCH_TILE(next_v, WORDS_V, vbase, vstep, first, end - first, dv, vfirst)
    while (first < end) {
#ifdef PAIRS
        uint pairs[4u * FRAGMENTS];
#endif
        bool free = all_seen(first, end, low, bits) && units > 0.0;
#ifdef EARLY
        if (!free)
            EACH for (uint m = 0u; m < FRAGMENTS; ++m) { READ_PAIRS(m) }
#endif
        barrier();
        PUT(next_k, WORDS_K, KEYS)
        PUT(next_v, WORDS_V, VALUES)
        barrier();
        uint after = next_block(walk, first + BN, after_bits), coming = min(after, end - 1u);
        FETCH_TILE(next_k, WORDS_K, kbase, kstep, coming, end - coming, d, kfirst)
        FETCH_TILE(next_v, WORDS_V, vbase, vstep, coming, end - coming, dv, vfirst)
        float factor = free ? units : 1.0;
        EACH for (uint m = 0u; m < FRAGMENTS; ++m) {
            SUMS s, g;
            PRODUCTS(s, q, HD, KEYS + m * 16u * WD)
            PRODUCTS(g, cot, HV, VALUES + m * 16u * WD)
            if (!free) {
#ifndef EARLY
                READ_PAIRS(m)
#endif
                EACH for (uint i = 0u; i < 8u; ++i) {
                    uint key = first + m * 16u + held_col(i);
                    float x = key < end ? SCORE(element(s, i), m, i, key) : NEG_INF, gone = REPLACES ? NEG_INF : out_[i / 4u];
                    element(s, i) = x == LOWEST ? gone : x;
                }
            }
            EACH for (uint i = 0u; i < 8u; ++i) {
                float w = exp2(fma(element(s, i), factor, -off[i / 4u]));
                element(s, i) = w * (element(g, i) - shared_[i / 4u]);
            }
            LEFT w;
            left_of_sums(w, s);
            ADD_FEATURES(o, w, HD, KEYS + m * 16u * WD)
        }
        first = after;
        bits = after_bits;
    }

    uint r = sg * 16u + lane % 16u, c0 = lane / 16u * COLS;
    uint row = min(row0 + r, all - 1u);
    uint64_t to = grad.dq + ((uint64_t(b) * a.kv * a.group + kv * a.group + row / l) * l + row % l) * d * B_SIZE;
    WRITE_ROWS(o, HD, d, to, a.scale, row0 + r < all)
}
