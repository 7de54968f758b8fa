//! Graphs that `async_eval` was asked for are ordered and recorded by a thread of its own, so that the caller can
//! build the next graph meanwhile: a language model's token costs the host as much to record as to build. One graph
//! is walked at a time whoever asks, so a value that is needed earlier waits for the walk or makes it itself. What
//! fails goes back to the graph and fails again where the value is asked for; `synchronize` reports it too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::core::array::{next_id, tracing};
use crate::core::{Array, Error, Result, env};
use crate::cpu::worker::run_caught;

/// Graphs with fewer new arrays are walked by the caller: handing them over would cost as much.
const LEAST: u64 = 64;
/// Graphs that wait; with more the caller waits, so that memory stays bounded.
const WAITING: usize = 2;

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<Array>>,
    running: bool,
    started: bool,
    failure: Option<Error>,
}

struct Background {
    pid: u32,
    state: Mutex<State>,
    change: Condvar,
}

// Replaced after a fork and never freed: the parent's thread does not exist here, and its lock may be held.
static BACKGROUND: AtomicPtr<Background> = AtomicPtr::new(std::ptr::null_mut());
// The next id when a graph was last handed over.
static LAST: AtomicU64 = AtomicU64::new(0);

fn current() -> Option<&'static Background> {
    // SAFETY: published values are never freed.
    unsafe { BACKGROUND.load(Ordering::Acquire).as_ref() }.filter(|b| b.pid == std::process::id())
}

fn background() -> &'static Background {
    if let Some(b) = current() {
        return b;
    }
    let seen = BACKGROUND.load(Ordering::Acquire);
    let fresh = Background { pid: std::process::id(), state: Mutex::default(), change: Condvar::new() };
    let fresh = Box::into_raw(Box::new(fresh));
    let _ = BACKGROUND.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: one of the two was published just now, and neither is freed; the loser is small and leaks.
    unsafe { &*BACKGROUND.load(Ordering::Acquire) }
}

impl Background {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.change.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            while let Some(roots) = state.waiting.pop_front() {
                state.running = true;
                drop(state);
                self.change.notify_all();
                let result = run_caught(|| super::eval::start(&roots));
                drop(roots);
                state = self.lock();
                state.running = false;
                if let Err(e) = result {
                    state.failure = Some(e);
                }
                self.change.notify_all();
            }
            state = self.wait(state);
        }
    }
}

/// Takes over the graph of `roots` if it is large enough and belongs to a GPU; false: the caller evaluates it.
pub(super) fn take(roots: &[Array]) -> bool {
    let made = next_id();
    let large = made.saturating_sub(LAST.load(Ordering::Relaxed)) >= LEAST;
    let gpu = || roots.iter().any(|a| a.node().is_some_and(|n| n.stream.device.is_gpu()));
    static ON: LazyLock<bool> = LazyLock::new(|| env::switch("MLX_EVAL_THREAD").unwrap_or(true));
    if !large || !*ON || tracing() || !gpu() {
        return false;
    }
    LAST.store(made, Ordering::Relaxed);
    let b = background();
    let mut state = b.lock();
    while state.waiting.len() >= WAITING {
        state = b.wait(state);
    }
    if !state.started {
        let spawned = std::thread::Builder::new().name("mlx-eval".into()).spawn(|| b.run());
        if spawned.is_err() {
            return false;
        }
        state.started = true;
    }
    state.waiting.push_back(roots.to_vec());
    drop(state);
    b.change.notify_all();
    true
}

/// Waits until everything taken over so far is submitted; the error of what failed since the last call.
pub fn drain() -> Result<()> {
    let Some(b) = current() else { return Ok(()) };
    let mut state = b.lock();
    while state.running || !state.waiting.is_empty() {
        state = b.wait(state);
    }
    state.failure.take().map_or(Ok(()), Err)
}
