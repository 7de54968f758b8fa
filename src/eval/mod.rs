//! Evaluation: orders the graph once, then records each node on its GPU stream's encoder or hands it to its CPU
//! stream's worker in batches. Nothing waits per op. Inputs whose last use this is reach the kernels unshared, so that
//! they can be overwritten. The calling thread records; a large graph of `async_eval` is recorded by a thread of its
//! own, while the caller builds what comes next. What is joined and in which order it runs is settled before that.

pub mod readback;
mod record;
mod tasks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod walk;

pub use record::{RECORDER, recordings};
pub use tasks::host_ops;
pub use walk::{SCHEDULE, settle};

use std::time::{Duration, Instant};

use self::record::{Failure, flush_gpu, offer_gpu, schedule, schedule_apart, submit_behind};
use crate::bail;
use crate::core::Placeholders;
use crate::core::array::Tracing;
use crate::core::{Array, Error, Result, Stream, failure, husks, trace};
use crate::cpu::runtime::worker;

/// Starts the computation of arrays and returns after submission. What goes wrong on the way is told to who waits.
///
/// # Errors
/// Value error inside a transform; runtime error for arrays that nothing can make.
pub fn async_eval(arrays: &[Array]) -> Result<()> {
    if Placeholders::exist() || arrays.iter().any(Array::is_tracer) {
        bail!(Value, "[async_eval] Not allowed inside a graph transformation.");
    }
    // Whoever waits for a value submits the batch that makes it.
    if arrays.iter().all(Array::is_scheduled) {
        return Ok(());
    }
    until_done(|| match !Tracing::on() && !trace::on() {
        true => schedule_apart(arrays),
        false => submit_behind(schedule(arrays)),
    })
}

/// Begins again what was given up in favour of others, or dropped because somebody else was interrupted.
pub fn until_done<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(Error::Dropped) => {}
            result => return result,
        }
    }
}

/// Computes arrays and waits for them.
///
/// # Errors
/// What went wrong, and what went wrong before on the same streams behind the caller.
pub fn eval(arrays: &[Array]) -> Result<()> {
    computed(arrays, Array::wait_for_stream)?.into_iter().try_for_each(failure::take)
}

/// As [`eval`], for callers whose callers may not see an error: what went wrong before is kept for the next one.
pub fn compute(arrays: &[Array]) -> Result<()> {
    computed(arrays, |a| a.wait_event_alone().and_then(|()| a.wait())).map(drop)
}

/// Returns the GPU streams that got work.
fn computed(arrays: &[Array], wait: fn(&Array) -> Result<()>) -> Result<Vec<Stream>> {
    until_done(|| {
        let mut gpu = Vec::new();
        if !arrays.iter().all(Array::is_scheduled) {
            gpu = schedule(arrays).inspect_err(Failure::told)?;
            offer_gpu(&gpu)?;
        }
        let _span = trace::span("wait", || "eval".into());
        arrays.iter().try_for_each(wait)?;
        Ok(gpu)
    })
}

/// Waits until all work of a stream is done.
///
/// # Errors
/// What went wrong there and nobody was told yet.
pub fn synchronize(stream: Stream) -> Result<()> {
    finish(stream).and_then(|()| failure::take(stream))
}

/// The end of the process does not wait longer than this for recorders, GPUs and compilers.
const LAST_WAIT: Duration = Duration::from_millis(800);

/// For the end of the process: what is queued is dropped, GPUs get a moment to finish, and what drivers compiled is kept.
pub fn end() {
    let until = Instant::now() + LAST_WAIT;
    walk::drop_queued(until);
    #[cfg(feature = "vulkan")]
    crate::vulkan::finish(until);
}

/// Whether threads evaluate on CPU streams, or record.
pub fn is_busy() -> bool {
    worker::is_busy()
}

/// Waits until all work of a stream is done, however it ended.
pub fn finish(stream: Stream) -> Result<()> {
    husks::free();
    if !stream.device.is_gpu() {
        return worker::synchronize(stream);
    }
    #[cfg(feature = "vulkan")]
    {
        settle()?;
        crate::vulkan::synchronize(stream)
    }
    #[cfg(not(feature = "vulkan"))]
    {
        Err(Error::Runtime(format!("[synchronize] {stream} is not available: built without Vulkan.")))
    }
}
