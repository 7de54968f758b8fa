//! Says what is compiled while somebody at a terminal waits for kernels: the first use of a cold cache can take
//! seconds. A line on stderr once kernels have been compiled for a second, gone when they are ready; never where stderr
//! is no terminal, or MLX_VK_QUIET says so. Whoever compiles holds a [`Compiling`] meanwhile.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::core::env::{Values, Variable};
use crate::core::fork::Made;

pub static QUIET: Variable = Variable::new(
    "MLX_VK_QUIET",
    "0",
    Values::SWITCH,
    "1: nothing is printed while kernels are compiled for their first use. Otherwise a line on stderr says what \
         is, where that is a terminal and it takes more than a second",
);

/// Kernels that follow one another within this time are one stretch of work.
const GAP: Duration = Duration::from_millis(300);
/// How long a stretch lasts before anything is said.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    /// Kernels that are compiled now.
    active: Vec<String>,
    /// Kernels of this stretch that are ready.
    done: u64,
    began: Option<Instant>,
    last: Option<Instant>,
    watched: bool,
    shown: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { active: Vec::new(), done: 0, began: None, last: None, watched: false, shown: false });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A kernel that is being compiled, until this is dropped.
pub(in crate::vulkan) struct Compiling(String);

impl Drop for Compiling {
    fn drop(&mut self) {
        let mut s = state();
        if let Some(i) = s.active.iter().position(|n| *n == self.0) {
            s.active.swap_remove(i);
        }
        s.done += 1;
        s.last = Some(Instant::now());
    }
}

/// Notes that a kernel is compiled from now on, where somebody can be told.
pub(in crate::vulkan) fn compiling(name: &str) -> Option<Compiling> {
    static TOLD: Made<bool> = Made::new(|| std::io::stderr().is_terminal() && QUIET.switch() != Some(true));
    if !*TOLD {
        return None;
    }
    let mut s = state();
    s.active.push(name.into());
    s.began.get_or_insert_with(Instant::now);
    if !s.watched {
        s.watched = std::thread::Builder::new().name("mlx-progress".into()).spawn(watch).is_ok();
    }
    Some(Compiling(name.into()))
}

/// What the line says now; None while a stretch is young.
fn line(s: &State, now: Instant) -> Option<String> {
    let (name, began) = (s.active.last()?, s.began?);
    (now - began >= SHOWN_AFTER)
        .then(|| format!("[mlx] compiling GPU kernels for their first use: {} ready, now {name}", s.done))
}

/// Ends a stretch: the line goes.
fn clear(s: &mut State) {
    if s.shown {
        eprint!("\r\x1b[K");
    }
    *s = State::default();
}

fn watch() {
    loop {
        std::thread::sleep(TICK);
        let (mut s, now) = (state(), Instant::now());
        if s.active.is_empty() && s.last.is_none_or(|last| now - last > GAP) {
            return clear(&mut s);
        }
        if let Some(text) = line(&s, now) {
            let text: String = text.chars().take(100).collect();
            eprint!("\r{text}\x1b[K");
            let _ = std::io::stderr().flush();
            s.shown = true;
        }
    }
}

/// Takes the line away at the end of the process.
pub(in crate::vulkan) fn finish() {
    let mut s = state();
    if s.shown {
        eprint!("\r\x1b[K");
        s.shown = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_told_after_a_second_with_what_is_compiled() {
        let begin = Instant::now();
        let mut s = State { active: vec!["sort".into()], done: 3, began: Some(begin), ..State::default() };
        assert_eq!(line(&s, begin + Duration::from_millis(900)), None);
        let text = line(&s, begin + SHOWN_AFTER).unwrap();
        assert!(text.contains("3 ready, now sort"), "{text}");
        s.active.clear();
        assert_eq!(line(&s, begin + SHOWN_AFTER), None);
    }
}
