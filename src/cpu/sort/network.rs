//! Sorting networks over many lines at once: position i of every line lies side by side, and each comparator
//! is a vector minimum and maximum. The network is Batcher's odd-even merge sort (K. E. Batcher, Sorting
//! networks and their applications, 1968); comparators past the end are left out, as if greatest items stood
//! there.

/// What networks sort.
pub(in crate::cpu) trait Item: Copy + Ord + Default + Send + Sync + 'static {
    /// Lines side by side; 0 where the processor has no vectors of such items.
    const LANES: usize;
    /// Length of a line from which on radix passes are faster.
    const LONGEST: usize;

    /// Puts the lesser of each pair into `low` and the greater into `high`; both have LANES items. LEVEL is the
    /// instruction set that the caller is compiled for.
    #[inline(always)]
    fn exchange<const LEVEL: usize>(low: &mut [Self], high: &mut [Self]) {
        for i in 0..Self::LANES {
            let (x, y) = (low[i], high[i]);
            low[i] = x.min(y);
            high[i] = x.max(y);
        }
    }
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
    (u64, u32): 1, 0;
}

impl Item for u64 {
    const LANES: usize = 8;
    const LONGEST: usize = 512;

    // Compilers do not find the vector form of a 64-bit minimum by themselves.
    #[inline(always)]
    fn exchange<const LEVEL: usize>(low: &mut [u64], high: &mut [u64]) {
        assert!(low.len() == 8 && high.len() == 8);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both hold eight items, and the caller's level says what the processor has.
        unsafe {
            use std::arch::x86_64::*;
            let (p, q) = (low.as_mut_ptr(), high.as_mut_ptr());
            if LEVEL == 2 {
                let (x, y) = (_mm512_loadu_si512(p.cast()), _mm512_loadu_si512(q.cast()));
                _mm512_storeu_si512(p.cast(), _mm512_min_epu64(x, y));
                return _mm512_storeu_si512(q.cast(), _mm512_max_epu64(x, y));
            }
            if LEVEL == 1 {
                let sign = _mm256_set1_epi64x(i64::MIN);
                for at in [0, 4] {
                    let (p, q) = (p.add(at).cast(), q.add(at).cast());
                    let (x, y) = (_mm256_loadu_si256(p), _mm256_loadu_si256(q));
                    let swap = _mm256_cmpgt_epi64(_mm256_xor_si256(x, sign), _mm256_xor_si256(y, sign));
                    _mm256_storeu_si256(p, _mm256_blendv_epi8(x, y, swap));
                    _mm256_storeu_si256(q, _mm256_blendv_epi8(y, x, swap));
                }
                return;
            }
        }
        for i in 0..8 {
            let (x, y) = (low[i], high[i]);
            low[i] = x.min(y);
            high[i] = x.max(y);
        }
    }
}

// Items of a line whose network runs inside the innermost cache.
const BASE: usize = 256;

/// Orders positions `at..at + count` with those `distance` further on, as far as there are any.
#[inline(always)]
fn exchange_run<T: Item, const LEVEL: usize>(items: &mut [T], at: usize, distance: usize, count: usize) {
    let n = items.len() / T::LANES;
    if at + distance < n {
        let count = count.min(n - at - distance);
        let (low, high) = items[at * T::LANES..].split_at_mut(distance * T::LANES);
        let (low, high) = (&mut low[..count * T::LANES], &mut high[..count * T::LANES]);
        for (a, b) in low.chunks_exact_mut(T::LANES).zip(high.chunks_exact_mut(T::LANES)) {
            T::exchange::<LEVEL>(a, b);
        }
    }
}

/// Merges two sorted stretches of `half` positions from `at` on; a power of two.
#[inline(always)]
fn merge_at<T: Item, const LEVEL: usize>(items: &mut [T], at: usize, half: usize) {
    exchange_run::<T, LEVEL>(items, at, half, half);
    let mut k = half / 2;
    while k > 0 {
        for from in (at + k..at + 2 * half - k).step_by(2 * k) {
            exchange_run::<T, LEVEL>(items, from, k, k);
        }
        k /= 2;
    }
}

/// Sorts positions `at..at + BASE`.
#[inline(always)]
fn sort_base<T: Item, const LEVEL: usize>(items: &mut [T], at: usize) {
    let end = (items.len() / T::LANES).min(at + BASE);
    let mut half = 1;
    while half < end - at {
        for from in (at..end).step_by(2 * half) {
            merge_at::<T, LEVEL>(items, from, half);
        }
        half *= 2;
    }
}

/// Merges stretches of `half` positions from `at` on, or sorts what is there with none.
#[inline(always)]
fn step<T: Item, const LEVEL: usize>(items: &mut [T], at: usize, half: usize) {
    if half == 0 { sort_base::<T, LEVEL>(items, at) } else { merge_at::<T, LEVEL>(items, at, half) }
}

/// `step` for the best instruction set of this machine.
fn dispatch<T: Item>(items: &mut [T], at: usize, half: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<T: Item>(items: &mut [T], at: usize, half: usize) {
            step::<T, 1>(items, at, half);
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
        fn avx512<T: Item>(items: &mut [T], at: usize, half: usize) {
            step::<T, 2>(items, at, half);
        }
        match crate::kernels::elementwise::loops::level() {
            // SAFETY: the level says that the processor has these instructions.
            2 => return unsafe { avx512(items, at, half) },
            // SAFETY: as above.
            1 => return unsafe { avx2(items, at, half) },
            _ => {}
        }
    }
    step::<T, 0>(items, at, half);
}

fn sort_from<T: Item>(items: &mut [T], at: usize, len: usize) {
    if at * T::LANES >= items.len() {
        return;
    }
    if len <= BASE {
        return dispatch(items, at, 0);
    }
    sort_from(items, at, len / 2);
    sort_from(items, at + len / 2, len / 2);
    dispatch(items, at, len / 2);
}

/// Sorts every line; item `i` of lane `l` is at `i * lanes + l`.
pub(in crate::cpu) fn sort<T: Item>(items: &mut [T]) {
    let n = items.len() / T::LANES;
    sort_from(items, 0, n.next_power_of_two());
}
