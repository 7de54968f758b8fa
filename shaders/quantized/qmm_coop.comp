#version 460
// Up to VECTORS rows of x times the transpose of a quantised matrix on cooperative matrices. Codes become elements of
// the left side in registers: whole numbers, or values of a small float, all exact, so that scales and biases are
// applied to float32 sums of a group. A lane has a quarter of each group of two rows of codes and of the row of x
// that goes with it; which element of the sum is which does not matter as long as both sides agree. Where there are
// fewer rows of x than columns, each group of SPREAD neighbours has columns of its own, so that scales are applied to
// all of them at once. The subgroups of a workgroup share TILES times 16 rows of codes: they take turns of
// STRETCH * SPREAD groups along K and add up at the end. Sums of x, which biases multiply, are a product with ones.
// Of more rows of x than a matrix has columns, SIDES matrices beside each other share the codes. x is 16-byte aligned, K
// contiguous.
// Defines: DTYPE (1 or 2), MODE, BITS, GROUP (32 or more), TRANSPOSE 1, SUBGROUPS, TILES, STRETCH, COLS (of a matrix),
// SIDES, VECTORS (a power of two up to COLS * SIDES), AHEAD (what a subgroup fetches while it multiplies what came before:
// 0 nothing, 1 codes and what belongs to them, 2 x as well), optionally ALIGNED (codes are 16-byte aligned), FACTORS
// (MODE 0, STRETCH 2, all columns in use: scales, and biases, of two groups are one aligned word), PLAIN; JOINED: the same
// rows times up to three matrices, whose workgroups follow each other, with what joined.glsl has but NORM; PAIR: the second
// half of the TILES are those of the other matrix; PICKS: single rows of x that each pick one of many matrices by an index, of
// which a workgroup takes those of one matrix together: MOST indices are looked at in a turn, and workgroups that share a matrix
// walk over its rows of codes. Grid: rows of codes (PICKS: p.sums.x workgroups for each matrix), 1, batch.
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
#include "matmul/mma.glsl"

#define THREADS (32 * SUBGROUPS)
layout(local_size_x = THREADS) in;

#ifdef JOINED
#include "quantized/joined.glsl"
// Rows of x, and elements from one to the next.
#ifdef PICKS
#define COUNT here
#else
#define COUNT p.rows
#endif
#define STEP K
#else
#define COUNT p.m
#define STEP p.x_rs
#endif

#define WIDTH (COLS * SIDES)
#define SPREAD (WIDTH / VECTORS)
#define BLOCKS (COLS / 8)
#define ROWS (16 * TILES)
// Matrices of a workgroup, its tiles of each, and its results.
#ifdef PAIR
#define MATRICES 2
#else
#define MATRICES 1
#endif
#define OWN (TILES / MATRICES)
#define RESULTS (16 * OWN)
// Codes of a group that a lane has of a row, in packs of eight; a pack serves two products of 16 along K.
#define CHUNK (GROUP / 4)
#define PACKS (CHUNK / 8)

// Codes of four bits become elements two at a time, as the low digits of a number whose last place is one. In float16
// that number is taken off again; bfloat16 has no sums, there it is taken off with the bias.
#if MODE == 0 && BITS == 4
#define NIBBLES
#endif
#if defined(NIBBLES) && DTYPE == 2
#define OFFSET 128.0
#else
#define OFFSET 0.0
#endif

// A compiler for a CPU takes a minute over what is unrolled.
#ifdef PLAIN
#define EACH [[dont_unroll]]
#else
#define EACH [[unroll]]
#endif

shared float parts[SUBGROUPS * WIDTH * ROWS];

// Elements i of a pack: codes i and i + 4 of NIBBLES, else 2 i and 2 i + 1.
uint pair(uvec2 pack, uint i) {
#ifdef NIBBLES
    uint both = (pack.x >> (4 * i)) & 0x000f000fu;
#if DTYPE == 2
    return both | 0x43004300u;
#elif defined(PLAIN)
    return packHalf2x16(vec2(both & 15u, both >> 16));
#else
    return packFloat2x16(unpackFloat2x16(both | 0x64006400u) - f16vec2(1024.0));
#endif
#else
    float lo = code(pack, 2 * i), hi = code(pack, 2 * i + 1);
#if DTYPE == 2
    return floatBitsToUint(lo) >> 16 | floatBitsToUint(hi) & 0xffff0000u;
#else
    return packHalf2x16(vec2(lo, hi));
#endif
#endif
}

// The elements of x that are multiplied by those.
uint pair_of_x(uvec4 c, uint i) {
#ifdef NIBBLES
    uint lo = c[i / 2], hi = c[2 + i / 2];
    return (i & 1u) == 0 ? lo & 0xffffu | hi << 16 : lo >> 16 | hi & 0xffff0000u;
#else
    return c[i];
#endif
}

// Scales of a row that a lane's neighbouring sums have.
#define KINDS (VECTORS == 1 ? 2 : 1)

struct Operands {
    uvec2 codes[STRETCH][SPREAD][TILES][2][PACKS];
#ifdef FACTORS
    // Each load of one alone looks at as many lines as eight rows have.
    uint scales[TILES][2], biases[TILES][2];
#else
    float scale[STRETCH][TILES][SUM_PAIRS][KINDS];
#if MODE == 0
    float bias[STRETCH][TILES][SUM_PAIRS][KINDS];
#endif
#endif
};

struct Rows {
    uvec4 x[STRETCH][SIDES][BLOCKS][PACKS];
};

uvec2 x, w[MATRICES], s[MATRICES], b[MATRICES];
uint row0, n, groups;

#ifdef PICKS
// The picks of the matrix among those that were looked at, in any order: each is summed up for itself.
shared uint picks[MOST];
shared uint found;
// The first of those at hand, how many they are, and the rows of x that this lane has.
uint first_pick, here, own_rows[SIDES][BLOCKS];

// Where row `v` of x begins, and its results.
uint row_of(uint v) { return picks[first_pick + v] / (p.s[2].y >> 1); }
uint place_of(uint v) { return picks[first_pick + v]; }
#else
uint row_of(uint v) { return v; }
uint place_of(uint v) { return v; }
#endif
float total[SIDES][TILES][2 * SUM_PAIRS];

uint code_row(uint tile, uint high) { return min(row0 + 16 * (tile % OWN) + 8 * high + LANE / 4, n - 1); }

void fetch_codes(uvec2 from, uint row, uint k, out uvec2 packs[PACKS]) {
#if defined(ALIGNED) && BITS == 4 && PACKS % 2 == 0
    EACH for (uint q = 0; q < PACKS; q += 2) {
        uvec2 c = Pairs(from).v[(row + k / 8 + q) / 2];
        packs[q] = uvec2(c.x, 0);
        packs[q + 1] = uvec2(c.y, 0);
    }
#elif defined(ALIGNED) && BITS == 8 && PACKS % 2 == 0
    EACH for (uint q = 0; q < PACKS; q += 2) {
        uvec4 c = Chunks(from).v[(row + k / 4 + 2 * q) / 4];
        packs[q] = c.xy;
        packs[q + 1] = c.zw;
    }
#else
    EACH for (uint q = 0; q < PACKS; q++) packs[q] = load_pack(from, row, k + q * 8);
#endif
}

Operands fetch(uint first) {
    Operands o;
    uint t = LANE % 4;
    EACH for (uint u = 0; u < STRETCH; u++) {
        EACH for (uint j = 0; j < SPREAD; j++) {
            uint k = min(first + u * SPREAD + j, groups - 1) * GROUP + t * CHUNK;
            EACH for (uint i = 0; i < TILES; i++)
                EACH for (uint h = 0; h < 2; h++)
                    fetch_codes(w[i / OWN], code_row(i, h) * ROW_WORDS, k, o.codes[u][j][i][h]);
        }
    }
#ifdef FACTORS
    EACH for (uint i = 0; i < TILES; i++) {
        EACH for (uint h = 0; h < 2; h++) {
            uint at = (code_row(i, h) * ROW_GROUPS + min(first, groups - 2)) / 2;
            o.scales[i][h] = Words(s[i / OWN]).v[at];
            o.biases[i][h] = Words(b[i / OWN]).v[at];
        }
    }
#else
    EACH for (uint u = 0; u < STRETCH; u++) {
        EACH for (uint i = 0; i < TILES; i++) {
            EACH for (uint j = 0; j < SUM_PAIRS; j++) {
                EACH for (uint e = 0; e < KINDS; e++) {
                    uint col = 8 * sum_block(j) + 2 * t + e;
                    uint g = min(first + u * SPREAD + col / VECTORS, groups - 1);
                    uint at = code_row(i, sum_row(j)) * ROW_GROUPS + g;
                    o.scale[u][i][j][e] = factor(s[i / OWN], at);
#if MODE == 0
                    o.bias[u][i][j][e] = factor(b[i / OWN], at);
#endif
                }
            }
        }
    }
#endif
    return o;
}

// Zeros beyond K take what codes are read there out of the sums.
Rows fetch_x(uint first) {
    Rows o;
    uint t = LANE % 4;
    EACH for (uint u = 0; u < STRETCH; u++) {
        EACH for (uint side = 0; side < SIDES; side++) {
            EACH for (uint c = 0; c < BLOCKS; c++) {
                uint col = COLS * side + LANE / 4 + 8 * c, v = col % VECTORS;
                uint g = first + u * SPREAD + col / VECTORS;
                bool there = v < COUNT && g < groups;
#ifdef PICKS
                v = own_rows[side][c];
#endif
                EACH for (uint q = 0; q < PACKS; q++) {
                    o.x[u][side][c][q] = uvec4(0);
                    if (there) o.x[u][side][c][q] = Chunks(x).v[(v * STEP + g * GROUP + t * CHUNK) / 8 + q];
                }
            }
        }
    }
    return o;
}

void add(Operands o, Rows rows) {
    EACH for (uint u = 0; u < STRETCH; u++) {
        uint xs[SIDES][GROUP / 16][RIGHT_PAIRS];
        EACH for (uint side = 0; side < SIDES; side++)
            EACH for (uint k = 0; k < GROUP / 16; k++)
                EACH for (uint j = 0; j < RIGHT_PAIRS; j++)
                    xs[side][k][j] = pair_of_x(rows.x[u][side][right_block(j)][k / 2], k % 2 * 2 + right_half(j));
#if MODE == 0
        LEFT ones;
        left_ones(ones);
        SUMS sum_x[SIDES];
        EACH for (uint side = 0; side < SIDES; side++) {
            zero_sums(sum_x[side]);
            EACH for (uint k = 0; k < GROUP / 16; k++) {
                RIGHT r;
                EACH for (uint j = 0; j < RIGHT_PAIRS; j++) put_right(r, j, xs[side][k][j]);
                multiply(ones, r, sum_x[side]);
            }
        }
#endif
        SUMS sums[SIDES][TILES];
        EACH for (uint side = 0; side < SIDES; side++)
            EACH for (uint i = 0; i < TILES; i++) zero_sums(sums[side][i]);
        EACH for (uint g = 0; g < SPREAD; g++) {
            EACH for (uint k = 0; k < GROUP / 16; k++) {
                RIGHT r[SIDES];
                EACH for (uint side = 0; side < SIDES; side++) {
                    EACH for (uint j = 0; j < RIGHT_PAIRS; j++) {
                        uint col = 8 * right_block(j) + LANE / 4;
                        put_right(r[side], j, SPREAD == 1 || col / VECTORS == g ? xs[side][k][j] : 0u);
                    }
                }
                EACH for (uint i = 0; i < TILES; i++) {
                    LEFT l;
                    EACH for (uint j = 0; j < 4; j++)
                        put_left(l, j, pair(o.codes[u][g][i][left_row(j)][k / 2], k % 2 * 2 + left_half(j)));
                    EACH for (uint side = 0; side < SIDES; side++) multiply(l, r[side], sums[side][i]);
                }
            }
        }
        EACH for (uint side = 0; side < SIDES; side++) {
            EACH for (uint i = 0; i < TILES; i++) {
                EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) {
#ifdef FACTORS
                    uint h = sum_row(e / 2);
                    float scale = bits_to_float(o.scales[i][h] >> 16 * u & 0xffffu);
                    float bias = bits_to_float(o.biases[i][h] >> 16 * u & 0xffffu) - OFFSET * scale;
#else
                    float scale = o.scale[u][i][e / 2][e % KINDS];
#if MODE == 0
                    float bias = o.bias[u][i][e / 2][e % KINDS] - OFFSET * scale;
#endif
#endif
                    total[side][i][e] = fma(scale, sum_of(sums[side][i], e), total[side][i][e]);
#if MODE == 0
                    total[side][i][e] = fma(bias, sum_of(sum_x[side], e), total[side][i][e]);
#endif
                }
            }
        }
    }
}

// All of the product of the rows of x at hand by ROWS rows of codes; `which` is the matrix that they are of, or the product.
void product(uint which) {
    EACH for (uint side = 0; side < SIDES; side++)
        EACH for (uint i = 0; i < TILES; i++)
            EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) total[side][i][e] = 0;

    const uint turn = SUBGROUPS * STRETCH * SPREAD;
#if AHEAD == 0
    [[dont_unroll]] for (uint first = TEAM * STRETCH * SPREAD; first < groups + TEAM * STRETCH * SPREAD; first += turn)
        add(fetch(first), fetch_x(first));
#elif AHEAD == 1
    uint next = TEAM * STRETCH * SPREAD;
    Operands o = fetch(next);
    [[dont_unroll]] for (uint first = 0; first < groups; first += turn) {
        Operands now = o;
        Rows rows = fetch_x(next);
        next += turn;
        o = fetch(next);
        add(now, rows);
    }
#else
    // What comes next is on its way while this is multiplied.
    uint next = TEAM * STRETCH * SPREAD;
    Operands o = fetch(next);
    Rows rows = fetch_x(next);
    [[dont_unroll]] for (uint first = 0; first < groups; first += turn) {
        Operands now = o;
        Rows rows_now = rows;
        next += turn;
        o = fetch(next);
        rows = fetch_x(next);
        add(now, rows_now);
    }
#endif

    EACH for (uint side = 0; side < SIDES; side++) {
        EACH for (uint i = 0; i < TILES; i++) {
            EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) {
                uint row = 16 * i + 8 * sum_row(e / 2) + LANE / 4;
                uint v = COLS * side + 8 * sum_block(e / 2) + LANE % 4 * 2 + e % 2;
                parts[(TEAM * WIDTH + v) * ROWS + row] = total[side][i][e];
            }
        }
    }
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < RESULTS * COUNT; e += THREADS) {
        uint row = row0 + e % RESULTS, v = e / RESULTS, at = place_of(v) * n + row;
        float y[MATRICES];
        EACH for (uint m = 0; m < MATRICES; m++) {
            y[m] = 0;
            uint from = v * ROWS + m * RESULTS + e % RESULTS;
            EACH for (uint i = 0; i < SUBGROUPS * SPREAD; i++) y[m] += parts[i * VECTORS * ROWS + from];
        }
        if (row >= n) continue;
        EACH for (uint m = 0; m < MATRICES; m++)
            if (!is_finite(y[m])) y[m] = one_by_one(x, row_of(v) * STEP, w[m], s[m], b[m], row, CODE_COLS);
#ifndef JOINED
        store_element(matrix_d(which), at, y[0]);
#elif defined(PAIR)
        store_element(p.d[0], at, after(rounded(y[0]), rounded(y[1]), at));
#elif defined(AFTER)
        store_element(p.d[0], at, after(rounded(y[0]), at));
#else
        store_element(p.d[which], at, y[0]);
#endif
    }
}

#ifdef JOINED
// Goes to the rows of codes of a group among those that follow each other, of the matrix `own` of many; which one they are of.
uint seek(uint group, uint own) {
    uint matrix = matrix_of(group, RESULTS, n);
    EACH for (uint i = 0; i < MATRICES; i++) {
        w[i] = p.w[matrix + i];
        s[i] = p.s[matrix + i];
        b[i] = p.b[matrix + i];
#ifdef PICKS
        w[i] = advance(w[i], own, n * ROW_WORDS, 2);
        s[i] = advance(s[i], own, n * ROW_GROUPS, FACTOR_SHIFT);
        b[i] = advance(b[i], own, n * ROW_GROUPS, FACTOR_SHIFT);
#endif
    }
    row0 = group * RESULTS;
    return matrix;
}
#endif

#ifdef PICKS
// The products of all picks of the matrix `own` by the groups of rows of codes from `part` on, of which each is `parts` further.
void each_pick(uint own, uint part, uint parts) {
    const uint span = groups_of(RESULTS);
    [[dont_unroll]] for (uint begin = 0; begin < p.rows; begin += MOST) {
        if (gl_LocalInvocationIndex == 0) found = 0;
        barrier();
        uint end = min(begin + MOST, p.rows);
        for (uint i = begin + gl_LocalInvocationIndex; i < end; i += THREADS)
            if (picked(p.w[2], i, p.s[2].x, (p.s[2].y & 1u) != 0) == own) picks[atomicAdd(found, 1u)] = i;
        barrier();
        uint all = found;
        barrier();
        [[dont_unroll]] for (first_pick = 0; first_pick < all; first_pick += VECTORS) {
            here = min(all - first_pick, VECTORS);
            EACH for (uint side = 0; side < SIDES; side++) {
                EACH for (uint c = 0; c < BLOCKS; c++) {
                    uint v = (COLS * side + LANE / 4 + 8 * c) % VECTORS;
                    own_rows[side][c] = row_of(min(v, here - 1));
                }
            }
            [[dont_unroll]] for (uint group = part; group < span; group += parts) {
                product(seek(group, own));
                barrier();
            }
        }
    }
}
#endif

void main() {
    uint group = gl_WorkGroupID.x + p.tile0;
    groups = CODE_COLS / GROUP;
#ifdef JOINED
    x = p.x;
#ifdef PICKS
    each_pick(group / p.sums.x, group % p.sums.x, p.sums.x);
#else
    product(seek(group, 0));
#endif
#else
    uint batch = gl_WorkGroupID.z + p.batch0, wi = pick_w(batch);
    x = matrix_x(pick_x(batch));
    w[0] = matrix_w(wi);
    s[0] = matrix_s(wi);
    b[0] = matrix_b(wi);
    n = p.n;
    row0 = group * RESULTS;
    product(batch);
#endif
}
