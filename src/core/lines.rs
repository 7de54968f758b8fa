//! Cache lines that are asked for before they are read: what another thread wrote last is a hundred nanoseconds away, and
//! whoever follows one pointer after the other waits for each.

/// Into the first cache, and into the second: what prefetch instructions are told.
const FIRST: i32 = 3;
/// See [`FIRST`].
const SECOND: i32 = 2;

#[inline(always)]
fn ask<const CACHE: i32>(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        // SAFETY: prefetching has no effect that a program could see.
        unsafe { std::arch::x86_64::_mm_prefetch::<CACHE>(start.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Asks for lines that will be read at once. Any address will do: nothing is read, and none faults.
#[inline(always)]
pub(crate) fn ask_for(start: *const u8, bytes: usize) {
    ask::<FIRST>(start, bytes);
}

/// Asks for a value that will be read at once.
#[inline(always)]
pub(crate) fn ask_for_all<T>(value: *const T) {
    ask_for(value.cast(), size_of::<T>());
}

/// As [`ask_for`], for lines that are read a little later.
#[inline(always)]
pub(crate) fn ask_for_later(start: *const u8, bytes: usize) {
    ask::<SECOND>(start, bytes);
}
