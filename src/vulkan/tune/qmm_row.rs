//! How the kernel of one row and a quantised matrix (qmm_row) is laid out, and when it is to be preferred to others for
//! the sake of what it can take in: the normalisation before, other products and the step behind. Pure; called by
//! `quantized` and `fusion`.

use super::ceil;
use super::profile::Profile;
use super::quantized::{Shape, forced, winner};
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::Features;

pub static QMM_ROW: KernelVariant = KernelVariant::new("qmm_row", "the kernel of few rows, for one row too");

/// qmm_row.comp: threads a row of codes, rows a thread, units in flight, codes of a unit; units of x that a thread's
/// lane has staged at once, and whether those are all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Row {
    pub threads: u32,
    pub rows: u32,
    pub depth: u32,
    pub unit: u32,
    pub steps: u32,
    pub whole: bool,
}

/// Codes in flight of a thread: rows and units. More would spill.
const AHEAD: [[u32; 2]; 7] = [[1, 2], [1, 4], [1, 8], [2, 2], [2, 4], [4, 2], [4, 4]];

/// What limits products of one row by many codes: the share of the memory's rate that they reach where nothing else does,
/// and the codes that a unit turns into numbers in a nanosecond in this kernel.
struct Rates {
    share: f64,
    codes: f64,
}
/// H200, codes of four bits: 16384 x 4096 take 15 us on cooperative matrices, 12288 x 4096 also 15, and 14.8 by lanes as
/// one of three products that are joined.
const RATES: Rates = Rates { share: 0.6, codes: 28.0 };

/// Bytes of x that a workgroup stages, at most; sums of its chunks take a quarter more.
fn room(f: &Features) -> u32 {
    match f.shared_memory {
        s if s >= 48 << 10 => 32 << 10,
        s if s >= 32 << 10 => 16 << 10,
        _ => 8 << 10,
    }
}

/// Codes of a unit: sixteen bytes of them, where a row and the way they are packed allow it.
fn unit(format: Format, k: i64) -> u32 {
    let most = match format.bits {
        8 => 16,
        1 | 2 => 64,
        _ => 32,
    };
    [most, 32, 16].into_iter().find(|&u| u <= most && k % i64::from(u) == 0).unwrap_or(16)
}

/// The layout of such numbers, if it can be: a thread has all its units in flight staged. Kernels for any length stage
/// a power of two of steps, so that there are few of them.
pub(in crate::vulkan) fn row(p: &Profile, s: &Shape, numbers: [u32; 4], exact: bool) -> Option<Row> {
    let [threads, rows, depth, unit] = numbers;
    let size = s.dtype.size() as u32;
    let fits =
        (1..=8).contains(&rows) && depth > 0 && super::row_threads(threads) && [16, 32, 64].contains(&unit);
    if !fits
        || rows > threads
        || s.k <= 0
        || s.k % i64::from(unit) != 0
        || !(unit * s.format.bits).is_multiple_of(32)
    {
        return None;
    }
    let most = room(&p.features) / (threads * unit * size) / depth * depth;
    if most == 0 {
        return None;
    }
    let need = ceil(s.k / i64::from(unit), threads.into());
    let need = if exact { need } else { (need as u64).next_power_of_two() as i64 };
    let steps = ceil(need, depth.into()) * i64::from(depth);
    let whole = steps <= i64::from(most);
    Some(Row { threads, rows, depth, unit, steps: if whole { steps as u32 } else { most }, whole })
}

/// The layouts that are measured against each other for a product.
pub(in crate::vulkan) fn candidates(p: &Profile, s: &Shape) -> Vec<Vec<u32>> {
    let own = unit(s.format, s.k);
    let units = if own == 16 && s.k % 32 == 0 { vec![16, 32] } else { vec![own] };
    let all = units.into_iter().flat_map(|unit| {
        [32, 64, 128].into_iter().flat_map(move |t| AHEAD.map(|[rows, depth]| [t, rows, depth, unit]))
    });
    // Units in flight that a thread has not got are no layout of their own.
    let has = |n: &[u32; 4]| n[2] == 1 || i64::from(n[0] * n[3] * n[2]) < 2 * s.k;
    all.filter(|n| has(n) && row(p, s, *n, false).is_some()).map(|n| n.to_vec()).collect()
}

/// Threads, rows and units in flight for a product: workgroups that fill the device without a rest come first, then as
/// many rows as share what is read of x. A software driver gets the shortest code.
fn numbers(p: &Profile, s: &Shape) -> [u32; 4] {
    let unit = unit(s.format, s.k);
    let units = s.k / i64::from(unit);
    if p.features.software {
        return [8, 1, 1, unit];
    }
    let device = i64::from(p.units.max(1));
    let groups = |threads: i64, rows: i64| ceil(s.n, 256 / threads * rows) * s.batch;
    // Shares of the last round in which units have nothing to do.
    let even = |g: i64| ceil(g, device) * device * 8 <= g * 9;
    let least = if units < 16 { 8 } else { 32 };
    let found =
        [4, 2].into_iter().find(|&r| groups(least, r) >= p.nearly(1) as i64 && even(groups(least, r)));
    let rows = found.unwrap_or(1);
    let mut threads = least;
    while rows == 1 && threads < 256 && threads * 2 <= units && groups(threads, 1) < p.fill() as i64 {
        threads *= 2;
    }
    let steps = ceil(units, threads) as u64;
    let most = if rows == 4 { 2 } else { 4 };
    let depth = steps.next_power_of_two().min(most);
    [threads as u32, rows as u32, depth as u32, unit]
}

/// How one row is multiplied: as the environment asks, as won on this device, or as sizes say.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape, exact: bool) -> Option<Row> {
    let given = |n: &[u32]| row(p, s, n.try_into().ok()?, exact);
    let own = || {
        let mut n = numbers(p, s);
        // Shared memory too small for them has fewer in flight, then fewer threads on a row.
        loop {
            match row(p, s, n, exact) {
                Some(found) => return Some(found),
                None if n[2] > 1 => n[2] /= 2,
                None if n[0] > 8 => n[0] /= 2,
                None => return None,
            }
        }
    };
    forced().and_then(given).or_else(|| winner(p, s).and_then(given)).or_else(own)
}

/// Bytes that one product reads.
fn bytes(s: &Shape) -> f64 {
    let f = s.format;
    let factors = if f.affine() { 2 * s.dtype.size() } else { 1 };
    (s.n * s.k) as f64 * (f64::from(f.bits) / 8.0 + factors as f64 / f64::from(f.group))
}

/// Whether a product that cooperative matrices would multiply is to be joined all the same: what they would save, where
/// lanes are slower than the memory, is less than what a product that is joined leaves out at least: one command that
/// waits for others. With its own time that is three times what a small one costs (H200: normalisation 4.5 us, addition
/// 3.6, gated unit 5.8).
pub(in crate::vulkan) fn joins(p: &Profile, s: &Shape) -> bool {
    let memory = bytes(s) / (f64::from(p.bandwidth) * RATES.share);
    let lanes = (s.n * s.k) as f64 / (RATES.codes * f64::from(p.units));
    lanes - memory <= 3.0 * f64::from(p.dependent_ns)
}
