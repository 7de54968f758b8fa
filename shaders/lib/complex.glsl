// complex64 as vec2, over math.glsl. Inverse functions follow W. Kahan, "Branch cuts for complex
// elementary functions" (1987); infinities, NaN and signed zeros are as annex G of C11 has them.

vec2 c_conj(vec2 z) { return vec2(z.x, m_neg(z.y)); }
// -i z and i z.
vec2 c_minus_i(vec2 z) { return vec2(z.y, m_neg(z.x)); }
vec2 c_times_i(vec2 z) { return vec2(m_neg(z.y), z.x); }
vec2 c_mul(vec2 a, vec2 b) {
  precise vec2 r = vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
  return r;
}
// Smith's method.
vec2 c_div_finite(vec2 a, vec2 b) {
  if (m_abs(b.x) >= m_abs(b.y)) {
    float t = m_div(b.y, b.x);
    precise float d = b.x + b.y * t;
    precise vec2 n = vec2(a.x + a.y * t, a.y - a.x * t);
    return vec2(m_div(n.x, d), m_div(n.y, d));
  }
  float t = m_div(b.x, b.y);
  precise float d = b.x * t + b.y;
  precise vec2 n = vec2(a.x * t + a.y, a.y * t - a.x);
  return vec2(m_div(n.x, d), m_div(n.y, d));
}
// x with the sign of y, which may be NaN.
float c_signed(float x, float y) { return m_from_bits((m_bits(x) & 0x7fffffffu) | (m_bits(y) & 0x80000000u)); }
float c_boxed(float x) { return m_signed(m_isinf(x) ? 1.0 : 0.0, x); }
// An infinity times x. Compilers take products with constant zeros for zero.
float c_scaled(float top, float x) {
  return m_abs(x) > 0.0 ? m_from_bits(m_bits(top) ^ (m_bits(x) & 0x80000000u)) : M_NAN;
}
vec2 c_times_conj(float f, vec2 a, vec2 b) {
  precise vec2 r = vec2(f * (a.x * b.x + a.y * b.y), f * (a.y * b.x - a.x * b.y));
  return r;
}
// Where both parts are NaN as C99's annex G has it: a number over zero is infinite, so is an infinite one over a finite
// one, and a finite number over an infinite one is zero.
vec2 c_div(vec2 a, vec2 b) {
  vec2 q = c_div_finite(a, b);
  if (!m_isnan(q.x) || !m_isnan(q.y)) return q;
  bool whole_a = m_isfinite(a.x) && m_isfinite(a.y), whole_b = m_isfinite(b.x) && m_isfinite(b.y);
  if (b == vec2(0.0) && !(m_isnan(a.x) && m_isnan(a.y))) {
    float top = m_signed(M_INF, b.x);
    return vec2(c_scaled(top, a.x), c_scaled(top, a.y));
  }
  if ((m_isinf(a.x) || m_isinf(a.y)) && whole_b)
    return c_times_conj(M_INF, vec2(c_boxed(a.x), c_boxed(a.y)), b);
  if ((m_isinf(b.x) || m_isinf(b.y)) && whole_a)
    return c_times_conj(0.0, a, vec2(c_boxed(b.x), c_boxed(b.y)));
  return q;
}
float c_abs(vec2 z) {
  float a = m_abs(z.x), b = m_abs(z.y);
  if (m_isinf(a) || m_isinf(b)) return M_INF;
  float hi = max(a, b), lo = min(a, b);
  if (m_isnan(a) || m_isnan(b)) return M_NAN;
  if (hi == 0.0) return 0.0;
  float t = m_div(lo, hi);
  precise float s = 1.0 + t * t;
  precise float r = hi * m_sqrt(s);
  return r;
}
vec2 c_sign(vec2 z) {
  float r = c_abs(z);
  return r == 0.0 ? vec2(0.0) : vec2(m_div(z.x, r), m_div(z.y, r));
}
bool c_finite(vec2 z) { return m_isfinite(z.x) && m_isfinite(z.y); }
bool c_isnan(vec2 z) { return m_isnan(z.x) || m_isnan(z.y); }
bool c_less(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
vec2 c_max(vec2 a, vec2 b) { return !c_isnan(a) && (c_isnan(b) || c_less(a, b)) ? b : a; }
vec2 c_min(vec2 a, vec2 b) { return !c_isnan(a) && (c_isnan(b) || c_less(b, a)) ? b : a; }
// From here on a square of a part, or the absolute value, may overflow.
bool c_far(vec2 z) { return max(m_abs(z.x), m_abs(z.y)) > 1e18; }
// Logarithm of the absolute value of what is far.
float c_far_log(vec2 z) { return m_log(c_abs(0.0625 * z)) + 2.77258872223978124; }
vec2 c_sqrt_near(vec2 z) {
  float r = c_abs(z);
  if (r == 0.0) return vec2(0.0, z.y);
  if (m_isinf(z.y)) return vec2(M_INF, z.y);
  if (m_isinf(z.x)) {
    if (z.x > 0.0) return vec2(z.x, m_isnan(z.y) ? z.y : c_signed(0.0, z.y));
    return vec2(m_isnan(z.y) ? z.y : 0.0, c_signed(M_INF, z.y));
  }
  if (m_isnan(r)) return vec2(r, r);
  precise float h = 0.5 * m_abs(z.x) + 0.5 * r;
  float t = m_sqrt(h);
  float u = m_div(0.5 * m_abs(z.y), t);
  return z.x >= 0.0 ? vec2(t, c_signed(u, z.y)) : vec2(u, c_signed(t, z.y));
}
vec2 c_sqrt(vec2 z) {
  if (c_far(z) && c_finite(z)) return 4.0 * c_sqrt_near(0.0625 * z);
  return c_sqrt_near(z);
}
vec2 c_exp(vec2 z) {
  float e = m_exp(z.x);
  if (z.y == 0.0) return vec2(e, z.y);
  if (m_isfinite(z.y)) return vec2(e * m_cos(z.y), e * m_sin(z.y));
  if (m_isinf(z.x) && z.x < 0.0) return vec2(0.0, c_signed(0.0, z.y));
  return vec2(m_isinf(z.x) ? M_INF : M_NAN, M_NAN);
}
vec2 c_log(vec2 z) {
  if (c_far(z) && c_finite(z)) return vec2(c_far_log(z), m_atan2(z.y, z.x));
  float a = max(m_abs(z.x), m_abs(z.y)), b = min(m_abs(z.x), m_abs(z.y));
  float r = c_abs(z);
  precise float m = (a - 1.0) * (a + 1.0) + b * b;
  return vec2(r > 0.5 && r < 2.0 ? 0.5 * m_log1p(m) : m_log(r), m_atan2(z.y, z.x));
}
vec2 c_log1p(vec2 z) {
  if (c_far(z) && c_finite(z)) return c_log(z);
  precise float m = m_isinf(z.x) || m_isinf(z.y) ? M_INF : z.x * (2.0 + z.x) + z.y * z.y;
  precise float u = 1.0 + z.x;
  return vec2(0.5 * m_log1p(m), m_atan2(z.y, u));
}
vec2 c_sinh(vec2 z) {
  if (!m_isfinite(z.y)) return vec2(m_isinf(z.x) ? M_INF : z.x == 0.0 ? z.x : M_NAN, M_NAN);
  return z.y == 0.0 ? vec2(m_sinh(z.x), z.y) : vec2(m_sinh(z.x) * m_cos(z.y), m_cosh(z.x) * m_sin(z.y));
}
vec2 c_cosh(vec2 z) {
  if (z.y == 0.0)
    return vec2(m_cosh(z.x), m_isnan(z.x) ? z.y : m_from_bits(m_bits(z.y) ^ (m_bits(z.x) & 0x80000000u)));
  if (!m_isfinite(z.y)) return z.x == 0.0 ? vec2(M_NAN, 0.0) : vec2(m_isinf(z.x) ? M_INF : M_NAN, M_NAN);
  return vec2(m_cosh(z.x) * m_cos(z.y), m_sinh(z.x) * m_sin(z.y));
}
vec2 c_tanh(vec2 z) {
  if (z.y == 0.0) return vec2(m_tanh(z.x), z.y);
  if (m_isnan(z.x) || (!m_isfinite(z.y) && !m_isinf(z.x))) return vec2(z.x == 0.0 ? z.x : M_NAN, M_NAN);
  if (m_abs(z.x) > 20.0) {
    bool turned = m_isfinite(z.y) && m_abs(z.y) > 1.0;
    float turn = turned ? m_sin(z.y) * m_cos(z.y) : z.y;
    float rest = m_isinf(z.x) ? 0.0 : 4.0 * m_abs(m_sin(z.y) * m_cos(z.y)) * m_exp(-2.0 * m_abs(z.x));
    return vec2(c_signed(1.0, z.x), c_signed(rest, turn));
  }
  // With t = tan y and s = sinh x: (s cosh x (1 + t^2) + i t) / (1 + s^2 (1 + t^2)).
  float t = m_tan(z.y), s = m_sinh(z.x), c = m_cosh(z.x);
  precise float beta = 1.0 + t * t;
  precise float d = 1.0 + beta * s * s;
  precise float n = beta * c * s;
  return vec2(m_div(n, d), m_div(t, d));
}
vec2 c_sin(vec2 z) {
  if (!m_isfinite(z.x) && m_isinf(z.y)) return vec2(M_NAN, M_INF);
  return c_minus_i(c_sinh(c_times_i(z)));
}
vec2 c_cos(vec2 z) { return c_cosh(c_times_i(z)); }
vec2 c_tan(vec2 z) { return c_minus_i(c_tanh(c_times_i(z))); }
// Inverse functions of what is far are logarithms of 2 z, turned.
vec2 c_asin_finite(vec2 z) {
  if (c_far(z)) return vec2(m_atan2(z.x, m_abs(z.y)), c_signed(c_far_log(z) + 0.693147180559945309, z.y));
  vec2 p = c_sqrt(vec2(1.0 + z.x, z.y)), m = c_sqrt(vec2(1.0 - z.x, m_neg(z.y)));
  precise float re = p.x * m.x - p.y * m.y;
  precise float im = m.x * p.y - m.y * p.x;
  return vec2(m_atan2(z.x, re), m_asinh(im));
}
vec2 c_asinh(vec2 z) {
  if (c_finite(z)) return c_times_i(c_asin_finite(c_minus_i(z)));
  if (m_isinf(z.y)) {
    float angle = m_isnan(z.x) ? M_NAN : m_isinf(z.x) ? 0.785398163397448310 : 1.57079632679489662;
    return vec2(c_signed(M_INF, z.x), c_signed(angle, z.y));
  }
  if (m_isfinite(z.x)) return vec2(M_NAN);
  bool level = m_isinf(z.x) ? m_isfinite(z.y) : z.y == 0.0;
  return vec2(z.x, level ? c_signed(0.0, z.y) : M_NAN);
}
vec2 c_asin(vec2 z) { return c_minus_i(c_asinh(c_times_i(z))); }
vec2 c_acos(vec2 z) {
  if (!c_finite(z)) {
    vec2 w = c_asin(z);
    return vec2(1.57079632679489662 - w.x, m_neg(w.y));
  }
  if (c_far(z)) return vec2(m_atan2(m_abs(z.y), z.x), c_signed(c_far_log(z) + 0.693147180559945309, m_neg(z.y)));
  vec2 p = c_sqrt(vec2(1.0 + z.x, z.y)), m = c_sqrt(vec2(1.0 - z.x, m_neg(z.y)));
  precise float im = p.x * m.y - p.y * m.x;
  return vec2(2.0 * m_atan2(m.x, p.x), m_asinh(im));
}
vec2 c_acosh(vec2 z) {
  if (!c_finite(z)) {
    bool left = (m_bits(z.x) >> 31) != 0u;
    float angle = M_NAN;
    if (m_isinf(z.y) && !m_isnan(z.x))
      angle = m_isfinite(z.x) ? 1.57079632679489662 : left ? 2.35619449019234493 : 0.785398163397448310;
    else if (m_isinf(z.x) && !m_isnan(z.y)) angle = left ? 3.14159265358979324 : 0.0;
    else if (z.x == 0.0) return vec2(M_NAN, 1.57079632679489662);
    bool far = m_isinf(z.x) || m_isinf(z.y);
    return vec2(far ? M_INF : M_NAN, m_isnan(angle) ? M_NAN : c_signed(angle, z.y));
  }
  if (c_far(z)) return vec2(c_far_log(z) + 0.693147180559945309, m_atan2(z.y, z.x));
  vec2 p = c_sqrt(vec2(z.x + 1.0, z.y)), m = c_sqrt(vec2(z.x - 1.0, z.y));
  precise float re = m.x * p.x + m.y * p.y;
  return vec2(m_asinh(re), 2.0 * m_atan2(m.y, p.x));
}
vec2 c_atanh(vec2 z) {
  if (!c_finite(z)) {
    if (!m_isinf(z.y) && !m_isinf(z.x) && z.x != 0.0) return vec2(M_NAN);
    return vec2(c_signed(0.0, z.x), m_isnan(z.y) ? M_NAN : c_signed(1.57079632679489662, z.y));
  }
  float x = m_abs(z.x), far = max(x, m_abs(z.y));
  if (far > 1e18) { // 1 / z, and a right angle
    float r = c_abs(z);
    return vec2(m_div(m_div(z.x, r), r), c_signed(1.57079632679489662, z.y));
  }
  precise float d = (1.0 - x) * (1.0 - x) + z.y * z.y;
  precise float n = (1.0 - x) * (1.0 + x) - z.y * z.y;
  return vec2(c_signed(0.25 * m_log1p(m_div(4.0 * x, d)), z.x), 0.5 * m_atan2(2.0 * z.y, n));
}
vec2 c_atan(vec2 z) { return c_minus_i(c_atanh(c_times_i(z))); }
vec2 c_pow(vec2 a, vec2 b) {
  if (b == vec2(0.0)) return vec2(1.0, 0.0);
  // The logarithm of zero has no direction, which products with it would make NaN.
  if (a == vec2(0.0)) return b.x > 0.0 ? vec2(0.0) : vec2(b.x < 0.0 ? M_INF : M_NAN, M_NAN);
  return c_exp(c_mul(c_log(a), b));
}
vec2 c_logaddexp(vec2 a, vec2 b) {
  bool first = c_less(b, a);
  vec2 hi = first ? a : b, lo = first ? b : a;
  return lo.x == m_neg(M_INF) ? hi : hi + c_log1p(c_exp(lo - hi));
}
