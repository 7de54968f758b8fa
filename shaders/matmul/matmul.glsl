// What the kernels of the matrix-product family share: the push block, addresses, loads of 16-byte chunks
// with masked tails, conversions and the order of tiles. The includer defines DTYPE (0 float32, 1 float16,
// 2 bfloat16) and may define WIDE (operands are 16-byte aligned), ADDMM and FUSED (matmul/epilogue.glsl); and, for
// products whose addend's place holds a table (see gather_mm_table.comp), one of GATHER, RUNS and SEGMENTS.
// No 64-bit integer is used: addresses are uvec2, offsets inside one matrix fit 32 bits.

layout(push_constant, scalar) uniform Push {
    uvec2 a, b, c, d;       // addresses
    uint m, n, k;
    uint lda, ldb;          // elements between rows of the stored (possibly transposed) operands
    uint d_rs, d_cs;        // element strides of the result
    uint c_rs, c_cs;        // element strides of the addend, zero where it is broadcast
    uint nb0;               // length of the inner batch axis
    uint a_b0, a_b1, b_b0, b_b1, c_b0, c_b1; // element strides of the inner and outer batch axis
    uint d_b;               // element stride of the result over the whole batch
    uint tile0, batch0;     // first tile and batch of this dispatch
    uint k_split;           // length of K that one split takes
    uint flags;             // bit 0: rows of the result may be written four elements at once
                            // bit 1: the table of GATHER names the operands the other way round
#ifdef FUSED
    uvec2 fused;            // address of a block with alpha and beta
#else
    float alpha, beta;
#endif
} p;

#include "lib/element.glsl"
#ifdef FUSED
#include "matmul/epilogue.glsl"
#define ALPHA Fused(p.fused).alpha
#define BETA Fused(p.fused).beta
#else
#define ALPHA p.alpha
#define BETA p.beta
#endif

// Addresses of batch `i`.
#ifdef GATHER
uvec2 batch_a(uint i) { uvec4 e = Chunks(p.c).v[i]; return (p.flags & 2u) != 0 ? e.zw : e.xy; }
uvec2 batch_b(uint i) { uvec4 e = Chunks(p.c).v[i]; return (p.flags & 2u) != 0 ? e.xy : e.zw; }
#else
uvec2 batch_a(uint i) { return advance(advance(p.a, i % p.nb0, p.a_b0, SHIFT), i / p.nb0, p.a_b1, SHIFT); }
uvec2 batch_b(uint i) { return advance(advance(p.b, i % p.nb0, p.b_b0, SHIFT), i / p.nb0, p.b_b1, SHIFT); }
#endif
uvec2 batch_c(uint i) { return advance(advance(p.c, i % p.nb0, p.c_b0, SHIFT), i / p.nb0, p.c_b1, SHIFT); }
uvec2 batch_d(uint i) { return advance(p.d, i, p.d_b, OUT_SHIFT); }
// Partial sums of split `s`: float32, row-major (m, n), ordered by batch, then split.
uvec2 partial_d(uint i, uint s, uint splits) { return advance(p.d, i * splits + s, p.m * p.n, 2); }

#ifndef CONV
// Offsets of a row and of an element of the result; a convolution has its own.
#define RESULT_ROW(row) ((row) * p.d_rs)
#define RESULT(row, col) ((row) * p.d_rs + (col) * p.d_cs)
#endif

// What the epilogue of batch `i` reads: the address of the addend is returned.
uvec2 begin_epilogue(uint i) {
#ifdef FUSED
    FUSED_BEGIN
#endif
#ifdef ADDMM
    return batch_c(i);
#else
    return uvec2(0);
#endif
}

// x, or alpha * x + beta * c (with beta zero c is not read); then what follows the product.
float epilogue(float x, uvec2 c, uint row, uint col) {
#ifdef ADDMM
    float y = ALPHA * x;
    if (BETA != 0.0) y = fma(ALPHA, x, BETA * load_element(c, row * p.c_rs + col * p.c_cs));
    x = y;
#endif
#ifdef FUSED
    x = fused(x, row * p.d_rs + col * p.d_cs, (p.flags & 2u) != 0 ? row : col FUSED_ARGS);
#endif
    return x;
}

// Tiles walk down groups of eight tile rows, so that neighbours in time share operands in the cache.
uvec2 tile_position(uint t, uint tiles_m, uint tiles_n) {
    uint group = t / (8 * tiles_n);
    uint inside = t % (8 * tiles_n);
    uint height = min(8, tiles_m - group * 8);
    return uvec2(group * 8 + inside % height, inside / height);
}

// The part of K that a workgroup sums over.
#ifdef SEGMENTS
uint k_first(uint batch) { return Pairs(p.c).v[batch].x; }
uint k_last(uint batch) { return Pairs(p.c).v[batch].y; }
#else
uint k_first(uint batch) { return gl_WorkGroupID.y * p.k_split; }
uint k_last(uint batch) { return min(p.k, (gl_WorkGroupID.y + 1) * p.k_split); }
#endif

// Runs of rows that meet one right matrix: the body between the two macros is done for each run of the tile's
// rows from row0 on, with `b` its matrix and `rows` the end of the run. Otherwise once, for all rows.
#ifdef RUNS
#ifndef SET_B
#define SET_B(address) b = address
#endif
#define FOR_EACH_RUN                                                             \
    uint tile_end = min(row0 + BM, p.m);                                         \
    for (uint rows; row0 < tile_end; row0 = rows) {                              \
        uvec4 run = Chunks(p.c).v[row0];                                         \
        rows = min(run.z, tile_end);                                             \
        SET_B(run.xy);
#define END_RUN }
#else
#define FOR_EACH_RUN uint rows = p.m;
#define END_RUN
#endif
