//! Host-only scalar functions: integers, float64 beyond the standard library, and complex64 (computed in
//! two float64).

use num_complex::{Complex32, Complex64};

/// Integer arithmetic that the table needs of every integer type.
pub trait Int: Copy + PartialOrd {
    /// Quotient rounded down; 0 where the divisor is 0.
    fn floor_div(self, b: Self) -> Self;
    /// Remainder with the divisor's sign; the dividend where the divisor is 0.
    fn floor_mod(self, b: Self) -> Self;
    /// Wrapping power; 0 for negative exponents.
    fn power(self, b: Self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Wrapping absolute value.
    fn magnitude(self) -> Self;
    /// Shift by the count modulo the width of computation (32, or 64 for 64-bit types).
    fn shift_left(self, b: Self) -> Self;
    /// As `shift_left`; arithmetic for signed types.
    fn shift_right(self, b: Self) -> Self;
}

macro_rules! int {
    ($signed:literal, $wide:ty: $($t:ty),*) => { $(impl Int for $t {
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self {
            let d = if b == 0 { 1 } else { b };
            let q = self.wrapping_div(d);
            #[allow(unused_comparisons)]
            let down = $signed && self.wrapping_rem(d) != 0 && ((self < 0) != (d < 0));
            if b == 0 { 0 } else { q.wrapping_sub(down as $t) }
        }
        #[inline(always)]
        fn floor_mod(self, b: Self) -> Self {
            let d = if b == 0 { 1 } else { b };
            let r = self.wrapping_rem(d);
            #[allow(unused_comparisons)]
            let fix = $signed && r != 0 && ((r < 0) != (d < 0));
            if b == 0 { self } else if fix { r.wrapping_add(d) } else { r }
        }
        #[inline(always)]
        fn power(self, b: Self) -> Self {
            #[allow(unused_comparisons)]
            if b < 0 {
                return 0;
            }
            let (mut x, mut e, mut y) = (self, b, 1 as $t);
            while e != 0 {
                if e & 1 != 0 {
                    y = y.wrapping_mul(x);
                }
                x = x.wrapping_mul(x);
                e >>= 1;
            }
            y
        }
        #[inline(always)]
        fn sign(self) -> Self {
            #[allow(unused_comparisons)]
            let negative = $signed && self < 0;
            ((self > 0) as $t).wrapping_sub(negative as $t)
        }
        #[inline(always)]
        fn magnitude(self) -> Self {
            #[allow(unused_comparisons)]
            if $signed && self < 0 { (0 as $t).wrapping_sub(self) } else { self }
        }
        #[inline(always)]
        fn shift_left(self, b: Self) -> Self {
            (self as $wide).wrapping_shl(b as u32) as $t
        }
        #[inline(always)]
        fn shift_right(self, b: Self) -> Self {
            (self as $wide).wrapping_shr(b as u32) as $t
        }
    })* };
}
int!(false, u32: u8, u16, u32);
int!(false, u64: u64);
int!(true, i32: i8, i16, i32);
int!(true, i64: i64);

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
