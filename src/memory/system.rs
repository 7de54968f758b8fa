//! Blocks of memory from the system. Large ones are mappings of their own: what is freed goes back to the system at
//! once, whichever allocator the process has for small ones.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use super::ALIGN;

/// Bytes from which a block is a mapping. The system has some ten thousand of those for a process.
#[cfg(unix)]
const LARGE: usize = 1 << 20;
/// Bytes from which a block asks for huge pages, where the system has them for those who ask: the first touch of a page takes as
/// long as copying some of it. A fresh GiB on two cores of Zen 4 takes 0.52 s to fill by small pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;
/// Bytes from which the pages of a smaller block are given back while its addresses stay with the allocator.
const PAGES: usize = 32 << 10;

fn layout(capacity: usize) -> Layout {
    // Pages that a block shares with its neighbours could not be given back.
    let align = if capacity >= PAGES { 4096 } else { ALIGN };
    // INVARIANT: a power-of-two alignment and a capacity checked by `host_block`.
    Layout::from_size_align(capacity, align).expect("valid layout")
}

/// `capacity` uninitialised bytes; none where the system refuses.
pub(super) fn take(capacity: usize) -> Option<NonNull<u8>> {
    #[cfg(unix)]
    if capacity >= LARGE {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping touches no memory that is there.
        let place = unsafe { mmap_anonymous(std::ptr::null_mut(), capacity, access, MapFlags::PRIVATE) };
        let place = place.ok()?;
        #[cfg(target_os = "linux")]
        if capacity >= HUGE {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the mapping that was just made; the system may decline.
            let _ = unsafe { madvise(place, capacity, Advice::LinuxHugepage) };
        }
        return NonNull::new(place.cast());
    }
    // SAFETY: the layout has a non-zero size.
    NonNull::new(unsafe { alloc(layout(capacity)) })
}

/// Gives a block back.
///
/// # Safety
/// It came from [`take`] with this capacity, and nobody uses it.
pub(super) unsafe fn give(place: NonNull<u8>, capacity: usize) {
    // SAFETY: by the caller; what is large was mapped. The pages that go back lie within the block.
    unsafe {
        #[cfg(unix)]
        if capacity >= LARGE {
            let _ = rustix::mm::munmap(place.as_ptr().cast(), capacity);
            return;
        }
        #[cfg(target_os = "linux")]
        if capacity >= PAGES {
            use rustix::mm::{Advice, madvise};
            let page = rustix::param::page_size();
            let before = place.as_ptr().align_offset(page).min(capacity);
            let inside = (capacity - before) / page * page;
            let _ = madvise(place.as_ptr().add(before).cast(), inside, Advice::LinuxDontNeed);
        }
        dealloc(place.as_ptr(), layout(capacity));
    }
}

/// Memory the machine can still give, or `None` where that cannot be told.
pub(super) fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kb| kb << 10)
}
