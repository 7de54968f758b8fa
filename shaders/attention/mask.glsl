// What attention's matrix kernels know of an array mask. sdpa_mask.comp looks at it in blocks of 16 queries by 64 keys
// where many heads share it, and says of each whether some element lets a key be seen (SEEN) and whether some element is
// other than zero, or true (OTHER). A block that is only OTHER adds nothing to any row, because there each row sees a
// key elsewhere: blocks with a row that sees none at all are SEEN throughout. A word has 16 blocks of the same queries.
// PAIRS: two neighbours of a row of the mask are read at once; then the number of keys is even. EARLY: there are registers
// for the mask of a whole tile, which is on its way before the tile is waited for.
const uint SEEN = 1u, OTHER = 2u, BLOCK = 64u, BLOCK_ROWS = 16u, BLOCKS = 16u;

// Words of the mask of a head, or null.
uint64_t blocks_of(uint b, uint h) {
#ifdef PAIRS
    if (a.blocks == 0ul) return 0ul;
    uint words = (a.n + BLOCKS * BLOCK - 1u) / (BLOCKS * BLOCK), rows = (a.l + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    return a.blocks + 4ul * (b * a.block_steps[0] + h * a.block_steps[1]) * rows * words;
#else
    return 0ul;
#endif
}

// The word of queries `low` to `high` that has the block of key `key`.
uint word_of(uint64_t blocks, uint low, uint high, uint key) {
    uint words = (a.n + BLOCKS * BLOCK - 1u) / (BLOCKS * BLOCK), bits = 0u;
    for (uint q = low / BLOCK_ROWS; q <= high / BLOCK_ROWS; ++q)
        bits |= Raw4(blocks + 4ul * (uint64_t(q) * words + key / (BLOCKS * BLOCK))).v;
    return bits;
}
uint in_word(uint word, uint key) { return (word >> (2u * (key / BLOCK % BLOCKS))) & (SEEN | OTHER); }

// Keys that queries `low` to `high` walk, and the word that was read last.
struct Walk {
    uint64_t blocks;
    uint low, high, end, number, word;
};
// The first key from `key` on, by whole blocks of BN, whose block adds something, and the bits of that; behind the end
// where none does.
uint next_block(inout Walk w, uint key, out uint bits) {
    bits = SEEN | OTHER;
#ifdef PAIRS
    for (; w.blocks != 0ul && key < w.end; key += BN) {
        if (w.number != key / (BLOCKS * BLOCK)) {
            w.number = key / (BLOCKS * BLOCK);
            w.word = word_of(w.blocks, w.low, w.high, key);
        }
        bits = in_word(w.word, key);
        if (bits != OTHER) break;
    }
#endif
    return key;
}

#if defined(MASK_BOOL) || defined(MASK_ADD)
#ifdef MASK_BOOL
const uint MASK_SIZE = 1u;
#else
const uint MASK_SIZE = A_SIZE;
#endif
// Where the mask of a query starts.
uint64_t mask_row(uint b, uint h, uint i) {
    return at(a.mask, int64_t(b) * a.ms[0] + int64_t(h) * a.ms[1] + int64_t(i) * a.ms[2], MASK_SIZE);
}
// An element of the mask, and a pair of them.
#ifdef MASK_BOOL
uint mask_bits(uint64_t row, uint j) { return uint(Raw1(row + uint64_t(int64_t(j) * a.ms[3])).v); }
uint mask_pair(uint64_t row, uint j) { return uint(Raw2(row + min(j, a.n - 2u)).v); }
uint of_pair(uint pair, uint i) { return (pair >> (8u * i)) & 0xffu; }
// A score in units of log 2 with an element of the mask.
float with_mask(float s, uint bits) { return bits == 0u ? LOWEST : s; }
#else
uint mask_bits(uint64_t row, uint j) { return a_bits(at(row, int64_t(j) * a.ms[3], A_SIZE)); }
uint mask_pair(uint64_t row, uint j) { return Raw4(row + 2ul * min(j, a.n - 2u)).v; }
uint of_pair(uint pair, uint i) { return (pair >> (16u * i)) & 0xffffu; }
float with_mask(float s, uint bits) { return plus(s, A_DEC(bits)); }
#endif
#endif
