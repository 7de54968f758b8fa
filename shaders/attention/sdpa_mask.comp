#version 460
// What is in blocks of 16 queries by 64 keys of a mask (see mask.glsl). A workgroup has the queries of a block and walks
// the keys, so that it sees whether a query has no key at all. Pairs of neighbours are read at once: the number of keys
// is even. Defines: codec A (of the mask), MASK_BOOL or MASK_ADD.
#include "lib/codecs.glsl"
layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uint64_t mask, blocks;
    int64_t ms[3];
    uint heads, l, n, tables;
};

const uint SEEN = 1u, OTHER = 2u, BLOCK = 64u, BLOCK_ROWS = 16u, BLOCKS = 16u;
// Blocks that are on their way at once.
const uint TOGETHER = 8u;
shared uint words[256];

// The bits of all lanes of each `width` are those of its first.
void join(uint bits, uint lane, uint width) {
    barrier();
    words[lane] = bits;
    barrier();
    for (uint m = width / 2u; m > 0u; m /= 2u) {
        if (lane % width < m) words[lane] |= words[lane + m];
        barrier();
    }
}

uint look(uint x) {
#ifdef MASK_BOOL
    return x == 0u ? OTHER : SEEN;
#else
    // NaN lets a key be seen.
    float y = A_DEC(x);
    return y <= -2e38 ? OTHER : (x & 0x7fffu) == 0u ? SEEN : SEEN | OTHER;
#endif
}

void main() {
    uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
    uint rows = (l + BLOCK_ROWS - 1u) / BLOCK_ROWS, count = (n + BLOCKS * BLOCK - 1u) / (BLOCKS * BLOCK);
    if (id >= tables * rows) return;
    uint table = id / rows, query = id % rows * BLOCK_ROWS;
    uint64_t base = at(mask, int64_t(table / heads) * ms[0] + int64_t(table % heads) * ms[1], A_SIZE);
    uint64_t to = blocks + 4ul * id * count;
    // Bit k: the lane saw a key that query lane / 32 + 8 k sees.
    uint alive = 0u;
    for (uint w = 0u; w < count; ++w) {
        uint bits = 0u;
        for (uint first = 0u; first < BLOCKS && (w * BLOCKS + first) * BLOCK < n; first += TOGETHER) {
            uint x[2u * TOGETHER];
            [[unroll]] for (uint u = 0u; u < 2u * TOGETHER; ++u) {
                uint i = query + lane / 32u + 8u * (u & 1u);
                uint j = (w * BLOCKS + first + u / 2u) * BLOCK + lane % 32u * 2u;
                uint64_t p = at(base, int64_t(min(i, l - 1u)) * ms[2] + int64_t(min(j, n - 2u)), A_SIZE);
#ifdef MASK_BOOL
                x[u] = uint(Raw2(p).v);
#else
                x[u] = Raw4(p).v;
#endif
            }
            [[unroll]] for (uint u = 0u; u < 2u * TOGETHER; ++u) {
                uint i = query + lane / 32u + 8u * (u & 1u);
                uint j = (w * BLOCKS + first + u / 2u) * BLOCK + lane % 32u * 2u;
#ifdef MASK_BOOL
                uint here = look(x[u] & 0xffu) | look(x[u] >> 8);
#else
                uint here = look(x[u] & 0xffffu) | look(x[u] >> 16);
#endif
                if (i < l && j < n) {
                    bits |= here << (2u * (first + u / 2u));
                    alive |= (here & SEEN) << (u & 1u);
                }
            }
        }
        join(bits, lane, 256u);
        if (lane == 0u) Raw4(to + 4ul * w).v = words[0];
    }
    join(alive, lane, 32u);
    bool blind = false;
    [[unroll]] for (uint r = 0u; r < BLOCK_ROWS; ++r)
        if (query + r < l && ((words[r % 8u * 32u] >> (r / 8u)) & 1u) == 0u) blind = true;
    if (blind && lane == 0u)
        for (uint w = 0u; w < count; ++w) Raw4(to + 4ul * w).v = Raw4(to + 4ul * w).v | 0x55555555u * SEEN;
}
