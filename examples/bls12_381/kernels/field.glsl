// Arithmetic modulo p, the 381-bit prime of BLS12-381, on twelve 32-bit limbs, least significant first. Elements are
// below p and in Montgomery form: x stands for x * 2^384 mod p. P, ONE and INVERSE (-1/p mod 2^32) are written before
// this text.

struct Fp { uint v[12]; };

// Repetition in the text, so that each index is a number and limbs live in registers from the start. (Loops marked
// [[unroll]] give the same code, but it takes the compiler many seconds where dozens of them meet.)
#define TO_11(S) S(1) S(2) S(3) S(4) S(5) S(6) S(7) S(8) S(9) S(10) S(11)
#define EACH(S) S(0) TO_11(S)

// One loop makes the code of a product a twelfth as long; it shifts b, which costs 11 moves a round.
#if UNROLLED
#define ROUNDS [[unroll]]
#else
#define ROUNDS [[dont_unroll]]
#endif

Fp fp_zero() { return Fp(uint[12](0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u)); }
Fp fp_one() { return Fp(ONE); }
Fp fp_modulus() { return Fp(P); }

Fp fp_choose(bool first, Fp a, Fp b) {
#define S(j) b.v[j] = mix(b.v[j], a.v[j], first);
    EACH(S)
#undef S
    return b;
}

bool fp_is_zero(Fp a) {
    uint any = 0u;
#define S(j) any |= a.v[j];
    EACH(S)
#undef S
    return any == 0u;
}

// a + b without the carry out of the last limb.
Fp fp_sum(Fp a, Fp b) {
    uint carry = 0u, first, second;
#define S(j) a.v[j] = uaddCarry(uaddCarry(a.v[j], b.v[j], first), carry, second); carry = first | second;
    EACH(S)
#undef S
    return a;
}

// a - b, and whether it is negative.
Fp fp_difference(Fp a, Fp b, out bool negative) {
    uint borrow = 0u, first, second;
#define S(j) a.v[j] = usubBorrow(usubBorrow(a.v[j], b.v[j], first), borrow, second); borrow = first | second;
    EACH(S)
#undef S
    negative = borrow != 0u;
    return a;
}

bool fp_is_canonical(Fp a) {
    bool below;
    fp_difference(a, fp_modulus(), below);
    return below;
}

// a mod p for a < 2 p.
Fp fp_reduce(Fp a) {
    bool below;
    Fp d = fp_difference(a, fp_modulus(), below);
    return fp_choose(below, a, d);
}

// Two elements have 382 bits: their sum fits.
Fp fp_add(Fp a, Fp b) { return fp_reduce(fp_sum(a, b)); }

Fp fp_sub(Fp a, Fp b) {
    bool negative;
    Fp d = fp_difference(a, b, negative);
    return fp_sum(d, fp_choose(negative, fp_modulus(), fp_zero()));
}

Fp fp_twice(Fp a) { return fp_add(a, a); }

// low = low 32 bits of x * y + z + carry, carry = the high ones; the sum never exceeds 64 bits.
#if WIDE
#define MAD(low, x, y, z, carry) \
    sum = uint64_t(x) * uint64_t(y) + uint64_t(z) + uint64_t(carry); low = uint(sum); carry = uint(sum >> 32);
#define MAD_SCRATCH uint64_t sum;
#else
#define MAD(low, x, y, z, carry) \
    umulExtended(x, y, hi, lo); low = uaddCarry(uaddCarry(lo, z, c), carry, d); carry = hi + c + d;
#define MAD_SCRATCH uint hi, lo, c, d;
#endif

// a * b / 2^384 mod p: Montgomery's product with both inner loops joined (FIOS in Koc, Acar and Kaliski, "Analyzing and
// comparing Montgomery multiplication algorithms", 1996), 300 multiplications. p leaves the top bits of its last limb
// free, so that the two carries of a round add up to less than 2^32.
Fp fp_mul(Fp a, Fp b) {
    Fp t = fp_zero();
    ROUNDS for (int i = 0; i < 12; ++i) {
        MAD_SCRATCH
        uint s, unused, up = 0u, down = 0u;
        MAD(s, a.v[0], b.v[0], t.v[0], up)
        uint m = s * INVERSE;
        MAD(unused, m, P[0], s, down)
#define S(j) MAD(s, a.v[j], b.v[0], t.v[j], up) MAD(t.v[j - 1], m, P[j], s, down)
        TO_11(S)
#undef S
        t.v[11] = up + down;
#define S(j) b.v[j - 1] = b.v[j];
        TO_11(S)
#undef S
    }
    return fp_reduce(t);
}

Fp fp_square(Fp a) { return fp_mul(a, a); }

// Element i of a buffer of rows of LIMBS words: six of 64 bits, or twelve of 32.
#if LIMBS == 6
Fp fp_pack(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    uvec2 p = unpack32(a), q = unpack32(b), r = unpack32(c), s = unpack32(d), t = unpack32(e), u = unpack32(f);
    return Fp(uint[12](p.x, p.y, q.x, q.y, r.x, r.y, s.x, s.y, t.x, t.y, u.x, u.y));
}
#define LOAD(x, i) \
    fp_pack(x[6 * (i)], x[6 * (i) + 1], x[6 * (i) + 2], x[6 * (i) + 3], x[6 * (i) + 4], x[6 * (i) + 5])
#define STORE_WORD(x, i, k, f) x[6 * (i) + k] = pack64(uvec2(f.v[2 * k], f.v[2 * k + 1]));
#define STORE_WORDS(x, i, f) \
    STORE_WORD(x, i, 0, f) STORE_WORD(x, i, 1, f) STORE_WORD(x, i, 2, f) \
    STORE_WORD(x, i, 3, f) STORE_WORD(x, i, 4, f) STORE_WORD(x, i, 5, f)
#else
#define LOAD(x, i) \
    Fp(uint[12](x[12 * (i)], x[12 * (i) + 1], x[12 * (i) + 2], x[12 * (i) + 3], x[12 * (i) + 4], x[12 * (i) + 5], \
        x[12 * (i) + 6], x[12 * (i) + 7], x[12 * (i) + 8], x[12 * (i) + 9], x[12 * (i) + 10], x[12 * (i) + 11]))
#define STORE_WORDS(x, i, f) \
    x[12 * (i)] = f.v[0]; x[12 * (i) + 1] = f.v[1]; x[12 * (i) + 2] = f.v[2]; x[12 * (i) + 3] = f.v[3]; \
    x[12 * (i) + 4] = f.v[4]; x[12 * (i) + 5] = f.v[5]; x[12 * (i) + 6] = f.v[6]; x[12 * (i) + 7] = f.v[7]; \
    x[12 * (i) + 8] = f.v[8]; x[12 * (i) + 9] = f.v[9]; x[12 * (i) + 10] = f.v[10]; x[12 * (i) + 11] = f.v[11];
#endif
#define STORE(x, i, value) { Fp stored = value; STORE_WORDS(x, i, stored) }
