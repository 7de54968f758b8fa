#version 460
// Convolution as a product on KHR cooperative matrices of subgroup scope, whose one operand is gathered
// (conv/conv_gather.glsl): operands are staged in shared memory in the orientation they are stored in, tails filled
// with zeros; float32 accumulation.
// Defines: DTYPE (1 or 2), WIDE, PARTIAL, TA, TB, BM, BN, BK, SM, SN (subgroups along M and N), FM, FN, FK (fragment),
// THREADS (SM * SN subgroups), CONV and those of the gathered operand. Grid: tiles, splits, batch.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif

#include "matmul/matmul.glsl"

layout(local_size_x = THREADS) in;

// Rows of stored operands in chunks of eight elements, one chunk of padding against bank conflicts.
#if TA
#define ROWS_A BK
#define WIDTH_A (BM / 8)
#else
#define ROWS_A BM
#define WIDTH_A (BK / 8)
#endif
#if TB
#define ROWS_B BN
#define WIDTH_B (BK / 8)
#else
#define ROWS_B BK
#define WIDTH_B (BN / 8)
#endif
#define CHUNKS_A ((ROWS_A * WIDTH_A + THREADS - 1) / THREADS)
#define CHUNKS_B ((ROWS_B * WIDTH_B + THREADS - 1) / THREADS)
#define WM (BM / SM / FM)
#define WN (BN / SN / FN)

shared uvec4 tile_a[ROWS_A * (WIDTH_A + 1)];
shared uvec4 tile_b[ROWS_B * (WIDTH_B + 1)];
shared float stage[SM * SN * FM * FN];

#include "lib/each.glsl"
uvec4 next_a[CHUNKS_A];
uvec4 next_b[CHUNKS_B];

#define ROW_A(i) ((gl_LocalInvocationIndex + (i) * THREADS) / WIDTH_A)

#include "conv/conv_gather.glsl"

void fetch(uvec2 a, uvec2 b, uint row0, uint col0, uint k0, uint k_end) {
#ifdef GATHER_A
    gather(a, k0, k_end);
#else
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (ROWS_A * WIDTH_A % THREADS != 0 && id >= ROWS_A * WIDTH_A) break;
        uint row = id / WIDTH_A, col = id % WIDTH_A * 8;
#if TA
        next_a[i] = load_chunk(a, k0 + row, k_end, row0 + col, p.m, p.lda);
#else
        next_a[i] = load_chunk(a, row0 + row, p.m, k0 + col, k_end, p.lda);
#endif
    }
#endif
#ifdef GATHER_B
    gather(b, k0, k_end);
#else
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (ROWS_B * WIDTH_B % THREADS != 0 && id >= ROWS_B * WIDTH_B) break;
        uint row = id / WIDTH_B, col = id % WIDTH_B * 8;
#if TB
        next_b[i] = load_chunk(b, col0 + row, p.n, k0 + col, k_end, p.ldb);
#else
        next_b[i] = load_chunk(b, k0 + row, k_end, col0 + col, p.n, p.ldb);
#endif
    }
#endif
}

void put() {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (ROWS_A * WIDTH_A % THREADS != 0 && id >= ROWS_A * WIDTH_A) break;
        tile_a[id / WIDTH_A * (WIDTH_A + 1) + id % WIDTH_A] = next_a[i];
    }
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        if (ROWS_B * WIDTH_B % THREADS != 0 && id >= ROWS_B * WIDTH_B) break;
        tile_b[id / WIDTH_B * (WIDTH_B + 1) + id % WIDTH_B] = next_b[i];
    }
}

void main() {
    uint tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 a = batch_a(batch), b = batch_b(batch);
    uint k_begin = k_first(batch), k_end = k_last(batch);
    uint sm = gl_SubgroupID / SN * (BM / SM), sn = gl_SubgroupID % SN * (BN / SN);

    FOR_EACH_RUN
    coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> acc[WM][WN];
    [[unroll]] for (uint i = 0; i < WM; i++)
        [[unroll]] for (uint j = 0; j < WN; j++)
            acc[i][j] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);

    begin_gather(row0, col0);
    fetch(a, b, row0, col0, k_begin, k_end);
    for (uint k0 = k_begin; k0 < k_end; k0 += BK) {
        put();
        barrier();
        if (k0 + BK < k_end) fetch(a, b, row0, col0, k0 + BK, k_end);
        [[unroll]] for (uint k = 0; k < BK; k += FK) {
            coopmat<ELEMENT, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> x[WM];
            [[unroll]] for (uint i = 0; i < WM; i++) {
#if TA
                coopMatLoad(x[i], tile_a, k * (WIDTH_A + 1) + (sm + i * FM) / 8, WIDTH_A + 1,
                            gl_CooperativeMatrixLayoutColumnMajor);
#else
                coopMatLoad(x[i], tile_a, (sm + i * FM) * (WIDTH_A + 1) + k / 8, WIDTH_A + 1,
                            gl_CooperativeMatrixLayoutRowMajor);
#endif
            }
            [[unroll]] for (uint j = 0; j < WN; j++) {
                coopmat<ELEMENT, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB> y;
#if TB
                coopMatLoad(y, tile_b, (sn + j * FN) * (WIDTH_B + 1) + k / 8, WIDTH_B + 1,
                            gl_CooperativeMatrixLayoutColumnMajor);
#else
                coopMatLoad(y, tile_b, k * (WIDTH_B + 1) + (sn + j * FN) / 8, WIDTH_B + 1,
                            gl_CooperativeMatrixLayoutRowMajor);
#endif
                [[unroll]] for (uint i = 0; i < WM; i++) acc[i][j] = coopMatMulAdd(x[i], y, acc[i][j]);
            }
        }
        barrier();
    }

#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = batch_d(batch);
#endif
    uvec2 addend = begin_epilogue(batch);
    uint mine = gl_SubgroupID * (FM * FN);
    [[unroll]] for (uint i = 0; i < WM; i++) {
        [[unroll]] for (uint j = 0; j < WN; j++) {
            coopMatStore(acc[i][j], stage, mine, FN, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < FM * FN; e += gl_SubgroupSize) {
                uint row = row0 + sm + i * FM + e / FN, col = col0 + sn + j * FN + e % FN;
                if (row < rows && col < p.n) {
#ifdef PARTIAL
                    Floats(d).v[row * p.n + col] = stage[mine + e];
#else
                    store_element(d, RESULT(row, col), epilogue(stage[mine + e], addend, row, col));
#endif
                }
            }
            barrier();
        }
    }
    END_RUN
}
