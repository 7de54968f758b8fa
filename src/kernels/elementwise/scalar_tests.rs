//! Distance of every float32 function from the exact value, over dense samples of the whole domain.
#![allow(clippy::excessive_precision)]

use super::scalar::*;
use super::scalar_logaddexp as l;
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
    // Where results overflow, underflow or settle: every 61st float32 there.
    for (from, to) in [(8f32, 10f32), (15.0, 20.0), (85.0, 105.0)] {
        for b in (from.to_bits()..to.to_bits()).step_by(61) {
            for v in [f32::from_bits(b), -f32::from_bits(b)] {
                let u = ulps(f(v), exact(f64::from(v)));
                if u > worst.0 {
                    worst = (u, v);
                }
            }
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
        ("logaddexp", l::logaddexp, w::logaddexp64),
    ];
    let mut bad = Vec::new();
    for &(name, f, exact) in table {
        // Closer to zero the reference itself, in float64, has lost its bits; see the test below.
        let skip = |a: f32, b: f32, e: f64| e.abs() < 1e-7 * f64::from(a.max(b).abs());
        let (u, a, b) = worst2(n, f, exact, if name == "logaddexp" { skip } else { |_, _, _| false });
        println!("{name:8} {u:.3} ULP at {a:e} {b:e}");
        if u > 4.0 {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn small_powers_are_rounded_once() {
    for i in 0..=u16::MAX {
        let a = f32::from_bits(u32::from(i) << 16 | 0x5a5a);
        for b in [2.0f32, 3.0, 4.0] {
            let (got, exact) = (x::pow_few(a, b), f64::from(a).powi(b as i32));
            assert!(
                got == exact as f32 || ulps(got, exact) <= 0.5001 || exact.is_nan() && got.is_nan(),
                "{a:e}^{b}"
            );
        }
    }
    for a in [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0] {
        assert_eq!(x::pow_few(a, 3.0).to_bits(), a.to_bits());
    }
}

/// Values computed with 60 digits.
#[test]
fn float64_functions_are_within_1e_12() {
    let close = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-13, "{got:e} {want:e}");
    for (x, y) in [
        (1e-300, 1.1283791670955126e-300),
        (1e-5, 1.1283791670579e-5),
        (0.3, 0.32862675945912742),
        (1.0, 0.84270079294971487),
        (1.9, 0.99279042923525747),
        (2.999, 0.99997776983140017),
        (3.001, 0.99997804833908226),
        (4.5, 0.99999999980338396),
        (5.8, 0.99999999999999976),
    ] {
        close(w::erf64(x), y);
        close(w::erf64(-x), -y);
    }
    for (x, y) in [
        (1e-300, 8.8622692545275804e-301),
        (1e-20, 8.8622692545275797e-21),
        (0.001, 0.00088622715746655212),
        (0.5, 0.47693627620446987),
        (0.9, 1.1630871536766742),
        (0.995, 1.984872612615532),
        (0.9998, 2.6297417762102926),
        (0.99991, 2.7690874702439376),
        (0.9999999, 3.7665625816384709),
        (0.999999999999, 5.0420318985726961),
        (1.0 - f64::EPSILON / 2.0, 5.8635847487551679),
    ] {
        close(w::erfinv64(x), y);
        close(w::erfinv64(-x), -y);
    }
}

/// Results that are the small difference of larger terms, with 60 digits.
#[test]
fn logaddexp_is_accurate_near_zero() {
    for (a, b, y) in [
        (-2.3949015140533447f32, -0.09561005234718323f32, -2.8490685401630181e-9),
        (-1.0288141965866089, -0.4422803819179535, -2.917929109047375e-9),
        (-1.000000013351432e-10, -23.025850296020508, 6.2061871799628863e-17),
        (-9.999999747378752e-05, -9.210390090942383, 3.0586274098460547e-11),
        (-20.0, -2.06115369216775e-09, -6.7605014697896777e-17),
        (-0.5901399850845337, -0.8079963326454163, 8.633171428053317e-14),
        (-0.03276074305176735, -3.4348599910736084, 9.453694767123066e-15),
        (-1.673230690357741e-05, -10.998177528381348, 3.3547438228584846e-18),
    ] {
        let (u, v) = (ulps(l::logaddexp(a, b), y), ulps(l::logaddexp(b, a), y));
        assert!(u <= 4.0 && v <= 4.0, "{a:e} {b:e} {u} {v}");
    }
}
