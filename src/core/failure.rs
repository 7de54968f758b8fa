//! Errors of work that went on behind the caller, until somebody hears of them: whoever waits for a stream, or for
//! something that was computed there, is told once what failed on it before. Arrays that failed keep their error for
//! whoever reads them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::device::Stream;
use super::error::{Error, Result};
use super::fork::Shared;

/// The first error of each stream since it was last asked for.
pub(crate) static UNHEARD: Shared<Vec<(Stream, Error)>> = Shared::new(Vec::new);
/// Whether there may be one: who waits looks here first.
static ANY: AtomicBool = AtomicBool::new(false);

/// Keeps the error for the next who waits for the stream. Comes before the work counts as finished.
pub fn note(stream: Stream, error: &Error) {
    let mut all = UNHEARD.lock();
    if all.iter().all(|(s, _)| *s != stream) {
        all.push((stream, error.clone()));
    }
    ANY.store(true, Ordering::Release);
}

/// Fails with what failed on the stream since the last call.
pub fn take(stream: Stream) -> Result<()> {
    if !ANY.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut all = UNHEARD.lock();
    let found = all.iter().position(|(s, _)| *s == stream).map(|i| all.swap_remove(i));
    ANY.store(!all.is_empty(), Ordering::Release);
    found.map_or(Ok(()), |(_, e)| Err(e))
}
