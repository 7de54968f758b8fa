//! Float32 functions that need more than one float inside: pow, erf, erfinv, logaddexp. Same rules as
//! `scalar`: branch-free, no fused operations, same text in `shaders/lib/math.glsl`.
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::scalar::*;

/// A number as the unevaluated sum of two floats, |lo| <= ulp(hi) / 2.
#[derive(Clone, Copy)]
pub struct Two {
    hi: f32,
    lo: f32,
}
#[inline(always)]
fn two(hi: f32, lo: f32) -> Two {
    Two { hi, lo }
}
/// Exact a + b for |a| >= |b| (Dekker).
#[inline(always)]
fn fast_sum(a: f32, b: f32) -> Two {
    let s: f32 = a + b;
    let e: f32 = b - (s - a);
    two(s, e)
}
/// Exact a + b (Knuth).
#[inline(always)]
fn exact_sum(a: f32, b: f32) -> Two {
    let s: f32 = a + b;
    let t: f32 = s - a;
    let e: f32 = (a - (s - t)) + (b - t);
    two(s, e)
}
/// Exact a * b by splitting each factor into halves of 12 bits (Dekker).
#[inline(always)]
fn exact_mul(a: f32, b: f32) -> Two {
    let p: f32 = a * b;
    let ah: f32 = from_bits(bits(a) & 0xfffff000);
    let bh: f32 = from_bits(bits(b) & 0xfffff000);
    let al: f32 = a - ah;
    let bl: f32 = b - bh;
    let e: f32 = (((ah * bh - p) + ah * bl) + al * bh) + al * bl;
    two(p, e)
}
#[inline(always)]
fn mul2(a: Two, b: Two) -> Two {
    let p: Two = exact_mul(a.hi, b.hi);
    let e: f32 = p.lo + (a.hi * b.lo + a.lo * b.hi);
    fast_sum(p.hi, e)
}
#[inline(always)]
fn add2(a: Two, b: Two) -> Two {
    let s: Two = exact_sum(a.hi, b.hi);
    fast_sum(s.hi, s.lo + (a.lo + b.lo))
}
/// log(x) of a positive, finite x to about 2^-36: log(m) = 2 atanh((m - 1) / (m + 1)).
#[inline(always)]
fn log_two(x: f32) -> Two {
    let e: f32 = log_exponent(x) as f32;
    let m: f32 = log_mantissa(x);
    let n: f32 = m - 1.0;
    let d: Two = exact_sum(m, 1.0);
    let th: f32 = n / d.hi;
    let p: Two = exact_mul(th, d.hi);
    let rest: f32 = ((n - p.hi) - p.lo) - th * d.lo;
    let t: Two = two(th, rest / d.hi);
    let s: Two = mul2(t, t);
    let q: f32 = s.hi * (0.2 + s.hi * (0.14285714 + s.hi * (0.11111111 + s.hi * 0.095)));
    let w: Two = mul2(s, fast_sum(0.333333343, q + -9.93410776e-9));
    let series: Two = add2(two(1.0, 0.0), w);
    let lm: Two = mul2(two(2.0 * t.hi, 2.0 * t.lo), series);
    // ln(2) = 0.693359375 - 2.12194440e-4 - ...; the first product is exact.
    let k: Two = fast_sum(e * 0.693359375, 0.0);
    let k2: Two = exact_mul(e, -2.12194442e-4);
    add2(add2(k, two(k2.hi, k2.lo + e * 1.8e-12)), lm)
}
/// |a|^b for a finite and not zero, b finite.
#[inline(always)]
fn pow_positive(a: f32, b: f32) -> f32 {
    let l: Two = log_two(a);
    // Beyond +-2^20 every result is 0, 1 or infinite; clamping keeps the products finite.
    let c: f32 = sel(abs(l.hi) * abs(b) > 1e6, sel((l.hi > 0.0) == (b > 0.0), 1e3, -1e3), 0.0);
    let bb: f32 = sel(c == 0.0, b, 0.0);
    let p: Two = mul2(l, two(bb, 0.0));
    exp_k(p.hi + c, sel(abs(p.hi) < 120.0, p.lo, 0.0), 0)
}
#[inline(always)]
pub fn pow(a: f32, b: f32) -> f32 {
    let aa: f32 = abs(a);
    let ab: f32 = abs(b);
    let whole: bool = ab >= 8388608.0 || ab == ((ab + 8388608.0) - 8388608.0);
    let halved: f32 = 0.5 * ab;
    let odd: bool = whole && ab < 16777216.0 && halved != ((halved + 8388608.0) - 8388608.0);
    let neg: bool = (bits(a) >> 31) != 0;
    let safe: bool = aa > 0.0 && aa < INF;
    let r: f32 = pow_positive(sel(safe, aa, 1.0), sel(ab < INF, b, 0.0));
    let up: bool = (aa > 1.0) == (b > 0.0);
    let edge: f32 = sel(ab == INF, sel(aa == 1.0, 1.0, sel(up, INF, 0.0)), sel(up, INF, 0.0));
    let mag: f32 = sel(safe && ab < INF, r, edge);
    let signed: f32 = from_bits(bits(mag) ^ (if neg && odd { 0x80000000u32 } else { 0u32 }));
    let valid: f32 = sel(neg && !whole && safe, NAN, signed);
    let n: f32 = sel(is_nan(a) || is_nan(b), NAN, valid);
    sel(b == 0.0 || a == 1.0, 1.0, n)
}

/// Error function: x times a polynomial in x^2 near zero, 1 - exp(polynomial) in the tails.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let a: f32 = abs(x);
    let s: f32 = x * x;
    let near: f32 = (((((-5.96761703e-4 * s + 4.99119423e-3) * s - 2.67681349e-2) * s + 1.12819925e-1) * s
        - 3.76125336e-1)
        * s
        + 1.28379166e-1)
        * x
        + x;
    let t: f32 = sel(a > 4.0, 4.0, a);
    let p: f32 = ((((-1.72853470e-5 * t + 3.83197126e-4) * t - 3.88396438e-3) * t + 2.42546219e-2) * t
        - 1.06777877e-1)
        * t
        - 6.34846687e-1;
    let r: f32 = 1.0 - exp((p * t - 1.28717512e-1) * t - t);
    sel(a > 0.92, sel(is_nan(x), x, with_sign(r, x)), near)
}

/// Inverse error function, after M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012).
#[inline(always)]
pub fn erfinv(x: f32) -> f32 {
    let a: f32 = abs(x);
    let w: f32 = -log((1.0 - a) * (1.0 + a));
    let u: f32 = w - 2.5;
    let center: f32 = (((((((2.81022636e-8 * u + 3.43273939e-7) * u - 3.5233877e-6) * u - 4.39150654e-6)
        * u
        + 2.1858087e-4)
        * u
        - 1.25372503e-3)
        * u
        - 4.17768164e-3)
        * u
        + 2.46640727e-1)
        * u
        + 1.50140941;
    let v: f32 = w.sqrt() - 3.0;
    let tail: f32 = (((((((-2.00214257e-4 * v + 1.00950558e-4) * v + 1.34934322e-3) * v - 3.67342844e-3)
        * v
        + 5.73950773e-3)
        * v
        - 7.6224613e-3)
        * v
        + 9.43887047e-3)
        * v
        + 1.00167406)
        * v
        + 2.83297682;
    let r: f32 = sel(w < 5.0, center, tail) * x;
    sel(a < 1.0, r, sel(a == 1.0, with_sign(INF, x), NAN))
}

/// log(exp(a) + exp(b)).
#[inline(always)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let hi: f32 = sel(a > b, a, b);
    let lo: f32 = sel(a > b, b, a);
    let d: Two = exact_sum(lo, -hi);
    let e: f32 = exp_k(d.hi, sel(d.hi > -110.0, d.lo, 0.0), 0);
    let r: f32 = hi + log1p(e);
    sel(is_nan(a) || is_nan(b), NAN, sel(abs(hi) == INF || lo == -INF, hi, r))
}
