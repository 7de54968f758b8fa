// Folds over the TPR consecutive lanes that share a row, in a workgroup of WG (both powers of two). Every lane of
// the workgroup must call them, and gets the result of its row. The order of combination is fixed; the subgroup
// size is never assumed. Minima and maxima are folded as integers in the order of the numbers, NaN first or last.
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

shared uint row_mem[WG];

uint row_lane() {
#ifdef SG
  return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
  return gl_LocalInvocationIndex;
#endif
}

int row_key(float x, int nan) {
  int i = floatBitsToInt(x);
  return (i & 0x7fffffff) > 0x7f800000 ? nan : i ^ ((i >> 31) & 0x7fffffff);
}
int row_key_max(float x) { return row_key(x, 0x7fffffff); }
int row_key_min(float x) { return row_key(x, int(0x80000000u)); }
float row_unkey(int k) {
  uint u = uint(k ^ ((k >> 31) & 0x7fffffff));
  return uintBitsToFloat((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : u);
}

// x, or NaN where the largest magnitude (as bits) is one.
float row_or_nan(float x, uint top) { return top > 0x7f800000u ? uintBitsToFloat(0x7fc00000u) : x; }

#ifdef ROW_DIV
// Quotients by a number of the row: its reciprocal, or 0 where that needs care; and a / b by it.
float row_inverse(float b) {
#ifdef FUSED_FMA
  return ((floatBitsToUint(b) >> 23) & 0xffu) - 67u < 120u ? 1.0 / b : 0.0;
#else
  return 0.0;
#endif
}
float row_div(float a, float b, float y) {
#ifdef FUSED_FMA
  if (y != 0.0) return m_div_by(a, b, y);
#endif
  return m_div(a, b);
}
#endif

// Eight numbers rounded to bfloat16. That takes half of the work where none is NaN; their sum tells, and may err on
// the safe side.
uint row_bf16_pair(float a, float b) {
  uint lo = floatBitsToUint(a), hi = floatBitsToUint(b);
  lo += 0x7fffu + ((lo >> 16) & 1u);
  hi += 0x7fffu + ((hi >> 16) & 1u);
  return (lo >> 16) | (hi & 0xffff0000u);
}
uvec4 row_bf16(float x[8]) {
  float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  if ((floatBitsToUint(sum) & 0x7fffffffu) <= 0x7f800000u)
    return uvec4(row_bf16_pair(x[0], x[1]), row_bf16_pair(x[2], x[3]), row_bf16_pair(x[4], x[5]),
                 row_bf16_pair(x[6], x[7]));
  return uvec4(bf16_encode(x[0]) | bf16_encode(x[1]) << 16, bf16_encode(x[2]) | bf16_encode(x[3]) << 16,
               bf16_encode(x[4]) | bf16_encode(x[5]) << 16, bf16_encode(x[6]) | bf16_encode(x[7]) << 16);
}

float row_plus(float a, float b) {
  precise float c = a + b;
  return c;
}
float row_times(float a, float b) {
  precise float c = a * b;
  return c;
}

#ifdef SG
#define ROW_FOLD(NAME, T, WORD, VALUE, JOIN) \
  T NAME(T v, uint lane) { \
    for (uint m = min(TPR, gl_SubgroupSize) >> 1; m > 0u; m >>= 1) v = JOIN(v, subgroupShuffleXor(v, m)); \
    if (TPR > gl_SubgroupSize) { \
      const uint parts = TPR / gl_SubgroupSize, first = (lane / TPR) * parts; \
      barrier(); \
      if (gl_SubgroupInvocationID == 0u) row_mem[gl_SubgroupID] = WORD(v); \
      barrier(); \
      v = VALUE(row_mem[first]); \
      for (uint i = 1u; i < parts; ++i) v = JOIN(v, VALUE(row_mem[first + i])); \
    } \
    return v; \
  }
#else
#define ROW_FOLD(NAME, T, WORD, VALUE, JOIN) \
  T NAME(T v, uint lane) { \
    if (TPR == 1u) return v; \
    barrier(); \
    row_mem[lane] = WORD(v); \
    barrier(); \
    for (uint s = TPR >> 1; s > 0u; s >>= 1) { \
      if ((lane & (TPR - 1u)) < s) row_mem[lane] = WORD(JOIN(VALUE(row_mem[lane]), VALUE(row_mem[lane + s]))); \
      barrier(); \
    } \
    return VALUE(row_mem[lane & ~(TPR - 1u)]); \
  }
#endif

ROW_FOLD(row_sum, float, floatBitsToUint, uintBitsToFloat, row_plus)
ROW_FOLD(row_prod, float, floatBitsToUint, uintBitsToFloat, row_times)
ROW_FOLD(row_max, int, uint, int, max)
ROW_FOLD(row_min, int, uint, int, min)
