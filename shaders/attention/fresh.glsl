// Attention of one query a head beside what comes before it in a decoder: queries and the newest key are normalised (NORM),
// turned and rounded as attention/rope_rows.comp does it, and the newest key and value are written to where the others are
// kept. What runs once waits for its code: there is little of it. Needs attention/attention.glsl, WG, TPR (lanes of a row, which
// hold F of its FEATURES each), ROWS, raw and decode; ROWS + 1 rows for as many groups of lanes, FEATURES / 2 <= WG. With
// SHUFFLED a subgroup holds the lanes of a row, and pairs lie in the same place of two lanes; with IN_LANE (and NORM) a lane has
// what norm.comp adds up at a time, and SUM_LANES of them follow each other.
#include "lib/math.glsl"
#define table a.table
#define tstep a.tstep
#define sign a.sign
#include "attention/rope.glsl"
#undef table
#undef tstep
#undef sign

const uint PAIRS = FEATURES / 2u, WIDTH = TPR * F;
// Queries, then the newest key.
shared vec4 turned[(ROWS + 1u) * WIDTH / 4u];
shared vec4 angles[WIDTH / 4u];

// The newest key and value, as they lie in memory.
struct Newest { RAW k[NRAW], v[NRAW]; };

uint64_t fresh_row(uint64_t base, int steps[2], uint b, uint kv) {
    return at(base, int64_t(b) * steps[0] + int64_t(kv) * steps[1], A_SIZE);
}

void load_chunk(uint64_t p, uint t, out RAW c[NRAW]) {
    [[unroll]] for (uint i = 0u; i < NRAW; ++i) c[i] = raw(p, t * F + i * V, FEATURES, 1l);
}

void put(uint row, uint t, float x[F]) {
    [[unroll]] for (uint k = 0u; k < F; k += 4u)
        turned[(row * WIDTH + t * F + k) / 4u] = vec4(x[k], x[k + 1u], x[k + 2u], x[k + 3u]);
}

void get(uint row, uint t, out float x[F]) {
    [[unroll]] for (uint k = 0u; k < F; k += 4u) {
        vec4 y = turned[(row * WIDTH + t * F + k) / 4u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) x[k + i] = y[i];
    }
}

// Elements that are rounded, as they lie in memory.
void encode(float x[F], out RAW c[NRAW]) {
#if A_SIZE == 2
    [[unroll]] for (uint i = 0u; i < 4u; ++i) c[0][i] = B_ENC(x[2u * i]) | B_ENC(x[2u * i + 1u]) << 16;
#else
    [[unroll]] for (uint i = 0u; i < F; ++i) c[i / 4u][i % 4u] = B_ENC(x[i]);
#endif
}

// A number that is stored and read again.
float stored(float x) { return A_DEC(B_ENC(x)); }

#ifdef NORM
// The sum of the squares of row j, of which lane t of a group has x, in the order of norm.comp.
float squares(uint j, uint t, bool mine, float x[F]) {
    float sum = 0.0;
#ifdef IN_LANE
    // Lanes go on with the sums of those that have what comes before.
    uint before = gl_SubgroupInvocationID - min(t, SUM_LANES), own = t / SUM_LANES;
    [[dont_unroll]] for (uint c = 0u; c < TPR / SUM_LANES; ++c) {
        float next = c == 0u ? 0.0 : subgroupShuffle(sum, before);
        [[unroll]] for (uint k = 0u; k < F; ++k) next = fma(x[k], x[k], next);
        if (c == own) sum = next;
    }
    [[unroll]] for (uint m = SUM_LANES / 2u; m > 0u; m /= 2u) sum += subgroupShuffleXor(sum, m);
    return subgroupShuffle(sum, (gl_SubgroupInvocationID | (TPR - 1u)));
#else
    if (mine) put(j, t, x);
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex % SUM_LANES; i < FEATURES / V; i += SUM_LANES)
        [[unroll]] for (uint k = 0u; k < V; k += 4u) {
            vec4 y = turned[(j * WIDTH + i * V + k) / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) sum = fma(y[e], y[e], sum);
        }
    [[unroll]] for (uint m = SUM_LANES / 2u; m > 0u; m /= 2u) sum += subgroupShuffleXor(sum, m);
    barrier();
    return sum;
#endif
}
#endif

// Turns row j, of which lane t of a group has x, and leaves it in `turned`. All invocations come here.
void turn_row(uint lane, uint j, uint t, bool mine, float x[F]) {
#ifdef TRADITIONAL
    barrier();
    [[unroll]] for (uint k = 0u; k < F; k += 4u) {
        vec4 c = angles[(t * F + k) / 4u];
        [[unroll]] for (uint e = 0u; e < 2u; ++e) {
            uint f = k + 2u * e;
            float y = x[f], z = x[f + 1u];
            x[f] = stored(y * c[2u * e] - z * c[2u * e + 1u]);
            x[f + 1u] = stored(y * c[2u * e + 1u] + z * c[2u * e]);
        }
    }
    if (mine) put(j, t, x);
    barrier();
#elif defined(SHUFFLED)
    // The first of a pair is so many lanes below the second.
    const uint apart = PAIRS / F;
    bool second = t >= apart;
    uint from = gl_SubgroupInvocationID + (second ? -apart : apart), pair = (second ? t - apart : t) * F;
    barrier();
    [[unroll]] for (uint k = 0u; k < F; k += 2u) {
        vec4 c = angles[min(pair + k, WIDTH - 2u) / 2u];
        [[unroll]] for (uint e = 0u; e < 2u; ++e) {
            float other = subgroupShuffle(x[k + e], from), y = second ? other : x[k + e], z = second ? x[k + e] : other;
            vec2 by = vec2(c[2u * e], c[2u * e + 1u]);
            x[k + e] = stored(second ? y * by.y + z * by.x : y * by.x - z * by.y);
        }
    }
    if (mine) put(j, t, x);
    barrier();
#else
    if (mine) put(j, t, x);
    barrier();
    [[dont_unroll]] for (uint e = lane; e < (ROWS + 1u) * PAIRS; e += WG) {
        uint row = e / PAIRS, i = e % PAIRS, f = row * WIDTH + i, s = f + PAIRS;
        vec2 c = vec2(angles[i / 2u][i % 2u * 2u], angles[i / 2u][i % 2u * 2u + 1u]);
        float y = turned[f / 4u][f % 4u], z = turned[s / 4u][s % 4u];
        turned[f / 4u][f % 4u] = stored(y * c.x - z * c.y);
        turned[s / 4u][s % 4u] = stored(y * c.y + z * c.x);
    }
    barrier();
#endif
}

// Makes queries row0 on of a key head, and its newest key and value, ready; invocation `lane`, of the lanes of a row the one
// `t` of group `g`. All that is loaded is on its way before anything is computed.
Newest make_ready(uint lane, uint t, uint g, uint b, uint kv, uint row0) {
    uint j = min(g, ROWS);
    bool key = j == ROWS, mine = g <= ROWS;
    uint64_t p = key ? fresh_row(a.key, a.key_s, b, kv) : q_row(b, kv * a.group + min(row0 + j, a.rows - 1u), 0u);
    Newest newest;
    RAW c[NRAW];
    load_chunk(p, t, c);
    load_chunk(fresh_row(a.value, a.value_s, b, kv), t, newest.v);
#ifdef NORM
    RAW by[NRAW];
    uint64_t weight = key ? a.k_weight : a.q_weight;
    load_chunk(weight == 0ul ? p : weight, t, by);
#endif
    float angle = angle_of(min(lane, PAIRS - 1u));
    int first = a.start;
    if (a.starts != 0ul) first = Int(a.starts + uint64_t(int64_t(b) * a.ostep * 4l)).v;

    precise float position = float(first) * a.pace;
    if (lane < PAIRS) {
        vec2 by_ = turn_by(angle, position);
        angles[lane / 2u][lane % 2u * 2u] = by_.x;
        angles[lane / 2u][lane % 2u * 2u + 1u] = by_.y;
    }
    float x[F];
    decode(c, x);
#ifdef NORM
    float sum = squares(j, t, mine, x);
    if (weight != 0ul) {
        precise float power = sum / float(a.features), root = 1.0 / sqrt(power + a.eps);
        float w[F];
        decode(by, w);
        [[unroll]] for (uint k = 0u; k < F; ++k) x[k] = stored(x[k] * root * w[k]);
    }
#endif
    turn_row(lane, j, t, mine, x);
    get(ROWS, t, x);
    encode(x, newest.k);
    return newest;
}

// Writes the newest key and value to the others; the lanes of a row.
void keep_newest(Newest newest, uint t, uint64_t k, uint64_t v) {
    [[unroll]] for (uint i = 0u; i < NRAW; ++i) {
        uint f = t * F + i * V;
        if (f < FEATURES) {
            Vec16(k + uint64_t(f) * A_SIZE).v = newest.k[i];
            Vec16(v + uint64_t(f) * A_SIZE).v = newest.v[i];
        }
    }
}
