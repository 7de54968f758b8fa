// What the two kernels of attention's gradient share (Dao, FlashAttention-2, section 3.1): scores are computed again, and
// weights follow from the extents of rows (see attention.glsl).
bool is_dead(float extent) { return extent >= 0.5 * DEAD; }
// What is taken off scores, and the score of a key that the mask takes out.
float taken_off(float extent) { return is_dead(extent) ? log2(extent) - 96.0 : extent; }
float taken_out(float extent) { return is_dead(extent) ? 0.0 : NEG_INF; }
// Whether a mask stands in place of scores, so that no derivative flows to them where it takes a key out.
#ifdef MASK_ADD
const bool REPLACES = false;
#else
const bool REPLACES = true;
#endif

// Products of the rows `left` with 16 staged rows, and weights of these times their features, which are added up.
#define PRODUCTS(s, left, padded, from)                                                          \
    zero_sums(s);                                                                                \
    EACH for (uint k = 0u; k < (padded) / 16u; ++k) {                                            \
        RIGHT x;                                                                                 \
        load_right_transposed(x, (from) + k * 2u, WD);                                           \
        multiply(left[k], x, s);                                                                 \
    }
#define ADD_FEATURES(o, w, padded, from)                                                         \
    EACH for (uint f = 0u; f < (padded) / 16u; ++f) {                                            \
        RIGHT x;                                                                                 \
        load_right(x, (from) + f * 2u, WD);                                                      \
        multiply(w, x, o[f]);                                                                    \
    }
// The rows of this workgroup as LEFT matrices: `place` says where row `row` lies. Takes `mem`.
#define LOAD_ROWS(left, words, count, rows, place)                                               \
    barrier();                                                                                   \
    for (uint e = gl_LocalInvocationIndex; e < BM * (words); e += THREADS) {                     \
        uint row = min(row0 + e / (words), (rows) - 1u), c = e % (words);                        \
        mem[e / (words) * WD + c] = c * 8u < (count) ? Vec16((place) + 16ul * c).v : uvec4(0u);  \
    }                                                                                            \
    barrier();                                                                                   \
    EACH for (uint k = 0u; k < (words) / 2u; ++k) load_left(left[k], sg * 16u * WD + k * 2u, WD);
