//! Inverse trigonometric and hyperbolic functions of complex numbers, by W. Kahan, "Branch cuts for complex elementary
//! functions" (1987). Called by the rows of the elementwise table.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use num_complex::Complex64;

use super::scalar_complex::{INFINITY, NAN, c, finite, minus_i, sqrt, times_i};

fn asin_finite(z: Complex64) -> Complex64 {
    let (p, m) = (sqrt(c(1.0 + z.re, z.im)), sqrt(c(1.0 - z.re, -z.im)));
    c(z.re.atan2(p.re * m.re - p.im * m.im), (m.re * p.im - m.im * p.re).asinh())
}

/// The angle of a result whose argument has the real part `x` and an infinite imaginary one.
fn angle(x: f64, finite: f64, infinite: f64) -> f64 {
    match x {
        _ if x.is_nan() => NAN,
        _ if x.is_finite() => finite,
        _ => infinite,
    }
}

/// Inverse hyperbolic sine.
pub fn asinh(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if finite(z) {
        return times_i(asin_finite(minus_i(z)));
    }
    if y.is_infinite() {
        return c(INFINITY.copysign(x), angle(x, FRAC_PI_2, FRAC_PI_4).copysign(y));
    }
    if x.is_finite() {
        return c(NAN, NAN);
    }
    let flat = if x.is_infinite() { y.is_finite() } else { y == 0.0 };
    c(x, if flat { 0f64.copysign(y) } else { NAN })
}

/// Inverse sine.
pub fn asin(z: Complex64) -> Complex64 {
    minus_i(asinh(times_i(z)))
}

/// Inverse cosine.
pub fn acos(z: Complex64) -> Complex64 {
    if !finite(z) {
        let w = asin(z);
        return c(FRAC_PI_2 - w.re, -w.im);
    }
    let (p, m) = (sqrt(c(1.0 + z.re, z.im)), sqrt(c(1.0 - z.re, -z.im)));
    c(2.0 * m.re.atan2(p.re), (p.re * m.im - p.im * m.re).asinh())
}

/// Inverse hyperbolic cosine.
pub fn acosh(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if finite(z) {
        let (p, m) = (sqrt(c(x + 1.0, y)), sqrt(c(x - 1.0, y)));
        return c((m.re * p.re + m.im * p.im).asinh(), 2.0 * m.im.atan2(p.re));
    }
    let (past, edge) = if x.is_sign_negative() { (3.0 * FRAC_PI_4, PI) } else { (FRAC_PI_4, 0.0) };
    if y.is_infinite() {
        return c(INFINITY, angle(x, FRAC_PI_2, past).copysign(y));
    }
    match x.is_infinite() {
        true => c(INFINITY, if y.is_nan() { NAN } else { edge.copysign(y) }),
        false => c(NAN, if x == 0.0 { FRAC_PI_2 } else { NAN }),
    }
}

/// Inverse hyperbolic tangent.
pub fn atanh(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if finite(z) {
        let (far, square) = ((1.0 - x.abs()) * (1.0 - x.abs()), y * y);
        let re = 0.25 * (4.0 * x.abs() / (far + square)).ln_1p();
        return c(re.copysign(x), 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - square));
    }
    if y.is_infinite() {
        return c(0f64.copysign(x), FRAC_PI_2.copysign(y));
    }
    match x.is_infinite() || x == 0.0 {
        true => c(0f64.copysign(x), if y.is_nan() { NAN } else { FRAC_PI_2.copysign(y) }),
        false => c(NAN, NAN),
    }
}

/// Inverse tangent.
pub fn atan(z: Complex64) -> Complex64 {
    minus_i(atanh(times_i(z)))
}
