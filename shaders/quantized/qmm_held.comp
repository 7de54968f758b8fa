#version 460
// Up to eight rows of x times the transposes of matrices of four-bit codes on cooperative matrices; x is held in registers. A
// subgroup has TURN groups of K, of which it takes those of x once, in the order in which a word has codes, and then meets 16
// rows of codes after the other with them. A lane loads 16 bytes of codes of two rows at a time, those of the next 16 rows; of
// groups of 64, which 32 bytes hold, lanes exchange halves so that all four of a row are in the same group. Factors are read
// by whole lines and go through shared memory: lanes that each load two of a row look at as many lines as at codes. WK
// subgroups have parts of K and add up their sums of each 16 rows. Workgroups walk over the rows of codes; where SPLITS of
// them share K, the last one of those joins what they left.
// One to three matrices, whose rows follow each other, with what joined.glsl has but NORM; PAIR: of two at once.
// Defines: DTYPE (1 or 2), MODE 0, BITS 4, GROUP (64 or 128), TRANSPOSE 1, JOINED, WK, COLS (of a matrix), TURN, SPLITS (one
// where WK * TURN is odd), LAST where there are several, BUFFERS (1 or 2), optionally AFTER, PAIR, PLAIN. Codes and x are
// aligned to 16 bytes, scales and biases to 4. Grid: SPLITS for each list of units of 16 rows.
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
#define SUBGROUPS WK
#include "matmul/mma.glsl"

#define THREADS (32 * WK)
layout(local_size_x = THREADS) in;
#include "quantized/joined.glsl"
#ifdef LAST
#include "lib/last.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Joins { float v[]; };
#endif

// A compiler for a CPU takes a minute over what is unrolled.
#ifdef PLAIN
#define EACH [[dont_unroll]]
#else
#define EACH [[unroll]]
#endif

#ifdef PAIR
#define MATRICES 2
#else
#define MATRICES 1
#endif
// Rows of x; those of a matrix beyond are zero.
#define WIDTH 8
// Pieces of 128 codes, groups of such a piece, and words of a group that a lane has of a row.
#define SPANS (TURN * GROUP / 128)
#define SPAN_GROUPS (128 / GROUP)
#define WORDS (GROUP / 32)
#define CHUNKS (TURN * WORDS)
// Where a subgroup's sums of 16 rows by one of x lie, one behind the other: lanes write four of them apart.
#define COLUMN 20
#define TABLE (WIDTH * COLUMN)

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
// Results that an invocation sums up: the first ones do, while others go on.
#define OWN_RESULTS ((16 * WIDTH + THREADS - 1) / THREADS)

shared float parts[BUFFERS * WK * TABLE];
shared float sums_of_x[WK * TURN * WIDTH];
// Scales, then biases, of these rows of codes and of the next.
shared uint factors[2][2 * 16 * (PAIRS + 1)];

struct Codes {
    uvec4 pieces[2][SPANS];
};

uvec2 w, s, b;
uint row0, n, first_group, group0;
// Pairs of x, by words of codes.
uint xs[2 * CHUNKS][2];

#ifdef PLAIN
shared uint box[THREADS];
uint from_lane(uint v, uint lane) {
    barrier();
    box[gl_LocalInvocationIndex] = v;
    barrier();
    return box[gl_LocalInvocationIndex / 32 * 32 + lane];
}
#else
uint from_lane(uint v, uint lane) { return subgroupShuffle(v, lane); }
#endif

// Sum over the four lanes of a row.
float over_row(float v) {
    v += uintBitsToFloat(from_lane(floatBitsToUint(v), LANE ^ 1u));
    return v + uintBitsToFloat(from_lane(floatBitsToUint(v), LANE ^ 2u));
}

// Goes to 16 rows of codes: those of a unit, of one of the matrices; behind the last of `all` to one row for all lanes, so
// that loads need no branch around them.
void seek(uint unit, uint m, uint all) {
    bool there = unit < all;
    uint matrix = matrix_of(unit, 16, n) + m;
    row0 = there ? unit * 16 : 0;
    n = there ? n : 1;
    w = p.w[matrix];
    s = p.s[matrix];
    b = p.b[matrix];
}

uint code_row(uint high) { return min(row0 + 8 * high + LANE / 4, n - 1); }

void fetch_piece(inout Codes q, uint i) {
    uint at = min(group0 * (GROUP / 32) + 4 * i + LANE % 4, K / 32 - 1);
    EACH for (uint h = 0; h < 2; h++) q.pieces[h][i] = Chunks(w).v[code_row(h) * (K / 32) + at];
}

// Factors of the 16 rows that an invocation has; beyond the last group nothing counts, whatever lies there.
void fetch_factors(out uint f[OWN_FACTORS]) {
    EACH for (uint i = 0; i < OWN_FACTORS; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex, g = first_group + 2 * (e % PAIRS);
        uint row = min(row0 + e / PAIRS % 16, n - 1);
        f[i] = two_factors(e < FACTORS / 2 ? s : b, row, g) & (g + 1 < GROUPS ? 0xffffffffu : g < GROUPS ? 0xffffu : 0u);
    }
}

void put_factors(uint f[OWN_FACTORS], uint to) {
    EACH for (uint i = 0; i < OWN_FACTORS; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        if (e < FACTORS) factors[to][e / PAIRS * (PAIRS + 1) + e % PAIRS] = f[i];
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

// Takes the rows of x, and puts away the first factors.
void load_x(uint f[OWN_FACTORS]) {
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
    put_factors(f, 0);
    barrier();
}

// The words that a lane has of a piece, group by group.
void deal(uvec4 c, out uint words[SPAN_GROUPS][WORDS]) {
#if GROUP == 64
    bool high = LANE % 4 >= 2;
    uint x = from_lane(high ? c.x : c.z, LANE ^ 2u), y = from_lane(high ? c.y : c.w, LANE ^ 2u);
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
float factor_at(uint from, uint at, uint j) {
    uint g = TEAM * TURN + j;
    return bits_to_float(factors[from][at * (PAIRS + 1) + g / 2] >> 16 * (g & 1u) & 0xffffu);
}

// Adds the products of group `j` of a turn, whose factors lie in `from`.
void add_group(uint words[2][WORDS], uint j, uint from, inout float total[4]) {
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
        float scale = factor_at(from, 8 * h + LANE / 4, j);
        float shift = factor_at(from, 16 + 8 * h + LANE / 4, j) - OFFSET * scale;
        EACH for (uint e = 0; e < 2; e++) {
            float sum = UNIT * sum_of(sums, h * (COLS / 4) + e);
            total[2 * h + e] = fma(scale, sum, total[2 * h + e]);
            total[2 * h + e] = fma(shift, sums_of_x[at + e], total[2 * h + e]);
        }
    }
}

// Stores the results of a unit, of which `y` has the sums of row i % 16 by row i / 16 of x.
void store(float y[MATRICES], uint unit, uint i) {
    uint rows, matrix = matrix_of(unit, 16, rows), row = unit * 16 + i % 16, at = i / 16 * rows + row;
    if (row >= rows) return;
#ifdef PAIR
    store_element(p.d[0], at, after(rounded(y[0]), rounded(y[1]), at));
#elif defined(AFTER)
    store_element(p.d[0], at, after(rounded(y[0]), at));
#else
    store_element(p.d[matrix], at, y[0]);
#endif
}

#ifdef LAST
// Sums that a workgroup leaves: of the matrices of a unit, by part of K.
uint join_at(uint unit, uint split, uint m) { return ((unit * SPLITS + split) * MATRICES + m) * 16 * WIDTH; }
#endif

void main() {
    const uint all = groups_of(16);
    uint split = gl_WorkGroupID.x % SPLITS, list = gl_WorkGroupID.x / SPLITS, lists = gl_NumWorkGroups.x / SPLITS;
    first_group = split * WK * TURN;
    group0 = first_group + TEAM * TURN;
    Codes q;
    uint f[OWN_FACTORS];
    seek(list, 0, all);
    EACH for (uint i = 0; i < SPANS; i++) fetch_piece(q, i);
    fetch_factors(f);
    load_x(f);
    uint buffer_ = 0, from = 0;
    [[dont_unroll]] for (uint unit = list; unit < all; unit += lists) {
        float y[OWN_RESULTS][MATRICES];
        EACH for (uint m = 0; m < MATRICES; m++) {
            seek(m + 1 < MATRICES ? unit : unit + lists, (m + 1) % MATRICES, all);
            fetch_factors(f);
            float total[4] = float[](0, 0, 0, 0);
            EACH for (uint i = 0; i < SPANS; i++) {
                uint dealt[2][SPAN_GROUPS][WORDS];
                EACH for (uint h = 0; h < 2; h++) deal(q.pieces[h][i], dealt[h]);
                fetch_piece(q, i);
                EACH for (uint k = 0; k < SPAN_GROUPS; k++) {
                    uint words[2][WORDS];
                    EACH for (uint h = 0; h < 2; h++) words[h] = dealt[h][k];
                    add_group(words, i * SPAN_GROUPS + k, from, total);
                }
            }
            from ^= 1u;
            put_factors(f, from);
            uint at = (buffer_ * WK + TEAM) * TABLE;
            EACH for (uint e = 0; e < 4; e++)
                parts[at + (2 * (LANE % 4) + e % 2) * COLUMN + e / 2 * 8 + LANE / 4] = total[e];
            barrier();
            EACH for (uint o = 0; o < OWN_RESULTS; o++) {
                uint i = o * THREADS + gl_LocalInvocationIndex, at = buffer_ * WK * TABLE + i / 16 * COLUMN + i % 16;
                y[o][m] = 0;
                if (i >= 16 * p.rows) continue;
                EACH for (uint k = 0; k < WK; k++) y[o][m] += parts[at + k * TABLE];
#ifdef LAST
                Joins(p.sums).v[join_at(unit, split, m) + i] = y[o][m];
#endif
            }
#if BUFFERS == 1
            barrier();
#else
            buffer_ ^= 1u;
#endif
        }
#ifndef LAST
        EACH for (uint o = 0; o < OWN_RESULTS; o++) {
            uint i = o * THREADS + gl_LocalInvocationIndex;
            if (i < 16 * p.rows) store(y[o], unit, i);
        }
#endif
    }
#ifdef LAST
    if (!comes_last(packUint2x32(p.norm) + 4ul * list, SPLITS, true)) return;
    [[dont_unroll]] for (uint unit = list; unit < all; unit += lists) {
        for (uint i = gl_LocalInvocationIndex; i < 16 * p.rows; i += THREADS) {
            float y[MATRICES];
            EACH for (uint m = 0; m < MATRICES; m++) {
                y[m] = 0;
                EACH for (uint k = 0; k < SPLITS; k++) y[m] += Joins(p.sums).v[join_at(unit, k, m) + i];
            }
            store(y, unit, i);
        }
    }
#endif
}
