//! Float32 functions that are long, or need float64 inside: pow, erf, erfinv. Same rules as
//! `scalar`: branch-free, no fused operations; `shaders/lib/math.glsl` has them without float64.
#![allow(clippy::excessive_precision, clippy::approx_constant)]

use super::scalar::*;

/// 1.5 * 2^52: adding it rounds to an integer that sits in the low bits.
pub(super) const MAGIC_WIDE: f64 = 6755399441055744.0;

/// log2(x) of a positive, finite x in float64, to 2^-43: its series in (m - 1) / (m + 1), at most 0.172.
#[inline(always)]
fn log2_wide(x: f32) -> f64 {
    let m: f64 = log_mantissa(x) as f64;
    let z: f64 = (m - 1.0) / (m + 1.0);
    let s: f64 = z * z;
    let mut p: f64 = 1.0 / 15.0;
    p = p * s + 1.0 / 13.0;
    p = p * s + 1.0 / 11.0;
    p = p * s + 1.0 / 9.0;
    p = p * s + 1.0 / 7.0;
    p = p * s + 1.0 / 5.0;
    p = p * s + 1.0 / 3.0;
    p = p * s + 1.0;
    log_exponent(x) as f64 + 2.0 * std::f64::consts::LOG2_E * (z * p)
}
/// a^b for a positive and finite, b finite, to 2^-37 before it is rounded: 2^x by our own minimax fit on [-1/2, 1/2].
#[inline(always)]
fn pow_positive(a: f32, b: f32) -> f32 {
    let p: f64 = log2_wide(a) * b as f64;
    let low: f64 = if p < -200.0 { -200.0 } else { p };
    let x: f64 = if low > 200.0 { 200.0 } else { low };
    let t: f64 = x + MAGIC_WIDE;
    let f: f64 = x - (t - MAGIC_WIDE);
    let mut q: f64 = 1.317894240900324e-6;
    q = q * f + 1.5309156746799377e-5;
    q = q * f + 1.540382542829545e-4;
    q = q * f + 1.3333454858170807e-3;
    q = q * f + 9.618128616157826e-3;
    q = q * f + 5.550410935269087e-2;
    q = q * f + 2.4022650698110518e-1;
    q = q * f + 6.931471805482118e-1;
    // The exponent is in the low bits of t.
    ((q * f + 1.0) * f64::from_bits(t.to_bits().wrapping_add(1023) << 52)) as f32
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

/// a^b for a b of 2, 3 or 4: products in float64, rounded once.
#[inline(always)]
pub fn pow_few(a: f32, b: f32) -> f32 {
    let wide: f64 = a as f64;
    let square: f64 = wide * wide;
    let rest: f64 = if b == 3.0 { wide } else { square };
    (square * if b == 2.0 { 1.0 } else { rest }) as f32
}

/// Coefficients of P and Q of [`erf`], in the order in which they are used.
pub const ERF_NEAR: [f32; 7] = [
    -3.7612611055374146e-1,
    1.2837916612625122e-1,
    -2.6843518018722534e-2,
    1.1283364146947861e-1,
    -7.824739441275597e-4,
    5.167731083929539e-3,
    7.236068631755188e-5,
];
/// See [`ERF_NEAR`].
pub const ERF_FAR: [f32; 7] = [
    -1.4590057730674744e-1,
    1.0010600090026855,
    -1.239209808409214e-2,
    -6.0146767646074295e-2,
    -2.571849152445793e-3,
    1.3372334651648998e-2,
    1.5936529962345958e-4,
];

/// Error function. Up to 1.1: x + x P(x^2), P fitted to erf(x) / x - 1. Above: one less Q(|x|)^8, Q fitted to the eighth
/// root of erfc(x) on [1.09, 3.95], which a short polynomial follows and three multiplications undo; from there on the
/// result is 1. Both polynomials are our own weighted least squares fits on 800 Chebyshev nodes, reweighted by their own
/// error until it is level (Lawson), with the relative error of the result as weight. That is at most 0.15 ULP before
/// rounding, 2.3 with it. Products and sums are rounded once, which makes a third fewer
/// instructions; GPUs round them one by one.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let m: f32 = abs(x);
    let a: f32 = sel(m > 3.95, 3.95, m);
    let s: f32 = a * a;
    let s2: f32 = s * s;
    let [p0, p1, p2, p3, p4, p5, p6] = ERF_NEAR;
    let p0: f32 = p0.mul_add(s, p1);
    let p2: f32 = p2.mul_add(s, p3);
    let p4: f32 = p4.mul_add(s, p5);
    let p: f32 = p6.mul_add(s2, p4).mul_add(s2, p2).mul_add(s2, p0);
    let [q0, q1, q2, q3, q4, q5, q6] = ERF_FAR;
    let q0: f32 = q0.mul_add(a, q1);
    let q2: f32 = q2.mul_add(a, q3);
    let q4: f32 = q4.mul_add(a, q5);
    let q: f32 = q6.mul_add(s, q4).mul_add(s, q2).mul_add(s, q0);
    let square: f32 = q * q;
    let fourth: f32 = square * square;
    let tail: f32 = (-fourth).mul_add(fourth, 1.0);
    sel(m > 1.1, with_sign(tail, x), p.mul_add(x, x))
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
