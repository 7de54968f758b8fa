#version 460
// Attention of few queries. A workgroup takes a part of the keys of one key head and up to ROWS rows of the heads
// that share it: TPR lanes hold the features of a key, eight each, WG / TPR keys go side by side and UNROLL of them
// are in flight, as they lie in memory. Where a subgroup holds the lanes of a key and scores are masked, each lane makes
// weights of its share of them (H100, bfloat16, 32 heads over 320 keys of 8 heads: 8 rows of queries 12 us in place of
// 16, 32 rows 28 and 42; without a mask some 5 % slower). Each lane group keeps a running maximum and sum; they are
// merged at the end, MERGED rows at a time. Of several parts each leaves maximum, sum and unscaled values of its rows;
// the workgroup that comes last joins them (LAST), or sdpa_merge.comp does. With FRESH (attention/fresh.glsl) queries are
// turned first, and so is the newest key, which is kept besides.
#ifdef FRESH
#include "lib/float_controls.glsl"
#endif
#include "lib/codecs.glsl"
#ifdef LAST
#include "lib/last.glsl"
#endif
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 16u;
#ifdef FRESH
layout(constant_id = 2) const uint FEATURES = 64u;
#endif

#include "attention/attention.glsl"

const uint F = 8u;
struct Scores { float v[UNROLL * ROWS]; };
#define ACC Scores
Scores comb(Scores a, Scores b) {
    [[unroll]] for (uint i = 0u; i < UNROLL * ROWS; ++i) a.v[i] += b.v[i];
    return a;
}
#ifdef SG
Scores sg_xor(Scores a, uint m) {
    [[unroll]] for (uint i = 0u; i < UNROLL * ROWS; ++i) a.v[i] = subgroupShuffleXor(a.v[i], m);
    return a;
}
#endif
#include "lib/group.glsl"

// There are at least eight lanes a key.
shared float tops[WG / 8u * ROWS], sums[WG / 8u * ROWS];
shared vec4 held[2u * WG * MERGED];

#ifdef VEC
#define RAW uvec4
#define ELEM(c, k) a_elem(c, k)
RAW raw(uint64_t p, uint i, uint count, int64_t step) {
    return i < count ? Vec16(p + uint64_t(i) * A_SIZE).v : uvec4(0u);
}
#else
#define RAW float
#define ELEM(c, k) c
RAW raw(uint64_t p, uint i, uint count, int64_t step) {
    return i < count ? a_load(at(p, int64_t(i) * step, A_SIZE)) : 0.0;
}
#endif
const uint NRAW = F / V;
void decode(RAW c[NRAW], out float x[F]) {
    [[unroll]] for (uint i = 0u; i < NRAW; ++i)
        [[unroll]] for (uint k = 0u; k < V; ++k) x[i * V + k] = ELEM(c[i], k);
}

#ifdef FRESH
#include "attention/fresh.glsl"
#endif

#if defined(SG) && (defined(MASK_BOOL) || defined(MASK_ADD))
#define DIVIDED
// Lanes have eight elements of a row, of at least 64.
#define STEPS (SCORES >= 8u ? 3u : SCORES / 2u)
#include "attention/divided.glsl"

// Score `i` is with the lanes of a key that have these bits.
uint holder(uint i) {
    uint bits = 0u;
    [[unroll]] for (uint j = 0u; j < STEPS; ++j)
        if ((i & SCORES >> (j + 1u)) != 0u) bits |= TPR >> (j + 1u);
    return bits;
}

// What the lane of score `i` has there.
float from_holder(float own[OWN], uint i) {
    uint key = gl_SubgroupInvocationID & ~(TPR - 1u);
    return subgroupShuffle(own[i % OWN], key + holder(i));
}
#endif

// Steps of loops that are not unrolled further: what runs once waits for its code.
const uint FOUR = WG / TPR < 4u ? WG / TPR : 4u;

// The greatest score of a row, of which each group of lanes has one of its keys.
float greatest(uint r, uint lanes) {
    float most = NEG_INF;
    [[dont_unroll]] for (uint k = 0u; k < lanes; k += FOUR)
        [[unroll]] for (uint u = 0u; u < FOUR; ++u) most = max(most, tops[(k + u) * ROWS + r]);
    return most;
}

void main() {
    GET_ARGUMENTS
    uint lane = lane_id(), t = lane % TPR, g = lane / TPR;
    const uint lanes = WG / TPR;
    uint rows = a.rows, n = a.n, splits = a.splits;
#ifdef FRESH
    const uint l = 1u, d = FEATURES, dv = FEATURES;
    Newest newest;
#else
    uint l = a.l, d = a.d, dv = a.dv;
#endif
    uint tiles = (rows + ROWS - 1u) / ROWS;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint part = id % splits, slot = id / splits, tile = slot % tiles, line = slot / tiles;
    uint kv = line % a.kv, b = line / a.kv;
    // Surplus workgroups of the grid work on the last batch and write nothing; all lanes meet every barrier.
    bool live = b < a.batch;
    b = min(b, a.batch - 1u);
    uint row0 = tile * ROWS, begin = part * a.span, end = min(begin + a.span, n);
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);
#ifdef FRESH
    int kstep = a.ks[2], vstep = a.vs[2];
    const int64_t kunit = 1l, vunit = 1l;
#else
    int64_t kstep = a.ks[2], vstep = a.vs[2], kunit = a.ks[3], vunit = a.vs[3];
#endif

    float q[ROWS][F], o[ROWS][F], top[ROWS], sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
#ifndef FRESH
        uint row = min(row0 + r, rows - 1u);
        uint64_t p = q_row(b, kv * a.group + row / l, row % l);
        RAW c[NRAW];
        [[unroll]] for (uint i = 0u; i < NRAW; ++i) c[i] = raw(p, t * F + i * V, d, a.qs[3]);
        decode(c, q[r]);
#endif
        [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = 0.0;
        top[r] = NEG_INF;
        sum[r] = 0.0;
    }
#ifdef DIVIDED
    bool divided = TPR <= gl_SubgroupSize;
    uint own0 = first_of(t), own_h[OWN], own_i[OWN];
    float own_top[OWN];
    [[unroll]] for (uint e = 0u; e < OWN; ++e) {
        uint row = min(row0 + (own0 + e) % ROWS, rows - 1u);
        own_h[e] = kv * a.group + row / l;
        own_i[e] = row % l;
        own_top[e] = NEG_INF;
    }
#endif
    for (uint first = begin; first < end; first += lanes * UNROLL) {
        RAW x[UNROLL][NRAW], y[UNROLL][NRAW];
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            uint64_t p = at(kbase, int64_t(min(first + u * lanes + g, n - 1u)) * kstep, A_SIZE);
            [[unroll]] for (uint i = 0u; i < NRAW; ++i) x[u][i] = raw(p, t * F + i * V, d, kunit);
        }
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            uint64_t p = at(vbase, int64_t(min(first + u * lanes + g, n - 1u)) * vstep, A_SIZE);
            [[unroll]] for (uint i = 0u; i < NRAW; ++i) y[u][i] = raw(p, t * F + i * V, dv, vunit);
        }
#ifdef FRESH
        if (first == begin) {
            // The first keys and values are on their way meanwhile.
            newest = make_ready(lane, t, g, b, kv, row0);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) get(r, t, q[r]);
            bool mine = live && tile == 0u && a.place >= begin && a.place < end;
            if (mine && g == 0u)
                keep_newest(newest, t, at(kbase, int64_t(a.place) * kstep, A_SIZE), at(vbase, int64_t(a.place) * vstep, A_SIZE));
        }
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
            if (first + u * lanes + g == a.place)
                [[unroll]] for (uint i = 0u; i < NRAW; ++i) {
                    x[u][i] = newest.k[i];
                    y[u][i] = newest.v[i];
                }
#endif
        Scores s;
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            float z[F];
            decode(x[u], z);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                float dot = 0.0;
                [[unroll]] for (uint k = 0u; k < F; ++k) dot = fma(q[r][k], z[k], dot);
                s.v[u * ROWS + r] = dot;
            }
        }
        float keep[ROWS];
#ifdef DIVIDED
        if (divided) {
            float own[OWN], back[OWN];
            divide(s, t, own);
            [[unroll]] for (uint e = 0u; e < OWN; ++e) {
                uint j = first + (own0 + e) / ROWS * lanes + g;
                float w = score(own[e], b, own_h[e], own_i[e], j, end), most = w;
                [[unroll]] for (uint k = 0u; k < KEY_STEPS; ++k)
                    most = max(most, subgroupShuffleXor(most, TPR >> (k + 1u)));
                most = max(own_top[e], most);
                float base = finite(most);
                back[e] = exp2(own_top[e] - base);
                own[e] = exp2(w - base);
                own_top[e] = most;
            }
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) keep[r] = from_holder(back, r);
            [[unroll]] for (uint i = 0u; i < SCORES; ++i) s.v[i] = from_holder(own, i);
        } else
#endif
        {
            s = group_reduce(s, lane);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                uint row = min(row0 + r, rows - 1u), h = kv * a.group + row / l, i = row % l;
                float most = top[r];
                [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
                    float w = score(s.v[u * ROWS + r], b, h, i, first + u * lanes + g, end);
                    s.v[u * ROWS + r] = w;
                    most = max(most, w);
                }
                float base = finite(most);
                keep[r] = exp2(top[r] - base);
                [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
                    s.v[u * ROWS + r] = exp2(s.v[u * ROWS + r] - base);
                top[r] = most;
            }
        }
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            sum[r] *= keep[r];
            [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] *= keep[r];
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u) sum[r] += s.v[u * ROWS + r];
        }
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            // A key that is not there has no value either.
            if (first + u * lanes + g < end) {
                float z[F];
                decode(y[u], z);
                [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                    [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = fma(s.v[u * ROWS + r], z[k], o[r][k]);
            }
        }
    }

#ifdef DIVIDED
    if (divided)
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) top[r] = from_holder(own_top, r);
#endif
    if (t == 0u)
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) tops[g * ROWS + r] = top[r];
    barrier();
    bool last = splits == 1u;
    const uint width = TPR * F;
    [[unroll]] for (uint r0 = 0u; r0 < ROWS; r0 += MERGED) {
        if (r0 > 0u) barrier();
        [[unroll]] for (uint j = 0u; j < MERGED; ++j) {
            uint r = r0 + j;
            float keep = exp2(top[r] - finite(greatest(r, lanes)));
            uint to = 2u * ((g * MERGED + j) * TPR + t);
            held[to] = vec4(o[r][0], o[r][1], o[r][2], o[r][3]) * keep;
            held[to + 1u] = vec4(o[r][4], o[r][5], o[r][6], o[r][7]) * keep;
            if (t == 0u) sums[g * ROWS + r] = sum[r] * keep;
        }
        barrier();
        [[dont_unroll]] for (uint e = lane; e < MERGED * width; e += WG) {
            uint j = e / width, f = e % width, r = r0 + j, row = row0 + r;
            if (!live || row >= rows || f >= dv) continue;
            uint h = kv * a.group + row / l, i = row % l;
            float most = greatest(r, lanes), total = 0.0, x = 0.0;
            [[dont_unroll]] for (uint k = 0u; k < lanes; k += FOUR)
                [[unroll]] for (uint u = 0u; u < FOUR; ++u) {
                    x += held[(((k + u) * MERGED + j) * width + f) / 4u][f % 4u];
                    total += sums[(k + u) * ROWS + r];
                }
            uint64_t line = (uint64_t(b) * a.kv * a.group + h) * l + i;
            if (last) {
                // The sink joins here; it may be the greatest.
                float base = finite(most), extra = sink(h), all = finite(max(most, extra));
                float turn = most == NEG_INF ? 0.0 : exp2(base - all);
                b_store(a.dst + (line * dv + f) * B_SIZE, x * turn / (total * turn + exp2(extra - all)));
                continue;
            }
            Floats p = Floats(a.parts + (line * splits + part) * (dv + 2u) * 4ul);
            p.v[2u + f] = x;
            if (f == 0u) {
                p.v[0] = most;
                p.v[1] = total;
            }
        }
    }
#ifdef LAST
    if (!comes_last(a.counters + 4ul * slot, splits, live)) return;
    // All that is read of eight parts is on its way at once; behind the last one lies room for as many.
    const uint step = dv + 2u;
    [[dont_unroll]] for (uint e = lane; e < ROWS * width; e += WG) {
        uint r = e / width, f = e % width, row = row0 + r;
        if (row >= rows || f >= dv) continue;
        uint h = kv * a.group + row / l;
        uint64_t line = (uint64_t(b) * a.kv * a.group + h) * l + row % l;
        uint64_t p = a.parts + line * splits * (step * 4ul);
        float most = sink(h), total = most == NEG_INF ? 0.0 : 1.0, x = 0.0;
        [[dont_unroll]] for (uint s = 0u; s < splits; s += 8u) {
            Floats head = Floats(p), own = Floats(p + (2u + f) * 4ul);
            float y[8], sum_[8], top_[8], next = most;
            [[unroll]] for (uint u = 0u; u < 8u; ++u) {
                top_[u] = head.v[u * step];
                sum_[u] = head.v[u * step + 1u];
                y[u] = own.v[u * step];
            }
            [[unroll]] for (uint u = 0u; u < 8u; ++u) {
                bool there = s + u < splits;
                top_[u] = there ? top_[u] : NEG_INF;
                sum_[u] = there ? sum_[u] : 0.0;
                y[u] = there ? y[u] : 0.0;
                next = max(next, top_[u]);
            }
            float base = finite(next), keep = exp2(most - base);
            total *= keep;
            x *= keep;
            [[unroll]] for (uint u = 0u; u < 8u; ++u) {
                keep = exp2(top_[u] - base);
                total = fma(sum_[u], keep, total);
                x = fma(y[u], keep, x);
            }
            most = next;
            p += 8u * step * 4ul;
        }
        b_store(a.dst + (line * dv + f) * B_SIZE, x / total);
    }
#endif
}
