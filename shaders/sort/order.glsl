// Order-preserving unsigned keys of raw elements: NaN last, complex numbers by real, then imaginary part. Over
// codecs.glsl; the includer defines A_SIZE, A_KIND and A_MANTISSA (bits of a float's mantissa).
//   key_of     equal elements have equal keys: the zeros are one, and every NaN has KEY_TOP
//   strict_of  every bit pattern has its own key (not for complex numbers): -0 before 0, NaNs by their bits
//   raw_of     the element of a strict key
#if A_SIZE == 8
#define KEY uint64_t
#define KEY_SIZE 8
#define KEY_TOP U64_HIGH
#define RAW uvec2
void raw_store(uint64_t p, RAW x) { Raw8(p).v = x; }
#else
#define KEY uint
#define KEY_SIZE 4
#define KEY_TOP 0xffffffffu
#define RAW uint
#if A_SIZE == 4
void raw_store(uint64_t p, RAW x) { Raw4(p).v = x; }
#elif A_SIZE == 2
void raw_store(uint64_t p, RAW x) { Raw2(p).v = uint16_t(x); }
#else
void raw_store(uint64_t p, RAW x) { Raw1(p).v = uint8_t(x); }
#endif
#endif
layout(buffer_reference, scalar, buffer_reference_align = KEY_SIZE) buffer Key { KEY v; };

const uint KEY_BITS = 8u * A_SIZE;
const uint SIGN = 1u << (A_SIZE < 4 ? KEY_BITS - 1u : 31u);  // of the word that holds it

#if A_KIND == 2
const uint ALL = SIGN | (SIGN - 1u), INFINITE = (SIGN - 1u) & ~((1u << A_MANTISSA) - 1u);
KEY key_of(RAW b) {
    if ((b & ~SIGN) > INFINITE) return KEY_TOP;
    if (b == SIGN) b = 0u;
    return (b & SIGN) != 0u ? ~b & ALL : b | SIGN;
}
// Inverting negative numbers puts NaNs with a sign first; turning the keys round by their number puts them last.
KEY strict_of(RAW b) {
    uint k = (b & SIGN) != 0u ? ~b : b | SIGN;
    return (k - ((1u << A_MANTISSA) - 1u)) & ALL;
}
RAW raw_of(KEY k) {
    k = (k + ((1u << A_MANTISSA) - 1u)) & ALL;
    return (k & SIGN) != 0u ? k ^ SIGN : ~k & ALL;
}
#elif A_KIND == 3
uint part_of(float x) {
    uint u = is_zero(x) ? 0u : floatBitsToUint(x);
    return u ^ (uint(int(u) >> 31) | 0x80000000u);
}
KEY key_of(RAW b) {
    vec2 z = uintBitsToFloat(b);
    return is_nan(z.x) || is_nan(z.y) ? KEY_TOP : packUint2x32(uvec2(part_of(z.y), part_of(z.x)));
}
KEY strict_of(RAW b) { return key_of(b); }
RAW raw_of(KEY k) { return unpackUint2x32(k); }
#else
#if A_SIZE == 8
KEY key_of(RAW b) { return packUint2x32(A_KIND == 1 ? uvec2(b.x, b.y ^ SIGN) : b); }
RAW raw_of(KEY k) { return A_KIND == 1 ? unpackUint2x32(k) ^ uvec2(0u, SIGN) : unpackUint2x32(k); }
#else
KEY key_of(RAW b) { return A_KIND == 1 ? b ^ SIGN : b; }
RAW raw_of(KEY k) { return A_KIND == 1 ? k ^ SIGN : k; }
#endif
KEY strict_of(RAW b) { return key_of(b); }
#endif
