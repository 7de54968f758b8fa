// The operand of a product that is a convolution, gathered from the input by chunks: the left one, rows by output
// position and K by kernel element, or for the gradient of the kernel (GRADIENT) the right one, K by output
// position and columns by kernel element. Included by the tiled kernels, which take `next_a` or `next_b` from
// here. Defines: GATHER_WIDE (chunks never cross channels and are aligned), and those of lib/conv.glsl.

#include "lib/conv.glsl"

#ifdef GATHER_WIDE
#define KERNEL_SITES 1
#else
#define KERNEL_SITES V
#endif

// V neighbours along the kernel's numbering.
uvec4 meet(uvec2 base, Site o, Site k[KERNEL_SITES]) {
    uvec4 c = uvec4(0);
#ifdef GATHER_WIDE
    if (inside(o, k[0])) c = Chunks(base).v[uint(o.offset + k[0].offset) / V];
#elif DTYPE == 0
    [[unroll]] for (uint e = 0; e < 4; e++)
        if (inside(o, k[e])) c[e] = load_bits(base, uint(o.offset + k[e].offset));
#else
    [[unroll]] for (uint e = 0; e < 8; e++)
        if (inside(o, k[e])) c[e / 2] |= load_bits(base, uint(o.offset + k[e].offset)) << (e % 2 * 16);
#endif
    return c;
}

#define SITES(sites, first, end)                                            \
    [[unroll]] for (uint e = 0; e < KERNEL_SITES; e++) {                    \
        sites[e] = (first) + e < (end) ? kernel_site((first) + e) : nowhere(); \
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
    [[unroll]] for (uint i = 0; i < CHUNKS_B; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        uint k = k0 + id / (BN / V);
        next_b[i] = uvec4(0);
        if ((BN * BK / V % THREADS == 0 || id < BN * BK / V) && k < k_end)
            next_b[i] = meet(base, output_site(k), columns);
    }
}
#else
#define GATHER_A
Site rows[CHUNKS_A];

void begin_gather(uint row0, uint col0) {
    load_geometry();
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint row = row0 + (gl_LocalInvocationIndex + i * THREADS) / (BK / V);
        rows[i] = row < p.m ? output_site(row) : nowhere();
    }
}

void gather(uvec2 base, uint k0, uint k_end) {
    Site steps[KERNEL_SITES];
    uint first = k0 + gl_LocalInvocationIndex % (BK / V) * V;
    SITES(steps, first, k_end)
    [[unroll]] for (uint i = 0; i < CHUNKS_A; i++) {
        uint id = gl_LocalInvocationIndex + i * THREADS;
        next_a[i] = uvec4(0);
        if (BM * BK / V % THREADS == 0 || id < BM * BK / V) next_a[i] = meet(base, rows[i], steps);
    }
}
#endif
