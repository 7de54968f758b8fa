//! Threads that compile kernels beside the thread that records. They start when there is work and end when there
//! is none left. Work that no thread got to yet is done by whoever needs its result first. What nobody waits for comes
//! behind all of that, one at a time.

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
    /// What nobody waits for, and whether a thread is at it.
    background: VecDeque<Job>,
    in_background: bool,
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
    q.start(threads());
}

/// Does `job` on a thread when no other is left, one such job at a time, also where the machine has one core; never when the
/// process ends, or where no thread can be started.
pub(in crate::vulkan) fn in_background(job: impl FnOnce() + Send + 'static) {
    let mut q = queue();
    if q.ending {
        return;
    }
    q.background.push_back(Box::new(job));
    q.start(threads().max(1));
}

impl Queue {
    fn start(&mut self, most: usize) {
        if self.threads < most {
            let spawned = std::thread::Builder::new().name("mlx-compiler".into()).spawn(work);
            self.threads += usize::from(spawned.is_ok());
        }
    }

    /// The next job, and whether nobody waits for it.
    fn next(&mut self) -> Option<(Job, bool)> {
        if let Some(job) = self.jobs.pop_front() {
            return Some((job, false));
        }
        let job = if self.in_background { None } else { self.background.pop_front() }?;
        self.in_background = true;
        Some((job, true))
    }
}

fn work() {
    loop {
        let (job, in_background) = {
            let mut q = queue();
            match q.next() {
                Some(next) if !q.ending => next,
                _ => {
                    q.threads -= 1;
                    QUEUE.1.notify_all();
                    return;
                }
            }
        };
        // A panic shows again where the result is needed.
        let _ = catch_unwind(AssertUnwindSafe(job));
        let mut q = queue();
        if in_background {
            q.in_background = false;
        }
        drop(q);
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
    q.background.clear();
    while q.threads > 0 {
        let Some(left) = until.checked_duration_since(Instant::now()) else { return };
        q = QUEUE.1.wait_timeout(q, left).unwrap_or_else(|e| e.into_inner()).0;
    }
}

/// Whether threads compile.
pub(in crate::vulkan) fn are_busy() -> bool {
    queue().threads > 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_nobody_waits_for_is_done_in_order_and_one_at_a_time() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        for i in 0..4 {
            let send = send.clone();
            in_background(move || {
                let others = RUNNING.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                send.send((i, others)).unwrap();
                panic!("a job that fails leaves the thread to the next one");
            });
        }
        let done: Vec<(i32, usize)> = receive.iter().take(4).collect();
        assert_eq!(done, [(0, 0), (1, 0), (2, 0), (3, 0)]);
    }
}
