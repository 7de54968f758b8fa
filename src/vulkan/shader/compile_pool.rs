//! Threads that compile kernels beside the thread that records. They start when there is work and end when there
//! is none left. Work that no thread got to yet is done by whoever needs its result first.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use crate::core::event::SLICE;
use crate::core::fork::Made;

/// Most threads: the gain beyond is small, and each compilation takes some megabytes.
const MOST: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// The process ends: what waits is not done any more.
    ending: bool,
}

static QUEUE: Made<(Mutex<Queue>, Condvar)> = Made::new(Default::default);

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.0.lock().unwrap_or_else(|e| e.into_inner())
}

/// How many threads may compile; 0 where that would only take turns with the caller.
pub(in crate::vulkan) fn threads() -> usize {
    static THREADS: Made<usize> = Made::new(|| {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        if cores > 1 { cores.min(MOST) } else { 0 }
    });
    *THREADS
}

/// Does `job` on a thread of its own, soon; never where there are no threads, or when the process ends.
pub(in crate::vulkan) fn soon(job: impl FnOnce() + Send + 'static) {
    let mut q = queue();
    if q.ending {
        return;
    }
    q.jobs.push_back(Box::new(job));
    if q.threads < threads() {
        let spawned = std::thread::Builder::new().name("mlx-compiler".into()).spawn(work);
        q.threads += usize::from(spawned.is_ok());
    }
}

fn work() {
    loop {
        let job = {
            let mut q = queue();
            match q.jobs.pop_front() {
                Some(job) if !q.ending => job,
                _ => {
                    q.threads -= 1;
                    QUEUE.1.notify_all();
                    return;
                }
            }
        };
        // A panic shows again where the result is needed.
        let _ = catch_unwind(AssertUnwindSafe(job));
        drop(queue());
        QUEUE.1.notify_all();
    }
}

/// Waits a while until `ready`; whether it is, or there is no thread left that could make it so.
pub(in crate::vulkan) fn wait_a_while(ready: impl Fn() -> bool) -> bool {
    let over = |q: &Queue| ready() || q.threads == 0;
    let q = queue();
    if over(&q) {
        return true;
    }
    let (q, _) = QUEUE.1.wait_timeout(q, SLICE).unwrap_or_else(|e| e.into_inner());
    over(&q)
}

/// Drops what waits, and waits for what is in work, at most until then. For the end of the process: drivers crash when
/// it exits under a compiling thread.
pub(in crate::vulkan) fn finish(until: Instant) {
    let mut q = queue();
    q.ending = true;
    q.jobs.clear();
    while q.threads > 0 {
        let Some(left) = until.checked_duration_since(Instant::now()) else { return };
        q = QUEUE.1.wait_timeout(q, left).unwrap_or_else(|e| e.into_inner()).0;
    }
}

/// Whether threads compile.
pub(in crate::vulkan) fn are_busy() -> bool {
    queue().threads > 0
}
