// Elements of matrices: memory by chunks of 16 bytes with masked tails, and conversions. The includer defines
// DTYPE (0 float32, 1 float16, 2 bfloat16) and may define OUT (what is stored, if another) and WIDE (chunks are
// 16-byte aligned). No 64-bit integer is
// used: addresses are uvec2, offsets inside one matrix fit 32 bits.

#include "lib/half.glsl"

#if DTYPE == 0
#define V 4
#define SHIFT 2
#else
#define V 8
#define SHIFT 1
#endif
#ifndef OUT
#define OUT DTYPE
#endif
#if OUT == 0
#define OUT_SHIFT 2
#else
#define OUT_SHIFT 1
#endif

#ifdef PROGRESS
#define OTHERS_WROTE coherent
#else
#define OTHERS_WROTE
#endif
layout(buffer_reference, scalar, buffer_reference_align = 16) OTHERS_WROTE buffer Chunks { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) OTHERS_WROTE buffer Pairs { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) OTHERS_WROTE buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) OTHERS_WROTE buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) OTHERS_WROTE buffer Halves { uint16_t v[]; };

// addr + i * stride elements of 2^shift bytes; the shift is a constant.
uvec2 advance(uvec2 addr, uint i, uint stride, uint shift) {
    uint hi, lo, carry;
    umulExtended(i, stride, hi, lo);
    if (shift > 0) hi = (hi << shift) | (lo >> (32 - shift));
    lo <<= shift;
    lo = uaddCarry(addr.x, lo, carry);
    return uvec2(lo, addr.y + hi + carry);
}

float half_bits_to_float(uint h) {
    return unpackHalf2x16(h).x;
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
#if OUT == 0
    return floatBitsToUint(x);
#elif OUT == 1
    return f16_encode(x);
#else
    return bf16_encode(x);
#endif
}

float load_element(uvec2 base, uint e) {
    return bits_to_float(load_bits(base, e));
}

void store_element(uvec2 base, uint e, float x) {
#if OUT == 0
    Floats(base).v[e] = x;
#else
    Halves(base).v[e] = uint16_t(float_to_bits(x));
#endif
}

// Four neighbours at once; e is a multiple of 4 and the base is aligned to 16 bytes.
void store_four(uvec2 base, uint e, vec4 x) {
#if OUT == 0
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
