// What becomes of the results of joined products whose rows are walked by teams of TPR threads, R rows at once. Needs what
// quantized/joined.glsl does.
// Matrices that a team reads, and its rows of each.
#ifdef PAIR
#define SIDES 2
#else
#define SIDES 1
#endif
#define EACH (R / SIDES)

#ifdef JOINED
// Results of rows from row0 on of a matrix of n rows, or of two, whose places begin at `base`.
void store_found(float found[R], uint matrix, uint base, uint row0, uint n, uint lane) {
    [[unroll]] for (uint r = 0; r < EACH; r++) {
        if (lane == 0 && row0 + r < n) {
            uint at = base + row0 + r;
#ifdef PAIR
            store_element(p.d[0], at, after(rounded(found[r]), rounded(found[r + EACH]), at));
#elif defined(AFTER)
            store_element(p.d[0], at, after(rounded(found[r]), at));
#else
            store_product(matrix, at, found[r]);
#endif
        }
    }
}
#endif
