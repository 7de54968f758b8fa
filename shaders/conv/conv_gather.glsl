// The operand of a product that is a convolution, gathered from the input by chunks: the left one, rows by output
// position and K by kernel element, or for the gradient of the kernel (GRADIENT) the right one, K by output
// position and columns by kernel element. Included by the tiled kernels, which take `next_a` or `next_b` from
// here. Defines: GATHER_WIDE (chunks never cross channels and are aligned), and those of conv/conv.glsl.

#include "conv/conv.glsl"

// Outside the input something is read nevertheless and thrown away: a branch would cost more.
uvec4 chunk_where(uvec2 base, Site s) {
    bool ok = inside(s);
    uvec4 c = Chunks(base).v[ok ? uint(s.offset) / V : 0];
    return ok ? c : uvec4(0);
}
uint bits_where(uvec2 base, Site s) {
    bool ok = inside(s);
    uint bits = load_bits(base, ok ? uint(s.offset) : 0);
    return ok ? bits : 0;
}

// V neighbours along the kernel's numbering, where an output position meets them.
#ifdef GATHER_WIDE
#define KERNEL_SITES 1
#define MEET(base, o, k) chunk_where(base, met(o, k[0]))
#elif DTYPE == 0
#define KERNEL_SITES 4
#define ONE(base, o, k, i) bits_where(base, met(o, k[i]))
#define MEET(base, o, k) uvec4(ONE(base, o, k, 0), ONE(base, o, k, 1), ONE(base, o, k, 2), ONE(base, o, k, 3))
#else
#define KERNEL_SITES 8
#define TWO(base, o, k, i) (bits_where(base, met(o, k[i])) | bits_where(base, met(o, k[i + 1])) << 16)
#define MEET(base, o, k) uvec4(TWO(base, o, k, 0), TWO(base, o, k, 2), TWO(base, o, k, 4), TWO(base, o, k, 6))
#endif

Site kernel_site_below(uint i, uint end) {
    Site s = kernel_site(min(i, end - 1));
    if (i >= end) s.x = FAR_OUTSIDE;
    return s;
}

#define SITES(sites, first, end)                                                    \
    [[unroll]] for (uint e = 0; e < KERNEL_SITES; e++) {                            \
        sites[e] = kernel_site_below((first) + e, end);                             \
    }

#if GRADIENT
#define GATHER_B
Site columns[KERNEL_SITES];

void begin_gather(uint row0, uint col0) {
    load_geometry();
    uint first = col0 + gl_LocalInvocationIndex % (BN / V) * V;
    SITES(columns, first, p.n)
}

void gather(uvec2 base, uint k0, uint k_end) {
#define GATHER(i)                                                                   \
    {                                                                               \
        uint k = k0 + (gl_LocalInvocationIndex + i * THREADS) / (BN / V);           \
        Site o = output_site(min(k, k_end - 1));                                    \
        if (k >= k_end) o.x = FAR_OUTSIDE;                                          \
        next_b[i] = MEET(base, o, columns);                                         \
    }
    EACH_B(GATHER)
}
#else
#define GATHER_A
Site rows[CHUNKS_A];

void begin_gather(uint row0, uint col0) {
    load_geometry();
#define BEGIN(i)                                                                    \
    {                                                                               \
        uint row = row0 + ROW_A(i);                                                 \
        rows[i] = output_site(min(row, p.m - 1));                                   \
        if (row >= p.m) rows[i].x = FAR_OUTSIDE;                                    \
    }
    EACH_A(BEGIN)
}

void gather(uvec2 base, uint k0, uint k_end) {
    Site steps[KERNEL_SITES];
    uint first = k0 + gl_LocalInvocationIndex % (BK / V) * V;
    SITES(steps, first, k_end)
#define GATHER(i) next_a[i] = MEET(base, rows[i], steps);
    EACH_A(GATHER)
}
#endif
