//! Streams: an ordered queue of GPU work with one timeline semaphore. Batch number v of a stream signals
//! value v. Streams get real queues in turn and share them (locked) when there are more streams.
//!
//! Lock order: a stream's `op` lock, then a `Storage`, then a stream's `rec` lock, then pool, queue and
//! block state. A thread holds at most one `rec` lock (`reclaim` tries for all of a lost device, and waits for none),
//! and never calls a `Storage` under it: whoever waits for a block while holding its storage can therefore always
//! submit the batch that writes it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, RwLock};
use std::time::Instant;

use ash::vk;

use super::adapter::check_fork;
use super::caller::Caller;
use super::deferred::taken;
use super::device::{Device, Queue, device};
use super::encoder::OpState;
use super::fault::pass;
use super::held::Seams;
use super::overseers;
use super::recorder::{Recorder, Until};
use crate::bail;
use crate::core::device::is_held;
use crate::core::env::{Values, Variable};
use crate::core::event::{Spin, check_interrupt};
use crate::core::fault::{self, Site};
use crate::core::fork::Made;
use crate::core::{Result, Stream, trace};
use crate::vulkan::report::compile_only;
use crate::vulkan::shader::pipeline::FastHasher;
use crate::vulkan::tune::pacing::{BURST_TIME, SPIN};

pub static TIMEOUT: Variable = Variable::new(
    "MLX_VK_TIMEOUT",
    "none",
    Values::Number(1, 86_400),
    "Seconds after which a GPU counts as lost while somebody waits for it and no command buffer ends. Without the \
         variable the driver decides, if anybody does",
);

/// Waits are cut into slices of this length, to look for interrupts between them.
const SLICE_NS: u64 = 50_000_000;

/// Likewise for the thread behind batches that are kept open.
const KEEPER_NS: u64 = 2_000_000;

/// How long the end of the process waits for a stream of a lost device.
const REST_NS: u64 = 200_000_000;

/// A GPU stream.
pub(crate) struct StreamState {
    pub device: &'static Device,
    pub queue: &'static Queue,
    /// Whether the queue runs compute shaders (else it only copies).
    pub compute: bool,
    pub semaphore: vk::Semaphore,
    /// Value of the last submitted batch. Changes under the `rec` lock only.
    pub submitted: AtomicU64,
    /// Largest value known to be reached.
    pub completed: AtomicU64,
    /// Value of the batch that holds the last recorded command.
    pub recorded: AtomicU64,
    /// Barriers recorded so far.
    pub barriers: AtomicU64,
    /// Thread inside `op` (address of a thread-local), 0 for none: entering twice would wait for itself.
    pub owner: AtomicUsize,
    /// Held by the one thread that records an operation.
    pub op: Mutex<OpState>,
    /// Held for single calls.
    pub rec: Mutex<Recorder>,
    /// The open batch was offered and stays open; a thread submits it before the GPU runs dry.
    pub kept: AtomicBool,
    /// Batches offered since a thread last waited for the stream.
    pub offers: AtomicU32,
    pub(super) seams: Seams,
    keeper: Keeper,
    pub caller: Caller,
}

/// Wakes the thread that looks after the batch which a stream keeps open.
#[derive(Default)]
struct Keeper {
    runs: OnceLock<bool>,
    asked: Mutex<bool>,
    signal: Condvar,
}

/// A point in a stream's work.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub stream: &'static StreamState,
    pub value: u64,
}

/// The states of the streams that were used. One of a stream that nobody holds any more is the next new stream's.
static STREAMS: RwLock<HashMap<Stream, &'static StreamState, BuildHasherDefault<FastHasher>>> =
    RwLock::new(HashMap::with_hasher(BuildHasherDefault::new()));

impl StreamState {
    /// The state behind a stream handle, if it was used; not for forked processes, where another thread may have held the lock.
    pub fn known(stream: Stream) -> Option<&'static StreamState> {
        STREAMS.read().unwrap_or_else(|e| e.into_inner()).get(&stream).copied()
    }

    /// The state behind a stream handle, made on first use.
    pub fn of(stream: Stream) -> Result<&'static StreamState> {
        check_fork()?; // before any lock: another thread may have held it at the fork
        let known = StreamState::known(stream);
        if let Some(s) = known.filter(|s| !s.device.is_lost()) {
            return Ok(s);
        }
        if !stream.device.is_gpu() {
            bail!(Value, "[vulkan] {stream} is not a GPU stream.");
        }
        let device = device(stream.device.index)?;
        let lost = known.filter(|s| s.device.is_lost());
        let mut all = STREAMS.write().unwrap_or_else(|e| e.into_inner());
        if let Some(s) = all.get(&stream).filter(|s| !s.device.is_lost()) {
            return Ok(s);
        }
        // What the old stream left unfinished comes before what the new one is given.
        let free = all.iter().find(|(s, state)| std::ptr::eq(state.device, device) && !is_held(**s));
        let free = free.map(|(s, _)| *s);
        let state = match free.and_then(|s| all.remove(&s)) {
            Some(state) => state,
            None => {
                let n = device.lock_streams().len();
                StreamState::create(device, &device.queues[n % device.queues.len()])?
            }
        };
        all.insert(stream, state);
        drop(all);
        // Whoever is inside an operation there has the error yet to come.
        if let Some(mut op) = lost.and_then(|s| s.op.try_lock().ok()) {
            *op = OpState::default();
        }
        Ok(state)
    }

    /// A new stream on `queue`, kept for the life of the process.
    pub fn create(device: &'static Device, queue: &'static Queue) -> Result<&'static StreamState> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let driver = device.driver()?;
        let make = || match compile_only::drops() {
            true => Ok(vk::Semaphore::null()), // nothing is ever submitted
            // SAFETY: the device is there.
            false => unsafe { driver.create_semaphore(&info, None) },
        };
        let semaphore = device.check("vkCreateSemaphore", pass(Site::Semaphore).and_then(|()| make()))?;
        device.made().semaphores.push(semaphore);
        let state: &'static StreamState = Box::leak(Box::new(StreamState {
            device,
            queue,
            compute: queue.family == device.queues[0].family,
            semaphore,
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
            owner: AtomicUsize::new(0),
            op: Mutex::new(OpState::default()),
            rec: Mutex::new(Recorder::default()),
            kept: AtomicBool::new(false),
            offers: AtomicU32::new(0),
            seams: Seams::default(),
            keeper: Keeper::default(),
            caller: Caller::new(),
        }));
        device.streams.write().unwrap_or_else(|e| e.into_inner()).push(state);
        Ok(state)
    }

    pub fn lock_rec(&self) -> MutexGuard<'_, Recorder> {
        self.rec.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn same(&self, other: &StreamState) -> bool {
        std::ptr::eq(self, other)
    }

    /// Value that the batch being recorded will signal.
    pub fn open_value(&self) -> u64 {
        self.submitted.load(Ordering::Acquire) + 1
    }

    /// Asks the driver how far the stream has come. A lost device has come as far as was known then.
    pub fn poll(&self) -> u64 {
        if !self.device.is_lost()
            && !compile_only::drops()
            && let Some(driver) = self.device.enter()
        {
            // SAFETY: the semaphore lives as long as the device.
            let value = unsafe { driver.get_semaphore_counter_value(self.semaphore) };
            match value {
                // What drivers report of lost devices.
                Ok(u64::MAX) | Err(vk::Result::ERROR_DEVICE_LOST) => {
                    self.device.lose(|| "VK_ERROR_DEVICE_LOST in vkGetSemaphoreCounterValue".into());
                }
                Ok(v) => {
                    // Submission may not have been noted yet.
                    let v = v.min(self.submitted.load(Ordering::Acquire));
                    self.completed.fetch_max(v, Ordering::AcqRel);
                }
                Err(_) => {}
            }
        }
        self.completed.load(Ordering::Acquire)
    }

    /// Whether nothing of the batch `value` will touch memory any more, by the driver's word where needed.
    pub fn over(&self, value: u64) -> bool {
        if self.reached(value) {
            return true;
        }
        if !self.device.is_lost() {
            return self.poll() >= taken(self, value) || self.void(value);
        }
        // What was not submitted never will be. The specification has a lost device count as done when a wait says so.
        let value = taken(self, value);
        value > self.submitted.load(Ordering::Acquire)
            || self.wait_driver(value, 0) != Err(vk::Result::TIMEOUT)
    }

    /// Whether `value` names a batch that has no command and never will have been submitted: everything
    /// before it is done and nothing is being recorded.
    fn void(&self, value: u64) -> bool {
        let submitted = self.submitted.load(Ordering::Acquire);
        value > submitted
            && self.recorded.load(Ordering::Acquire) <= submitted
            && self.reached(taken(self, submitted))
    }

    /// Whether the batch `value` is known to be done, without asking the driver.
    pub fn reached(&self, value: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= value
    }

    /// Submits what has been recorded. Waits for its kernels without the lock; interruptible.
    pub fn flush(&'static self) -> Result<()> {
        while !self.flush_if_ready()? {
            check_interrupt()?;
        }
        Ok(())
    }

    /// Waits a while for the kernels of what has been recorded, and submits it if they are compiled; whether they are.
    pub fn flush_if_ready(&'static self) -> Result<bool> {
        self.device.usable()?;
        if self.submits_at_seam() {
            return Ok(true);
        }
        let mut rec = self.lock_rec();
        let Some(kernel) = rec.unready() else { return rec.submit(self).map(|()| true) };
        drop(rec);
        kernel.wait_a_while();
        Ok(false)
    }

    /// Waits a while for batch `value`; whether it is done.
    pub fn wait_a_while(&'static self, value: u64) -> Result<bool> {
        if self.submitted.load(Ordering::Acquire) < value && !self.flush_if_ready()? {
            return Ok(false);
        }
        let value = taken(self, value.min(self.submitted.load(Ordering::Acquire)));
        let done = self.spin(value) || self.wait_slice(value, SLICE_NS)?;
        overseers::look();
        Ok(done)
    }

    /// Submits what has been recorded, now or (while the GPU has enough to do) a little later together with what comes
    /// next; whoever waits, for whatever, submits it.
    pub fn offer(&'static self) -> Result<()> {
        self.device.usable()?;
        loop {
            let mut rec = self.lock_rec();
            if let Some(kernel) = rec.unready_if_due(self) {
                drop(rec);
                while !kernel.wait_a_while() {
                    check_interrupt()?;
                }
                continue;
            }
            let keep = rec.offer(self)? && !self.kept.swap(true, Ordering::Relaxed);
            drop(rec);
            return if keep { self.keep() } else { Ok(()) };
        }
    }

    /// Asks the thread behind `kept` to begin.
    fn keep(&'static self) -> Result<()> {
        let start = || {
            let name = "mlx-vulkan batches".to_string();
            std::thread::Builder::new().name(name).spawn(|| self.keep_open()).is_ok()
        };
        if !*self.keeper.runs.get_or_init(start) {
            return self.flush();
        }
        *self.keeper.asked.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.keeper.signal.notify_one();
        Ok(())
    }

    /// Ends the threads behind `kept` and the driver's calls: the device was lost.
    pub(super) fn end_threads(&self) {
        self.caller.end();
        *self.keeper.asked.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.keeper.signal.notify_one();
    }

    /// Submits batches that were kept open when they are due, until the device is lost.
    fn keep_open(&'static self) {
        loop {
            let mut asked = self.keeper.asked.lock().unwrap_or_else(|e| e.into_inner());
            while !std::mem::take(&mut *asked) {
                asked = self.keeper.signal.wait(asked).unwrap_or_else(|e| e.into_inner());
            }
            drop(asked);
            if self.device.is_lost() {
                return;
            }
            loop {
                // An error stays with the device, where the next caller finds it.
                let Ok(Some(until)) = self.lock_rec().tend(self) else { break };
                match until {
                    Until::BurstEnds => std::thread::sleep(BURST_TIME),
                    Until::Due if self.flush_if_ready().is_err() => break,
                    Until::Due => {}
                    Until::Compiled(kernel) => drop(kernel.wait_a_while()),
                    Until::Reached(value) if self.wait_slice(value, KEEPER_NS).is_err() => break,
                    Until::Reached(_) => {}
                }
            }
        }
    }

    /// Makes sure that batch `value` was handed to the driver; returns the value to wait for. A batch that
    /// holds no command is never submitted and counts as the one before it, as does one that was not taken.
    pub fn ensure_submitted(&'static self, value: u64) -> Result<u64> {
        if self.submitted.load(Ordering::Acquire) < value {
            self.flush()?;
        }
        Ok(taken(self, value.min(self.submitted.load(Ordering::Acquire))))
    }

    /// Blocks until batch `value` is done; interruptible.
    pub fn wait(&'static self, value: u64) -> Result<()> {
        let done = self.await_batch(value);
        overseers::look();
        done
    }

    fn await_batch(&'static self, value: u64) -> Result<()> {
        self.device.usable()?;
        let value = self.ensure_submitted(value)?;
        // This thread records nothing for now.
        self.device.submit_kept()?;
        self.offers.store(0, Ordering::Relaxed);
        let _span = trace::span("wait", || "GPU".into());
        let far = if self.reached(value) { None } else { self.lock_rec().far_from(value) };
        if let Some(far) = far {
            self.sleep(far)?;
        }
        if self.spin(value) {
            return self.device.usable();
        }
        self.sleep(value)
    }

    /// Blocks until batch `value`, which was submitted, is done; interruptible.
    fn sleep(&self, value: u64) -> Result<()> {
        let mut watchdog = Watchdog::new(self.device);
        while !self.wait_slice(value, SLICE_NS)? {
            overseers::look();
            check_interrupt()?;
            watchdog.check()?;
        }
        Ok(())
    }

    /// Blocks until batch `value`, which was submitted, is done; for short internal waits.
    pub fn wait_uninterrupted(&self, value: u64) -> Result<()> {
        let _span = trace::span("wait", || "GPU".into());
        let value = taken(self, value);
        if self.spin(value) {
            return self.device.usable();
        }
        let mut watchdog = Watchdog::new(self.device);
        while !self.wait_slice(value, SLICE_NS)? {
            overseers::look();
            watchdog.check()?;
        }
        overseers::look();
        Ok(())
    }

    /// Looks for a while: short work ends sooner than a sleeping thread wakes up.
    fn spin(&self, value: u64) -> bool {
        // Tests of failures ask the driver, however fast the device is.
        if fault::watched() {
            return self.reached(value);
        }
        if self.reached(value) || self.poll() >= value || self.device.features().software {
            return self.reached(value);
        }
        Spin::by_calls(SPIN).until(|| self.poll() >= value)
    }

    fn wait_slice(&self, value: u64, timeout: u64) -> Result<bool> {
        if self.reached(value) {
            return Ok(true);
        }
        self.device.usable()?;
        let waited = pass(Site::LostWait)
            .and_then(|()| pass(Site::Wait))
            .and_then(|()| self.wait_driver(value, timeout));
        match waited {
            Ok(()) => {
                self.device.usable()?;
                self.completed.fetch_max(value, Ordering::AcqRel);
                Ok(true)
            }
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(e) => self.device.check("vkWaitSemaphores", Err(e)),
        }
    }

    /// Gives the driver of a lost device a moment to end what it still does.
    pub fn rest(&self) {
        let last = taken(self, self.submitted.load(Ordering::Acquire));
        if !self.reached(last) {
            // A device that was given up goes on for ever.
            let _ = self.wait_driver(last, REST_NS);
        }
    }

    /// Whether the driver says that nothing of a lost device's stream is at work.
    pub fn rests(&self) -> bool {
        let last = taken(self, self.submitted.load(Ordering::Acquire));
        matches!(self.wait_driver(last, 0), Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST))
    }

    fn wait_driver(&self, value: u64, timeout: u64) -> std::result::Result<(), vk::Result> {
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // Of a device that was destroyed nothing is at work.
        let Some(driver) = self.device.enter() else { return Ok(()) };
        // SAFETY: the semaphore lives as long as the device.
        unsafe { driver.wait_semaphores(&info, timeout) }
    }

    /// Makes the batch being recorded start after `point` of another stream.
    pub fn wait_for(&'static self, point: Point) -> Result<()> {
        if self.same(point.stream) || point.stream.reached(point.value) {
            return Ok(());
        }
        let value = point.stream.ensure_submitted(point.value)?;
        if point.stream.poll() < value {
            self.lock_rec().add_wait(Point { stream: point.stream, value });
        }
        Ok(())
    }
}

/// How long a thread waits for a device that makes no progress, if MLX_VK_TIMEOUT says so.
pub(in crate::vulkan) struct Watchdog<'a> {
    device: &'a Device,
    /// Batches of all streams that were done, and since when.
    seen: (u64, Instant),
}

impl Watchdog<'_> {
    pub fn new(device: &Device) -> Watchdog<'_> {
        Watchdog { device, seen: (0, Instant::now()) }
    }

    /// Fails when the device has made no progress for too long: it then counts as lost.
    pub fn check(&mut self) -> Result<()> {
        static LIMIT: Made<Option<u64>> = Made::new(|| TIMEOUT.number());
        let Some(limit) = *LIMIT else { return Ok(()) };
        let done: u64 = self.device.lock_streams().into_iter().map(StreamState::poll).sum();
        if done != self.seen.0 {
            self.seen = (done, Instant::now());
        } else if self.seen.1.elapsed().as_secs() >= limit {
            return Err(self.device.abandon(limit));
        }
        self.device.usable()
    }
}
