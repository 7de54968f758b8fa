//! Memory that an emptied cache no longer counts goes back to the driver a little later, by a thread of its own, unless it is asked for
//! again: programs empty the cache between a prompt and what follows it, which asks for the same blocks.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{ALL_KINDS, Pool};
use crate::core::env::{Values, Variable};
use crate::memory::stats;
use crate::vulkan::hal::device::{Device, opened};
use crate::vulkan::report::compile_only;
use crate::vulkan::tune::memory::lingers;

pub static CLEAR_MS: Variable = Variable::new(
    "MLX_VK_CLEAR_MS",
    "by device",
    Values::Number(0, 60_000),
    "Milliseconds after which memory goes back to the driver that `mx.clear_cache` took out of the cache, unless it is \
         asked for again. Without the variable 250 on GPUs with memory of their own, 0 (at once) on others",
);

/// When the thread has something to do.
static DUE: Mutex<Option<Instant>> = Mutex::new(None);
static SIGNAL: Condvar = Condvar::new();
/// Held while it calls the driver; and whether the process ends, when it no longer does.
static ENDING: Mutex<bool> = Mutex::new(false);

fn due() -> MutexGuard<'static, Option<Instant>> {
    DUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long memory of a device waits.
fn delay(device: &Device) -> Option<Duration> {
    let told = CLEAR_MS.number().map(Duration::from_millis);
    told.or_else(|| lingers(device.features())).filter(|d| !d.is_zero() && !compile_only::on())
}

impl Pool {
    /// Takes all free blocks out of what the cache counts.
    pub(in crate::vulkan) fn clear(&self) {
        let now = Instant::now();
        for kind in ALL_KINDS {
            // Who takes a block counts it out behind the lock, after it was counted in.
            let (mut list, mut bytes) = (self.list(kind), 0);
            for f in list.values_mut().flatten().filter(|f| f.cleared.is_none()) {
                f.cleared = Some(now);
                bytes += f.raw.capacity;
            }
            if kind.counted() {
                self.lingering.fetch_add(bytes, Ordering::Relaxed);
                stats::on_cache(-(bytes as i64));
            }
        }
    }

    /// Blocks of a capacity that wait to be given back.
    #[cfg(test)]
    pub(in crate::vulkan) fn waiting(&self, capacity: u64) -> usize {
        let list = self.list(super::Kind::Device);
        list.get(&capacity).map_or(0, |blocks| blocks.iter().filter(|f| f.cleared.is_some()).count())
    }

    /// Gives back what has waited so long; whether some still waits.
    pub(in crate::vulkan) fn give_back_after(&self, device: &Device, wait: Duration) -> bool {
        for kind in ALL_KINDS {
            self.evict(device, kind, u64::MAX, |f| f.cleared.is_some_and(|since| since.elapsed() >= wait));
        }
        ALL_KINDS.iter().any(|&kind| self.list(kind).values().flatten().any(|f| f.cleared.is_some()))
    }
}

/// Empties the cache of a device, whose memory goes back later; whether that is so.
pub(super) fn begin(device: &'static Device) -> bool {
    static RUNS: OnceLock<bool> = OnceLock::new();
    let Some(wait) = delay(device) else { return false };
    let start = || std::thread::Builder::new().name("mlx-vulkan memory".into()).spawn(run).is_ok();
    if !*RUNS.get_or_init(start) {
        return false;
    }
    device.pool.clear();
    due().get_or_insert(Instant::now() + wait);
    SIGNAL.notify_one();
    true
}

fn run() {
    loop {
        let mut at = due();
        let left = at.map(|at| at.saturating_duration_since(Instant::now()));
        match left {
            None => drop(SIGNAL.wait(at)),
            Some(left) if !left.is_zero() => drop(SIGNAL.wait_timeout(at, left)),
            Some(_) => {
                *at = None;
                drop(at);
                let ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
                if *ending {
                    return;
                }
                let waits = opened().into_iter().filter_map(|d| delay(d).map(|wait| (d, wait)));
                let next = waits.filter(|(d, wait)| d.pool.give_back_after(d, *wait)).map(|(_, wait)| wait);
                if let Some(wait) = next.min() {
                    due().get_or_insert(Instant::now() + wait);
                }
            }
        }
    }
}

/// For the end of the process: waits for calls of the driver under way, and begins no other.
pub(in crate::vulkan) fn finish() {
    *ENDING.lock().unwrap_or_else(PoisonError::into_inner) = true;
}
