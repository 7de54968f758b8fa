#version 460
// One row of x times the transposes of matrices of four-bit codes, whose rows walk by. A thread keeps its 32 elements of x
// in registers, and as many threads as span a row, whole subgroups, are a team. R rows of codes are on their way to each
// thread, the first before x is read; the next one of each takes its registers. Where subnormal numbers count, codes
// become float32 by a mask alone: their bits are those of 2^-149 times the code, shifted by its place, so that x is
// multiplied by a power of two for each place, with one more for each group with which nothing overflows. Of two neighbours
// that share a group one multiplies its sum by the scale, the other the sum of x by the bias. Sums of R rows go through a
// subgroup together, half as many with each step; those of subgroups meet in shared memory, behind the last row. Elsewhere
// codes become digits of numbers from 128 on, by a shift and a mask, and 128 times the sum of x is taken off.
// One to three matrices, whose rows follow each other, with what joined.glsl has; PAIR: a team has rows of both matrices.
// Defines: DTYPE (1 or 2), MODE 0, BITS 4, GROUP (32, 64 or 128), TRANSPOSE 1, JOINED, SUBGROUP, TPR (threads of a team,
// whole subgroups, at least K / 32), TEAMS, R (a power of two, at most SUBGROUP), TURNS (times that a team takes R rows, at
// most), optionally NORM, AFTER, PAIR, MASKED. Codes are aligned to 16 bytes; a matrix has R rows at least, of a pair half as many.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "quantized/qmm.glsl"
#include "quantized/one_by_one.glsl"
#define THREADS (TPR * TEAMS)
layout(local_size_x = THREADS) in;
#include "quantized/joined.glsl"

// Matrices that a team reads, and its rows of each.
#ifdef PAIR
#define SIDES 2
#else
#define SIDES 1
#endif
#define EACH (R / SIDES)
// Subgroups of a team.
#define PARTS (TPR / SUBGROUP)
#define LANE (gl_LocalInvocationIndex % SUBGROUP)
#define TEAM (gl_LocalInvocationIndex / TPR)
#define COL (gl_LocalInvocationIndex % TPR)
// Whether a thread has a part of the row.
#define THERE (K == 32 * TPR || 32 * COL < K)
#define MINE min(COL, K / 32 - 1)
// What codes are added to where subnormal numbers may be zero: they are four digits of such a number.
#define ABOVE 128.0

shared float parts[TURNS * TEAMS * R * PARTS];

float xs[32];
// Of the group, or of what two threads have of it: the sum of x, and what takes products back to size.
float sum_x, down;
// Rows that are on their way, and where they come from.
uvec4 codes[R];
#if GROUP == 32
uint scales[R], biases[R];
uvec2 w[SIDES], s[SIDES], b[SIDES];
#else
uint factors[R];
uvec2 w[SIDES], f[SIDES];
#endif

// The matrix of rows `unit` of EACH, the number of its rows, and the first of those: the last unit reaches back.
uint place_of(inout uint unit, out uint n, out uint row0) {
    uint matrix = matrix_of(unit, EACH, n);
    row0 = min(unit * EACH, n - EACH);
    return matrix;
}

void seek(uint unit) {
    uint n, row0, matrix = place_of(unit, n, row0);
    [[unroll]] for (uint m = 0; m < SIDES; m++) {
        w[m] = advance(p.w[matrix + m], row0 * (K / 32) + MINE, 1, 4);
        uint at = row0 * GROUPS + MINE * 32 / GROUP;
#if GROUP == 32
        s[m] = advance(p.s[matrix + m], at, 1, 1);
        b[m] = advance(p.b[matrix + m], at, 1, 1);
#else
        f[m] = advance(LANE % 2 == 0 ? p.s[matrix + m] : p.b[matrix + m], at, 1, 1);
#endif
    }
}

void fetch(uint r) {
    uint m = r / EACH, i = r % EACH;
    codes[r] = Chunks(w[m]).v[i * (K / 32)];
#if GROUP == 32
    scales[r] = uint(Halves(s[m]).v[i * GROUPS]);
    biases[r] = uint(Halves(b[m]).v[i * GROUPS]);
#else
    factors[r] = uint(Halves(f[m]).v[i * GROUPS]);
#endif
}

// The place that code j of a word is masked at, of the word or of its upper 24 bits.
#define POSITION(j) (4 * ((j) < 6 ? (j) : (j) - 2))

// Reads x, normalised where it is to be.
void keep_x() {
    uvec4 x[4];
    [[unroll]] for (uint i = 0; i < 4; i++) x[i] = Chunks(p.x).v[4 * MINE + i];
#ifdef NORM
    uvec4 weight[4];
    [[unroll]] for (uint i = 0; i < 4; i++) weight[i] = Chunks(p.norm).v[4 * MINE + i];
    float squares_ = 0;
    [[unroll]] for (uint i = 0; i < 4; i++) squares_ = square_sum(x[i], squares_);
    float root = root_of(TEAM == 0 && THERE ? squares_ : 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) x[i] = normalised(x[i], weight[i], root);
#endif
    float sums[4] = float[](0, 0, 0, 0), most = 0;
    [[unroll]] for (uint k = 0; k < 32; k++) {
        xs[k] = THERE ? chunk_element(x[k / 8], k % 8) : 0.0;
        sums[k % 4] += xs[k];
        most = max(most, abs(xs[k]));
    }
    sum_x = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#if GROUP > 32
    sum_x += subgroupShuffleXor(sum_x, 1);
    most = max(most, subgroupShuffleXor(most, 1));
#endif
#ifdef MASKED
    // The largest becomes one of 2^125 to 2^126; infinities and NaN stay what they are.
    uint exponent = clamp(floatBitsToUint(most) >> 23, 125u, 230u);
    down = uintBitsToFloat((exponent + 24u) << 23);
    [[unroll]] for (uint k = 0; k < 32; k++) xs[k] *= uintBitsToFloat((379u - POSITION(k % 8) - exponent) << 23);
#endif
}

// What a thread adds to a row.
#if GROUP == 32
float product(uvec4 words, uint scale, uint bias) {
#else
float product(uvec4 words, uint factor_) {
#endif
    float y[2] = float[](0, 0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = words[i];
#ifdef MASKED
        uint high = word >> 8;
#endif
        [[unroll]] for (uint j = 0; j < 8; j++) {
#ifdef MASKED
            float code_ = uintBitsToFloat((j < 6 ? word : high) & (15u << POSITION(j)));
#else
            uint there = j < 4 ? word << (16 - 4 * j) : word >> (4 * j - 16);
            float code_ = uintBitsToFloat(there & 0xf0000u | floatBitsToUint(ABOVE));
#endif
            y[j % 2] = fma(code_, xs[8 * i + j], y[j % 2]);
        }
    }
    precise float found = y[0] + y[1];
#if GROUP > 32
    found += subgroupShuffleXor(found, 1);
#endif
#ifdef MASKED
    found *= down;
#else
    found = fma(-ABOVE, sum_x, found);
#endif
#if GROUP == 32
    found = fma(bits_to_float(scale), found, bits_to_float(bias) * sum_x);
#else
    found = (LANE % 2 == 0 ? found : sum_x) * bits_to_float(factor_);
#endif
    // A factor of another group may be infinite.
    return THERE ? found : 0.0;
}

#if GROUP == 32
#define PRODUCT(r) product(codes[r], scales[r], biases[r])
#else
#define PRODUCT(r) product(codes[r], factors[r])
#endif

// Adds what lane ^ o has, after which a lane has the sums of `left` rows, half as many as before, or of one as before.
void fold(inout float found[R], const uint o, const uint left) {
    if (left == 0) {
        found[0] += subgroupShuffleXor(found[0], o);
        return;
    }
    bool upper = (LANE & o) != 0;
    [[unroll]] for (uint k = 0; k < left; k++) {
        float other = subgroupShuffleXor(upper ? found[k] : found[k + left], o);
        found[k] = (upper ? found[k + left] : found[k]) + other;
    }
}

// Sums over a subgroup: lane SUBGROUP / R * r has that of row r. Which rows are summed up together does not change bits.
float sum_of(float found[R]) {
#define FOLD(o) if (SUBGROUP > o) fold(found, o, R * o / SUBGROUP)
    FOLD(32);
    FOLD(16);
    FOLD(8);
    FOLD(4);
    FOLD(2);
    FOLD(1);
    return found[0];
}

// Stores result r of those that a team has taken in a turn; `at` counts turns and teams.
void store(uint at, uint r, uint unit) {
    uint n, row0, matrix = place_of(unit, n, row0), row = row0 + r;
    // What the unit before has as well.
    if (row < unit * EACH) return;
    float y[SIDES];
    [[unroll]] for (uint m = 0; m < SIDES; m++) {
        y[m] = 0;
        [[unroll]] for (uint i = 0; i < PARTS; i++) y[m] += parts[(at * R + m * EACH + r) * PARTS + i];
#ifndef NORM
        if (!is_finite(y[m])) y[m] = one_by_one(p.x, 0, p.w[matrix + m], p.s[matrix + m], p.b[matrix + m], row, K);
#endif
    }
#ifdef PAIR
    store_element(p.d[0], row, after(rounded(y[0]), rounded(y[1]), row));
#elif defined(AFTER)
    store_element(p.d[0], row, after(rounded(y[0]), row));
#else
    store_product(matrix, row, y[0]);
#endif
}

void main() {
    const uint all = groups_of(EACH), step_ = gl_NumWorkGroups.x * TEAMS, first = gl_WorkGroupID.x * TEAMS;
    seek(min(first + TEAM, all - 1));
    [[unroll]] for (uint r = 0; r < R; r++) fetch(r);
    keep_x();
    uint at = TEAM;
    [[dont_unroll]] for (uint unit = first + TEAM; unit < all; unit += step_) {
        bool more = unit + step_ < all;
        if (more) seek(unit + step_);
        float found[R];
        [[unroll]] for (uint r = 0; r < R; r++) {
            found[r] = PRODUCT(r);
            if (more) fetch(r);
        }
        float sum = sum_of(found);
        if (LANE % (SUBGROUP / R) == 0) parts[(at * R + LANE / (SUBGROUP / R)) * PARTS + COL / SUBGROUP] = sum;
        at += TEAMS;
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < TURNS * TEAMS * EACH; i += THREADS) {
        uint there = i / EACH, unit = there / TEAMS * step_ + first + there % TEAMS;
        if (unit < all) store(there, i % EACH, unit);
    }
}
