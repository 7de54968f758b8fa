#version 460
// Attention of few queries. A workgroup takes a part of the keys of one key head and up to ROWS rows of the heads
// that share it: TPR lanes hold the features of a key, eight each, WG / TPR keys go side by side and UNROLL of them
// are in flight. Each lane group keeps a running maximum and sum; they are merged at the end. With several parts the
// result is left to sdpa_merge.comp: maximum, sum and unscaled values of each row and part.
#include "lib/elem.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 16u;

#include "lib/attention.glsl"

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
shared float tops[WG / 8u * ROWS], sums[WG / 8u * ROWS], held[WG * F];

void eight(uint64_t p, uint first, uint count, int64_t step, out float x[F]) {
    [[unroll]] for (uint c = 0u; c < F / V; ++c) {
        float y[V];
        features(p, first + c * V, count, step, y);
        [[unroll]] for (uint k = 0u; k < V; ++k) x[c * V + k] = y[k];
    }
}

void main() {
    uint lane = lane_id(), t = lane % TPR, g = lane / TPR, lanes = WG / TPR;
    uint tiles = (a.rows + ROWS - 1u) / ROWS;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint part = id % a.splits, line = id / a.splits, tile = line % tiles;
    line /= tiles;
    uint kv = line % a.kv, b = line / a.kv;
    // Surplus workgroups of the grid work on the last batch and write nothing; all lanes meet every barrier.
    bool live = b < a.batch;
    b = min(b, a.batch - 1u);
    uint row0 = tile * ROWS, begin = part * a.span, end = min(begin + a.span, a.n);

    float q[ROWS][F], o[ROWS][F], top[ROWS], sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        uint row = min(row0 + r, a.rows - 1u);
        eight(q_row(b, kv * a.group + row / a.l, row % a.l), t * F, a.d, a.qs[3], q[r]);
        [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = 0.0;
        top[r] = NEG_INF;
        sum[r] = 0.0;
    }
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);
    for (uint first = begin; first < end; first += lanes * UNROLL) {
        float x[UNROLL][F], y[UNROLL][F];
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            uint j = min(first + u * lanes + g, a.n - 1u);
            eight(at(kbase, int64_t(j) * a.ks[2], A_SIZE), t * F, a.d, a.ks[3], x[u]);
        }
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
            uint j = min(first + u * lanes + g, a.n - 1u);
            eight(at(vbase, int64_t(j) * a.vs[2], A_SIZE), t * F, a.dv, a.vs[3], y[u]);
        }
        Scores s;
        [[unroll]] for (uint u = 0u; u < UNROLL; ++u)
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                float dot = 0.0;
                [[unroll]] for (uint k = 0u; k < F; ++k) dot = fma(q[r][k], x[u][k], dot);
                s.v[u * ROWS + r] = dot;
            }
        s = group_reduce(s, lane);
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            uint row = min(row0 + r, a.rows - 1u), h = kv * a.group + row / a.l, i = row % a.l;
            float w[UNROLL], most = top[r];
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
                w[u] = score(s.v[u * ROWS + r], b, h, i, first + u * lanes + g, end);
                most = max(most, w[u]);
            }
            float base = finite(most), keep = exp2(top[r] - base);
            sum[r] *= keep;
            [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] *= keep;
            [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
                w[u] = exp2(w[u] - base);
                sum[r] += w[u];
                // A key that is not there has no value either.
                if (first + u * lanes + g < end)
                    [[unroll]] for (uint k = 0u; k < F; ++k) o[r][k] = fma(w[u], y[u][k], o[r][k]);
            }
            top[r] = most;
        }
    }

    if (t == 0u)
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            tops[g * ROWS + r] = top[r];
            sums[g * ROWS + r] = sum[r];
        }
    barrier();
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        uint row = row0 + r, h = kv * a.group + row / a.l, i = row % a.l;
        float most = NEG_INF, total = 0.0;
        for (uint k = 0u; k < lanes; ++k) most = max(most, tops[k * ROWS + r]);
        bool last = a.splits == 1u;
        float extra = last && row < a.rows ? sink(h) : NEG_INF;
        most = max(most, extra);
        float base = finite(most);
        for (uint k = 0u; k < lanes; ++k) total += sums[k * ROWS + r] * exp2(tops[k * ROWS + r] - base);
        total += exp2(extra - base);
        float keep = exp2(top[r] - base);
        [[unroll]] for (uint k = 0u; k < F; ++k) held[k * WG + lane] = o[r][k] * keep;
        barrier();
        if (live && row < a.rows) {
            uint64_t line = (uint64_t(b) * a.kv * a.group + h) * a.l + i;
            Floats p = Floats(a.parts + (line * a.splits + part) * (a.dv + 2u) * 4ul);
            for (uint f = lane; f < a.dv; f += WG) {
                float x = 0.0;
                for (uint k = 0u; k < lanes; ++k) x += held[(f % F) * WG + k * TPR + f / F];
                if (last) b_store(a.dst + (line * a.dv + f) * B_SIZE, x / total);
                else p.v[2u + f] = x;
            }
            if (!last && lane == 0u) {
                p.v[0] = most;
                p.v[1] = total;
            }
        }
        barrier();
    }
}
