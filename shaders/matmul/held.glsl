// What kernels share that hold x in registers while they walk over rows of a matrix (quantized/qmm_held.comp,
// matmul/matmul_held.comp): units of 16 rows, whose sums over WK subgroups with parts of K are added up, and over workgroups
// where SPLITS of them share K (LAST): the last one of those joins what they left. One to three matrices, whose rows follow
// each other, with what joined.glsl has, where HELD is defined before it; NORM where one workgroup has all of K; PAIR: of two at
// once. The includer defines EACH, THREADS, WIDTH (rows of x that there is room for, whole eights), BUFFERS, `struct Ahead`,
// which is what a lane has of the rows that come next, and behind this `begin` and `meet`. Grid: SPLITS for each list of units.
#ifdef LAST
#include "lib/last.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Joins { float v[]; };
#endif

#ifdef PAIR
#define MATRICES 2
#else
#define MATRICES 1
#endif
// Where a subgroup's sums of 16 rows by one of x lie, one behind the other: lanes write four of them apart.
#define COLUMN 20
#define TABLE (WIDTH * COLUMN)
// Results that an invocation sums up: the first ones do, while others go on.
#define OWN_RESULTS ((16 * WIDTH + THREADS - 1) / THREADS)
// Sums that a lane has of a unit: rows LANE / 4 and eight on, by neighbours of x, for each eight of them.
#define OWN_SUMS (WIDTH / 2)

shared float parts[BUFFERS * WK * TABLE];

// The matrix at hand, and its rows.
uvec2 w, s, b;
uint row0, n;
// Which of the workgroups that share K this is.
uint split;

// Takes x, and the first of what is ahead.
void begin(inout Ahead a);
// Adds the products of what is ahead, in place of which comes that of the rows at hand.
void meet(inout Ahead a, inout float total[OWN_SUMS]);

// Goes to 16 rows: those of a unit, of one of the matrices; behind the last of `all` to one row for all lanes, so
// that loads need no branch around them.
void seek(uint unit, uint m, uint all) {
    bool there = unit < all;
    uint matrix = matrix_of(unit, 16, n) + m;
    row0 = there ? unit * 16 : 0;
    n = there ? n : 1;
    w = p.w[matrix];
    s = p.s[matrix];
    b = p.b[matrix];
}

#include "lib/exchange.glsl"

// Sum over the four lanes of a row.
float over_row(float v) {
    v += other(v, 1u);
    return v + other(v, 2u);
}

#ifdef NORM
shared float squares[WK * WIDTH];

// What rows LANE / 4 of each eight of x are multiplied with to be normalised, by sums of squares that lanes have of them.
void roots_of(inout float of[WIDTH / 8]) {
    EACH for (uint j = 0; j < WIDTH / 8; j++) {
        float sum = over_row(of[j]);
        if (LANE % 4 == 0) squares[TEAM * WIDTH + 8 * j + LANE / 4] = sum;
    }
    barrier();
    EACH for (uint j = 0; j < WIDTH / 8; j++) {
        float sum = 0;
        EACH for (uint k = 0; k < WK; k++) sum += squares[k * WIDTH + 8 * j + LANE / 4];
        of[j] = root_by(sum);
    }
}
#endif

uint matrix_row(uint high) { return min(row0 + 8 * high + LANE / 4, n - 1); }

// Stores the results of a unit, of which `y` has the sums of row i % 16 by row i / 16 of x.
void store(float y[MATRICES], uint unit, uint i) {
    uint rows, matrix = matrix_of(unit, 16, rows), row = unit * 16 + i % 16, at = i / 16 * rows + row;
    if (row >= rows) return;
#ifdef GROUP
    EACH for (uint m = 0; m < MATRICES; m++)
        if (!is_finite(y[m]))
            y[m] = one_by_one(p.x, i / 16 * K, p.w[matrix + m], p.s[matrix + m], p.b[matrix + m], row, K);
#endif
#ifdef PAIR
    store_element(p.d[0], at, after(rounded(y[0]), rounded(y[1]), at));
#elif defined(AFTER)
    store_element(p.d[0], at, after(rounded(y[0]), at));
#else
    store_element(p.d[matrix], at, y[0]);
#endif
}

#ifdef LAST
// Sums that a workgroup leaves: of the matrices of a unit, by part of K.
uint join_at(uint unit, uint part, uint m) { return ((unit * SPLITS + part) * MATRICES + m) * 16 * WIDTH; }
#endif

// All of the kernel.
void walk() {
    const uint all = groups_of(16);
    uint list = gl_WorkGroupID.x / SPLITS, lists = gl_NumWorkGroups.x / SPLITS;
    split = gl_WorkGroupID.x % SPLITS;
    Ahead a;
    seek(list, 0, all);
    begin(a);
    uint buffer_ = 0;
    [[dont_unroll]] for (uint unit = list; unit < all; unit += lists) {
        float y[OWN_RESULTS][MATRICES];
        EACH for (uint m = 0; m < MATRICES; m++) {
            seek(m + 1 < MATRICES ? unit : unit + lists, (m + 1) % MATRICES, all);
            float total[OWN_SUMS];
            EACH for (uint e = 0; e < OWN_SUMS; e++) total[e] = 0;
            meet(a, total);
            uint at = (buffer_ * WK + TEAM) * TABLE;
            EACH for (uint e = 0; e < OWN_SUMS; e++)
                parts[at + (e / 4 * 8 + 2 * (LANE % 4) + e % 2) * COLUMN + e / 2 % 2 * 8 + LANE / 4] = total[e];
            barrier();
            EACH for (uint o = 0; o < OWN_RESULTS; o++) {
                uint i = o * THREADS + gl_LocalInvocationIndex, at = buffer_ * WK * TABLE + i / 16 * COLUMN + i % 16;
                y[o][m] = 0;
                if (i >= 16 * p.rows) continue;
                EACH for (uint k = 0; k < WK; k++) y[o][m] += parts[at + k * TABLE];
#ifdef LAST
                Joins(p.sums).v[join_at(unit, split, m) + i] = y[o][m];
#endif
            }
#if BUFFERS == 1
            barrier();
#else
            buffer_ ^= 1u;
#endif
        }
#ifndef LAST
        EACH for (uint o = 0; o < OWN_RESULTS; o++) {
            uint i = o * THREADS + gl_LocalInvocationIndex;
            if (i < 16 * p.rows) store(y[o], unit, i);
        }
#endif
    }
#ifdef LAST
    if (!comes_last(packUint2x32(p.norm) + 4ul * list, SPLITS, true)) return;
    [[dont_unroll]] for (uint unit = list; unit < all; unit += lists) {
        for (uint i = gl_LocalInvocationIndex; i < 16 * p.rows; i += THREADS) {
            float y[MATRICES];
            EACH for (uint m = 0; m < MATRICES; m++) {
                y[m] = 0;
                EACH for (uint k = 0; k < SPLITS; k++) y[m] += Joins(p.sums).v[join_at(unit, k, m) + i];
            }
            store(y, unit, i);
        }
    }
#endif
}
