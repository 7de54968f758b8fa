//! The end of devices that were lost. One is destroyed when nobody may call its driver or see its memory any more (see
//! `gate`) and the driver says that nothing of it is at work. It is tried when a GPU is opened again, when the caches are
//! emptied and when the last memory that the host sees is let go, each time on a thread of its own: a driver that does
//! not come back from a device it has lost holds nobody up for long.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::time::{Duration, Instant};

use ash::vk;

use super::adapter::forked;
use super::deferred;
use super::device::Device;
use super::encoder::OpState;
use super::recorder::Recorder;
use crate::vulkan::report::profile;
use crate::vulkan::shader::native::Handle;

/// Most lost devices that a process keeps before a GPU is not opened again: NVIDIA's driver 580 crashes in vkCreateDevice
/// for the 22nd device of a process, and other libraries of the process may have opened some.
pub(super) const MOST_LOST: usize = 16;

/// How long those are waited for who are inside a call of the driver, or work that ends by itself.
const MOMENT: Duration = Duration::from_millis(250);
/// How long is waited for a driver that destroys a device.
const LIMIT: Duration = Duration::from_secs(5);

/// What the driver made for a device, as far as nobody else keeps a list of it.
#[derive(Default)]
pub(in crate::vulkan) struct Made {
    pub semaphores: Vec<vk::Semaphore>,
    pub fences: Vec<vk::Fence>,
    pub command_pools: Vec<vk::CommandPool>,
    pub query_pools: Vec<vk::QueryPool>,
    pub pipelines: HashSet<Handle>,
}

/// Threads that destroy devices, and whether the process ends.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

/// Destroys a lost device soon, if that can be; the receiver is told when it was tried.
fn begin(device: &'static Device) -> mpsc::Receiver<()> {
    let (send, receive) = mpsc::channel();
    if forked() || ENDING.load(Ordering::Acquire) || device.is_destroyed() {
        return receive;
    }
    RUNNING.fetch_add(1, Ordering::AcqRel);
    let run = move || {
        {
            let _one = device.reclaiming.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = Instant::now();
            // Memory is let go when it pleases those who keep it; calls of the driver end.
            while !device.is_destroyed()
                && !attempt(device)
                && !device.keeps_memory()
                && begin.elapsed() < MOMENT
            {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        let _ = send.send(());
    };
    if std::thread::Builder::new().name("mlx-vulkan lost".into()).spawn(run).is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
    receive
}

/// Destroys a lost device soon, if that can be.
pub(in crate::vulkan) fn soon(device: &'static Device) {
    drop(begin(device));
}

/// Destroys a lost device, if that can be, and waits for it.
pub(in crate::vulkan) fn now(device: &'static Device) {
    let _ = begin(device).recv_timeout(LIMIT);
}

/// Begins with no device any more, and waits for those under way, at most until then. For the end of the process.
pub(in crate::vulkan) fn finish(until: Instant) {
    ENDING.store(true, Ordering::Release);
    while is_running() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a device is being destroyed.
pub(in crate::vulkan) fn is_running() -> bool {
    RUNNING.load(Ordering::Acquire) > 0
}

/// The lock, if nobody has it.
fn free<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes from a lost device what it keeps for itself, and destroys it if nothing is left; whether that is so.
fn attempt(device: &'static Device) -> bool {
    let streams = device.lock_streams();
    for stream in &streams {
        stream.end_threads();
        // Whoever is inside an operation has the error yet to come.
        if let Some(mut op) = free(&stream.op) {
            *op = OpState::default();
        }
    }
    device.pipelines.clear();
    // Nothing begins on a lost device, so that nothing more is submitted to it while these are locked. A stream that
    // appears behind the list above sees that the device is lost.
    let recorders: Option<Vec<MutexGuard<'_, Recorder>>> = streams.iter().map(|s| free(&s.rec)).collect();
    let Some(mut recorders) = recorders else { return false };
    for (stream, recorder) in streams.iter().zip(&mut recorders) {
        stream.caller.drain(device);
        **recorder = Recorder::default();
    }
    if !streams.iter().all(|stream| stream.rests()) {
        return false;
    }
    device.pool.evict_all(device);
    let Some(raw) = device.close() else { return false };
    drop(recorders);
    // SAFETY: nobody has the driver, and nobody will again; all work is over.
    unsafe { destroy(device, raw) };
    deferred::forget(&streams);
    profile::forget(device.id());
    device.set_destroyed();
    true
}

/// Destroys everything that the driver made for a device, and the device.
///
/// # Safety
/// Nothing calls the driver for the device, and nothing submitted to it is at work.
unsafe fn destroy(device: &Device, raw: &ash::Device) {
    let made = std::mem::take(&mut *device.made());
    // SAFETY: by the caller; each of these is known to one list alone, which is empty from now on.
    unsafe {
        // A driver may hold a batch for a moment after it said that it is over.
        let _ = raw.device_wait_idle();
        device.pool.destroy(raw);
        made.pipelines.into_iter().for_each(|p| p.destroy(device, raw));
        made.query_pools.into_iter().for_each(|p| raw.destroy_query_pool(p, None));
        made.command_pools.into_iter().for_each(|p| raw.destroy_command_pool(p, None));
        made.semaphores.into_iter().for_each(|s| raw.destroy_semaphore(s, None));
        made.fences.into_iter().for_each(|f| raw.destroy_fence(f, None));
        raw.destroy_pipeline_cache(device.blob.raw, None);
        raw.destroy_pipeline_layout(device.layout, None);
        raw.destroy_device(None);
    }
}
