//! Host-only scalar functions: integers, float64 beyond the standard library, and complex64 (computed in
//! two float64).

/// Error function: Kummer's series below 3, the continued fraction of erfc above (DLMF 7.6.2, 7.9.1).
pub fn erf64(x: f64) -> f64 {
    let a = x.abs();
    if a < 3.0 {
        let (mut term, mut sum, mut k) = (x, x, 0.0);
        while term.abs() > 1e-17 * sum.abs() {
            k += 1.0;
            term *= 2.0 * x * x / (2.0 * k + 1.0);
            sum += term;
        }
        return sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI;
    }
    (1.0 - erfc_tail(a)).copysign(x)
}

/// erfc for x >= 2 by its continued fraction.
fn erfc_tail(x: f64) -> f64 {
    if x > 27.0 {
        return 0.0;
    }
    let mut f = x;
    for k in (1..=80).rev() {
        f = x + (f64::from(k) * 0.5) / f;
    }
    (-x * x).exp() / (f * std::f64::consts::PI.sqrt())
}

/// Inverse error function: a float32 start, refined by Halley's method.
pub fn erfinv64(x: f64) -> f64 {
    let a = x.abs();
    if a >= 1.0 || x.is_nan() {
        return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    // Near one the tail 1 - a is the well conditioned quantity.
    let tail = 1.0 - a;
    let w = -(tail * (1.0 + a)).ln();
    let mut y = if a < 0.9999 {
        f64::from(super::scalar_special::erfinv(a as f32))
    } else {
        // exp(-y^2) = sqrt(pi) y tail to first order, twice.
        let l = w + std::f64::consts::LN_2;
        let less = |y2: f64| l - 0.5 * (std::f64::consts::PI * y2).ln();
        less(less(l)).sqrt()
    };
    for _ in 0..3 {
        let err = if y > 2.0 { tail - erfc_tail(y) } else { erf64(y) - a };
        let u = err / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y -= u / (1.0 + y * u);
    }
    y.copysign(x)
}

/// log(exp(a) + exp(b)).
pub fn logaddexp64(a: f64, b: f64) -> f64 {
    let (hi, lo) = if a > b { (a, b) } else { (b, a) };
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if hi.is_infinite() || lo == f64::NEG_INFINITY {
        hi
    } else {
        hi + (lo - hi).exp().ln_1p()
    }
}

/// Remainder with the divisor's sign, as Python defines it.
#[inline(always)]
pub fn floor_mod64(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && ((r < 0.0) != (b < 0.0)) { r + b } else { r }
}

/// As `floor_mod64`, in float32.
#[inline(always)]
pub fn floor_mod32(a: f32, b: f32) -> f32 {
    let r = a % b;
    if r != 0.0 && ((r < 0.0) != (b < 0.0)) { r + b } else { r }
}
