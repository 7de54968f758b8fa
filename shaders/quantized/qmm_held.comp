#version 460
// Up to eight rows of x times the transposes of matrices of four-bit codes on cooperative matrices; x is held in registers
// (matmul/held.glsl has the walk over rows of codes and what becomes of results). A subgroup has TURN groups of K, of which it
// takes those of x once, in the order in which a word has codes, and then meets 16 rows of codes after the other with them. A
// lane loads 16 bytes of codes of two rows at a time, those of the next 16 rows; of groups of 64, which 32 bytes hold, lanes
// exchange halves so that all four of a row are in the same group. Factors are read by whole lines and go through shared
// memory: lanes that each load two of a row look at as many lines as at codes.
// Defines: DTYPE (1 or 2), MODE 0, BITS 4, GROUP (64 or 128), TRANSPOSE 1, JOINED, WK, COLS (of a matrix), TURN, WIDTH 8,
// SPLITS (one where WK * TURN is odd), LAST where there are several, BUFFERS (1 or 2), optionally AFTER, PAIR, PLAIN. Codes and
// x are aligned to 16 bytes, scales and biases to 4.
#ifndef PLAIN
#pragma use_vulkan_memory_model
#endif
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
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

#include "quantized/qmm.glsl"
#include "quantized/one_by_one.glsl"
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

// Pieces of 128 codes, groups of such a piece, and words of a group that a lane has of a row.
#define SPANS (TURN * GROUP / 128)
#define SPAN_GROUPS (128 / GROUP)
#define WORDS (GROUP / 32)
#define CHUNKS (TURN * WORDS)

// Codes are the low digits of a number whose last place is one: 128 and the code in bfloat16, which is taken off with the
// bias; the code times 2^-24 in float16.
#if DTYPE == 2
#define OFFSET 128.0
#define UNIT 1.0
#else
#define OFFSET 0.0
#define UNIT 16777216.0
#endif

// Words of two factors that a row has for the K of a workgroup, and what invocations have of those of 16 rows.
#define PAIRS ((WK * TURN + 1) / 2)
#define FACTORS (2 * 16 * PAIRS)
#define OWN_FACTORS ((FACTORS + THREADS - 1) / THREADS)

shared float sums_of_x[WK * TURN * WIDTH];
// Scales, then biases, of these rows of codes and of the next.
shared uint factors[2][2 * 16 * (PAIRS + 1)];

// Codes, and what invocations have of the factors of 16 rows.
struct Ahead {
    uvec4 pieces[2][SPANS];
    uint factors[OWN_FACTORS];
};

#include "matmul/held.glsl"

// Groups where K begins for this workgroup and for this subgroup, and which of both factors belong to what is ahead.
uint first_group, group0, from;
// Pairs of x, by words of codes.
uint xs[2 * CHUNKS][2];

void fetch_piece(inout Ahead q, uint i) {
    uint at = min(group0 * (GROUP / 32) + 4 * i + LANE % 4, K / 32 - 1);
    EACH for (uint h = 0; h < 2; h++) q.pieces[h][i] = Chunks(w).v[matrix_row(h) * (K / 32) + at];
}

// Factors of the 16 rows that an invocation has; beyond the last group nothing counts, whatever lies there.
void fetch_factors(inout Ahead q) {
    EACH for (uint i = 0; i < OWN_FACTORS; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex, g = first_group + 2 * (e % PAIRS);
        uint row = min(row0 + e / PAIRS % 16, n - 1);
        q.factors[i] = two_factors(e < FACTORS / 2 ? s : b, row, g) & (g + 1 < GROUPS ? 0xffffffffu : g < GROUPS ? 0xffffu : 0u);
    }
}

void put_factors(Ahead q, uint to) {
    EACH for (uint i = 0; i < OWN_FACTORS; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        if (e < FACTORS) factors[to][e / PAIRS * (PAIRS + 1) + e % PAIRS] = q.factors[i];
    }
}

// Where the codes of a group that a lane has begin.
uint place_in_group() {
    uint t = LANE % 4;
#if GROUP == 64
    return 32 * (t & 1u) + 16 * (t >> 1);
#else
    return 32 * t;
#endif
}

void load_x() {
    uint v = LANE / 4;
    uvec4 chunks[CHUNKS];
    EACH for (uint j = 0; j < TURN; j++) {
        uint g = group0 + j, at = (v * K + g * GROUP + place_in_group()) / 8;
        bool there = v < p.rows && g < GROUPS;
        EACH for (uint i = 0; i < WORDS; i++) {
            chunks[j * WORDS + i] = uvec4(0);
            if (there) chunks[j * WORDS + i] = Chunks(p.x).v[at + i];
        }
    }
    EACH for (uint j = 0; j < TURN; j++) {
        float sum = 0;
        EACH for (uint i = 0; i < WORDS; i++) {
            uvec4 c = chunks[j * WORDS + i];
            [[unroll]] for (uint e = 0; e < 8; e++) sum += chunk_element(c, e);
            // Elements e and e + 4 go with the codes of a mask.
            EACH for (uint e = 0; e < 2; e++) {
                xs[2 * (j * WORDS + i) + e][0] = c[e] & 0xffffu | c[2 + e] << 16;
                xs[2 * (j * WORDS + i) + e][1] = c[e] >> 16 | c[2 + e] & 0xffff0000u;
            }
        }
        sum = over_row(sum);
        if (LANE % 4 == 0) sums_of_x[(TEAM * TURN + j) * WIDTH + v] = sum;
    }
}

// The words that a lane has of a piece, group by group.
void deal(uvec4 c, out uint words[SPAN_GROUPS][WORDS]) {
#if GROUP == 64
    bool high = LANE % 4 >= 2;
    uint x = other_bits(high ? c.x : c.z, 2u), y = other_bits(high ? c.y : c.w, 2u);
    words[0] = uint[](high ? x : c.x, high ? y : c.y);
    words[1] = uint[](high ? c.z : x, high ? c.w : y);
#else
    words[0] = uint[](c.x, c.y, c.z, c.w);
#endif
}

// Codes i and i + 4 of a word as elements.
uint pair(uint word, uint i) {
    uint both = word >> (4 * i) & 0x000f000fu;
#if DTYPE == 2
    return both | 0x43004300u;
#else
    return both;
#endif
}

// A factor of group `j` of a turn.
float factor_at(uint at, uint j) {
    uint g = TEAM * TURN + j;
    return bits_to_float(factors[from][at * (PAIRS + 1) + g / 2] >> 16 * (g & 1u) & 0xffffu);
}

// Adds the products of group `j` of a turn.
void add_group(uint words[2][WORDS], uint j, inout float total[OWN_SUMS]) {
    SUMS sums;
    zero_sums(sums);
    EACH for (uint i = 0; i < WORDS; i++) {
        EACH for (uint k = 0; k < 2; k++) {
            LEFT l;
            EACH for (uint o = 0; o < 4; o++) put_left(l, o, pair(words[left_row(o)][i], 2 * k + left_half(o)));
            RIGHT r;
            EACH for (uint o = 0; o < RIGHT_PAIRS; o++)
                put_right(r, o, right_block(o) == 0 ? xs[2 * (j * WORDS + i) + k][right_half(o)] : 0u);
            multiply(l, r, sums);
        }
    }
    uint at = (TEAM * TURN + j) * WIDTH + 2 * (LANE % 4);
    EACH for (uint h = 0; h < 2; h++) {
        float scale = factor_at(8 * h + LANE / 4, j);
        float shift = factor_at(16 + 8 * h + LANE / 4, j) - OFFSET * scale;
        EACH for (uint e = 0; e < 2; e++) {
            float sum = UNIT * sum_of(sums, h * (COLS / 4) + e);
            total[2 * h + e] = fma(scale, sum, total[2 * h + e]);
            total[2 * h + e] = fma(shift, sums_of_x[at + e], total[2 * h + e]);
        }
    }
}

void begin(inout Ahead q) {
    first_group = split * WK * TURN;
    group0 = first_group + TEAM * TURN;
    from = 0;
    EACH for (uint i = 0; i < SPANS; i++) fetch_piece(q, i);
    fetch_factors(q);
    load_x();
    put_factors(q, 0);
    barrier();
}

void meet(inout Ahead q, inout float total[OWN_SUMS]) {
    fetch_factors(q);
    EACH for (uint i = 0; i < SPANS; i++) {
        uint dealt[2][SPAN_GROUPS][WORDS];
        EACH for (uint h = 0; h < 2; h++) deal(q.pieces[h][i], dealt[h]);
        fetch_piece(q, i);
        EACH for (uint k = 0; k < SPAN_GROUPS; k++) {
            uint words[2][WORDS];
            EACH for (uint h = 0; h < 2; h++) words[h] = dealt[h][k];
            add_group(words, i * SPAN_GROUPS + k, total);
        }
    }
    from ^= 1u;
    put_factors(q, from);
}

void main() { walk(); }
