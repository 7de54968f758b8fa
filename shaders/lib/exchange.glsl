// What lanes of a subgroup hand to each other; PLAIN does it for THREADS invocations through shared memory, which all get there.
#ifdef PLAIN
shared uint exchanged[THREADS];
uint other_bits(uint v, uint m) {
    barrier();
    exchanged[gl_LocalInvocationIndex] = v;
    barrier();
    return exchanged[gl_LocalInvocationIndex ^ m];
}
#else
uint other_bits(uint v, uint m) { return subgroupShuffleXor(v, m); }
#endif

// The value of the lane whose number differs in the bits of `m`.
float other(float v, uint m) { return uintBitsToFloat(other_bits(floatBitsToUint(v), m)); }
