//! Tables of constants of the GPU's transforms, computed in float64: roots of unity and Bluestein's chirps.

use std::f64::consts::PI;

use super::plan::{Entry, is_smooth, known_powers, primes};

fn cis(turn: f64) -> Entry {
    let (s, c) = (turn * 2.0 * PI).sin_cos();
    [c as f32, s as f32]
}

/// `exp(-2 pi i k / n)` for all `k`.
pub fn roots(n: usize) -> Vec<Entry> {
    (0..n).map(|k| cis(-(k as f64) / n as f64)).collect()
}

/// The factors of the stages of these radices: for each power that is known, those of all places side by side.
pub fn factors(radices: &[usize]) -> Vec<Entry> {
    let (mut before, mut list) = (1, Vec::new());
    for &radix in radices {
        let powers = known_powers(radix).filter(|_| before > 1);
        list.extend(
            powers.flat_map(|q| (0..before).map(move |k| cis(-((q * k) as f64) / (before * radix) as f64))),
        );
        before *= radix;
    }
    list
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

/// Length of the convolution that a transform of `n` values becomes: the next power of two where little more is needed
/// than that, else the least multiple of four whose factors all have a butterfly.
pub fn bluestein_length(n: usize) -> usize {
    let least = 2 * n - 1;
    let power = least.next_power_of_two();
    let smooth = (least.next_multiple_of(4)..power).step_by(4).find(|&m| is_smooth(m)).unwrap_or(power);
    if power - smooth < power / 8 { power } else { smooth }
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
    let scale = 1.0 / m as f64;
    fft_f64(x).into_iter().map(|(re, im)| [(re * scale) as f32, (im * scale) as f32]).collect()
}

/// A transform of a smooth length by Stockham's passes of prime radices.
fn fft_f64(mut x: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let n = x.len();
    let w: Vec<(f64, f64)> = (0..n)
        .map(|k| {
            let (s, c) = (-2.0 * PI * k as f64 / n as f64).sin_cos();
            (c, s)
        })
        .collect();
    let mul = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
    let mut out = vec![(0.0, 0.0); n];
    let mut before = 1;
    for r in primes(n) {
        let columns = n / r;
        let mut u = vec![(0.0, 0.0); r];
        for j in 0..columns {
            let k = j % before;
            for (q, v) in u.iter_mut().enumerate() {
                *v = mul(x[j + q * columns], w[k * q * (columns / before)]);
            }
            for p in 0..r {
                let terms = u.iter().enumerate().map(|(q, &v)| mul(v, w[p * q % r * columns]));
                out[(j - k) * r + k + p * before] = terms.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            }
        }
        std::mem::swap(&mut x, &mut out);
        before *= r;
    }
    x
}

#[cfg(test)]
#[path = "constants_tests.rs"]
mod tests;
