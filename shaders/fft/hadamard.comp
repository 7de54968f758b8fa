#version 460
// One pass of the Walsh-Hadamard transform. Rows of n elements are seen as (chunks, LEN, inner), and the
// transform of order LEN = M * 2^K runs along the middle axis: in shared memory, four stages of the fast
// algorithm at once in registers, then the matrix of order M across blocks.
// A workgroup takes LINES whole lines where inner is 1, else COLS neighbouring columns of one line.
// Defines: operands A and B, K, M, SIGNS (rows of the matrix of order M; a set bit is a minus), COLS, LINES,
// TILE (LINES * LEN * COLS), STRIDED (the source has strides, otherwise its rows are contiguous).
#include "lib/codecs.glsl"
layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, dims;                 // dims: nk axes of the source's rows
    int64_t stride;                          // along a row of the source
    uint n, inner, chunks, lines, tiles, nk; // lines: rows * chunks
    float scale;
};

#define LEN (M << K)
shared float x[TILE + TILE / 32];
uint pad(uint i) { return i + (i >> 5); }

// log2 of COLS is where the first stage starts.
#if COLS == 1
#define FIRST 0
#else
#define FIRST findLSB(COLS)
#endif

#define STAGES(name, S)                                                                  \
    void name(uint shift) {                                                              \
        for (uint g = gl_LocalInvocationIndex; g < TILE >> S; g += 256u) {               \
            uint low = g & ((1u << shift) - 1u);                                         \
            uint base = ((g >> shift) << (shift + S)) | low;                             \
            float v[1 << S];                                                             \
            [[unroll]] for (uint i = 0u; i < 1 << S; ++i) v[i] = x[pad(base + (i << shift))]; \
            [[unroll]] for (uint s = 0u; s < S; ++s)                                     \
                [[unroll]] for (uint i = 0u; i < 1 << (S - 1); ++i) {                    \
                    uint p = ((i >> s) << (s + 1u)) | (i & ((1u << s) - 1u)), q = p | (1u << s); \
                    float sum = v[p] + v[q];                                             \
                    v[q] = v[p] - v[q];                                                  \
                    v[p] = sum;                                                          \
                }                                                                        \
            [[unroll]] for (uint i = 0u; i < 1 << S; ++i) x[pad(base + (i << shift))] = v[i]; \
        }                                                                                \
        barrier();                                                                       \
    }
#if K >= 4
STAGES(four, 4)
#endif
#if K % 4 == 3
STAGES(rest, 3)
#elif K % 4 == 2
STAGES(rest, 2)
#elif K % 4 == 1
STAGES(rest, 1)
#endif

#if M > 1
const uint signs[M] = uint[](SIGNS);
void across() {
    const uint block = COLS << K;
    for (uint g = gl_LocalInvocationIndex; g < TILE / M; g += 256u) {
        uint base = g / block * (block * M) + g % block;
        float v[M];
        [[unroll]] for (uint i = 0u; i < M; ++i) v[i] = x[pad(base + i * block)];
        [[unroll]] for (uint i = 0u; i < M; ++i) {
            float total = 0.0;
            [[unroll]] for (uint j = 0u; j < M; ++j) total += (signs[i] >> j & 1u) != 0u ? -v[j] : v[j];
            x[pad(base + i * block)] = total;
        }
    }
    barrier();
}
#endif

// Row and position of element t of a tile; false beyond the last line.
bool place(uint tile, uint t, out uint row, out uint pos) {
#if COLS == 1
    uint line = tile * LINES + t / LEN, at = t % LEN;
#else
    uint across_ = inner / COLS, line = tile / across_;
    uint at = t / COLS * inner + tile % across_ * COLS + t % COLS;
#endif
    row = line / chunks;
    pos = line % chunks * (LEN * inner) + at;
    return line < lines;
}

void main() {
    uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (tile >= tiles) return;
    for (uint t = gl_LocalInvocationIndex; t < TILE; t += 256u) {
        uint row, pos;
        float value = 0.0;
        if (place(tile, t, row, pos)) {
#ifdef STRIDED
            value = a_load(at(src, offset_of(dims, 0u, nk, row) + int64_t(pos) * stride, A_SIZE));
#else
            value = a_load(at(src, int64_t(uint64_t(row) * n + pos), A_SIZE));
#endif
        }
        x[pad(t)] = value;
    }
    barrier();
    uint shift = FIRST;
#if K >= 4
    for (uint i = 0u; i < K / 4; ++i, shift += 4u) four(shift);
#endif
#if K % 4 != 0
    rest(shift);
#endif
#if M > 1
    across();
#endif
    for (uint t = gl_LocalInvocationIndex; t < TILE; t += 256u) {
        uint row, pos;
        if (place(tile, t, row, pos)) b_store(at(dst, int64_t(uint64_t(row) * n + pos), B_SIZE), x[pad(t)] * scale);
    }
}
