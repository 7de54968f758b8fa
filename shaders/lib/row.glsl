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
