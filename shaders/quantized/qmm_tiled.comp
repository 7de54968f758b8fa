#version 460
// Rows of x times a quantised matrix (or its transpose) through tiles in shared memory, where codes become floats;
// the next tile waits in registers while the current one is multiplied, TM x TN results a thread, float32 sums.
// Of a matrix that is not transposed values are rounded as dequantised ones. x is 16-byte aligned, K contiguous. With
// RUNS each row of x and of the result is a product of its own, and neighbouring rows that meet the same matrix are
// multiplied together.
// Defines: DTYPE, MODE, BITS, GROUP, TRANSPOSE, BM, BN, TM, TN, STEP (unrolled steps of K), PARTIAL, RUNS.
// Grid: tiles, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "quantized/qmm.glsl"

#define BK 32
#define THREADS ((BM / TM) * (BN / TN))
layout(local_size_x = THREADS) in;

shared vec4 tile_a[BK * BM / 4];
shared vec4 tile_b[BK * BN / 4];

#define CHUNKS ((BM * BK / V + THREADS - 1) / THREADS)
#define PACKS ((BN * BK / 8 + THREADS - 1) / THREADS)
#define HAS_A(id) (BM * BK / V % THREADS == 0 || (id) < BM * BK / V)
#define HAS_B(id) (BN * BK / 8 % THREADS == 0 || (id) < BN * BK / 8)

uvec4 next_a[CHUNKS];
uvec2 next_b[PACKS];
vec2 next_s[PACKS];

// Neighbours take neighbouring rows of either tile, so that they write to distinct banks; the 16 bytes of a row
// that others take come from the cache.
void fetch(uvec2 x, uvec2 w, uvec2 s, uvec2 b, uint row0, uint rows, uint col0, uint k0, uint k_end) {
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS, row = row0 + id % BM, k = k0 + id / BM * V;
        if (HAS_A(id)) {
#ifdef RUNS
            next_a[i] = uvec4(0);
            if (row < rows) next_a[i] = load_chunk(matrix_x(pick_x(row)), 0, 1, k, k_end, 0);
#else
            next_a[i] = load_chunk(x, row, rows, k, k_end, p.x_rs);
#endif
        }
    }
    [[unroll]] for (uint i = 0; i < PACKS; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
#if TRANSPOSE
        uint row = col0 + id % BN, at = k0 + id / BN * 8;
        bool there = row < p.n && at < k_end;
#else
        uint row = k0 + id / (BN / 8), at = col0 + id % (BN / 8) * 8;
        bool there = at < p.n && row < k_end;
#endif
        if (HAS_B(id)) {
            next_b[i] = uvec2(0);
            next_s[i] = vec2(0);
            if (there) {
                next_b[i] = load_pack(w, row * ROW_WORDS, at);
                next_s[i].x = factor(s, row * ROW_GROUPS + at / GROUP);
#if MODE == 0
                next_s[i].y = factor(b, row * ROW_GROUPS + at / GROUP);
#endif
            }
        }
    }
}

void put() {
    [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (HAS_A(id)) {
            [[unroll]] for (uint e = 0; e < V; e++) {
                uint at = (id / BM * V + e) * BM + id % BM;
                tile_a[at / 4][at % 4] = chunk_element(next_a[i], e);
            }
        }
    }
    [[unroll]] for (uint i = 0; i < PACKS; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (HAS_B(id)) {
            float q[8];
#if TRANSPOSE
            [[unroll]] for (uint e = 0; e < 8; e++) q[e] = fma(code(next_b[i], e), next_s[i].x, next_s[i].y);
            [[unroll]] for (uint e = 0; e < 8; e++) {
                uint at = (id / BN * 8 + e) * BN + id % BN;
                tile_b[at / 4][at % 4] = q[e];
            }
#else
            [[unroll]] for (uint e = 0; e < 8; e++)
                q[e] = stored_value(code(next_b[i], e), next_s[i].x, next_s[i].y);
            tile_b[id * 2] = vec4(q[0], q[1], q[2], q[3]);
            tile_b[id * 2 + 1] = vec4(q[4], q[5], q[6], q[7]);
#endif
        }
    }
}

void main() {
    uint tiles_n = (p.n + BN - 1) / BN, t = gl_WorkGroupID.x + p.tile0;
    uint tiles_m = (p.m + BM - 1) / BM;
    // Down the rows first: neighbours in time read the same codes.
    uint row0 = t % tiles_m * BM, col0 = t / tiles_m * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uint k_begin = gl_WorkGroupID.y * p.k_split, k_end = min(p.k, k_begin + p.k_split);

    // Blocks of 8 x 4 threads, so that 32 neighbours read few distinct words of either tile.
    uint lane = gl_LocalInvocationIndex % 32, block = gl_LocalInvocationIndex / 32;
    uint tx = block % (BN / TN / 8) * 8 + lane % 8;
    uint ty = block / (BN / TN / 8) * 4 + lane / 8;

#ifdef RUNS
    uint tile_end = min(row0 + BM, p.m);
    for (uint rows; row0 < tile_end; row0 = rows) {
    uint wi = pick_w(row0);
    rows = row0 + 1;
    while (rows < tile_end && pick_w(rows) == wi) rows++;
    uvec2 x = uvec2(0);
#else
    uint rows = p.m, wi = pick_w(batch);
    uvec2 x = matrix_x(pick_x(batch));
#endif
    uvec2 w = matrix_w(wi), s = matrix_s(wi), b = matrix_b(wi);

    vec4 acc[TM][TN / 4];
    [[unroll]] for (uint i = 0; i < TM; i++)
        [[unroll]] for (uint j = 0; j < TN / 4; j++) acc[i][j] = vec4(0);

    fetch(x, w, s, b, row0, rows, col0, k_begin, k_end);
    for (uint k0 = k_begin; k0 < k_end; k0 += BK) {
        barrier();
        put();
        barrier();
        if (k0 + BK < k_end) fetch(x, w, s, b, row0, rows, col0, k0 + BK, k_end);
        for (uint step = 0; step < BK; step += STEP) {
            [[unroll]] for (uint e = 0; e < STEP; e++) {
                uint k = step + e;
                vec4 f[TM / 4], g[TN / 4];
                [[unroll]] for (uint i = 0; i < TM / 4; i++)
                    f[i] = tile_a[(k * BM + i * (BM / (TM / 4)) + ty * 4) / 4];
                [[unroll]] for (uint j = 0; j < TN / 4; j++)
                    g[j] = tile_b[(k * BN + j * (BN / (TN / 4)) + tx * 4) / 4];
                [[unroll]] for (uint i = 0; i < TM; i++)
                    [[unroll]] for (uint j = 0; j < TN / 4; j++)
                        acc[i][j] = fma(vec4(f[i / 4][i % 4]), g[j], acc[i][j]);
            }
        }
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#elif defined(RUNS)
    uvec2 d = p.d;
#else
    uvec2 d = matrix_d(batch);
#endif
    [[unroll]] for (uint i = 0; i < TM; i++) {
        uint row = row0 + i / 4 * (BM / (TM / 4)) + ty * 4 + i % 4;
        [[unroll]] for (uint j = 0; j < TN / 4; j++) {
            uint col = col0 + j * (BN / (TN / 4)) + tx * 4;
            [[unroll]] for (uint e = 0; e < 4; e++) {
                if (row < rows && col + e < p.n) {
#ifdef PARTIAL
                    Floats(d).v[row * p.n + col + e] = acc[i][j][e];
#else
                    store_element(d, row * p.n + col + e, acc[i][j][e]);
#endif
                }
            }
        }
    }
#ifdef RUNS
    }
#endif
}
