//! The bytes behind arrays, and where they are valid: on the host, on a device, or both. Bytes cross
//! lazily, when the other side first reads them. Backends implement [`DeviceBlock`]; the encoder of a
//! GPU stream moves bytes up, `host_ptr` moves them down.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use super::error::Result;
use super::event::Uninterrupted;
use super::{fork, lines};

/// Memory of a GPU, with the synchronisation state of its last write and last use.
pub trait DeviceBlock: Send + Sync {
    /// Address for shaders.
    fn address(&self) -> u64;
    /// Number of the opened device that owns the block; a GPU that was lost and opened again has another.
    fn device(&self) -> u32;
    /// Index of the GPU.
    fn gpu(&self) -> u32;
    /// Whether the device was lost; what `mapped` shows and `wait_written` lets through stays.
    fn lost(&self) -> bool;
    /// Bytes that were reserved.
    fn capacity(&self) -> usize;
    /// Host address where the memory is mapped and cached (unified memory).
    fn mapped(&self) -> Option<NonNull<u8>>;
    /// Has few bytes whose last write was not submitted yet copied behind that write, for `download` to take: one wait in
    /// place of two.
    fn begin_download(&self, bytes: usize) -> Result<()>;
    /// Blocks until the last recorded write has finished, submitting it first if need be.
    fn wait_written(&self) -> Result<()>;
    /// Blocks until nothing recorded uses the block any more.
    fn wait_unused(&self) -> Result<()>;
    /// Copies the first `bytes` to `dst` after `wait_written`.
    ///
    /// # Safety
    /// `dst` must be valid for `bytes` of writes.
    unsafe fn download(&self, dst: *mut u8, bytes: usize) -> Result<()>;
    /// For downcasting by the backend that made the block.
    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync);
}

/// Host memory that returns to its allocator, or to whoever lent it, when dropped.
pub struct HostBlock {
    ptr: NonNull<u8>,
    owner: Owner,
}

enum Owner {
    Allocator { capacity: usize, release: fn(NonNull<u8>, usize) },
    Lender { _kept: Box<dyn std::any::Any + Send + Sync> },
}

// SAFETY: the block owns its memory; access to the bytes is ordered by evaluation (events, streams).
unsafe impl Send for HostBlock {}
// SAFETY: as above; the type itself has no interior state.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Wraps memory of `capacity` bytes; `release` gets both back.
    pub fn new(ptr: NonNull<u8>, capacity: usize, release: fn(NonNull<u8>, usize)) -> HostBlock {
        HostBlock { ptr, owner: Owner::Allocator { capacity, release } }
    }

    /// Memory of somebody else that is there for reading as long as `owner` lives.
    pub fn lent(ptr: NonNull<u8>, owner: Box<dyn std::any::Any + Send + Sync>) -> HostBlock {
        HostBlock { ptr, owner: Owner::Lender { _kept: owner } }
    }

    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes that are reserved here; none where they were lent.
    fn capacity(&self) -> usize {
        match self.owner {
            Owner::Allocator { capacity, .. } => capacity,
            Owner::Lender { .. } => 0,
        }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if let Owner::Allocator { capacity, release } = self.owner {
            release(self.ptr, capacity);
        }
    }
}

#[derive(Default)]
struct Residency {
    host: Option<HostBlock>,
    device: Option<Arc<dyn DeviceBlock>>,
    host_valid: bool,
    device_valid: bool,
}

/// Reference-counted bytes; shared by every array that views them.
pub struct Storage {
    nbytes: usize,
    lent: bool,
    state: Mutex<Residency>,
}

/// Allocates host memory for a download; installed by the memory floor, which lies above this one.
type HostAlloc = fn(usize) -> Result<HostBlock>;
static HOST_ALLOC: std::sync::OnceLock<HostAlloc> = std::sync::OnceLock::new();

/// Tells storages how to get host memory; later calls are ignored.
pub fn install_host_alloc(alloc: HostAlloc) {
    let _ = HOST_ALLOC.set(alloc);
}

impl Storage {
    /// Bytes valid on the host only.
    pub fn from_host(block: HostBlock, nbytes: usize) -> Arc<Storage> {
        let lent = matches!(block.owner, Owner::Lender { .. });
        let state = Residency { host: Some(block), host_valid: true, ..Default::default() };
        Arc::new(Storage { nbytes, lent, state: Mutex::new(state) })
    }

    /// Bytes valid on a device only; its kernels are about to write them.
    pub fn from_device(block: Arc<dyn DeviceBlock>, nbytes: usize) -> Arc<Storage> {
        let state = Residency { device: Some(block), device_valid: true, ..Default::default() };
        Arc::new(Storage { nbytes, lent: false, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, Residency> {
        fork::lock(&self.state)
    }

    /// Length in bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Bytes that are reserved for it, on the host and on a device together.
    pub fn capacity(&self) -> usize {
        let s = self.lock();
        s.host.as_ref().map_or(0, HostBlock::capacity) + s.device.as_ref().map_or(0, |d| d.capacity())
    }

    /// Whether the bytes belong to somebody else: they must not be overwritten.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// Host address of bytes that are valid for reading; waits for the device and downloads if needed.
    pub fn host_ptr(&self) -> Result<*mut u8> {
        let mut s = self.lock();
        if s.host_valid
            && let Some(h) = &s.host
        {
            return Ok(h.ptr());
        }
        // INVARIANT: a storage is valid somewhere.
        let device = s.device.clone().expect("storage without bytes");
        if let Some(p) = device.mapped() {
            drop(s);
            device.wait_written()?;
            if device.lost() {
                self.rescue(device, p);
            }
            return Ok(p.as_ptr());
        }
        drop(s);
        device.begin_download(self.nbytes)?;
        device.wait_written()?;
        s = self.lock();
        let _held = Uninterrupted::new();
        if s.host_valid
            && let Some(h) = &s.host
        {
            return Ok(h.ptr()); // another thread was faster
        }
        // INVARIANT: the memory floor installs its allocator before any array exists.
        let alloc = HOST_ALLOC.get().expect("host allocator not installed");
        let block = alloc(self.nbytes)?;
        // SAFETY: the block holds at least nbytes.
        unsafe { device.download(block.ptr(), self.nbytes)? };
        let p = block.ptr();
        s.host = Some(block);
        s.host_valid = true;
        Ok(p)
    }

    /// Makes memory that the host can read the host's own: its device was lost.
    fn rescue(&self, device: Arc<dyn DeviceBlock>, ptr: NonNull<u8>) {
        let mut s = self.lock();
        if !s.host_valid && s.device.as_ref().is_some_and(|d| Arc::ptr_eq(d, &device)) {
            s.host = Some(HostBlock::lent(ptr, Box::new(device)));
            s.host_valid = true;
            (s.device, s.device_valid) = (None, false);
        }
    }

    /// Host address for overwriting on the host; forgets device copies. Call it only with the storage
    /// unshared (fresh or donated).
    pub fn host_ptr_mut(&self) -> Result<*mut u8> {
        if let Some(p) = self.host_only() {
            return Ok(p);
        }
        // Brings the bytes to the host, unless that can write to the device's memory.
        let p = self.host_ptr()?;
        if self.host_only().is_none()
            && let Some(d) = self.any_device_block()
        {
            d.wait_unused()?;
        }
        Ok(p)
    }

    /// Forgets device copies of bytes that are valid in host memory, and says where those are.
    fn host_only(&self) -> Option<*mut u8> {
        let mut s = self.lock();
        let p = s.host.as_ref().filter(|_| s.host_valid)?.ptr();
        if s.device.is_some() {
            s.device = None;
            s.device_valid = false;
        }
        Some(p)
    }

    /// Asks for the memory of a block, which will be looked at soon.
    pub fn ask_for_block(&self) {
        /// Bytes of a block that are looked at.
        const LOOKED_AT: usize = 256;
        let s = self.lock();
        s.device.iter().for_each(|d| lines::ask_for(Arc::as_ptr(d).cast(), LOOKED_AT));
    }

    /// The valid block on the opened device `id`, if there is one.
    pub fn device_block(&self, id: u32) -> Option<Arc<dyn DeviceBlock>> {
        let s = self.lock();
        s.device.as_ref().filter(|d| s.device_valid && d.device() == id).cloned()
    }

    /// The valid block on whichever GPU has it.
    pub fn any_device_block(&self) -> Option<Arc<dyn DeviceBlock>> {
        let s = self.lock();
        s.device.as_ref().filter(|_| s.device_valid).cloned()
    }

    /// The GPU that alone has the bytes, in memory that the host cannot read in place.
    pub fn only_on_gpu(&self) -> Option<u32> {
        let s = self.lock();
        s.device.as_ref().filter(|d| !s.host_valid && d.mapped().is_none()).map(|d| d.gpu())
    }

    /// Makes the bytes valid on a device too: `upload` gets the host bytes and returns the filled block.
    /// Does nothing when they are there already. Concurrent callers upload once.
    pub fn ensure_device(
        &self,
        id: u32,
        upload: impl FnOnce(*const u8, usize) -> Result<Arc<dyn DeviceBlock>>,
    ) -> Result<Arc<dyn DeviceBlock>> {
        if let Some(d) = self.device_block(id) {
            return Ok(d);
        }
        let src = self.host_ptr()?; // also brings bytes of another GPU down
        let mut s = self.lock();
        let _held = Uninterrupted::new();
        if let Some(d) = s.device.as_ref().filter(|d| s.device_valid && d.device() == id) {
            return Ok(d.clone());
        }
        let block = upload(src, self.nbytes)?;
        if !s.host_valid {
            // The bytes lived mapped on another GPU: that block stays the home, this one is a copy
            // for the call.
            return Ok(block);
        }
        s.device = Some(block.clone());
        s.device_valid = true;
        Ok(block)
    }

    /// Makes bytes that another GPU alone has valid on the opened device `id` without the host: `copy` gets the block that
    /// has them and returns the filled one. `None` where it does not, and where the host has them.
    pub fn cross(
        &self,
        id: u32,
        copy: impl FnOnce(&dyn DeviceBlock, usize) -> Result<Option<Arc<dyn DeviceBlock>>>,
    ) -> Result<Option<Arc<dyn DeviceBlock>>> {
        let elsewhere = |s: &Residency| {
            let there = s.device.as_ref().filter(|d| s.device_valid && d.device() != id);
            there.filter(|d| !s.host_valid && !d.lost()).cloned()
        };
        let Some(from) = elsewhere(&self.lock()) else { return Ok(None) };
        from.wait_written()?;
        let mut s = self.lock();
        let _held = Uninterrupted::new();
        if elsewhere(&s).is_none_or(|d| !Arc::ptr_eq(&d, &from)) {
            // Another thread was faster.
            return Ok(s.device.as_ref().filter(|d| s.device_valid && d.device() == id).cloned());
        }
        let Some(block) = copy(&*from, self.nbytes)? else { return Ok(None) };
        if from.mapped().is_none() {
            s.device = Some(block.clone());
        }
        // Memory that the host reads in place stays the home; this is a copy for the call.
        Ok(Some(block))
    }

    /// Forgets the host copy, because a kernel is about to overwrite the device bytes.
    pub fn invalidate_host(&self) {
        let mut s = self.lock();
        if s.device_valid && s.device.is_some() {
            s.host = None;
            s.host_valid = false;
        }
    }

    /// Waits until recorded device writes are done; nothing to do for host bytes.
    pub fn wait(&self) -> Result<()> {
        let device = {
            let s = self.lock();
            s.device.clone().filter(|_| !s.host_valid)
        };
        device.map_or(Ok(()), |d| d.wait_written())
    }
}
