//! Tables of constants of the GPU's transforms, computed in float64: roots of unity and Bluestein's chirps.

use std::f64::consts::PI;

use super::plan::Entry;

fn cis(turn: f64) -> Entry {
    let (s, c) = (turn * 2.0 * PI).sin_cos();
    [c as f32, s as f32]
}

/// `exp(-2 pi i k / n)` for all `k`.
pub fn roots(n: usize) -> Vec<Entry> {
    (0..n).map(|k| cis(-(k as f64) / n as f64)).collect()
}

/// Bits of the low part of an exponent below `n` in [`split_roots`].
pub fn low_bits(n: usize) -> u32 {
    n.next_power_of_two().ilog2().div_ceil(2)
}

/// The powers of `exp(-2 pi i / n)` in two tables: those below `2^low_bits`, then the multiples of that.
pub fn split_roots(n: usize) -> Vec<Entry> {
    let low = 1usize << low_bits(n);
    let high = n.div_ceil(low);
    let power = |k: usize| cis(-(k as f64) / n as f64);
    (0..low).map(power).chain((0..high).map(|k| power(k * low))).collect()
}

/// Length of the convolution that a transform of `n` values becomes.
pub fn bluestein_length(n: usize) -> usize {
    (2 * n - 1).next_power_of_two()
}

fn chirp_f64(n: usize, k: usize) -> (f64, f64) {
    // The square counts modulo 2 n.
    let turn = (k as u128 * k as u128 % (2 * n as u128)) as f64 / (2.0 * n as f64);
    let (s, c) = (-turn * 2.0 * PI).sin_cos();
    (c, s)
}

/// `exp(-pi i k^2 / n)` for all `k`.
pub fn chirp(n: usize) -> Vec<Entry> {
    (0..n)
        .map(|k| {
            let (c, s) = chirp_f64(n, k);
            [c as f32, s as f32]
        })
        .collect()
}

/// The transform of the conjugate chirp, wrapped into the convolution's length and divided by it.
pub fn chirp_filter(n: usize) -> Vec<Entry> {
    let m = bluestein_length(n);
    let mut x = vec![(0.0f64, 0.0f64); m];
    for k in 0..n {
        let (c, s) = chirp_f64(n, k);
        x[k] = (c, -s);
        x[(m - k) % m] = (c, -s);
    }
    fft_f64(&mut x);
    let scale = 1.0 / m as f64;
    x.into_iter().map(|(re, im)| [(re * scale) as f32, (im * scale) as f32]).collect()
}

/// A transform of a power of two in place, radix two.
fn fft_f64(x: &mut [(f64, f64)]) {
    let n = x.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
        if i < j {
            x.swap(i, j);
        }
    }
    let w: Vec<(f64, f64)> = (0..n / 2)
        .map(|k| {
            let (s, c) = (-2.0 * PI * k as f64 / n as f64).sin_cos();
            (c, s)
        })
        .collect();
    let mut half = 1;
    while half < n {
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (c, s) = w[k * (n / (2 * half))];
                let (a, b) = (x[start + k], x[start + k + half]);
                let t = (b.0 * c - b.1 * s, b.0 * s + b.1 * c);
                x[start + k] = (a.0 + t.0, a.1 + t.1);
                x[start + k + half] = (a.0 - t.0, a.1 - t.1);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_makes_a_transform_a_convolution() {
        let n = 7;
        let (c, f, m) = (chirp(n), chirp_filter(n), bluestein_length(n));
        assert_eq!(m, 16);
        let mul = |a: (f64, f64), b: Entry| {
            let b = (f64::from(b[0]), f64::from(b[1]));
            (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
        };
        let x: Vec<(f64, f64)> = (0..n).map(|k| ((k * k % 5) as f64, k as f64 - 3.0)).collect();
        let mut z = vec![(0.0, 0.0); m];
        for k in 0..n {
            z[k] = mul(x[k], c[k]);
        }
        fft_f64(&mut z);
        let mut z: Vec<_> = z.iter().zip(&f).map(|(&z, &f)| mul(z, f)).map(|z| (z.1, z.0)).collect();
        fft_f64(&mut z);
        for k in 0..n {
            let got = mul((z[k].1, z[k].0), c[k]);
            let want = (0..n).fold((0.0, 0.0), |sum, j| {
                let w = mul(x[j], cis(-((j * k % n) as f64) / n as f64));
                (sum.0 + w.0, sum.1 + w.1)
            });
            assert!((got.0 - want.0).abs() < 1e-5 && (got.1 - want.1).abs() < 1e-5, "{got:?} {want:?}");
        }
    }
}
