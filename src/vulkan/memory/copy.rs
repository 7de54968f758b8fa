//! Copies of host memory that keep up with a bus: by several threads, and past the caches, which hold other things.

use std::sync::OnceLock;

use crate::vulkan::tune::transfer::{PART, STREAMED, THREADS};

/// Copies `bytes` bytes, more than a little on several threads: one alone does not keep up with the bus.
///
/// # Safety
/// As `ptr::copy_nonoverlapping` for bytes.
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, bytes: usize) {
    let helpers = if bytes >= 2 * PART { helpers() } else { None };
    match helpers {
        // SAFETY: by the caller.
        None => unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) },
        // SAFETY: by the caller.
        Some(pool) => unsafe {
            shared(pool, (pool.current_num_threads() + 1).min(bytes / PART), src, dst, bytes);
        },
    }
}

/// Copies in `parts` parts, the first of which is the caller's.
///
/// # Safety
/// As `ptr::copy_nonoverlapping` for bytes.
unsafe fn shared(pool: &rayon::ThreadPool, parts: usize, src: *const u8, dst: *mut u8, bytes: usize) {
    let (from, to) = (src as usize, dst as usize);
    let part = bytes.div_ceil(parts).next_multiple_of(4096);
    // SAFETY: the parts are disjoint and inside both ranges; the scope ends before they do.
    let copy = move |start: usize| unsafe {
        let n = part.min(bytes - start);
        let (src, dst) = ((from + start) as *const u8, (to + start) as *mut u8);
        if bytes >= STREAMED { stream(src, dst, n) } else { std::ptr::copy_nonoverlapping(src, dst, n) }
    };
    pool.in_place_scope(|scope| {
        for start in (part..bytes).step_by(part) {
            scope.spawn(move |_| copy(start));
        }
        copy(0);
    });
}

/// Copies with stores that do not read what they overwrite, where there are such.
///
/// # Safety
/// As `ptr::copy_nonoverlapping` for bytes.
unsafe fn stream(src: *const u8, dst: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: by the caller, and the processor has the instructions.
        return unsafe { stream_avx2(src, dst, bytes) };
    }
    // SAFETY: by the caller.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn stream_avx2(src: *const u8, dst: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const STEP: usize = 128;
    let head = dst.align_offset(32).min(bytes);
    let whole = (bytes - head) / STEP * STEP;
    // SAFETY: all three pieces lie inside both ranges, and stores begin at multiples of 32.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        for at in (head..head + whole).step_by(STEP) {
            let (from, to) = (src.add(at).cast::<__m256i>(), dst.add(at).cast::<__m256i>());
            let loaded: [__m256i; 4] = std::array::from_fn(|i| _mm256_loadu_si256(from.add(i)));
            for (i, v) in loaded.into_iter().enumerate() {
                _mm256_stream_si256(to.add(i), v);
            }
        }
        _mm_sfence();
        let done = head + whole;
        std::ptr::copy_nonoverlapping(src.add(done), dst.add(done), bytes - done);
    }
}

/// Threads that help the caller's; none on small machines.
fn helpers() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let make = || {
        let threads = std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).clamp(1, THREADS));
        let name = |i| format!("mlx-copy-{i}");
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(threads - 1).thread_name(name).build().ok();
        (threads > 1).then(pool).flatten()
    };
    POOL.get_or_init(make).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_copies_are_whole() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let sizes = [1usize, 4095, 4096, 4097, 3 * 4096 + 5, 1 << 20, (1 << 20) + 77, STREAMED + 4097];
        for bytes in sizes {
            let from: Vec<u8> = (0..bytes + 3).map(|i| (i * 31 % 251) as u8).collect();
            for (parts, at) in [(1, 0), (2, 1), (3, 2), (5, 3)] {
                let mut to = vec![0u8; bytes + 4];
                // SAFETY: both hold `bytes` from there on.
                unsafe { shared(&pool, parts, from[3..].as_ptr(), to[at..].as_mut_ptr(), bytes) };
                let around = to[..at].iter().chain(&to[at + bytes..]).all(|&b| b == 0);
                assert!(to[at..at + bytes] == from[3..] && around, "{bytes} in {parts}");
            }
        }
    }
}
