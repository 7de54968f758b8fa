//! What a thread that records should wait for before it records more: kernels that are still being compiled, or batches
//! that the GPU has not got to. It is noted under the locks of recording, and waited for without them by the walk of
//! `eval`, which can be interrupted; a thread that does not walk is stopped where it records, a little later.

use std::cell::Cell;

use super::stream::{StreamState, Watchdog};
use crate::core::Result;

/// Recording is stopped where it is at so many times what a walk waits for.
pub(super) const MOST: u64 = 2;

/// What to wait for: the end of a batch, or that what is recorded can be submitted.
type Next = (&'static StreamState, Option<u64>);

/// Something to wait for.
pub struct Backlog {
    next: Next,
    watchdog: Watchdog<'static>,
}

thread_local! {
    static NEXT: Cell<Option<Next>> = const { Cell::new(None) };
}

/// Has this thread wait for the batch soon, or until what is recorded can be submitted.
pub(super) fn note(stream: &'static StreamState, batch: Option<u64>) {
    NEXT.set(Some((stream, batch)));
}

/// What this thread should wait for, if anything, before it records more. Asking takes it.
#[inline]
pub fn backlog() -> Option<Backlog> {
    NEXT.take().map(|next| Backlog { next, watchdog: Watchdog::new(next.0.device) })
}

impl Backlog {
    /// Waits a while; whether there is nothing left to wait for.
    ///
    /// # Errors
    /// What keeps the driver from taking what is recorded.
    pub fn wait_a_while(&mut self) -> Result<bool> {
        let (stream, batch) = self.next;
        let Some(value) = batch else { return stream.flush_if_ready() };
        // The batch is on its way, whatever comes of the wait: those are told who read what it writes.
        let done = stream.wait_a_while(value).unwrap_or(true);
        Ok(done || self.watchdog.check().is_err())
    }
}
