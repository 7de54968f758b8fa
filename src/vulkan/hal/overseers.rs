//! Those who know what commands of this process wait for beside the GPU: other processes, which may be gone, or about something
//! else. They are asked while somebody waits for a GPU and when such a wait has ended, before anybody reads what was computed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::deferred;
use super::device::Device;
use super::stream::{Point, StreamState};
use crate::core::Error;

/// Looks after commands that wait for others.
pub trait Overseer: Send + Sync {
    /// Looks whether the others do their part. Where they do not, the commands are made to end, after what they compute was
    /// spoilt ([`Mark::spoil`]). Called by any thread, under no lock of streams.
    fn look(&self);
}

static ALL: Mutex<Vec<Weak<dyn Overseer>>> = Mutex::new(Vec::new());
/// Commands that wait for others and were not found to be well.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// From now on it is asked.
pub fn attend(overseer: &Arc<dyn Overseer>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|o| o.strong_count() > 0);
    all.push(Arc::downgrade(overseer));
}

/// One more command waits for others.
pub fn begun() {
    OPEN.fetch_add(1, Ordering::AcqRel);
}

/// So many of them are well, or were given up.
pub fn ended(count: usize) {
    OPEN.fetch_sub(count, Ordering::AcqRel);
}

/// Asks all of them.
#[inline]
pub(super) fn look() {
    if OPEN.load(Ordering::Acquire) > 0 {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|o| o.look());
    }
}

/// How far the streams of a device have been recorded.
pub struct Mark(Vec<(&'static StreamState, u64)>);

impl Mark {
    /// As they are now.
    pub fn of(device: &Device) -> Mark {
        Mark(device.lock_streams().into_iter().map(|s| (s, s.open_value())).collect())
    }

    /// Whoever reads what batches of the device write from there on gets this error, whatever stream they belong to: each may
    /// depend on a command behind the mark.
    pub fn spoil(&self, device: &Device, error: &Error) {
        for stream in device.lock_streams() {
            let from = self.0.iter().find(|(s, _)| s.same(stream)).map_or(1, |(_, value)| *value);
            let submitted = stream.submitted.load(Ordering::Acquire);
            for value in from..=submitted.max(stream.recorded.load(Ordering::Acquire)) {
                deferred::fail(Point { stream, value }, error, true);
            }
        }
    }
}
