//! Devices and streams as plain values, and the process-wide defaults. Which devices really exist is
//! known to the backends above; they register their count here.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fork::Shared;

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The host processor.
    Cpu,
    /// A Vulkan device.
    Gpu,
}

/// A device by kind and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// CPU or GPU.
    pub kind: DeviceKind,
    /// Position in the ranked list of adapters; 0 for the CPU.
    pub index: u32,
}

/// An ordered queue of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Where the work runs.
    pub device: Device,
    /// Unique over the process.
    pub index: u32,
}

impl Device {
    /// The host processor.
    pub const CPU: Device = Device { kind: DeviceKind::Cpu, index: 0 };
    /// The first GPU.
    pub const GPU: Device = Device { kind: DeviceKind::Gpu, index: 0 };

    /// Whether this is a Vulkan device.
    pub fn is_gpu(self) -> bool {
        self.kind == DeviceKind::Gpu
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.kind, self.index)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}, {})", self.device, self.index)
    }
}

/// A stream as somebody holds it. One that nobody holds any more finishes its work and gives back what it has.
pub struct Handle(Stream);

/// How many handles each stream has. Streams of [`new_stream`] have one for the life of the process.
pub(crate) static HELD: Shared<HashMap<Stream, usize>> = Shared::new(HashMap::new);
/// Who is told about streams that nobody holds any more.
static RELEASED: OnceLock<fn(Stream)> = OnceLock::new();

impl Handle {
    /// One more handle of a stream.
    pub fn new(stream: Stream) -> Handle {
        *HELD.lock().entry(stream).or_default() += 1;
        Handle(stream)
    }

    /// The only handle of a new stream; its queue or worker starts on first use.
    pub fn make(device: Device) -> Handle {
        Handle::new(unheld(device))
    }

    /// The stream.
    pub fn stream(&self) -> Stream {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut all = HELD.lock();
        let last = all.get_mut(&self.0).is_none_or(|n| {
            *n -= 1;
            *n == 0
        });
        if last {
            all.remove(&self.0);
            drop(all);
            if let Some(tell) = RELEASED.get() {
                tell(self.0);
            }
        }
    }
}

/// Whether somebody holds a stream.
pub fn is_held(stream: Stream) -> bool {
    HELD.lock().contains_key(&stream)
}

/// The streams that somebody holds.
pub fn held_streams() -> Vec<Stream> {
    HELD.lock().keys().copied().collect()
}

/// Has `tell` called with each stream that nobody holds any more; the first caller's.
pub fn on_release(tell: fn(Stream)) {
    let _ = RELEASED.set(tell);
}

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

fn unheld(device: Device) -> Stream {
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
