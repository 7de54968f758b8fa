#version 460
// Reductions and arg-reductions of one array, one kernel per layout class (MODE). What is reduced by: CLASS (0 numbers, 1
// an order, from below with TAKES_LOW, 2 truth), and IDENTITY and COMBINE of a and b (src/kernels/reduce/table.rs) or ARG;
// or a statistic (src/kernels/reduce/statistic.rs), ELEMENT and RESULT, of a sum (CLASS 0), of moments (3) or of
// exponentials (4).
//   0 row      reduced elements contiguous, or each STEP-th of them; TPR lanes a row, 16-byte loads with VEC, from rows that
//              begin anywhere with ODD
//   1 general  any strides over the reduced axes; TPR lanes an output
//   2 column   the kept inner axis has the smaller stride; TPR lanes across columns, WG / TPR down the rows; with FOLD a row
//              is several of the array's, and the last one of `tail` elements only
//   3 few      as column, a few elements each: a lane has CV neighbouring outputs, whole
// Work on one output may be split over `splits` workgroups: PART_OUT writes accumulators to scratch, and a
// second run with PART_IN finishes them; with LAST as well, the workgroup that comes last finishes them at once
// (row and general: TPR is WG). Counters only tell who is last: the order of every combination is fixed.
#ifdef RESULT
#include "lib/float_controls.glsl"
#endif
#include "lib/codecs.glsl"
#ifdef RESULT
#include "lib/math.glsl"
#endif
#ifdef LAST
#include "lib/last.glsl"
#endif
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims, counters, result;  // LAST: a zero for each result or block of columns, left zero
    uint64_t n, ro;                  // n: inner reduced length; ro: outer reduced count (row), columns (column)
    uint64_t chunk;                  // of n, or of ro where ro > 1 in row mode, a split
    int64_t stride;                  // of the kept inner axis (column)
    uint outs, splits, nk, nr;       // dims: nk kept ones, then nr reduced ones; of row_dims in row mode with nr 0
    float divisor;                   // of a statistic
    uint tail;
};

#ifndef STEP
#define STEP 1u
#endif
// Elements of a vector that count.
#define EACH (A_VEC / STEP)
#define IS_ARG (ARG == 1)
#define IS_MINMAX (CLASS == 1)

#if IS_MINMAX
// Order-preserving integer keys: comparisons see NaN as the winner, and any NaN becomes the same one.
#if A_KIND == 2  // float
int key_f32(float x) {
    int i = floatBitsToInt(x);
    if ((i & 0x7fffffff) > 0x7f800000) return TAKES_LOW ? -0x7fffffff - 1 : 0x7fffffff;
    return i ^ ((i >> 31) & 0x7fffffff);
}
float unkey_f32(int k) {
    float x = intBitsToFloat(k ^ ((k >> 31) & 0x7fffffff));
    return is_nan(x) ? uintBitsToFloat(0x7fc00000u) : x;
}
#define KEY int
int key_of(A_C x) { return IS_ARG && is_zero(x) ? 0 : key_f32(x); }
#define VALUE(k) unkey_f32(k)
#elif A_KIND == 3  // complex, by real then imaginary part
int word(float x) { return floatBitsToInt(x) ^ ((floatBitsToInt(x) >> 31) & 0x7fffffff); }
#define KEY int64_t
int64_t key_of(vec2 z) {
    if (is_nan(z.x) || is_nan(z.y)) return TAKES_LOW ? KEY_LOW : KEY_HIGH;
    return packInt2x32(ivec2(word(z.y) ^ 0x80000000, word(z.x)));
}
vec2 value_of(int64_t k) {
    ivec2 w = unpackInt2x32(k);
    if (k == KEY_LOW || k == KEY_HIGH) return vec2(uintBitsToFloat(0x7fc00000u), 0.0);
    w.x ^= int(0x80000000);
    return intBitsToFloat(w ^ ((w >> 31) & 0x7fffffff)).yx;
}
#define VALUE(k) value_of(k)
#else
#define KEY A_C
KEY key_of(A_C x) { return x; }
#define VALUE(k) (k)
#endif
#endif

#if IS_ARG
struct Arg { KEY k; uint i; };
#define ACC Arg
ACC ident() { return Arg(TAKES_LOW ? KEY_HIGH : KEY_LOW, 0xffffffffu); }
ACC pre(A_C x, uint64_t r) { return Arg(key_of(x), uint(r)); }
// With an element that comes after all in `a`, which may still be empty: all elements may have the empty key.
ACC next(ACC a, ACC b) {
    bool take_b = (TAKES_LOW ? b.k < a.k : b.k > a.k) || a.i == 0xffffffffu;
    return Arg(take_b ? b.k : a.k, take_b ? b.i : a.i);
}
ACC comb(ACC a, ACC b) {
    bool take_b = (TAKES_LOW ? b.k < a.k : b.k > a.k) || (b.k == a.k && b.i < a.i);
    return Arg(take_b ? b.k : a.k, take_b ? b.i : a.i);
}
#define POST(a) ((a).i)
#elif IS_MINMAX
#define ACC KEY
ACC pre(A_C x, uint64_t r) { return key_of(x); }
#define POST(a) VALUE(a)
#elif CLASS == 2
#define ACC uint
ACC pre(A_C x, uint64_t r) {
#if A_KIND == 3
    return uint(!is_zero(x.x) || !is_zero(x.y));
#elif A_KIND == 2
    return uint(!is_zero(x));
#else
    return uint(x != A_C(0));
#endif
}
#define POST(a) (a)
#elif CLASS == 3
struct Moments { float n, mean, m2; };
#define ACC Moments
ACC pre(A_C x, uint64_t r) { return Moments(1.0, float(x), 0.0); }
ACC ident() { return Moments(0.0, 0.0, 0.0); }
ACC comb(ACC a, ACC b) {
    float n = a.n + b.n, d = b.mean - a.mean, f = n > 0.0 ? b.n / n : 0.0;
    // In this order nothing is infinite times zero but what is infinite itself.
    return Moments(n, a.mean + d * f, a.m2 + b.m2 + d * (d * (a.n * f)));
}
ACC of_vector(float x[EACH]) {
    float sum = 0.0, m2 = 0.0;
    [[unroll]] for (uint k = 0u; k < EACH; ++k) sum += x[k];
    float mean = sum * (1.0 / float(EACH));
    [[unroll]] for (uint k = 0u; k < EACH; ++k) m2 += (x[k] - mean) * (x[k] - mean);
    return Moments(float(EACH), mean, m2);
}
#elif CLASS == 4
#include "lib/expf.glsl"
struct Exponentials { float top, sum; };
#define ACC Exponentials
// What is taken off before the exponential: the maximum, unless that is infinite.
float base_of(float top) { return m_isinf(top) ? 0.0 : top; }
float exp_above(float x, float base) {
    float above = x - base;
    if (above > 0.0) above = 0.0;  // beside an infinity, to which it does not matter
    return m_isinf(x) ? (x > 0.0 ? M_INF : 0.0) : exp_f32(above);
}
ACC pre(A_C v, uint64_t r) {
    float x = float(v);
    return Exponentials(x, m_isinf(x) ? (x > 0.0 ? M_INF : 0.0) : m_is_nan(x) ? x : 1.0);
}
ACC ident() { return Exponentials(-M_INF, 0.0); }
ACC comb(ACC a, ACC b) {
    // The lower one is scaled. NaN is in a sum, and a maximum beside it does not matter.
    bool swap = b.top > a.top;
    float top = swap ? b.top : a.top, low = swap ? a.top : b.top;
    float high_sum = swap ? b.sum : a.sum, low_sum = swap ? a.sum : b.sum;
    if (m_isinf(low)) return Exponentials(top, high_sum + low_sum);
    return Exponentials(top, high_sum + low_sum * exp_above(base_of(low), base_of(top)));
}
ACC of_vector(float x[EACH]) {
    float top = x[0], sum = 0.0;
    [[unroll]] for (uint k = 1u; k < EACH; ++k) top = max(top, x[k]);
    float base = base_of(top);
    [[unroll]] for (uint k = 0u; k < EACH; ++k) sum += exp_above(x[k], base);
    return Exponentials(top, sum);
}
#else
#define ACC B_C
#ifdef RESULT
ACC pre(A_C v, uint64_t r) {
    float x = float(v);
    return ELEMENT;
}
#elif A_KIND == 3 || B_KIND != 3
ACC pre(A_C x, uint64_t r) { return ACC(x); }
#else
ACC pre(A_C x, uint64_t r) { return vec2(float(x), 0.0); }
#endif
#ifndef RESULT
#define POST(a) (a)
#endif
#endif

#ifdef RESULT
float POST(ACC a) { return RESULT; }
#endif
#if !IS_ARG
#if CLASS < 3
ACC ident() { return IDENTITY; }
ACC comb(ACC a, ACC b) { return COMBINE; }
#endif
#define next comb
#endif

#ifdef SG
#if CLASS == 3
ACC sg_xor(ACC a, uint m) {
    return Moments(subgroupShuffleXor(a.n, m), subgroupShuffleXor(a.mean, m), subgroupShuffleXor(a.m2, m));
}
#elif CLASS == 4
ACC sg_xor(ACC a, uint m) { return Exponentials(subgroupShuffleXor(a.top, m), subgroupShuffleXor(a.sum, m)); }
#else
#if IS_ARG
KEY shuffle_key(KEY k, uint m) {
#else
ACC sg_xor(ACC k, uint m) {
#endif
#if ACC_WIDE  // 64-bit integers travel as two words
    uvec2 w = unpackUint2x32(uint64_t(k));
    return ACC_WIDE_T(packUint2x32(uvec2(subgroupShuffleXor(w.x, m), subgroupShuffleXor(w.y, m))));
#else
    return subgroupShuffleXor(k, m);
#endif
}
#if IS_ARG
ACC sg_xor(ACC a, uint m) { return Arg(shuffle_key(a.k, m), subgroupShuffleXor(a.i, m)); }
#endif
#endif
#endif
#if MODE == 3
uint lane_id() { return gl_LocalInvocationIndex; }
#else
#include "lib/group.glsl"
#endif

layout(buffer_reference, scalar, buffer_reference_align = KEY_SIZE) coherent buffer Partial { ACC v; };
#if IS_ARG
#define ACC_SIZE (2u * KEY_SIZE)
#elif CLASS == 3
#define ACC_SIZE 12u
#elif CLASS == 4
#define ACC_SIZE 8u
#else
#define ACC_SIZE KEY_SIZE
#endif

#ifdef PART_IN
#define ITEM_SIZE ACC_SIZE
ACC item(uint64_t p, uint64_t r) { return Partial(p).v; }
#else
#define ITEM_SIZE A_SIZE
ACC item(uint64_t p, uint64_t r) { return pre(a_load(p), r); }
#endif

void finish(uint64_t o, ACC v, uint64_t slot) {
#ifdef PART_OUT
    Partial(dst + slot * ACC_SIZE).v = v;
#else
    b_store(dst + o * B_SIZE, POST(v));
#endif
}

#ifdef LAST
// Partial results from `slot` on, `step` apart: every `lanes`-th, from the `t`-th.
ACC gather(uint64_t slot, uint64_t step, uint t, uint lanes) {
    ACC acc = ident();
    for (uint s = t; s < splits; s += 8u * lanes) {
        ACC v[8];
        [[unroll]] for (uint j = 0u; j < 8u; ++j)
            v[j] = Partial(dst + (slot + min(s + j * lanes, splits - 1u) * step) * ACC_SIZE).v;
        [[unroll]] for (uint j = 0u; j < 8u; ++j)
            if (s + j * lanes < splits) acc = comb(acc, v[j]);
    }
    return acc;
}
#endif

#if MODE >= 2 && defined(VEC)
// CV neighbours.
uvec4 across(uint64_t p) {
#if ACROSS == 16
    return Vec16(p).v;
#elif ACROSS == 8
    return uvec4(Raw8(p).v, 0u, 0u);
#elif ACROSS == 4
    return uvec4(Raw4(p).v, 0u, 0u, 0u);
#else
    return uvec4(uint(Raw2(p).v), 0u, 0u, 0u);
#endif
}
#endif

#if MODE == 0
#ifdef VEC
#if IS_ARG && A_KIND == 2
int key_bits(float x) { return floatBitsToInt(x) ^ ((floatBitsToInt(x) >> 31) & 0x7fffffff); }
uint magnitude(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

// The first element of the vector of which `acc` has the best key; `p` is the address of element `first`.
ACC placed(ACC acc, uint64_t p, uint64_t first) {
    if (acc.i == 0xffffffffu) return acc;
    uvec4 v = Vec16(p + uint64_t(acc.i - uint(first)) * STEP * A_SIZE).v;
    uint at_ = EACH - 1u;
    [[unroll]] for (uint k = EACH - 1u; k > 0u; --k)
        if (key_of(a_elem(v, (k - 1u) * STEP)) == acc.k) at_ = k - 1u;
    acc.i += at_;
    return acc;
}
#endif

// With the elements of a vector, `first` being the number of the first one.
ACC with_vector(ACC acc, uvec4 v, uint64_t first) {
#if IS_ARG && A_KIND == 2
    // Which vector it is; `placed` finds the element. Keys of numbers are their bits, those below zero turned round; NaN and -0,
    // which have others, are looked for in the best one, and by magnitude.
    int best = key_bits(a_elem(v, 0u));
    uint most = magnitude(a_elem(v, 0u));
    [[unroll]] for (uint k = 1u; k < EACH; ++k) {
        int key = key_bits(a_elem(v, k * STEP));
        best = TAKES_LOW ? min(best, key) : max(best, key);
        most = max(most, magnitude(a_elem(v, k * STEP)));
    }
    best = most > 0x7f800000u ? (TAKES_LOW ? KEY_LOW : KEY_HIGH) : best == -1 ? 0 : best;
    return next(acc, Arg(best, uint(first)));
#elif CLASS >= 3
    float x[EACH];
    [[unroll]] for (uint k = 0u; k < EACH; ++k) x[k] = float(a_elem(v, k * STEP));
    return comb(acc, of_vector(x));
#else
    [[unroll]] for (uint k = 0u; k < EACH; ++k) acc = next(acc, pre(a_elem(v, k * STEP), first + k));
    return acc;
#endif
}
#endif

ACC row(ACC acc, uint64_t p, uint64_t first, uint count, uint t) {
    p += first * STEP * ITEM_SIZE;
    uint done = 0u;
#ifdef ODD
    // What lies before the first 16 bytes that are whole.
    uint before = min((16u - uint(p & 15ul)) % 16u / A_SIZE, count);
    for (uint i = t; i < before; i += TPR) acc = next(acc, item(p + i * ITEM_SIZE, first + i));
    p += before * ITEM_SIZE;
    first += before;
    count -= before;
#endif
#ifdef VEC
#if IS_ARG && A_KIND == 2
    ACC before_vectors = acc;
    acc = ident();
#endif
    uint nv = count / EACH, i = t;
    for (; i + 3u * TPR < nv; i += 4u * TPR) {
        uvec4 v[4];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = Vec16(p + 16ul * (i + j * TPR)).v;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) acc = with_vector(acc, v[j], first + (i + j * TPR) * EACH);
    }
    if (i < nv) {  // at most four are left
        uvec4 v[4];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = Vec16(p + 16ul * min(i + j * TPR, nv - 1u)).v;
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (i + j * TPR < nv) acc = with_vector(acc, v[j], first + (i + j * TPR) * EACH);
    }
    done = nv * EACH;
#if IS_ARG && A_KIND == 2
    acc = comb(before_vectors, placed(acc, p, first));
#endif
#endif
    uint e = done + t;
    for (; e + 3u * TPR < count; e += 4u * TPR) {
        ACC v[4];
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            v[j] = item(p + uint64_t(e + j * TPR) * STEP * ITEM_SIZE, first + e + j * TPR);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) acc = comb(acc, v[j]);
    }
    for (; e < count; e += TPR) acc = comb(acc, item(p + uint64_t(e) * STEP * ITEM_SIZE, first + e));
    return acc;
}
#endif

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = lane_id();
#if MODE == 3
    uint blocks = uint(ro) / CV, id = wg * WG + lane, kept = id / blocks;
    if (uint64_t(id) * CV >= outs) return;
    uint64_t col = uint64_t(id - kept * blocks) * CV;
    uint64_t p = at(src, offset_of(dims, 0u, nk, kept) + int64_t(col) * stride, ITEM_SIZE);
    ACC acc[CV];
    [[unroll]] for (uint c = 0u; c < CV; ++c) acc[c] = ident();
    int64_t step = nr == 1u ? Dims(dims).d[nk].stride : 0l;
    for (uint r = 0u; r < uint(n); r += 4u) {
        uint64_t q[4u];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint rj = min(r + j, uint(n) - 1u);
            q[j] = at(p, nr == 1u ? int64_t(rj) * step : offset_of(dims, nk, nr, rj), ITEM_SIZE);
        }
#ifdef VEC
        uvec4 v[4u];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = across(q[j]);
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (r + j < uint(n)) [[unroll]] for (uint c = 0u; c < CV; ++c) acc[c] = next(acc[c], pre(a_elem(v[j], c), r + j));
#else
        ACC v[4u];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = item(q[j], r + j);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) if (r + j < uint(n)) acc[0] = next(acc[0], v[j]);
#endif
    }
    [[unroll]] for (uint c = 0u; c < CV; ++c) b_store(dst + (uint64_t(id) * CV + c) * B_SIZE, POST(acc[c]));
#elif MODE == 2
    uint tx = lane % TPR, ty = lane / TPR, rows = WG / TPR;
    uint blocks = uint((ro + TPR * CV - 1u) / (TPR * CV));
    uint split = wg % splits, col_block = (wg / splits) % blocks, kept = wg / splits / blocks;
    uint64_t col = (uint64_t(col_block) * TPR + tx) * CV;
    bool live = col < ro && uint64_t(kept) * ro < outs;
#ifdef FOLD
#define IS_THERE(r, c) ((r) + 1ul < n || uint(col) + (c) < tail)
#else
#define IS_THERE(r, c) true
#endif
    ACC acc[CV];
    [[unroll]] for (uint c = 0u; c < CV; ++c) acc[c] = ident();
    if (live) {
        uint64_t p = at(src, offset_of(dims, 0u, nk, kept) + int64_t(col) * stride, ITEM_SIZE);
        uint64_t hi = min(n, (split + 1ul) * chunk);
        int64_t step = nr == 1u ? Dims(dims).d[nk].stride : 0l;
        for (uint64_t r = split * chunk + ty; r < hi; r += 4u * rows) {
            uint64_t q[4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint64_t rj = min(r + j * rows, hi - 1ul);
#ifdef FOLD
                if (!IS_THERE(rj, 0u)) rj = 0ul;  // there are two rows at least
#endif
                q[j] = at(p, nr == 1u ? int64_t(rj) * step : offset_of64(dims, nk, nr, rj), ITEM_SIZE);
            }
#ifdef VEC
            uvec4 v[4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = across(q[j]);
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                if (r + j * rows < hi)
                    [[unroll]] for (uint c = 0u; c < CV; ++c)
                        if (IS_THERE(r + j * rows, c)) acc[c] = next(acc[c], pre(a_elem(v[j], c), r + j * rows));
#else
            ACC v[4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = item(q[j], r + j * rows);
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                if (r + j * rows < hi) acc[0] = comb(acc[0], v[j]);
#endif
        }
    }
    [[unroll]] for (uint c = 0u; c < CV; ++c) {
        barrier();
        group_mem[lane] = acc[c];
        barrier();
        for (uint s = rows >> 1; s > 0u; s >>= 1) {
            if (ty < s) group_mem[lane] = comb(group_mem[lane], group_mem[lane + s * TPR]);
            barrier();
        }
        uint64_t o = kept * ro + col + c;
        if (live && ty == 0u) finish(o, group_mem[lane], split * uint64_t(outs) + o);
    }
#ifdef LAST
    if (!comes_last(counters + 4ul * (uint64_t(kept) * blocks + col_block), splits, true)) return;
    for (uint c = gl_LocalInvocationIndex; c < TPR * CV; c += WG) {
        uint64_t at_col = uint64_t(col_block) * TPR * CV + c;
        if (at_col >= ro || uint64_t(kept) * ro >= outs) continue;
        ACC sum = gather(kept * ro + at_col, outs, 0u, 1u);
        b_store(result + (kept * ro + at_col) * B_SIZE, POST(sum));
    }
#endif
#else
    uint per = WG / TPR, t = lane % TPR;
#ifdef LAST
    uint o = wg / splits, split = wg - o * splits;
#else
    uint64_t unit = uint64_t(wg) * per + lane / TPR;
    uint o = uint(unit / splits), split = uint(unit % splits);
#endif
    bool live = o < outs;
    ACC acc = ident();
    if (live) {
        uint64_t lo = split * chunk;
#if MODE == 0
        uint64_t p = at(src, nr == 0u ? row_offset(dims, nk, o) : offset_of(dims, 0u, nk, o), ITEM_SIZE);
        if (nr == 0u) {
            if (lo < n) acc = row(acc, p, lo, uint(min(chunk, n - lo)), t);
        } else {
            for (uint64_t r = lo; r < min(ro, lo + chunk); ++r)
                acc = row(acc, at(p, offset_of64(dims, nk, nr, r), ITEM_SIZE), 0ul, uint(n), t);
        }
#else
        uint64_t p = at(src, offset_of(dims, 0u, nk, o), ITEM_SIZE), hi = min(n, lo + chunk);
        int64_t step = nr == 1u ? Dims(dims).d[nk].stride : 0l;
        for (uint64_t r = lo + t; r < hi; r += 4u * TPR) {
            ACC v[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint64_t rj = min(r + j * TPR, hi - 1ul);
                v[j] = item(at(p, nr == 1u ? int64_t(rj) * step : offset_of64(dims, nk, nr, rj), ITEM_SIZE), rj);
            }
            [[unroll]] for (uint j = 0u; j < 4u; ++j) if (r + j * TPR < hi) acc = comb(acc, v[j]);
        }
#endif
    }
    acc = group_reduce(acc, lane);
    if (live && t == 0u) finish(o, acc, uint64_t(o) * splits + split);
#ifdef LAST
    if (!live || !comes_last(counters + 4ul * o, splits, true)) return;
    acc = group_reduce(gather(uint64_t(o) * splits, 1ul, lane, WG), lane);
    if (lane == 0u) b_store(result + o * B_SIZE, POST(acc));
#endif
#endif
}
