#version 460
// Matrix product on KHR cooperative matrices of subgroup scope: operands are staged in shared memory in
// the orientation they are stored in; float32 accumulation.
// Defines: DTYPE (1 or 2), WIDE, WHOLE (chunks of eight never cross the end of a row, see below), ADDMM, FUSED, PARTIAL,
// TA, TB, BM, BN, BK, STAGES (of shared memory, 1 or 2), SM, SN (subgroups along M and N), FM, FN, FK (fragment),
// THREADS (SM * SN subgroups), those of tables in matmul/matmul.glsl; CONV for a convolution, whose one operand is gathered
// (conv/conv_gather.glsl), and those of that. Grid: tiles, splits, batch.
// Compilers unroll a loop to the end only where its body is plain, and otherwise keep arrays that it indexes in memory:
// for the sums that costs nine tenths of the speed. So loops over chunks and fragments have no way out and no loop inside.
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
#define STRIDE_A (WIDTH_A + 1)
#define STRIDE_B (WIDTH_B + 1)
#define SIZE_A (ROWS_A * STRIDE_A)
#define SIZE_B (ROWS_B * STRIDE_B)
#define WM (BM / SM / FM)
#define WN (BN / SN / FN)
#define LANES (THREADS / (SM * SN))

// When the product is done the sums go through the same memory, fragments of a row at a time: as many as there is room
// for, each row with 32 bytes of padding.
#define STAGED (STAGES * (SIZE_A + SIZE_B))
#define ROOM(n) (SM * SN * FM * ((n) * FN / 4 + 2) <= STAGED)
#if ROOM(WN)
#define ABREAST WN
#elif WN % 2 == 0 && ROOM(WN / 2)
#define ABREAST (WN / 2)
#else
#define ABREAST 1
#endif
#define STAGE_ROW (ABREAST * FN / 4 + 2)
#define STAGE (SM * SN * FM * STAGE_ROW)

shared uvec4 mem[STAGED > STAGE ? STAGED : STAGE];

uvec4 next_a[CHUNKS_A];
uvec4 next_b[CHUNKS_B];

#define ID(i) (gl_LocalInvocationIndex + (i) * THREADS)
// The last round of chunks may have more threads than chunks.
#define HAS_A(i) (ROWS_A * WIDTH_A % THREADS == 0 || ID(i) < ROWS_A * WIDTH_A)
#define HAS_B(i) (ROWS_B * WIDTH_B % THREADS == 0 || ID(i) < ROWS_B * WIDTH_B)

#ifdef CONV
#define ROW_A(i) (ID(i) / WIDTH_A)
#include "lib/each.glsl"
#include "conv/conv_gather.glsl"
#endif
#include "matmul/write.glsl"

// What the loop along K brings from memory. The first step ends at `end`, and has zeros beyond it.
#ifdef WHOLE
// Rows are aligned to 16 bytes, their contiguous axes multiples of eight elements, and so is K wherever it is one. No
// load needs a branch then: rows beyond the last one repeat it, since what comes of them is not stored, and of the steps
// along K the first is the one that may be short.
uint at_a[CHUNKS_A];
uint at_b[CHUNKS_B];
#if TA
#define ALONG_A(k) ((k) * (p.lda / 8))
#define K_A(i) (ID(i) / WIDTH_A)
#else
#define ALONG_A(k) ((k) / 8)
#define K_A(i) (ID(i) % WIDTH_A * 8)
#endif
#if TB
#define ALONG_B(k) ((k) / 8)
#define K_B(i) (ID(i) % WIDTH_B * 8)
#else
#define ALONG_B(k) ((k) * (p.ldb / 8))
#define K_B(i) (ID(i) / WIDTH_B)
#endif

void begin(uint row0, uint col0) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint row = ID(i) / WIDTH_A, col = ID(i) % WIDTH_A;
#if TA
        at_a[i] = row * (p.lda / 8) + min(row0 / 8 + col, p.m / 8 - 1);
#else
        at_a[i] = min(row0 + row, p.m - 1) * (p.lda / 8) + col;
#endif
    }
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint row = ID(i) / WIDTH_B, col = ID(i) % WIDTH_B;
#if TB
        at_b[i] = min(col0 + row, p.n - 1) * (p.ldb / 8) + col;
#else
        at_b[i] = row * (p.ldb / 8) + min(col0 / 8 + col, p.n / 8 - 1);
#endif
    }
}

void fetch_first(uvec2 a, uvec2 b, uint k0, uint end) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        bool there = k0 + K_A(i) < end;
        uvec4 c = Chunks(a).v[there ? at_a[i] + ALONG_A(k0) : 0];
        next_a[i] = there ? c : uvec4(0);
    }
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        bool there = k0 + K_B(i) < end;
        uvec4 c = Chunks(b).v[there ? at_b[i] + ALONG_B(k0) : 0];
        next_b[i] = there ? c : uvec4(0);
    }
}

void fetch(uvec2 a, uvec2 b, uint k0, uint k_end) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++)
        if (HAS_A(i)) next_a[i] = Chunks(a).v[at_a[i] + ALONG_A(k0)];
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++)
        if (HAS_B(i)) next_b[i] = Chunks(b).v[at_b[i] + ALONG_B(k0)];
}
#else
uint row_of_tile, col_of_tile;
void begin(uint row0, uint col0) {
    row_of_tile = row0;
    col_of_tile = col0;
#ifdef CONV
    begin_gather(row0, col0);
#endif
}

void fetch(uvec2 a, uvec2 b, uint k0, uint k_end) {
#ifdef GATHER_A
    gather(a, k0, k_end);
#else
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint row = ID(i) / WIDTH_A, col = ID(i) % WIDTH_A * 8;
#if TA
        if (HAS_A(i)) next_a[i] = load_chunk(a, k0 + row, k_end, row_of_tile + col, p.m, p.lda);
#else
        if (HAS_A(i)) next_a[i] = load_chunk(a, row_of_tile + row, p.m, k0 + col, k_end, p.lda);
#endif
    }
#endif
#ifdef GATHER_B
    gather(b, k0, k_end);
#else
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint row = ID(i) / WIDTH_B, col = ID(i) % WIDTH_B * 8;
#if TB
        if (HAS_B(i)) next_b[i] = load_chunk(b, col_of_tile + row, p.n, k0 + col, k_end, p.ldb);
#else
        if (HAS_B(i)) next_b[i] = load_chunk(b, k0 + row, k_end, col_of_tile + col, p.n, p.ldb);
#endif
    }
#endif
}
#define fetch_first fetch
#endif

void put(uint stage) {
    uint to_a = stage * (SIZE_A + SIZE_B), to_b = to_a + SIZE_A;
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++)
        if (HAS_A(i)) mem[to_a + ID(i) / WIDTH_A * STRIDE_A + ID(i) % WIDTH_A] = next_a[i];
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++)
        if (HAS_B(i)) mem[to_b + ID(i) / WIDTH_B * STRIDE_B + ID(i) % WIDTH_B] = next_b[i];
}

coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> acc[WM][WN];

// Adds what lies in a stage; `sm` and `sn` are the first row and column of the subgroup.
void multiply(uint stage, uint sm, uint sn) {
    uint from_a = stage * (SIZE_A + SIZE_B), from_b = from_a + SIZE_A;
    [[unroll]] for (uint k = 0; k < BK; k += FK) {
        coopmat<ELEMENT, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> x[WM];
        [[unroll]] for (uint i = 0; i < WM; i++) {
#if TA
            coopMatLoad(x[i], mem, from_a + k * STRIDE_A + (sm + i * FM) / 8, STRIDE_A,
                        gl_CooperativeMatrixLayoutColumnMajor);
#else
            coopMatLoad(x[i], mem, from_a + (sm + i * FM) * STRIDE_A + k / 8, STRIDE_A,
                        gl_CooperativeMatrixLayoutRowMajor);
#endif
        }
        [[unroll]] for (uint j = 0; j < WN; j++) {
            coopmat<ELEMENT, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB> y;
#if TB
            coopMatLoad(y, mem, from_b + (sn + j * FN) * STRIDE_B + k / 8, STRIDE_B,
                        gl_CooperativeMatrixLayoutColumnMajor);
#else
            coopMatLoad(y, mem, from_b + k * STRIDE_B + (sn + j * FN) / 8, STRIDE_B,
                        gl_CooperativeMatrixLayoutRowMajor);
#endif
            [[unroll]] for (uint i = 0; i < WM; i++) acc[i][j] = coopMatMulAdd(x[i], y, acc[i][j]);
        }
    }
}

// Stores staged rows of results from (row0, col0) on.
void write_rows(uvec2 d, uvec2 addend, uint row0, uint rows, uint col0) {
    uint from = gl_SubgroupID * (FM * STAGE_ROW);
    [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < FM * ABREAST * FN / 4; e += LANES) {
        uint r = e / (ABREAST * FN / 4), c = e % (ABREAST * FN / 4);
        uint row = row0 + r, col = col0 + c * 4;
        if (row < rows && col < p.n) write_four(d, addend, row, col, uintBitsToFloat(mem[from + r * STAGE_ROW + c]));
    }
}

#if WM == 1
#define EACH_ROW(f) f(0)
#elif WM == 2
#define EACH_ROW(f) f(0) f(1)
#elif WM == 4
#define EACH_ROW(f) f(0) f(1) f(2) f(3)
#elif WM == 8
#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#else
#error more rows of fragments than listed
#endif
#if WN == ABREAST
#define EACH_PART(f, i) f(i, 0)
#elif WN == 2 * ABREAST
#define EACH_PART(f, i) f(i, 0) f(i, 1)
#elif WN == 4 * ABREAST
#define EACH_PART(f, i) f(i, 0) f(i, 1) f(i, 2) f(i, 3)
#elif WN == 8 * ABREAST
#define EACH_PART(f, i) f(i, 0) f(i, 1) f(i, 2) f(i, 3) f(i, 4) f(i, 5) f(i, 6) f(i, 7)
#else
#error more columns of fragments than listed
#endif

void main() {
    uint tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    uvec2 a = batch_a(batch), b = batch_b(batch);
    uint k_begin = k_first(batch), k_end = k_last(batch);
    uint steps = (k_end - k_begin + BK - 1) / BK;
    uint sm = gl_SubgroupID / SN * (BM / SM), sn = gl_SubgroupID % SN * (BN / SN);
#ifdef PARTIAL
    uvec2 d = partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y);
#else
    uvec2 d = batch_d(batch);
#endif

    FOR_EACH_RUN
    [[unroll]] for (uint i = 0; i < WM; i++)
        [[unroll]] for (uint j = 0; j < WN; j++)
            acc[i][j] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);

    begin(row0, col0);
#ifdef WHOLE
    uint k_next = k_end - (max(steps, 1) - 1) * BK;
    fetch_first(a, b, k_begin, k_next);
#else
    uint k_next = k_begin + BK;
    fetch_first(a, b, k_begin, k_end);
#endif
#if STAGES == 2
    put(0);
    barrier();
    uint stage = 0;
    [[dont_unroll]] for (uint left = steps; left > 0; left--) {
        if (left > 1) fetch(a, b, k_next, k_end);
        k_next += BK;
        multiply(stage, sm, sn);
        stage ^= 1;
        if (left > 1) put(stage);
        barrier();
    }
#else
    [[dont_unroll]] for (uint left = steps; left > 0; left--) {
        put(0);
        barrier();
        if (left > 1) fetch(a, b, k_next, k_end);
        k_next += BK;
        multiply(0, sm, sn);
        barrier();
    }
#endif

    uvec2 addend = begin_epilogue(batch);
    uint to = gl_SubgroupID * (FM * STAGE_ROW);
#define STORE(i, part)                                                                                      \
    [[unroll]] for (uint j = 0; j < ABREAST; j++)                                                           \
        coopMatStore(acc[i][part * ABREAST + j], mem, to + j * (FN / 4), STAGE_ROW,                         \
                     gl_CooperativeMatrixLayoutRowMajor);                                                   \
    subgroupBarrier();                                                                                      \
    write_rows(d, addend, row0 + sm + i * FM, rows, col0 + sn + part * (ABREAST * FN));                     \
    subgroupBarrier();
#define STORE_ROW(i) EACH_PART(STORE, i)
    EACH_ROW(STORE_ROW)
#ifdef RUNS
    barrier();
#endif
    END_RUN
}
