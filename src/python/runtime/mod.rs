//! Devices, streams, memory, files and processes, as Python sees them.

pub(super) mod device;
pub(super) mod distributed;
pub(super) mod ending;
pub(super) mod environment;
pub(super) mod io;
pub(super) mod layers;
pub(super) mod memory;
pub(super) mod panics;
pub(super) mod vulkan;
