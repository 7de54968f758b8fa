// What becomes of a random word: FINISH 0 bits, 1 unit, 2 symmetric, 3 erfinv, 4 normal, 5 and 6 unit for float16 and
// bfloat16, as in src/kernels/random/draw.rs.
#if FINISH == 3 || FINISH == 4
#define INVERSE
// FACTOR times the inverse error function of x in (-1, 1), as m_erfinv in lib/math.glsl but with the device's
// logarithm: what that is off by is damped to less than 3 ULP.
#if FINISH == 4
#define FACTOR 1.41421353816986083984375
#else
#define FACTOR 1.0
#endif
float erfinv(float x) {
    // (1 - x) (1 + x) keeps what x * x would lose near one.
    precise float s = (1.0 - x) * (1.0 + x);
    float w = log2(s) * -0.693147180559945309;
    float u = w - 2.5;
    float p = fma(2.81022636e-8 * FACTOR, u, 3.43273939e-7 * FACTOR);
    p = fma(p, u, -3.5233877e-6 * FACTOR);
    p = fma(p, u, -4.39150654e-6 * FACTOR);
    p = fma(p, u, 2.1858087e-4 * FACTOR);
    p = fma(p, u, -1.25372503e-3 * FACTOR);
    p = fma(p, u, -4.17768164e-3 * FACTOR);
    p = fma(p, u, 2.46640727e-1 * FACTOR);
    p = fma(p, u, 1.50140941 * FACTOR);
    // One number of 300.
    [[dont_flatten]] if (w >= 5.0) {
        u = sqrt(w) - 3.0;
        p = fma(-2.00214257e-4 * FACTOR, u, 1.00950558e-4 * FACTOR);
        p = fma(p, u, 1.34934322e-3 * FACTOR);
        p = fma(p, u, -3.67342844e-3 * FACTOR);
        p = fma(p, u, 5.73950773e-3 * FACTOR);
        p = fma(p, u, -7.6224613e-3 * FACTOR);
        p = fma(p, u, 9.43887047e-3 * FACTOR);
        p = fma(p, u, 1.00167406 * FACTOR);
        p = fma(p, u, 2.83297682 * FACTOR);
    }
    return p * x;
}
#endif

uint finish(uint w) {
#if FINISH == 0
    return w;
#else
#if FINISH == 5
    const float below_one = 0.99951171875;
#elif FINISH == 6
    const float below_one = 0.99609375;
#else
    const float below_one = 0.999999940395355225;
#endif
    precise float u = min(float(w) * 2.3283064365386962890625e-10, below_one);
#if FINISH >= 2 && FINISH <= 4
    // Doubling is exact, so that fused or not, there is one rounding.
    u = fma(2.0, u, -below_one);
#endif
#ifdef INVERSE
    u = erfinv(u);
#endif
    return floatBitsToUint(u);
#endif
}
