// Products of 16 x 16 by 16 x COLS matrices of 16-bit elements (COLS 8 or 16), float32 sums, whose elements the kernel
// sets and reads itself. A subgroup of 32 lanes holds them as PTX describes mma.m16n8k16, which is where NVIDIA's
// driver keeps cooperative matrices (580.159, H200; a lane's elements are numbered by row, those of the right side by
// column): lane 4 g + t has pairs of neighbours, 2 t and 2 t + 1 within eight. Pair j of the left side lies in row
// g + 8 left_row(j), columns 2 t + 8 left_half(j) on; of the right side in column g + 8 right_block(j), rows
// 2 t + 8 right_half(j) on; of the sums in row g + 8 sum_row(j), columns 2 t + 8 sum_block(j) on. PLAIN does the same by
// ordinary arithmetic for SUBGROUPS groups of 32 invocations, so that kernels can be tested where there are no matrix
// instructions; then all invocations multiply together. HALF: elements are float16, whatever DTYPE is.
#define RIGHT_PAIRS (COLS / 4)
#define SUM_PAIRS (COLS / 4)
uint left_row(uint j) { return j >> 1; }
uint left_half(uint j) { return j & 1u; }
uint right_half(uint j) { return j & 1u; }
uint right_block(uint j) { return j >> 1; }
uint sum_row(uint j) { return j / (COLS / 8); }
uint sum_block(uint j) { return j % (COLS / 8); }

#define LANE (gl_LocalInvocationIndex % 32)
#define TEAM (gl_LocalInvocationIndex / 32)

#ifdef PLAIN
#ifdef HALF
#define PART half_bits_to_float
#else
#define PART bits_to_float
#endif
struct Left { uint w[4]; };
struct Right { uint w[RIGHT_PAIRS]; };
struct Sums { float v[2 * SUM_PAIRS]; };
#define LEFT Left
#define RIGHT Right
#define SUMS Sums
shared float left_side[SUBGROUPS * 256], right_side[SUBGROUPS * 16 * COLS];
#define put_left(m, j, word) m.w[j] = word
#define put_right(m, j, word) m.w[j] = word
#define left_ones(m) m.w = uint[](ONES, ONES, ONES, ONES)
#define ONES (float_to_bits(1.0) * 0x10001u)
#define sum_of(m, e) m.v[e]
void zero_sums(out Sums m) {
    [[dont_unroll]] for (uint e = 0; e < 2 * SUM_PAIRS; e++) m.v[e] = 0;
}
void multiply(Left a, Right b, inout Sums m) {
    uint g = LANE / 4, t = LANE % 4, l0 = TEAM * 256, r0 = TEAM * 16 * COLS;
    barrier();
    [[dont_unroll]] for (uint j = 0; j < 4; j++)
        [[dont_unroll]] for (uint e = 0; e < 2; e++)
            left_side[l0 + (g + 8 * left_row(j)) * 16 + 2 * t + 8 * left_half(j) + e] =
                PART(a.w[j] >> (16 * e) & 0xffffu);
    [[dont_unroll]] for (uint j = 0; j < RIGHT_PAIRS; j++)
        [[dont_unroll]] for (uint e = 0; e < 2; e++)
            right_side[r0 + (2 * t + 8 * right_half(j) + e) * COLS + g + 8 * right_block(j)] =
                PART(b.w[j] >> (16 * e) & 0xffffu);
    barrier();
    [[dont_unroll]] for (uint e = 0; e < 2 * SUM_PAIRS; e++) {
        uint row = g + 8 * sum_row(e / 2), col = 2 * t + 8 * sum_block(e / 2) + e % 2;
        [[dont_unroll]] for (uint k = 0; k < 16; k++)
            m.v[e] = fma(left_side[l0 + row * 16 + k], right_side[r0 + k * COLS + col], m.v[e]);
    }
}
#else
#define LEFT coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<ELEMENT, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, COLS, gl_MatrixUseAccumulator>
#if DTYPE == 2 && !defined(HALF)
#define TWO(word) uintBitsToBFloat16EXT(unpack16(word))
#else
#define TWO(word) unpackFloat2x16(word)
#endif
#define put_left(m, j, word) m[2 * (j)] = TWO(word).x, m[2 * (j) + 1] = TWO(word).y
#define put_right(m, j, word) m[2 * (j)] = TWO(word).x, m[2 * (j) + 1] = TWO(word).y
#define left_ones(m) m = LEFT(1.0)
#define sum_of(m, e) m[e]
#define zero_sums(m) m = SUMS(0.0)
#define multiply(a, b, m) m = coopMatMulAdd(a, b, m)
#endif
