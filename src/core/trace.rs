//! What the host does while a profile runs: spans of time by thread, and which operation is being evaluated on
//! this thread. With no profile running, all of it costs one relaxed load where it is asked for.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::dtype::Dtype;
use super::fork::Made;
use super::layout::Shape;

static RUNNING: AtomicU32 = AtomicU32::new(0);
static SPANS: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static EPOCH: Made<Instant> = Made::new(Instant::now);

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static OP: RefCell<Option<Arc<Op>>> = const { RefCell::new(None) };
}

/// A stretch of a thread's time.
#[derive(Debug, Clone)]
pub struct Span {
    /// record, compile, submit, wait, upload, download or cpu.
    pub kind: &'static str,
    /// What it was about: an operation, a kernel, or empty.
    pub name: String,
    /// Number of the thread; see [`threads`].
    pub thread: u32,
    /// Nanoseconds since the first profile of the process.
    pub start_ns: u64,
    /// The end in the same measure.
    pub end_ns: u64,
}

/// The operation of a graph that is being evaluated.
#[derive(Debug, Clone)]
pub struct Op {
    /// Name of the primitive.
    pub name: String,
    /// Type of the first output.
    pub dtype: Dtype,
    /// Shape of the first output.
    pub shape: Shape,
}

fn lock<T>(m: &'static Mutex<T>) -> MutexGuard<'static, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Whether a profile runs.
#[inline]
pub fn on() -> bool {
    RUNNING.load(Relaxed) != 0
}

/// Whether just one profile runs.
pub fn alone() -> bool {
    RUNNING.load(Relaxed) == 1
}

/// Nanoseconds since the first profile of the process.
pub fn now() -> u64 {
    EPOCH.elapsed().as_nanos() as u64
}

/// Begins a profile: the number of spans seen so far, for [`stop`].
pub fn start() -> usize {
    let _ = *EPOCH;
    RUNNING.fetch_add(1, Relaxed);
    lock(&SPANS).len()
}

/// Ends a profile: the spans that ended since its `start`. Spans are forgotten with the last profile.
pub fn stop(from: usize) -> Vec<Span> {
    let mut spans = lock(&SPANS);
    let found = spans.get(from..).unwrap_or_default().to_vec();
    if RUNNING.fetch_sub(1, Relaxed) == 1 {
        *spans = Vec::new();
    }
    found
}

/// Names of the threads that spans refer to by number, from 1 on.
pub fn threads() -> Vec<String> {
    lock(&THREADS).clone()
}

/// Whether this is the process's first thread, where that can be told.
fn is_main() -> bool {
    let Ok(place) = std::fs::read_link("/proc/thread-self") else { return false };
    let id = std::process::id().to_string();
    place.file_name().is_some_and(|n| n.to_string_lossy() == id)
}

fn thread() -> u32 {
    THREAD.with(|t| {
        if t.get() == 0 {
            let mut names = lock(&THREADS);
            let unnamed = || if is_main() { "main".into() } else { format!("thread {}", names.len() + 1) };
            let name = std::thread::current().name().map_or_else(unnamed, str::to_string);
            names.push(name);
            t.set(names.len() as u32);
        }
        t.get()
    })
}

/// Ends its span when it is dropped.
pub struct Guard {
    kind: &'static str,
    name: String,
    start_ns: u64,
}

/// Begins a span if a profile runs.
#[inline]
pub fn span(kind: &'static str, name: impl FnOnce() -> String) -> Option<Guard> {
    on().then(|| Guard { kind, name: name(), start_ns: now() })
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (end_ns, thread) = (now(), thread());
        let name = std::mem::take(&mut self.name);
        let span = Span { kind: self.kind, name, thread, start_ns: self.start_ns, end_ns };
        let mut spans = lock(&SPANS);
        // Nobody would take away what comes behind the last profile.
        if on() {
            spans.push(span);
        }
    }
}

/// While a profile runs: says which operation this thread evaluates, or that it is over.
#[inline]
pub fn evaluating(op: impl FnOnce() -> Option<Op>) {
    if on() {
        let op = op().map(Arc::new);
        OP.with_borrow_mut(|o| *o = op);
    }
}

/// The operation that this thread evaluates.
pub fn operation() -> Option<Arc<Op>> {
    OP.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_belong_to_the_profiles_they_ended_in() {
        let outer = start();
        drop(span("record", || "first".into()));
        let inner = start();
        drop(span("wait", || "second".into()));
        // Other tests may be at work meanwhile.
        let ours = |spans: Vec<Span>| -> Vec<Span> {
            spans.into_iter().filter(|s| ["first", "second"].contains(&s.name.as_str())).collect()
        };
        let names = |spans: &[Span]| spans.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&ours(stop(inner))), ["second"]);
        let all = ours(stop(outer));
        assert_eq!(names(&all), ["first", "second"]);
        assert!(all.iter().all(|s| s.start_ns <= s.end_ns && s.thread as usize <= threads().len()));
    }
}
