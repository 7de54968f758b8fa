//! Sorting networks over many lines at once: position i of every line lies side by side, and each comparator
//! is a vector minimum and maximum. The network is Batcher's odd-even merge sort (K. E. Batcher, Sorting
//! networks and their applications, 1968); comparators past the end are left out, as if greatest items stood
//! there.

use super::simd::multiversion;

/// What networks sort.
pub(super) trait Item: Copy + Ord + Default + Send + Sync + 'static {
    /// Lines side by side; 0 where the processor has no vectors of such items.
    const LANES: usize;
    /// Length of a line from which on radix passes are faster.
    const LONGEST: usize;
}

macro_rules! items {
    ($($t:ty: $lanes:expr, $longest:expr;)*) => { $(impl Item for $t {
        const LANES: usize = $lanes;
        const LONGEST: usize = $longest;
    })* };
}
items! {
    u8: 64, 64;
    u16: 32, 512;
    u32: 16, 4096;
    u64: 8, 1024;
    (u64, u32): 1, 0;
}

/// Lines that are sorted side by side.
pub(super) const fn lanes<T: Item>() -> usize {
    T::LANES
}

/// Length up to which networks are the fastest way.
pub(super) const fn longest<T: Item>() -> usize {
    T::LONGEST
}

// Items of a line whose network runs inside the innermost cache.
const BASE: usize = 256;

/// Orders each item of `low` with its counterpart in `high`.
#[inline(always)]
fn exchange<T: Item>(low: &mut [T], high: &mut [T]) {
    for (a, b) in low.chunks_exact_mut(T::LANES).zip(high.chunks_exact_mut(T::LANES)) {
        for i in 0..T::LANES {
            let (x, y) = (a[i], b[i]);
            a[i] = x.min(y);
            b[i] = x.max(y);
        }
    }
}

/// Orders positions `at..at + count` with those `distance` further on, as far as there are any.
#[inline(always)]
fn exchange_run<T: Item>(items: &mut [T], at: usize, distance: usize, count: usize) {
    let n = items.len() / T::LANES;
    if at + distance < n {
        let count = count.min(n - at - distance);
        let (low, high) = items[at * T::LANES..].split_at_mut(distance * T::LANES);
        exchange(&mut low[..count * T::LANES], &mut high[..count * T::LANES]);
    }
}

/// Merges two sorted stretches of `half` positions from `at` on; a power of two.
#[inline(always)]
fn merge_at<T: Item>(items: &mut [T], at: usize, half: usize) {
    exchange_run(items, at, half, half);
    let mut k = half / 2;
    while k > 0 {
        for from in (at + k..at + 2 * half - k).step_by(2 * k) {
            exchange_run(items, from, k, k);
        }
        k /= 2;
    }
}

multiversion! {
    /// # Safety
    /// None needed.
    unsafe fn merge<T: Item>(items: &mut [T], at: usize, half: usize) {
        merge_at(items, at, half);
    }
}

multiversion! {
    /// Sorts positions `at..at + BASE`.
    ///
    /// # Safety
    /// None needed.
    unsafe fn sort_base<T: Item>(items: &mut [T], at: usize) {
        let end = (items.len() / T::LANES).min(at + BASE);
        let mut half = 1;
        while half < end - at {
            for from in (at..end).step_by(2 * half) {
                merge_at(items, from, half);
            }
            half *= 2;
        }
    }
}

fn sort_from<T: Item>(items: &mut [T], at: usize, len: usize) {
    if at * T::LANES >= items.len() {
        return;
    }
    if len <= BASE {
        // SAFETY: nothing is required.
        return unsafe { sort_base(items, at) };
    }
    sort_from(items, at, len / 2);
    sort_from(items, at + len / 2, len / 2);
    // SAFETY: as above.
    unsafe { merge(items, at, len / 2) };
}

/// Sorts every line; item `i` of lane `l` is at `i * lanes + l`.
pub(super) fn sort<T: Item>(items: &mut [T]) {
    let n = items.len() / T::LANES;
    sort_from(items, 0, n.next_power_of_two());
}
