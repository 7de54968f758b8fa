// Values in registers and their bits in memory. float16 and bfloat16 are held as float and rounded to
// nearest even by integer code, so that every device gives the same bits.

// False, but no constant to the compiler. A result that does not depend on its input would otherwise be
// a constant of the type it is stored as, and constants of 8 and 16 bits need arithmetic of these widths.
#define NEVER (gl_NumWorkGroups.x == 0u)

// Exact value of a float16 in the low 16 bits.
#ifdef HALF_CONVERT
float f16_decode(uint h) {
  float x = unpackHalf2x16(h & 0xffffu).x;
  uint nan = ((h & 0x8000u) << 16) | 0x7f800000u | ((h & 0x3ffu) << 13);
  return (h & 0x7fffu) > 0x7c00u ? uintBitsToFloat(nan) : x;
}
#else
float f16_decode(uint h) {
  uint a = (h & 0x7fffu) << 13;
  uint s = (h & 0x8000u) << 16;
  if (a >= 0x0f800000u) return uintBitsToFloat(s | (a + 0x70000000u));
  if (a >= 0x00800000u) return uintBitsToFloat(s | (a + 0x38000000u));
  return uintBitsToFloat(s | floatBitsToUint(float(h & 0x3ffu) * 5.9604644775390625e-8));
}
#endif

#include "lib/half.glsl"

// The nearest float16 and bfloat16, on the way to other values. What is unpacked of what was packed NVIDIA's compiler takes for the
// same (driver 580), so that nothing is rounded; its conversion to bfloat16 rounds to zero in every mode.
float f16_round(float x) { return f16_decode(f16_encode(x)); }
float bf16_round(float x) {
  uint u = floatBitsToUint(x);
  uint nearest = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return (u & 0x7fffffffu) > 0x7f800000u ? x : uintBitsToFloat(nearest);
}

// Truncation to integers; out of range as on x86, which the host kernels follow.
int f_to_i32(float x) { return abs(x) < 2147483648.0 ? int(x) : int(0x80000000u); }
uint f_to_u32(float x) {
  if (abs(x) < 2147483648.0) return uint(int(x));
  return x > 0.0 && x < 4294967296.0 ? uint(x) : 0u;
}
#ifdef HAS_INT64
int64_t f_to_i64(float x) {
  return abs(x) < 9223372036854775808.0 ? int64_t(x) : int64_t(packUint2x32(uvec2(0u, 0x80000000u)));
}
uint64_t f_to_u64(float x) {
  if (abs(x) < 9223372036854775808.0) return uint64_t(int64_t(x));
  return x > 0.0 && x < 18446744073709551616.0 ? uint64_t(x) : uint64_t(0);
}
#endif

// Integer arithmetic as the table defines it: division rounds down, zero division gives 0 (the dividend
// as remainder), powers wrap, shift counts are taken modulo the width.
#define INTEGER(T, MASK) \
  T i_pow(T a, T b) { \
    if (b < T(0)) return T(0); \
    T y = T(1); \
    while (b != T(0)) { if ((b & T(1)) != T(0)) y *= a; a *= a; b >>= 1; } \
    return y; \
  } \
  T i_shl(T a, T b) { return a << (int(b) & MASK); } \
  T i_shr(T a, T b) { return a >> (int(b) & MASK); }
#define UNSIGNED(T, MASK) INTEGER(T, MASK) \
  T i_floor_div(T a, T b) { return b == T(0) ? T(0) : a / (b == T(0) ? T(1) : b); } \
  T i_floor_mod(T a, T b) { return b == T(0) ? a : a % (b == T(0) ? T(1) : b); }
// Signed division by magnitudes: the sign of % on negative operands is undefined in SPIR-V.
#define SIGNED(T, U, MASK) INTEGER(T, MASK) \
  T i_floor_div(T a, T b) { \
    if (b == T(0)) return T(0); \
    U x = a < T(0) ? U(0) - U(a) : U(a), y = b < T(0) ? U(0) - U(b) : U(b); \
    U q = x / y; \
    bool minus = (a < T(0)) != (b < T(0)); \
    return minus ? T(U(0) - q) - T(x != q * y) : T(q); \
  } \
  T i_floor_mod(T a, T b) { \
    if (b == T(0)) return a; \
    U x = a < T(0) ? U(0) - U(a) : U(a), y = b < T(0) ? U(0) - U(b) : U(b); \
    U m = x % y; \
    T r = a < T(0) ? T(U(0) - m) : T(m); \
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r; \
  }
UNSIGNED(uint, 31)
SIGNED(int, uint, 31)
#ifdef HAS_INT64
UNSIGNED(uint64_t, 63)
SIGNED(int64_t, uint64_t, 63)
#endif
