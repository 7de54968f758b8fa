//! One worker thread for each CPU stream, and one, the recorder, for what GPUs are to do: tasks of a stream run in the
//! order of submission, off the caller's thread. A worker starts with its stream's first task, and anew in a child process after a
//! fork. Idle workers spin for some microseconds before they park, so that a chain of small tasks pays no
//! wake-up each. Threads are detached: the process may exit while they run.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::bail;
use crate::core::array::look_for;
use crate::core::{Device, Error, Result, Stream};

/// Work for a stream.
pub type Task = Box<dyn FnOnce() + Send>;

const SPIN: Duration = Duration::from_micros(20);

/// How long the recorder looks for more before it parks: about as long as it takes to build what comes next.
pub const PATIENCE: Duration = Duration::from_millis(2);

/// Stands for the thread that records what GPUs are to do.
pub const RECORDER: Stream = Stream { index: u32::MAX, device: Device::CPU };

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    // The worker's handle, kept beside the tasks so that a waker always sees it.
    thread: Option<Thread>,
}

#[derive(Default)]
struct Worker {
    queue: Mutex<Queue>,
    submitted: AtomicU64,
    done: AtomicU64,
    parked: AtomicBool,
    waiters: AtomicUsize,
    finished: Condvar,
    finished_lock: Mutex<()>,
    // First panic that no task owner caught; handed out by the next `synchronize`.
    failure: Mutex<Option<Error>>,
}

struct Registry {
    pid: u32,
    workers: Mutex<HashMap<u32, Arc<Worker>>>,
}

// Replaced after a fork and never freed, as in the pool: the parent's locks may be held forever here.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn registry() -> &'static Registry {
    let pid = std::process::id();
    let mut seen = REGISTRY.load(Ordering::Acquire);
    loop {
        // SAFETY: a published registry is never freed.
        if let Some(r) = unsafe { seen.as_ref() }
            && r.pid == pid
        {
            return r;
        }
        let fresh = Box::into_raw(Box::new(Registry { pid, workers: Mutex::default() }));
        match REGISTRY.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just published, never freed from now on.
            Ok(_) => return unsafe { &*fresh },
            Err(now) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                seen = now;
            }
        }
    }
}

// Spins until `ready`, at most `patience` long; on one core the other side needs this one.
fn spin_until(patience: Duration, ready: impl Fn() -> bool) -> bool {
    look_for(if super::pool::threads() == 1 { Duration::ZERO } else { patience }, ready)
}

impl Worker {
    fn run(&self, patience: Duration) {
        let mut batch = VecDeque::new();
        let mut taken = 0u64;
        loop {
            std::mem::swap(&mut batch, &mut lock(&self.queue).tasks);
            if batch.is_empty() {
                if !spin_until(patience, || self.submitted.load(Ordering::Acquire) > taken) {
                    self.parked.store(true, Ordering::SeqCst);
                    // `submit` counts before it looks at the flag: one of the two sees the other.
                    if self.submitted.load(Ordering::SeqCst) == taken {
                        thread::park();
                    }
                    self.parked.store(false, Ordering::SeqCst);
                }
                continue;
            }
            for task in batch.drain(..) {
                taken += 1;
                if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
                    lock(&self.failure).get_or_insert(panic_error(panic));
                }
                self.done.fetch_add(1, Ordering::SeqCst);
                if self.waiters.load(Ordering::SeqCst) > 0 {
                    drop(lock(&self.finished_lock));
                    self.finished.notify_all();
                }
            }
        }
    }

    fn wait(&self, target: u64) {
        let reached = || self.done.load(Ordering::SeqCst) >= target;
        if spin_until(SPIN, reached) {
            return;
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut guard = lock(&self.finished_lock);
        while !reached() {
            guard = self.finished.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

fn panic_error(panic: Box<dyn Any + Send>) -> Error {
    let what = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown panic".into());
    Error::Runtime(format!("[cpu] A kernel panicked: {what}"))
}

/// Runs `f` and turns a panic into [`Error::Runtime`]; for the owner of a task, who has to report failure.
pub fn run_caught(f: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(panic_error(panic)))
}

/// Appends `task` to the stream's queue. A panic inside it is reported by the next [`synchronize`].
pub fn submit(stream: Stream, task: Task) {
    let worker = {
        let mut workers = lock(&registry().workers);
        workers.entry(stream.index).or_default().clone()
    };
    let thread = {
        let mut queue = lock(&worker.queue);
        if queue.thread.is_none() {
            let body = worker.clone();
            let (name, patience) = match stream == RECORDER {
                true => ("mlx-recorder".to_string(), PATIENCE),
                false => (format!("mlx-stream-{}", stream.index), SPIN),
            };
            let spawned = thread::Builder::new().name(name).spawn(move || body.run(patience));
            match spawned {
                Ok(handle) => queue.thread = Some(handle.thread().clone()),
                Err(_) => {
                    // Out of threads: the caller does the work; nothing can be queued before it.
                    drop(queue);
                    worker.submitted.fetch_add(1, Ordering::SeqCst);
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
                        lock(&worker.failure).get_or_insert(panic_error(panic));
                    }
                    worker.done.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
        queue.tasks.push_back(task);
        worker.submitted.fetch_add(1, Ordering::SeqCst);
        queue.thread.clone()
    };
    if worker.parked.load(Ordering::SeqCst)
        && let Some(t) = thread
    {
        t.unpark();
    }
}

/// The worker of a stream that was given tasks.
fn known(stream: Stream) -> Option<Arc<Worker>> {
    if REGISTRY.load(Ordering::Acquire).is_null() {
        return None;
    }
    lock(&registry().workers).get(&stream.index).cloned()
}

/// How many tasks of a stream have not run yet.
pub fn pending(stream: Stream) -> u64 {
    let Some(worker) = known(stream) else { return 0 };
    let done = worker.done.load(Ordering::SeqCst);
    worker.submitted.load(Ordering::SeqCst) - done
}

/// Waits until everything submitted to the stream so far has run.
///
/// # Errors
/// Runtime error when a task panicked since the last call, or when called from the stream's own worker.
pub fn synchronize(stream: Stream) -> Result<()> {
    let Some(worker) = known(stream) else { return Ok(()) };
    let own = lock(&worker.queue).thread.as_ref().map(|t| t.id()) == Some(thread::current().id());
    if own {
        bail!(Runtime, "[synchronize] A task cannot wait for its own stream {stream}");
    }
    worker.wait(worker.submitted.load(Ordering::SeqCst));
    let failure = lock(&worker.failure).take();
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::device::new_stream;

    #[test]
    fn tasks_run_in_order_and_synchronize_waits() {
        let s = new_stream(Device::CPU);
        let log = Arc::new(Mutex::new(Vec::new()));
        for round in 0..20 {
            for i in 0..100 {
                let log = log.clone();
                submit(s, Box::new(move || lock(&log).push(round * 100 + i)));
            }
            if round % 3 == 0 {
                thread::sleep(Duration::from_micros(50 * round)); // let it park
            }
        }
        synchronize(s).unwrap();
        assert_eq!(*lock(&log), (0..2000).collect::<Vec<u64>>());
    }

    #[test]
    fn panics_become_errors_and_the_worker_lives_on() {
        let s = new_stream(Device::CPU);
        submit(s, Box::new(|| panic!("boom {}", 7)));
        assert!(synchronize(s).unwrap_err().to_string().contains("boom 7"));
        submit(s, Box::new(|| ()));
        synchronize(s).unwrap();
        assert!(run_caught(|| panic!("x")).unwrap_err().to_string().contains("panicked: x"));
        assert!(run_caught(|| Ok(())).is_ok());
    }

    #[test]
    fn waiting_for_the_own_stream_is_refused() {
        let s = new_stream(Device::CPU);
        let got = Arc::new(Mutex::new(None));
        let out = got.clone();
        submit(s, Box::new(move || *lock(&out) = Some(synchronize(s).is_err())));
        synchronize(s).unwrap();
        assert_eq!(*lock(&got), Some(true));
    }
}
