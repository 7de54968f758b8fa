// Float32 functions, at most 4 ULP from the exact value: those of src/kernels/elementwise/scalar.rs, scalar_special.rs and
// fp8.rs by the same names. Most follow them step by step, over division and square root that are corrected by
// an exact residual. sin, cos, tan, pow and logaddexp are computed otherwise: the host has float64 for their
// reductions and sums, here pi/2 is taken in parts and numbers are held as sums of two floats or in fixed point.
// `precise` keeps products and sums apart, and fma stands where either rounding is accurate enough (with FUSED_FMA
// it rounds once); NaN is tested by bits, which no optimiser may assume away.

const float M_LOG2E = 1.44269504088896341;
const float M_LN2_HI = 0.693359375;
const float M_LN2_LO = -2.12194440e-4;
// 1.5 * 2^23: adding it rounds to an integer that sits in the low bits.
const float M_MAGIC = 12582912.0;
const float M_PI_2 = 1.57079637050628662109375;
const float M_PI_2_LO = -4.37113900018624283e-8;
#define M_INF uintBitsToFloat(0x7f800000u)
#define M_NAN uintBitsToFloat(0x7fc00000u)

uint m_bits(float x) { return floatBitsToUint(x); }
float m_from_bits(uint x) { return uintBitsToFloat(x); }
#if !defined(PRESERVE_NAN) && !defined(FUSED_FMA)
// Without SignedZeroInfNanPreserve a driver was seen to join the multiply-adds of a reduction, n * a + (n * b + x), to
// one of a + b, `precise` or not; products and sums it keeps apart.
float m_apart(float a, float b, float c) {
  precise float p = a * b;
  precise float s = p + c;
  return s;
}
#define fma(a, b, c) m_apart(a, b, c)
#endif
float m_sel(bool c, float a, float b) { return c ? a : b; }
float m_abs(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu); }
float m_neg(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }
bool m_is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool m_isnan(float x) { return m_is_nan(x); }
// NaN where either is NaN. Without a branch: `||` over a call would be one.
float m_larger(float a, float b) {
  float other = m_is_nan(a) ? a : b;
  return a > b ? a : other;
}
float m_smaller(float a, float b) {
  float other = m_is_nan(a) ? a : b;
  return a < b ? a : other;
}
bool m_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool m_isfinite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u; }
float m_sign(float x) { return (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0); }
// The sign bit survives, which the built-in functions do not promise for zeros.
float m_signed(float r, float x) {
  uint u = (floatBitsToUint(r) & 0x7fffffffu) | (floatBitsToUint(x) & 0x80000000u);
  return m_is_nan(x) ? x : uintBitsToFloat(u);
}
float m_floor(float x) { return m_signed(floor(x), x); }
float m_ceil(float x) { return m_signed(ceil(x), x); }
float m_trunc(float x) { return m_signed(trunc(x), x); }
float m_round(float x) { return m_signed(roundEven(x), x); }

// A number as the unevaluated sum of two floats.
struct Two { float hi; float lo; };
Two m_two(float hi, float lo) { return Two(hi, lo); }

// a * b + c, as it is fastest.
#ifdef FUSED_FMA
#define m_ma(a, b, c) fma(a, b, c)
#else
#define m_ma(a, b, c) ((a) * (b) + (c))
#endif

// a - q * b for q near a / b, where nothing over- or underflows: Dekker's exact product.
float m_residual(float a, float q, float b) {
  precise float p = q * b;
  float qh = uintBitsToFloat(floatBitsToUint(q) & 0xfffff000u);
  float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
  precise float ql = q - qh, bl = b - bh;
  precise float e = (((qh * bh - p) + qh * bl) + ql * bh) + ql * bl;
  precise float r = (a - p) - e;
  return r;
}
// Quotient of numbers whose exponents are moderate, to half an ULP: the driver's division may be 2.5 off.
float m_div_near(float a, float b) {
#ifdef FUSED_FMA
  // Divisions by the same number share its reciprocal.
  precise float y = 1.0 / b;
  precise float q = a * y;
  precise float e = fma(-q, b, a);
  precise float z = fma(e, y, q);
#else
  precise float q = a / b;
  precise float z = q + m_residual(a, q, b) / b;
#endif
  return z;
}
// Mantissa in [1, 2) with the sign of x, which is finite and not zero; `e` receives the exponent.
float m_split(float x, out int e) {
  uint u = floatBitsToUint(x) & 0x7fffffffu;
  e = int(u >> 23) - 127;
  if (u < 0x00800000u) {
    int up = 23 - findMSB(u);
    u <<= up;
    e = -126 - up;
  }
  return uintBitsToFloat((floatBitsToUint(x) & 0x80000000u) | 0x3f800000u | (u & 0x007fffffu));
}
float m_scale2(float y, int k);
float m_div_far(float a, float b) {
  uint ua = floatBitsToUint(a) & 0x7fffffffu, ub = floatBitsToUint(b) & 0x7fffffffu;
  uint s = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  if (ua > 0x7f800000u || ub > 0x7f800000u) return M_NAN;
  if (ua == 0x7f800000u || ub == 0u)
    return ub == 0x7f800000u || ua == ub ? M_NAN : uintBitsToFloat(s | 0x7f800000u);
  if (ub == 0x7f800000u || ua == 0u) return uintBitsToFloat(s);
  int ea, eb;
  float ma = m_split(a, ea), mb = m_split(b, eb);
  return m_scale2(m_div_near(ma, mb), ea - eb);
}
#ifdef FUSED_FMA
// a / b for a moderate exponent of b (or NaN) and its reciprocal; two ULP where the residual of a tiny `a` underflows.
float m_div_by(float a, float b, float y) {
  precise float q = a * y;
  precise float z = fma(fma(-q, b, a), y, q);
  // Zeros keep their sign, infinities and NaN what they are.
  return (floatBitsToUint(q) & 0x7fffffffu) - 1u < 0x7f7fffffu ? z : q;
}
float m_div(float a, float b) {
  uint eb = (floatBitsToUint(b) >> 23) & 0xffu;
  return eb - 67u < 120u ? m_div_by(a, b, 1.0 / b) : m_div_far(a, b);
}
#else
float m_div(float a, float b) {
  uint ea = (floatBitsToUint(a) >> 23) & 0xffu, eb = (floatBitsToUint(b) >> 23) & 0xffu;
  return ea - 67u < 120u && eb - 67u < 120u ? m_div_near(a, b) : m_div_far(a, b);
}
#endif
float m_sqrt_near(float x) {
  precise float s = sqrt(x);
#ifdef FUSED_FMA
  precise float z = fma(fma(-s, s, x), 0.5 / s, s);
#else
  precise float z = s + m_residual(x, s, s) * (0.5 / s);
#endif
  return z;
}
float m_sqrt(float x) {
  uint u = floatBitsToUint(x);
  if (u - 0x0d800000u < 0x70000000u) return m_sqrt_near(x);
  if ((u & 0x7fffffffu) == 0u || u == 0x7f800000u || m_is_nan(x)) return x;
  if (u > 0x7f800000u) return M_NAN;
  int e;
  float m = m_split(x, e);
  int odd = e & 1;
  return m_scale2(m_sqrt_near(odd == 1 ? 2.0 * m : m), (e - odd) >> 1);
}
float m_rsqrt(float x) { return m_div(1.0, m_sqrt(x)); }

// Remainder with the divisor's sign: long division of the mantissas, seven bits a step, exact.
float m_floor_mod(float a, float b) {
  uint ua = floatBitsToUint(a) & 0x7fffffffu, ub = floatBitsToUint(b) & 0x7fffffffu;
#ifdef FUSED_FMA
  // A moderate divisor and a quotient from 1 to 2^20, so that it is one off at most: what it leaves of `a` is exact.
  if (ub - 0x21800000u < 0x3c000000u && ua - ub < 0x0a000000u) {
    uint sign = floatBitsToUint(b) & 0x80000000u;
    float n = uintBitsToFloat(floatBitsToUint(a) ^ sign), d = uintBitsToFloat(ub);
    precise float q = floor(n * (1.0 / d));
    precise float left = fma(-q, d, n);
    q += left < 0.0 ? -1.0 : left >= d ? 1.0 : 0.0;
    left = fma(-q, d, n);
    return uintBitsToFloat(left == 0.0 ? floatBitsToUint(a) & 0x80000000u : floatBitsToUint(left) ^ sign);
  }
#endif
  if (ua >= 0x7f800000u || ub > 0x7f800000u || ub == 0u) return M_NAN;
  float r = a;
  if (ua == ub) {
    r = uintBitsToFloat(floatBitsToUint(a) & 0x80000000u);
  } else if (ua > ub) {
    int ea, eb;
    uint ma = (floatBitsToUint(m_split(a, ea)) & 0x007fffffu) | 0x00800000u;
    uint mb = (floatBitsToUint(m_split(b, eb)) & 0x007fffffu) | 0x00800000u;
    uint m = ma % mb;
    for (int d = ea - eb; d > 0; d -= 7) m = (m << min(d, 7)) % mb;
    r = m_scale2(float(m), eb - 23);
    r = uintBitsToFloat(floatBitsToUint(r) | (floatBitsToUint(a) & 0x80000000u));
  }
  uint ur = floatBitsToUint(r) & 0x7fffffffu;
  // Signs and zeros are read from the bits: a device may take subnormal numbers for zero.
  if (ur == 0u || int(floatBitsToUint(r) ^ floatBitsToUint(b)) >= 0) return r;
  if (ub >= 0x0d800000u) {
    precise float sum = r + b;
    return sum;
  }
  int er, eb;
  float mr = m_split(r, er), mb = m_split(b, eb);
  precise float sum = m_scale2(mr, max(er - eb, -60)) + mb;
  return m_scale2(sum, eb);
}

// |x| reduced by multiples of pi/2, and the multiple's low two bits.
struct Reduced { float r; uint q; };
// Word `i` of the bits of 2/pi for x >= 1608 (i at most 7), chosen without a table in memory: a lookup in each of
// the copies that compilers inline costs them more than the arithmetic.
uint m_two_over_pi(uint i) {
  bool b0 = (i & 1u) != 0u, b1 = (i & 2u) != 0u, b2 = (i & 4u) != 0u;
  uint lo = b1 ? (b0 ? 0xfc2757d1u : 0x4e441529u) : (b0 ? 0xa2f9836eu : 0u);
  uint hi = b1 ? (b0 ? 0xfe5163abu : 0x3c439041u) : (b0 ? 0xdb629599u : 0xf534ddc0u);
  return b2 ? hi : lo;
}
uint m_window(uint a, uint b, uint s) { return (a << s) | ((b >> 1) >> (31u - s)); }
// Payne and Hanek's reduction of x >= 1: 96 bits of 2/pi chosen by the exponent, times the 24 bit mantissa.
Reduced m_reduce_far(float x) {
  uint ix = floatBitsToUint(x);
  if (ix >= 0x7f800000u) return Reduced(M_NAN, 0u);
  uint m = (ix & 0x007fffffu) | 0x00800000u;
  uint o = (ix >> 23) - 120u;
  uint i = o >> 5, s = o & 31u;
  uint w0 = m_two_over_pi(i), w1 = m_two_over_pi(i + 1u), w2 = m_two_over_pi(i + 2u), w3 = m_two_over_pi(i + 3u);
  uint h1, l1, h2, l2, carry;
  umulExtended(m, m_window(w1, w2, s), h1, l1);
  umulExtended(m, m_window(w2, w3, s), h2, l2);
  uint lo = uaddCarry(l1, h2, carry);
  uint hi = h1 + carry + m * m_window(w0, w1, s);
  uint q = (hi + 0x20000000u) >> 30;
  int top = int(hi - (q << 30));
  // The signed fraction in pieces of 16, 24 and 24 bits, each exact as a float, in units of pi/2.
  precise float a = float(top >> 16) * 1.52587890625e-5 * 4.0;
  precise float b = float(int((uint(top) & 0xffffu) << 8 | (lo >> 24))) * 9.094947017729282e-13 * 4.0;
  precise float c = float(int(lo & 0xffffffu)) * 5.421010862427522e-20 * 4.0;
  precise float h = a + b;
  precise float l = (b - (h - a)) + c;
  precise float v = h + l;
  precise float d = l - (v - h);
  precise float r = v * M_PI_2 + (v * M_PI_2_LO + d * M_PI_2);
  return Reduced(r, q & 3u);
}
// Cody and Waite's reduction up to 1024 multiples: each but the last of the four parts of pi/2 times such a
// multiple is exact, so that the result is the same with and without a fused multiply-add.
Reduced m_reduce(float x) {
  float a = m_abs(x);
  precise float t = fma(a, 0.636619772367581343, M_MAGIC);
  precise float n = t - M_MAGIC;
  precise float r = fma(n, -1.57080078125, a);
  r = fma(n, 4.454515874385833740234375e-6, r);
  r = fma(n, -6.0772720189561368897557258606e-11, r);
  r = fma(n, 1.71512451000588187280393448475e-15, r);
  Reduced d = Reduced(r, floatBitsToUint(t) & 3u);
  [[dont_flatten]] if (!(a < 1608.0)) d = m_reduce_far(a);
  return d;
}

// Magnitude of `a` (not negative) with the sign of `s`.
float m_with_sign(float a, float s) {
  precise float result = m_from_bits(m_bits(a) | (m_bits(s) & 0x80000000));
  return result;
}

// 2^k for k in -126..=127.
float m_pow2(int k) {
  precise float result = m_from_bits(uint((k + 127) << 23));
  return result;
}

// y * 2^k, rounding once more where the result is subnormal.
float m_scale2(float y, int k) {
  int i = clamp(k, -252, 254);
  int h = i >> 1;
  precise float result = y * m_pow2(h) * m_pow2(i - h);
  return result;
}

// (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2.
float m_exp_poly(float r) {
  precise float result = fma(fma(fma(fma(fma(1.9875691500e-4, r, 1.3981999507e-3), r, 8.3334519073e-3), r,
      4.1665795894e-2), r, 1.6666665459e-1), r, 5.0000001201e-1);
  return result;
}

// exp(r) on |r| <= ln(2)/2.
float m_exp_near(float r) {
  precise float result = fma(m_exp_poly(r), r * r, r) + 1.0;
  return result;
}

// p * 2^n; the low bits of `u` hold n.
float m_exp_scaled(float p, uint u) {
  // In two factors, because the power may lie outside of the range.
  uint h = u >> 1;
  precise float result = p * uintBitsToFloat((h << 23) + 0x3f800000u) *
      uintBitsToFloat(((u - h) << 23) + 0x3f800000u);
  return result;
}

// exp(x + lo) * 2^k for small `lo` and k in -1..=0. By the polynomial on every device: powers that are whole come out so.
float m_exp_k(float x0, float lo, int k) {
  // The upper bound is for the exponent alone: NaN and large numbers go on to the polynomial.
  float x = x0 < -110.0 ? -110.0 : x0;
  precise float t = fma(min(x, 90.0), M_LOG2E, M_MAGIC);
  precise float n = t - M_MAGIC;
  precise float r = fma(n, -M_LN2_LO, fma(n, -M_LN2_HI, x)) + lo;
  return m_exp_scaled(m_exp_near(r), floatBitsToUint(t) + uint(k));
}

// As above for lo = 0 and k = 0, which no optimiser may leave out: it would lose the sign of a zero.
float m_exp(float x0) {
  float x = x0 < -110.0 ? -110.0 : x0;
  precise float t = fma(min(x, 90.0), M_LOG2E, M_MAGIC);
  precise float n = t - M_MAGIC;
  precise float r = fma(n, -M_LN2_LO, fma(n, -M_LN2_HI, x));
#ifdef FUSED_FMA
  // The instruction of these GPUs is good to two ULP so close to one.
  precise float p = exp2(r * M_LOG2E);
#else
  precise float p = m_exp_near(r);
#endif
  return m_exp_scaled(p, floatBitsToUint(t));
}

float m_expm1(float x0) {
  precise float x = m_sel(x0 > 89.0, 89.0, m_sel(x0 < -30.0, -30.0, x0));
  precise float t = x * M_LOG2E + M_MAGIC;
  precise float n = t - M_MAGIC;
  int i = (int(m_bits(t)) - 0x4b400000);
  precise float r = (x - n * M_LN2_HI) - n * M_LN2_LO;
  precise float em = m_exp_poly(r) * (r * r) + r;
  precise float s = m_pow2(clamp(i - 1, -126, 127));
  precise float y = (s * em + (s - 0.5)) * 2.0;
  precise float result = m_sel(i == 0, m_sel(x == 0.0, x, em), y);
  return result;
}

// Mantissa of a positive, finite x in [sqrt(1/2), sqrt(2)).
float m_log_mantissa(float x) {
  uint ix = m_bits(m_sel(x < 1.17549435e-38, x * 8388608.0, x));
  precise float result = m_from_bits(ix - ((ix - 0x3f3504f3u) & 0xff800000u));
  return result;
}

// The exponent that goes with `log_mantissa`.
int m_log_exponent(float x) {
  uint ix = m_bits(m_sel(x < 1.17549435e-38, x * 8388608.0, x));
  int e = int(ix - 0x3f3504f3u) >> 23;
  return e - (x < 1.17549435e-38 ? 23 : 0);
}

// log(1 + f) - f + f^2/2 on the mantissa's range.
float m_log_poly(float f) {
  precise float p = m_ma(m_ma(m_ma(m_ma(m_ma(m_ma(m_ma(m_ma(7.0376836292e-2, f, -1.1514610310e-1), f, 1.1676998740e-1), f,
      -1.2420140846e-1), f, 1.4249322787e-1), f, -1.6668057665e-1), f, 2.0000714765e-1), f,
      -2.4999993993e-1), f, 3.3333331174e-1);
  precise float result = p * f * (f * f);
  return result;
}

// `r` where x is positive and finite, else what a logarithm gives there.
float m_log_special(float x, float r) {
  uint ix = m_bits(x);
  precise float other = m_sel(ix == 0x7f800000 || m_is_nan(x), x, m_sel((ix & 0x7fffffff) == 0, -M_INF, M_NAN));
  precise float result = m_sel((ix - 1u) < 0x7f7fffffu, r, other);
  return result;
}

// e * ln(2) + log(1 + f).
float m_log_sum(float e, float f) {
  precise float y = (m_log_poly(f) + e * M_LN2_LO) - 0.5 * (f * f);
  precise float result = f + y + e * M_LN2_HI;
  return result;
}

float m_log(float x) {
  precise float result = m_log_special(x, m_log_sum(float(m_log_exponent(x)), m_log_mantissa(x) - 1.0));
  return result;
}

float m_log2(float x) {
  precise float e = float(m_log_exponent(x));
  precise float f = m_log_mantissa(x) - 1.0;
  precise float y = m_log_poly(f) - 0.5 * (f * f);
  precise float c = 0.44269504088896340736;
  precise float result = m_log_special(x, y * c + f * c + y + f + e);
  return result;
}

float m_log10(float x) {
  precise float e = float(m_log_exponent(x));
  precise float f = m_log_mantissa(x) - 1.0;
  precise float y = m_log_poly(f) - 0.5 * (f * f);
  precise float r = (f + y) * 7.00731903251827651129e-4 + y * 4.3359375e-1 + f * 4.3359375e-1;
  precise float result = m_log_special(x, r + e * 2.48745663981195213739e-4 + e * 3.0078125e-1);
  return result;
}

float m_log1p(float x) {
  precise float u = 1.0 + x;
  int e = m_log_exponent(u);
  precise float s = m_pow2(clamp(-e, -126, 126));
  precise float f = m_sel(e > 25, m_log_mantissa(u) - 1.0, (s - 1.0) + s * x);
  precise float r = m_log_sum(float(e), f);
  precise float result = m_sel(m_abs(x) < 1e-30, x, m_log_special(u, r));
  return result;
}

float m_sin_poly(float r) {
  precise float z = r * r;
  precise float p = fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1);
  precise float result = fma(p * z, r, r);
  return result;
}

float m_cos_poly(float r) {
  precise float z = r * r;
  precise float p = fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2);
  precise float result = fma(p, z * z, fma(-0.5, z, 1.0));
  return result;
}

// Sine of the reduced argument, `q` quadrants on; bit 31 of `sign` turns it over.
float m_sin_quadrant(float r, uint q, uint sign) {
  precise float y = m_sel((q & 1u) != 0u, m_cos_poly(r), m_sin_poly(r));
  precise float result = m_from_bits(m_bits(y) ^ ((q & 2u) << 30) ^ (sign & 0x80000000u));
  return result;
}

float m_sin(float x) {
  Reduced d = m_reduce(x);
  precise float result = m_sin_quadrant(d.r, d.q, m_bits(x));
  return result;
}

float m_cos(float x) {
  Reduced d = m_reduce(x);
  precise float result = m_sin_quadrant(d.r, d.q + 1u, 0u);
  return result;
}

float m_tan(float x) {
  Reduced d = m_reduce(x);
  precise float z = d.r * d.r;
  precise float p = fma(fma(fma(fma(fma(9.38540185543e-3, z, 3.11992232697e-3), z, 2.44301354525e-2), z,
      5.34112807005e-2), z, 1.33387994085e-1), z, 3.33331568548e-1);
  precise float t = fma(p * z, d.r, d.r);
  precise float y = t;
  if ((d.q & 1u) != 0u) y = m_div(-1.0, t);
  precise float result = m_from_bits(m_bits(y) ^ (m_bits(x) & 0x80000000u));
  return result;
}

// asin on |x| <= 1/2.
float m_asin_poly(float x) {
  precise float z = x * x;
  precise float p = (((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2)
      * z + 1.6666752422e-1;
  precise float result = p * z * x + x;
  return result;
}

float m_asin(float x) {
  precise float a = m_abs(x);
  bool big = a > 0.5;
  precise float y = m_asin_poly(m_sel(big, m_sqrt(0.5 * (1.0 - a)), a));
  precise float r = m_sel(big, M_PI_2 - (2.0 * y - M_PI_2_LO), y);
  precise float result = m_sel(a <= 1.0, m_with_sign(r, x), M_NAN);
  return result;
}

float m_acos(float x) {
  precise float a = m_abs(x);
  bool big = a > 0.5;
  precise float y = m_asin_poly(m_sel(big, m_sqrt(0.5 * (1.0 - a)), x));
  precise float tail = m_sel(x < 0.0, 2.0 * M_PI_2 - (2.0 * y - 2.0 * M_PI_2_LO), 2.0 * y);
  precise float result = m_sel(a <= 1.0, m_sel(big, tail, M_PI_2 - (y - M_PI_2_LO)), M_NAN);
  return result;
}

// atan on |t| <= tan(pi/8).
float m_atan_poly(float t) {
  precise float z = t * t;
  precise float p = m_ma(m_ma(m_ma(8.05374449538e-2, z, -1.38776856032e-1), z, 1.99777106478e-1), z, -3.33329491539e-1);
  precise float result = m_ma(p * z, t, t);
  return result;
}

float m_atan(float x) {
  precise float a = m_abs(x);
  bool big = a > 2.414213562373095;
  bool mid = a > 0.4142135623730950;
  precise float n = m_sel(big, -1.0, m_sel(mid, a - 1.0, a));
  precise float d = m_sel(big, a, m_sel(mid, a + 1.0, 1.0));
  precise float y = m_atan_poly(m_div(n, d));
  precise float base = m_sel(big, M_PI_2, m_sel(mid, 0.5 * M_PI_2, 0.0));
  precise float low = m_sel(big, M_PI_2_LO, m_sel(mid, 0.5 * M_PI_2_LO, 0.0));
  precise float result = m_sel(m_is_nan(x), x, m_with_sign(base + (y + low), x));
  return result;
}

float m_atan2(float y, float x) {
  precise float ax = m_abs(x);
  precise float ay = m_abs(y);
  bool swap = ay > ax;
  precise float lo = m_sel(swap, ax, ay);
  precise float hi = m_sel(swap, ay, ax);
  precise float t = m_sel(lo == hi, m_sel(lo == 0.0, 0.0, 1.0), m_div(lo, m_sel(hi == 0.0, 1.0, hi)));
  bool mid = t > 0.4142135623730950;
  precise float u = m_sel(mid, m_div_near(t - 1.0, t + 1.0), t);
  precise float p = m_atan_poly(u);
  precise float b0 = m_sel(mid, 0.25, 0.0);
  precise float b1 = m_sel(swap, 0.5 - b0, b0);
  precise float p1 = m_sel(swap, -p, p);
  bool neg = (m_bits(x) >> 31) != 0;
  precise float b2 = m_sel(neg, 1.0 - b1, b1);
  precise float p2 = m_sel(neg, -p1, p1);
  precise float r = m_sel(b2 == 0.0, p2, b2 * (2.0 * M_PI_2) + (p2 + b2 * (2.0 * M_PI_2_LO)));
  precise float result = m_sel(m_is_nan(x) || m_is_nan(y), M_NAN, m_with_sign(m_abs(r), y));
  return result;
}

float m_sinh(float x) {
  precise float a = m_abs(x);
  precise float z = x * x;
  precise float small = ((2.03721912945e-4 * z + 8.33028376239e-3) * z + 1.66667160211e-1) * z * x + x;
  precise float e = m_exp_k(a, 0.0, -1);
  precise float big = e - m_div(0.25, e);
  precise float result = m_sel(a < 1.0, small, m_sel(m_is_nan(x), x, m_with_sign(big, x)));
  return result;
}

float m_cosh(float x) {
  precise float e = m_exp_k(m_abs(x), 0.0, -1);
  precise float result = e + m_div(0.25, e);
  return result;
}

float m_tanh(float x) {
  precise float a = m_abs(x);
  precise float z = x * x;
  precise float p = m_ma(m_ma(m_ma(m_ma(-5.70498872745e-3, z, 2.06390887954e-2), z, -5.37397155531e-2), z,
      1.33314422036e-1), z, -3.33332819422e-1);
  precise float big = 1.0 - m_div_near(2.0, m_exp(2.0 * m_sel(a > 10.0, 10.0, a)) + 1.0);
  precise float result = m_sel(a < 0.625, m_sel(x == 0.0, x, m_ma(p * z, x, x)), m_sel(m_is_nan(x), x,
      m_with_sign(big, x)));
  return result;
}

float m_asinh(float x) {
  precise float a = m_abs(x);
  precise float z = x * x;
  precise float p = ((2.0122003309e-2 * z - 4.2699340972e-2) * z + 7.4847586088e-2) * z - 1.6666288134e-1;
  precise float c = m_sel(a > 1e9, 1.0, a);
  precise float l = m_log1p(m_sel(a > 1e9, a, c + m_div(c * c, 1.0 + m_sqrt(1.0 + c * c))));
  precise float big = m_sel(a > 1e9, l + 0.69314718055994531, l);
  precise float result = m_sel(a < 0.5, m_sel(x == 0.0, x, p * z * x + x), m_sel(m_is_nan(x), x,
      m_with_sign(big, x)));
  return result;
}

float m_acosh(float x) {
  precise float t = x - 1.0;
  bool big = x > 1e9;
  precise float l = m_log1p(m_sel(big, x, t + m_sqrt(2.0 * t + t * t)));
  precise float result = m_sel(x < 1.0, M_NAN, m_sel(big, l + 0.69314718055994531, l));
  return result;
}

float m_atanh(float x) {
  precise float a = m_abs(x);
  precise float z = x * x;
  precise float p = (((1.81740078349e-1 * z + 8.24370301058e-2) * z + 1.46691431730e-1) * z +
      1.99782164500e-1) * z + 3.33337300303e-1;
  precise float big = 0.5 * m_log1p(m_div(2.0 * a, 1.0 - a));
  precise float result = m_sel(a < 0.5, p * z * x + x, m_sel(a <= 1.0, m_with_sign(big, x), M_NAN));
  return result;
}

// 1 / (1 + exp(-x)), small results included.
float m_sigmoid(float x) {
  precise float e = m_exp(-m_abs(x));
  precise float result = m_div(m_sel(x < 0.0, e, 1.0), 1.0 + e);
  return result;
}

#include "lib/math_wide.glsl"

// Error function: x times a polynomial in x^2 up to 0.95, 1 - 2^polynomial above; from 4 on the result is 1. Both
// sides are computed: without a branch that is about thirty operations, which loads and stores hide. The
// polynomials are weighted least squares fits of our own, reweighted until their error is level; of the power of
// two a quarter of the result's accuracy is enough, because it is at most 0.18 there. NaN takes the first side.
float m_erf(float x) {
  float a = m_abs(x);
  precise float s = x * x;
  float p = fma(fma(fma(fma(fma(-5.862082471139729e-4, s, 4.967506974935532e-3), s, -2.6748863980174065e-2), s,
      1.1281320452690125e-1), s, -3.7612447142601013e-1), s, 1.2837913632392883e-1);
  float t = min(a, 4.0);
  float q = fma(fma(fma(fma(fma(fma(2.8100472991354764e-4, t, -4.373990930616856e-3), t, 3.200097382068634e-2), t,
      -1.498049944639206e-1), t, -9.194157123565674e-1), t, -1.6267991065979004), t, -3.048605867661536e-4);
#ifdef FUSED_FMA
  // The instruction of these GPUs is good to two ULP of such a power.
  precise float far = 1.0 - exp2(q);
#else
  precise float u = q + M_MAGIC;
  precise float n = u - M_MAGIC;
  precise float r = q - n;
  float e = fma(fma(fma(fma(fma(1.326472731307149e-3, r, 9.671512991189957e-3), r, 5.550733581185341e-2), r,
      2.4022242426872253e-1), r, 6.931470036506653e-1), r, 1.0);
  precise float far = 1.0 - m_from_bits(m_bits(e) + (m_bits(u) << 23));
#endif
  precise float near = fma(p, x, x);
  return a > 0.95 ? m_with_sign(far, x) : near;
}

// Inverse error function, after M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012).
float m_erfinv(float x) {
  precise float a = m_abs(x);
#ifdef FUSED_FMA
  // The instructions of these GPUs are off by 2^-21 at most where that matters.
  precise float w = log2((1.0 - a) * (1.0 + a)) * -0.693147180559945309;
#else
  precise float w = -m_log((1.0 - a) * (1.0 + a));
#endif
  precise float u = w - 2.5;
  precise float center = (((((((2.81022636e-8 * u + 3.43273939e-7) * u - 3.5233877e-6) * u - 4.39150654e-6)
      * u + 2.1858087e-4) * u - 1.25372503e-3) * u - 4.17768164e-3) * u + 2.46640727e-1) * u + 1.50140941;
#ifdef FUSED_FMA
  precise float v = sqrt(w) - 3.0;
#else
  precise float v = m_sqrt(w) - 3.0;
#endif
  precise float tail = (((((((-2.00214257e-4 * v + 1.00950558e-4) * v + 1.34934322e-3) * v - 3.67342844e-3)
      * v + 5.73950773e-3) * v - 7.6224613e-3) * v + 9.43887047e-3) * v + 1.00167406) * v + 2.83297682;
  precise float r = m_sel(w < 5.0, center, tail) * x;
  precise float result = m_sel(a < 1.0, r, m_sel(a == 1.0, m_with_sign(M_INF, x), M_NAN));
  return result;
}

// Bits of the nearest 8-bit float (E4M3), to even; what is too large, NaN included, becomes the largest value.
uint m_to_fp8(float x) {
  uint u = m_bits(x) & 0x7fffffffu;
  // Adding 2^14 leaves a small value in units of 2^-9, rounded, in the low bits.
  precise float small = m_from_bits(u) + 16384.0;
  uint code = u < 0x3c800000u ? m_bits(small) - 0x46800000u : (u - 0x3c000000u + 0x7ffffu + ((u >> 20) & 1u)) >> 20;
  return (u < 0x43e80000u ? min(code, 0x7eu) : 0x7eu) | ((m_bits(x) >> 24) & 0x80u);
}

// Value of the bits of an 8-bit float, exactly.
float m_from_fp8(uint code) {
  uint m = code & 0x7fu;
  uint u = m < 8u ? m_bits(float(m) * 0.001953125) : (m << 20) + 0x3c000000u;
  return m_from_bits((m == 0x7fu ? 0x7fc00000u : u) | ((code & 0x80u) << 24));
}
#if !defined(PRESERVE_NAN) && !defined(FUSED_FMA)
#undef fma
#endif
#include "lib/math_half.glsl"
