#version 460
// Up to VECTORS rows of x times the transpose of a quantised matrix on cooperative matrices. Codes become elements of
// the left side in registers: whole numbers, or values of a small float, all exact, so that scales and biases are
// applied to float32 sums of a group. A lane has a quarter of each group of two rows of codes and of the row of x
// that goes with it; which element of the sum is which does not matter as long as both sides agree. Where there are
// fewer rows of x than columns, each group of SPREAD neighbours has columns of its own, so that scales are applied to
// all of them at once. The subgroups of a workgroup share TILES times 16 rows of codes: they take turns of
// STRETCH * SPREAD groups along K and add up at the end. Sums of x, which biases multiply, are a product with ones.
// x is 16-byte aligned, K contiguous.
// Defines: DTYPE (1 or 2), MODE, BITS, GROUP (32 or more), TRANSPOSE 1, SUBGROUPS, TILES, STRETCH, COLS (of a matrix),
// VECTORS (a power of two up to COLS), optionally ALIGNED (codes are 16-byte aligned), PLAIN. Grid: rows of codes, 1,
// batch.
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
#include "matmul/mma.glsl"

#define THREADS (32 * SUBGROUPS)
layout(local_size_x = THREADS) in;

#define SPREAD (COLS / VECTORS)
#define BLOCKS (COLS / 8)
#define ROWS (16 * TILES)
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

shared float parts[SUBGROUPS * COLS * ROWS];

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
    float scale[STRETCH][TILES][SUM_PAIRS][KINDS];
#if MODE == 0
    float bias[STRETCH][TILES][SUM_PAIRS][KINDS];
#endif
    uvec4 x[STRETCH][BLOCKS][PACKS];
};

uvec2 x, w, s, b;
uint row0, groups;
float total[TILES][2 * SUM_PAIRS];

uint code_row(uint tile, uint high) { return min(row0 + 16 * tile + 8 * high + LANE / 4, p.n - 1); }

void fetch_codes(uint row, uint k, out uvec2 packs[PACKS]) {
#if defined(ALIGNED) && BITS == 4 && PACKS % 2 == 0
    EACH for (uint q = 0; q < PACKS; q += 2) {
        uvec2 c = Pairs(w).v[(row + k / 8 + q) / 2];
        packs[q] = uvec2(c.x, 0);
        packs[q + 1] = uvec2(c.y, 0);
    }
#elif defined(ALIGNED) && BITS == 8 && PACKS % 2 == 0
    EACH for (uint q = 0; q < PACKS; q += 2) {
        uvec4 c = Chunks(w).v[(row + k / 4 + 2 * q) / 4];
        packs[q] = c.xy;
        packs[q + 1] = c.zw;
    }
#else
    EACH for (uint q = 0; q < PACKS; q++) packs[q] = load_pack(w, row, k + q * 8);
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
                    fetch_codes(code_row(i, h) * ROW_WORDS, k, o.codes[u][j][i][h]);
        }
    }
    EACH for (uint u = 0; u < STRETCH; u++) {
        EACH for (uint i = 0; i < TILES; i++) {
            EACH for (uint j = 0; j < SUM_PAIRS; j++) {
                EACH for (uint e = 0; e < KINDS; e++) {
                    uint col = 8 * sum_block(j) + 2 * t + e;
                    uint g = min(first + u * SPREAD + col / VECTORS, groups - 1);
                    uint at = code_row(i, sum_row(j)) * ROW_GROUPS + g;
                    o.scale[u][i][j][e] = factor(s, at);
#if MODE == 0
                    o.bias[u][i][j][e] = factor(b, at);
#endif
                }
            }
        }
    }
    // Zeros beyond K take what codes are read there out of the sums.
    EACH for (uint u = 0; u < STRETCH; u++) {
        EACH for (uint c = 0; c < BLOCKS; c++) {
            uint col = LANE / 4 + 8 * c, v = col % VECTORS, g = first + u * SPREAD + col / VECTORS;
            bool there = v < p.m && g < groups;
            EACH for (uint q = 0; q < PACKS; q++) {
                o.x[u][c][q] = uvec4(0);
                if (there) o.x[u][c][q] = Chunks(x).v[(v * p.x_rs + g * GROUP + t * CHUNK) / 8 + q];
            }
        }
    }
    return o;
}

void add(Operands o) {
    EACH for (uint u = 0; u < STRETCH; u++) {
        uint xs[GROUP / 16][RIGHT_PAIRS];
        EACH for (uint k = 0; k < GROUP / 16; k++)
            EACH for (uint j = 0; j < RIGHT_PAIRS; j++)
                xs[k][j] = pair_of_x(o.x[u][right_block(j)][k / 2], k % 2 * 2 + right_half(j));
#if MODE == 0
        LEFT ones;
        left_ones(ones);
        SUMS sum_x;
        zero_sums(sum_x);
        EACH for (uint k = 0; k < GROUP / 16; k++) {
            RIGHT r;
            EACH for (uint j = 0; j < RIGHT_PAIRS; j++) put_right(r, j, xs[k][j]);
            multiply(ones, r, sum_x);
        }
#endif
        SUMS sums[TILES];
        EACH for (uint i = 0; i < TILES; i++) zero_sums(sums[i]);
        EACH for (uint g = 0; g < SPREAD; g++) {
            EACH for (uint k = 0; k < GROUP / 16; k++) {
                RIGHT r;
                EACH for (uint j = 0; j < RIGHT_PAIRS; j++) {
                    uint col = 8 * right_block(j) + LANE / 4;
                    put_right(r, j, col / VECTORS == g ? xs[k][j] : 0u);
                }
                EACH for (uint i = 0; i < TILES; i++) {
                    LEFT l;
                    EACH for (uint j = 0; j < 4; j++)
                        put_left(l, j, pair(o.codes[u][g][i][left_row(j)][k / 2], k % 2 * 2 + left_half(j)));
                    multiply(l, r, sums[i]);
                }
            }
        }
        EACH for (uint i = 0; i < TILES; i++) {
            EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) {
                float scale = o.scale[u][i][e / 2][e % KINDS];
                total[i][e] = fma(scale, sum_of(sums[i], e), total[i][e]);
#if MODE == 0
                float bias = o.bias[u][i][e / 2][e % KINDS] - OFFSET * scale;
                total[i][e] = fma(bias, sum_of(sum_x, e), total[i][e]);
#endif
            }
        }
    }
}

void main() {
    uint batch = gl_WorkGroupID.z + p.batch0, wi = pick_w(batch);
    x = matrix_x(pick_x(batch));
    w = matrix_w(wi);
    s = matrix_s(wi);
    b = matrix_b(wi);
    row0 = (gl_WorkGroupID.x + p.tile0) * ROWS;
    groups = p.k / GROUP;
    EACH for (uint i = 0; i < TILES; i++)
        EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) total[i][e] = 0;

    [[dont_unroll]] for (uint first = 0; first < groups; first += SUBGROUPS * STRETCH * SPREAD)
        add(fetch(first + TEAM * STRETCH * SPREAD));

    EACH for (uint i = 0; i < TILES; i++) {
        EACH for (uint e = 0; e < 2 * SUM_PAIRS; e++) {
            uint row = 16 * i + 8 * sum_row(e / 2) + LANE / 4, v = 8 * sum_block(e / 2) + LANE % 4 * 2 + e % 2;
            parts[(TEAM * COLS + v) * ROWS + row] = total[i][e];
        }
    }
    barrier();
    uvec2 d = matrix_d(batch);
    for (uint e = gl_LocalInvocationIndex; e < ROWS * p.m; e += THREADS) {
        uint row = row0 + e % ROWS, v = e / ROWS;
        float y = 0;
        EACH for (uint i = 0; i < SUBGROUPS * SPREAD; i++) y += parts[i * VECTORS * ROWS + e];
        if (row < p.n) store_element(d, v * p.n + row, y);
    }
}
