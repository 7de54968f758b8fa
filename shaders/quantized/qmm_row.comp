#version 460
// One row of x times the transposes of matrices of four-bit codes on cooperative matrices of float16. Two codes at a time
// become elements by a mask alone: their bits are those of 2^-24 or 2^-20 times the code, so that x is multiplied by 1 or
// 1/16 for it. x is scaled by a power of two for each group first, in which float16 holds what bfloat16 does, and staged in
// the order that codes have in a word, with the sums that biases multiply. A subgroup has 16 rows of codes and, in turns
// of eight groups, one of WK parts of K; a lane has 16 bytes of two rows at a time, and each group a column of its own, in
// which it meets the rest of the lanes of its group. WN subgroups beside each other share x. Workgroups walk over the rows of
// codes: a turn of those that come next is on its way while these are multiplied.
// One to three matrices, whose workgroups follow each other, with what joined.glsl has; PAIR: the second half of the WN
// subgroups has the rows of the other matrix.
// Defines: DTYPE (1 or 2), MODE 0, BITS 4, GROUP (32, 64 or 128), TRANSPOSE 1, JOINED, WK, WN, WIDTH (columns that are
// staged, whole turns), optionally NORM, AFTER, PAIR, PLAIN. Codes are aligned to 16 bytes, scales and biases to 4.
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
#ifndef PLAIN
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_clustered : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define ELEMENT float16_t
#define SUBGROUP 32
#endif

#include "quantized/qmm.glsl"
#include "quantized/one_by_one.glsl"
#define HALF
#define COLS 8
#define SUBGROUPS (WK * WN)
#include "matmul/mma.glsl"

#define THREADS (32 * SUBGROUPS)
layout(local_size_x = THREADS) in;
#include "quantized/joined.glsl"

// A compiler for a CPU takes a minute over what is unrolled.
#ifdef PLAIN
#define EACH [[dont_unroll]]
#else
#define EACH [[unroll]]
#endif

// Rows of codes of a workgroup, and of results.
#define ROWS (16 * WN)
#ifdef PAIR
#define MATRICES 2
#else
#define MATRICES 1
#endif
#define RESULTS (ROWS / MATRICES)
// Groups of a turn, pieces of 32 codes, and pieces of a row that a lane has of it.
#define TURN 8
#define PIECES (TURN * GROUP / 32)
#define LOADS (PIECES / 4)
#define TURNS ((GROUPS + TURN - 1) / TURN)
// Where eight elements of x lie, with one of padding after four: lanes read four apart at once. Zeros lie behind them.
#define AT(c) ((c) + (c) / 4)
#define ZEROS AT(WIDTH / 8)
shared uvec4 staged[ZEROS + 4];
// For each group what its values were divided by, and the sum of x.
shared vec2 facts[WIDTH / GROUP];
// Of these rows and of the ones before.
shared float parts[2][4 * WK * ROWS];

struct Codes {
    uvec4 pieces[2][LOADS];
    // Of two neighbouring groups.
    uint scale[2], bias[2];
};

uvec2 w, s, b;
uint row0, n, beside;

// Goes to the rows of codes of a workgroup; behind the last of `all` to one row for all lanes, so that loads need no branch
// around them.
void seek(uint group, uint all) {
    bool there = group < all;
    uint matrix = matrix_of(group, RESULTS, n) + beside / (RESULTS / 16);
    row0 = there ? group * RESULTS + beside % (RESULTS / 16) * 16 : 0;
    n = there ? n : 1;
    w = p.w[matrix];
    s = p.s[matrix];
    b = p.b[matrix];
}

uint code_row(uint high) { return min(row0 + 8 * high + LANE / 4, n - 1); }

void fetch_piece(inout Codes q, uint turn, uint i) {
    EACH for (uint h = 0; h < 2; h++)
        q.pieces[h][i] = Chunks(w).v[code_row(h) * (K / 32) + min(turn * PIECES + 4 * i + LANE % 4, K / 32 - 1)];
}

void fetch_factors(inout Codes q, uint turn) {
    EACH for (uint h = 0; h < 2; h++) {
        q.scale[h] = two_factors(s, code_row(h), turn * TURN + 2 * (LANE % 4));
        q.bias[h] = two_factors(b, code_row(h), turn * TURN + 2 * (LANE % 4));
    }
}

#ifdef PLAIN
shared vec2 chunk_facts[WIDTH / 8];
#endif

// Sums and largest bits of eight elements become those of their group; e is their place.
void whole_group(uint e, inout float sum, inout uint most) {
#ifdef PLAIN
    if (e < WIDTH / 8) chunk_facts[e] = vec2(sum, uintBitsToFloat(most));
    barrier();
    sum = 0;
    uint first = e / (GROUP / 8) * (GROUP / 8);
    if (e < WIDTH / 8) {
        [[dont_unroll]] for (uint i = first; i < first + GROUP / 8; i++) {
            sum += chunk_facts[i].x;
            most = max(most, floatBitsToUint(chunk_facts[i].y));
        }
    }
#else
    sum = subgroupClusteredAdd(sum, GROUP / 8);
    most = subgroupClusteredMax(most, GROUP / 8);
#endif
}

// Stages x, normalised where it is to be.
void stage() {
    const uint count = (WIDTH / 8 + THREADS - 1) / THREADS;
    uvec4 chunks[count];
    EACH for (uint i = 0; i < count; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        chunks[i] = uvec4(0);
        if (e < K / 8) chunks[i] = Chunks(p.x).v[e];
    }
#ifdef NORM
    uvec4 weight[count];
    EACH for (uint i = 0; i < count; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        weight[i] = uvec4(0);
        if (e < K / 8) weight[i] = Chunks(p.norm).v[e];
    }
    float squares_ = 0;
    EACH for (uint i = 0; i < count; i++) squares_ = square_sum(chunks[i], squares_);
    float root = root_of(squares_);
#endif
    EACH for (uint i = 0; i < count; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
#ifdef NORM
        if (e < K / 8) chunks[i] = normalised(chunks[i], weight[i], root);
#endif
        float y[8], sum = 0;
        uint most = 0;
        [[unroll]] for (uint j = 0; j < 8; j++) {
            y[j] = chunk_element(chunks[i], j);
            sum += y[j];
            most = max(most, floatBitsToUint(y[j]) & 0x7fffffffu);
        }
        whole_group(e, sum, most);
        // The largest becomes one of 2^14 to 2^15; infinities and NaN stay what they are.
        uint exponent = clamp(most >> 23, 16u, 254u);
        float up = uintBitsToFloat((268u - exponent) << 23), up16 = 0.0625 * up;
        if (e < WIDTH / 8) {
            staged[AT(e)] = uvec4(packHalf2x16(up * vec2(y[0], y[4])), packHalf2x16(up16 * vec2(y[1], y[5])),
                                  packHalf2x16(up * vec2(y[2], y[6])), packHalf2x16(up16 * vec2(y[3], y[7])));
            if (e % (GROUP / 8) == 0) facts[e / (GROUP / 8)] = vec2(uintBitsToFloat((exponent - 14u) << 23), sum);
        }
    }
    if (gl_LocalInvocationIndex < 4) staged[ZEROS + gl_LocalInvocationIndex] = uvec4(0);
}

// Adds the products of piece i of a turn, whose x lies at `from`.
void multiply_piece(Codes q, uint i, uint from, inout SUMS sums) {
    EACH for (uint j = 0; j < 4; j++) {
        uvec4 xs = staged[from + j];
        EACH for (uint k = 0; k < 2; k++) {
            RIGHT r;
            EACH for (uint o = 0; o < 2; o++) put_right(r, o, xs[2 * k + right_half(o)]);
            LEFT l;
            EACH for (uint o = 0; o < 4; o++) {
                uint word = q.pieces[left_row(o)][i][j] >> (8 * k);
                put_left(l, o, word & (left_half(o) == 0 ? 0x000f000fu : 0x00f000f0u));
            }
            multiply(l, r, sums);
        }
    }
}

float factor_of(uint two, uint e) { return bits_to_float(e == 0 ? two & 0xffffu : two >> 16); }

void add_factors(Codes q, uint turn, SUMS sums, inout float total[2]) {
    EACH for (uint e = 0; e < 2; e++) {
        uint g = turn * TURN + 2 * (LANE % 4) + e;
        bool there = g < GROUPS;
        vec2 fact = there ? facts[g] : vec2(0);
        EACH for (uint h = 0; h < 2; h++) {
            // Sums become those of numbers before the scale comes, which may be as large as the dtype goes. Beyond the last
            // group lies a factor of another one, which may be infinite.
            float scale = there ? factor_of(q.scale[h], e) : 0.0, bias = there ? factor_of(q.bias[h], e) : 0.0;
            total[h] = fma(scale, fact.x * (16777216.0 * sum_of(sums, 2 * h + e)), total[h]);
            total[h] = fma(bias, fact.y, total[h]);
        }
    }
}

float result(uint buffer_, uint row) {
    float y = 0;
    EACH for (uint i = 0; i < 4 * WK; i++) y += parts[buffer_][i * ROWS + row];
    return y;
}

// Stores what invocation `i` has of the results of a workgroup's rows.
void store(uint group, uint buffer_, uint i) {
    uint rows, matrix = matrix_of(group, RESULTS, rows), row = group * RESULTS + i;
    if (i >= RESULTS || row >= rows) return;
    float y[MATRICES];
    EACH for (uint m = 0; m < MATRICES; m++) {
        y[m] = result(buffer_, i + m * RESULTS);
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
    const uint all = groups_of(RESULTS);
    uint part = TEAM % WK, buffer_ = 0;
    beside = TEAM / WK;
    seek(gl_WorkGroupID.x, all);

    // Codes are on their way while x is staged.
    Codes q;
    EACH for (uint i = 0; i < LOADS; i++) fetch_piece(q, part, i);
    fetch_factors(q, part);
    stage();
    barrier();
    [[dont_unroll]] for (uint group = gl_WorkGroupID.x; group < all; group += gl_NumWorkGroups.x) {
        float total[2] = float[](0, 0);
#ifdef PLAIN
        // All invocations multiply together.
        [[dont_unroll]] for (uint first = 0; first < TURNS; first += WK) {
            uint turn = first + part;
#else
        [[dont_unroll]] for (uint turn = part; turn < TURNS; turn += WK) {
#endif
            bool last = turn + WK >= TURNS;
            uint next = last ? part : turn + WK;
            if (last && turn < TURNS) seek(group + gl_NumWorkGroups.x, all);
            SUMS sums;
            zero_sums(sums);
            EACH for (uint i = 0; i < LOADS; i++) {
                uint piece = 4 * i + LANE % 4;
                bool mine = piece * 32 / GROUP == LANE / 4 && turn < TURNS;
                multiply_piece(q, i, mine ? AT(4 * (turn * PIECES + piece)) : ZEROS, sums);
                fetch_piece(q, next, i);
            }
            add_factors(q, turn, sums, total);
            fetch_factors(q, next);
        }
        EACH for (uint h = 0; h < 2; h++)
            parts[buffer_][(4 * part + LANE % 4) * ROWS + 16 * beside + 8 * h + LANE / 4] = total[h];
        barrier();
        store(group, buffer_, gl_LocalInvocationIndex);
        buffer_ ^= 1u;
    }
}
