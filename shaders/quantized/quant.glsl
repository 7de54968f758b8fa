// Quantised matrices: codes of BITS bits that follow each other in words from the lowest bit on, and a scale (MODE
// 0: and a bias) for each GROUP of them. MODE 0 affine, 1 mxfp4, 2 mxfp8, 3 nvfp4. Codes are taken in packs of
// eight, at most 64 bits. Needs lib/element.glsl, whose DTYPE affine scales have.

#define MASK ((1u << BITS) - 1u)
#if MODE == 0
#define FACTOR_SHIFT SHIFT
#else
#define FACTOR_SHIFT 0
#endif

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Bytes { uint8_t v[]; };

float e8m0(uint b) { return uintBitsToFloat(b == 0 ? 0x00400000u : b << 23); }

float e4m3(uint code) {
    uint m = code & 0x7fu;
    uint u = m < 8 ? floatBitsToUint(float(m) * 0.001953125) : (m << 20) + 0x3c000000u;
    return uintBitsToFloat((m == 0x7fu ? 0x7fc00000u : u) | (code & 0x80u) << 24);
}

// A scale, or a bias.
float factor(uvec2 base, uint i) {
#if MODE == 0
    return load_element(base, i);
#elif MODE == 3
    return e4m3(uint(Bytes(base).v[i]));
#else
    return e8m0(uint(Bytes(base).v[i]));
#endif
}

// Value of code e of a pack, without its scale; e is a constant after unrolling.
float code(uvec2 pack, uint e) {
    uint bit = e * BITS, at = bit & 31u;
    uint word = bit < 32 ? pack.x : pack.y;
#if MODE == 0
    if (at + BITS > 32) return float(((word >> at) | (pack.y << (32 - at))) & MASK);
    if (at + BITS > 22) {
        word >>= 16;
        at -= 16;
    }
    // The code as the low digits of a float whose last place is one, then that float without the code taken off:
    // no conversion from an integer.
    return uintBitsToFloat((word & (MASK << at)) | (150u - at) << 23) - float(1u << (23u - at));
#elif MODE == 2
    return e4m3((word >> at) & 0xffu);
#else
    // E2M1 moved into a float of exponent -1 on; without hidden bit, the smallest two are twice as far down.
    uint c = word >> at;
    float f = uintBitsToFloat(((c & 7u) << 22) + 0x3f000000u);
    return uintBitsToFloat(floatBitsToUint(min(f, 2.0 * f - 1.0)) | (c & 8u) << 28);
#endif
}

// A value of the matrix rounded as dequantisation stores it.
float as_stored(float x) {
#if DTYPE == 1
    // Through integers: drivers leave out a conversion there and back, or do not round it to even.
    return half_bits_to_float(f16_encode(x));
#elif DTYPE == 2
    return uintBitsToFloat(bf16_encode(x) << 16);
#else
    return x;
#endif
}

// Value of a code as dequantisation stores it: the product and the sum rounded one by one.
float stored_value(float c, float scale, float bias) {
    precise float scaled = c * as_stored(scale);
#if MODE == 0
    precise float value = as_stored(scaled) + bias;
    return as_stored(value);
#else
    return as_stored(scaled);
#endif
}

// The pack that begins at code `col`, a multiple of eight, of the row whose first word is `row`.
uvec2 load_pack(uvec2 base, uint row, uint col) {
    uint bit = col * BITS, i = row + (bit >> 5), at = bit & 31u;
    uint low = Words(base).v[i];
#if BITS == 4
    return uvec2(low, 0);
#elif BITS == 8
    return uvec2(low, Words(base).v[i + 1]);
#elif BITS < 4 && BITS != 3
    return uvec2(low >> at, 0);
#else
    uint high = 0;
    if (at + 8 * BITS > 32) high = Words(base).v[i + 1];
    return uvec2((low >> at) | ((high << 1) << (31 - at)), high >> at);
#endif
}
