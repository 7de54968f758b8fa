// Attention of one query a head beside what comes before it in a decoder: queries and the newest key are normalised (NORM),
// turned and rounded as attention/rope_rows.comp does it, and the newest key and value are written to where the others are
// kept. What runs once waits for its code: there is little of it. Needs attention/attention.glsl, WG, TPR (lanes of a row, which
// hold F of its FEATURES each), ROWS, raw and decode; ROWS + 1 rows for as many groups of lanes, FEATURES / 2 <= WG.
#include "lib/math.glsl"
#define table fresh.table
#define tstep fresh.tstep
#define sign fresh.sign
#include "attention/rope.glsl"
#undef table
#undef tstep
#undef sign

const uint PAIRS = FEATURES / 2u, WIDTH = TPR * F;
// Queries, then the newest key.
shared vec4 turned[(ROWS + 1u) * WIDTH / 4u];
shared vec2 angles[WIDTH / 2u];

// The newest key and value, as they lie in memory.
struct Newest { RAW k[NRAW], v[NRAW]; };

uint64_t fresh_row(uint64_t base, int64_t steps[2], uint b, uint kv) {
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

// Makes queries row0 on of a key head, and its newest key and value, ready; invocation `lane`, of the lanes of a row the one
// `t` of group `g`. All that is loaded is on its way before anything is computed.
Newest make_ready(uint lane, uint t, uint g, uint b, uint kv, uint row0) {
    uint j = min(g, ROWS);
    bool key = j == ROWS;
    uint64_t p = key ? fresh_row(fresh.k, fresh.ks, b, kv) : q_row(b, kv * a.group + min(row0 + j, a.rows - 1u), 0u);
    Newest newest;
    RAW c[NRAW];
    load_chunk(p, t, c);
    load_chunk(fresh_row(fresh.v, fresh.vs, b, kv), t, newest.v);
#ifdef NORM
    RAW by[NRAW];
    uint64_t weight = key ? fresh.k_weight : fresh.q_weight;
    load_chunk(weight == 0ul ? p : weight, t, by);
#endif
    float angle = angle_of(min(lane, PAIRS - 1u));
    int first = fresh.start;
    if (fresh.starts != 0ul) first = Int(fresh.starts + uint64_t(int64_t(b) * fresh.ostep * 4l)).v;

    float x[F];
    decode(c, x);
    if (g <= ROWS) put(j, t, x);
    precise float position = float(first) * fresh.scale;
    if (lane < PAIRS) angles[lane] = turn_by(angle, position);
    barrier();
#ifdef NORM
    // Squares are added in the order of norm.comp.
    float sum = 0.0;
    [[dont_unroll]] for (uint i = lane % SUM_LANES; i < FEATURES / V; i += SUM_LANES)
        [[unroll]] for (uint k = 0u; k < V; k += 4u) {
            vec4 y = turned[(j * WIDTH + i * V + k) / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) sum = fma(y[e], y[e], sum);
        }
    [[unroll]] for (uint m = SUM_LANES / 2u; m > 0u; m /= 2u) sum += subgroupShuffleXor(sum, m);
    barrier();
    if (weight != 0ul) {
        precise float power = sum / float(fresh.features), root = 1.0 / sqrt(power + fresh.eps);
        float w[F];
        decode(by, w);
        [[unroll]] for (uint k = 0u; k < F; ++k) x[k] = A_DEC(B_ENC(x[k] * root * w[k]));
        if (g <= ROWS) put(j, t, x);
    }
    barrier();
#endif
    [[dont_unroll]] for (uint e = lane; e < (ROWS + 1u) * PAIRS; e += WG) {
        uint row = e / PAIRS, i = e % PAIRS;
#ifdef TRADITIONAL
        uint f = row * WIDTH + 2u * i, s = f + 1u;
#else
        uint f = row * WIDTH + i, s = f + PAIRS;
#endif
        vec2 c = angles[i];
        float x = turned[f / 4u][f % 4u], y = turned[s / 4u][s % 4u];
        turned[f / 4u][f % 4u] = A_DEC(B_ENC(x * c.x - y * c.y));
        turned[s / 4u][s % 4u] = A_DEC(B_ENC(x * c.y + y * c.x));
    }
    barrier();
    get(ROWS, t, x);
    encode(x, newest.k);
    return newest;
}

// Writes the newest key and value to the others; the lanes of a row.
void keep_newest(Newest newest, uint t, uint b, uint kv) {
    uint64_t k = fresh_row(fresh.k_to, fresh.k_tos, b, kv), v = fresh_row(fresh.v_to, fresh.v_tos, b, kv);
    [[unroll]] for (uint i = 0u; i < NRAW; ++i) {
        uint f = t * F + i * V;
        if (f < FEATURES) {
            Vec16(k + uint64_t(f) * A_SIZE).v = newest.k[i];
            Vec16(v + uint64_t(f) * A_SIZE).v = newest.v[i];
        }
    }
}
