#version 460
// Discrete Fourier transforms of N values, each in the registers and shared memory of T lanes, C lines a workgroup:
// Stockham's self-sorting passes (Govindaraju et al., High performance discrete Fourier transforms on graphics
// processors, 2008). STAGES lists STAGE(radix, product of the radices before, butterflies a lane, from memory (2: from the
// product with the filter, in the middle of Bluestein's algorithm where one kernel does all of it), to memory). A longer transform is a sequence of such kernels, each a pass of a large radix: a line of the kernel is
// then one column of it, TWIDDLE its factors. The host says how values are read and written:
//   LOAD 0 complex, 1 real, 2 half a spectrum, 3 half a spectrum for a transform of half the length, 4 pairs of reals
//   STORE 0 complex, 1 real, 2 pairs of reals, 3 half a spectrum from a transform of half the length
// INVERSE transforms are forward ones with real and imaginary parts exchanged on both sides. CHIRP_IN, FILTER and
// CHIRP_OUT are the products of Bluestein's algorithm (A linear filtering approach to the computation of discrete
// Fourier transform, 1970). STAGED_IN and STAGED_OUT go through shared memory, so that neighbouring lanes meet neighbouring elements.
#include "lib/codecs.glsl"
#include "fft/butterfly.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;                    // dims: nin source ones, then nout destination ones
    uint64_t roots, twiddles, extra, chirp;     // tables of complex numbers
    int64_t in_unit, in_step, out_step;         // elements: along the axis, from value to value of a line
    uint lines, in_first, out_first, nin, nout; // lines of this dispatch; where they begin in the source
    uint cols, period, split, n_in, n_out, n;   // columns, their period for TWIDDLE, bits of its low table
    float scale;
};

#ifdef LINES_FAST
#define SLOT(c, i) ((i) * PITCH + (c))
const uint SHARED = N * PITCH;
#else
#define SLOT(c, i) ((c) * PITCH + (i) + (i) / PADDING)
const uint SHARED = C * PITCH;
#endif
#if SHARES
shared vec2 mem[SHARED];
#endif
#if STAGED_IN || STAGED_OUT
shared uint64_t from_base[C], to_base[C];
#endif

vec2 root(uint i) { return uintBitsToFloat(Raw8(roots + 8ul * i).v); }
vec2 entry(uint64_t table, uint i) { return uintBitsToFloat(Raw8(table + 8ul * i).v); }
vec2 complex_at(uint64_t p) { return uintBitsToFloat(Raw8(p).v); }
float real_at(uint64_t p) { return uintBitsToFloat(Raw4(p).v); }

// Value i of the line whose column `col` starts at `base`.
vec2 load(uint64_t base, uint col, uint i) {
    uint pos = col + i * cols;
    uint64_t p = at(base, int64_t(i) * IN_STEP, LOAD == 1 || LOAD == 4 ? 4u : 8u);
    vec2 z;
#if LOAD == 0
#ifdef BOUND_IN
    z = pos < n_in ? complex_at(p) : vec2(0.0);
#else
    z = complex_at(p);
#endif
#elif LOAD == 1
    z = vec2(pos < n_in ? real_at(p) : 0.0, 0.0);
#elif LOAD == 2
    bool mirrored = pos > n / 2u;
    uint k = mirrored ? n - pos : pos;
    p = at(base, (int64_t(k) - int64_t(col)) * in_unit, 8u);
    z = k < n_in && pos < n ? complex_at(p) : vec2(0.0);
    if (mirrored) z.y = -z.y;
    if (k == 0u || 2u * k == n) z.y = 0.0;
#elif LOAD == 3
    uint m = N - pos;
    vec2 a = pos < n_in ? complex_at(p) : vec2(0.0);
    vec2 b = m < n_in ? complex_at(at(base, int64_t(m) * in_unit, 8u)) : vec2(0.0);
    if (pos == 0u) a.y = b.y = 0.0;
    b.y = -b.y;
    vec2 w = cmul(conj(entry(extra, pos)), a - b);
    z = a + b + vec2(-w.y, w.x);
#else
    z.x = 2u * pos < n_in ? real_at(at(base, 2l * int64_t(i) * IN_STEP, 4u)) : 0.0;
    z.y = 2u * pos + 1u < n_in ? real_at(at(base, 2l * int64_t(i) * IN_STEP + in_unit, 4u)) : 0.0;
#endif
#ifdef SWAP_IN
    z = z.yx;
#endif
#ifdef CHIRP_IN
    z = pos < n ? cmul(z, entry(chirp, pos)) : vec2(0.0);
#endif
#ifdef TWIDDLE
    uint e = col % period * i;
    z = cmul(z, cmul(entry(twiddles, e & ((1u << split) - 1u)), entry(twiddles, (1u << split) + (e >> split))));
#endif
    return z;
}

// What becomes of coefficient `pos` on its way out.
vec2 finished(uint pos, vec2 z) {
#ifdef FILTER
    z = cmul(z, entry(extra, pos));
#endif
#ifdef SWAP_OUT
    z = z.yx;
#endif
#ifdef CHIRP_OUT
    z = pos < n ? cmul(z, entry(chirp, pos)) : z;
#endif
#ifdef SWAP_END
    z = z.yx;
#endif
#ifdef SCALE
    z *= scale;
#endif
    return z;
}

void store(uint64_t base, uint col, uint i, vec2 z) {
    uint pos = col + i * cols;
#ifdef BOUND_OUT
    if (pos >= n_out) return;
#endif
#if STORE == 0
    Raw8(at(base, int64_t(i) * OUT_STEP, 8u)).v = floatBitsToUint(finished(pos, z));
#elif STORE == 1
    Raw4(at(base, int64_t(i) * OUT_STEP, 4u)).v = floatBitsToUint(finished(pos, z).x);
#elif STORE == 2
    z = finished(pos, z);
    Raw4(at(base, 2l * int64_t(i) * OUT_STEP, 4u)).v = floatBitsToUint(z.x);
    Raw4(at(base, 2l * int64_t(i) * OUT_STEP + OUT_STEP, 4u)).v = floatBitsToUint(z.y);
#endif
}

uint64_t source(uint line) { return at(src, offset_of(dims, 0u, nin, in_first + line), LOAD == 1 || LOAD == 4 ? 4u : 8u); }
uint64_t target(uint line) {
    return at(dst, offset_of(dims, nin, nout, out_first + line), STORE == 1 || STORE == 2 ? 4u : 8u);
}

// Factors w^1 .. w^(R - 1) of a butterfly from those of powers of two.
#define FACTORS(R, step) \
    vec2 w[R]; \
    [[unroll]] for (uint q = 1u; q < R; ++q) { \
        uint top = q >= 8u ? 8u : q >= 4u ? 4u : q >= 2u ? 2u : 1u; \
        if (q == top || R <= 5u) w[q] = root(q * (step)); \
        else w[q] = cmul(w[top], w[q - top]); \
    }

#define Q(R) (N / R)
#define COLUMN(b) (t + b * T)
#define LIVE(R, B, j) (B * T == Q(R) || j < Q(R))

#define FROM_MEMORY(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) v[b * R + q] = load(from, col, j + q * Q(R)); \
        } \
    }

#define TO_MEMORY(R, NS, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        if (LIVE(R, B, j) && live) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                store(to, col, j / NS * NS * R + j % NS + q * NS, v[b * R + q]); \
        } \
    }

#define STAGE(R, NS, B, FROM, TO) { \
    READ_##FROM(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        vec2 u[R]; \
        [[unroll]] for (uint q = 0u; q < R; ++q) u[q] = v[b * R + q]; \
        if (NS > 1u) { \
            FACTORS(R, (j % NS) * (N / (NS * R))) \
            [[unroll]] for (uint q = 1u; q < R; ++q) u[q] = cmul(u[q], w[q]); \
        } \
        bf(u); \
        [[unroll]] for (uint q = 0u; q < R; ++q) v[b * R + q] = u[q]; \
    } \
    WRITE_##TO(R, NS, B, FROM) \
}
#define READ_1(R, B) FROM_MEMORY(R, B)
#define READ_0(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) v[b * R + q] = mem[SLOT(c, j + q * Q(R))]; \
        } \
    }
// The middle of a convolution in one workgroup: what the stages before have left, times the filter.
#define READ_2(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                v[b * R + q] = cmul(mem[SLOT(c, j + q * Q(R))], entry(extra, j + q * Q(R))).yx; \
        } \
    }
#define WRITE_1(R, NS, B, FROM) TO_MEMORY(R, NS, B)
#define WRITE_0(R, NS, B, FROM) \
    if (FROM != 1) barrier(); \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN(b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                mem[SLOT(c, j / NS * NS * R + j % NS + q * NS)] = v[b * R + q]; \
        } \
    } \
    barrier();

void main() {
    uint lane = gl_LocalInvocationIndex;
    uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * C;
    if (first >= lines) return;
#ifdef LINES_FAST
    uint c = lane % C, t = lane / C;
#else
    uint c = lane / T, t = lane % T;
#endif
    uint line = min(first + c, lines - 1u), col = line % cols;
    bool live = first + c < lines;
    uint64_t from = 0ul, to = 0ul;
#if !STAGED_IN
    from = source(line);
#endif
#if !STAGED_OUT
    to = target(line);
#endif
#if STAGED_IN || STAGED_OUT
    for (uint k = lane; k < C; k += WG) {
        uint l = min(first + k, lines - 1u);
        from_base[k] = source(l);
        to_base[k] = target(l);
    }
    barrier();
#endif
    vec2 v[E];
#if STAGED_IN
    // All values are on their way before the first one is needed; a lane has room for N / T of them.
    const uint PART = (N + T - 1u) / T;
    [[unroll]] for (uint p = 0u; p < PART; ++p) {
        uint e = lane + p * WG, k = e / N;
        if (e < N * C && first + k < lines) v[p] = load(from_base[k], (first + k) % cols, e % N);
    }
    [[unroll]] for (uint p = 0u; p < PART; ++p) {
        uint e = lane + p * WG, k = e / N;
        if (e < N * C && first + k < lines) mem[SLOT(k, e % N)] = v[p];
    }
    barrier();
#endif
    STAGES
#if STAGED_OUT && STORE == 3
    // X[k] = (Z[k] + conj Z[N - k]) / 2 - i w^k (Z[k] - conj Z[N - k]) / 2 for k = 0 .. N.
    for (uint e = lane; e < (N + 1u) * C; e += WG) {
#ifdef OUT_FAST
        uint k = e % C, i = e / C;
#else
        uint k = e / (N + 1u), i = e % (N + 1u);
#endif
        vec2 a = mem[SLOT(k, i == N ? 0u : i)], b = conj(mem[SLOT(k, i == 0u || i == N ? 0u : N - i)]);
        vec2 x = 0.5 * (a + b) + 0.5 * times_minus_i(cmul(entry(extra, i), a - b));
#ifdef SCALE
        x *= scale;
#endif
        if (first + k < lines) Raw8(at(to_base[k], int64_t(i) * OUT_STEP, 8u)).v = floatBitsToUint(x);
    }
#elif STAGED_OUT
    for (uint e = lane; e < N * C; e += WG) {
#ifdef OUT_FAST
        uint k = e % C, i = e / C;
#else
        uint k = e / N, i = e % N;
#endif
        if (first + k < lines) store(to_base[k], (first + k) % cols, i, mem[SLOT(k, i)]);
    }
#endif
}
