// What src/kernels/elementwise/scalar.rs computes in float64, for lib/math.glsl: numbers as sums of two floats or in fixed
// point, pow over the former, and logaddexp, whose terms may cancel further than two floats resolve.

// Exact a + b for |a| >= |b| (Dekker).
Two m_fast_sum(float a, float b) {
  precise float s = a + b;
  precise float e = b - (s - a);
  return m_two(s, e);
}

// Exact a + b (Knuth).
Two m_exact_sum(float a, float b) {
  precise float s = a + b;
  precise float t = s - a;
  precise float e = (a - (s - t)) + (b - t);
  return m_two(s, e);
}

// Exact a * b: by what a fused product leaves, or by splitting each factor into halves of 12 bits (Dekker).
Two m_exact_mul(float a, float b) {
  precise float p = a * b;
#ifdef FUSED_FMA
  precise float e = fma(a, b, -p);
#else
  precise float ah = m_from_bits(m_bits(a) & 0xfffff000);
  precise float bh = m_from_bits(m_bits(b) & 0xfffff000);
  precise float al = a - ah;
  precise float bl = b - bh;
  precise float e = (((ah * bh - p) + ah * bl) + al * bh) + al * bl;
#endif
  return m_two(p, e);
}

Two m_mul2(Two a, Two b) {
  Two p = m_exact_mul(a.hi, b.hi);
  precise float e = p.lo + (a.hi * b.lo + a.lo * b.hi);
  return m_fast_sum(p.hi, e);
}

Two m_add2(Two a, Two b) {
  Two s = m_exact_sum(a.hi, b.hi);
  return m_fast_sum(s.hi, s.lo + (a.lo + b.lo));
}

// a * b - p for p near a * b, exact where nothing under- or overflows.
float m_product_rest(float a, float b, float p) {
#ifdef FUSED_FMA
  precise float e = fma(a, b, -p);
#else
  Two w = m_exact_mul(a, b);
  precise float e = w.lo - (p - w.hi);
#endif
  return e;
}

// 2^(b log2 a) for a positive and finite, b finite. With a = 2^e m and s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)),
// log2(m) is 2 / ln(2) atanh(s), whose first term is held as a sum of two floats and the others (1 % of it) as one: at
// most 2.3 ULP for the largest results, where p is 128, and so near for small p that powers which are floats come out so.
float m_pow_positive(float a, float b) {
  uint ia = m_bits(a);
  bool tiny = ia < 0x00800000u;
  // A device may take subnormal numbers for zero; as a whole number it is none.
  uint ix = tiny ? m_bits(float(ia)) : ia;
  uint top = ix - 0x3f3504f3u;
  precise float e = float(int(top) >> 23) + (tiny ? -149.0 : 0.0);
  float m = m_from_bits(ix - (top & 0xff800000u));
  precise float n = m - 1.0;
  precise float d = n + 2.0;
  precise float dl = n - (d - 2.0);
  precise float y = 1.0 / d;
  precise float s = n * y;
  precise float sl = (-m_product_rest(s, d, n) - s * dl) * y;
  precise float z = s * s;
  float r = fma(fma(fma(0.34021856927475, z, 0.4117063325854578), z, 0.5770828521863443), z, 0.9617966791927458);
  precise float h = s * 2.885390043258667;
  precise float hl = m_product_rest(s, 2.885390043258667, h);
  precise float c = sl * 2.885390043258667;
  precise float tail = fma(s * z, r, hl + fma(s, 3.851926067000022e-8, fma(c, z, c)));
  precise float u = e + h;
  precise float ul = (h - (u - e)) + tail;
  precise float l = u + ul;
  precise float ll = ul - (l - u);
  precise float p0 = l * b;
  precise float p = clamp(p0, -160.0, 160.0);
  // Where p is cut off the rest does not count, and may be no number.
  precise float pl = p == p0 ? m_product_rest(l, b, p0) + ll * b : 0.0;
  precise float t = p + M_MAGIC;
  precise float f = (p - (t - M_MAGIC)) + pl;
  float q = fma(fma(fma(fma(fma(fma(1.5196154394263306e-5, f, 1.5466756525047212e-4), f, 1.3333935065851232e-3), f,
      9.618038131290894e-3), f, 5.550410365977085e-2), f, 2.4022651066567696e-1), f, 6.931471807045377e-1);
  precise float v = fma(q, f, 1.0);
  return m_exp_scaled(v, m_bits(t));
}

// What is left of a^b besides positive finite a and finite b; `r` is |a|^b where both are finite and a is not zero.
float m_pow_special(float a, float b, float r) {
  precise float aa = m_abs(a);
  precise float ab = m_abs(b);
  bool whole = ab >= 8388608.0 || ab == ((ab + 8388608.0) - 8388608.0);
  precise float halved = 0.5 * ab;
  bool odd = whole && ab < 16777216.0 && halved != ((halved + 8388608.0) - 8388608.0);
  bool neg = (m_bits(a) >> 31) != 0;
  bool safe = m_bits(aa) - 1u < 0x7f7fffffu;
  bool up = (aa > 1.0) == (b > 0.0);
  precise float edge = m_sel(ab == M_INF, m_sel(aa == 1.0, 1.0, m_sel(up, M_INF, 0.0)), m_sel(up, M_INF, 0.0));
  precise float mag = m_sel(safe && ab < M_INF, r, edge);
  precise float signed = m_from_bits(m_bits(mag) ^ (neg && odd ? 0x80000000u : 0u));
  precise float valid = m_sel(neg && !whole && safe, M_NAN, signed);
  precise float n = m_sel(m_is_nan(a) || m_is_nan(b), M_NAN, valid);
  precise float result = m_sel(b == 0.0 || a == 1.0, 1.0, n);
  return result;
}

float m_pow(float a, float b) {
  // Exponents that all elements share mostly.
  if (b == 2.0) return a * a;
  if (b == 3.0) return a * a * a;
  float r = m_pow_positive(m_abs(a), b);
  bool plain = m_bits(a) - 1u < 0x7f7fffffu && (m_bits(b) & 0x7fffffffu) < 0x7f800000u;
  return plain ? r : m_pow_special(a, b, r);
}

// exp(x) - 1 for x <= 0 (or exp(x) with `whole`), to about 2^-45.
Two m_exp_two(float x0, bool whole) {
  float x = x0 < -104.0 ? -104.0 : x0;
  precise float t = fma(x, M_LOG2E, M_MAGIC);
  precise float n = t - M_MAGIC;
  precise float head = x - n * M_LN2_HI;
  Two p = m_exact_mul(n, 2.12194442e-4);
  precise float rest = p.lo - n * 1.64659497e-12;
  Two r = m_add2(m_two(head, 0.0), m_fast_sum(p.hi, rest));
  precise float tail = fma(fma(fma(fma(fma(2.08767570e-9, r.hi, 2.50521084e-8), r.hi, 2.755732e-7), r.hi,
      2.75573188e-6), r.hi, 2.48015876e-5), r.hi, 1.98412701e-4);
  Two y = m_add2(m_two(1.38888892e-3, -3.36310944e-11), m_exact_mul(r.hi, tail));
  y = m_add2(m_two(8.33333377e-3, -4.34617203e-10), m_mul2(r, y));
  y = m_add2(m_two(4.16666679e-2, -1.24176347e-9), m_mul2(r, y));
  y = m_add2(m_two(0.166666672, -4.96705388e-9), m_mul2(r, y));
  y = m_add2(m_two(0.5, 0.0), m_mul2(r, y));
  y = m_mul2(r, m_add2(m_two(1.0, 0.0), m_mul2(r, y)));
  if (n == 0.0 && !whole) return y;
  y = m_add2(m_two(1.0, 0.0), y);
  int k = int(floatBitsToUint(t)) - 0x4b400000;
  y = m_two(m_scale2(y.hi, k), m_scale2(y.lo, k));
  return whole ? y : m_add2(y, m_two(-1.0, 0.0));
}

// Numbers below 2 in units of 2^-95, the most significant word first: for a difference whose terms cancel
// further than two floats resolve.
uvec3 m_fixed_sub(uvec3 x, uvec3 y) {
  uint b0, b1;
  uint z = usubBorrow(x.z, y.z, b0);
  uint t = usubBorrow(x.y, y.y, b1);
  return uvec3(x.x - y.x - b1 - (t < b0 ? 1u : 0u), t - b0, z);
}
uvec3 m_fixed_add(uvec3 x, uvec3 y) {
  uint c0, c1;
  uint z = uaddCarry(x.z, y.z, c0);
  uint t = uaddCarry(x.y, y.y, c1);
  return uvec3(x.x + y.x + c1 + (t + c0 < t ? 1u : 0u), t + c0, z);
}
// x * m / 2^32.
uvec3 m_fixed_times(uvec3 x, uint m) {
  uint h0, l0, h1, l1, h2, l2;
  umulExtended(x.x, m, h0, l0);
  umulExtended(x.y, m, h1, l1);
  umulExtended(x.z, m, h2, l2);
  return m_fixed_add(uvec3(h0, l0, l1), uvec3(0u, h1, h2));
}
uvec3 m_fixed_down(uvec3 x, uint by) {
  if (by >= 96u) return uvec3(0u);
  if (by >= 64u) x = uvec3(0u, 0u, x.x);
  else if (by >= 32u) x = uvec3(0u, x.x, x.y);
  by &= 31u;
  if (by == 0u) return x;
  return uvec3(x.x >> by, (x.y >> by) | (x.x << (32u - by)), (x.z >> by) | (x.y << (32u - by)));
}
uvec3 m_fixed_up(uvec3 x, uint by) {
  return uvec3((x.x << by) | (x.y >> (32u - by)), (x.y << by) | (x.z >> (32u - by)), x.z << by);
}
uvec3 m_fixed_mul(uvec3 x, uvec3 y) {
  uvec3 sum = m_fixed_add(m_fixed_down(m_fixed_times(x, y.z), 64u), m_fixed_down(m_fixed_times(x, y.y), 32u));
  return m_fixed_up(m_fixed_add(sum, m_fixed_times(x, y.x)), 1u);
}
// x / k for small k, 16 bits at a time.
uvec3 m_fixed_over(uvec3 x, uint k) {
  uint r = 0u;
  [[dont_unroll]] for (uint i = 0u; i < 3u; ++i) {
    uint high = (r << 16) | (x[i] >> 16);
    r = high % k;
    uint low = (r << 16) | (x[i] & 0xffffu);
    r = low % k;
    x[i] = ((high / k) << 16) | (low / k);
  }
  return x;
}
// log(exp(hi) + exp(lo)) for hi in [-0.7, 0), lo in [-110, -0.6] whose exponentials add up to nearly one: the
// logarithm of 1 + (exp(lo) - (1 - exp(hi))), both terms by Taylor's series to 2^-80 of themselves.
float m_logaddexp_exact(float hi, float lo) {
  const uvec3 one = uvec3(0x80000000u, 0u, 0u), ln2 = uvec3(0xb17217u, 0xf7d1cf79u, 0xabc9e3b3u);  // ln(2) * 2^88
  int eh, el;
  uint h = (m_bits(m_split(hi, eh)) << 8) | 0x80000000u, l = (m_bits(m_split(lo, el)) << 8) | 0x80000000u;
  // |hi| = h * 2^(eh - 32), and so for lo, whose exponent is in -1..=6.
  ++eh;
  ++el;
  // (1 - exp(hi)) / |hi|.
  uvec3 g = one;
  [[dont_unroll]] for (uint k = 24u; k > 1u; --k)
    g = m_fixed_sub(one, m_fixed_over(m_fixed_down(m_fixed_times(g, h), uint(-eh)), k));
  uvec3 y = m_fixed_times(g, h);
  // |lo| = n ln(2) + f.
  uint n = uint(m_abs(lo) * 1.44269502);
  uvec3 f = m_fixed_down(uvec3(l, 0u, 0u), uint(8 - el));
  uvec3 less = m_fixed_times(uvec3(ln2.y, ln2.z, 0u), n);
  f = m_fixed_sub(f, uvec3(less.x + ln2.x * n, less.y, less.z));
  if (f.x >= 0x80000000u) {
    f = m_fixed_add(f, ln2);
    --n;
  }
  f = m_fixed_up(f, 7u);
  uvec3 x = one;
  [[dont_unroll]] for (uint k = 24u; k > 0u; --k) x = m_fixed_sub(one, m_fixed_over(m_fixed_mul(x, f), k));
  // exp(lo) = x * 2^-n and 1 - exp(hi) = y * 2^eh, in units of the larger scale.
  int scale = max(eh, -int(n));
  uvec3 d = m_fixed_sub(m_fixed_down(x, uint(scale + int(n))), m_fixed_down(y, uint(scale - eh)));
  bool minus = d.x >= 0x80000000u;
  if (minus) d = m_fixed_sub(uvec3(0u), d);
  int top = d.x != 0u ? 64 : d.y != 0u ? 32 : 0;
  uint word = top == 64 ? d.x : top == 32 ? d.y : d.z, next = top == 64 ? d.y : top == 32 ? d.z : 0u;
  if (word == 0u) return 0.0;
  int up = 31 - findMSB(word);
  if (up > 0) word = (word << up) | (next >> (32 - up));
  precise float s = m_scale2(float(word), scale - 95 + top - up);
  s = minus ? -s : s;
  precise float result = s - 0.5 * (s * s);
  return result;
}

// exp(x + lo) for x of at most zero and small `lo`.
float m_exp_below(float x0, float lo) {
#ifdef FUSED_FMA
  precise float x = x0 < -110.0 ? -110.0 : x0;
  precise float t = fma(x, M_LOG2E, M_MAGIC);
  precise float n = t - M_MAGIC;
  precise float r = fma(n, -M_LN2_LO, fma(n, -M_LN2_HI, x)) + lo;
  precise float p = exp2(r * M_LOG2E);
  return m_exp_scaled(p, floatBitsToUint(t));
#else
  return m_exp_k(x0, lo, 0);
#endif
}

// log(1 + x) for x from zero to one.
float m_log1p_share(float x) {
  bool half_ = x > 0.41421356;
  precise float f = m_sel(half_, 0.5 * x - 0.5, x);
  return m_log_sum(m_sel(half_, 1.0, 0.0), f);
}

// log(exp(a) + exp(b)).
float m_logaddexp(float a, float b) {
  precise float hi = m_sel(a > b, a, b);
  precise float lo = m_sel(a > b, b, a);
  precise float r;
  [[dont_flatten]] if (hi < 0.0 && hi > -2.0) {
    // The result may be near zero, or much nearer than `hi`.
    Two s = m_add2(m_exp_two(hi, false), m_exp_two(lo, true));
    r = m_log1p(s.hi) + s.lo;
    [[dont_flatten]] if (m_abs(r) < hi * -1.52587890625e-5) r = m_logaddexp_exact(hi, lo);
  } else {
    Two d = m_exact_sum(lo, -hi);
    r = hi + m_log1p_share(m_exp_below(d.hi, m_sel(d.hi > -110.0, d.lo, 0.0)));
  }
  precise float result = m_sel(m_is_nan(a) || m_is_nan(b), M_NAN, m_sel(m_abs(hi) == M_INF || lo == -M_INF,
      hi, r));
  return result;
}
