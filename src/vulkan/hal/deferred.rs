//! Commands of a batch behind a kernel that is still being compiled. They are deferred until the batch is submitted,
//! so that the kernels of a graph compile side by side while the rest of it is recorded; a batch without such a
//! kernel never comes here. A batch whose kernel cannot be made runs without it, and one that the driver does not take
//! never runs: whoever reads what the batch wrote gets the error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ash::vk;
use smallvec::SmallVec;

use super::device::Device;
use super::gate::Driver;
use super::stream::{Point, StreamState};
use crate::core::{Error, Result, trace};
use crate::vulkan::shader::native::Handle;
use crate::vulkan::shader::pipeline::Pipeline;

/// What comes before a barrier, and behind it: stages and accesses.
#[derive(Clone, Copy)]
pub(crate) struct Barrier {
    pub src: (vk::PipelineStageFlags, vk::AccessFlags),
    pub dst: (vk::PipelineStageFlags, vk::AccessFlags),
}

/// A command as `Recorder` would record it.
pub(in crate::vulkan) enum Deferred {
    Barrier(Barrier),
    Dispatch { pipeline: Arc<Pipeline>, push: SmallVec<[u8; 64]>, groups: [u32; 3] },
    Copy { src: vk::Buffer, dst: vk::Buffer, region: vk::BufferCopy },
}

static ANY_FAILED: AtomicBool = AtomicBool::new(false);
/// Batches that failed by stream and number: why, and whether they run all the same.
static FAILED: Mutex<BTreeMap<(usize, u64), (Error, bool)>> = Mutex::new(BTreeMap::new());

fn key(stream: &StreamState, value: u64) -> (usize, u64) {
    (std::ptr::from_ref(stream) as usize, value)
}

/// Notes that the batch at `point` never runs, or `runs` without one of its kernels.
pub(super) fn fail(point: Point, error: &Error, runs: bool) {
    let mut failed = FAILED.lock().unwrap_or_else(|e| e.into_inner());
    failed.insert(key(point.stream, point.value), (error.clone(), runs));
    ANY_FAILED.store(true, Ordering::Release);
}

/// Fails for a batch that did not run, or not whole.
pub(in crate::vulkan) fn intact(point: Point) -> Result<Point> {
    if !ANY_FAILED.load(Ordering::Acquire) {
        return Ok(point);
    }
    let failed = FAILED.lock().unwrap_or_else(|e| e.into_inner());
    failed.get(&key(point.stream, point.value)).map_or(Ok(point), |(e, _)| Err(e.clone()))
}

/// The last batch up to `value` that the driver took: nothing ever tells that another is done.
pub(super) fn taken(stream: &StreamState, mut value: u64) -> u64 {
    if ANY_FAILED.load(Ordering::Acquire) {
        let failed = FAILED.lock().unwrap_or_else(|e| e.into_inner());
        while failed.get(&key(stream, value)).is_some_and(|(_, runs)| !runs) {
            value -= 1;
        }
    }
    value
}

/// Forgets the batches of streams whose device was destroyed.
pub(super) fn forget(streams: &[&StreamState]) {
    let mut failed = FAILED.lock().unwrap_or_else(|e| e.into_inner());
    failed.retain(|(stream, _), _| streams.iter().all(|s| key(s, 0).0 != *stream));
}

/// The commands of a batch that wait.
#[derive(Default)]
pub(in crate::vulkan) struct Queue(Vec<Deferred>);

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A kernel that is still being compiled.
    pub fn unready(&self) -> Option<Arc<Pipeline>> {
        self.0.iter().find_map(|command| match command {
            Deferred::Dispatch { pipeline, .. } if !pipeline.is_decided() => Some(pipeline.clone()),
            Deferred::Dispatch { .. } | Deferred::Barrier { .. } | Deferred::Copy { .. } => None,
        })
    }

    pub fn push(&mut self, command: Deferred) {
        self.0.push(command);
    }

    /// Records the commands in their order, each when its kernel is ready. `bound` is the pipeline that is bound.
    ///
    /// # Errors
    /// The first of a kernel; the others are recorded, and readers of the batch get the error too.
    pub fn record(
        &mut self,
        state: &'static StreamState,
        driver: &Driver<'_>,
        cmd: vk::CommandBuffer,
        bound: &mut vk::Pipeline,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let _span = trace::span("wait", || "compiler".into());
        let mut failure = None;
        for command in self.0.drain(..) {
            // SAFETY: recording under the `rec` lock; what the commands refer to outlives the batch.
            unsafe {
                match command {
                    Deferred::Barrier(b) => barrier(driver, cmd, b),
                    Deferred::Dispatch { pipeline, push, groups } => match pipeline.wait() {
                        Ok(handle) => dispatch(driver, state.device, cmd, handle, bound, &push, groups),
                        Err(e) => failure = failure.or(Some(e)),
                    },
                    Deferred::Copy { src, dst, region } => driver.cmd_copy_buffer(cmd, src, dst, &[region]),
                }
            }
        }
        match failure {
            Some(e) => {
                fail(Point { stream: state, value: state.open_value() }, &e, true);
                Err(e)
            }
            None => Ok(()),
        }
    }
}

/// Records a barrier of all memory.
///
/// # Safety
/// The command buffer must be one that is being recorded under the `rec` lock.
pub(super) unsafe fn barrier(driver: &Driver<'_>, cmd: vk::CommandBuffer, b: Barrier) {
    let memory = vk::MemoryBarrier::default().src_access_mask(b.src.1).dst_access_mask(b.dst.1);
    let none = vk::DependencyFlags::empty();
    // SAFETY: by the caller.
    unsafe { driver.cmd_pipeline_barrier(cmd, b.src.0, b.dst.0, none, &[memory], &[], &[]) };
}

/// Records a dispatch; `bound` is the pipeline that is bound.
///
/// # Safety
/// The command buffer must be one that is being recorded under the `rec` lock, and the addresses in `push` valid.
pub(super) unsafe fn dispatch(
    driver: &Driver<'_>,
    device: &Device,
    cmd: vk::CommandBuffer,
    handle: Handle,
    bound: &mut vk::Pipeline,
    push: &[u8],
    groups: [u32; 3],
) {
    let handle = match handle {
        Handle::Shader(none) if none == vk::Pipeline::null() => return, // rehearsed
        Handle::Shader(pipeline) => pipeline,
        Handle::Native(kernel) => {
            // What such a command leaves bound is the driver's affair.
            *bound = vk::Pipeline::null();
            // SAFETY: by the caller.
            return unsafe { kernel.launch(device, cmd, push, groups) };
        }
    };
    // SAFETY: by the caller; pipelines and their layout live as long as the device.
    unsafe {
        if *bound != handle {
            driver.cmd_bind_pipeline(cmd, vk::PipelineBindPoint::COMPUTE, handle);
            *bound = handle;
        }
        if !push.is_empty() {
            let stage = vk::ShaderStageFlags::COMPUTE;
            driver.cmd_push_constants(cmd, device.layout, stage, 0, push);
        }
        driver.cmd_dispatch(cmd, groups[0], groups[1], groups[2]);
    }
}
