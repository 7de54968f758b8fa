// Tiles of rows that attention's matrix kernels stage in `mem`, as words of 16 bytes, WD of them for a row: BN rows that
// THREADS lanes bring, and results of 16 rows a subgroup that leave the same way. Needs BN, WD, THREADS, SW.
#define PARTS(words) ((BN * (words) + THREADS - 1u) / THREADS)

// Words of rows that are not there become zeros; something is read for them nevertheless.
#define FETCH(part, words, base, step, first, rows, count)                                       \
    EACH for (uint i = 0u; i < PARTS(words); ++i) {                                              \
        uint e = gl_LocalInvocationIndex + i * THREADS, r = e / (words), c = e % (words);        \
        bool there = r < (rows) && c * 8u < (count);                                             \
        uint64_t p = at(base, int64_t((first) + min(r, (rows) - 1u)) * (step), A_SIZE);          \
        uvec4 x = Vec16(p + (there ? 16ul * c : 0ul)).v, none = uvec4(0u);                       \
        part[i] = there ? x : none;                                                              \
    }
// The same for whole tiles that keep every lane busy: a lane's words are as many rows apart, `there` is where its first
// one lies in the first tile.
#define FETCH_TILE(part, words, base, step, first, rows, count, there)                           \
    if (THREADS % (words) == 0u && BN * (words) % THREADS == 0u && (rows) >= BN && (count) == 8u * (words)) {\
        uint64_t p = at(there, int64_t(first) * (step), A_SIZE);                                 \
        int64_t apart = int64_t(THREADS / (words)) * (step) * A_SIZE;                            \
        EACH for (uint i = 0u; i < PARTS(words); ++i) part[i] = Vec16(p + i * apart).v;          \
    } else {                                                                                     \
        FETCH(part, words, base, step, first, rows, count)                                       \
    }
#define FIRST_WORD(words, base, step)                                                            \
    at(base, int64_t(gl_LocalInvocationIndex / (words)) * (step) + gl_LocalInvocationIndex % (words) * 8u, A_SIZE)
#define PUT(part, words, to)                                                                     \
    EACH for (uint i = 0u; i < PARTS(words); ++i) {                                              \
        uint e = gl_LocalInvocationIndex + i * THREADS;                                          \
        if (BN * (words) % THREADS == 0u || e < BN * (words))                                    \
            mem[(to) + e / (words) * WD + e % (words)] = part[i];                                \
    }

// Rows of sums, times `f`, to the `count` elements from `to` on of the row of this lane, if that is `live`; `r` is its
// number in the workgroup, `c0` its first of COLS columns of 64. All lanes come here, and `mem` is overwritten.
#define WRITE_ROWS(o, padded, count, to, f, live)                                                \
    EACH for (uint f0 = 0u; f0 < (padded) / 16u; f0 += 4u) {                                     \
        barrier();                                                                               \
        EACH for (uint k = 0u; k < 4u; ++k)                                                      \
            if (f0 + k < (padded) / 16u) store_sums(o[f0 + k], SCORES + sg * 16u * SW + k * 4u, SW);\
        barrier();                                                                               \
        EACH for (uint c = 0u; c < COLS; c += 8u) {                                              \
            uint e = f0 * 16u + c0 + c;                                                          \
            if ((live) && e < (count)) {                                                         \
                float x[8];                                                                      \
                EACH for (uint k = 0u; k < 8u; ++k) {                                            \
                    uint i = c0 + c + k;                                                         \
                    x[k] = uintBitsToFloat(mem[SCORES + r * SW + i / 4u][i % 4u]) * (f);         \
                }                                                                                \
                Vec16((to) + uint64_t(e) * B_SIZE).v = b_vector(x);                              \
            }                                                                                    \
        }                                                                                        \
    }

// What the lanes that share a row make of their values.
#include "lib/exchange.glsl"
#ifdef HELD
#define SHARING(x, what)                                                                         \
    EACH for (uint m = 1u; m < 4u; m *= 2u) { float y = other(x, m); x = what; }
#else
#define SHARING(x, what)                                                                         \
    EACH for (uint m = 16u; m < LANES; m *= 2u) { float y = other(x, m); x = what; }
#endif
float row_max(float x) {
    SHARING(x, max(x, y))
    return x;
}
float row_sum(float x) {
    SHARING(x, x + y)
    return x;
}
