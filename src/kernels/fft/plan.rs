//! How the GPU computes a transform: its length in factors, the passes of one workgroup, and the passes of a
//! long line. Its tables: `constants`.

/// A complex number of a table.
pub type Entry = [f32; 2];

/// The radices that a butterfly exists for, apart from powers of two.
const PRIMES: [usize; 5] = [13, 11, 7, 5, 3];

/// Most values of a lane that holds columns and their mirror images.
const MIRRORED_VALUES: usize = 32;

/// One pass of a workgroup over a line in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Length of the butterflies.
    pub radix: usize,
    /// Product of the radices before.
    pub before: usize,
    /// Butterflies of a lane.
    pub each: usize,
    /// Where its factors begin in the table of the line's (`constants::factors`).
    pub factors: usize,
}

/// The powers below `radix` of a butterfly's factor that the table has; the others are products of two of these.
pub fn known_powers(radix: usize) -> impl Iterator<Item = usize> {
    (1..radix).filter(move |q| radix <= 5 || q.is_power_of_two())
}

/// How a workgroup transforms a line of `n` values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinePlan {
    /// Values of a line.
    pub n: usize,
    /// Lanes of a line.
    pub lanes: usize,
    /// Values that a lane holds.
    pub registers: usize,
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

/// The radices that a butterfly exists for.
const RADICES: [usize; 15] = [16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2];

/// The radices of a smooth length: as few as there may be, as equal as they may be, the largest in the middle of three.
fn radices(n: usize) -> Vec<usize> {
    let mut best = Vec::new();
    search(n, &mut Vec::new(), &mut best);
    if best.len() == 3 {
        best.swap(0, 1);
    }
    best
}

/// Radices that fall from one to the next, behind those in `parts`.
fn search(rest: usize, parts: &mut Vec<usize>, best: &mut Vec<usize>) {
    if rest == 1 {
        let cost = |list: &[usize]| (list.len(), list.iter().sum::<usize>());
        if best.is_empty() || cost(parts) < cost(best) {
            best.clone_from(parts);
        }
        return;
    }
    if !best.is_empty() && parts.len() >= best.len() {
        return;
    }
    let last = parts.last().copied().unwrap_or(RADICES[0]);
    for r in RADICES.into_iter().filter(|&r| r <= last && rest.is_multiple_of(r)) {
        parts.push(r);
        search(rest / r, parts, best);
        parts.pop();
    }
}

impl LinePlan {
    /// The plan of a smooth length (at least 2) with the fewest idle values, on at most `most` lanes.
    pub fn new(n: usize, most: usize) -> LinePlan {
        Self::with(n, &radices(n), most)
    }

    fn with(n: usize, radices: &[usize], most: usize) -> LinePlan {
        let registers = |lanes: usize| radices.iter().map(|r| r * (n / r).div_ceil(lanes)).max().unwrap_or(1);
        let cost = |lanes: usize| -> usize {
            radices.iter().map(|r| lanes * r * (n / r).div_ceil(lanes)).sum::<usize>()
        };
        // Sixteen values a lane keep enough lanes in flight; long lines on few lanes hold more.
        let least = radices.iter().copied().max().unwrap_or(1).max(16);
        let most = most.min(n);
        let fits = |limit: usize| (1..=most).filter(|&t| registers(t) <= limit).min_by_key(|&t| (cost(t), t));
        let lanes = fits(least).or_else(|| fits(2 * least)).unwrap_or(most);
        Self::on(n, radices, lanes)
    }

    /// The plan that leaves each of at least `lanes.0` and at most `lanes.1` lanes a column of the last stage, or of the `first` one,
    /// and its mirror image, where there is one.
    pub fn mirrored(n: usize, first: bool, lanes: (usize, usize)) -> Option<LinePlan> {
        let plans = |mut list: Vec<usize>| {
            let mut plans = Vec::new();
            for _ in 0..2 {
                let columns = n / if first { list[0] } else { *list.last()? };
                let fits = columns.is_multiple_of(2) && (lanes.0..=lanes.1).contains(&(columns / 2));
                plans.extend(fits.then(|| Self::on(n, &list, columns / 2)));
                list.reverse();
            }
            plans.retain(|p| p.registers <= MIRRORED_VALUES && p.stages.len() > 1);
            plans.into_iter().min_by_key(|p| p.registers)
        };
        // A last stage of four has many columns.
        let fours =
            || Some([radices(n.is_multiple_of(4).then_some(n / 4).filter(|&n| n > 1)?), vec![4]].concat());
        plans(radices(n)).or_else(|| plans(fours()?))
    }

    /// The plan of these radices on so many lanes.
    pub fn on(n: usize, radices: &[usize], lanes: usize) -> LinePlan {
        let (mut before, mut factors) = (1, 0);
        let stages: Vec<Stage> = radices
            .iter()
            .map(|&radix| {
                let stage = Stage { radix, before, each: (n / radix).div_ceil(lanes), factors };
                if before > 1 {
                    factors += before * known_powers(radix).count();
                }
                before *= radix;
                stage
            })
            .collect();
        let registers = stages.iter().map(|s| s.radix * s.each).max().unwrap_or(1);
        LinePlan { n, lanes, registers, stages }
    }
}

/// The prime factors of a smooth length, the largest first.
pub fn primes(n: usize) -> Vec<usize> {
    let mut primes = Vec::new();
    let mut rest = n;
    for p in PRIMES.into_iter().chain([2]) {
        while rest.is_multiple_of(p) {
            primes.push(p);
            rest /= p;
        }
    }
    primes
}

/// Smooth factors of a smooth length, each at most `limit`, as equal as may be.
pub fn split(n: usize, limit: usize) -> Vec<usize> {
    if n <= limit {
        return vec![n];
    }
    let count = (2..).find(|&k| (limit as f64).powi(k) >= n as f64).unwrap_or(2) as usize;
    for count in count..64 {
        let mut parts = vec![1usize; count];
        for p in primes(n) {
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

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
