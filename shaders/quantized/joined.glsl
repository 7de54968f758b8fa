// What kernels of one row share that join what comes before and after a product: numbers as they would have been stored,
// normalisation by the root of the mean square (NORM, KEEP: the row is stored too), and AFTER, a function of GLSL of a result (PAIR: of the results of
// both matrices) and its place. Needs quantized/joined_push.glsl, lib/element.glsl, THREADS, and SUBGROUP where subgroups
// add up.
#ifdef AFTER
#include "lib/float_controls.glsl"
#include "lib/types.glsl"
#ifdef AFTER_MATH
#include "lib/math.glsl"
#endif
AFTER
#endif

// Neighbours i and i + 1 of a row of factors, of which it has GROUPS; i is even.
#ifdef GROUP
#define GROUPS (K / GROUP)
uint two_factors(uvec2 base, uint row, uint i) {
    if (GROUPS % 2 == 0) return Words(base).v[(row * GROUPS + min(i, GROUPS - 2)) / 2];
    uint low = uint(Halves(base).v[row * GROUPS + min(i, GROUPS - 1)]);
    uint high = uint(Halves(base).v[row * GROUPS + min(i + 1, GROUPS - 1)]);
    return low | high << 16;
}
#endif

// As it would have been stored.
float rounded(float x) { return bits_to_float(float_to_bits(x)); }

#if !defined(AFTER) && !defined(COMBINED)
// Stores a result of a matrix; BIASED: with what is added to the results of each, whose addresses lie at `sums`.
void store_product(uint matrix, uint at, float y) {
#ifdef BIASED
    uvec2 other = uvec2(Words(p.sums).v[2 * matrix], Words(p.sums).v[2 * matrix + 1]);
    y = rounded(y) + load_element(other, at);
#endif
    store_element(p.d[matrix], at, y);
}
#endif

#ifdef COMBINED
// What a pick is weighed with, and a product that is: rounded as if it had been stored, but for weights of float32 (WIDE).
#ifdef WIDE
float weight_of(uint pick) { return Floats(p.norm).v[pick]; }
float weighed(float x) { return x; }
#else
float weight_of(uint pick) { return load_element(p.norm, pick); }
float weighed(float x) { return rounded(x); }
#endif

// What is added to a product of column `col`, of the row that the matrix has of those at `sums`, and both together, rounded as if they
// had been stored.
#ifdef BIASED
float added_to(uint matrix, uint col) { return load_element(p.sums, matrix * N0 + col); }
float with_added(float y, float other) {
    precise float sum = y + other;
    return rounded(sum);
}
#else
float added_to(uint matrix, uint col) { return 0; }
float with_added(float y, float other) { return y; }
#endif

// Stores a sum over picks, or what is made of it.
void store_sum(uint at, float sum) {
#ifdef AFTER
    store_element(p.d[0], at, after(rounded(sum), at));
#else
    store_element(p.d[0], at, sum);
#endif
}
#endif

// The matrix that a workgroup has and its place there, where those of several follow each other, each of so many rows.
uint matrix_of(inout uint group, uint span, out uint n) {
    n = N0;
#if JOINED > 1 && !defined(PAIR)
    uint groups = (N0 + span - 1) / span;
    if (group < groups) return 0;
    group -= groups;
    n = N1;
#if JOINED > 2
    groups = (N1 + span - 1) / span;
    if (group < groups) return 1;
    group -= groups;
    n = N2;
    return 2;
#else
    return 1;
#endif
#else
    return 0;
#endif
}

// Workgroups that have so many rows of all matrices each; with PAIR of both at once.
uint groups_of(uint span) {
    uint all = (N0 + span - 1) / span;
#if JOINED > 1 && !defined(PAIR)
    all += (N1 + span - 1) / span;
#endif
#if JOINED > 2
    all += (N2 + span - 1) / span;
#endif
    return all;
}

#ifdef NORM
float square_sum(uvec4 chunk, float sum) {
    [[unroll]] for (uint e = 0; e < V; e++) {
        float y = chunk_element(chunk, e);
        sum = fma(y, y, sum);
    }
    return sum;
}

// Elements of x, normalised and rounded.
uvec4 normalised(uvec4 x, uvec4 weight, float root) {
    uint bits[V];
    [[unroll]] for (uint e = 0; e < V; e++)
        bits[e] = float_to_bits(chunk_element(x, e) * root * chunk_element(weight, e));
#if V == 4
    return uvec4(bits[0], bits[1], bits[2], bits[3]);
#else
    return uvec4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16, bits[4] | bits[5] << 16, bits[6] | bits[7] << 16);
#endif
}

// One over the root of the mean square of a row, by the sum of its squares.
float root_by(float sum) { return 1.0 / sqrt(sum / float(K) + uintBitsToFloat(EPS)); }

#ifndef HELD
#ifdef SUBGROUP
shared float squares[THREADS / SUBGROUP];
#else
shared float squares[THREADS];
#endif

// The same for x, of whose squares each thread has summed up a part. With KEEP the first workgroup also stores the row; BIASED: where
// it goes lies behind the addresses of what is added.
float root_of(float sum) {
    uint i = gl_LocalInvocationIndex;
#ifdef SUBGROUP
    sum = subgroupAdd(sum);
    if (subgroupElect()) squares[i / SUBGROUP] = sum;
    barrier();
    sum = 0;
    [[unroll]] for (uint g = 0; g < THREADS / SUBGROUP; g++) sum += squares[g];
#else
    squares[i] = sum;
    [[unroll]] for (uint half_ = THREADS / 2; half_ > 0; half_ /= 2) {
        barrier();
        if (i < half_) squares[i] += squares[i + half_];
    }
    barrier();
    sum = squares[0];
#endif
    float root = root_by(sum);
#ifdef KEEP
    if (gl_WorkGroupID.x + p.tile0 == 0) {
#ifdef BIASED
        uvec2 kept = uvec2(Words(p.sums).v[2 * JOINED], Words(p.sums).v[2 * JOINED + 1]);
#else
        uvec2 kept = p.sums;
#endif
        [[dont_unroll]] for (uint c = i; c < K / V; c += THREADS)
            Chunks(kept).v[c] = normalised(Chunks(p.x).v[c], Chunks(p.norm).v[c], root);
    }
#endif
    return root;
}
#endif
#endif
