//! Work that ends on another thread: an event to wait for, how a thread waits, and when Ctrl-C may end the wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::device::Stream;
use super::error::Result;
use super::failure;

/// Completion of work on another thread.
#[derive(Default)]
pub struct Event {
    state: Mutex<Option<Result<()>>>,
    signal: Condvar,
    /// Set with the state.
    done: AtomicBool,
    /// The work is short: who waits looks for this long before it sleeps.
    longest_spin: Duration,
    /// Where the work runs.
    pub(super) stream: Option<Stream>,
}

/// Called while the caller waits; an error (Ctrl-C) ends the wait, not the work.
pub type InterruptCheck = fn() -> Result<()>;
static INTERRUPT: OnceLock<InterruptCheck> = OnceLock::new();

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

/// Fails if the user asked to stop waiting.
pub fn check_interrupt() -> Result<()> {
    match INTERRUPT.get() {
        Some(check) if UNINTERRUPTED.get() == 0 => check(),
        _ => Ok(()),
    }
}

impl Event {
    /// The completion of work on a stream that is worth looking for so long.
    pub fn new(stream: Stream, longest_spin: Duration) -> Event {
        Event { longest_spin, stream: Some(stream), ..Event::default() }
    }

    /// Marks the work as finished or failed and wakes the waiters. A failure is kept for those who wait for the
    /// stream.
    pub fn set(&self, result: Result<()>) {
        if let (Err(e), Some(stream)) = (&result, self.stream) {
            failure::note(stream, e);
        }
        *self.state.lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
        self.done.store(true, Ordering::Release);
        self.signal.notify_all();
    }

    /// Whether the work ended with an error.
    pub fn failed(&self) -> bool {
        matches!(&*self.state.lock().unwrap_or_else(|e| e.into_inner()), Some(Err(_)))
    }

    /// Blocks until the work is done; returns its error.
    pub fn wait(&self) -> Result<()> {
        spin(self.longest_spin, || self.done.load(Ordering::Acquire));
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            if let Some(r) = &*state {
                return r.clone();
            }
            let (next, timeout) =
                self.signal.wait_timeout(state, Duration::from_millis(50)).unwrap_or_else(|e| e.into_inner());
            state = next;
            if timeout.timed_out() {
                check_interrupt()?;
            }
        }
    }
}

/// Looks until `ready`, at most for `longest_spin`, and lets other threads run meanwhile: a thread that sleeps wakes up late.
pub fn spin(longest_spin: Duration, ready: impl Fn() -> bool) -> bool {
    /// Looks between two turns of others.
    const LOOKS: u32 = 32;
    if ready() {
        return true;
    }
    let start = Instant::now();
    for look in 1u32.. {
        if start.elapsed() >= longest_spin {
            break;
        }
        for _ in 0..16 {
            std::hint::spin_loop();
        }
        if ready() {
            return true;
        }
        if look.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        }
    }
    false
}
