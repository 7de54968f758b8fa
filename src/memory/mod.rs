//! Host memory: 64-byte aligned blocks from a size-class cache, so that a steady loop asks the system for
//! nothing. Statistics and limits of host and device memory together are in [`stats`].

#[cfg(unix)]
pub mod cuda;
#[cfg(unix)]
pub mod reach;
pub mod stats;
mod system;

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::fault::{self, Site};
use crate::core::fork::Shared;
use crate::core::storage::install_host_alloc;
use crate::core::{Error, HostBlock, Result, Storage};

const ALIGN: usize = 64;
/// The host cache keeps at most this much, whatever the limit says: memory the system may want back.
const HOST_CACHE_MAX: usize = 2 << 30;

/// Blocks that nobody uses, by capacity.
pub(crate) struct Cache {
    bytes: usize,
    free: BTreeMap<usize, Vec<usize>>,
}

// Not a `Once`: a child forked while another thread is in it would wait for that.
static REGISTERED: AtomicBool = AtomicBool::new(false);
pub(crate) static CACHE: Shared<Cache> = Shared::new(|| Cache { bytes: 0, free: BTreeMap::new() });

/// Capacity that serves `nbytes`: powers of two in four steps, so that waste stays under a quarter.
pub fn size_class(nbytes: usize) -> usize {
    let n = nbytes.max(ALIGN);
    let step = (n.next_power_of_two() / 8).max(ALIGN);
    n.div_ceil(step) * step
}

fn release(ptr: NonNull<u8>, capacity: usize) {
    stats::on_free(capacity);
    {
        let mut c = CACHE.lock();
        let room = stats::cache_limit().min(HOST_CACHE_MAX);
        if c.bytes + capacity <= room {
            c.bytes += capacity;
            c.free.entry(capacity).or_default().push(ptr.as_ptr() as usize);
            stats::on_cache(capacity as i64);
            return;
        }
    }
    // SAFETY: every block was taken with its capacity.
    unsafe { system::give(ptr, capacity) };
}

fn clear() {
    let free = {
        let mut c = CACHE.lock();
        stats::on_cache(-(c.bytes as i64));
        c.bytes = 0;
        std::mem::take(&mut c.free)
    };
    for (capacity, blocks) in free {
        for ptr in blocks.into_iter().filter_map(|p| NonNull::new(p as *mut u8)) {
            // SAFETY: cached blocks were taken with this capacity and are in nobody's use.
            unsafe { system::give(ptr, capacity) };
        }
    }
}

/// Host memory for at least `nbytes`, uninitialised.
pub fn host_block(nbytes: usize) -> Result<HostBlock> {
    let fail = |detail: String| Error::OutOfMemory { op: "malloc", bytes: nbytes, detail };
    if nbytes > isize::MAX as usize / 2 {
        return Err(fail(": more than the address space holds.".into()));
    }
    let capacity = size_class(nbytes);
    stats::admit(capacity).map_err(&fail)?;
    let hit = {
        let mut c = CACHE.lock();
        let p = c.free.get_mut(&capacity).and_then(Vec::pop);
        if p.is_some() {
            c.bytes -= capacity;
            stats::on_cache(-(capacity as i64));
        }
        p
    };
    let ptr = match hit {
        Some(p) => NonNull::new(p as *mut u8),
        None => {
            if stats::excess(capacity) > 0 {
                clear();
            }
            // Linux promises memory it does not have; ask before the process is killed for using it.
            if capacity > 1 << 28 && system::available().is_some_and(|a| capacity > a) {
                stats::clear_cache(stats::When::Now);
                if let Some(a) = system::available().filter(|&a| capacity > a) {
                    return Err(fail(format!(": the machine has {a} bytes left.")));
                }
            }
            if fault::hit(Site::HostMemory) { None } else { system::take(capacity) }
        }
    };
    let Some(ptr) = ptr else { return Err(fail(": the system refused.".into())) };
    stats::on_alloc(capacity);
    if !REGISTERED.load(Ordering::Relaxed) {
        stats::register_cache(|_| clear());
        REGISTERED.store(true, Ordering::Relaxed);
    }
    Ok(HostBlock::new(ptr, capacity, release))
}

/// A storage of `nbytes` uninitialised host bytes.
pub fn host_storage(nbytes: usize) -> Result<Arc<Storage>> {
    install_host_alloc(host_block);
    Ok(Storage::from_host(host_block(nbytes)?, nbytes))
}

/// Makes downloads possible; called by whoever creates storages that are not from here.
pub fn init() {
    install_host_alloc(host_block);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_less_than_a_quarter() {
        for n in [1, 63, 64, 65, 1000, 4097, 1 << 20, (1 << 20) + 1] {
            let c = size_class(n);
            assert!(c >= n && c.is_multiple_of(ALIGN) && (n < 512 || c - n <= n / 4), "{n} {c}");
            assert_eq!(size_class(c), c);
        }
    }

    #[test]
    fn absurd_sizes_fail_and_leave_the_allocator_usable() {
        assert!(matches!(host_block(usize::MAX / 2), Err(Error::OutOfMemory { .. })));
        assert!(host_block(1000).is_ok());
    }
}
