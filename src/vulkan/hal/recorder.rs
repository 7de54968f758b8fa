//! The batch of commands that a stream records, and those in flight: the first batch after an idle phase is small so
//! that the GPU starts early, and only so many are in flight. Barriers appear where byte ranges meet (see `hazards`),
//! across batches too: a barrier orders all that was submitted to the queue before it. When a batch is full, may stay
//! open or is due is decided here, by the numbers of `tune::pacing`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ash::vk;
use smallvec::SmallVec;

use super::backlog;
use super::caller::{self, Call};
use super::deferred::{self, Barrier, Deferred};
use super::fault::pass;
use super::gate::Driver;
use super::hazards::Hazards;
use super::held::Held;
use super::progress::Progress;
use super::stream::{Point, StreamState};
use crate::core::env::{KernelVariant, Values, Variable};
use crate::core::fault::Site;
use crate::core::fork::Made;
use crate::core::{Error, Result, trace};
use crate::vulkan::memory::Region;
use crate::vulkan::report::compile_only;
use crate::vulkan::report::profile::{self, Command};
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::native::Handle;
use crate::vulkan::shader::pipeline::Pipeline;
use crate::vulkan::tune::pacing::{AHEAD_NS, BURST, BURST_NS, BURST_TIME, FIRST_OPS, NEAR_NS, OPEN_NS};

pub static MAX_OPS: Variable = Variable::new(
    "MLX_VK_MAX_OPS_PER_BUFFER",
    "100",
    Values::Number(1, 1 << 20),
    "Dispatches after which a command buffer is submitted",
);

pub static MAX_MB: Variable = Variable::new(
    "MLX_VK_MAX_MB_PER_BUFFER",
    "by device",
    Values::Number(1, 1 << 30),
    "Megabytes touched after which a command buffer is submitted. Without the variable 50, or what the GPU reads in 200 us if \
         that is more; a software driver: 8",
);

pub static MAX_INFLIGHT: Variable = Variable::new(
    "MLX_VK_MAX_INFLIGHT_SEQUENCES",
    "8",
    Values::Number(1, 1 << 16),
    "Submissions of a stream that may be unfinished at once; a software driver: 2",
);

pub static FULL_BARRIERS: Variable = Variable::new(
    "MLX_VK_FULL_BARRIERS",
    "0",
    Values::SWITCH,
    "1: a barrier before every dispatch, and of all memory where workgroups join parts; results must not change",
);

pub static BATCH_KEEP: KernelVariant = KernelVariant::new(
    "batch_keep",
    "a batch for each `async_eval`, and full ones at once, while the GPU is busy too",
);

struct Settings {
    max_ops: u32,
    /// By the device, where it is not said.
    max_bytes: Option<u64>,
    /// A batch that waits for compilers may have so many times the commands and bytes of another.
    longer: u32,
    max_inflight: usize,
    full_barriers: bool,
}

/// Of GPUs, and of software drivers: those need no batches ahead, and what is ahead is computed even after Ctrl-C.
static SETTINGS: Made<[Settings; 2]> = Made::new(|| {
    let with = |megabytes: Option<u64>, inflight: u64, longer| Settings {
        longer,
        max_ops: MAX_OPS.count() as u32,
        max_bytes: megabytes.map(|m| m << 20),
        max_inflight: inflight as usize,
        full_barriers: FULL_BARRIERS.switch().unwrap_or(false),
    };
    let software = (Some(MAX_MB.number().unwrap_or(8)), MAX_INFLIGHT.number().unwrap_or(2));
    [with(MAX_MB.number(), MAX_INFLIGHT.count(), 8), with(software.0, software.1, 2)]
});

fn settings(state: &StreamState) -> &'static Settings {
    &SETTINGS[usize::from(state.device.features().software)]
}

/// Bytes of a batch that is full.
fn max_bytes(state: &StreamState) -> u64 {
    settings(state).max_bytes.unwrap_or_else(|| state.device.pace.full())
}

/// A command buffer with a pool of its own: resetting the pool is the cheapest way to reuse it.
struct Cmd {
    pool: vk::CommandPool,
    raw: vk::CommandBuffer,
}

/// The batch that is being recorded; its device is there as long as that.
struct Open {
    cmd: Cmd,
    driver: Driver<'static>,
}

/// A batch that was submitted.
struct Sent {
    value: u64,
    cmd: Cmd,
    /// Nanoseconds that it takes at least.
    work: u64,
}

/// Bytes that a command reads and writes.
pub(super) fn touched(reads: &[(u64, u64)], writes: &[(u64, u64)]) -> u64 {
    reads.iter().chain(writes).map(|r| r.1).sum()
}

/// The batch being recorded on a stream, and those in flight.
#[derive(Default)]
pub(crate) struct Recorder {
    open: Option<Open>,
    inflight: VecDeque<Sent>,
    /// Buffers of batches that the driver did not take.
    spare: Vec<Cmd>,
    pub(super) hazards: Hazards,
    pub(super) progress: Progress,
    ops: u32,
    op_limit: u32,
    pub(super) bytes: u64,
    byte_limit: u64,
    /// When the open batch was begun.
    begun: Option<Instant>,
    bound: vk::Pipeline,
    /// Transfers were recorded since the last barrier.
    transfer_dirty: bool,
    /// The last barrier covers transfers that come after it.
    transfer_synced: bool,
    /// The host will read what the batch writes.
    pub(super) to_host: bool,
    waits: SmallVec<[(Point, bool); 4]>,
    /// Commands behind a kernel that is not ready.
    deferred: deferred::Queue,
    /// A command that waits for those behind it, before any other.
    pub(super) held: Option<Held>,
    profile: Option<profile::Batch>,
}

impl Recorder {
    /// Makes the open batch wait for another stream.
    pub fn add_wait(&mut self, point: Point) {
        match self.waits.iter_mut().find(|(p, _)| p.stream.same(point.stream)) {
            Some((p, _)) if p.value >= point.value => {} // this or an earlier batch waits already
            Some(w) => *w = (point, true),
            None => self.waits.push((point, true)),
        }
    }

    fn stages(state: &StreamState, transfer: bool) -> vk::PipelineStageFlags {
        match (state.compute, transfer) {
            (false, _) => vk::PipelineStageFlags::TRANSFER,
            (true, false) => vk::PipelineStageFlags::COMPUTE_SHADER,
            (true, true) => vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER,
        }
    }

    fn memory_barrier(&mut self, state: &'static StreamState, b: Barrier) {
        let Some(Open { cmd, driver }) = &self.open else { return };
        if !self.deferred.is_empty() {
            return self.deferred.push(Deferred::Barrier(b));
        }
        if state.caller.takes(state.device) {
            return state.caller.write(state.device, cmd.raw, Call::Barrier(b), &[]);
        }
        state.caller.drain(state.device);
        // SAFETY: the command buffer is being recorded under the `rec` lock.
        unsafe { deferred::barrier(driver, cmd.raw, b) };
    }

    /// Orders everything recorded so far before what follows; transfers take part where they need to.
    pub(super) fn barrier(&mut self, state: &'static StreamState, before_transfer: bool) {
        let writes = |s: vk::PipelineStageFlags| {
            let mut a = vk::AccessFlags::empty();
            if s.contains(vk::PipelineStageFlags::COMPUTE_SHADER) {
                a |= vk::AccessFlags::SHADER_WRITE;
            }
            if s.contains(vk::PipelineStageFlags::TRANSFER) {
                a |= vk::AccessFlags::TRANSFER_WRITE;
            }
            a
        };
        let src = Self::stages(state, self.transfer_dirty);
        let dst = Self::stages(state, before_transfer);
        let mut reads = vk::AccessFlags::empty();
        if dst.contains(vk::PipelineStageFlags::COMPUTE_SHADER) {
            reads |= vk::AccessFlags::SHADER_READ;
        }
        if dst.contains(vk::PipelineStageFlags::TRANSFER) {
            reads |= vk::AccessFlags::TRANSFER_READ;
        }
        let (src, dst) = ((src, writes(src)), (dst, reads | writes(dst)));
        self.memory_barrier(state, Barrier { src, dst });
        STATS.barriers.add(1);
        state.barriers.fetch_add(1, Ordering::Relaxed);
        self.transfer_dirty = false;
        self.transfer_synced = before_transfer;
    }

    /// Whether a command with these accesses needs a barrier before it. A profile may keep all commands apart.
    pub(super) fn barrier_due(
        &mut self,
        state: &StreamState,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> bool {
        self.hazards.visit(reads, writes) || Self::apart(state)
    }

    /// The handle of a kernel whose dispatch can be recorded now. Profiles time what is recorded and wait for it.
    pub(super) fn handle(
        &mut self,
        state: &'static StreamState,
        pipeline: &Pipeline,
    ) -> Result<Option<Handle>> {
        if self.deferred.is_empty()
            && let Some(handle) = pipeline.ready()
        {
            return Ok(Some(handle));
        }
        if !trace::on() {
            return Ok(None);
        }
        self.settle(state)?;
        pipeline.wait().map(Some)
    }

    /// Whether each command is to come behind a barrier, and by itself.
    pub(super) fn apart(state: &StreamState) -> bool {
        settings(state).full_barriers || (trace::on() && profile::isolated())
    }

    /// Records a dispatch, or keeps it until its kernel is there.
    ///
    /// # Safety
    /// The addresses in `push` must be valid.
    pub(super) unsafe fn dispatch(
        &mut self,
        state: &'static StreamState,
        handle: Option<Handle>,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        groups: [u32; 3],
    ) {
        match (handle, &self.open) {
            (Some(handle), Some(Open { cmd, .. }))
                if push.len() <= caller::PUSH && !trace::on() && state.caller.takes(state.device) =>
            {
                let now = match handle {
                    Handle::Shader(pipeline) => pipeline,
                    Handle::Native(_) => vk::Pipeline::null(),
                };
                let call = Call::Dispatch { handle, bind: self.bound != now, groups };
                self.bound = now;
                state.caller.write(state.device, cmd.raw, call, push);
            }
            (Some(handle), Some(Open { cmd, driver })) => {
                state.caller.drain(state.device);
                // SAFETY: recording under the `rec` lock; by the caller.
                unsafe {
                    deferred::dispatch(driver, state.device, cmd.raw, handle, &mut self.bound, push, groups);
                }
            }
            _ => {
                let pipeline = pipeline.clone();
                self.deferred.push(Deferred::Dispatch { pipeline, push: push.into(), groups });
            }
        }
    }

    /// Records what is deferred.
    pub(super) fn settle(&mut self, state: &'static StreamState) -> Result<()> {
        match &self.open {
            Some(open) => {
                state.caller.drain(state.device);
                self.deferred.record(state, &open.driver, open.cmd.raw, &mut self.bound)
            }
            None => Ok(()),
        }
    }

    /// The command buffer of the open batch.
    pub(super) fn open(&self) -> Option<vk::CommandBuffer> {
        self.open.as_ref().map(|o| o.cmd.raw)
    }

    /// While a profile runs, times the command that comes next; whether that is so.
    pub(super) fn before(&mut self, state: &StreamState, cmd: vk::CommandBuffer, barrier: bool) -> bool {
        if trace::on()
            && let Some(open) = &self.open
        {
            state.caller.drain(state.device);
            let batch = self.profile.get_or_insert_with(|| profile::Batch::new(state));
            batch.before(state.device, &open.driver, cmd, barrier);
            return true;
        }
        false
    }

    /// Ends what `before` began.
    pub(super) fn after(&mut self, cmd: vk::CommandBuffer, command: Command) {
        if let (Some(batch), Some(open)) = (&mut self.profile, &self.open) {
            batch.after(&open.driver, cmd, command);
        }
    }

    /// The open command buffer, begun if there is none. What was held is in it.
    pub(super) fn begin(&mut self, state: &'static StreamState) -> Result<vk::CommandBuffer> {
        self.close(state)?;
        self.open_batch(state)
    }

    pub(super) fn open_batch(&mut self, state: &'static StreamState) -> Result<vk::CommandBuffer> {
        if let Some(open) = &self.open {
            return Ok(open.cmd.raw);
        }
        let driver = state.device.driver()?;
        let submitted = state.submitted.load(Ordering::Relaxed);
        let idle = state.poll() == submitted;
        let cmd = self.recycle_or_create(state, &driver)?;
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is new or its pool was reset; the `rec` lock is held.
        let begun =
            pass(Site::Recording).and_then(|()| unsafe { driver.begin_command_buffer(cmd.raw, &info) });
        if let Err(e) = state.device.check("vkBeginCommandBuffer", begun) {
            self.spare.push(cmd);
            return Err(e);
        }
        let raw = cmd.raw;
        self.open = Some(Open { cmd, driver });
        let max = settings(state).max_ops;
        self.op_limit = if idle { FIRST_OPS.min(max) } else { self.op_limit.saturating_mul(3).clamp(1, max) };
        (self.ops, self.bytes, self.byte_limit) = (0, 0, max_bytes(state));
        self.begun = Some(Instant::now());
        self.bound = vk::Pipeline::null();
        self.profile = None; // of a batch that could not be submitted
        Ok(raw)
    }

    /// A command buffer whose batch is over. It is taken one batch late: a driver may signal the semaphore
    /// a moment before it lets go of the buffer.
    fn recycle_or_create(&mut self, state: &StreamState, driver: &Driver<'_>) -> Result<Cmd> {
        let device = state.device;
        let over = self.inflight.front().is_some_and(|sent| state.reached(sent.value + 1));
        let mut used = self.spare.pop();
        if used.is_none() && over {
            used = self.inflight.pop_front().map(|sent| sent.cmd);
        }
        if let Some(cmd) = used {
            let flags = vk::CommandPoolResetFlags::empty();
            // SAFETY: the batch of this buffer is done, or was never submitted.
            let reset = pass(Site::CommandBuffer)
                .and_then(|()| unsafe { driver.reset_command_pool(cmd.pool, flags) });
            return match device.check("vkResetCommandPool", reset) {
                Ok(()) => Ok(cmd),
                Err(e) => {
                    self.spare.push(cmd);
                    Err(e)
                }
            };
        }
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(state.queue.family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the device is there.
        let pool =
            pass(Site::CommandBuffer).and_then(|()| unsafe { driver.create_command_pool(&info, None) });
        let pool = device.check("vkCreateCommandPool", pool)?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was just created.
        let list = pass(Site::CommandBuffer)
            .and_then(|()| unsafe { driver.allocate_command_buffers(&info) })
            // SAFETY: nothing was made from the pool.
            .inspect_err(|_| unsafe { driver.destroy_command_pool(pool, None) });
        let raw = device.check("vkAllocateCommandBuffers", list)?[0];
        device.made().command_pools.push(pool);
        Ok(Cmd { pool, raw })
    }

    /// A kernel of the open batch that is still being compiled.
    pub fn unready(&self) -> Option<Arc<Pipeline>> {
        self.deferred.unready()
    }

    /// As [`Recorder::unready`], if the open batch would be submitted when it is offered.
    pub fn unready_if_due(&self, state: &StreamState) -> Option<Arc<Pipeline>> {
        self.unready().filter(|_| !self.may_stay_open(state) && !self.bursts(state))
    }

    /// Hands the open batch to the driver; nothing to do while it is empty.
    ///
    /// # Errors
    /// Those who read what the batch writes get them too.
    pub fn submit(&mut self, state: &'static StreamState) -> Result<()> {
        if self.ops == 0 {
            return Ok(());
        }
        let closed = self.close(state);
        let device = state.device;
        let _span = trace::span("submit", || format!("{} commands", self.ops));
        STATS.submitted(u64::from(self.ops));
        if self.to_host || device.features().unified {
            let stages = Self::stages(state, true);
            let host = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
            self.memory_barrier(state, Barrier { src: (stages, vk::AccessFlags::MEMORY_WRITE), dst: host });
        }
        let settled = self.settle(state);
        let Some(open) = self.open.take() else { return Ok(()) };
        let work = self.work(state);
        (self.ops, self.bytes, self.to_host) = (0, 0, false);
        state.kept.store(false, Ordering::Relaxed);
        let value = state.submitted.load(Ordering::Relaxed) + 1;
        let submit_ns = match self.send(state, &open, value) {
            Ok(ns) => ns,
            Err(e) => return Err(self.give_up(state, open.cmd, value, e)),
        };
        state.submitted.store(value, Ordering::Release);
        if let Some(batch) = self.profile.take() {
            batch.submitted(Point { stream: state, value }, submit_ns);
        }
        self.inflight.push_back(Sent { value, cmd: open.cmd, work });
        // Throttle: at most so many batches wait for the GPU. The batch is on its way, whatever comes of the wait.
        let behind = |batches| Some(value.saturating_sub(batches)).filter(|&v| v > 0 && !state.reached(v));
        let most = settings(state).max_inflight as u64;
        if let Some(oldest) = behind(most) {
            backlog::note(state, Some(oldest));
        }
        if let Some(oldest) = behind(backlog::MOST * most) {
            let _ = state.wait_uninterrupted(oldest);
        }
        closed.and(settled)
    }

    /// Hands a batch to the driver; returns when that was, while a profile runs.
    fn send(&mut self, state: &StreamState, open: &Open, value: u64) -> Result<u64> {
        let (device, Open { cmd, driver }) = (state.device, open);
        let ended =
            // SAFETY: the buffer is in the recording state under the `rec` lock.
            pass(Site::Recording).and_then(|()| unsafe { driver.end_command_buffer(cmd.raw) });
        device.check("vkEndCommandBuffer", ended)?;
        let pending = self.waits.iter().filter(|w| w.1).map(|w| w.0);
        let wait_semaphores: SmallVec<[vk::Semaphore; 4]> =
            pending.clone().map(|p| p.stream.semaphore).collect();
        let wait_values: SmallVec<[u64; 4]> = pending.map(|p| p.value).collect();
        let wait_stages: SmallVec<[vk::PipelineStageFlags; 4]> =
            SmallVec::from_elem(vk::PipelineStageFlags::ALL_COMMANDS, wait_values.len());
        let (buffers, signals, values) = ([cmd.raw], [state.semaphore], [value]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .wait_semaphores(&wait_semaphores)
            .wait_dst_stage_mask(&wait_stages)
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        let queue = state.queue.lock();
        let submit_ns = if self.profile.is_some() { trace::now() } else { 0 };
        let send = || {
            pass(Site::LostSubmission)?;
            pass(Site::Submission)?;
            // SAFETY: the queue is locked; everything the batch uses outlives it by the pool's rule.
            unsafe { driver.queue_submit(*queue, &[info], vk::Fence::null()) }
        };
        let mut sent = send();
        if matches!(sent, Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY))
        {
            // The driver may fail to make memory resident: give back what only the cache holds.
            device.pool.evict_all(device);
            sent = send();
        }
        device.check("vkQueueSubmit", sent)?;
        self.waits.iter_mut().for_each(|w| w.1 = false);
        Ok(submit_ns)
    }

    /// Counts a batch that the driver did not take as one that failed. Its barriers are gone with it.
    fn give_up(&mut self, state: &'static StreamState, cmd: Cmd, value: u64, error: Error) -> Error {
        deferred::fail(Point { stream: state, value }, &error, false);
        state.submitted.store(value, Ordering::Release);
        self.spare.push(cmd);
        self.profile = None;
        self.hazards.touch_all();
        self.progress.number = 0;
        (self.transfer_dirty, self.transfer_synced) = (true, false);
        error
    }

    /// Counts a recorded command and submits a batch that is full.
    pub(super) fn count(&mut self, state: &'static StreamState, bytes: u64) -> Result<()> {
        self.counted(state, bytes);
        self.submit_if_full(state)
    }

    pub(super) fn submit_if_full(&mut self, state: &'static StreamState) -> Result<()> {
        if self.ops < self.op_limit && self.bytes < self.byte_limit {
            return Ok(());
        }
        let Settings { max_ops, longer, .. } = settings(state);
        let (ops, bytes) = (longer * max_ops, u64::from(*longer) * max_bytes(state));
        if !self.deferred.is_empty() {
            if self.ops < ops && self.bytes < bytes {
                return Ok(());
            }
            if u64::from(self.ops) < backlog::MOST * u64::from(ops) && self.bytes < backlog::MOST * bytes {
                backlog::note(state, None);
                return Ok(());
            }
        }
        // How long commands of software drivers take is not known.
        if !state.device.features().software && self.may_stay_open(state) {
            self.op_limit = self.ops.saturating_add(settings(state).max_ops);
            self.byte_limit = self.bytes.saturating_add(max_bytes(state));
            return Ok(());
        }
        self.submit(state)
    }

    /// Counts a command that the open batch has, or will have.
    pub(super) fn counted(&mut self, state: &StreamState, bytes: u64) {
        self.ops += 1;
        self.bytes += bytes;
        state.recorded.store(state.submitted.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Nanoseconds that the open batch takes at least.
    fn work(&self, state: &StreamState) -> u64 {
        state.device.pace.work(self.ops, self.bytes)
    }

    /// The last batch at whose end there is enough left of what was submitted; none if the open one is due now. As many
    /// batches as may be in flight are enough too: one more would have to wait, and its thread be woken late.
    fn ahead(&self, state: &StreamState) -> Option<u64> {
        let completed = state.poll();
        let most = settings(state).max_inflight.saturating_sub(2).max(1);
        let mut work = 0;
        for (behind, sent) in self.inflight.iter().rev().take_while(|s| s.value > completed).enumerate() {
            if work >= AHEAD_NS || behind >= most {
                return Some(sent.value);
            }
            work += sent.work + state.device.pace.batch;
        }
        None
    }

    fn may_stay_open(&self, state: &StreamState) -> bool {
        self.work(state) < OPEN_NS && !BATCH_KEEP.disabled() && self.ahead(state).is_some()
    }

    /// Whether the open batch is one of a burst that may grow a little longer.
    fn bursts(&self, state: &StreamState) -> bool {
        state.offers.load(Ordering::Relaxed) >= BURST
            && self.work(state) < BURST_NS
            && self.ops < settings(state).max_ops
            && self.begun.is_some_and(|t| t.elapsed() < BURST_TIME)
            && !BATCH_KEEP.disabled()
    }

    /// Submits the open batch unless the GPU has enough to do, or more is about to come; whether it stays open.
    pub fn offer(&mut self, state: &'static StreamState) -> Result<bool> {
        if self.ops == 0 {
            return Ok(false);
        }
        state.offers.fetch_add(1, Ordering::Relaxed);
        if self.may_stay_open(state) || self.bursts(state) {
            return Ok(true);
        }
        self.submit(state).map(|()| false)
    }

    /// What to wait for before the next look at a batch that was kept open, if one still is.
    pub fn tend(&mut self, state: &'static StreamState) -> Result<Option<Until>> {
        if !state.kept.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(value) = self.ahead(state) {
            return Ok(Some(Until::Reached(value)));
        }
        if self.bursts(state) {
            return Ok(Some(Until::BurstEnds));
        }
        Ok(Some(self.unready().map_or(Until::Due, Until::Compiled)))
    }

    /// The batch up to which a thread that waits for `value` may sleep: what follows takes longer than to wake up.
    pub fn far_from(&self, value: u64) -> Option<u64> {
        let mut work = 0;
        for sent in self.inflight.iter().rev().skip_while(|s| s.value > value) {
            if work >= NEAR_NS {
                return Some(sent.value);
            }
            work += sent.work;
        }
        None
    }

    /// Copies between two buffers; addresses are for hazards. Returns the batch that holds the copy.
    pub fn copy(
        &mut self,
        state: &'static StreamState,
        src: (Region, u64),
        dst: (Region, u64),
        bytes: u64,
        to_host: bool,
    ) -> Result<u64> {
        if compile_only::on() {
            return Ok(0);
        }
        let reads = [(src.0.address + src.1, bytes)];
        let writes = [(dst.0.address + dst.1, bytes)];
        let cmd = self.begin_copy(state, &reads, &writes)?;
        if trace::on() {
            self.settle(state)?;
        }
        let due = self.barrier_due(state, &reads, &writes) || !self.transfer_synced;
        if due {
            self.barrier(state, true);
        }
        let region = vk::BufferCopy { src_offset: src.1, dst_offset: dst.1, size: bytes };
        let timed = self.before(state, cmd, due);
        let (from, to) = (src.0.buffer, dst.0.buffer);
        match &self.open {
            Some(open) if self.deferred.is_empty() => {
                state.caller.drain(state.device);
                // SAFETY: recording under the `rec` lock; both buffers hold the range (callers check).
                unsafe { open.driver.cmd_copy_buffer(cmd, from, to, &[region]) };
            }
            _ => self.deferred.push(Deferred::Copy { src: from, dst: to, region }),
        }
        let (count, moved) = match to_host {
            true => (&STATS.downloads, &STATS.download_bytes),
            false => (&STATS.uploads, &STATS.upload_bytes),
        };
        count.add(1);
        moved.add(bytes);
        if timed {
            let copy = if to_host { "download" } else { "upload" };
            let command =
                Command { kernel: None, copy, work: None, bytes: 2 * bytes, barrier: due, op: None };
            self.after(cmd, command);
        }
        self.transfer_dirty = true;
        self.to_host |= to_host;
        let value = state.open_value();
        self.count(state, bytes)?;
        Ok(value)
    }
}

/// When the next look at a batch that was kept open is due.
pub(crate) enum Until {
    Reached(u64),
    BurstEnds,
    Compiled(Arc<Pipeline>),
    /// It is to be submitted.
    Due,
}
