// One unit of UNIT bytes, as BITS, of 16 bytes. The host defines both, `define_unit`.
#if UNIT < 16
void put(inout uvec4 v, uint k, BITS x) {
#if UNIT == 1
    v[k >> 2] = bitfieldInsert(v[k >> 2], x, int(8u * (k & 3u)), 8);
#elif UNIT == 2
    v[k >> 1] = bitfieldInsert(v[k >> 1], x, int(16u * (k & 1u)), 16);
#elif UNIT == 4
    v[k] = x;
#else
    v[2u * k] = x.x;
    v[2u * k + 1u] = x.y;
#endif
}

BITS taken(uvec4 v, uint k) {
#if UNIT == 1
    return bitfieldExtract(v[k >> 2], int(8u * (k & 3u)), 8);
#elif UNIT == 2
    return bitfieldExtract(v[k >> 1], int(16u * (k & 1u)), 16);
#elif UNIT == 4
    return v[k];
#else
    return v.xy * (1u - k) + v.zw * k;
#endif
}
#endif
