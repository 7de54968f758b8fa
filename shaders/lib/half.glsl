// Bits of float16 and bfloat16 nearest to a number, halves to even, by integer code, so that every device gives the same
// bits. NaN stays NaN with its sign and the digits that there is room for, as on the host. With HALF_CONVERT the
// device's instructions round so and keep subnormal numbers, and only NaN is left to do.
#ifndef HALF_BITS
#define HALF_BITS

#ifdef HALF_CONVERT
uint f16_encode(float x) {
  uint u = floatBitsToUint(x);
  uint h = packHalf2x16(vec2(x, 0.0));
  return (u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) & 0x8000u) | 0x7e00u | ((u >> 13) & 0x3ffu) : h;
}
#else
uint f16_encode(float x) {
  uint u = floatBitsToUint(x);
  uint s = (u >> 16) & 0x8000u;
  uint a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return s | 0x7e00u | ((a >> 13) & 0x3ffu);
  if (a >= 0x477ff000u) return s | 0x7c00u;
  if (a >= 0x38800000u) return s | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
  // Adding 0.5 leaves the value in units of 2^-24, rounded, in the low bits.
  precise float t = uintBitsToFloat(a) + 0.5;
  return s | (floatBitsToUint(t) - 0x3f000000u);
}
#endif

uint bf16_encode(float x) {
  uint u = floatBitsToUint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 0x40u;
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

// Two bfloat16 of numbers that are not NaN.
uint bf16_pair(float lo, float hi) {
  uint a = floatBitsToUint(lo), b = floatBitsToUint(hi);
  a += 0x7fffu + ((a >> 16) & 1u);
  b += 0x7fffu + ((b >> 16) & 1u);
  return (a >> 16) | (b & 0xffff0000u);
}

#endif
