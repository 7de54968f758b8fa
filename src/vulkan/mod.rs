//! The Vulkan backend: adapters, devices, streams, encoders, the shader compiler and the host side of each
//! kernel. Works on device addresses, without graph knowledge. Kernels record through [`with_encoder`];
//! the order of locks is in `stream`.

pub mod adapter;
pub mod attention;
mod blob;
mod builders;
mod cache;
pub mod compiler;
pub mod conv;
mod conv_depthwise;
#[cfg(test)]
mod conv_tests;
mod conv_winograd;
mod device;
pub mod elementwise;
mod encoder;
mod features;
mod gemv;
mod hazards;
mod held;
mod landing;
pub mod matmul;
mod matmul_epilogue;
pub mod matmul_kernel;
#[cfg(test)]
mod matmul_tests;
mod memory;
mod nv;
mod pipeline;
pub mod profile;
mod progress;
mod prune;
pub mod stats;
mod stream;
pub mod tiers;
mod transfer;
pub mod tune;

mod elem;
pub mod fft;
pub mod frames;
pub mod gated_delta;
pub mod gather;
pub mod gather_mm;
pub mod hadamard;
mod indexed;
pub mod mask;
pub mod norm;
pub mod qmm;
pub mod qmm_joined;
pub mod quant;
mod radix;
pub mod random;
pub mod reduce;
pub mod rope;
pub mod rope_rows;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod search;
mod shelf;
pub mod softmax;
pub mod sort;
pub mod spirv;
mod spread;
pub mod user;

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

pub use adapter::{AdapterInfo, AdapterKind, adapters};
pub use device::{Device, DeviceInfo, device};
pub use encoder::CommandEncoder;
pub use features::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};
pub use landing::{Coming, Landing, put};
pub use memory::Block;
pub use pipeline::{KernelKey, Module, Pipeline, Source};

use crate::core::{Result, Stream};
use stream::StreamState;
use tune::{attention as attention_table, matmul as matmul_table, quantized as qmm_table};

/// Records on a GPU stream. Entering the same stream again inside the closure is an error; whatever it records is
/// submitted when the batch is full, or by [`flush`], [`synchronize`] or a reader of the results.
pub fn with_encoder<R>(stream: Stream, f: impl FnOnce(&mut CommandEncoder) -> Result<R>) -> Result<R> {
    let mut encoder = CommandEncoder::new(StreamState::of(stream)?)?;
    f(&mut encoder)
}

/// Submits what was recorded on a stream.
pub fn flush(stream: Stream) -> Result<()> {
    StreamState::of(stream)?.flush()
}

/// Submits what was recorded on a stream; while the GPU has enough to do, a little later with what comes next.
pub fn offer(stream: Stream) -> Result<()> {
    StreamState::of(stream)?.offer()
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

/// Waits for submitted work and writes the drivers' pipeline caches to disk. For the end of the process:
/// some drivers crash when it exits under their running threads.
pub fn finish() {
    if adapter::forked() {
        return;
    }
    crate::transforms::settle();
    matmul_kernel::finish_background();
    builders::finish();
    progress::finish();
    for d in device::opened() {
        // Nothing is left to the threads behind them.
        let _ = d.submit_kept();
        for s in d.lock_streams() {
            let _ = s.wait_uninterrupted(s.submitted.load(Ordering::Acquire));
        }
        d.blob.save(&d.raw, true);
    }
}
