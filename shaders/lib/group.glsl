// Reduction over TPR consecutive lanes of a workgroup of WG (both powers of two, specialisation constants).
// The includer defines ACC, comb(ACC, ACC) (commutative) and, with SG, sg_xor(ACC, mask). Every lane of the
// workgroup must call group_reduce; every lane gets the result of its group. The order of the combination is
// fixed, so results do not change from run to run. Subgroups have any size from four on.
#ifdef SG
shared ACC group_mem[WG / 4u];
#else
shared ACC group_mem[WG];
#endif

uint lane_id() {
#ifdef SG
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
    return gl_LocalInvocationIndex;
#endif
}

ACC group_reduce(ACC v, uint lane) {
#ifdef SG
    uint w = min(TPR, gl_SubgroupSize);
    for (uint m = w >> 1; m > 0u; m >>= 1) v = comb(v, sg_xor(v, m));
    if (TPR > gl_SubgroupSize) {
        uint parts = TPR / gl_SubgroupSize, first = (lane / TPR) * parts;
        barrier();
        if (gl_SubgroupInvocationID == 0u) group_mem[gl_SubgroupID] = v;
        barrier();
        v = group_mem[first];
        for (uint i = 1u; i < parts; ++i) v = comb(v, group_mem[first + i]);
    }
    return v;
#else
    if (TPR == 1u) return v;
    barrier();
    group_mem[lane] = v;
    barrier();
    for (uint s = TPR >> 1; s > 0u; s >>= 1) {
        if ((lane & (TPR - 1u)) < s) group_mem[lane] = comb(group_mem[lane], group_mem[lane + s]);
        barrier();
    }
    return group_mem[lane & ~(TPR - 1u)];
#endif
}
