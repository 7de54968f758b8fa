// Scores that the lanes of a key divide among them: each sums up its share. Needs UNROLL keys of a lane (1, 2 or 4),
// ROWS rows (as well, or 8), TPR lanes of a key, all in a subgroup, and STEPS, in which lanes divide the scores: as many as halve
// them, or the lanes. Score u * ROWS + r is of key u and row r.
const uint SCORES = UNROLL * ROWS;
// The scores that a lane is left with, and the first steps, whose lanes have other keys of the same row.
const uint OWN = SCORES >> STEPS;
const uint KEY_STEPS = UNROLL / 2u;

// Lane t is left with the scores from this one on.
uint first_of(uint t) {
    uint i = 0u;
    [[unroll]] for (uint j = 0u; j < STEPS; ++j)
        if ((t & TPR >> (j + 1u)) != 0u) i += SCORES >> (j + 1u);
    return i;
}

// Sums over the lanes of a key, each in the order of group_reduce.
void divide(Scores s, uint t, out float own[OWN]) {
    [[unroll]] for (uint j = 0u; j < STEPS; ++j) {
        uint m = TPR >> (j + 1u), half_ = SCORES >> (j + 1u);
        bool upper = (t & m) != 0u;
        [[unroll]] for (uint i = 0u; i < half_; ++i) {
            float mine = upper ? s.v[i + half_] : s.v[i], other = upper ? s.v[i] : s.v[i + half_];
            s.v[i] = mine + subgroupShuffleXor(other, m);
        }
    }
    [[unroll]] for (uint e = 0u; e < OWN; ++e) own[e] = s.v[e];
    for (uint m = TPR >> (STEPS + 1u); m > 0u; m >>= 1)
        [[unroll]] for (uint e = 0u; e < OWN; ++e) own[e] += subgroupShuffleXor(own[e], m);
}
