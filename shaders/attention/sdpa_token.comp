#version 460
// Attention of one query a head beside what comes before it in a decoder, as sdpa_vector.comp with FRESH, where the keys of a
// part are one turn of the workgroup. Heads have TPR * 8 features of 16 bits, whose lanes a subgroup holds. Each instruction is met
// once, and waits for its code: there is little of it between loads, the rows that are turned, keys, sums, the count and the parts.
// x of the grid has the parts, TILES groups of ROWS heads in each, y key heads, z the batch. There are as many invocations as
// (ROWS + 1) * TPR, and as eights of a row's features times ROWS; PARTS parts and the subgroups are no more than lanes of a subgroup
// or fours of a row's features. PARTS is left out where there is one.
// With TURNS a part has several turns of keys, at most ROOM, and scores may be masked: first all scores of the part, which lanes of a
// key divide among them (STEPS; attention/divided.glsl), then their weights, each made once, then all values. What comes next is
// on its way while a turn is worked on.
#include "lib/float_controls.glsl"
#include "lib/codecs.glsl"
#include "lib/math.glsl"
#ifdef PARTS
#include "lib/last.glsl"
#endif
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 16u;
layout(constant_id = 2) const uint LANES = 32u; // of a subgroup
layout(constant_id = 3) const uint TILES = 1u;
#define FRESH
#define TOKEN
#define VEC
#include "attention/attention.glsl"
#define table a.table
#define tstep a.tstep
#define sign a.sign
#include "attention/rope.glsl"
#undef table
#undef tstep
#undef sign

const uint F = 8u, D = TPR * F, SIDE = WG / TPR, TEAMS = WG / LANES, PER = LANES / TPR;
// Queries and the newest key, rounded, and with TURNS its value; angles; the greatest scores, sums of weights and of values of subgroups.
#ifdef TURNS
const uint READY = ROWS + 2u, VALUES = 2u * TEAMS * ROWS * TPR, WEIGHTS = ROOM * ROWS / 4u;
const uint HELD = VALUES > WEIGHTS ? VALUES : WEIGHTS;
#else
const uint READY = ROWS + 1u, HELD = 2u * WG * ROWS;
#endif
shared uvec4 rows_[READY * TPR];
shared vec2 angles[D / 2u];
shared float tops[ROWS * TEAMS], sums[ROWS * TEAMS];
// Values: the halves of a lane's eight lie apart, so that lanes write side by side.
shared vec4 held[HELD];

layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Head { vec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Four { vec4 v; };

uvec4 load(uint64_t p, uint offset) { return Vec16(p + uint64_t(offset)).v; }
void decode(uvec4 c, out float x[F]) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
#ifdef B_BF16
        vec2 y = uintBitsToFloat(uvec2(c[i] << 16, c[i] & 0xffff0000u));
#else
        vec2 y = unpackHalf2x16(c[i]);
#endif
        x[2u * i] = y.x;
        x[2u * i + 1u] = y.y;
    }
}
uvec4 encode(float x[F]) {
    uvec4 c;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) c[i] = B_ENC(x[2u * i]) | B_ENC(x[2u * i + 1u]) << 16;
    return c;
}

#ifdef NORM
// Row c after its normalisation; squares are added in the order of norm.comp.
uvec4 normalised(uvec4 c, uvec4 weights, uint t) {
    float x[F], w[F], sum = 0.0;
    decode(c, x);
    decode(weights, w);
    uint before = gl_SubgroupInvocationID - min(t, SUM_LANES), own = t / SUM_LANES;
    [[dont_unroll]] for (uint i = 0u; i < TPR / SUM_LANES; ++i) {
        float next = i == 0u ? 0.0 : subgroupShuffle(sum, before);
        [[unroll]] for (uint k = 0u; k < F; ++k) next = fma(x[k], x[k], next);
        if (i == own) sum = next;
    }
    [[unroll]] for (uint m = SUM_LANES / 2u; m > 0u; m /= 2u) sum += subgroupShuffleXor(sum, m);
    if (TPR > SUM_LANES) sum = subgroupShuffle(sum, gl_SubgroupInvocationID | (TPR - 1u));
    precise float power = sum / float(a.features), root = 1.0 / sqrt(power + a.eps);
    [[unroll]] for (uint k = 0u; k < F; ++k) x[k] = x[k] * root * w[k];
    return encode(x);
}
#endif

// Row c turned: the other element of each pair is half a row away.
uvec4 turned(uvec4 c, uint t) {
    // Both halves of 32 bits have a sign.
    uvec4 o = subgroupShuffleXor(c, TPR / 2u) ^ (t < TPR / 2u ? 0x80008000u : 0u);
    float x[F], y[F];
    decode(c, x);
    decode(o, y);
    [[unroll]] for (uint k = 0u; k < F; ++k) {
        vec2 by = angles[t % (TPR / 2u) * F + k];
        x[k] = x[k] * by.x + y[k] * by.y;
    }
    return encode(x);
}

// Of `n` numbers, which as many neighbouring lanes have: the greatest, `most` included, and what `own` is beside it.
float weights(float top, float most, uint n, out float own) {
    most = max(most, top);
    for (uint m = n / 2u; m > 0u; m /= 2u) most = max(most, subgroupShuffleXor(most, m));
    own = exp2(top - finite(most));
    return most;
}
float summed(float x, uint n) {
    for (uint m = n / 2u; m > 0u; m /= 2u) x += subgroupShuffleXor(x, m);
    return x;
}
// What lane i of those of a row has.
float of_lane(float x, uint i) { return subgroupShuffle(x, (gl_SubgroupInvocationID & ~(min(D / 4u, LANES) - 1u)) + i); }

// Four elements of a result.
void store(uint line, uint f, vec4 x) {
    Raw8(a.dst + uint64_t(line * D + f) * B_SIZE).v =
        uvec2(B_ENC(x.x) | B_ENC(x.y) << 16, B_ENC(x.z) | B_ENC(x.w) << 16);
}

uvec4 key_of(uint line, uint j) { return load(a.k, line + min(j, a.n - 1u) * a.ks[2]); }
uvec4 value_of(uint line, uint j) { return load(a.v, line + min(j, a.n - 1u) * a.vs[2]); }

#ifdef TURNS
struct Scores { float v[UNROLL * ROWS]; };
#include "attention/divided.glsl"

// Scores of the keys of a part, and then their weights, are where values come later.
#define WEIGHT(i, r) held[((i) * ROWS + (r)) / 4u][((i) * ROWS + (r)) % 4u]
void weights_of(uint i, out float w[ROWS]) {
    if (ROWS == 4u) {
        vec4 all = held[i];
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) w[r] = all[r % 4u];
    } else {
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) w[r] = WEIGHT(i, r);
    }
}

// The greatest score of a row.
float greatest(uint r) {
    float most = NEG_INF;
    [[unroll]] for (uint u = 0u; u < TEAMS; ++u) most = max(most, tops[r * TEAMS + u]);
    return most;
}

#if defined(MASK_BOOL) || defined(MASK_ADD)
#define MASKED
// The mask's element for a key of the head that starts at `row`, and a score in units of log 2 with that.
#ifdef MASK_BOOL
uint mask_at(uint row, uint j) { return uint(Raw1(a.mask + uint64_t(row + min(j, a.n - 1u) * a.ms[2])).v); }
float with_mask(float s, uint bits) { return bits == 0u ? LOWEST : s; }
#else
uint mask_at(uint row, uint j) { return a_bits(a.mask + uint64_t(row + min(j, a.n - 1u) * a.ms[2])); }
float with_mask(float s, uint bits) { return plus(s, A_DEC(bits)); }
#endif
#endif
#endif

void main() {
    GET_ARGUMENTS
    uint lane = gl_SubgroupID * LANES + gl_SubgroupInvocationID, t = lane % TPR, g = lane / TPR;
    uint part = gl_WorkGroupID.x / TILES, tile = gl_WorkGroupID.x % TILES, kv = gl_WorkGroupID.y, b = gl_WorkGroupID.z;
    uint row0 = tile * ROWS, begin = part * a.span, end = min(begin + a.span, a.n);
    // All that is loaded is on its way before anything is computed. Offsets are bytes.
    uint j = min(g, ROWS);
    bool key = j == ROWS, mine = gl_SubgroupID * PER <= ROWS;
    uvec4 c, w;
    if (mine) {
        uint h = kv * a.group + min(row0 + j, a.group - 1u);
        c = load(key ? a.key : a.q, key ? b * a.key_s[0] + kv * a.key_s[1] + t * 16u : b * a.qs[0] + h * a.qs[1] + t * 16u);
#ifdef NORM
        w = load(key ? a.k_weight : a.q_weight, t * 16u);
#endif
    }
    // Other subgroups than those of rows, where there are enough.
    uint pair = WG - 1u - lane;
    float angle;
    int start = a.start;
    if (pair < D / 2u) {
        angle = angle_of(pair);
#ifdef TURNS
        if (a.starts != 0ul) start = Int(a.starts + uint64_t(int64_t(b) * a.ostep * 4l)).v;
#endif
    }
    uint kline = b * a.ks[0] + kv * a.ks[1] + t * 16u, vline = b * a.vs[0] + kv * a.vs[1] + t * 16u;
    uvec4 newest_v = load(a.value, b * a.value_s[0] + kv * a.value_s[1] + t * 16u);
    uvec4 x[UNROLL];
#ifndef TURNS
    uvec4 y[UNROLL];
#endif
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
        x[u] = key_of(kline, begin + u * SIDE + g);
#ifndef TURNS
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
        y[u] = value_of(vline, begin + u * SIDE + g);
#else
    // Of lanes that are left with the same scores, the first keeps them.
    bool first_with = t % (TPR >> STEPS) == 0u;
    uint own0 = first_of(t);
#ifdef MASKED
    uint masks[OWN], bits[OWN];
    [[unroll]] for (uint e = 0u; e < OWN; ++e) {
        masks[e] = b * a.ms[0] + (kv * a.group + min(row0 + (own0 + e) % ROWS, a.group - 1u)) * a.ms[1];
        bits[e] = mask_at(masks[e], begin + (own0 + e) / ROWS * SIDE + g);
    }
#endif
#endif

    if (pair < D / 2u) {
        precise float position = float(start) * a.pace;
        angles[pair] = turn_by(angle, position);
    }
#ifdef NORM
    if (mine) c = normalised(c, w, t);
#endif
    barrier();
    if (mine) {
        c = turned(c, t);
        if (g <= ROWS) rows_[j * TPR + t] = c;
    }
#ifdef TURNS
    if (g == 0u) rows_[(ROWS + 1u) * TPR + t] = newest_v;
#endif
    barrier();
    uvec4 newest_k = rows_[ROWS * TPR + t];
    if (g + tile == 0u && a.place - begin < a.span) {
        Vec16(a.k + uint64_t(kline + a.place * a.ks[2])).v = newest_k;
        Vec16(a.v + uint64_t(vline + a.place * a.vs[2])).v = newest_v;
    }

#ifdef TURNS
    const uint step = UNROLL * SIDE;
    // Scores of all keys.
    {
        float q[ROWS][F], top[OWN];
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) decode(rows_[r * TPR + t], q[r]);
        [[unroll]] for (uint e = 0u; e < OWN; ++e) top[e] = NEG_INF;
        [[dont_unroll]] for (uint first = begin; first < end; first += step) {
            uint next = first + step;
            if (a.place - first < step)
                [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
                    if (first + u * SIDE + g == a.place) x[u] = rows_[ROWS * TPR + t];
            Scores s;
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
                [[unroll]] for (uint r = 0u; r < ROWS; ++r) s.v[u * ROWS + r] = 0.0;
                float z[F];
                decode(x[u], z);
                // Behind the last keys come the first values.
                x[u] = next < end ? key_of(kline, next + u * SIDE + g) : value_of(vline, begin + u * SIDE + g);
                if (first + u * SIDE >= end) continue;
                [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                    [[unroll]] for (uint k = 0u; k < F; ++k)
                        s.v[u * ROWS + r] = fma(q[r][k], z[k], s.v[u * ROWS + r]);
            }
            float own[OWN];
            divide(s, t, own);
            [[unroll]] for (uint e = 0u; e < OWN; ++e) {
                uint i = (own0 + e) / ROWS * SIDE + g;
                float w = own[e] * (a.scale * LOG2E);
#ifdef MASKED
                w = with_mask(w, bits[e]);
                if (next < end) bits[e] = mask_at(masks[e], next + i);
#endif
                if (first + i >= end) w = NEG_INF;
                top[e] = max(top[e], w);
                if (first_with) WEIGHT(first - begin + i, (own0 + e) % ROWS) = w;
            }
        }
        [[unroll]] for (uint e = 0u; e < OWN; ++e) {
            [[unroll]] for (uint k = 0u; k < KEY_STEPS; ++k) top[e] = max(top[e], subgroupShuffleXor(top[e], TPR >> (k + 1u)));
            [[unroll]] for (uint m = LANES / 2u; m >= TPR; m /= 2u) top[e] = max(top[e], subgroupShuffleXor(top[e], m));
            if (first_with && gl_SubgroupInvocationID < TPR && own0 + e < ROWS) tops[(own0 + e) * TEAMS + gl_SubgroupID] = top[e];
        }
    }
    barrier();
    // Their weights. An invocation has those of one row.
    {
        float base = finite(greatest(lane % ROWS)), sum = 0.0;
        uint count = (end - min(begin, end) + step - 1u) / step * step * ROWS;
        [[dont_unroll]] for (uint i = lane; i < count; i += WG) {
            float w = exp2(WEIGHT(i / ROWS, i % ROWS) - base);
            WEIGHT(i / ROWS, i % ROWS) = w;
            sum += w;
        }
        [[unroll]] for (uint m = LANES / 2u; m >= ROWS; m /= 2u) sum += subgroupShuffleXor(sum, m);
        if (gl_SubgroupInvocationID < ROWS) sums[gl_SubgroupInvocationID * TEAMS + gl_SubgroupID] = sum;
    }
    barrier();
    // Sums of values.
    float o[ROWS][F];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r)
        [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = 0.0;
    [[dont_unroll]] for (uint first = begin; first < end; first += step) {
        uint next = first + step;
        if (a.place - first < step)
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
                if (first + u * SIDE + g == a.place) x[u] = rows_[(ROWS + 1u) * TPR + t];
        // A key that is not there has no value either.
        if (next > end)
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
                if (first + u * SIDE + g >= end) x[u] = uvec4(0u);
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            float z[F];
            decode(x[u], z);
            if (next < end) x[u] = value_of(vline, next + u * SIDE + g);
            if (first + u * SIDE >= end) continue;
            float w[ROWS];
            weights_of(first - begin + u * SIDE + g, w);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = fma(w[r], z[k], o[r][k]);
        }
    }

    barrier();
    // Keys of a subgroup join; lanes of the first two divide the rows among them.
    uint side = gl_SubgroupInvocationID / TPR;
    const uint half_ = ROWS / 2u;
    const bool halves = PER > 1u && ROWS > 1u;
    bool upper = halves && (side & 1u) != 0u;
    if (halves)
        [[unroll]] for (uint r = 0u; r < half_; ++r)
            [[unroll]] for (uint k = 0u; k < F; ++k) {
                float mine = upper ? o[r + half_][k] : o[r][k], other = upper ? o[r][k] : o[r + half_][k];
                o[r][k] = mine + subgroupShuffleXor(other, TPR);
            }
    const uint left = halves ? half_ : ROWS;
    [[unroll]] for (uint r = 0u; r < left; ++r) {
        [[unroll]] for (uint m = halves ? 2u * TPR : TPR; m < LANES; m *= 2u)
            [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] += subgroupShuffleXor(o[r][k], m);
        uint to = 2u * (gl_SubgroupID * ROWS + (upper ? half_ : 0u) + r) * TPR + t;
        if (side < (halves ? 2u : 1u)) {
            held[to] = vec4(o[r][0], o[r][1], o[r][2], o[r][3]);
            held[to + TPR] = vec4(o[r][4], o[r][5], o[r][6], o[r][7]);
        }
    }
#else
    float q[ROWS][F], o[ROWS][F], s[UNROLL][ROWS], top[ROWS], sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) decode(rows_[r * TPR + t], q[r]);
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
        if (begin + u * SIDE + g == a.place) {
            x[u] = newest_k;
            y[u] = newest_v;
        }
        float z[F];
        decode(x[u], z);
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            s[u][r] = 0.0;
            [[unroll]] for (uint k = 0u; k < F; ++k) s[u][r] = fma(q[r][k], z[k], s[u][r]);
        }
    }
    [[unroll]] for (uint m = TPR / 2u; m > 0u; m /= 2u)
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) s[u][r] += subgroupShuffleXor(s[u][r], m);
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        top[r] = NEG_INF;
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            s[u][r] = begin + u * SIDE + g < end ? s[u][r] * (a.scale * LOG2E) : NEG_INF;
            top[r] = max(top[r], s[u][r]);
        }
        // All keys of a subgroup have one greatest score.
        [[unroll]] for (uint m = LANES / 2u; m >= TPR; m /= 2u) top[r] = max(top[r], subgroupShuffleXor(top[r], m));
        float base = finite(top[r]);
        sum[r] = 0.0;
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            s[u][r] = exp2(s[u][r] - base);
            sum[r] += s[u][r];
        }
        [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = 0.0;
    }
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
        // A key that is not there has no value either.
        if (begin + u * SIDE + g < end) {
            float z[F];
            decode(y[u], z);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = fma(s[u][r], z[k], o[r][k]);
        }

    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        uint to = 2u * (g * ROWS + r) * TPR + t;
        held[to] = vec4(o[r][0], o[r][1], o[r][2], o[r][3]);
        held[to + TPR] = vec4(o[r][4], o[r][5], o[r][6], o[r][7]);
        [[unroll]] for (uint m = LANES / 2u; m >= TPR; m /= 2u) sum[r] += subgroupShuffleXor(sum[r], m);
        if (gl_SubgroupInvocationID == 0u) {
            tops[r * TEAMS + gl_SubgroupID] = top[r];
            sums[r * TEAMS + gl_SubgroupID] = sum[r];
        }
    }
#endif
    barrier();
    // Four features of a row for each invocation, as they lie in `held`.
    uint r = lane / (D / 4u), i4 = lane % (D / 4u), f = i4 % TPR * F + i4 / TPR * 4u;
    bool here = r < ROWS && row0 + r < a.group;
    uint line = (b * gl_NumWorkGroups.y + kv) * a.group + row0 + r;
    if (here) {
        vec4 x4 = vec4(0.0);
#ifdef TURNS
        float total = 0.0, most = greatest(r), base = finite(most);
        [[unroll]] for (uint u = 0u; u < TEAMS; ++u) {
            total += sums[r * TEAMS + u];
            x4 += held[(u * ROWS + r) * (D / 4u) + i4];
        }
#else
        float total, most = weights(tops[r * TEAMS + lane % TEAMS], NEG_INF, TEAMS, total);
        float own = total, base = finite(most);
        total = summed(total * sums[r * TEAMS + lane % TEAMS], TEAMS);
        [[unroll]] for (uint u = 0u; u < TEAMS; ++u) {
            vec4 y4 = vec4(0.0);
            [[unroll]] for (uint k = 0u; k < PER; ++k) y4 += held[((u * PER + k) * ROWS + r) * (D / 4u) + i4];
            x4 = fma(vec4(of_lane(own, u)), y4, x4);
        }
#endif
#ifdef PARTS
        uint p = line * PARTS + part;
        Four(a.parts + uint64_t(p * D + f) * 4ul).v = x4;
        if (i4 == 0u) Head(a.heads + uint64_t(p) * 8ul).v = vec2(most, total);
#else
        // The sink joins here; it may be the greatest.
        float extra = sink(kv * a.group + row0 + r), all = finite(max(most, extra));
        float turn = most == NEG_INF ? 0.0 : exp2(base - all);
        store(line, f, x4 * (turn / (total * turn + exp2(extra - all))));
#endif
    }
#ifdef PARTS
    uint slot = (b * gl_NumWorkGroups.y + kv) * TILES + tile;
    if (!comes_last(a.counters + 4ul * slot, PARTS, true)) return;
    if (!here) return;
    // All parts are on their way at once.
    uint64_t from = a.parts + uint64_t(line * PARTS * D + f) * 4ul;
    vec2 head = Head(a.heads + uint64_t(line * PARTS + lane % PARTS) * 8ul).v;
    vec4 y4[PARTS], x4 = vec4(0.0);
    [[unroll]] for (uint u = 0u; u < PARTS; ++u) y4[u] = Four(from + u * D * 4u).v;
    float extra = sink(kv * a.group + row0 + r), own, most = weights(head.x, extra, PARTS, own);
    float total = summed(head.y * own, PARTS) + exp2(extra - finite(most));
    [[unroll]] for (uint u = 0u; u < PARTS; ++u) x4 = fma(y4[u], vec4(of_lane(own, u)), x4);
    store(line, f, x4 * (1.0 / total));
#endif
}
