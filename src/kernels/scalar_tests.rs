//! Distance of every float32 function from the exact value, over dense samples of the whole domain.

use super::scalar::*;
use super::scalar_special as x;
use super::scalar_wide as w;

/// Distance in ULP of float32 between a result and the exact value; infinite where only one is NaN or
/// an infinity has the wrong sign.
fn ulps(got: f32, exact: f64) -> f64 {
    if got.is_nan() || exact.is_nan() {
        return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let near = exact as f32;
    if got == near {
        return 0.0;
    }
    if got.is_infinite() || near.is_infinite() {
        // Off by one step at the border of the range is one ULP.
        return if got.abs().max(near.abs()) == f32::INFINITY && got.abs().min(near.abs()) > 3.4028e38 {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (exact.abs().log2().floor() as i32).clamp(-126, 127);
    (f64::from(got) - exact).abs() / 2f64.powi(exponent - 23)
}

/// Every `step`-th bit pattern, so that all magnitudes, both signs and NaN occur.
fn worst1(step: usize, f: fn(f32) -> f32, exact: fn(f64) -> f64) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for b in (0..=u32::MAX).step_by(step) {
        let v = f32::from_bits(b);
        let u = ulps(f(v), exact(f64::from(v)));
        if u > worst.0 {
            worst = (u, v);
        }
    }
    for v in [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, f32::MAX, 1e-45] {
        let (r, e) = (f(v), exact(f64::from(v)));
        assert!(
            ulps(r, e) < 5.0 && (r != 0.0 || r.is_sign_negative() == e.is_sign_negative()),
            "{v}: {r} {e}"
        );
    }
    worst
}

fn exact_sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

#[test]
fn functions_of_one_argument_are_within_four_ulp() {
    let step = std::env::var("ULP_STEP").ok().and_then(|s| s.parse().ok()).unwrap_or(4099);
    let table: &[(&str, fn(f32) -> f32, fn(f64) -> f64)] = &[
        ("exp", exp, f64::exp),
        ("expm1", expm1, f64::exp_m1),
        ("log", log, f64::ln),
        ("log2", log2, f64::log2),
        ("log10", log10, f64::log10),
        ("log1p", log1p, f64::ln_1p),
        ("sin", sin, f64::sin),
        ("cos", cos, f64::cos),
        ("tan", tan, f64::tan),
        ("asin", asin, f64::asin),
        ("acos", acos, f64::acos),
        ("atan", atan, f64::atan),
        ("sinh", sinh, f64::sinh),
        ("cosh", cosh, f64::cosh),
        ("tanh", tanh, f64::tanh),
        ("asinh", asinh, |v| if v.is_infinite() { v } else { v.abs().asinh().copysign(v) }),
        ("acosh", acosh, f64::acosh),
        ("atanh", atanh, f64::atanh),
        ("sigmoid", sigmoid, exact_sigmoid),
        ("erf", x::erf, w::erf64),
        ("erfinv", x::erfinv, w::erfinv64),
    ];
    let mut bad = Vec::new();
    for &(name, f, exact) in table {
        let (u, at) = worst1(step, f, exact);
        println!("{name:8} {u:.3} ULP at {at:e} ({:#x})", at.to_bits());
        if u > 4.0 {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// Pairs from a fixed sequence: any bits, moderate values, and both near one.
fn worst2(
    n: u64,
    f: fn(f32, f32) -> f32,
    exact: fn(f64, f64) -> f64,
    skip: fn(f32, f32, f64) -> bool,
) -> (f64, f32, f32) {
    let mut worst = (0.0, 0.0, 0.0);
    let mut s = 0x9e3779b97f4a7c15u64;
    let special =
        [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, 3e38];
    for i in 0..n {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        let any = |k: u32| f32::from_bits((s >> k) as u32);
        let unit = |k: u32| ((s >> k) as u32 as f32) / 4294967296.0;
        let (a, b) = match i % 5 {
            0 => (any(0), any(32)),
            1 => (unit(0) * 20.0, unit(32) * 60.0 - 30.0),
            2 => (0.5 + unit(0), (unit(32) - 0.5) * 600.0),
            3 => (any(0), unit(32) * 8.0 - 4.0),
            _ => (special[s as usize % 12], special[(s >> 32) as usize % 12]),
        };
        let e = exact(f64::from(a), f64::from(b));
        if skip(a, b, e) {
            continue;
        }
        let u = ulps(f(a, b), e);
        if u > worst.0 {
            worst = (u, a, b);
        }
    }
    worst
}

#[test]
fn functions_of_two_arguments_are_within_four_ulp() {
    let n = std::env::var("ULP_PAIRS").ok().and_then(|s| s.parse().ok()).unwrap_or(2_000_000);
    let table: &[(&str, fn(f32, f32) -> f32, fn(f64, f64) -> f64)] = &[
        ("pow", x::pow, f64::powf),
        ("atan2", atan2, f64::atan2),
        ("logaddexp", x::logaddexp, w::logaddexp64),
    ];
    let mut bad = Vec::new();
    for &(name, f, exact) in table {
        // Where both operands are negative and the result is closer to zero, it is a difference of rounded
        // terms, with an error relative to them.
        let skip = |a: f32, b: f32, e: f64| e.abs() < 0.9 * f64::from(a.max(b).abs());
        let (u, a, b) = worst2(n, f, exact, if name == "logaddexp" { skip } else { |_, _, _| false });
        println!("{name:8} {u:.3} ULP at {a:e} {b:e}");
        if u > 4.0 {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}
