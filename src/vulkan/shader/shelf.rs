//! How many pipelines a device keeps. Those that were asked for least recently are forgotten when there are too many; the
//! driver's part of one goes when all is done that was recorded while somebody still had it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::native::Handle;
use crate::core::env::{Values, Variable};
use crate::core::fork::Made;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::stream::Point;

pub static MAX_PIPELINES: Variable = Variable::new(
    "MLX_VK_MAX_PIPELINES",
    "1024",
    Values::Number(16, 1 << 20),
    "Compiled kernels that a device keeps in memory; those that were used least recently go first",
);

/// Most pipelines of a device.
static MOST: Made<usize> = Made::new(|| MAX_PIPELINES.count() as usize);

/// A pipeline that nobody has any more.
struct Retired {
    raw: Handle,
    /// What may use it: the last batch of each stream that had not ended.
    uses: SmallVec<[Point; 2]>,
    /// It was seen unused: drivers let go of a batch a moment after they say that it is done.
    unused: bool,
}

/// What a device knows about its pipelines as a whole.
#[derive(Default)]
pub(crate) struct Shelf {
    made: AtomicU64,
    kept: AtomicUsize,
    retired: Mutex<Vec<Retired>>,
}

impl Shelf {
    /// How many pipelines have been made.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Counts a new pipeline, makes room for it and returns the time.
    pub fn made(&self, device: &Device) -> u64 {
        let now = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        if self.kept.fetch_add(1, Ordering::Relaxed) >= *MOST {
            self.forget(device);
        }
        self.destroy(device);
        now
    }

    /// Forgets the quarter of the pipelines that were asked for least recently.
    fn forget(&self, device: &Device) {
        let rows = device.pipelines.rows();
        let mut ages = Vec::new();
        rows.iter().for_each(|row| row.ages(&mut ages));
        if ages.is_empty() {
            return;
        }
        let mut left = ages.len().div_ceil(4);
        let (_, &mut age, _) = ages.select_nth_unstable(left - 1);
        for row in rows {
            left -= row.forget(age, left);
        }
    }

    /// Takes what the driver made of a pipeline that nobody can record any more.
    pub fn retire(&self, device: &'static Device, raw: Option<Handle>) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
        let Some(raw) = raw else { return };
        let last = |stream| Point { stream, value: stream.recorded.load(Ordering::Acquire) };
        let uses = device.lock_streams().into_iter().map(last).filter(|p| !p.stream.reached(p.value));
        let retired = Retired { raw, uses: uses.collect(), unused: false };
        self.retired.lock().unwrap_or_else(|e| e.into_inner()).push(retired);
    }

    /// Destroys what nothing uses.
    fn destroy(&self, device: &Device) {
        let Some(driver) = device.enter() else { return };
        let mut retired = self.retired.lock().unwrap_or_else(|e| e.into_inner());
        retired.retain_mut(|r| {
            if r.unused {
                device.made().pipelines.remove(&r.raw);
                // SAFETY: nobody has the pipeline, and all that was recorded with it is done.
                unsafe { r.raw.destroy(device, &driver) };
                return false;
            }
            r.unused = r.uses.iter().all(|p| p.stream.over(p.value));
            true
        });
    }
}
