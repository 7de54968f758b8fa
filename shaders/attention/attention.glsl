// What the attention kernels share: arguments, loads of features and the treatment of a score. Scores are kept in
// units of log 2, so that weights are powers of two. A row is a head of a key head's group and a query: row = head in
// group * l + query. Macros used: codecs A (operands) and B (result), VEC, MASK_BOOL, MASK_ADD, CAUSAL.
#ifdef TOKEN
// Of sdpa_token.comp: what is loaded first stands first. Steps are bytes, and what they lead to lies within 2 GiB.
struct TokenArgs {
    uint64_t q, key, q_weight, k_weight, table, k, v, value;
    uint qs[2], key_s[2], ks[3], vs[3], value_s[2]; // from one batch, head and key to the next
    uint n, group, place, span;
    int tstep, start;
    float pace, sign, scale, eps;
    uint features; // not known to the compiler, so that norm.comp computes the same
    uint pad;
    uint64_t parts, heads, counters, dst, sinks;
    int sink_step;
#ifdef TURNS
    int ostep;
    uint64_t mask, starts; // as in FreshArgs; no starts where all are `start`
    uint ms[3];
#endif
};
#define ALL_ARGUMENTS TokenArgs
#elif defined(FRESH)
// Of attention/fresh.glsl, for queries of one position and arrays whose features follow each other.
struct FreshArgs {
    uint64_t q, k, v, mask, sinks, dst, parts, counters;
    uint64_t key, value;         // the newest rows, which are kept among the others
    uint64_t q_weight, k_weight; // of normalisations; 0 for none
    uint64_t table, starts;      // as in rope_rows.comp
    int qs[2], ks[3], vs[3], ms[4], key_s[2], value_s[2]; // elements from one batch, head and key to the next
    int sink_step, start, tstep, ostep;
    uint batch, kv, group, n, rows, splits, span;
    uint place;    // of the newest key among all
    uint features; // not known to the compiler, so that norm.comp computes the same
    float scale, pace, sign, eps;
};
#define ALL_ARGUMENTS FreshArgs
#else
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Args {
    uint64_t q, k, v, mask, sinks, dst, parts, counters, blocks;
    int64_t qs[4], ks[4], vs[4], ms[4];
    int64_t sink_step;
    // Batch, key heads, heads of a group, queries, keys, features of keys and values, rows of a group.
    uint batch, kv, group, l, n, d, dv, rows;
    // Parts that the keys are cut into, and keys of a part.
    uint splits, span;
    float scale;
    // Tables of blocks (see mask.glsl) from one batch, and one head, to the next.
    uint block_steps[2];
};

// The cotangent of results, the gradients, and two floats of each row (see sdpa_grad_q.comp).
struct Gradient {
    uint64_t cot, dq, dk, dv, extents, shares;
    int64_t cs[3];
};

layout(push_constant, scalar) uniform Push {
    Args a;
#ifdef GRADIENT
    Gradient grad;
#endif
};
#define GET_ARGUMENTS
#endif
#ifdef ALL_ARGUMENTS
#ifdef PUSHED
layout(push_constant, scalar) uniform Push { ALL_ARGUMENTS a; };
#define GET_ARGUMENTS
#else
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Kept { ALL_ARGUMENTS v; };
layout(push_constant, scalar) uniform Push { Kept kept; };
ALL_ARGUMENTS a;
#define GET_ARGUMENTS a = kept.v;
#endif
#endif

// Parts of results, which one workgroup writes and another reads.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Floats { float v[]; };

#define NEG_INF uintBitsToFloat(0xff800000u)
#define LOWEST (-3.4028234663852886e38)
const float LOG2E = 1.44269504088896341;

#ifdef VEC
const uint V = A_VEC;
#else
const uint V = 1u;
#endif

// V features from i on of the row at p, zero past its end.
void features(uint64_t p, uint i, uint count, int64_t step, out float x[V]) {
#ifdef VEC
    uvec4 c = i < count ? Vec16(p + uint64_t(i) * A_SIZE).v : uvec4(0u);
    [[unroll]] for (uint k = 0u; k < V; ++k) x[k] = a_elem(c, k);
#else
    x[0] = i < count ? a_load(at(p, int64_t(i) * step, A_SIZE)) : 0.0;
#endif
}

#ifndef TOKEN
uint64_t q_row(uint b, uint h, uint i) {
#ifdef FRESH
    return at(a.q, int64_t(b) * a.qs[0] + int64_t(h) * a.qs[1], A_SIZE);
#else
    return at(a.q, int64_t(b) * a.qs[0] + int64_t(h) * a.qs[1] + int64_t(i) * a.qs[2], A_SIZE);
#endif
}
#endif

// A score and what is added to it; the lowest numbers must stay finite.
float plus(float s, float x) { return x < -2e38 && x > NEG_INF ? LOWEST : s + x * LOG2E; }

#ifndef TOKEN
// The score of query i and key j in units of log 2; keys from `end` on have no weight at all.
float score(float s, uint b, uint h, uint i, uint j, uint end) {
    if (j >= end) return NEG_INF;
    s *= a.scale * LOG2E;
#if defined(CAUSAL) && !defined(FRESH)
    if (int(j) > int(i) + int(a.n) - int(a.l)) s = LOWEST;
#endif
#if defined(MASK_BOOL) || defined(MASK_ADD)
    int64_t m = int64_t(b) * a.ms[0] + int64_t(h) * a.ms[1] + int64_t(i) * a.ms[2] + int64_t(j) * a.ms[3];
#endif
#ifdef MASK_BOOL
    if (uint(Raw1(a.mask + uint64_t(m)).v) == 0u) s = LOWEST;
#endif
#ifdef MASK_ADD
    float x = a_load(at(a.mask, m, A_SIZE));
    s = plus(s, x);
#endif
    return s;
}
#endif

float finite(float top) { return top == NEG_INF ? 0.0 : top; }

float sink(uint h) {
#ifdef SINKS
    return a_load(at(a.sinks, int64_t(h) * a.sink_step, A_SIZE)) * LOG2E;
#else
    return NEG_INF;
#endif
}

// The extent of a row is log2 of the sum of the powers of two of its scores: of `top` and what these are relative to it. A
// row all of whose scores are the lowest number has none; then it is DEAD times their count, which no other row's reaches.
#define DEAD 7.9228162514264338e28 // 2^96
float extent_of(float top, float sum) {
    bool dead = top <= -3.4e38 && top > NEG_INF;
    return dead ? DEAD * sum : top + log2(sum);
}
#ifndef FRESH
uint64_t extent_at(uint b, uint h, uint i) { return 4ul * ((uint64_t(b) * a.kv * a.group + h) * a.l + i); }
#endif
