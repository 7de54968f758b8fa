//! Panics as errors. A panic is a fault of the library, but one that ends an operation and not the process: whoever
//! catches it makes the error here, which says where it came from.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};

use super::error::{Error, Result};

// Where the last panic came from; it may be caught on another thread. Nobody waits for the lock, which a fork might
// leave held.
static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// From now on panics remember where they came from. Called by the Python face when it is imported.
pub fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line()));
            if let Ok(mut last) = PLACE.try_lock() {
                *last = place;
            }
            default(info);
        }));
    });
}

/// What an error says of a panic.
pub fn told(what: &str) -> String {
    let place = PLACE.try_lock().ok().and_then(|mut p| p.take()).unwrap_or_default();
    format!("An invariant of the library does not hold{place}: {what}")
}

fn text(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<&str>() {
        Some(s) => s,
        None => panic.downcast_ref::<String>().map_or("unknown panic", |s| s),
    }
}

/// The error for what was caught; `op` is what was done.
pub fn error(op: &str, panic: &(dyn Any + Send)) -> Error {
    Error::Runtime(format!("[{op}] {}", told(text(panic))))
}

/// Runs `f` and turns a panic into [`Error::Runtime`].
pub fn caught<T>(op: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(error(op, &*panic)))
}

/// Runs what foreign code calls and no error can be told to. The panic was printed by the hook.
pub fn contained(f: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(f));
}
