//! Exact byte counts of the process: in use, peak, parked in caches; and the limits on them. Host and
//! device allocators both report here; Python's `mx.get_active_memory` family reads it.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use crate::core::fork::Shared;

static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static CACHED: AtomicI64 = AtomicI64::new(0);
static MEMORY_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
pub(crate) static CACHES: Shared<Vec<fn(When)>> = Shared::new(Vec::new);

/// When a cache that is emptied gives its memory back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before this returns, once what uses it has finished.
    Now,
    /// A little later, unless it is asked for again.
    Soon,
}

/// An allocation of `bytes` went into use.
pub fn on_alloc(bytes: usize) {
    let now = ACTIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

/// An allocation of `bytes` went out of use.
pub fn on_free(bytes: usize) {
    ACTIVE.fetch_sub(bytes, Relaxed);
}

/// Bytes entered (positive) or left (negative) a cache.
pub fn on_cache(delta: i64) {
    CACHED.fetch_add(delta, Relaxed);
}

/// Bytes in use.
pub fn active() -> usize {
    ACTIVE.load(Relaxed)
}

/// Largest value of [`active`] since the start or the last [`reset_peak`].
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// Starts a new peak measurement; the peak reads 0 until the next allocation.
pub fn reset_peak() {
    PEAK.store(0, Relaxed);
}

/// Bytes held for reuse.
pub fn cache() -> usize {
    CACHED.load(Relaxed).max(0) as usize
}

/// Limit on active bytes; `usize::MAX` means none.
pub fn memory_limit() -> usize {
    MEMORY_LIMIT.load(Relaxed)
}

/// Sets the limit and returns the previous one.
pub fn set_memory_limit(bytes: usize) -> usize {
    MEMORY_LIMIT.swap(bytes, Relaxed)
}

/// Whether `bytes` more may come into use; what has finished is counted out first.
///
/// # Errors
/// The end of a message that says what the limit is.
pub fn admit(bytes: usize) -> Result<(), String> {
    let limit = memory_limit();
    if active().saturating_add(bytes) > limit {
        clear_cache(When::Now);
        if active().saturating_add(bytes) > limit {
            return Err(format!(": the memory limit is {limit} bytes, of which {} are in use.", active()));
        }
    }
    Ok(())
}

/// How far `bytes` more from the system would lie beyond the memory limit, with what caches hold.
pub fn excess(bytes: usize) -> usize {
    active().saturating_add(cache()).saturating_add(bytes).saturating_sub(memory_limit())
}

/// Limit on cached bytes; `usize::MAX` means none.
pub fn cache_limit() -> usize {
    CACHE_LIMIT.load(Relaxed)
}

/// Sets the cache limit, emptying the caches if they hold more, and returns the previous one.
pub fn set_cache_limit(bytes: usize) -> usize {
    let old = CACHE_LIMIT.swap(bytes, Relaxed);
    if cache() > bytes {
        clear_cache(When::Now);
    }
    old
}

/// Registers the function that empties a cache.
pub fn register_cache(clear: fn(When)) {
    let mut caches = CACHES.lock();
    if !caches.contains(&clear) {
        caches.push(clear);
    }
}

/// Empties every cache: none holds a byte, as far as [`cache`] counts, when it returns.
pub fn clear_cache(when: When) {
    let caches = CACHES.lock().clone();
    for clear in caches {
        clear(when);
    }
}
