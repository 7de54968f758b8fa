#version 460
// Discrete Fourier transforms of N values, each in the registers and shared memory of T lanes, C lines a workgroup:
// Stockham's self-sorting passes (Govindaraju et al., High performance discrete Fourier transforms on graphics
// processors, 2008). STAGES is what a lane does: butterflies and exchanges of their values, in SPLIT kernels of real and
// imaginary parts in turn. A longer transform is a sequence of such kernels, each a pass of a large radix: a line of the
// kernel is then one column of it, TWIDDLE its factors. The host says how values are read and written:
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

// Where value i of line c lies: behind every PADDING values one place is left out, against conflicts of banks.
#if PADDING > 0
#define ROW(i) ((i) + (i) / PADDING)
#define BESIDE(i, d) ((d) % PADDING == 0u ? ROW(i) + (d) + (d) / PADDING : ROW((i) + (d)))
#else
#define ROW(i) (i)
#define BESIDE(i, d) ((i) + (d))
#endif
#ifdef LINES_FAST
#define PLACE(c, row) ((row) * PITCH + (c))
const uint SHARED = (ROW(N - 1u) + 1u) * PITCH;
#else
#define PLACE(c, row) ((c) * PITCH + (row))
const uint SHARED = C * PITCH;
#endif
#define SLOT(c, i) PLACE(c, ROW(i))
#if SPLIT
shared float mem[SHARED];
#elif SHARES
shared vec2 mem[SHARED];
#endif
#if STAGED_IN || STAGED_OUT
shared uint64_t from_base[C], to_base[C];
#endif

vec2 entry(uint64_t table, uint i) { return uintBitsToFloat(Raw8(table + 8ul * i).v); }
vec2 complex_at(uint64_t p) { return uintBitsToFloat(Raw8(p).v); }
float real_at(uint64_t p) { return uintBitsToFloat(Raw4(p).v); }

const uint IN_SIZE = LOAD == 1 ? 4u : 8u, OUT_SIZE = STORE == 1 ? 4u : 8u;

// Address of value i of a line, and the way from there to the one `d` behind it. IN_TILE values lie side by side where a pass before
// has left them so.
#if IN_TILE > 1
uint64_t in_place(uint64_t base, uint i) {
    return at(base, int64_t(i / IN_TILE) * in_step + int64_t(i % IN_TILE), IN_SIZE);
}
uint64_t in_next(uint d) { return at(0ul, int64_t(d / IN_TILE) * in_step, IN_SIZE); }
#else
uint64_t in_place(uint64_t base, uint i) { return at(base, int64_t(i) * IN_STEP, IN_SIZE); }
uint64_t in_next(uint d) { return at(0ul, int64_t(d) * IN_STEP, IN_SIZE); }
#endif
uint64_t out_place(uint64_t base, uint i) { return at(base, int64_t(i) * OUT_STEP, OUT_SIZE); }
uint64_t out_next(uint d) { return at(0ul, int64_t(d) * OUT_STEP, OUT_SIZE); }

// Value i, at p, of the line whose column `col` starts at `base`.
vec2 load(uint64_t base, uint64_t p, uint col, uint i) {
    uint pos = col + i * cols;
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
    z.x = 2u * pos < n_in ? real_at(p) : 0.0;
    z.y = 2u * pos + 1u < n_in ? real_at(at(p, in_unit, 4u)) : 0.0;
#endif
#ifdef SWAP_IN
    z = z.yx;
#endif
#ifdef CHIRP_IN
    z = pos < n ? cmul(z, entry(chirp, pos)) : vec2(0.0);
#endif
    return z;
}

// Power e of the root that the factors of columns are powers of.
vec2 turn(uint e) {
    return cmul(entry(twiddles, e & ((1u << split) - 1u)), entry(twiddles, (1u << split) + (e >> split)));
}

vec2 staged(uint64_t base, uint col, uint i) {
    vec2 z = load(base, in_place(base, i), col, i);
#ifdef TWIDDLE
    z = cmul(z, turn(col % period * i));
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

void store(uint64_t p, uint col, uint i, vec2 z) {
    uint pos = col + i * cols;
#ifdef BOUND_OUT
    if (pos >= n_out) return;
#endif
#if STORE == 0
    Raw8(p).v = floatBitsToUint(finished(pos, z));
#elif STORE == 1
    Raw4(p).v = floatBitsToUint(finished(pos, z).x);
#elif STORE == 2
    z = finished(pos, z);
    Raw4(p).v = floatBitsToUint(z.x);
    Raw4(at(p, OUT_STEP, 4u)).v = floatBitsToUint(z.y);
#endif
}

uint64_t source(uint line) { return at(src, offset_of(dims, 0u, nin, in_first + line), LOAD == 1 || LOAD == 4 ? 4u : 8u); }
uint64_t target(uint line) {
    return at(dst, offset_of(dims, nin, nout, out_first + line), STORE == 1 || STORE == 2 ? 4u : 8u);
}

// Factors w^1 .. w^(R - 1) of a butterfly from those of powers of two; value k of NS. Of each that the table has the values for all k
// lie side by side, from AT on.
#define FACTORS(R, NS, AT, k) \
    vec2 w[R]; \
    uint64_t known = roots + 8ul * (k) + 8ul * AT; \
    uint rows = 0u; \
    [[unroll]] for (uint q = 1u; q < R; ++q) { \
        uint top = q >= 16u ? 16u : q >= 8u ? 8u : q >= 4u ? 4u : q >= 2u ? 2u : 1u; \
        if (q == top || R <= 5u) w[q] = complex_at(known + 8ul * NS * rows++); \
        else w[q] = cmul(w[top], w[q - top]); \
    }

#define Q(R) (N / R)
// Columns of a lane: T apart, or the one and its mirror image.
#define COLUMN_PLAIN(R, b) (t + b * T)
#define COLUMN_PAIR(R, b) (b == 0u ? t : t == 0u ? Q(R) / 2u : Q(R) - t)
#define LIVE(R, B, j) (B * T == Q(R) || j < Q(R))

#define FROM_MEMORY(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_PLAIN(R, b); \
        if (LIVE(R, B, j)) { \
            uint64_t p = in_place(from, j); \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                v[b * R + q] = load(from, p + in_next(q * Q(R)), col, j + q * Q(R)); \
        } \
    }

// The factors of a column: those of values that are Q(R) apart are powers of one number.
#define TURN(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_PLAIN(R, b), e = col % period; \
        vec2 s[R], w[R]; \
        w[0] = turn(e * j); \
        v[b * R] = cmul(v[b * R], w[0]); \
        [[unroll]] for (uint q = 1u; q < R; ++q) { \
            uint top = q >= 16u ? 16u : q >= 8u ? 8u : q >= 4u ? 4u : q >= 2u ? 2u : 1u; \
            if (q == top) s[q] = turn(e * (q * Q(R))); \
            w[q] = cmul(s[top], w[q - top]); \
            v[b * R + q] = cmul(v[b * R + q], w[q]); \
        } \
    }

#define TO_MEMORY(R, NS, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_PLAIN(R, b), i = j / NS * NS * R + j % NS; \
        if (LIVE(R, B, j) && live) { \
            uint64_t p = out_place(to, i); \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                store(p + out_next(q * NS), col, i + q * NS, v[b * R + q]); \
        } \
    }

#define BUTTERFLY(R, NS, B, AT, COL) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_##COL(R, b); \
        vec2 u[R]; \
        [[unroll]] for (uint q = 0u; q < R; ++q) u[q] = v[b * R + q]; \
        if (NS > 1u) { \
            FACTORS(R, NS, AT, j % NS) \
            [[unroll]] for (uint q = 1u; q < R; ++q) u[q] = cmul(u[q], w[q]); \
        } \
        bf(u); \
        [[unroll]] for (uint q = 0u; q < R; ++q) v[b * R + q] = u[q]; \
    }

// Values to shared memory, and those of the next stage from there; PART of them.
#define PUT(R, NS, B, COL, PART) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_##COL(R, b); \
        uint i = j / NS * NS * R + j % NS; \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) mem[PLACE(c, BESIDE(i, q * NS))] = v[b * R + q].PART; \
        } \
    }
#define GET(R, B, COL, PART) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_##COL(R, b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) v[b * R + q].PART = mem[PLACE(c, BESIDE(j, q * Q(R)))]; \
        } \
    }
// Half the memory and twice the barriers where real and imaginary parts take turns.
#if SPLIT
#define EXCHANGE(AGAIN, R, NS, B, COL, R2, B2, COL2) \
    if (AGAIN > 0) barrier(); \
    PUT(R, NS, B, COL, x) \
    barrier(); \
    GET(R2, B2, COL2, x) \
    barrier(); \
    PUT(R, NS, B, COL, y) \
    barrier(); \
    GET(R2, B2, COL2, y)
#else
#define EXCHANGE(AGAIN, R, NS, B, COL, R2, B2, COL2) \
    if (AGAIN > 0) barrier(); \
    PUT(R, NS, B, COL, xy) \
    barrier(); \
    GET(R2, B2, COL2, xy)
#endif
// What STAGED_OUT finds.
#define LEAVE(AGAIN, R, NS, B) \
    if (AGAIN > 0) barrier(); \
    PUT(R, NS, B, PLAIN, xy) \
    barrier();
// The middle of a convolution in one workgroup: what the stages before have left, times the filter.
#define FILTERED(R, B) \
    [[unroll]] for (uint b = 0u; b < B; ++b) { \
        uint j = COLUMN_PLAIN(R, b); \
        if (LIVE(R, B, j)) { \
            [[unroll]] for (uint q = 0u; q < R; ++q) \
                v[b * R + q] = cmul(v[b * R + q], entry(extra, j + q * Q(R))).yx; \
        } \
    }

// Spectra of N + 1 values from transforms of N pairs of reals, and back: coefficients k and N - k need each other. A lane
// has a column and its mirror image, values 0 .. R - 1 and R .. 2R - 1; the first one columns 0 and Q / 2, each of which is
// its own.
#define FAR(R, q) (t == 0u && 2u * q >= R)
// The place between values 0 and N that is its own image.
#define MIDDLE(R) (R % 2u == 0u ? R / 2u : R + R / 2u)
// X[k] = (Z[k] + conj Z[N - k]) / 2 - i w^k (Z[k] - conj Z[N - k]) / 2 for k = 0 .. N.
#define TO_HALVES(R, NS) \
    if (live) { \
        [[unroll]] for (uint q = 0u; q < R; ++q) { \
            uint begin = FAR(R, q) ? NS / 2u : t; \
            vec2 a = FAR(R, q) ? v[R + q] : v[q]; \
            vec2 b = conj(t > 0u || 2u * q >= R ? v[2u * R - 1u - q] : v[(R - q) % R]); \
            vec2 x = 0.5 * (a + b), d = 0.5 * times_minus_i(cmul(complex_at(extra + 8ul * begin + 8ul * q * NS), a - b)); \
            half_to(out_place(to, begin) + out_next(q * NS), x + d); \
            half_to(out_place(to, N - begin) - out_next(q * NS), conj(x - d)); \
        } \
        if (t == 0u) half_to(out_place(to, N / 2u), conj(v[MIDDLE(R)])); \
    }
#define FROM_HALVES(R) { \
    vec2 z[R], m[R]; \
    [[unroll]] for (uint q = 0u; q < R; ++q) { \
        uint begin = FAR(R, q) ? Q(R) / 2u : t, k = begin + q * Q(R); \
        vec2 a = half_from(in_place(from, begin) + in_next(q * Q(R)), k); \
        vec2 b = conj(half_from(in_place(from, N - begin) - in_next(q * Q(R)), N - k)); \
        vec2 w = cmul(conj(complex_at(extra + 8ul * begin + 8ul * q * Q(R))), a - b), d = vec2(-w.y, w.x); \
        z[q] = a + b + d; \
        m[q] = conj(a + b - d); \
    } \
    vec2 middle = t == 0u ? 2.0 * conj(half_from(in_place(from, N / 2u), N / 2u)) : vec2(0.0); \
    [[unroll]] for (uint q = 0u; q < R; ++q) { \
        v[q] = FAR(R, q) ? m[(R - q) % R] : z[q]; \
        v[R + q] = FAR(R, q) ? z[q] : m[R - 1u - q]; \
    } \
    if (t == 0u) v[MIDDLE(R)] = middle; \
    [[unroll]] for (uint q = 0u; q < 2u * R; ++q) v[q] = v[q].yx; \
}
void half_to(uint64_t p, vec2 x) {
#ifdef SCALE
    x *= scale;
#endif
    Raw8(p).v = floatBitsToUint(x);
}
vec2 half_from(uint64_t p, uint k) {
    vec2 x = k < n_in ? complex_at(p) : vec2(0.0);
    return k == 0u || k == N ? vec2(x.x, 0.0) : x;
}

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
        if (e < N * C && first + k < lines) v[p] = staged(from_base[k], (first + k) % cols, e % N);
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
        if (first + k < lines) store(out_place(to_base[k], i), (first + k) % cols, i, mem[SLOT(k, i)]);
    }
#endif
}
