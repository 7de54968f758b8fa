// Attention of one query a head beside what comes before it in a decoder: queries and the newest key are normalised (NORM),
// turned and rounded as attention/rope_rows.comp does it, and the newest key and value are written to where the others are
// kept. What runs once waits for its code: there is little of it. Needs attention/attention.glsl, WG, TPR (lanes of a row, which
// hold F of its FEATURES each), ROWS, raw and decode; ROWS + 1 rows for as many groups of lanes, FEATURES / 2 <= WG. With
// IN_LANE (and NORM) a subgroup holds the lanes of a row, a lane has what norm.comp adds up at a time, and SUM_LANES of them follow
// each other.
#include "lib/math.glsl"
#define table a.table
#define tstep a.tstep
#define sign a.sign
#include "attention/rope.glsl"
#undef table
#undef tstep
#undef sign

// Pairs of a row, and those that are turned.
const uint PAIRS = FEATURES / 2u, TURNED = DIMS / 2u, WIDTH = TPR * F;
// Queries, then the newest key.
shared vec4 turned[(ROWS + 1u) * WIDTH / 4u];
shared vec2 angles[WIDTH / 2u];
#ifdef NORM
shared float roots[ROWS + 1u];
#endif

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
float squares(uint j, uint t, float x[F]) {
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
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex % SUM_LANES; i < FEATURES / V; i += SUM_LANES)
        [[unroll]] for (uint k = 0u; k < V; k += 4u) {
            vec4 y = turned[(j * WIDTH + i * V + k) / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) sum = fma(y[e], y[e], sum);
        }
    [[unroll]] for (uint m = SUM_LANES / 2u; m > 0u; m /= 2u) sum += subgroupShuffleXor(sum, m);
    return sum;
#endif
}
#endif

// Weights of the elements of pair e of the rows; none of rows that are not normalised.
uint64_t weights_of(uint e) { return e / PAIRS == ROWS ? a.k_weight : a.q_weight; }

// Where both elements of pair e stand in a row.
uvec2 places_of(uint e) {
    uint i = e % PAIRS;
#ifdef TRADITIONAL
    return uvec2(2u * i, 2u * i + 1u);
#else
    if (i >= TURNED) return uvec2(2u * i, 2u * i + 1u);
    return uvec2(i, i + TURNED);
#endif
}

#ifdef NORM
vec2 load_weights(uint e) {
    uint64_t p = weights_of(e);
    uvec2 at_ = places_of(e);
    return p == 0ul ? vec2(0.0) : vec2(a_load(p + at_.x * A_SIZE), a_load(p + at_.y * A_SIZE));
}
#endif

// Makes queries row0 on of a key head, and its newest key and value, ready; invocation `lane`, of the lanes of a row the one
// `t` of group `g`. All that is loaded is on its way before anything is computed. Groups of lanes load rows and sum up squares, and
// then each invocation has a pair of some row.
Newest make_ready(uint lane, uint t, uint g, uint b, uint kv, uint row0) {
    uint j = min(g, ROWS);
    bool key = j == ROWS, mine = g <= ROWS;
    uint64_t p = key ? fresh_row(a.key, a.key_s, b, kv) : q_row(b, kv * a.group + min(row0 + j, a.rows - 1u), 0u);
    Newest newest;
    RAW c[NRAW];
    load_chunk(p, t, c);
    load_chunk(fresh_row(a.value, a.value_s, b, kv), t, newest.v);
    const uint pairs = (ROWS + 1u) * PAIRS;
#ifdef NORM
    vec2 w = load_weights(min(lane, pairs - 1u));
#endif
    float angle = angle_of(min(lane, TURNED - 1u));
    int first = a.start;
    if (a.starts != 0ul) first = Int(a.starts + uint64_t(int64_t(b) * a.ostep * 4l)).v;

    precise float position = float(first) * a.pace;
    if (lane < TURNED) angles[lane] = turn_by(angle, position);
    float x[F];
    decode(c, x);
    if (mine) put(j, t, x);
#ifdef NORM
    float sum = squares(j, t, x);
    precise float power = sum / float(a.features), root = 1.0 / sqrt(power + a.eps);
    if (mine && t == 0u) roots[j] = root;
#endif
    barrier();
    [[dont_unroll]] for (uint e = lane; e < pairs; e += WG) {
        uint row = e / PAIRS * WIDTH;
        uvec2 at_ = row + places_of(e);
        vec2 y = vec2(turned[at_.x / 4u][at_.x % 4u], turned[at_.y / 4u][at_.y % 4u]);
#ifdef NORM
        if (weights_of(e) != 0ul) {
            float root_ = roots[e / PAIRS];
            y = vec2(stored(y.x * root_ * w.x), stored(y.y * root_ * w.y));
        }
        if (e + WG < pairs) w = load_weights(e + WG);
#endif
        if (TURNED == PAIRS || e % PAIRS < TURNED) y = turn_pair(y, angles[e % PAIRS]);
        turned[at_.x / 4u][at_.x % 4u] = stored(y.x);
        turned[at_.y / 4u][at_.y % 4u] = stored(y.y);
    }
    barrier();
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
