//! The thread pool of the host kernels: our own rayon pool, so that an embedding program's global one is neither used nor configured. It starts
//! on first use, and again in a child process after a fork, where no thread is left. `MLX_CPU_THREADS` overrides the number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use rayon::prelude::*;

use crate::core::env::{Values, Variable};
use crate::core::fork::{self, Made};

pub static CPU_THREADS: Variable =
    Variable::new("MLX_CPU_THREADS", "all cores", Values::Number(1, 1024), "Threads of the CPU kernels");

struct Slot {
    generation: u32,
    pool: rayon::ThreadPool,
}

// Replaced by compare-and-swap, never freed once published: a lock could be held by another thread in
// the moment of a fork and would stay locked in the child.
static SLOT: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

fn start(generation: u32) -> Box<Slot> {
    fork::watch(&[]);
    let build = |n: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(n).thread_name(|i| format!("mlx-cpu-{i}")).build()
    };
    // INVARIANT: a process that cannot start a single thread cannot run kernels at all.
    let pool = build(threads()).or_else(|_| build(1)).expect("cannot start a thread");
    Box::new(Slot { generation, pool })
}

fn pool() -> &'static rayon::ThreadPool {
    let generation = fork::generation();
    let mut seen = SLOT.load(Ordering::Acquire);
    loop {
        // SAFETY: a published slot is never freed.
        if let Some(slot) = unsafe { seen.as_ref() }
            && slot.generation == generation
        {
            return &slot.pool;
        }
        let fresh = Box::into_raw(start(generation));
        match SLOT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just published, never freed from now on.
            Ok(_) => return unsafe { &(*fresh).pool },
            Err(now) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                seen = now;
            }
        }
    }
}

/// Number of threads that kernels run on.
pub fn threads() -> usize {
    static THREADS: Made<usize> = Made::new(|| {
        let wish = CPU_THREADS.number().map(|n| n as usize);
        wish.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(1024)))
    });
    *THREADS
}

/// Runs `f` on the pool and waits for it; rayon calls inside use the pool's threads. Runs inline on a
/// thread that is already one of rayon's.
pub fn install<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if rayon::current_thread_index().is_some() { f() } else { pool().install(f) }
}

/// Calls `f` on disjoint ranges that cover `0..n`, in parallel and in any order. No range is shorter than
/// `grain` (but the last); with fewer than two grains the one range runs inline on the calling thread.
/// Where the seams lie depends on the number of threads, so `f` must treat every index on its own.
pub fn parallel_chunks(n: usize, grain: usize, f: impl Fn(Range<usize>) + Send + Sync) {
    chunks(n, grain, &f);
}

// One copy of the pool's machinery for all callers: hundreds of closures, a call through a pointer for
// each chunk.
fn chunks(n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Send + Sync)) {
    let grain = grain.max(1);
    let workers = threads();
    if n < 2 * grain || workers == 1 {
        if n > 0 {
            f(0..n);
        }
        return;
    }
    // A few chunks a thread even out unequal speeds.
    let chunk = grain.max(n.div_ceil(workers * 4));
    let count = n.div_ceil(chunk);
    install(|| {
        (0..count).into_par_iter().with_max_len(1).for_each(|i| f(i * chunk..n.min((i + 1) * chunk)));
    });
}

/// Pointer that closures may carry to other threads; each use states why its accesses are disjoint.
pub(crate) struct SendPtr<T>(*mut T);

impl<T> SendPtr<T> {
    pub(crate) fn new(ptr: *mut T) -> Self {
        SendPtr(ptr)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SendPtr<T> {}
// SAFETY: only an address; whoever dereferences it keeps accesses disjoint.
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SendPtr<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU8;

    #[test]
    fn chunks_cover_every_index_once() {
        for (n, grain) in [(0, 4), (1, 4), (33, 4), (1000, 7), (1000, 1000), (1000, 0), (9, 100)] {
            let hits: Vec<AtomicU8> = (0..n).map(|_| AtomicU8::new(0)).collect();
            parallel_chunks(n, grain, |r| {
                r.for_each(|i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                })
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1), "{n} {grain}");
        }
    }

    #[test]
    fn nested_calls_finish() {
        let sum = install(|| {
            let v: Vec<usize> = (0..64).into_par_iter().map(|i| install(|| i)).collect();
            v.iter().sum::<usize>()
        });
        assert_eq!(sum, 2016);
        assert!(threads() >= 1);
    }
}
