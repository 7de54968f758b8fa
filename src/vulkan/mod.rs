//! The Vulkan backend: adapters, devices, streams, encoders, the shader compiler and the host side of each
//! kernel. Works on device addresses, without graph knowledge. Kernels record through [`with_encoder`];
//! the order of locks is in `stream`.

pub mod environment;
pub mod hal;
pub mod kernels;
mod memory;
pub mod report;
pub mod shader;
pub mod tune;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub use hal::adapter::{AdapterInfo, AdapterKind, adapters};
pub use hal::backlog::{Backlog, backlog};
pub use hal::device::{Device, DeviceInfo, device};
pub use hal::encoder::CommandEncoder;
pub use hal::features::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};
pub use memory::Block;
#[cfg(unix)]
pub use memory::exported::{exportable, imported};
pub use memory::readback::{Readback, ReadbackBuffer, put};
pub use shader::pipeline::{KernelKey, Module, Pipeline, Source};

use crate::core::event::Uninterrupted;
use crate::core::{Result, Storage, Stream};
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

/// Storage that a stream's GPU alone has, of bytes of the host that are many; `None` where the host had better keep them.
///
/// # Safety
/// `src` must be valid for `bytes` of reads.
pub unsafe fn made(stream: Stream, src: *const u8, bytes: usize) -> Result<Option<Arc<Storage>>> {
    if bytes < tune::transfer::MADE || report::compile_only::on() {
        return Ok(None);
    }
    let state = StreamState::of(stream)?;
    if state.device.features().unified {
        return Ok(None);
    }
    // SAFETY: by the caller.
    let block = unsafe { memory::transfer::upload(state, src, bytes) }?;
    Ok(Some(Storage::from_device(block, bytes)))
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

/// While the result lives, this thread records steps of a graph on a stream: who else wants them submitted waits for a seam.
pub fn recording(stream: Stream) -> Option<impl Drop> {
    // Whoever records first is told why a stream cannot be made.
    let may = stream.device.is_gpu() && !hal::adapter::forked();
    let state = if may { StreamState::known(stream) } else { None };
    state.map(hal::held::Recording::begin)
}

/// While the result lives a thread of its own may call the driver for what this thread records: many commands one behind the other.
pub fn many_commands() -> impl Drop {
    hal::caller::Many::begin()
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
    if let Some(driver) = state.device.enter() {
        state.device.blob.save(&driver, false);
    }
    Ok(())
}

/// Submits what was recorded on all streams and waits for it; interruptible.
pub fn synchronize_all() -> Result<()> {
    if hal::adapter::forked() {
        return Ok(());
    }
    for state in hal::device::opened().into_iter().flat_map(|d| d.lock_streams()) {
        state.flush()?;
        state.wait(state.submitted.load(Ordering::Acquire))?;
    }
    Ok(())
}

/// Drops what waits to be compiled, gives submitted work a moment and writes the drivers' pipeline caches to
/// disk. For the end of the process: some drivers crash when it exits under their running threads (see [`is_busy`]).
pub fn finish(until: Instant) {
    if hal::adapter::forked() {
        return;
    }
    let _held = Uninterrupted::new();
    shader::compile_pool::finish(until);
    report::progress::finish();
    kernels::measure::finish(until);
    memory::linger::finish();
    for d in hal::device::opened() {
        if d.is_lost() {
            d.lock_streams().into_iter().for_each(StreamState::rest);
            continue;
        }
        for s in d.lock_streams() {
            // Nothing is left to the thread behind a batch that is kept open.
            let ready = s.lock_rec().unready().is_none();
            let _ = ready.then(|| s.flush_if_ready());
            let value = s.submitted.load(Ordering::Acquire);
            while Instant::now() < until && matches!(s.wait_a_while(value), Ok(false)) {}
        }
        if let Some(driver) = d.enter() {
            d.blob.save(&driver, true);
        }
    }
    hal::reclaim::finish(until);
}

/// Has the process end without what drivers do at its end, if they are still at work then, or those are whom `busy` asks
/// about, or `always`.
pub fn leave_early(always: bool, busy: fn() -> bool) {
    hal::end::leave_early(always, busy);
}

/// Whether a GPU computes, or threads compile for one.
fn is_busy() -> bool {
    let computes = |s: &&'static StreamState| s.poll() < s.submitted.load(Ordering::Acquire);
    shader::compile_pool::are_busy()
        || hal::reclaim::is_running()
        || kernels::measure::is_running()
        || hal::device::opened().into_iter().any(|d| !d.is_lost() && d.lock_streams().iter().any(computes))
}
