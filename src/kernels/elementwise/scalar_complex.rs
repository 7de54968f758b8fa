//! Elementary functions of complex numbers in double precision, the host's side of `shaders/lib/complex.glsl`. Infinities,
//! NaN and signed zeros as annex G of C11 has them; inverse functions by W. Kahan, "Branch cuts for complex elementary
//! functions" (1987). Called by the rows of the elementwise table.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use num_complex::Complex64;

const INFINITY: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn c(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

fn times_i(z: Complex64) -> Complex64 {
    c(-z.im, z.re)
}

fn minus_i(z: Complex64) -> Complex64 {
    c(z.im, -z.re)
}

fn finite(z: Complex64) -> bool {
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

fn asin_finite(z: Complex64) -> Complex64 {
    let (p, m) = (sqrt(c(1.0 + z.re, z.im)), sqrt(c(1.0 - z.re, -z.im)));
    c(z.re.atan2(p.re * m.re - p.im * m.im), (m.re * p.im - m.im * p.re).asinh())
}

/// Inverse hyperbolic sine.
pub fn asinh(z: Complex64) -> Complex64 {
    let Complex64 { re: x, im: y } = z;
    if finite(z) {
        return times_i(asin_finite(minus_i(z)));
    }
    if y.is_infinite() {
        let angle = if x.is_nan() {
            NAN
        } else if x.is_finite() {
            FRAC_PI_2
        } else {
            FRAC_PI_4
        };
        return c(INFINITY.copysign(x), angle.copysign(y));
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
        let angle = if x.is_nan() {
            NAN
        } else if x.is_finite() {
            FRAC_PI_2
        } else {
            past
        };
        return c(INFINITY, angle.copysign(y));
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
