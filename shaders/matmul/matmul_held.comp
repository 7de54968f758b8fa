#version 460
// Few rows of x times the transposes of matrices of 16-bit elements on cooperative matrices; x is held in registers
// (matmul/held.glsl has the walk over rows of the matrix and what becomes of results). A subgroup has TURN times 32 elements of
// K. A lane loads 16 bytes of two rows of the matrix at a time, those of the next 16 rows, and has the same elements of K of
// rows of x: which ones of the sum they are does not matter as long as both sides agree.
// Defines: DTYPE (1 or 2), JOINED, WK, COLS (of a matrix), TURN, WIDTH, SPLITS, LAST where there are several, BUFFERS (1 or 2),
// optionally NORM, AFTER, PAIR, PLAIN. K is a multiple of 8, rows are aligned to 16 bytes.
#ifndef PLAIN
#pragma use_vulkan_memory_model
#endif
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#ifdef LAST
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#ifndef PLAIN
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif

#include "quantized/joined_push.glsl"
#include "lib/element.glsl"
#define SUBGROUPS WK
#include "matmul/mma.glsl"

#define THREADS (32 * WK)
layout(local_size_x = THREADS) in;
#define HELD
#include "quantized/joined.glsl"

// A compiler for a CPU takes a minute over what is unrolled.
#ifdef PLAIN
#define EACH [[dont_unroll]]
#else
#define EACH [[unroll]]
#endif

// Rows of x by eights, and matrices that have their sums.
#define BLOCKS (WIDTH / 8)
#define SIDES ((WIDTH + COLS - 1) / COLS)
// Whether each subgroup has a whole part of K.
#define WHOLE (K % (SPLITS * WK * TURN * 32) == 0)

struct Ahead {
    uvec4 pieces[2][TURN];
};

#include "matmul/held.glsl"

uvec4 xs[BLOCKS][TURN];
// First chunk of eight elements that a lane has of a row.
uint chunk0;

void fetch_piece(inout Ahead a, uint i) {
    uint at = chunk0 + 4 * i;
    EACH for (uint h = 0; h < 2; h++) {
        uvec4 c = Chunks(w).v[matrix_row(h) * (K / 8) + (WHOLE ? at : min(at, K / 8 - 1))];
        a.pieces[h][i] = WHOLE || at < K / 8 ? c : uvec4(0);
    }
}

void begin(inout Ahead a) {
    chunk0 = (split * WK + TEAM) * TURN * 4 + LANE % 4;
    EACH for (uint i = 0; i < TURN; i++) fetch_piece(a, i);
    EACH for (uint j = 0; j < BLOCKS; j++) {
        uint v = 8 * j + LANE / 4;
        EACH for (uint i = 0; i < TURN; i++) {
            uint at = chunk0 + 4 * i;
            xs[j][i] = uvec4(0);
            if (v < p.rows && (WHOLE || at < K / 8)) xs[j][i] = Chunks(p.x).v[v * (K / 8) + at];
        }
    }
#ifdef NORM
    float root[BLOCKS];
    EACH for (uint j = 0; j < BLOCKS; j++) {
        root[j] = 0;
        EACH for (uint i = 0; i < TURN; i++) root[j] = square_sum(xs[j][i], root[j]);
    }
    roots_of(root);
    EACH for (uint i = 0; i < TURN; i++) {
        uvec4 weight = Chunks(p.norm).v[min(chunk0 + 4 * i, K / 8 - 1)];
        EACH for (uint j = 0; j < BLOCKS; j++) xs[j][i] = normalised(xs[j][i], weight, root[j]);
    }
#endif
}

void meet(inout Ahead a, inout float total[OWN_SUMS]) {
    SUMS sums[SIDES];
    EACH for (uint m = 0; m < SIDES; m++) zero_sums(sums[m]);
    EACH for (uint i = 0; i < TURN; i++) {
        EACH for (uint k = 0; k < 2; k++) {
            LEFT l;
            EACH for (uint o = 0; o < 4; o++) put_left(l, o, a.pieces[left_row(o)][i][2 * k + left_half(o)]);
            EACH for (uint m = 0; m < SIDES; m++) {
                RIGHT r;
                EACH for (uint o = 0; o < RIGHT_PAIRS; o++) {
                    uint block = m * (COLS / 8) + right_block(o);
                    put_right(r, o, block < BLOCKS ? xs[min(block, BLOCKS - 1)][i][2 * k + right_half(o)] : 0u);
                }
                multiply(l, r, sums[m]);
            }
        }
        fetch_piece(a, i);
    }
    EACH for (uint e = 0; e < OWN_SUMS; e++) {
        uint block = e / 4, row = e / 2 % 2;
        uint at = 2 * (row * (COLS / 8) + block % (COLS / 8)) + e % 2;
        total[e] += sum_of(sums[block / (COLS / 8)], at);
    }
}

void main() { walk(); }
