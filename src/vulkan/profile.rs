//! GPU time of every dispatch, by timestamps. While a profile runs, commands are kept apart by barriers so
//! that each time is the kernel's own. Recording is off by default and costs one load per batch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use ash::vk;

use super::device::Device;
use super::pipeline::Pipeline;
use super::stream::{Point, StreamState};
use crate::core::Result;

/// Timestamps of one batch; commands beyond are not timed.
const STAMPS: u32 = 1024;

static RUNNING: AtomicBool = AtomicBool::new(false);
static BARRIERS: AtomicU64 = AtomicU64::new(0);
static BATCHES: Mutex<Vec<Finished>> = Mutex::new(Vec::new());
static POOLS: Mutex<Vec<(u32, vk::QueryPool)>> = Mutex::new(Vec::new());

/// One command on the GPU.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Name of the kernel, `copy` for transfers.
    pub kernel: String,
    /// Index of the GPU.
    pub device: u32,
    /// Nanoseconds on the GPU's clock.
    pub start_ns: f64,
    /// Nanoseconds.
    pub duration_ns: f64,
    /// Bytes that the command says it reads and writes.
    pub bytes: u64,
}

/// All commands of one kernel.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the kernel.
    pub kernel: String,
    /// How often it ran.
    pub count: u64,
    /// Nanoseconds in all.
    pub total_ns: f64,
    /// Bytes read and written in all.
    pub bytes: u64,
}

/// What a profile saw.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Commands in the order of their start.
    pub samples: Vec<Sample>,
    /// Batches submitted.
    pub batches: u64,
    /// Barriers that the hazards alone would have asked for.
    pub barriers: u64,
}

/// Timestamps of the batch being recorded.
pub(crate) struct Batch {
    pool: vk::QueryPool,
    commands: Vec<(Option<Arc<Pipeline>>, u64)>,
}

struct Finished {
    batch: Batch,
    point: Point,
}

fn lock<T>(m: &'static Mutex<T>) -> MutexGuard<'static, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Starts timing; what was timed before and not collected is forgotten.
pub fn start() {
    lock(&BATCHES).clear();
    BARRIERS.store(0, Relaxed);
    RUNNING.store(true, Relaxed);
}

/// Stops timing, waits for the timed work and returns what was seen.
pub fn stop() -> Result<Report> {
    RUNNING.store(false, Relaxed);
    for d in super::device::opened() {
        for s in d.lock_streams() {
            s.flush()?;
        }
    }
    let finished = std::mem::take(&mut *lock(&BATCHES));
    let mut report =
        Report { batches: finished.len() as u64, barriers: BARRIERS.load(Relaxed), ..Default::default() };
    for Finished { batch, point } in finished {
        point.stream.wait(point.value)?;
        let device = point.stream.device;
        let mut stamps = vec![0u64; batch.commands.len() + 1];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the batch that wrote the first `stamps.len()` queries is done.
        let got = unsafe { device.raw.get_query_pool_results(batch.pool, 0, &mut stamps, flags) };
        device.check("vkGetQueryPoolResults", got)?;
        lock(&POOLS).push((device.index(), batch.pool));
        let period = f64::from(device.features().timestamp_period);
        for (i, (pipeline, bytes)) in batch.commands.into_iter().enumerate() {
            report.samples.push(Sample {
                kernel: pipeline.map_or_else(|| "copy".into(), |p| p.name().to_string()),
                device: device.index(),
                start_ns: stamps[i] as f64 * period,
                duration_ns: stamps[i + 1].saturating_sub(stamps[i]) as f64 * period,
                bytes,
            });
        }
    }
    report.samples.sort_by(|a, b| a.start_ns.total_cmp(&b.start_ns));
    Ok(report)
}

impl Report {
    /// One row a kernel, the most expensive first.
    pub fn rows(&self) -> Vec<Row> {
        let mut by_name: std::collections::HashMap<&str, Row> = std::collections::HashMap::new();
        for s in &self.samples {
            let empty = || Row { kernel: s.kernel.clone(), count: 0, total_ns: 0.0, bytes: 0 };
            let row = by_name.entry(&s.kernel).or_insert_with(empty);
            row.count += 1;
            row.total_ns += s.duration_ns;
            row.bytes += s.bytes;
        }
        let mut rows: Vec<Row> = by_name.into_values().collect();
        rows.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns).then_with(|| a.kernel.cmp(&b.kernel)));
        rows
    }

    /// Nanoseconds that commands ran, and that the GPU stood between the first and the last.
    pub fn busy_and_gap_ns(&self) -> (f64, f64) {
        let busy: f64 = self.samples.iter().map(|s| s.duration_ns).sum();
        let end = self.samples.iter().map(|s| s.start_ns + s.duration_ns).fold(0.0, f64::max);
        let first = self.samples.first().map_or(0.0, |s| s.start_ns);
        (busy, (end - first - busy).max(0.0))
    }

    /// The samples in the Chrome trace event format.
    pub fn chrome_trace(&self) -> String {
        let origin = self.samples.first().map_or(0.0, |s| s.start_ns);
        let events: Vec<String> = self
            .samples
            .iter()
            .map(|s| {
                let name = s.kernel.replace('\\', "\\\\").replace('"', "\\\"");
                let (start, duration) = ((s.start_ns - origin) / 1e3, s.duration_ns / 1e3);
                format!(
                    "{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{},\"tid\":0,\"ts\":{start:.3},\
                     \"dur\":{duration:.3},\"args\":{{\"bytes\":{}}}}}",
                    s.device, s.bytes
                )
            })
            .collect();
        format!("{{\"traceEvents\":[{}]}}", events.join(",\n"))
    }
}

impl Batch {
    /// Timestamps for a batch that begins, if a profile runs and the queue can tell the time.
    pub fn begin(state: &StreamState, cmd: vk::CommandBuffer) -> Option<Batch> {
        if !RUNNING.load(Relaxed) || !state.compute || !state.device.timestamps() {
            return None;
        }
        let device: &Device = state.device;
        let known = {
            let mut pools = lock(&POOLS);
            pools.iter().position(|p| p.0 == device.index()).map(|i| pools.swap_remove(i).1)
        };
        let pool = known.or_else(|| {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(STAMPS);
            // SAFETY: the device is alive for the whole process.
            unsafe { device.raw.create_query_pool(&info, None) }.ok()
        })?;
        // SAFETY: recording under the `rec` lock; earlier uses of the pool are done.
        unsafe { device.raw.cmd_reset_query_pool(cmd, pool, 0, STAMPS) };
        let batch = Batch { pool, commands: Vec::new() };
        batch.write(device, cmd, 0);
        Some(batch)
    }

    fn write(&self, device: &Device, cmd: vk::CommandBuffer, query: u32) {
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: recording under the `rec` lock; the query is inside the pool and was reset.
        unsafe { device.raw.cmd_write_timestamp(cmd, stage, self.pool, query) };
    }

    /// Notes the command just recorded.
    pub fn stamp(
        &mut self,
        device: &Device,
        cmd: vk::CommandBuffer,
        pipeline: Option<&Arc<Pipeline>>,
        bytes: u64,
    ) {
        let query = self.commands.len() as u32 + 1;
        if query < STAMPS {
            self.commands.push((pipeline.cloned(), bytes));
            self.write(device, cmd, query);
        }
    }

    /// Hands the timestamps over; the batch was submitted.
    pub fn submitted(self, point: Point) {
        lock(&BATCHES).push(Finished { batch: self, point });
    }
}

/// Counts a barrier that hazards asked for.
pub(crate) fn on_barrier() {
    BARRIERS.fetch_add(1, Relaxed);
}
