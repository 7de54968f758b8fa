#version 460
// Attention of many queries, tile by tile with a running maximum and sum (Dao, FlashAttention-2). A workgroup of 16
// x 16 lanes takes 16 * TM rows of the heads that share a key head and walks their keys 16 * TN at a time; a lane
// holds TM x TN scores and TM x NC values, in rows and columns 16 apart. Features come through shared memory DC at a
// time, values VK keys at a time, all as float.
#include "lib/codecs.glsl"
layout(local_size_x = 256) in;
#include "attention/attention.glsl"

const uint BM = 16u * TM, BN = 16u * TN, PAD = DC + 1u;
const uint COLS = 16u * NC;
const uint STAGE = (BM + BN) * PAD > VK * COLS ? (BM + BN) * PAD : VK * COLS;
shared float stage[STAGE], weights[BM * (BN + 1u)], tops[BM], sums[BM], keeps[BM], partial[256];

void main() {
    uint lane = gl_LocalInvocationIndex, tx = lane % 16u, ty = lane / 16u;
    uint tiles = (a.rows + BM - 1u) / BM;
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    // The rows that see most keys come first.
    uint tile = tiles - 1u - id % tiles, line = id / tiles;
    uint kv = line % a.kv, b = line / a.kv;
    if (b >= a.batch) return;
    uint row0 = tile * BM, rows = min(BM, a.rows - row0), end = a.n;
#ifdef CAUSAL
    // No row sees more keys than its last query; a row that sees none takes all.
    bool one = row0 / a.l == (row0 + rows - 1u) / a.l;
    uint low = one ? row0 % a.l : 0u, high = one ? (row0 + rows - 1u) % a.l : a.l - 1u;
    if (low + a.n >= a.l) end = high + 1u + a.n - a.l;
#endif
    uint64_t kbase = at(a.k, int64_t(b) * a.ks[0] + int64_t(kv) * a.ks[1], A_SIZE);
    uint64_t vbase = at(a.v, int64_t(b) * a.vs[0] + int64_t(kv) * a.vs[1], A_SIZE);
    float o[TM][NC];
    [[unroll]] for (uint i = 0u; i < TM; ++i)
        [[unroll]] for (uint c = 0u; c < NC; ++c) o[i][c] = 0.0;
    if (lane < BM) {
        uint row = min(row0 + lane, a.rows - 1u);
        tops[lane] = sink(kv * a.group + row / a.l);
        sums[lane] = tops[lane] == NEG_INF ? 0.0 : 1.0;
    }
    for (uint first = 0u; first < end; first += BN) {
        float s[TM][TN];
        [[unroll]] for (uint i = 0u; i < TM; ++i)
            [[unroll]] for (uint j = 0u; j < TN; ++j) s[i][j] = 0.0;
        for (uint d0 = 0u; d0 < a.d; d0 += DC) {
            barrier();
            for (uint e = lane; e < (BM + BN) * (DC / V); e += 256u) {
                uint r = e / (DC / V), c = (e % (DC / V)) * V;
                float x[V];
                if (r < BM) {
                    uint row = min(row0 + r, a.rows - 1u);
                    uint64_t p = q_row(b, kv * a.group + row / a.l, row % a.l);
                    features(p, d0 + c, a.d, a.qs[3], x);
                } else {
                    uint j = min(first + r - BM, a.n - 1u);
                    features(at(kbase, int64_t(j) * a.ks[2], A_SIZE), d0 + c, a.d, a.ks[3], x);
                }
                [[unroll]] for (uint k = 0u; k < V; ++k) stage[r * PAD + c + k] = x[k];
            }
            barrier();
            for (uint k = 0u; k < DC; ++k) {
                float x[TM], y[TN];
                [[unroll]] for (uint i = 0u; i < TM; ++i) x[i] = stage[(ty + 16u * i) * PAD + k];
                [[unroll]] for (uint j = 0u; j < TN; ++j) y[j] = stage[(BM + tx + 16u * j) * PAD + k];
                [[unroll]] for (uint i = 0u; i < TM; ++i)
                    [[unroll]] for (uint j = 0u; j < TN; ++j) s[i][j] = fma(x[i], y[j], s[i][j]);
            }
        }
        [[unroll]] for (uint i = 0u; i < TM; ++i) {
            uint r = ty + 16u * i, row = min(row0 + r, a.rows - 1u);
            uint h = kv * a.group + row / a.l, q = row % a.l;
            [[unroll]] for (uint j = 0u; j < TN; ++j) {
                uint c = tx + 16u * j;
                weights[r * (BN + 1u) + c] = score(s[i][j], b, h, q, first + c, end);
            }
        }
        barrier();
        // 256 / BM lanes a row.
        const uint LR = 256u / BM;
        uint r = lane / LR, c0 = lane % LR;
        float most = NEG_INF, total = 0.0;
        for (uint c = c0; c < BN; c += LR) most = max(most, weights[r * (BN + 1u) + c]);
        partial[lane] = most;
        barrier();
        most = tops[r];
        for (uint c = 0u; c < LR; ++c) most = max(most, partial[r * LR + c]);
        float base = finite(most);
        barrier();
        for (uint c = c0; c < BN; c += LR) {
            float w = exp2(weights[r * (BN + 1u) + c] - base);
            weights[r * (BN + 1u) + c] = w;
            total += w;
        }
        partial[lane] = total;
        barrier();
        if (c0 == 0u) {
            for (uint c = 1u; c < LR; ++c) total += partial[lane + c];
            float keep = exp2(tops[r] - base);
            keeps[r] = keep;
            sums[r] = sums[r] * keep + total;
            tops[r] = most;
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < TM; ++i) {
            float keep = keeps[ty + 16u * i];
            [[unroll]] for (uint c = 0u; c < NC; ++c) o[i][c] *= keep;
        }
        uint keys = min(BN, end - first);
        for (uint k0 = 0u; k0 < keys; k0 += VK) {
            barrier();
            for (uint e = lane; e < VK * (COLS / V); e += 256u) {
                uint k = e / (COLS / V), c = (e % (COLS / V)) * V;
                float x[V];
                // Keys past the end have no weight, and must not bring NaN.
                bool there = k0 + k < keys;
                uint j = min(first + k0 + k, a.n - 1u);
                features(at(vbase, int64_t(j) * a.vs[2], A_SIZE), c, there ? a.dv : 0u, a.vs[3], x);
                [[unroll]] for (uint m = 0u; m < V; ++m) stage[k * COLS + c + m] = x[m];
            }
            barrier();
            for (uint k = 0u; k < VK; ++k) {
                float w[TM];
                [[unroll]] for (uint i = 0u; i < TM; ++i) w[i] = weights[(ty + 16u * i) * (BN + 1u) + k0 + k];
                [[unroll]] for (uint c = 0u; c < NC; ++c) {
                    float x = stage[k * COLS + tx + 16u * c];
                    [[unroll]] for (uint i = 0u; i < TM; ++i) o[i][c] = fma(w[i], x, o[i][c]);
                }
            }
        }
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < TM; ++i) {
        uint r = ty + 16u * i, row = row0 + r;
        if (row < a.rows) {
            uint64_t to = (uint64_t(b) * a.kv * a.group + kv * a.group + row / a.l) * a.l + row % a.l;
            float f = 1.0 / sums[r];
            [[unroll]] for (uint c = 0u; c < NC; ++c) {
                uint e = tx + 16u * c;
                if (e < a.dv) b_store(a.dst + (to * a.dv + e) * B_SIZE, o[i][c] * f);
            }
        }
    }
}
