#version 460
// Portable matrix product: shared-memory tiles in two buffers, the next tile held in registers while the
// current one is multiplied, TM x TN results a thread. float32 accumulation for every dtype.
// Defines: DTYPE, WIDE, ADDMM, PARTIAL (float32 partial sums of a split), TA, TB (operand is stored
// transposed), BM, BN, BK, TM, TN. Grid: tiles, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/matmul.glsl"

#define THREADS ((BM / TM) * (BN / TN))
layout(local_size_x = THREADS) in;

shared vec4 tile_a[2 * BK * BM / 4];
shared vec4 tile_b[2 * BK * BN / 4];

// Operands whose contiguous axis is K are transposed on their way into shared memory. The rows of chunk kc
// are exchanged by exclusive or, so that the threads of a subgroup write to distinct banks.
#define CPK (BK / V)
#define SWIZZLE(k) ((((k) / V) % CPK) * (32 / CPK))

#define CHUNKS_A ((BM * BK / V + THREADS - 1) / THREADS)
#define CHUNKS_B ((BN * BK / V + THREADS - 1) / THREADS)

uvec4 next_a[CHUNKS_A];
uvec4 next_b[CHUNKS_B];

#if TA
#define SWIZZLE_A(k) 0
#else
#define SWIZZLE_A(k) SWIZZLE(k)
#endif
#if TB
#define SWIZZLE_B(k) SWIZZLE(k)
#else
#define SWIZZLE_B(k) 0
#endif

void fetch(uvec2 a, uvec2 b, uint row0, uint col0, uint k0, uint k_end) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (BM * BK / V % THREADS != 0 && id >= BM * BK / V) break;
#if TA
        next_a[i] = load_chunk(a, k0 + id / (BM / V), k_end, row0 + id % (BM / V) * V, p.m, p.lda);
#else
        next_a[i] = load_chunk(a, row0 + id / CPK, p.m, k0 + id % CPK * V, k_end, p.lda);
#endif
    }
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (BN * BK / V % THREADS != 0 && id >= BN * BK / V) break;
#if TB
        next_b[i] = load_chunk(b, col0 + id / CPK, p.n, k0 + id % CPK * V, k_end, p.ldb);
#else
        next_b[i] = load_chunk(b, k0 + id / (BN / V), k_end, col0 + id % (BN / V) * V, p.n, p.ldb);
#endif
    }
}

#define PUT_TRANSPOSED(tile, size, c, id, buf)                                                    \
    [[unroll]] for (uint e = 0; e < V; e++) {                                                     \
        uint k = (id) % CPK * V + e;                                                              \
        uint at = k * size + ((id) / CPK ^ SWIZZLE(k));                                           \
        tile[buf * (BK * size / 4) + at / 4][at % 4] = chunk_element(c, e);                       \
    }
#define PUT_STRAIGHT(tile, size, c, id, buf)                                                      \
    [[unroll]] for (uint e = 0; e < V / 4; e++) {                                                 \
        uint at = (id) / (size / V) * size + (id) % (size / V) * V + e * 4;                       \
        tile[buf * (BK * size / 4) + at / 4] =                                                    \
            vec4(chunk_element(c, e * 4), chunk_element(c, e * 4 + 1), chunk_element(c, e * 4 + 2), \
                 chunk_element(c, e * 4 + 3));                                                    \
    }

void put(uint buf) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (BM * BK / V % THREADS != 0 && id >= BM * BK / V) break;
#if TA
        PUT_STRAIGHT(tile_a, BM, next_a[i], id, buf)
#else
        PUT_TRANSPOSED(tile_a, BM, next_a[i], id, buf)
#endif
    }
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (BN * BK / V % THREADS != 0 && id >= BN * BK / V) break;
#if TB
        PUT_TRANSPOSED(tile_b, BN, next_b[i], id, buf)
#else
        PUT_STRAIGHT(tile_b, BN, next_b[i], id, buf)
#endif
    }
}

void main() {
    uint tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 a = batch_a(batch), b = batch_b(batch);
    uint k_begin = gl_WorkGroupID.y * p.k_split;
    uint k_end = min(p.k, k_begin + p.k_split);

    // Blocks of 8 x 4 threads, so that 32 neighbours read few distinct words of either tile.
    uint lane = gl_LocalInvocationIndex % 32, block = gl_LocalInvocationIndex / 32;
    uint tx = block % (BN / TN / 8) * 8 + lane % 8;
    uint ty = block / (BN / TN / 8) * 4 + lane / 8;

    vec4 acc[TM][TN / 4];
    [[unroll]] for (uint i = 0; i < TM; i++)
        [[unroll]] for (uint j = 0; j < TN / 4; j++) acc[i][j] = vec4(0);

    fetch(a, b, row0, col0, k_begin, k_end);
    put(0);
    barrier();
    uint buf = 0;
    for (uint k0 = k_begin; k0 < k_end; k0 += BK) {
        bool more = k0 + BK < k_end;
        if (more) fetch(a, b, row0, col0, k0 + BK, k_end);
        [[unroll]] for (uint k = 0; k < BK; k++) {
            vec4 x[TM / 4], y[TN / 4];
            [[unroll]] for (uint i = 0; i < TM / 4; i++) {
                uint r = (i * (BM / (TM / 4)) + ty * 4) ^ SWIZZLE_A(k);
                x[i] = tile_a[buf * (BK * BM / 4) + k * (BM / 4) + r / 4];
            }
            [[unroll]] for (uint j = 0; j < TN / 4; j++) {
                uint c = (j * (BN / (TN / 4)) + tx * 4) ^ SWIZZLE_B(k);
                y[j] = tile_b[buf * (BK * BN / 4) + k * (BN / 4) + c / 4];
            }
            [[unroll]] for (uint i = 0; i < TM; i++)
                [[unroll]] for (uint j = 0; j < TN / 4; j++)
                    acc[i][j] = fma(vec4(x[i / 4][i % 4]), y[j], acc[i][j]);
        }
        if (more) put(buf ^ 1);
        barrier();
        buf ^= 1;
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = batch_d(batch);
#endif
#ifdef ADDMM
    uvec2 addend = batch_c(batch);
#else
    uvec2 addend = uvec2(0);
#endif
    [[unroll]] for (uint i = 0; i < TM; i++) {
        uint row = row0 + i / 4 * (BM / (TM / 4)) + ty * 4 + i % 4;
        if (row >= p.m) continue;
        [[unroll]] for (uint j = 0; j < TN / 4; j++) {
            uint col = col0 + j * (BN / (TN / 4)) + tx * 4;
            vec4 x = acc[i][j];
#ifdef PARTIAL
            [[unroll]] for (uint e = 0; e < 4; e++)
                if (col + e < p.n) Floats(d).v[row * p.n + col + e] = x[e];
#else
            if ((p.flags & 1u) != 0 && col + 4 <= p.n) {
                [[unroll]] for (uint e = 0; e < 4; e++) x[e] = epilogue(x[e], addend, row, col + e);
                store_four(d, row * p.d_rs + col, x);
            } else {
                [[unroll]] for (uint e = 0; e < 4; e++)
                    if (col + e < p.n)
                        store_element(d, row * p.d_rs + (col + e) * p.d_cs, epilogue(x[e], addend, row, col + e));
            }
#endif
        }
    }
}
