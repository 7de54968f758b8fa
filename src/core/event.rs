//! Work that ends on another thread: an event to wait for, how a thread waits, and when Ctrl-C may end the wait. What
//! was queued before an interrupt and has not begun is dropped: it goes back to being asked for.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::device::Stream;
use super::error::{Error, Result};
use super::{failure, fork};
use crate::bail;

/// A thread that sleeps looks for interrupts this often.
pub const SLICE: Duration = Duration::from_millis(50);

/// Completion of work on another thread.
pub struct Event {
    state: Mutex<Option<Result<()>>>,
    signal: Condvar,
    /// Set with the state.
    done: AtomicBool,
    /// The work is short: who waits looks for this long before it sleeps.
    longest_spin: Duration,
    /// Where the work runs.
    pub(super) stream: Stream,
    /// The process whose thread does the work (see `fork`).
    generation: u32,
}

/// Called while the caller waits; an error (Ctrl-C) ends the wait, not the work.
pub type InterruptCheck = fn() -> Result<()>;
static INTERRUPT: OnceLock<InterruptCheck> = OnceLock::new();
/// How many waits were interrupted.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// Installs the check for pending interrupts (the Python face does).
pub fn install_interrupt_check(check: InterruptCheck) {
    let _ = INTERRUPT.set(check);
}

thread_local! {
    static UNINTERRUPTED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// While one exists, waits of this thread go on to their end. Whoever holds a lock makes one: the check waits for
/// the interpreter, and the thread that has it may be waiting for that lock.
pub struct Uninterrupted(());

impl Uninterrupted {
    /// From now on.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Uninterrupted {
        UNINTERRUPTED.set(UNINTERRUPTED.get() + 1);
        Uninterrupted(())
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        UNINTERRUPTED.set(UNINTERRUPTED.get() - 1);
    }
}

/// Fails if the user asked to stop waiting. What is queued by then is dropped.
pub fn check_interrupt() -> Result<()> {
    match INTERRUPT.get() {
        Some(check) if UNINTERRUPTED.get() == 0 => check().inspect_err(|_| drop_queued()),
        _ => Ok(()),
    }
}

/// Has what is queued dropped, unless somebody comes to wait for it.
pub fn drop_queued() {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// How many waits were interrupted: work that was queued when there were fewer is not begun any more.
#[inline]
pub fn interrupts() -> u64 {
    INTERRUPTS.load(Ordering::Relaxed)
}

impl Event {
    /// The completion of work on a stream that is worth looking for so long.
    pub fn new(stream: Stream, longest_spin: Duration) -> Event {
        let (state, signal, done) = Default::default();
        Event { state, signal, done, longest_spin, stream, generation: fork::generation() }
    }

    /// Marks the work as finished or failed and wakes the waiters. A failure is kept for those who wait for the
    /// stream.
    pub fn set(&self, result: Result<()>) {
        match &result {
            Ok(()) | Err(Error::Dropped) => {}
            Err(e) => failure::note(self.stream, e),
        }
        *fork::lock(&self.state) = Some(result);
        self.done.store(true, Ordering::Release);
        self.signal.notify_all();
    }

    /// Whether the work ended with an error.
    pub fn failed(&self) -> bool {
        self.done.load(Ordering::Acquire) && matches!(&*fork::lock(&self.state), Some(Err(_)))
    }

    /// Blocks until the work is done; returns its error. Interruptible.
    pub fn wait(&self) -> Result<()> {
        self.wait_with(&mut check_interrupt)?
    }

    /// How the work ended; calls `between` ever so often, whose error ends the wait.
    ///
    /// # Errors
    /// What ends the wait before the work.
    pub fn wait_with(&self, between: &mut dyn FnMut() -> Result<()>) -> Result<Result<()>> {
        let done = || self.done.load(Ordering::Acquire);
        if !Spin::at_atomic(self.longest_spin).until(done) && self.generation != fork::generation() {
            bail!(
                Runtime,
                "[eval] A thread of the parent process was computing the array when the process was forked. Evaluate \
                 it before the fork, or start the process with the spawn method."
            );
        }
        loop {
            let mut state = fork::lock(&self.state);
            if state.is_none() {
                state = self.signal.wait_timeout(state, SLICE).unwrap_or_else(|e| e.into_inner()).0;
            }
            if let Some(r) = &*state {
                return Ok(r.clone());
            }
            drop(state);
            between()?;
        }
    }
}

/// The CPU stream on which processes exchange, by its index and one.
static EXCHANGES: AtomicU32 = AtomicU32::new(0);

/// Has those who wait for a CPU stream, and its own thread, look for long before they sleep: what it does is short, and
/// other processes wait for it.
#[cfg_attr(not(unix), allow(dead_code))]
pub fn look_long_at(stream: Stream) {
    EXCHANGES.store(stream.index + 1, Ordering::Relaxed);
}

/// How long a thread looks that waits for something short on a stream, instead of `usual`.
pub fn look_at(stream: Stream, usual: Duration, long: Duration) -> Duration {
    let is = !stream.device.is_gpu() && EXCHANGES.load(Ordering::Relaxed) == stream.index + 1;
    if is { long } else { usual }
}

/// How a thread looks for what is about to happen before it sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Spin {
    /// It sleeps then.
    pub longest: Duration,
    /// Pauses of the processor before each look.
    pub pauses: u32,
    /// Looks between two at the clock.
    pub timed: u32,
    /// Looks between two turns of other threads.
    pub turns: u32,
}

impl Spin {
    /// At an atomic of this process, which costs next to nothing.
    pub const fn at_atomic(longest: Duration) -> Spin {
        Spin { longest, pauses: 16, timed: 1, turns: 32 }
    }

    /// Through a call that takes longer than the pause between two looks at an atomic.
    pub const fn by_calls(longest: Duration) -> Spin {
        Spin { longest, pauses: 1, timed: 16, turns: 16 }
    }

    /// Looks until `ready`, and lets other threads run meanwhile: a thread that sleeps wakes up late. Whether it was
    /// ready in time.
    pub fn until(self, mut ready: impl FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        let start = Instant::now();
        for look in 1u32.. {
            if (look - 1).is_multiple_of(self.timed) && start.elapsed() >= self.longest {
                break;
            }
            for _ in 0..self.pauses {
                std::hint::spin_loop();
            }
            if ready() {
                return true;
            }
            if look.is_multiple_of(self.turns) {
                std::thread::yield_now();
            }
        }
        false
    }
}
