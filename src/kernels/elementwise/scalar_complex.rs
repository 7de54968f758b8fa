//! Elementary functions of complex numbers in double precision, the host's side of `shaders/lib/complex.glsl`. Infinities,
//! NaN and signed zeros as annex G of C11 has them; inverse functions by W. Kahan, "Branch cuts for complex elementary
//! functions" (1987). Called by the rows of the elementwise table.

use num_complex::Complex64;

pub(super) const INFINITY: f64 = f64::INFINITY;
pub(super) const NAN: f64 = f64::NAN;

pub(super) fn c(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

pub(super) fn times_i(z: Complex64) -> Complex64 {
    c(-z.im, z.re)
}

pub(super) fn minus_i(z: Complex64) -> Complex64 {
    c(z.im, -z.re)
}

pub(super) fn finite(z: Complex64) -> bool {
    z.re.is_finite() && z.im.is_finite()
}

/// e to the power of z.
pub fn exp(z: Complex64) -> Complex64 {
    let e = z.re.exp();
    if z.im == 0.0 {
        return c(e, z.im);
    }
    match z.im.is_finite() {
        true => c(e * z.im.cos(), e * z.im.sin()),
        false if z.re == -INFINITY => c(0.0, 0f64.copysign(z.im)),
        false => c(if z.re == INFINITY { z.re } else { NAN }, NAN),
    }
}

/// Hyperbolic sine.
pub fn sinh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return c(z.re.sinh(), z.im);
    }
    if z.im.is_finite() {
        return c(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin());
    }
    match z.re {
        x if x.is_infinite() => c(INFINITY, NAN),
        x if x == 0.0 => c(x, NAN),
        _ => c(NAN, NAN),
    }
}

/// Hyperbolic cosine.
pub fn cosh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return c(z.re.cosh(), if z.re.is_nan() { z.im } else { z.im * 1f64.copysign(z.re) });
    }
    match z.im.is_finite() {
        true => c(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin()),
        false if z.re == 0.0 => c(NAN, 0.0),
        false => c(if z.re.is_infinite() { INFINITY } else { NAN }, NAN),
    }
}

/// Hyperbolic tangent.
pub fn tanh(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if x.is_infinite() {
        let turn = if y.is_finite() && y.abs() > 1.0 { y.sin() * y.cos() } else { y };
        return c(1f64.copysign(x), 0f64.copysign(turn));
    }
    if y == 0.0 {
        return c(x.tanh(), y);
    }
    if !y.is_finite() || x.is_nan() {
        return c(if x == 0.0 { x } else { NAN }, NAN);
    }
    if x.abs() > 20.0 {
        return c(1f64.copysign(x), 4.0 * y.sin() * y.cos() * (-2.0 * x.abs()).exp());
    }
    z.tanh()
}

/// Sine.
pub fn sin(z: Complex64) -> Complex64 {
    if !z.re.is_finite() && z.im.is_infinite() {
        return c(NAN, INFINITY);
    }
    minus_i(sinh(times_i(z)))
}

/// Cosine.
pub fn cos(z: Complex64) -> Complex64 {
    cosh(times_i(z))
}

/// Tangent.
pub fn tan(z: Complex64) -> Complex64 {
    minus_i(tanh(times_i(z)))
}

/// Square root, of parts that are small enough to be squared or infinite.
pub fn sqrt(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if y.is_infinite() {
        return c(INFINITY, y);
    }
    if x == INFINITY {
        return c(x, if y.is_nan() { y } else { 0f64.copysign(y) });
    }
    if x == -INFINITY {
        return c(if y.is_nan() { y } else { 0.0 }, INFINITY.copysign(y));
    }
    if x.is_nan() || y.is_nan() {
        return c(NAN, NAN);
    }
    let large = (0.5 * (x.abs() + x.hypot(y))).sqrt();
    if large == 0.0 {
        return c(0.0, y);
    }
    let small = 0.5 * y.abs() / large;
    if x >= 0.0 { c(large, small.copysign(y)) } else { c(small, large.copysign(y)) }
}
