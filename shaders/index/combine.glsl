// How a scatter combines elements of one dtype (operands A and B of lib/codecs.glsl), and vectors of V (VECTOR)
// elements. OP: 0 the second, 1 sum, 2 product, 3 larger, 4 smaller; NaN wins in the last two.

const uint V = VECTOR;

#if A_KIND == 3
bool less_c(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
bool nan_c(vec2 a) { return is_nan(a.x) || is_nan(a.y); }
#endif

A_C combine(A_C a, A_C b) {
#if OP == 0
    return b;
#elif OP == 1
#ifdef BOOL
    return a | b;
#else
    return a + b;
#endif
#elif OP == 2
#if A_KIND == 3
    precise vec2 p = vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    return p;
#else
    return a * b;
#endif
#elif OP == 3
#if A_KIND == 3
    return nan_c(a) || less_c(b, a) ? a : b;
#elif A_KIND == 2
    return is_nan(a) || a > b ? a : b;
#else
    return max(a, b);
#endif
#else
#if A_KIND == 3
    return nan_c(a) || less_c(a, b) ? a : b;
#elif A_KIND == 2
    return is_nan(a) || a < b ? a : b;
#else
    return min(a, b);
#endif
#endif
}

struct Lanes { A_C x[V]; };

Lanes load_lanes(uint64_t p) {
    Lanes r;
#if VECTOR > 1
    uvec4 v = Vec16(p).v;
    [[unroll]] for (uint k = 0u; k < V; ++k) r.x[k] = a_elem(v, k);
#else
    r.x[0] = a_load(p);
#endif
    return r;
}

void store_lanes(uint64_t p, Lanes r) {
#if VECTOR > 1
    Vec16(p).v = b_vector(r.x);
#else
    b_store(p, r.x[0]);
#endif
}

// V neighbours of an operand whose elements lie STEP apart: 1, or 0 for one value for all.
Lanes load_updates(uint64_t p) {
#if VECTOR > 1 && SPLAT
    Lanes r;
    A_C x = a_load(p);
    [[unroll]] for (uint k = 0u; k < V; ++k) r.x[k] = x;
    return r;
#else
    return load_lanes(p);
#endif
}

Lanes combine_lanes(Lanes a, Lanes b) {
    [[unroll]] for (uint k = 0u; k < V; ++k) a.x[k] = combine(a.x[k], b.x[k]);
    return a;
}
