// Index arrays of gathers and scatters. Parameters are 64-bit words: first the axes of the walk, FIELDS + NPICK
// words each (the kernel's own fields, then the steps in the index arrays), then four words for each of the
// NPICK index arrays: address, step of an index in the base, length of the axis, positions that are allowed.
// Indices have I_SIZE bytes; I_RAW and I_DEC read one. Includes lib/codecs.glsl before.

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Words { int64_t v[]; };

#define AXIS_WORDS (FIELDS + NPICK)

#ifdef BIG
#define UINT uint64_t
#else
#define UINT uint
#endif

// The index at p, negative ones counted from the end: -1 below the axis, len above it.
int index_at(uint64_t p, int len) {
#if I_SIZE == 8
    uvec2 w = Raw8(p).v;
#if I_SIGNED
    if (int(w.y) < 0) return w.y == 0xffffffffu && int(w.x) < 0 ? max(int(w.x) + len, -1) : -1;
#endif
    return w.y != 0u || w.x > 0x7fffffffu ? len : min(int(w.x), len);
#elif I_SIGNED
    int i = I_DEC(I_RAW(p).v);
    return i < 0 ? max(i + len, -1) : min(i, len);
#else
    uint i = uint(I_RAW(p).v);
    return i > 0x7fffffffu ? len : min(int(i), len);
#endif
}

// Index k of the walk, at its place `pos` in the array: held inside the axis, or -1 where it does not fit.
int picked(uint64_t params, uint first, uint k, int64_t pos) {
    uint w = first + 4u * k;
    int limit = int(Words(params).v[w + 3u]);
    int i = index_at(at(uint64_t(Words(params).v[w]), pos, I_SIZE), int(Words(params).v[w + 2u]));
#ifdef HOLD
    return clamp(i, 0, limit - 1);
#else
    return i < limit ? i : -1;
#endif
}
