#version 460
// Matrix product on NV cooperative matrices of workgroup scope, read from memory through tensor layouts;
// float32 accumulation. The host guarantees 16-byte aligned operands whose contiguous axis and row strides
// are multiples of eight elements; the masks below tell the compiler, which decides the speed.
// Defines: DTYPE (1 or 2), ADDMM, FUSED, PARTIAL, TA, TB, BM, BN, BK, UNROLL, THREADS, D8 (rows of the result are
// multiples of eight elements), SPECIALISED (dimensions and strides are specialisation constants), and those
// of tables in matmul/matmul.glsl; with SEGMENTS, K is the outer axis of both operands as they are stored.
// Grid: tiles, splits, batch.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif

#define SET_B(address) b = Operand(address)
#include "matmul/matmul.glsl"

layout(local_size_x = THREADS) in;

#ifdef SPECIALISED
layout(constant_id = 0) const uint M = 8;
layout(constant_id = 1) const uint N = 8;
layout(constant_id = 2) const uint K = 8;
layout(constant_id = 3) const uint LDA = 8;
layout(constant_id = 4) const uint LDB = 8;
layout(constant_id = 5) const uint LDD = 8;
layout(constant_id = 6) const uint PART = 8;
#else
uint M = TA == 1 ? p.m & ~7u : p.m;
uint N = TB == 0 ? p.n & ~7u : p.n;
uint K = p.k & ~7u;
uint LDA = p.lda & ~7u;
uint LDB = p.ldb & ~7u;
#ifdef D8
uint LDD = p.d_rs & ~7u;
#else
uint LDD = p.d_rs;
#endif
uint PART = p.k_split & ~7u;
#endif

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Operand { ELEMENT v[]; };
#ifdef D8
#define D_ALIGN 16
#else
#define D_ALIGN (1 << OUT_SHIFT)
#endif
#if OUT == 0
#define RESULT_ELEMENT float
#else
#define RESULT_ELEMENT ELEMENT
#endif
layout(buffer_reference, scalar, buffer_reference_align = D_ALIGN) buffer Result { RESULT_ELEMENT v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Addend { ELEMENT v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sums { float v[]; };

#define CLAMPED gl_CooperativeMatrixClampModeConstantNV
#define INSIDE gl_CooperativeMatrixClampModeUndefinedNV
#define ACCUMULATOR coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>

// Operands are described as they are stored; a transposing view turns them where that differs.
#if TA
#define DIMS_A K, M
#define SLICE_A(l, k) sliceTensorLayoutNV(l, k, BK, row0, BM), transposed
#else
#define DIMS_A M, K
#define SLICE_A(l, k) sliceTensorLayoutNV(l, row0, BM, k, BK)
#endif
#if TB
#define DIMS_B N, K
#define SLICE_B(l, k) sliceTensorLayoutNV(l, col0, BN, k, BK), transposed
#else
#define DIMS_B K, N
#define SLICE_B(l, k) sliceTensorLayoutNV(l, k, BK, col0, BN)
#endif

#define STEP(la, lb, k)                                                        \
    {                                                                          \
        coopmat<ELEMENT, gl_ScopeWorkgroup, BM, BK, gl_MatrixUseA> x;          \
        coopmat<ELEMENT, gl_ScopeWorkgroup, BK, BN, gl_MatrixUseB> y;          \
        coopMatLoadTensorNV(x, a.v, 0, SLICE_A(la, k));                        \
        coopMatLoadTensorNV(y, b.v, 0, SLICE_B(lb, k));                        \
        acc = coopMatMulAdd(x, y, acc);                                        \
    }

// The conversion of a matrix truncates to bfloat16; a number with nothing below is not changed.
float nearest_bfloat(const in uint row, const in uint col, const in float x) {
    uint u = floatBitsToUint(x);
    u = (u & 0x7fffffffu) <= 0x7f800000u ? u + 0x7fffu + ((u >> 16) & 1u) : u | 0x400000u;
    return uintBitsToFloat(u & 0xffff0000u);
}

#ifdef FUSED
// An element of the tile from (row0, col0); beyond the edges the last row and column are read.
float fused_element(const in uint r, const in uint c, const in float x, const in uint row0,
                    const in uint col0 FUSED_PARAMS) {
    uint row = min(row0 + r, p.m - 1), col = min(col0 + c, p.n - 1);
    float y = fused(x, row * p.d_rs + col, col FUSED_ARGS);
#if OUT == 2
    y = nearest_bfloat(row, col, y);
#endif
    return y;
}
#endif

void main() {
    uint tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    uint batch = gl_WorkGroupID.z + p.batch0;
    Operand a = Operand(batch_a(batch));
    Operand b = Operand(batch_b(batch));
#ifdef SEGMENTS
    uint k_begin = k_first(batch), K = k_last(batch);
    uint k_length = K - k_begin;
#elif defined(PARTIAL)
    uint k_begin = gl_WorkGroupID.y * PART;
    // Equal parts have a length that the compiler knows.
    uint k_length = K % PART == 0 ? PART : min(PART, K - k_begin);
#else
    const uint k_begin = 0;
    uint k_length = K;
#endif

    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    FOR_EACH_RUN
    ACCUMULATOR acc = ACCUMULATOR(0.0);

    if (row0 + BM <= M && col0 + BN <= N && k_length % (BK * UNROLL) == 0) {
        tensorLayoutNV<2, INSIDE> la = createTensorLayoutNV(2, INSIDE);
        tensorLayoutNV<2, INSIDE> lb = createTensorLayoutNV(2, INSIDE);
        la = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(la, DIMS_A), LDA, 1);
        lb = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(lb, DIMS_B), LDB, 1);
        for (uint k = 0; k < k_length; k += BK * UNROLL) {
            [[unroll]] for (uint u = 0; u < UNROLL; u++) STEP(la, lb, k_begin + k + u * BK)
        }
    } else {
        tensorLayoutNV<2, CLAMPED> la = createTensorLayoutNV(2, CLAMPED);
        tensorLayoutNV<2, CLAMPED> lb = createTensorLayoutNV(2, CLAMPED);
        la = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(la, DIMS_A), LDA, 1);
        lb = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(lb, DIMS_B), LDB, 1);
        [[dont_unroll]] for (uint k = 0; k < k_length; k += BK) STEP(la, lb, k_begin + k)
    }

    tensorLayoutNV<2, CLAMPED> ld = createTensorLayoutNV(2, CLAMPED);
#ifdef RUNS
    ld = setTensorLayoutDimensionNV(ld, rows, N);
#else
    ld = setTensorLayoutDimensionNV(ld, M, N);
#endif
#ifdef PARTIAL
    ld = setTensorLayoutStrideNV(ld, N, 1);
    Sums d = Sums(partial_d(batch, gl_WorkGroupID.y, gl_NumWorkGroups.y));
    coopMatStoreTensorNV(acc, d.v, 0, sliceTensorLayoutNV(ld, row0, BM, col0, BN));
#else
#ifdef ADDMM
    tensorLayoutNV<2, CLAMPED> lc = createTensorLayoutNV(2, CLAMPED);
    lc = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(lc, M, N), p.c_rs, p.c_cs);
    Addend c = Addend(batch_c(batch));
    acc = acc * ALPHA;
    if (BETA != 0.0) {
        coopmat<ELEMENT, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> addend;
        coopMatLoadTensorNV(addend, c.v, 0, sliceTensorLayoutNV(lc, row0, BM, col0, BN));
        acc = acc + ACCUMULATOR(addend) * BETA;
    }
#endif
    ld = setTensorLayoutStrideNV(ld, LDD, 1);
    Result d = Result(batch_d(batch));
#ifdef FUSED
    begin_epilogue(batch);
    coopMatPerElementNV(acc, acc, fused_element, row0, col0 FUSED_ARGS);
#elif OUT == 2
    coopMatPerElementNV(acc, acc, nearest_bfloat);
#endif
    coopmat<RESULT_ELEMENT, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> rounded =
        coopmat<RESULT_ELEMENT, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(acc);
    coopMatStoreTensorNV(rounded, d.v, 0, sliceTensorLayoutNV(ld, row0, BM, col0, BN));
#endif
    END_RUN
}
