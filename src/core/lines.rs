//! Cache lines that are asked for before they are read: what another thread wrote last is a hundred nanoseconds away, and
//! whoever follows one pointer after the other waits for each.

/// Asks for lines that will be read at once. Any address will do: nothing is read, and none faults.
#[inline(always)]
pub(crate) fn ask_for(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching has no effect that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Asks for a value that will be read at once.
#[inline(always)]
pub(crate) fn ask_for_all<T>(value: *const T) {
    ask_for(value.cast(), size_of::<T>());
}

/// As [`ask_for`], for lines that are read a little later: they come into the second cache.
#[inline(always)]
pub(crate) fn ask_for_later(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: prefetching has no effect that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
