//! How the GPU computes a transform: its length in factors, the passes of one workgroup, the passes of a long
//! line, and the tables of constants, computed in float64.

use std::f64::consts::PI;

/// A complex number of a table.
pub type Entry = [f32; 2];

/// The radices that a butterfly exists for, apart from powers of two.
const PRIMES: [usize; 5] = [13, 11, 7, 5, 3];

/// One pass of a workgroup over a line in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Length of the butterflies.
    pub radix: usize,
    /// Product of the radices before.
    pub before: usize,
    /// Butterflies of a lane.
    pub each: usize,
}

/// How a workgroup transforms a line of `n` values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinePlan {
    /// Values of a line.
    pub n: usize,
    /// Lanes of a line.
    pub lanes: usize,
    /// Values that a lane holds.
    pub held: usize,
    /// The passes.
    pub stages: Vec<Stage>,
}

/// Whether all prime factors of `n` have a butterfly.
pub fn is_smooth(n: usize) -> bool {
    let mut rest = n >> n.trailing_zeros();
    for p in PRIMES {
        while rest.is_multiple_of(p) {
            rest /= p;
        }
    }
    rest == 1
}

/// Exponents of the radices that a power of two is made of, the largest in the middle.
fn binary(bits: u32) -> Vec<u32> {
    let count = bits.div_ceil(4);
    let mut parts: Vec<u32> = (0..count).map(|i| bits / count + u32::from(i < bits % count)).collect();
    if parts.len() == 3 {
        parts.swap(0, 1);
    }
    parts
}

/// The radices of a smooth length.
fn radices(n: usize) -> Vec<usize> {
    let mut list: Vec<usize> = binary(n.trailing_zeros()).into_iter().map(|b| 1 << b).collect();
    let mut rest = n >> n.trailing_zeros();
    for p in PRIMES {
        while rest.is_multiple_of(p) {
            list.push(p);
            rest /= p;
        }
    }
    list
}

impl LinePlan {
    /// The plan of a smooth length (at least 2) with the fewest idle values, on at most `most` lanes.
    pub fn new(n: usize, most: usize) -> LinePlan {
        Self::with(n, &radices(n), most)
    }

    fn with(n: usize, radices: &[usize], most: usize) -> LinePlan {
        let held = |lanes: usize| radices.iter().map(|r| r * (n / r).div_ceil(lanes)).max().unwrap_or(1);
        let cost = |lanes: usize| -> usize {
            radices.iter().map(|r| lanes * r * (n / r).div_ceil(lanes)).sum::<usize>()
        };
        // Sixteen values a lane keep enough lanes in flight; long lines on few lanes hold more.
        let least = radices.iter().copied().max().unwrap_or(1).max(16);
        let most = most.min(n);
        let fits = |limit: usize| (1..=most).filter(|&t| held(t) <= limit).min_by_key(|&t| (cost(t), t));
        let lanes = fits(least).or_else(|| fits(2 * least)).unwrap_or(most);
        let mut before = 1;
        let stages = radices
            .iter()
            .map(|&radix| {
                let stage = Stage { radix, before, each: (n / radix).div_ceil(lanes) };
                before *= radix;
                stage
            })
            .collect();
        LinePlan { n, lanes, held: held(lanes), stages }
    }
}

/// Smooth factors of a smooth length, each at most `limit`, as equal as may be.
pub fn split(n: usize, limit: usize) -> Vec<usize> {
    if n <= limit {
        return vec![n];
    }
    let count = (2..).find(|&k| (limit as f64).powi(k) >= n as f64).unwrap_or(2) as usize;
    for count in count..64 {
        let mut parts = vec![1usize; count];
        let mut primes = Vec::new();
        let mut rest = n;
        for p in PRIMES.into_iter().chain([2]) {
            while rest.is_multiple_of(p) {
                primes.push(p);
                rest /= p;
            }
        }
        for p in primes {
            // INVARIANT: there are at least two parts.
            let least = parts.iter_mut().min().expect("parts");
            *least *= p;
        }
        if parts.iter().all(|&p| p <= limit && p > 1) {
            parts.sort_unstable_by(|a, b| b.cmp(a));
            return parts;
        }
    }
    // INVARIANT: 64 factors of at least 2 exceed every length.
    unreachable!("a smooth length has small factors")
}

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
    fn plans_cover_every_smooth_length() {
        for n in (2..5000).filter(|&n| is_smooth(n)) {
            let p = LinePlan::new(n, 256);
            assert_eq!(p.stages.iter().map(|s| s.radix).product::<usize>(), n);
            assert!(p.lanes <= 256 && p.held <= 32, "{p:?}");
            for s in &p.stages {
                assert!(s.each * p.lanes >= n / s.radix && s.each * s.radix <= p.held, "{p:?}");
            }
        }
        let p = LinePlan::new(1024, 256);
        assert_eq!((p.lanes, p.held), (64, 16));
        assert_eq!(p.stages.iter().map(|s| s.radix).collect::<Vec<_>>(), [8, 16, 8]);
    }

    #[test]
    fn long_lengths_split_into_smooth_factors() {
        for n in [4097 * 3, 1 << 13, 1 << 20, 1 << 25, 3 << 20, 13 * 13 * 13 * 13 * 13, 1_000_000_000] {
            if !is_smooth(n) {
                continue;
            }
            let parts = split(n, 1024);
            assert_eq!(parts.iter().product::<usize>(), n);
            assert!(parts.iter().all(|&p| p <= 1024 && is_smooth(p)), "{n} {parts:?}");
        }
        assert_eq!(split(1 << 20, 1024), [1024, 1024]);
    }

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
