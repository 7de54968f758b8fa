// What the products with quantised matrices share: the push block, and where the operands of a product lie. TRANSPOSE
// 1: w has a row of K codes for each result, else a row of results for each K. Includes
// lib/float_controls.glsl (subnormal numbers count), lib/element.glsl and quantized/quant.glsl.

#ifdef JOINED
#include "quantized/joined_push.glsl"
#else
layout(push_constant, scalar) uniform Push {
    uvec2 x, w, s, b, d, lhs, rhs; // addresses; of indices where flags say that there are some
    uint m, n, k;
    uint x_rs, x_b;                // elements from one row, and one matrix, of x to the next
    uint nx, nw;                   // matrices of x and of w
    uint d_b;                      // elements from one product to the next
    uint tile0, batch0;            // first tile and batch of this dispatch
    uint k_split;                  // length of K that one split takes
    uint flags;                    // bits 0, 1: lhs is there, is signed; bits 2, 3: rhs likewise
} p;
#endif

#include "lib/float_controls.glsl"
#include "lib/element.glsl"
#include "quantized/quant.glsl"

#ifdef JOINED
#define CODE_COLS K
#elif TRANSPOSE
#define CODE_ROWS p.n
#define CODE_COLS p.k
#else
#define CODE_ROWS p.k
#define CODE_COLS p.n
#endif
#define ROW_WORDS (CODE_COLS / 16 * BITS / 2)
#define ROW_GROUPS (CODE_COLS / GROUP)

// Indices are held inside the batch, so that none can lead outside an operand; signed ones count from the end.
uint picked(uvec2 base, uint i, uint n, bool is_signed) {
    uint v = Words(base).v[i];
    if (is_signed && int(v) < 0) v = uint(max(int(v) + int(n), 0));
    return min(v, n - 1);
}

#ifdef JOINED
// PICKS: where the element that goes with result `e` lies in an array with a row of N0 for each of the matrices.
uint picked_place(uint e) { return picked(p.w[2], e / N0, p.s[2].x, (p.s[2].y & 1u) != 0) * N0 + e % N0; }
#endif

#ifndef JOINED
// Matrices of product `i`.
uint pick_x(uint i) {
    if ((p.flags & 1u) != 0) return picked(p.lhs, i, p.nx, (p.flags & 2u) != 0);
    return p.nx == 1 ? 0 : i;
}
uint pick_w(uint i) {
    if ((p.flags & 4u) != 0) return picked(p.rhs, i, p.nw, (p.flags & 8u) != 0);
    return p.nw == 1 ? 0 : i;
}

uvec2 matrix_x(uint i) { return advance(p.x, i, p.x_b, SHIFT); }
uvec2 matrix_w(uint i) { return advance(p.w, i, CODE_ROWS * ROW_WORDS, 2); }
uvec2 matrix_s(uint i) { return advance(p.s, i, CODE_ROWS * ROW_GROUPS, FACTOR_SHIFT); }
uvec2 matrix_b(uint i) { return advance(p.b, i, CODE_ROWS * ROW_GROUPS, FACTOR_SHIFT); }
uvec2 matrix_d(uint i) { return advance(p.d, i, p.d_b, SHIFT); }
// Partial sums of split `s`: float32, row-major (m, n), ordered by batch, then split.
uvec2 partial_d(uint i, uint s, uint splits) { return advance(p.d, i * splits + s, p.m * p.n, 2); }
#endif
