//! Where operations run that name no stream: the defaults of the process, the scopes of a thread, and new streams.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Device, HELD, Handle, Stream};
use crate::core::fork::Shared;

/// Where operations run that name no stream.
pub(crate) struct Defaults {
    device: Option<Device>,
    streams: HashMap<Device, Handle>,
}

pub(crate) static DEFAULTS: Shared<Defaults> =
    Shared::new(|| Defaults { device: None, streams: HashMap::new() });
static NEXT_STREAM: AtomicU32 = AtomicU32::new(0);
/// Moves on whenever the process defaults have changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // `with mx.stream(s)` scopes of this thread; the top one wins over the process defaults.
    static SCOPES: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    // What `current_stream` found, and after how many changes.
    static CURRENT: Cell<Option<(u64, Stream)>> = const { Cell::new(None) };
}

fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Sets the default device if none has been chosen yet (called once, by whoever knows the hardware).
pub fn init_default_device(choose: impl FnOnce() -> Device) -> Device {
    if let Some(d) = DEFAULTS.lock().device {
        return d;
    }
    let chosen = choose();
    let device = *DEFAULTS.lock().device.get_or_insert(chosen);
    changed();
    device
}

/// The default device, or the CPU while nothing was chosen.
pub fn default_device() -> Device {
    if let Some(s) = SCOPES.with(|s| s.borrow().last().map(Handle::stream)) {
        return s.device;
    }
    DEFAULTS.lock().device.unwrap_or(Device::CPU)
}

/// Makes `device` the default one.
pub fn set_default_device(device: Device) {
    DEFAULTS.lock().device = Some(device);
    changed();
}

/// The default stream of a device.
pub fn default_stream(device: Device) -> Stream {
    let scoped = SCOPES.with(|s| s.borrow().iter().rev().map(Handle::stream).find(|s| s.device == device));
    if let Some(s) = scoped {
        return s;
    }
    DEFAULTS.lock().streams.entry(device).or_insert_with(|| Handle::make(device)).stream()
}

/// Makes `stream` the default one of its device.
pub fn set_default_stream(stream: Stream) {
    let before = DEFAULTS.lock().streams.insert(stream.device, Handle::new(stream));
    changed();
    drop(before);
}

/// The default stream of the default device. Nearly every operation asks, so that each thread keeps the answer.
pub fn current_stream() -> Stream {
    // Read before the defaults: what changes them meanwhile makes the answer old.
    let changes = CHANGES.load(Ordering::Acquire);
    match CURRENT.get() {
        Some((at, s)) if at == changes => s,
        _ => {
            let s = default_stream(default_device());
            CURRENT.set(Some((changes, s)));
            s
        }
    }
}

/// A new stream that lives as long as the process; its queue or worker starts on first use.
pub fn new_stream(device: Device) -> Stream {
    let stream = unheld(device);
    HELD.lock().insert(stream, 1);
    stream
}

pub(super) fn unheld(device: Device) -> Stream {
    Stream { device, index: NEXT_STREAM.fetch_add(1, Ordering::Relaxed) }
}

/// Enters a stream scope on this thread.
pub fn push_scope(stream: Stream) {
    SCOPES.with(|s| s.borrow_mut().push(Handle::new(stream)));
    CURRENT.set(None);
}

/// Leaves the innermost stream scope of this thread.
pub fn pop_scope() {
    let left = SCOPES.with(|s| s.borrow_mut().pop());
    CURRENT.set(None);
    drop(left);
}
