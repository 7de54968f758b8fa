//! Memory of an array, or of something that an operation needs: who wrote it and who uses it, what a lost device leaves of
//! it, and its way back to the pool.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use ash::vk;
use smallvec::SmallVec;

use super::{Free, Kind, RawBlock, Region, STAGING_KEPT, Uses, transfer};
use crate::core::{DeviceBlock, Error, Result};
use crate::memory::stats;
use crate::vulkan::hal::adapter::{check_fork, forked};
use crate::vulkan::hal::deferred::intact;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::gate::Driver;
use crate::vulkan::hal::reclaim;
use crate::vulkan::hal::stream::Point;

/// Memory of a GPU; returns to the pool when dropped.
pub struct Block {
    raw: Option<RawBlock>,
    device: &'static Device,
    /// Keeps the memory of a lost device, where the host may see it; the rest goes with the device.
    driver: Option<Driver<'static>>,
    kind: Kind,
    uses: Mutex<Uses>,
}

impl Block {
    /// Memory out of the pool, with those who may use it still.
    pub(super) fn new(
        raw: RawBlock,
        device: &'static Device,
        driver: Option<Driver<'static>>,
        kind: Kind,
        uses: Uses,
    ) -> Block {
        Block { raw: Some(raw), device, driver, kind, uses: Mutex::new(uses) }
    }

    fn raw(&self) -> &RawBlock {
        // INVARIANT: taken only by drop.
        self.raw.as_ref().expect("block in use")
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes an access.
    pub(crate) fn touch(&self, point: Point, write: bool) {
        let stale = self.uses().add(point, write);
        drop(stale);
    }

    /// What `begin_download` has begun, if it has all of so many bytes and they are still those of the block. Asking takes
    /// it.
    pub(super) fn landing(&self, bytes: usize) -> Option<Box<transfer::Landing>> {
        self.uses().landing.take().filter(|l| l.bytes >= bytes)
    }

    /// The last write, if there was one on the GPU; fails if that did not run or lacked one of its kernels, and for
    /// what was lost with the device.
    pub(crate) fn last_write(&self) -> Result<Option<Point>> {
        self.written(&self.uses())
    }

    /// Notes a read behind the last write, which is returned as by [`Block::last_write`].
    pub(crate) fn read(&self, point: Point) -> Result<Option<Point>> {
        let mut uses = self.uses();
        let write = self.written(&uses)?;
        uses.add(point, false);
        Ok(write)
    }

    /// Notes a write; returns the last uses of other streams, behind which it is to come.
    pub(crate) fn overwrite(&self, point: Point) -> SmallVec<[Point; 2]> {
        let mut uses = self.uses();
        let others = uses.all.iter().filter(|p| !p.stream.same(point.stream)).copied().collect();
        let stale = uses.add(point, true);
        drop(uses);
        drop(stale);
        others
    }

    fn written(&self, uses: &Uses) -> Result<Option<Point>> {
        if let Some(e) = &uses.spoilt {
            return Err(Error::clone(e));
        }
        let write = uses.write.map(intact).transpose()?;
        let there = || self.mapped().is_some() && write.is_none_or(|w| w.stream.reached(w.value));
        if self.device.is_lost() && !there() {
            return Err(self.device.contents_lost());
        }
        Ok(write)
    }

    /// What reads the block from now on fails.
    pub(crate) fn spoil(&self, error: &Error) {
        self.uses().spoilt.get_or_insert_with(|| Box::new(error.clone()));
    }

    /// The last use of every stream.
    pub(crate) fn all_uses(&self) -> SmallVec<[Point; 2]> {
        self.uses().all.clone()
    }

    /// Buffer for transfer commands; the block begins at its offset 0.
    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.raw().buffer
    }

    /// All of it, for copies.
    pub(crate) fn region(&self) -> Region {
        Region { buffer: self.raw().buffer, address: self.raw().address }
    }

    /// Bytes that may be used.
    pub(crate) fn capacity(&self) -> u64 {
        self.raw().capacity
    }

    /// Device that owns the block.
    pub(crate) fn owner(&self) -> &'static Device {
        self.device
    }

    /// Host address, cached or not; blocks of the host-visible kinds have one.
    pub(crate) fn host(&self) -> Option<NonNull<u8>> {
        self.raw().mapped
    }
}

impl DeviceBlock for Block {
    fn address(&self) -> u64 {
        self.raw().address
    }

    fn capacity(&self) -> usize {
        self.raw().capacity as usize
    }

    fn device(&self) -> u32 {
        self.device.id()
    }

    fn gpu(&self) -> u32 {
        self.device.index()
    }

    fn lost(&self) -> bool {
        self.device.is_lost()
    }

    fn mapped(&self) -> Option<NonNull<u8>> {
        // Other host-visible memory is write-combined: reading it is a hundred times slower than staging.
        if self.device.features().unified { self.raw().mapped } else { None }
    }

    fn begin_download(&self, bytes: usize) -> Result<()> {
        check_fork()?;
        if self.uses().landing.is_none()
            && let Some(landing) = transfer::begin_download(self, bytes)?
        {
            self.uses().landing = Some(Box::new(landing));
        }
        Ok(())
    }

    fn wait_written(&self) -> Result<()> {
        check_fork()?;
        let Some(write) = self.last_write()? else { return Ok(()) };
        if self.device.is_lost() {
            return Ok(()); // what is left was written before
        }
        write.stream.wait(write.value)?;
        intact(write).map(drop)
    }

    fn wait_unused(&self) -> Result<()> {
        self.device.usable()?;
        let uses = self.all_uses();
        uses.iter().try_for_each(|p| p.stream.wait(p.value))
    }

    unsafe fn download(&self, dst: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: forwarded from the caller.
        unsafe { transfer::download(self, dst, bytes) }
    }

    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        if forked() {
            return; // the child knows the memory only by name, and another thread may have held the lock
        }
        let mut uses = std::mem::take(&mut *self.uses());
        let barriers = |p: &Point| (p.stream, p.stream.barriers.load(Ordering::Relaxed));
        let barriers = uses.all.iter().map(barriers).collect();
        uses.all.retain(|p| !p.stream.reached(p.value));
        (uses.write, uses.spoilt, uses.landing) = (None, None, None);
        let capacity = raw.capacity;
        let pool = &self.device.pool;
        pool.list(self.kind).entry(capacity).or_default().push(Free { raw, uses, barriers, cleared: None });
        if self.kind == Kind::Download {
            let held: u64 = pool.list(self.kind).iter().map(|(c, blocks)| c * blocks.len() as u64).sum();
            if held > STAGING_KEPT {
                pool.evict(self.device, self.kind, held - STAGING_KEPT, |_| true);
            }
        }
        if self.kind.counted() {
            stats::on_free(capacity as usize);
            stats::on_cache(capacity as i64);
            let over = match self.device.is_lost() {
                true => usize::MAX,
                false => stats::cache().saturating_sub(stats::cache_limit()),
            };
            if over > 0 {
                let counted = |f: &Free| f.cleared.is_none() || over == usize::MAX;
                let gone = pool.evict(self.device, Kind::Device, over as u64, counted);
                pool.evict(self.device, Kind::Bar, (over as u64).saturating_sub(gone), counted);
            }
        }
        let seen = self.driver.take().map(drop).is_some();
        if seen && self.device.is_lost() && !self.device.keeps_memory() {
            reclaim::soon(self.device);
        }
    }
}
