// exp (of x <= 0) and log of float within 2 ULP, with the polynomials of S. L. Moshier's Cephes library; NaN and
// infinities as IEEE.
float exp_f32(float x) {
    // By bits: a comparison may become a maximum, which drops NaN where float controls do not keep it.
    uint u = floatBitsToUint(x);
    if (u > 0xc2d00000u && u <= 0xff800000u) x = -104.0;
    float n = roundEven(x * 1.44269504088896341);
    float r = fma(n, -0.693359375, x);
    r = fma(n, 2.12194440e-4, r);
    float p = fma(r, 1.9875691500e-4, 1.3981999507e-3);
    p = fma(p, r, 8.3334519073e-3);
    p = fma(p, r, 4.1665795894e-2);
    p = fma(p, r, 1.6666665459e-1);
    p = fma(p, r, 5.0000001201e-1);
    p = fma(p, r * r, r) + 1.0;
    // 2^n in two factors, because the result may be subnormal. Adding 1.5 * 2^23 moves an integer to the low bits.
    precise float y = p * uintBitsToFloat((floatBitsToUint(n + 12582912.0) << 23) + (191u << 23));
    return y * 5.42101086242752217e-20;
}

// For x >= 2^-126, infinity included.
float log_f32(float x) {
    uint u = floatBitsToUint(x);
    if (u >= 0x7f800000u) return x;
    int e = int(u >> 23) - 126;
    float m = uintBitsToFloat((u & 0x7fffffu) | 0x3f000000u);
    if (m < 0.707106781186547524) { m += m; e -= 1; }
    float f = m - 1.0, z = f * f;
    float p = fma(f, 7.0376836292e-2, -1.1514610310e-1);
    p = fma(p, f, 1.1676998740e-1);
    p = fma(p, f, -1.2420140846e-1);
    p = fma(p, f, 1.4249322787e-1);
    p = fma(p, f, -1.6668057665e-1);
    p = fma(p, f, 2.0000714765e-1);
    p = fma(p, f, -2.4999993993e-1);
    p = fma(p, f, 3.3333331174e-1);
    float y = fma(float(e), -2.12194440e-4, p * f * z);
    y = fma(-0.5, z, y);
    return fma(float(e), 0.693359375, f + y);
}
