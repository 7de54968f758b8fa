//! The Vulkan backend: adapters, devices, streams, encoders, the shader compiler and the host side of each
//! kernel. Works on device addresses, without graph knowledge. Kernels record through [`with_encoder`];
//! the order of locks is in `stream`.

pub mod hal;
pub mod kernels;
mod memory;
pub mod report;
pub mod shader;
pub mod tune;

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

pub use hal::adapter::{AdapterInfo, AdapterKind, adapters};
pub use hal::device::{Device, DeviceInfo, device};
pub use hal::encoder::CommandEncoder;
pub use hal::features::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};
pub use memory::Block;
pub use memory::readback::{Readback, ReadbackBuffer, put};
pub use shader::pipeline::{KernelKey, Module, Pipeline, Source};

use crate::core::{Result, Stream};
use hal::stream::StreamState;

/// Records on a GPU stream. Entering the same stream again inside the closure is an error; whatever it records is
/// submitted when the batch is full, or by [`flush`], [`synchronize`] or a reader of the results.
pub fn with_encoder<R>(stream: Stream, f: impl FnOnce(&mut CommandEncoder) -> Result<R>) -> Result<R> {
    let mut encoder = CommandEncoder::new(StreamState::of(stream)?)?;
    let result = f(&mut encoder);
    if let Err(e) = &result {
        encoder.spoil(e);
    }
    result
}

/// Submits what was recorded on a stream.
pub fn flush(stream: Stream) -> Result<()> {
    let state = StreamState::of(stream)?;
    look_at(state.device);
    state.flush()
}

/// Has a device measured when it is first used, if nothing tells its numbers.
fn look_at(device: &'static Device) {
    device.measured.call_once(|| {
        if device.profile().unknown() && !report::compile_only::on() {
            kernels::measure::begin(device);
        }
    });
}

/// Submits what was recorded on a stream; while the GPU has enough to do, a little later with what comes next.
pub fn offer(stream: Stream) -> Result<()> {
    let state = StreamState::of(stream)?;
    look_at(state.device);
    state.offer()
}

/// Whether a stream's device is no more than the host's processor.
pub fn software(stream: Stream) -> bool {
    StreamState::of(stream).is_ok_and(|s| s.device.features().software)
}

/// Submits what was recorded on a stream and waits for it; interruptible.
pub fn synchronize(stream: Stream) -> Result<()> {
    let state = StreamState::of(stream)?;
    state.flush()?;
    state.wait(state.submitted.load(Ordering::Acquire))?;
    state.device.blob.save(&state.device.raw, false);
    Ok(())
}

/// Waits for submitted work and writes the drivers' pipeline caches to disk. For the end of the process (`eval::end`):
/// some drivers crash when it exits under their running threads.
pub fn finish() {
    if hal::adapter::forked() {
        return;
    }
    kernels::matmul::kernel::finish_background();
    shader::compile_pool::finish();
    report::progress::finish();
    kernels::measure::finish();
    for d in hal::device::opened() {
        if d.is_lost() {
            d.lock_streams().into_iter().for_each(StreamState::rest);
            continue;
        }
        // Nothing is left to the threads behind them.
        let _ = d.submit_kept();
        for s in d.lock_streams() {
            let _ = s.wait_uninterrupted(s.submitted.load(Ordering::Acquire));
        }
        d.blob.save(&d.raw, true);
    }
}
