#version 460
// Float32 product on matrices of float16 (Ootomo and Yokota 2022): each element is the sum of two parts, of whose four
// products the smallest is left out. What the matrix units add up they cut off, so that they add no more than a step's
// elements: steps are added by ordinary arithmetic, which rounds. Operands lie as parts/parts.glsl says; blocks of results with a
// row or a column that is left to plain arithmetic are computed by matmul_tiled.comp with LEFT_OVER.
// Defines: ADDMM, FUSED, BM, BN, BK (steps along K, a multiple of 16), SM, SN (subgroups along M and N), THREADS, LANES
// (of a subgroup); PLAIN (matmul/fragment.glsl). Grid: tiles.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#ifndef PLAIN
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#define ELEMENT float16_t
#define DTYPE 0

#include "matmul/matmul.glsl"
#include "parts/parts.glsl"
#include "matmul/write.glsl"

layout(local_size_x = THREADS) in;

// Words of 16 bytes of a row in a step, with one of padding against bank conflicts.
#define WORDS (BK / 16 * GROUP)
#define STRIDE (WORDS + 1)
#define CHUNKS_A (BM * WORDS / THREADS)
#define CHUNKS_B (BN * WORDS / THREADS)
#define WM (BM / SM / 16)
#define WN (BN / SN / 16)
#define STAGED ((BM + BN) * STRIDE)
// The results of a row of fragments in the end.
#define STAGE_ROW (WN * 4 + 2)
#define STAGE (SM * SN * 16 * STAGE_ROW)

shared uvec4 mem[STAGED > STAGE ? STAGED : STAGE];
// Blocks of rows and of columns that are left to plain arithmetic, a bit each.
shared uint left_rows, left_cols;
#define ROW_BLOCKS ((1u << BM / BLOCK) - 1)
#define COL_BLOCKS ((1u << BN / BLOCK) - 1)
#if BM % BLOCK || BN % BLOCK
#error a tile has to be blocks
#endif

#define A_DEC half_bits_to_float
#include "matmul/fragment.glsl"

uvec4 next_a[CHUNKS_A];
uvec4 next_b[CHUNKS_B];
uint at_a[CHUNKS_A];
uint at_b[CHUNKS_B];

#define ID(i) (gl_LocalInvocationIndex + (i) * THREADS)

// Rows beyond the last one repeat it: what comes of them is not stored.
void begin(uint row0, uint col0) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++)
        at_a[i] = GROUPS_AT(p.m) + min(row0 + ID(i) / WORDS, p.m - 1) * p.lda * GROUP + ID(i) % WORDS;
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++)
        at_b[i] = GROUPS_AT(p.n) + min(col0 + ID(i) / WORDS, p.n - 1) * p.lda * GROUP + ID(i) % WORDS;
}

void fetch(uint step) {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) next_a[i] = Chunks(p.a).v[at_a[i] + step * WORDS];
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) next_b[i] = Chunks(p.b).v[at_b[i] + step * WORDS];
}

void put() {
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) mem[ID(i) / WORDS * STRIDE + ID(i) % WORDS] = next_a[i];
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++)
        mem[(BM + ID(i) / WORDS) * STRIDE + ID(i) % WORDS] = next_b[i];
}

SUMS total[WM][WN];
SUMS step_sum[WM][WN];
// What the rests are too large by.
#define REST 0.00048828125

// Adds what is staged; `sm` and `sn` are the first row and column of the subgroup.
void multiply_step(uint sm, uint sn) {
    [[unroll]] for (uint k = 0; k < BK / 16; k++) {
        LEFT x[WM], x_rest[WM];
        [[unroll]] for (uint i = 0; i < WM; i++) {
            load_left(x[i], (sm + i * 16) * STRIDE + k * GROUP, STRIDE);
            load_left(x_rest[i], (sm + i * 16) * STRIDE + k * GROUP + 2, STRIDE);
        }
        [[unroll]] for (uint j = 0; j < WN; j++) {
            RIGHT y, y_rest;
            load_right_transposed(y, (BM + sn + j * 16) * STRIDE + k * GROUP, STRIDE);
            load_right_transposed(y_rest, (BM + sn + j * 16) * STRIDE + k * GROUP + 2, STRIDE);
            [[unroll]] for (uint i = 0; i < WM; i++) {
                multiply(x_rest[i], y, step_sum[i][j]);
                multiply(x[i], y_rest, step_sum[i][j]);
            }
        }
    }
    [[unroll]] for (uint i = 0; i < WM; i++)
        [[unroll]] for (uint j = 0; j < WN; j++) shrink_sums(step_sum[i][j], REST);
    [[unroll]] for (uint k = 0; k < BK / 16; k++) {
        LEFT x[WM];
        [[unroll]] for (uint i = 0; i < WM; i++) load_left(x[i], (sm + i * 16) * STRIDE + k * GROUP, STRIDE);
        [[unroll]] for (uint j = 0; j < WN; j++) {
            RIGHT y;
            load_right_transposed(y, (BM + sn + j * 16) * STRIDE + k * GROUP, STRIDE);
            [[unroll]] for (uint i = 0; i < WM; i++) multiply(x[i], y, step_sum[i][j]);
        }
    }
    [[unroll]] for (uint i = 0; i < WM; i++)
        [[unroll]] for (uint j = 0; j < WN; j++) {
            add_sums(total[i][j], step_sum[i][j]);
            zero_sums(step_sum[i][j]);
        }
}

#ifdef PLAIN
#define WAIT barrier()
#else
#define WAIT subgroupBarrier()
#endif
// Written out, for a loop with a loop inside is not unrolled, and sums that it indexes lie in memory (matmul_khr.comp).
#if WM == 1
#define EACH_ROW(f) f(0)
#elif WM == 2
#define EACH_ROW(f) f(0) f(1)
#elif WM == 4
#define EACH_ROW(f) f(0) f(1) f(2) f(3)
#else
#error more rows of fragments than listed
#endif

// Stores staged rows of results from (row0, col0) on; `sm` and `sn` are their first ones in the tile.
void write_rows(uvec2 addend, uint row0, uint sm, uint rows, uint col0, uint sn) {
    uint from = frag_group() * (16 * STAGE_ROW);
    if ((left_rows >> sm / BLOCK & 1u) != 0) return;
    [[dont_unroll]] for (uint e = frag_lane(); e < 16 * WN * 4; e += LANES) {
        uint r = e / (WN * 4), c = e % (WN * 4);
        uint row = row0 + r, col = col0 + c * 4;
        bool left = (left_cols >> (sn + c * 4) / BLOCK & 1u) != 0;
        if (row < rows && col < p.n && !left) {
            uvec4 at = min(uvec4(col, col + 1, col + 2, col + 3), uvec4(p.n - 1));
            vec4 by = vec4(ROW_FACTOR(p.b, at.x), ROW_FACTOR(p.b, at.y), ROW_FACTOR(p.b, at.z), ROW_FACTOR(p.b, at.w));
            vec4 x = uintBitsToFloat(mem[from + r * STAGE_ROW + c]) * ROW_FACTOR(p.a, row);
            write_four(p.d, addend, row, col, x * by);
        }
    }
}

void main() {
    uint tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    uvec2 tile = tile_position(gl_WorkGroupID.x + p.tile0, tiles_m, tiles_n);
    uint row0 = tile.x * BM, col0 = tile.y * BN;
    begin(row0, col0);
    fetch(0);

    if (gl_LocalInvocationIndex == 0) left_rows = left_cols = 0;
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < BM + BN; i += THREADS) {
        if (i < BM) {
            if (ROW_LEFT(p.a, min(row0 + i, p.m - 1)) != 0) atomicOr(left_rows, 1u << i / BLOCK);
        } else {
            if (ROW_LEFT(p.b, min(col0 + i - BM, p.n - 1)) != 0) atomicOr(left_cols, 1u << (i - BM) / BLOCK);
        }
    }
    barrier();
    if (left_rows == ROW_BLOCKS || left_cols == COL_BLOCKS) return;

    uint sm = frag_group() / SN * (BM / SM), sn = frag_group() % SN * (BN / SN);
    [[unroll]] for (uint i = 0; i < WM; i++)
        [[unroll]] for (uint j = 0; j < WN; j++) {
            zero_sums(total[i][j]);
            zero_sums(step_sum[i][j]);
        }
    uint steps = p.lda / (BK / 16);
    [[dont_unroll]] for (uint step = 1; step <= steps; step++) {
        put();
        barrier();
        if (step < steps) fetch(step);
        multiply_step(sm, sn);
        barrier();
    }

    uvec2 addend = begin_epilogue(0);
    uint to = frag_group() * (16 * STAGE_ROW);
#define STORE_ROW(i)                                                                                        \
    [[unroll]] for (uint j = 0; j < WN; j++) store_sums(total[i][j], to + j * 4, STAGE_ROW);                \
    WAIT;                                                                                                   \
    write_rows(addend, row0 + sm + i * 16, sm + i * 16, p.m, col0 + sn, sn);                                                 \
    WAIT;
    EACH_ROW(STORE_ROW)
}
