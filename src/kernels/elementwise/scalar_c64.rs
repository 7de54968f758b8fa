//! Arithmetic of complex64 in two float64: signs, orders, quotients and powers. Elementary functions: `scalar_complex`.

use num_complex::{Complex32, Complex64};

#[inline(always)]
pub fn widen(z: Complex32) -> Complex64 {
    Complex64::new(f64::from(z.re), f64::from(z.im))
}
#[inline(always)]
pub fn narrow(z: Complex64) -> Complex32 {
    Complex32::new(z.re as f32, z.im as f32)
}
/// z / |z|, 0 for 0.
pub fn csign(z: Complex32) -> Complex32 {
    let w = widen(z);
    if z.re == 0.0 && z.im == 0.0 { Complex32::new(0.0, 0.0) } else { narrow(w / w.norm()) }
}
/// The larger one by real, then imaginary part; an operand with a NaN wins.
pub fn cmax(a: Complex32, b: Complex32) -> Complex32 {
    if !(a.re.is_nan() || a.im.is_nan()) && (b.re.is_nan() || b.im.is_nan() || cless(a, b)) { b } else { a }
}
/// The smaller one by real, then imaginary part; an operand with a NaN wins.
pub fn cmin(a: Complex32, b: Complex32) -> Complex32 {
    if !(a.re.is_nan() || a.im.is_nan()) && (b.re.is_nan() || b.im.is_nan() || cless(b, a)) { b } else { a }
}
/// Lexicographic order by real, then imaginary part.
#[inline(always)]
pub fn cless(a: Complex32, b: Complex32) -> bool {
    a.re < b.re || (a.re == b.re && a.im < b.im)
}
/// log(1 + z) without cancellation near zero.
pub fn clog1p(z: Complex32) -> Complex32 {
    let w = widen(z);
    let infinite = z.re.is_infinite() || z.im.is_infinite();
    let m = if infinite { f64::INFINITY } else { w.re * (2.0 + w.re) + w.im * w.im };
    Complex32::new((0.5 * m.ln_1p()) as f32, w.im.atan2(1.0 + w.re) as f32)
}
/// a / b in float64; where both parts of that are NaN as C99's annex G has it: a finite or infinite number over zero is
/// infinite, so is an infinite one over a finite one, and a finite number over an infinite one is zero.
#[inline(always)]
pub fn cdiv(a: Complex32, b: Complex32) -> Complex32 {
    let q = widen(a) / widen(b);
    if q.re.is_nan() && q.im.is_nan() { cdiv_special(a, b) } else { narrow(q) }
}

#[cold]
fn cdiv_special(a: Complex32, b: Complex32) -> Complex32 {
    let infinite = |z: Complex32| z.re.is_infinite() || z.im.is_infinite();
    let boxed = |z: Complex32| {
        let unit = |x: f32| f32::from(u8::from(x.is_infinite())).copysign(x);
        Complex32::new(unit(z.re), unit(z.im))
    };
    let times = |f: f32, a: Complex32, b: Complex32| {
        Complex32::new(f * (a.re * b.re + a.im * b.im), f * (a.im * b.re - a.re * b.im))
    };
    if b.re == 0.0 && b.im == 0.0 && !(a.re.is_nan() && a.im.is_nan()) {
        let f = f32::INFINITY.copysign(b.re);
        Complex32::new(f * a.re, f * a.im)
    } else if infinite(a) && b.re.is_finite() && b.im.is_finite() {
        times(f32::INFINITY, boxed(a), b)
    } else if infinite(b) && a.re.is_finite() && a.im.is_finite() {
        times(0.0, a, boxed(b))
    } else {
        Complex32::new(f32::NAN, f32::NAN)
    }
}

/// a^b by exp(b log a); 0^0 is 1.
pub fn cpow(a: Complex32, b: Complex32) -> Complex32 {
    if b.re == 0.0 && b.im == 0.0 {
        return Complex32::new(1.0, 0.0);
    }
    narrow((widen(a).ln() * widen(b)).exp())
}
/// log(exp(a) + exp(b)) around the operand with the larger real part.
pub fn clogaddexp(a: Complex32, b: Complex32) -> Complex32 {
    let (hi, lo) = if cless(b, a) { (a, b) } else { (b, a) };
    if lo.re == f32::NEG_INFINITY {
        return hi;
    }
    let d = (widen(lo) - widen(hi)).exp();
    narrow(widen(hi) + (d + 1.0).ln())
}
