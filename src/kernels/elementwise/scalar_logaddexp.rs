//! logaddexp of float32 numbers to 4 ULP, also where it is near zero and two large terms cancel.

use super::scalar::*;
use super::scalar_special::MAGIC_WIDE;

/// exp(x) in float64 for x in [-200, 0], to 2^-50: Taylor's series on |r| <= ln(2)/2.
#[inline(always)]
fn exp_wide(x: f64) -> f64 {
    let t: f64 = x * std::f64::consts::LOG2_E + MAGIC_WIDE;
    let n: f64 = t - MAGIC_WIDE;
    let r: f64 = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    let low: f64 = 1.0 + r * (1.0 + r * (1.0 / 2.0 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0)))));
    let high: f64 = 1.0 / 720.0
        + r * (1.0 / 5040.0
            + r * (1.0 / 40320.0
                + r * (1.0 / 362880.0
                    + r * (1.0 / 3628800.0
                        + r * (1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0)))))));
    let r2: f64 = r * r;
    let y: f64 = low + r2 * r2 * r2 * high;
    // The exponent is in the low bits of t.
    y * f64::from_bits(t.to_bits().wrapping_add(1023) << 52)
}
/// log(exp(a) + exp(b)), in float64, to 2^-50 of the larger operand: near zero the result is the difference of
/// two larger terms, which `cancels` finds.
#[inline(always)]
pub fn logaddexp_fast(a: f32, b: f32) -> f32 {
    let hi: f32 = sel(a > b, a, b);
    let lo: f32 = sel(a > b, b, a);
    let d: f64 = lo as f64 - hi as f64;
    let e: f64 = exp_wide(if d > -200.0 { d } else { -200.0 });
    // log(1 + e) = 2 atanh(z) on [0, 1/3], by its series.
    let z: f64 = e / (2.0 + e);
    let s: f64 = z * z;
    let mut p: f64 = 1.0 / 33.0;
    p = p * s + 1.0 / 31.0;
    p = p * s + 1.0 / 29.0;
    p = p * s + 1.0 / 27.0;
    p = p * s + 1.0 / 25.0;
    p = p * s + 1.0 / 23.0;
    p = p * s + 1.0 / 21.0;
    p = p * s + 1.0 / 19.0;
    p = p * s + 1.0 / 17.0;
    p = p * s + 1.0 / 15.0;
    p = p * s + 1.0 / 13.0;
    p = p * s + 1.0 / 11.0;
    p = p * s + 1.0 / 9.0;
    p = p * s + 1.0 / 7.0;
    p = p * s + 1.0 / 5.0;
    p = p * s + 1.0 / 3.0;
    let r: f32 = (hi as f64 + (2.0 * z + 2.0 * z * s * p)) as f32;
    sel(is_nan(a) || is_nan(b), NAN, sel(abs(hi) == INF || lo == -INF, hi, r))
}
/// Whether `y` = `logaddexp_fast(a, b)` is so small beside its terms that it may be inaccurate.
#[inline(always)]
pub fn cancels(a: f32, b: f32, y: f32) -> bool {
    abs(y) < sel(a > b, a, b) * -9.5367432e-7
}
/// log(exp(a) + exp(b)) where that is near zero: the logarithm of 1 + ((exp(hi) - 1) + exp(lo)), whose terms
/// are taken to 2^-100 because no pair of float32 numbers cancels further than to 2^-60 or so.
#[cold]
#[inline(never)]
pub fn logaddexp_exact(a: f32, b: f32) -> f32 {
    let (hi, lo) = if a > b { (a, b) } else { (b, a) };
    let s = Pair::expm1(f64::from(hi)).plus(Pair::exp(f64::from(lo)));
    s.hi.ln_1p() as f32
}
/// log(exp(a) + exp(b)) within 4 ULP.
#[cfg(test)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let y = logaddexp_fast(a, b);
    if cancels(a, b, y) { logaddexp_exact(a, b) } else { y }
}

/// A number as the unevaluated sum of two float64 (Dekker, Knuth).
#[derive(Clone, Copy)]
struct Pair {
    hi: f64,
    lo: f64,
}

impl Pair {
    fn sum(a: f64, b: f64) -> Pair {
        let hi = a + b;
        let c = hi - a;
        Pair { hi, lo: (a - (hi - c)) + (b - c) }
    }

    fn product(a: f64, b: f64) -> Pair {
        let hi = a * b;
        Pair { hi, lo: a.mul_add(b, -hi) }
    }

    fn plus(self, other: Pair) -> Pair {
        let (s, t) = (Pair::sum(self.hi, other.hi), Pair::sum(self.lo, other.lo));
        let u = Pair::sum(s.hi, s.lo + t.hi);
        Pair::sum(u.hi, u.lo + t.lo)
    }

    fn times(self, other: Pair) -> Pair {
        let p = Pair::product(self.hi, other.hi);
        Pair::sum(p.hi, p.lo + (self.hi * other.lo + self.lo * other.hi))
    }

    fn over(self, n: f64) -> Pair {
        let q = self.hi / n;
        Pair::sum(q, ((-q).mul_add(n, self.hi) + self.lo) / n)
    }

    /// 1 + r / first * (1 + r / (first + 1) * (.. r / last)).
    fn series(r: Pair, first: u32, last: u32) -> Pair {
        let one = Pair { hi: 1.0, lo: 0.0 };
        (first..=last).rev().fold(one, |p, n| one.plus(r.times(p).over(n.into())))
    }

    /// exp(x) - 1 for x in [-0.7, 0].
    fn expm1(x: f64) -> Pair {
        let x = Pair { hi: x, lo: 0.0 };
        x.times(Pair::series(x, 2, 28))
    }

    /// exp(x) for x in [-110, 0]; ln(2) is taken in three parts, the first of which times k is exact.
    fn exp(x: f64) -> Pair {
        let k = (x * std::f64::consts::LOG2_E).round_ties_even();
        let near = Pair::sum(x, -k * 6.93147180369123816490e-01);
        let r = near
            .plus(Pair::product(-k, 1.9082149292705877e-10))
            .plus(Pair { hi: -k * 1.1612227229362532e-26, lo: 0.0 });
        let y = Pair::series(r, 1, 24);
        let scale = f64::from_bits(((k as i64 + 1023) as u64) << 52);
        Pair { hi: y.hi * scale, lo: y.lo * scale }
    }
}
