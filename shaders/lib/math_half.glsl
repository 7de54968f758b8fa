// Functions of float16 and bfloat16 values, held as float: within 2^-17 of the exact value, of which the nearest float16
// keeps 2^-12. On GPUs whose exp2, log2, division and square root are good to a few ULP of float (FUSED_FMA) they rest on
// these; elsewhere, and outside of the range that each one names, they are the functions of float. The polynomials are
// least squares fits of our own, reweighted until their relative error is level: 2^-19 or less.

float h_exp(float x) {
#ifdef FUSED_FMA
  return exp2(x * M_LOG2E);
#else
  return m_exp(x);
#endif
}

float h_tanh(float x) {
#ifdef FUSED_FMA
  float a = m_abs(x), z = x * x;
  float near = fma(fma(z, 0.12684547901153564, -0.33315548300743103), z, 1.0) * x;
  float far = fma(-2.0, 1.0 / (exp2(a * (2.0 * M_LOG2E)) + 1.0), 1.0);
  return a < 0.3 ? near : m_with_sign(far, x);
#else
  return m_tanh(x);
#endif
}

float h_sigmoid(float x) {
#ifdef FUSED_FMA
  float e = exp2(m_abs(x) * -M_LOG2E);
  return (x < 0.0 ? e : 1.0) * (1.0 / (1.0 + e));
#else
  return m_sigmoid(x);
#endif
}

// Whether x is positive, finite and normal.
bool h_plain(float x) { return floatBitsToUint(x) - 0x00800000u < 0x7f000000u; }

// log(1 + f) for |f| < 1/8.
float h_log_near(float f) {
  float p = fma(fma(fma(0.20373985171318054, f, -0.2532622814178467), f, 0.33331021666526794), f, -0.49998751282691956);
  return fma(p * f, f, f);
}

float h_log_scaled(float x, float near, float far) {
  float f = x - 1.0;
  return m_abs(f) < 0.125 ? h_log_near(f) * near : log2(x) * far;
}

float h_log(float x) {
#ifdef FUSED_FMA
  [[dont_flatten]] if (!h_plain(x)) return m_log(x);
  return h_log_scaled(x, 1.0, 0.693147180559945309);
#else
  return m_log(x);
#endif
}

float h_log2(float x) {
#ifdef FUSED_FMA
  [[dont_flatten]] if (!h_plain(x)) return m_log2(x);
  return h_log_scaled(x, M_LOG2E, 1.0);
#else
  return m_log2(x);
#endif
}

float h_log10(float x) {
#ifdef FUSED_FMA
  [[dont_flatten]] if (!h_plain(x)) return m_log10(x);
  return h_log_scaled(x, 0.434294481903251828, 0.301029995663981195);
#else
  return m_log10(x);
#endif
}

// Sine of n * pi + r, with |r| little above pi/2 and n in the low bits of `t`.
float h_sin_of(float r, float t) {
  precise float z = r * r;
  float p = fma(fma(-0.00018516206182539463, z, 0.008313491009175777), z, -0.16665801405906677);
  precise float y = fma(p * z, r, r);
  return m_from_bits(m_bits(y) ^ (m_bits(t) << 31));
}

// a - n * pi for n < 2^16 in halves: the first part of pi has 24 bits, of which the difference needs no more.
float h_reduced(float a, float n) {
  precise float r = fma(n, -1.5099580252808664e-7, fma(n, -3.141592502593994, a));
  return r;
}

float h_sin(float x) {
#ifdef FUSED_FMA
  float a = m_abs(x);
  [[dont_flatten]] if (!(a < 1e5)) return m_sin(x);
  precise float t = fma(a, 0.318309886183790672, M_MAGIC);
  precise float n = t - M_MAGIC;
  return m_from_bits(m_bits(h_sin_of(h_reduced(a, n), t)) ^ (m_bits(x) & 0x80000000u));
#else
  return m_sin(x);
#endif
}

float h_cos(float x) {
#ifdef FUSED_FMA
  float a = m_abs(x);
  [[dont_flatten]] if (!(a < 1e5)) return m_cos(x);
  precise float h = fma(a, 0.318309886183790672, 0.5);
  precise float t = h + M_MAGIC;
  precise float n = (t - M_MAGIC) - 0.5;
  return h_sin_of(h_reduced(a, n), t);
#else
  return m_cos(x);
#endif
}

float h_erf(float x) {
#ifdef FUSED_FMA
  float a = m_abs(x), s = x * x;
  float p = fma(fma(fma(fma(0.0037672112230211496, s, -0.025886069983243942), s, 0.11255892366170883), s,
      -0.37609803676605225), s, 1.1283787488937378);
  float t = min(a, 4.0);
  float q = fma(fma(fma(fma(0.009538075886666775, t, -0.09537851065397263), t, -0.9877970814704895), t,
      -1.5836799144744873), t, -0.011097514070570469);
  return a > 0.9 ? m_with_sign(1.0 - exp2(q), x) : p * x;
#else
  return m_erf(x);
#endif
}

// Between 2^-100 and 2^124.
bool h_moderate(float x) { return floatBitsToUint(x) - 0x0d800000u < 0x70000000u; }

float h_sqrt(float x) {
#ifdef FUSED_FMA
  [[dont_flatten]] if (!h_moderate(x)) return m_sqrt(x);
  return sqrt(x);
#else
  return m_sqrt(x);
#endif
}

float h_rsqrt(float x) {
#ifdef FUSED_FMA
  [[dont_flatten]] if (!h_moderate(x)) return m_rsqrt(x);
  return inversesqrt(x);
#else
  return m_rsqrt(x);
#endif
}

// By the device's functions unless the terms nearly cancel or one of them is no finite number.
float h_logaddexp(float a, float b) {
#ifdef FUSED_FMA
  precise float d = m_abs(a - b);
  float r = fma(log2(1.0 + exp2(d * -M_LOG2E)), 0.693147180559945309, max(a, b));
  [[dont_flatten]] if (!(d < 3e38) || m_abs(r) < 0.0625) return m_logaddexp(a, b);
  return r;
#else
  return m_logaddexp(a, b);
#endif
}
