// What the kernels of the matrix-product family share: the push block, addresses, loads of 16-byte chunks
// with masked tails, conversions and the order of tiles. The includer defines DTYPE (0 float32, 1 float16,
// 2 bfloat16) and may define WIDE (operands are 16-byte aligned) and ADDMM; and, for products whose addend's
// place holds a table (see gather_mm_table.comp), one of GATHER, RUNS and SEGMENTS.
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
    float alpha, beta;
} p;

#if DTYPE == 0
#define V 4
#define SHIFT 2
#else
#define V 8
#define SHIFT 1
#endif

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Chunks { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };

// addr + i * stride elements of 2^shift bytes.
uvec2 advance(uvec2 addr, uint i, uint stride, uint shift) {
    uint hi, lo, carry;
    umulExtended(i, stride, hi, lo);
    hi = (hi << shift) | (lo >> (32 - shift));
    lo <<= shift;
    lo = uaddCarry(addr.x, lo, carry);
    return uvec2(lo, addr.y + hi + carry);
}

float half_bits_to_float(uint h) {
    return unpackHalf2x16(h).x;
}

// Round to nearest even; NaN stays NaN.
uint float_to_half_bits(float x) {
    uint u = floatBitsToUint(x);
    uint s = (u >> 16) & 0x8000u;
    uint a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return s | 0x7e00u;
    if (a >= 0x477ff000u) return s | 0x7c00u;
    if (a < 0x38800000u) return s | uint(roundEven(uintBitsToFloat(a) * 16777216.0));
    return s | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13);
}

uint float_to_bfloat_bits(float x) {
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 0x40u;
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

// Bits of one element, and back.
uint load_bits(uvec2 base, uint e) {
#if DTYPE == 0
    return Words(base).v[e];
#else
    return uint(Halves(base).v[e]);
#endif
}

float bits_to_float(uint bits) {
#if DTYPE == 0
    return uintBitsToFloat(bits);
#elif DTYPE == 1
    return half_bits_to_float(bits);
#else
    return uintBitsToFloat(bits << 16);
#endif
}

uint float_to_bits(float x) {
#if DTYPE == 0
    return floatBitsToUint(x);
#elif DTYPE == 1
    return float_to_half_bits(x);
#else
    return float_to_bfloat_bits(x);
#endif
}

float load_element(uvec2 base, uint e) {
    return bits_to_float(load_bits(base, e));
}

void store_element(uvec2 base, uint e, float x) {
#if DTYPE == 0
    Floats(base).v[e] = x;
#else
    Halves(base).v[e] = uint16_t(float_to_bits(x));
#endif
}

// Four neighbours at once; e is a multiple of 4 and the base is aligned to 16 bytes.
void store_four(uvec2 base, uint e, vec4 x) {
#if DTYPE == 0
    Chunks(base).v[e / 4] = floatBitsToUint(x);
#else
    Pairs(base).v[e / 4] = uvec2(float_to_bits(x.x) | float_to_bits(x.y) << 16,
                                 float_to_bits(x.z) | float_to_bits(x.w) << 16);
#endif
}

// Element i of a chunk; i is a constant after unrolling.
float chunk_element(uvec4 c, uint i) {
#if DTYPE == 0
    return uintBitsToFloat(c[i]);
#elif DTYPE == 1
    vec2 h = unpackHalf2x16(c[i / 2]);
    return (i & 1u) == 0 ? h.x : h.y;
#else
    return uintBitsToFloat((i & 1u) == 0 ? c[i / 2] << 16 : c[i / 2] & 0xffff0000u);
#endif
}

// V elements from (row, col) of a matrix whose rows lie ld apart; zeros beyond rows and cols. One exit and no
// loop: a loop around a call of this is unrolled only then.
uvec4 load_chunk(uvec2 base, uint row, uint rows, uint col, uint cols, uint ld) {
    uvec4 c = uvec4(0);
    if (row < rows && col < cols) {
        uint e = row * ld + col, left = cols - col;
#ifdef WIDE
        if (left >= V) {
            c = Chunks(base).v[e / V];
        } else
#endif
        {
#if DTYPE == 0
            c.x = load_bits(base, e);
            if (left > 1) c.y = load_bits(base, e + 1);
            if (left > 2) c.z = load_bits(base, e + 2);
            if (left > 3) c.w = load_bits(base, e + 3);
#else
            c.x = load_bits(base, e);
            if (left > 1) c.x |= load_bits(base, e + 1) << 16;
            if (left > 2) c.y = load_bits(base, e + 2);
            if (left > 3) c.y |= load_bits(base, e + 3) << 16;
            if (left > 4) c.z = load_bits(base, e + 4);
            if (left > 5) c.z |= load_bits(base, e + 5) << 16;
            if (left > 6) c.w = load_bits(base, e + 6);
            if (left > 7) c.w |= load_bits(base, e + 7) << 16;
#endif
        }
    }
    return c;
}

// Addresses of batch `i`.
#ifdef GATHER
uvec2 batch_a(uint i) { uvec4 e = Chunks(p.c).v[i]; return (p.flags & 2u) != 0 ? e.zw : e.xy; }
uvec2 batch_b(uint i) { uvec4 e = Chunks(p.c).v[i]; return (p.flags & 2u) != 0 ? e.xy : e.zw; }
#else
uvec2 batch_a(uint i) { return advance(advance(p.a, i % p.nb0, p.a_b0, SHIFT), i / p.nb0, p.a_b1, SHIFT); }
uvec2 batch_b(uint i) { return advance(advance(p.b, i % p.nb0, p.b_b0, SHIFT), i / p.nb0, p.b_b1, SHIFT); }
#endif
uvec2 batch_c(uint i) { return advance(advance(p.c, i % p.nb0, p.c_b0, SHIFT), i / p.nb0, p.c_b1, SHIFT); }
uvec2 batch_d(uint i) { return advance(p.d, i, p.d_b, SHIFT); }
// Partial sums of split `s`: float32, row-major (m, n), ordered by batch, then split.
uvec2 partial_d(uint i, uint s, uint splits) { return advance(p.d, i * splits + s, p.m * p.n, 2); }

// alpha * x + beta * c, or x; with beta zero c is not read.
float epilogue(float x, uvec2 c, uint row, uint col) {
#ifdef ADDMM
    if (p.beta == 0.0) return p.alpha * x;
    return fma(p.alpha, x, p.beta * load_element(c, row * p.c_rs + col * p.c_cs));
#else
    return x;
#endif
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
