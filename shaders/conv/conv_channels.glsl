// CHANNELS neighbouring channels in registers: a whole chunk of V, 16-byte aligned, or one.

#if CHANNELS == 1
#define PACK float
#define NOTHING 0.0
#define TIMES(a, b) ((a) * (b))
PACK channels_at(uvec2 base, uint e) { return load_element(base, e); }
void store_channels(uvec2 base, uint e, PACK x) { store_element(base, e, x); }
float channel_of(PACK x, uint c) { return x; }
#elif DTYPE == 0
#define PACK vec4
#define NOTHING vec4(0)
#define TIMES(a, b) ((a) * (b))
PACK channels_at(uvec2 base, uint e) { return uintBitsToFloat(Chunks(base).v[e / V]); }
void store_channels(uvec2 base, uint e, PACK x) { store_four(base, e, x); }
float channel_of(PACK x, uint c) { return x[c]; }
#else
#define PACK mat2x4
#define NOTHING mat2x4(0)
#define TIMES(a, b) matrixCompMult(a, b)
PACK channels_at(uvec2 base, uint e) {
    uvec4 c = Chunks(base).v[e / V];
    return mat2x4(chunk_element(c, 0), chunk_element(c, 1), chunk_element(c, 2), chunk_element(c, 3),
                  chunk_element(c, 4), chunk_element(c, 5), chunk_element(c, 6), chunk_element(c, 7));
}
void store_channels(uvec2 base, uint e, PACK x) {
    store_four(base, e, x[0]);
    store_four(base, e + 4, x[1]);
}
float channel_of(PACK x, uint c) { return x[c / 4][c % 4]; }
#endif

// Zeros where the site lies outside the input; something is read there nevertheless.
PACK channels_where(uvec2 base, Site s, uint from) {
    bool ok = inside(s);
    PACK x = channels_at(base, ok ? uint(s.offset) + from : 0);
    return ok ? x : NOTHING;
}
