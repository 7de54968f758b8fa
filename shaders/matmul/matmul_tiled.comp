#version 460
// Portable matrix product: shared-memory tiles in two buffers, the next tile held in registers while the
// current one is multiplied, TM x TN results a thread. float32 accumulation for every dtype.
// Defines: DTYPE, WIDE, ADDMM, FUSED, PARTIAL (float32 partial sums of a split), TA, TB (operand is stored
// transposed), BM, BN, BK, TM, TN, those of tables in matmul/matmul.glsl; CONV for a convolution, whose one
// operand is gathered (conv/conv_gather.glsl); LEFT_OVER: those tiles alone that matmul_parts.comp leaves, whose
// operands' blocks (parts/parts.glsl) stand in the place of the operands. Grid: tiles, splits, batch.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#include "matmul/matmul.glsl"

#define THREADS ((BM / TM) * (BN / TN))
layout(local_size_x = THREADS) in;

shared vec4 tile_a[2 * BK * BM / 4];
shared vec4 tile_b[2 * BK * BN / 4];

#define CHUNKS_A ((BM * BK / V + THREADS - 1) / THREADS)
#define CHUNKS_B ((BN * BK / V + THREADS - 1) / THREADS)

// Operands whose contiguous axis is K are transposed on their way into shared memory: a thread that holds four
// chunks or more takes them from four neighbouring rows, and writes four rows at once. The rows of chunk kc
// are exchanged by exclusive or, so that the threads of a subgroup write to distinct banks.
#define CPK (BK / V)
#define SWIZZLE(k) ((((k) / V) % CPK) * (32 / CPK))
#define BY_FOUR_A (!TA && CHUNKS_A % 4 == 0 && BM * BK / V % THREADS == 0)
#define BY_FOUR_B (TB && CHUNKS_B % 4 == 0 && BN * BK / V % THREADS == 0)
#define ROW_OF_ONE(i) ((gl_LocalInvocationIndex + (i) * THREADS) / CPK)
#define ROW_OF_FOUR(i) ((gl_LocalInvocationIndex + (i) / 4 * THREADS) / CPK * 4 + (i) % 4)
#if BY_FOUR_A
#define ROW_A(i) ROW_OF_FOUR(i)
#else
#define ROW_A(i) ROW_OF_ONE(i)
#endif
#if BY_FOUR_B
#define ROW_B(i) ROW_OF_FOUR(i)
#else
#define ROW_B(i) ROW_OF_ONE(i)
#endif
// K of a thread's chunks inside the tile; the same for all of them.
#define K_OF (gl_LocalInvocationIndex % CPK * V)

#include "lib/each.glsl"
uvec4 next_a[CHUNKS_A];
uvec4 next_b[CHUNKS_B];

#ifdef CONV
#include "conv/conv_gather.glsl"
#endif
#include "matmul/write.glsl"
#ifdef LEFT_OVER
#include "parts/parts.glsl"
shared uint left_over;

// Whether a block of the other kernel, which is a tile here, is left.
bool is_left(uint row0, uint col0) {
    if ((ANY_LEFT(p.a) | ANY_LEFT(p.b)) == 0) return false;
    if (gl_LocalInvocationIndex == 0) left_over = 0;
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < 2 * BLOCK; i += THREADS) {
        bool right = i >= BLOCK;
        uint at = right ? min(col0 + i - BLOCK, p.n - 1) : min(row0 + i, p.m - 1);
        if (ROW_LEFT(right ? p.b : p.a, at) != 0) left_over = 1;
    }
    barrier();
    return left_over != 0;
}
#if BM != BLOCK || BN != BLOCK
#error a tile has to be a block
#endif
#endif

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

// The last round of chunks may have more threads than chunks. No `break`, `continue` or early `return` in
// the loops below: the compiler unrolls none that has one, and then keeps the arrays in memory.
#define HAS_A(id) (BM * BK / V % THREADS == 0 || (id) < BM * BK / V)
#define HAS_B(id) (BN * BK / V % THREADS == 0 || (id) < BN * BK / V)

// The chunk at (row, k) or (k, row), all of it before k_end. Rows beyond the last one repeat a row that is
// there: what comes of them is never stored.
uvec4 whole_rows(uvec2 base, uint row, uint rows, uint k, uint ld) {
    return Chunks(base).v[(min(row, rows - 1) * ld + k) / V];
}
uvec4 whole_cols(uvec2 base, uint k, uint col, uint cols, uint ld) {
    return Chunks(base).v[(k * ld + min(col, (cols - 1) / V * V)) / V];
}

void fetch(uvec2 a, uvec2 b, uint row0, uint col0, uint k0, uint k_end) {
#ifdef WIDE
    if (k0 + BK <= k_end) {
#ifndef GATHER_A
        [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
            uint id = gl_LocalInvocationIndex + i * THREADS;
#if TA
            if (HAS_A(id)) next_a[i] = whole_cols(a, k0 + id / (BM / V), row0 + id % (BM / V) * V, p.m, p.lda);
#else
            if (HAS_A(id)) next_a[i] = whole_rows(a, row0 + ROW_A(i), p.m, k0 + K_OF, p.lda);
#endif
        }
#endif
#ifndef GATHER_B
        [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
            uint id = gl_LocalInvocationIndex + i * THREADS;
#if TB
            if (HAS_B(id)) next_b[i] = whole_rows(b, col0 + ROW_B(i), p.n, k0 + K_OF, p.ldb);
#else
            if (HAS_B(id)) next_b[i] = whole_cols(b, k0 + id / (BN / V), col0 + id % (BN / V) * V, p.n, p.ldb);
#endif
        }
#endif
    } else
#endif
    {
#ifndef GATHER_A
        [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
            uint id = gl_LocalInvocationIndex + i * THREADS;
#if TA
            if (HAS_A(id)) next_a[i] = load_chunk(a, k0 + id / (BM / V), k_end, row0 + id % (BM / V) * V, p.m, p.lda);
#else
            if (HAS_A(id)) next_a[i] = load_chunk(a, row0 + ROW_A(i), p.m, k0 + K_OF, k_end, p.lda);
#endif
        }
#endif
#ifndef GATHER_B
        [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
            uint id = gl_LocalInvocationIndex + i * THREADS;
#if TB
            if (HAS_B(id)) next_b[i] = load_chunk(b, col0 + ROW_B(i), p.n, k0 + K_OF, k_end, p.ldb);
#else
            if (HAS_B(id)) next_b[i] = load_chunk(b, k0 + id / (BN / V), k_end, col0 + id % (BN / V) * V, p.n, p.ldb);
#endif
        }
#endif
    }
#ifdef GATHER_A
    gather(a, k0, k_end);
#elif defined(GATHER_B)
    gather(b, k0, k_end);
#endif
}

#define PUT_TRANSPOSED(tile, size, c, id, buf)                                                    \
    [[unroll]] for (uint e = 0; e < V; e++) {                                                     \
        uint k = (id) % CPK * V + e;                                                              \
        uint at = k * size + ((id) / CPK ^ SWIZZLE(k));                                           \
        tile[buf * (BK * size / 4) + at / 4][at % 4] = chunk_element(c, e);                       \
    }
#define PUT_FOUR(tile, size, chunks, i, buf)                                                       \
    [[unroll]] for (uint e = 0; e < V; e++) {                                                     \
        uint k = K_OF + e;                                                                        \
        uint at = k * size + (ROW_OF_FOUR(i) ^ SWIZZLE(k));                                       \
        tile[buf * (BK * size / 4) + at / 4] =                                                    \
            vec4(chunk_element(chunks[i], e), chunk_element(chunks[i + 1], e),                    \
                 chunk_element(chunks[i + 2], e), chunk_element(chunks[i + 3], e));               \
    }
#define PUT_STRAIGHT(tile, size, c, id, buf)                                                      \
    [[unroll]] for (uint e = 0; e < V / 4; e++) {                                                 \
        uint at = (id) / (size / V) * size + (id) % (size / V) * V + e * 4;                       \
        tile[buf * (BK * size / 4) + at / 4] =                                                    \
            vec4(chunk_element(c, e * 4), chunk_element(c, e * 4 + 1), chunk_element(c, e * 4 + 2), \
                 chunk_element(c, e * 4 + 3));                                                    \
    }

void put_a(uint buf, const uint i) {
    uint id = gl_LocalInvocationIndex + i * THREADS;
    if (HAS_A(id)) {
#if TA
        PUT_STRAIGHT(tile_a, BM, next_a[i], id, buf)
#else
        PUT_TRANSPOSED(tile_a, BM, next_a[i], id, buf)
#endif
    }
}

void put_b(uint buf, const uint i) {
    uint id = gl_LocalInvocationIndex + i * THREADS;
    if (HAS_B(id)) {
#if TB
        PUT_TRANSPOSED(tile_b, BN, next_b[i], id, buf)
#else
        PUT_STRAIGHT(tile_b, BN, next_b[i], id, buf)
#endif
    }
}

void put(uint buf) {
#define PUT_A(i) put_a(buf, i);
#define PUT_B(i) put_b(buf, i);
#define PUT_FOUR_A(i) PUT_FOUR(tile_a, BM, next_a, i, buf)
#define PUT_FOUR_B(i) PUT_FOUR(tile_b, BN, next_b, i, buf)
#if BY_FOUR_A
    EACH_FOURTH_A(PUT_FOUR_A)
#else
    EACH_A(PUT_A)
#endif
#if BY_FOUR_B
    EACH_FOURTH_B(PUT_FOUR_B)
#else
    EACH_B(PUT_B)
#endif
}

void main() {
    uint tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 a = batch_a(batch), b = batch_b(batch);
    uint k_begin = k_first(batch), k_end = k_last(batch);
#ifdef LEFT_OVER
    if (!is_left(row0, col0)) return;
    a = Pairs(a).v[0];
    b = Pairs(b).v[0];
#endif

    // Blocks of 8 x 4 threads, so that 32 neighbours read few distinct words of either tile.
    uint lane = gl_LocalInvocationIndex % 32, block = gl_LocalInvocationIndex / 32;
    uint tx = block % (BN / TN / 8) * 8 + lane % 8;
    uint ty = block / (BN / TN / 8) * 4 + lane / 8;

    FOR_EACH_RUN
    vec4 acc[TM][TN / 4];
    [[unroll]] for (uint i = 0; i < TM; i++)
        [[unroll]] for (uint j = 0; j < TN / 4; j++) acc[i][j] = vec4(0);

#ifdef CONV
    begin_gather(row0, col0);
#endif
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
    uvec2 addend = begin_epilogue(batch);
    [[unroll]] for (uint i = 0; i < TM; i++) {
        uint row = row0 + i / 4 * (BM / (TM / 4)) + ty * 4 + i % 4;
        [[unroll]] for (uint j = 0; j < TN / 4; j++) {
            uint col = col0 + j * (BN / (TN / 4)) + tx * 4;
            if (row < rows) write_four(d, addend, row, col, acc[i][j]);
        }
    }
    END_RUN
}
