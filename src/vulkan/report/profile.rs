//! GPU time of every command, by a timestamp when it is done and one when its turn comes; behind a barrier its turn
//! comes when those before it are done, and the end of the last of them is taken. No barrier is added unless a profile
//! asks for `isolate`, so commands may overlap as they do otherwise. Query pools grow with the batches and are
//! reused; with no profile running this costs one relaxed load a command.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use ash::vk;
use smallvec::SmallVec;

use crate::core::Result;
use crate::core::fault::Site;
use crate::core::trace::{self, Op};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::fault::pass;
use crate::vulkan::hal::gate::Driver;
use crate::vulkan::hal::stream::{Point, StreamState};
use crate::vulkan::shader::pipeline::Pipeline;

/// Timestamps that a query pool has room for.
const STAMPS: usize = 512;

static ISOLATED: AtomicU32 = AtomicU32::new(0);
static NEXT_BATCH: AtomicU64 = AtomicU64::new(0);
static FINISHED: Mutex<Vec<Finished>> = Mutex::new(Vec::new());
static DONE: Mutex<Vec<Done>> = Mutex::new(Vec::new());
static POOLS: Mutex<Vec<(u32, vk::QueryPool)>> = Mutex::new(Vec::new());

/// What a kernel works on, where the operation's output does not say it.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Floating point operations.
    pub flops: f64,
    /// Sizes that decide the time.
    pub dims: SmallVec<[u64; 4]>,
}

/// A command as it was recorded.
#[derive(Clone)]
pub(crate) struct Command {
    /// The kernel; none for copies.
    pub kernel: Option<Arc<Pipeline>>,
    /// Name of a copy.
    pub copy: &'static str,
    pub work: Option<Work>,
    pub bytes: u64,
    /// It waits for all commands before it.
    pub barrier: bool,
    pub op: Option<Arc<Op>>,
}

/// Commands and timestamps of the batch being recorded.
pub(crate) struct Batch {
    number: u64,
    commands: Vec<Command>,
    pools: Vec<vk::QueryPool>,
    timed: bool,
    stamps: usize,
    /// Commands that were timed from the first on, each with or without a timestamp where it begins.
    begun: Vec<bool>,
}

struct Finished {
    batch: Batch,
    point: Point,
    submit_ns: u64,
}

/// A batch whose timestamps were read: ticks at the beginning and the end of its first commands.
struct Done {
    batch: Batch,
    stream: &'static StreamState,
    submit_ns: u64,
    ticks: Vec<[u64; 2]>,
}

/// One command on the GPU.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Name of the kernel; `upload` or `download` for copies.
    pub kernel: String,
    /// The operation it belongs to.
    pub op: Option<Arc<Op>>,
    /// Sizes that decide the time, where the kernel tells them.
    pub dims: SmallVec<[u64; 4]>,
    /// Index of the GPU.
    pub device: u32,
    /// Number of the stream among those of the GPU.
    pub stream: u32,
    /// Number of the batch in this process.
    pub batch: u64,
    /// Nanoseconds on the host's clock of `trace`, and the end; none where the queue cannot tell the time.
    pub times: Option<[f64; 2]>,
    /// Bytes that the command says it reads and writes.
    pub bytes: u64,
    /// Floating point operations, where the kernel tells them.
    pub flops: f64,
    /// It waited for all commands before it.
    pub barrier: bool,
}

/// What a profile saw of the GPUs.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Commands in the order of submission to each stream.
    pub samples: Vec<Sample>,
    /// Batches submitted.
    pub batches: u64,
    /// GPU, number and name of each stream that had work.
    pub streams: Vec<(u32, u32, String)>,
}

/// A profile that runs.
pub struct Recording {
    first: u64,
    isolate: bool,
}

fn lock<T>(m: &'static Mutex<T>) -> MutexGuard<'static, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

fn flush_all() -> Result<()> {
    let there = crate::vulkan::hal::device::opened().into_iter().filter(|d| !d.is_lost());
    there.flat_map(Device::lock_streams).try_for_each(StreamState::flush)
}

/// Whether commands are kept apart.
pub(crate) fn isolated() -> bool {
    ISOLATED.load(Relaxed) != 0
}

/// Starts timing commands on all GPUs; `trace` must be on. With `isolate` no two commands overlap.
pub fn start(isolate: bool) -> Recording {
    // What was recorded before belongs to batches of its own.
    let _ = flush_all();
    ISOLATED.fetch_add(u32::from(isolate), Relaxed);
    Recording { first: NEXT_BATCH.load(Relaxed), isolate }
}

/// Waits for the work since `start` and returns what was seen. `last`: no other profile runs.
pub fn stop(recording: &Recording, last: bool) -> Result<Report> {
    ISOLATED.fetch_sub(u32::from(recording.isolate), Relaxed);
    let result = collect(recording.first);
    if last {
        lock(&DONE).clear();
    }
    result
}

/// Ends a profile that nobody asks for.
pub fn abandon(recording: &Recording) {
    ISOLATED.fetch_sub(u32::from(recording.isolate), Relaxed);
}

/// Forgets the query pools of a device that was destroyed.
pub(in crate::vulkan) fn forget(id: u32) {
    lock(&POOLS).retain(|pool| pool.0 != id);
}

fn collect(first: u64) -> Result<Report> {
    if crate::vulkan::hal::adapter::forked() {
        return Ok(Report::default()); // a child has no GPU work of its own
    }
    flush_all()?;
    // Nothing more is heard of the batches of a lost device.
    lock(&FINISHED).retain(|f| !f.point.stream.device.is_lost());
    let end = NEXT_BATCH.load(Relaxed);
    let points: Vec<Point> = lock(&FINISHED).iter().map(|f| f.point).collect();
    points.into_iter().try_for_each(|p| p.stream.wait(p.value))?;
    harvest()?;
    let done = lock(&DONE);
    let ours: Vec<&Done> = done.iter().filter(|d| (first..end).contains(&d.batch.number)).collect();
    Ok(report(&ours))
}

/// Reads the timestamps of batches that are over. One thread at a time: what another is about to list counts too.
fn harvest() -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = lock(&ONE);
    let over: Vec<Finished> =
        lock(&FINISHED).extract_if(.., |f| f.point.stream.reached(f.point.value)).collect();
    for f in over {
        let device = f.point.stream.device;
        let Some(driver) = device.enter() else { continue };
        let mut batch = f.batch;
        let mut stamps = vec![0u64; batch.stamps];
        let mut parts = stamps.chunks_mut(STAMPS);
        for pool in batch.pools.drain(..) {
            // The last pool may not have been needed after all.
            if let Some(part) = parts.next() {
                let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
                // SAFETY: the batch that wrote these queries is done.
                let got = pass(Site::Query)
                    .and_then(|()| unsafe { driver.get_query_pool_results(pool, 0, part, flags) });
                device.check("vkGetQueryPoolResults", got)?;
            }
            lock(&POOLS).push((device.id(), pool));
        }
        let mut stamps = stamps.into_iter();
        let mut last = 0;
        let mut next = || stamps.next().unwrap_or_default();
        let pair = |&own: &bool| {
            let begin = if own { next() } else { last };
            last = next();
            [begin, last]
        };
        let ticks = batch.begun.iter().map(pair).collect();
        lock(&DONE).push(Done { batch, stream: f.point.stream, submit_ns: f.submit_ns, ticks });
    }
    Ok(())
}

/// Brings the ticks of each GPU to the host's clock: no batch begins before it was submitted, and the one that
/// waited least begins then.
fn report(done: &[&Done]) -> Report {
    struct Clock {
        origin: u64,
        period: f64,
        offset: f64,
    }
    let mut clocks: HashMap<u32, Clock> = HashMap::new();
    let since = |tick: u64, origin: u64, s: &StreamState| {
        let ticks = tick.wrapping_sub(origin) & s.queue.timestamp_mask;
        // Half the range back means that another queue's first stamp was read before.
        let back = s.queue.timestamp_mask.wrapping_sub(ticks).wrapping_add(1);
        if ticks > s.queue.timestamp_mask / 2 { -(back as f64) } else { ticks as f64 }
    };
    for d in done {
        let Some(&[begin, _]) = d.ticks.first() else { continue };
        let device = d.stream.device;
        let clock = clocks.entry(device.id()).or_insert_with(|| Clock {
            origin: begin,
            period: f64::from(device.features().timestamp_period),
            offset: f64::NEG_INFINITY,
        });
        let begin = since(begin, clock.origin, d.stream) * clock.period;
        clock.offset = clock.offset.max(d.submit_ns as f64 - begin);
    }
    let mut report = Report { batches: done.len() as u64, ..Report::default() };
    let mut latest: HashMap<(u32, u32), f64> = HashMap::new();
    for d in done {
        let device = d.stream.device;
        let place = device.lock_streams().iter().position(|s| s.same(d.stream)).unwrap_or_default() as u32;
        let track = (device.index(), place);
        if !report.streams.iter().any(|s| (s.0, s.1) == track) {
            let copies = device.is_copy_stream(d.stream);
            let kind = if copies { "copies" } else { "stream" };
            report.streams.push((track.0, track.1, format!("{kind} {place}")));
        }
        for (i, c) in d.batch.commands.iter().enumerate() {
            let times = d.ticks.get(i).zip(clocks.get(&device.id())).map(|(t, clock)| {
                let at = |tick| since(tick, clock.origin, d.stream) * clock.period + clock.offset;
                let end_before = latest.entry(track).or_insert(f64::NEG_INFINITY);
                let begin = if c.barrier { at(t[0]).max(*end_before) } else { at(t[0]) };
                let end = at(t[1]).max(begin);
                *end_before = end_before.max(end);
                [begin, end]
            });
            report.samples.push(Sample {
                kernel: c.kernel.as_ref().map_or_else(|| c.copy.into(), |p| p.name().to_string()),
                op: c.op.clone(),
                dims: c.work.as_ref().map(|w| w.dims.clone()).unwrap_or_default(),
                device: track.0,
                stream: track.1,
                batch: d.batch.number,
                times,
                bytes: c.bytes,
                flops: c.work.as_ref().map_or(0.0, |w| w.flops),
                barrier: c.barrier,
            });
        }
    }
    report
}

impl Batch {
    /// For a batch that gets its first timed command.
    pub fn new(state: &StreamState) -> Batch {
        let can = state.queue.timestamp_mask != 0;
        let timed = can && (state.compute || state.device.features().host_query_reset);
        let number = NEXT_BATCH.fetch_add(1, Relaxed);
        Batch { number, commands: Vec::new(), pools: Vec::new(), timed, stamps: 0, begun: Vec::new() }
    }

    /// A query pool more, reset; commands are not timed any more when there is none.
    fn grow(&mut self, device: &Device, driver: &Driver<'_>, cmd: vk::CommandBuffer) {
        let known = {
            let mut pools = lock(&POOLS);
            pools.iter().position(|p| p.0 == device.id()).map(|i| pools.swap_remove(i).1)
        };
        let count = STAMPS as u32;
        let pool = known.or_else(|| {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
            // SAFETY: the device is there.
            let made = pass(Site::Query).and_then(|()| unsafe { driver.create_query_pool(&info, None) }).ok();
            device.made().query_pools.extend(made);
            made
        });
        let Some(pool) = pool else {
            self.timed = false;
            return;
        };
        // SAFETY: the pool belongs to the device and earlier uses of it are done; recording holds the `rec` lock.
        unsafe {
            match device.features().host_query_reset {
                true => driver.reset_query_pool(pool, 0, count),
                false => driver.cmd_reset_query_pool(cmd, pool, 0, count),
            }
        }
        self.pools.push(pool);
    }

    fn write(&mut self, driver: &Driver<'_>, cmd: vk::CommandBuffer, stage: vk::PipelineStageFlags) {
        let (pool, query) = (self.pools[self.stamps / STAMPS], (self.stamps % STAMPS) as u32);
        // SAFETY: recording under the `rec` lock; the query is inside the pool, was reset, and is written once.
        unsafe { driver.cmd_write_timestamp(cmd, stage, pool, query) };
        self.stamps += 1;
    }

    /// Before a command is recorded, behind its barrier if it has one.
    pub fn before(&mut self, device: &Device, driver: &Driver<'_>, cmd: vk::CommandBuffer, barrier: bool) {
        if self.timed && self.stamps + 2 > self.pools.len() * STAMPS {
            self.grow(device, driver, cmd);
        }
        if self.timed {
            let own = !barrier || self.stamps == 0;
            self.begun.push(own);
            if own {
                self.write(driver, cmd, vk::PipelineStageFlags::TOP_OF_PIPE);
            }
        }
    }

    /// After the command was recorded.
    pub fn after(&mut self, driver: &Driver<'_>, cmd: vk::CommandBuffer, command: Command) {
        self.commands.push(Command { op: trace::operation(), ..command });
        if self.begun.len() == self.commands.len() {
            self.write(driver, cmd, vk::PipelineStageFlags::BOTTOM_OF_PIPE);
        }
    }

    /// Hands the commands over; the batch was submitted.
    pub fn submitted(self, point: Point, submit_ns: u64) {
        lock(&FINISHED).push(Finished { batch: self, point, submit_ns });
        // An error shows again when the profile stops.
        let _ = harvest();
    }
}
