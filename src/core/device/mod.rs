//! Devices and streams as plain values, and who holds a stream; the defaults are in [`defaults`]. Which devices
//! really exist is known to the backends above; they register their count here.

mod defaults;

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

pub use self::defaults::*;
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
