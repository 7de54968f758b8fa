//! Tests of `constants`.

use super::*;

#[test]
fn the_filter_makes_a_transform_a_convolution() {
    for (n, m) in [(7, 16), (17, 36), (61, 128), (67, 140)] {
        assert_eq!(bluestein_length(n), m);
        convolved(n);
    }
}

#[test]
fn factors_of_a_place_lie_a_stage_apart() {
    use crate::kernels::fft::plan::LinePlan;
    for n in [100, 1000, 1024, 2000] {
        let plan = LinePlan::new(n, 256);
        let table = factors(&plan.stages.iter().map(|s| s.radix).collect::<Vec<_>>());
        for s in plan.stages.iter().filter(|s| s.before > 1) {
            for (row, q) in known_powers(s.radix).enumerate() {
                for k in 0..s.before {
                    let want = cis(-((q * k) as f64) / (s.before * s.radix) as f64);
                    assert_eq!(table[s.factors + row * s.before + k], want);
                }
            }
        }
    }
}

fn convolved(n: usize) {
    let (c, f, m) = (chirp(n), chirp_filter(n), bluestein_length(n));
    let mul = |a: (f64, f64), b: Entry| {
        let b = (f64::from(b[0]), f64::from(b[1]));
        (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
    };
    let x: Vec<(f64, f64)> = (0..n).map(|k| ((k * k % 5) as f64, k as f64 - 3.0)).collect();
    let mut z = vec![(0.0, 0.0); m];
    for k in 0..n {
        z[k] = mul(x[k], c[k]);
    }
    let z: Vec<_> = fft_f64(z).iter().zip(&f).map(|(&z, &f)| mul(z, f)).map(|z| (z.1, z.0)).collect();
    let z = fft_f64(z);
    for k in 0..n {
        let got = mul((z[k].1, z[k].0), c[k]);
        let want = (0..n).fold((0.0, 0.0), |sum, j| {
            let w = mul(x[j], cis(-((j * k % n) as f64) / n as f64));
            (sum.0 + w.0, sum.1 + w.1)
        });
        let far = 1e-6 * (n * n) as f64;
        assert!((got.0 - want.0).abs() < far && (got.1 - want.1).abs() < far, "{got:?} {want:?}");
    }
}
