//! One worker thread for each CPU stream, and one, the recorder, for what GPUs are to do: tasks of a stream run in the
//! order of submission, off the caller's thread. A worker starts with its stream's first task, and anew in a child process after a
//! fork. Idle workers spin for some microseconds before they park, so that a chain of small tasks pays no
//! wake-up each. Threads are detached: the process may exit while they run. The worker of a stream that nobody holds any
//! more ends when it has done what it was given.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::bail;
use crate::core::device::{is_held, on_release};
use crate::core::event::{SLICE, Spin, check_interrupt, look_at};
use crate::core::{Error, Result, Stream, fork, panics};

/// Work for a stream.
pub type Task = Box<dyn FnOnce() + Send>;

const SPIN: Duration = Duration::from_micros(20);

/// How long the recorder looks for more before it parks: about as long as it takes to build what comes next.
pub const LONG_SPIN: Duration = Duration::from_millis(2);

/// Whose tasks a worker runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Those of a CPU stream.
    Stream(Stream),
    /// What is recorded for GPUs.
    Recorder,
}

impl From<Stream> for Lane {
    fn from(stream: Stream) -> Lane {
        Lane::Stream(stream)
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Lane::Stream(s) => s.fmt(f),
            Lane::Recorder => f.write_str("recorder"),
        }
    }
}

impl Lane {
    fn thread_name(self) -> String {
        match self {
            Lane::Stream(s) => format!("mlx-stream-{}", s.index),
            Lane::Recorder => "mlx-recorder".to_string(),
        }
    }

    /// How long its worker looks for more before it parks.
    fn longest_spin(self) -> Duration {
        match self {
            Lane::Stream(s) => look_at(s, SPIN, LONG_SPIN),
            Lane::Recorder => LONG_SPIN,
        }
    }

    /// Whether somebody may still give it tasks.
    fn is_held(self) -> bool {
        match self {
            Lane::Stream(s) => is_held(s),
            Lane::Recorder => true,
        }
    }
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    // The worker's handle, kept beside the tasks so that a waker always sees it.
    thread: Option<Thread>,
    // The thread has ended: whoever wants to add a task makes a new worker.
    ended: bool,
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
    generation: u32,
    workers: Mutex<HashMap<Lane, Arc<Worker>>>,
}

// Replaced after a fork and never freed, as in the pool: the parent's locks may be held forever here.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn registry() -> &'static Registry {
    let generation = fork::generation();
    let mut seen = REGISTRY.load(Ordering::Acquire);
    loop {
        // SAFETY: a published registry is never freed.
        if let Some(r) = unsafe { seen.as_ref() }
            && r.generation == generation
        {
            return r;
        }
        fork::watch(&[]);
        let fresh = Box::into_raw(Box::new(Registry { generation, workers: Mutex::default() }));
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

// Spins until `ready`, at most `longest_spin` long; on one core the other side needs this one.
fn spin_until(longest_spin: Duration, ready: impl Fn() -> bool) -> bool {
    Spin::at_atomic(if super::pool::threads() == 1 { Duration::ZERO } else { longest_spin }).until(ready)
}

impl Worker {
    fn run(&self, lane: Lane) {
        let mut batch = VecDeque::new();
        let mut taken = 0u64;
        loop {
            std::mem::swap(&mut batch, &mut lock(&self.queue).tasks);
            if batch.is_empty() {
                if !spin_until(lane.longest_spin(), || self.submitted.load(Ordering::Acquire) > taken) {
                    if self.end(lane) {
                        return;
                    }
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
                    lock(&self.failure).get_or_insert(panics::error("cpu", &*panic));
                }
                self.done.fetch_add(1, Ordering::SeqCst);
                if self.waiters.load(Ordering::SeqCst) > 0 {
                    drop(lock(&self.finished_lock));
                    self.finished.notify_all();
                }
            }
        }
    }

    /// Ends the worker if it has nothing to do and never will; whether it did.
    fn end(&self, lane: Lane) -> bool {
        if lane.is_held() {
            return false;
        }
        {
            let mut queue = lock(&self.queue);
            if !queue.tasks.is_empty() {
                return false;
            }
            queue.ended = true;
        }
        forget(lane, self);
        true
    }

    /// Waits until so many tasks are done; calls `between` ever so often, whose error ends the wait.
    fn wait(&self, target: u64, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let reached = || self.done.load(Ordering::SeqCst) >= target;
        if spin_until(SPIN, reached) {
            return Ok(());
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut ended = Ok(());
        while ended.is_ok() {
            let guard = lock(&self.finished_lock);
            if reached() {
                break;
            }
            let woken = self.finished.wait_timeout(guard, SLICE).unwrap_or_else(PoisonError::into_inner);
            let late = woken.1.timed_out();
            drop(woken);
            if late {
                ended = between();
            }
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        ended
    }
}

/// Takes a worker off its lane.
fn forget(lane: Lane, worker: &Worker) {
    let mut workers = lock(&registry().workers);
    if workers.get(&lane).is_some_and(|w| std::ptr::eq(&**w, worker)) {
        workers.remove(&lane);
    }
}

/// Lets the worker of a stream end that nobody holds any more.
fn released(stream: Stream) {
    if let Some(thread) = known(stream.into()).and_then(|w| lock(&w.queue).thread.clone()) {
        thread.unpark();
    }
}

/// The worker of a lane, locked; one that has ended is replaced.
fn with_queue<R>(lane: Lane, f: impl FnOnce(&Arc<Worker>, MutexGuard<Queue>) -> R) -> R {
    loop {
        let worker = lock(&registry().workers).entry(lane).or_default().clone();
        let queue = lock(&worker.queue);
        if !queue.ended {
            return f(&worker, queue);
        }
        drop(queue);
        forget(lane, &worker);
    }
}

/// Appends `task` to the queue of a stream, or of the recorder. A panic inside it is reported by the next [`synchronize`].
pub fn submit(lane: impl Into<Lane>, task: Task) {
    let lane = lane.into();
    with_queue(lane, |worker, queue| append(lane, worker, queue, task));
}

fn append(lane: Lane, worker: &Arc<Worker>, mut queue: MutexGuard<Queue>, task: Task) {
    if queue.thread.is_none() {
        on_release(released);
        let body = worker.clone();
        let spawned = thread::Builder::new().name(lane.thread_name()).spawn(move || body.run(lane));
        match spawned {
            Ok(handle) => queue.thread = Some(handle.thread().clone()),
            Err(_) => {
                // Out of threads: the caller does the work; nothing can be queued before it.
                drop(queue);
                worker.submitted.fetch_add(1, Ordering::SeqCst);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
                    lock(&worker.failure).get_or_insert(panics::error("cpu", &*panic));
                }
                worker.done.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
    queue.tasks.push_back(task);
    worker.submitted.fetch_add(1, Ordering::SeqCst);
    let thread = queue.thread.clone();
    drop(queue);
    if worker.parked.load(Ordering::SeqCst)
        && let Some(t) = thread
    {
        t.unpark();
    }
}

/// The worker of a lane that was given tasks.
fn known(lane: Lane) -> Option<Arc<Worker>> {
    if REGISTRY.load(Ordering::Acquire).is_null() {
        return None;
    }
    lock(&registry().workers).get(&lane).cloned()
}

/// How many tasks of a lane have not run yet.
pub fn pending(lane: Lane) -> u64 {
    let Some(worker) = known(lane) else { return 0 };
    let done = worker.done.load(Ordering::SeqCst);
    worker.submitted.load(Ordering::SeqCst) - done
}

/// Whether a task of any lane has not run yet.
pub fn is_busy() -> bool {
    let waits = |w: &Arc<Worker>| w.done.load(Ordering::SeqCst) < w.submitted.load(Ordering::SeqCst);
    !REGISTRY.load(Ordering::Acquire).is_null() && lock(&registry().workers).values().any(waits)
}

/// Waits until everything submitted to the lane so far has run; interruptible.
///
/// # Errors
/// Runtime error when a task panicked since the last call, or when called from the lane's own worker.
pub fn synchronize(lane: impl Into<Lane>) -> Result<()> {
    synchronize_with(lane, &mut check_interrupt)
}

/// As [`synchronize`]; calls `between` ever so often, whose error ends the wait.
pub fn synchronize_with(lane: impl Into<Lane>, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let lane = lane.into();
    let Some(worker) = known(lane) else { return Ok(()) };
    let own = lock(&worker.queue).thread.as_ref().map(|t| t.id()) == Some(thread::current().id());
    if own {
        bail!(Runtime, "[synchronize] A task cannot wait for its own stream {lane}");
    }
    worker.wait(worker.submitted.load(Ordering::SeqCst), between)?;
    let failure = lock(&worker.failure).take();
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Device;
    use crate::core::device::{Handle, new_stream};

    #[test]
    fn workers_of_streams_that_nobody_holds_end_and_come_back() {
        for round in 0..200 {
            let handle = Handle::make(Device::CPU);
            let s = handle.stream();
            let (send, receive) = std::sync::mpsc::channel();
            for i in 0..3 {
                let send = send.clone();
                submit(s, Box::new(move || send.send(i).unwrap()));
            }
            drop(handle);
            if round % 2 == 0 {
                let send = send.clone();
                submit(s, Box::new(move || send.send(3).unwrap()));
            }
            drop(send);
            let want: Vec<i32> = (0..3 + i32::from(round % 2 == 0)).collect();
            assert_eq!(receive.iter().collect::<Vec<_>>(), want);
            let begin = std::time::Instant::now();
            while known(s.into()).is_some() {
                assert!(begin.elapsed() < Duration::from_secs(20), "the worker stays");
                thread::yield_now();
            }
        }
    }

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
