//! Device memory: VMA below, a pool of size classes above it, so that a steady loop asks the driver for
//! nothing. A dropped block goes to the pool at once with the points of its last uses. The same stream may
//! take it again at once (its hazard tracking orders the accesses); others when those points are reached. A few blocks
//! of a class take turns, so that a command does not wait for the one before it only to write where that one did.
//! Arrays beyond what the driver promises of one allocation are asked for all the same where it is known to grant more, else
//! bound in pieces (`pieces`).

pub(super) mod between;
mod block;
mod copy;
pub(super) mod crossing;
pub(super) mod exported;
pub(super) mod foreign;
pub(super) mod linger;
#[cfg(unix)]
mod peer;
mod pieces;
pub(super) mod readback;
pub(super) mod transfer;

pub use block::Block;

use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use ash::vk;
use smallvec::SmallVec;
use vk_mem::Alloc;

use super::hal::adapter::{AdapterInfo, Loader, forked};
use super::hal::device::{Device, opened};
use super::hal::fault::pass;
use super::hal::features::Features;
use super::hal::gate::Driver;
use super::hal::probe::UNIFIED_MEMORY;
use super::hal::reclaim;
use super::hal::stream::{Point, StreamState};
use super::report::compile_only;
use crate::core::env::KernelVariant;
use crate::core::event::Uninterrupted;
use crate::core::fault::Site;
use crate::core::{Error, Result};
use crate::memory::stats::{self, When};
use crate::vulkan::tune::made_up;
use crate::vulkan::tune::memory::{LOOKED_AT, TURN_SHARE, TURNS};

pub static BLOCK_TURNS: KernelVariant = KernelVariant::new(
    "block_turns",
    "the memory that a stream used last, though its next command has to wait for that",
);

/// Smallest class, and alignment of every block.
const MIN_CLASS: u64 = 256;
/// From here on classes are multiples of [`LARGE_STEP`].
const LARGE: u64 = 8 << 20;
const LARGE_STEP: u64 = 2 << 20;
/// Most bytes of free staging on the way down that are kept: results may lie there, so that it has any size.
const STAGING_KEPT: u64 = 2 << 30;

/// What a block is for, which decides the type of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Arrays and scratch.
    Device,
    /// Small arrays that the host writes directly.
    Bar,
    /// Kernel parameters, written by the host.
    Params,
    /// Staging on the way up.
    Upload,
    /// Staging on the way down; cached by the host.
    Download,
}

const KINDS: usize = 5;
const ALL_KINDS: [Kind; KINDS] = [Kind::Device, Kind::Bar, Kind::Params, Kind::Upload, Kind::Download];

impl Kind {
    /// Whether the bytes belong to arrays and count in the statistics.
    fn counted(self) -> bool {
        matches!(self, Kind::Device | Kind::Bar)
    }

    /// Whether the host may read or write the block as long as there is one. What it writes into [`Kind::Bar`] it writes at
    /// the beginning (`transfer`).
    fn is_seen(self, unified: bool) -> bool {
        match self {
            Kind::Device | Kind::Bar => unified,
            Kind::Params | Kind::Upload | Kind::Download => true,
        }
    }
}

/// Capacity that serves `nbytes`: four steps a power of two, then multiples of 2 MiB.
fn size_class(nbytes: u64) -> u64 {
    let n = nbytes.max(1);
    if n >= LARGE {
        return n.div_ceil(LARGE_STEP) * LARGE_STEP;
    }
    let step = (n.next_power_of_two() / 8).max(MIN_CLASS);
    n.div_ceil(step) * step
}

/// A buffer with its memory, which the pool keeps (null where devices only compile).
struct RawBlock {
    buffer: vk::Buffer,
    address: u64,
    mapped: Option<NonNull<u8>>,
    capacity: u64,
}

// SAFETY: the mapping is plain memory; access to it is ordered by the points kept beside it.
unsafe impl Send for RawBlock {}
// SAFETY: as above.
unsafe impl Sync for RawBlock {}

/// What copies know of memory: its buffer and the address of the buffer's first byte.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    pub buffer: vk::Buffer,
    pub address: u64,
}

/// What the driver gave for a buffer.
enum Memory {
    /// One allocation, or a part of one.
    Whole(vk_mem::Allocation),
    /// Allocations that are bound to a sparse buffer, one behind the other.
    Pieces(Vec<vk::DeviceMemory>),
}

/// Last accesses of a block.
#[derive(Default)]
struct Uses {
    write: Option<Point>,
    /// Last use of each stream, writes included.
    all: SmallVec<[Point; 2]>,
    /// Why the bytes are no result.
    spoilt: Option<Box<Error>>,
    /// The bytes on their way to the host.
    landing: Option<Box<transfer::Landing>>,
}

impl Uses {
    /// Notes an access. Returns what a write makes of no use.
    fn add(&mut self, point: Point, write: bool) -> Option<Box<transfer::Landing>> {
        if write {
            match &mut self.write {
                Some(w) if w.stream.same(point.stream) => w.value = w.value.max(point.value),
                w => *w = Some(point),
            }
        }
        match self.all.iter_mut().find(|p| p.stream.same(point.stream)) {
            Some(p) => p.value = p.value.max(point.value),
            None => self.all.push(point),
        }
        if write { self.landing.take() } else { None }
    }

    /// Whether everything is done, or left to `stream`'s own order.
    fn free_for(&self, stream: Option<&StreamState>) -> bool {
        self.all.iter().all(|p| stream.is_some_and(|s| s.same(p.stream)) || p.stream.reached(p.value))
    }
}

struct Free {
    raw: RawBlock,
    uses: Uses,
    /// Streams that used it, and how many barriers each had recorded by then.
    barriers: SmallVec<[(&'static StreamState, u64); 2]>,
    /// Since when it waits to be given back: the cache was emptied, and no longer counts it.
    cleared: Option<Instant>,
}

impl Free {
    /// Whether `stream` has recorded a barrier since it used the block.
    fn apart(&self, stream: Option<&StreamState>) -> bool {
        let Some(stream) = stream else { return true };
        self.barriers.iter().all(|(s, n)| !stream.same(s) || stream.barriers.load(Ordering::Relaxed) > *n)
    }
}

/// The allocator of a device.
pub(crate) struct Pool {
    /// None where devices only compile, and when the device was destroyed.
    vma: RwLock<Option<vk_mem::Allocator>>,
    /// The memory of every buffer.
    memory: Mutex<HashMap<vk::Buffer, Memory>>,
    /// What other APIs have of it, where there are any.
    exports: Option<exported::Exports>,
    unified: bool,
    bar: bool,
    host_cached: bool,
    local_heap: usize,
    /// The types of memory of that heap, bit by bit.
    local_types: u32,
    heap_size: u64,
    /// Bytes of all buffers of [`Kind::Device`], used and cached.
    allocated: AtomicU64,
    /// Allocations asked of the driver so far; a steady loop does not change it.
    created: AtomicU64,
    /// Bytes of arrays' blocks that wait to be given back.
    lingering: AtomicU64,
    free: [Mutex<BTreeMap<u64, Vec<Free>>>; KINDS],
}

impl Pool {
    pub fn new(
        loader: &Loader,
        info: &AdapterInfo,
        device: &ash::Device,
        features: &Features,
    ) -> std::result::Result<Pool, vk::Result> {
        let mut create = vk_mem::AllocatorCreateInfo::new(&loader.instance, device, info.physical);
        create.vulkan_api_version = vk::API_VERSION_1_2;
        create.flags = vk_mem::AllocatorCreateFlags::BUFFER_DEVICE_ADDRESS;
        let least = exported::wanted(info).filter(|_| features.external_memory);
        let exports = least.map(|least| exported::Exports::new(loader, info, device, least));
        if let Some(exports) = &exports {
            create.type_external_memory_handle_types = exports.types();
        }
        if features.memory_budget {
            create.flags |= vk_mem::AllocatorCreateFlags::EXT_MEMORY_BUDGET;
        }
        let vma = match compile_only::on() {
            true => None,
            // SAFETY: instance and physical device live for the whole process, the device longer than the allocator.
            false => Some(unsafe { vk_mem::Allocator::new(create) }?),
        };
        // SAFETY: plain query.
        let memory = unsafe { loader.instance.get_physical_device_memory_properties(info.physical) };
        let local_heap = memory
            .memory_heaps_as_slice()
            .iter()
            .enumerate()
            .filter(|(_, h)| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .max_by_key(|(_, h)| h.size)
            .map_or(0, |(i, _)| i);
        let is_local = |t: &vk::MemoryType| {
            t.heap_index as usize == local_heap
                && t.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
        };
        let types = memory.memory_types_as_slice().iter().enumerate();
        let local_types = types.filter(|(_, t)| is_local(t)).fold(0, |bits, (i, _)| bits | 1 << i);
        stats::register_cache(clear_all);
        Ok(Pool {
            vma: RwLock::new(vma),
            memory: Mutex::default(),
            exports,
            unified: features.unified,
            bar: features.bar,
            host_cached: features.host_cached,
            local_heap,
            local_types,
            heap_size: match compile_only::rehearses() {
                true => made_up::MEMORY,
                false => memory.memory_heaps[local_heap].size,
            },
            allocated: AtomicU64::new(0),
            created: AtomicU64::new(0),
            lingering: AtomicU64::new(0),
            free: Default::default(),
        })
    }

    /// Allocations asked of the driver since the device was opened.
    pub fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// (used, available) bytes of the device's main heap.
    pub fn budget(&self) -> (u64, u64) {
        let vma = self.vma.read().unwrap_or_else(PoisonError::into_inner);
        let heaps = vma.as_ref().and_then(|vma| vma.get_heap_budgets().ok()).unwrap_or_default();
        heaps.get(self.local_heap).map_or((0, 0), |b| (b.usage, b.budget))
    }

    fn list(&self, kind: Kind) -> MutexGuard<'_, BTreeMap<u64, Vec<Free>>> {
        self.free[kind as usize].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A cached block of `capacity` or (large ones) up to a quarter more.
    fn take(&self, kind: Kind, capacity: u64, stream: Option<&StreamState>) -> Option<Free> {
        let mut list = self.list(kind);
        let most = if capacity >= LARGE { capacity + capacity / 4 } else { capacity };
        let (mut known, turns) = (0, !BLOCK_TURNS.disabled());
        for blocks in list.range_mut(capacity..=most).map(|(_, b)| b) {
            if let Some(found) = pick(blocks, |f| f.uses.free_for(stream) && (f.apart(stream) || !turns)) {
                return Some(found);
            }
            known += blocks.len();
        }
        if turns && known < TURNS && kind == Kind::Device && capacity <= self.heap_size / TURN_SHARE {
            return None;
        }
        list.range_mut(capacity..=most).find_map(|(_, blocks)| oldest(blocks, stream))
    }

    /// Removes those free blocks that `which` names and nothing uses any more, until `enough` bytes are gone.
    fn evict(&self, device: &Device, kind: Kind, enough: u64, which: impl Fn(&Free) -> bool) -> u64 {
        if enough == 0 {
            return 0;
        }
        let (mut gone, mut lingered) = (0, 0);
        let mut victims: Vec<RawBlock> = Vec::new();
        {
            let mut list = self.list(kind);
            for blocks in list.values_mut().rev() {
                let mut i = 0;
                while gone < enough && i < blocks.len() {
                    if which(&blocks[i]) && done(&blocks[i].uses) {
                        let f = blocks.remove(i);
                        gone += f.raw.capacity;
                        lingered += f.cleared.map_or(0, |_| f.raw.capacity);
                        victims.push(f.raw);
                    } else {
                        i += 1;
                    }
                }
            }
            list.retain(|_, b| !b.is_empty());
        }
        if kind.counted() {
            stats::on_cache(-((gone - lingered) as i64));
            self.lingering.fetch_sub(lingered, Ordering::Relaxed);
        }
        let driver = device.enter();
        for v in victims {
            if kind == Kind::Device {
                self.allocated.fetch_sub(v.capacity, Ordering::Relaxed);
            }
            // What was destroyed had all its memory destroyed with it.
            if let Some(driver) = &driver {
                // SAFETY: the device is there, and nothing uses the buffer any more.
                unsafe { self.give_back(driver, v.buffer) };
            }
        }
        gone
    }

    /// Gives a buffer with its memory back to the driver, unless it has gone before.
    ///
    /// # Safety
    /// The device must be there, and nothing use the buffer.
    unsafe fn give_back(&self, driver: &ash::Device, buffer: vk::Buffer) {
        let memory = self.list_memory().remove(&buffer);
        if let Some(exports) = &self.exports {
            exports.forget(buffer);
        }
        let vma = self.vma.read().unwrap_or_else(PoisonError::into_inner);
        match (&*vma, memory) {
            // SAFETY: by the caller; the memory was the buffer's, and nobody else takes it from the list.
            (Some(vma), Some(Memory::Whole(mut memory))) => unsafe {
                vma.destroy_buffer(buffer, &mut memory)
            },
            // SAFETY: as above.
            (_, Some(Memory::Pieces(pieces))) => unsafe {
                driver.destroy_buffer(buffer, None);
                pieces.into_iter().for_each(|piece| driver.free_memory(piece, None));
            },
            (None, Some(Memory::Whole(_))) | (_, None) => {}
        }
    }

    fn list_memory(&self) -> MutexGuard<'_, HashMap<vk::Buffer, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails where the heap is smaller than all blocks with one more: software drivers hand out more than there is, and the
    /// system kills the process later.
    fn has_room(&self, capacity: u64) -> std::result::Result<(), vk::Result> {
        match self.allocated.load(Ordering::Relaxed) + capacity > self.heap_size {
            true => Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY),
            false => Ok(()),
        }
    }

    /// Gives all buffers with their memory back to the driver, those that blocks still have too, and the allocator.
    ///
    /// # Safety
    /// The device must be there, and nothing use the buffers, now or later.
    pub unsafe fn destroy(&self, driver: &ash::Device) {
        let all: Vec<vk::Buffer> = self.list_memory().keys().copied().collect();
        // SAFETY: by the caller.
        all.into_iter().for_each(|buffer| unsafe { self.give_back(driver, buffer) });
        drop(self.vma.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Frees every cached block that nothing uses any more.
    pub fn evict_all(&self, device: &Device) {
        for kind in ALL_KINDS {
            self.evict(device, kind, u64::MAX, |_| true);
        }
    }

    /// New memory from the driver.
    fn create(
        &self,
        device: &Device,
        driver: &Driver<'_>,
        kind: Kind,
        capacity: u64,
    ) -> std::result::Result<RawBlock, vk::Result> {
        use vk::MemoryPropertyFlags as M;
        let vma = self.vma.read().unwrap_or_else(PoisonError::into_inner);
        let Some(vma) = &*vma else { return Ok(RawBlock::absent(kind, capacity)) };
        if kind == Kind::Device {
            self.has_room(capacity)?;
        }
        let host = M::HOST_VISIBLE | M::HOST_COHERENT;
        let (required, preferred, fallback) = match kind {
            _ if self.unified => (UNIFIED_MEMORY, M::empty(), UNIFIED_MEMORY),
            Kind::Device => (M::DEVICE_LOCAL, M::empty(), M::DEVICE_LOCAL),
            Kind::Bar | Kind::Params if self.bar => (host, M::DEVICE_LOCAL, host),
            Kind::Bar | Kind::Params => (host, M::empty(), host),
            Kind::Upload => (host, M::empty(), host),
            Kind::Download if self.host_cached => (host | M::HOST_CACHED, M::empty(), host),
            Kind::Download => (host, M::empty(), host),
        };
        let mut flags = vk_mem::AllocationCreateFlags::empty();
        if self.unified || kind != Kind::Device {
            flags |= vk_mem::AllocationCreateFlags::MAPPED;
        }
        if kind == Kind::Device {
            flags |= vk_mem::AllocationCreateFlags::WITHIN_BUDGET;
        }
        let exported = self.exports.as_ref().filter(|_| kind == Kind::Device);
        if exported.is_some_and(|e| capacity >= e.least()) {
            flags |= vk_mem::AllocationCreateFlags::DEDICATED_MEMORY;
        }
        let mut external = exported::buffer_info();
        let mut info = buffer_info(device, capacity);
        if exported.is_some() {
            info = info.push_next(&mut external);
        }
        let make = |required_flags| {
            let how = vk_mem::AllocationCreateInfo {
                flags,
                usage: vk_mem::MemoryUsage::Unknown,
                required_flags,
                preferred_flags: preferred,
                ..Default::default()
            };
            pass(Site::Allocation)?;
            if flags.contains(vk_mem::AllocationCreateFlags::MAPPED) {
                pass(Site::Mapping)?;
            }
            // SAFETY: the description is complete; the device is there.
            unsafe { vma.create_buffer_with_alignment(&info, &how, MIN_CLASS) }
        };
        let (buffer, allocation) = match make(required) {
            Err(vk::Result::ERROR_FEATURE_NOT_PRESENT) if fallback != required => make(fallback)?,
            other => other?,
        };
        let mapped = NonNull::new(vma.get_allocation_info(&allocation).mapped_data.cast::<u8>());
        self.created.fetch_add(1, Ordering::Relaxed);
        if kind == Kind::Device {
            self.allocated.fetch_add(capacity, Ordering::Relaxed);
        }
        let address = address_of(driver, buffer);
        self.list_memory().insert(buffer, Memory::Whole(allocation));
        Ok(RawBlock { buffer, address, mapped, capacity })
    }
}

/// What every buffer is for, and who uses it.
fn buffer_info(device: &Device, capacity: u64) -> vk::BufferCreateInfo<'_> {
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER
        | vk::BufferUsageFlags::TRANSFER_SRC
        | vk::BufferUsageFlags::TRANSFER_DST
        | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    let info = vk::BufferCreateInfo::default().size(capacity).usage(usage);
    match device.families.len() {
        0 | 1 => info,
        _ => info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&device.families),
    }
}

/// The address of a buffer that has all its memory.
fn address_of(driver: &Driver<'_>, buffer: vk::Buffer) -> u64 {
    let ask = vk::BufferDeviceAddressInfo::default().buffer(buffer);
    // SAFETY: `buffer_info` asked for the address.
    unsafe { driver.get_buffer_device_address(&ask) }
}

impl RawBlock {
    /// A block of a device that only compiles: an address, and memory where the host writes or reads.
    fn absent(kind: Kind, capacity: u64) -> RawBlock {
        let host = (kind != Kind::Device).then(|| vec![0u64; capacity.div_ceil(8) as usize].leak());
        RawBlock {
            buffer: vk::Buffer::null(),
            address: compile_only::address(capacity),
            mapped: host.and_then(|h| NonNull::new(h.as_mut_ptr().cast())),
            capacity,
        }
    }
}

/// A free block that `suits`: the most recent ones are looked at first, for warm caches, then the oldest.
fn pick(blocks: &mut Vec<Free>, suits: impl Fn(&Free) -> bool) -> Option<Free> {
    let n = blocks.len();
    let mut order = (n.saturating_sub(LOOKED_AT)..n).rev().chain(0..n.saturating_sub(LOOKED_AT).min(4));
    order.find(|&i| suits(&blocks[i])).map(|i| blocks.remove(i))
}

/// A free block that `stream` may use now, the oldest first.
fn oldest(blocks: &mut Vec<Free>, stream: Option<&StreamState>) -> Option<Free> {
    let n = blocks.len();
    let mut order = (0..n.min(LOOKED_AT)).chain(n.saturating_sub(4).max(LOOKED_AT)..n);
    if let Some(i) = order.find(|&i| blocks[i].uses.free_for(stream)) {
        return Some(blocks.remove(i));
    }
    // Ask the driver once, about the streams of the oldest and the newest.
    for i in [0, n.checked_sub(1)?] {
        if done(&blocks[i].uses) {
            return Some(blocks.remove(i));
        }
    }
    None
}

/// Whether every use is over, by the driver's word where needed.
fn done(uses: &Uses) -> bool {
    uses.all.iter().all(|p| p.stream.over(p.value))
}

/// Submits and finishes the work of every stream, so that what the caches hold becomes free.
fn finish_all(device: &Device) {
    let _held = Uninterrupted::new();
    for s in device.lock_streams() {
        let _ = s.flush();
        let _ = s.wait_uninterrupted(s.submitted.load(Ordering::Acquire));
    }
}

/// Empties the caches of all devices, and destroys lost ones that nothing needs. What memory is to be given back now is waited for.
fn clear_all(when: When) {
    if forked() {
        return;
    }
    for device in opened() {
        if !device.is_lost() {
            if when == When::Soon && linger::begin(device) {
                continue;
            }
            finish_all(device);
        }
        device.pool.evict_all(device);
        if device.is_lost() {
            reclaim::now(device);
        }
    }
}

impl Device {
    /// Fresh memory for an array: nothing uses it any more.
    pub fn alloc(&'static self, nbytes: usize) -> Result<Arc<Block>> {
        self.alloc_kind(Kind::Device, nbytes, None)
    }

    /// Memory of a kind; with `stream`, possibly memory that only this stream still uses.
    pub(crate) fn alloc_kind(
        &'static self,
        kind: Kind,
        nbytes: usize,
        stream: Option<&'static StreamState>,
    ) -> Result<Arc<Block>> {
        let seen = kind.is_seen(self.features().unified);
        let driver = if seen { self.keep_memory() } else { self.driver() }?;
        let capacity = size_class(nbytes as u64);
        if kind.counted() {
            let oom = |detail| Error::OutOfMemory { op: "vulkan", bytes: nbytes, detail };
            stats::admit(capacity as usize).map_err(oom)?;
        }
        let (raw, uses) = match self.pool.take(kind, capacity, stream) {
            Some(free) => {
                match free.cleared {
                    _ if !kind.counted() => {}
                    Some(_) => {
                        self.pool.lingering.fetch_sub(free.raw.capacity, Ordering::Relaxed);
                    }
                    None => stats::on_cache(-(free.raw.capacity as i64)),
                }
                (free.raw, free.uses)
            }
            None => (self.create_block(&driver, kind, nbytes, capacity)?, Uses::default()),
        };
        if kind.counted() {
            stats::on_alloc(raw.capacity as usize);
        }
        let driver = (seen && raw.mapped.is_some()).then_some(driver);
        Ok(Arc::new(Block::new(raw, self, driver, kind, uses)))
    }

    fn create_block(
        &self,
        driver: &Driver<'_>,
        kind: Kind,
        nbytes: usize,
        capacity: u64,
    ) -> Result<RawBlock> {
        let oom = |detail: String| Error::OutOfMemory { op: "vulkan", bytes: nbytes, detail };
        let f = self.features();
        let cap = f.max_buffer;
        let capacity = if capacity > cap { nbytes as u64 } else { capacity };
        if capacity > cap {
            return Err(oom(format!(": {} allows {cap} bytes in one array.", self.adapter().name)));
        }
        if kind.counted() {
            let lingering = self.pool.lingering.load(Ordering::Relaxed);
            let excess = stats::excess((capacity + lingering) as usize) as u64;
            self.pool.evict(self, Kind::Device, excess, |_| true);
        }
        let beyond = kind == Kind::Device && capacity > f.max_allocation;
        let create = || match beyond && !f.large_allocations {
            true => self.pool.create_pieces(self, driver, capacity),
            false => self.pool.create(self, driver, kind, capacity),
        };
        let mut result = create();
        if matches!(result, Err(e) if is_oom(e)) {
            self.pool.evict_all(self);
            result = create();
        }
        if matches!(result, Err(e) if is_oom(e)) {
            stats::clear_cache(When::Now); // finishes the GPU's work first, and empties the other allocators too
            result = create();
        }
        if matches!(result, Err(e) if is_oom(e)) && beyond && f.large_allocations && f.sparse_binding {
            // More than the driver promises in one, but not in several.
            result = self.pool.create_pieces(self, driver, capacity);
        }
        match result {
            Ok(raw) => Ok(raw),
            Err(e) if is_oom(e) => {
                let (used, budget) = self.memory_budget();
                Err(oom(format!(" on {}: {used} of {budget} bytes in use ({e}).", self.adapter().name)))
            }
            Err(e) => self.check("vkAllocateMemory", Err(e)),
        }
    }
}

fn is_oom(e: vk::Result) -> bool {
    matches!(
        e,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
            | vk::Result::ERROR_OUT_OF_HOST_MEMORY
            | vk::Result::ERROR_TOO_MANY_OBJECTS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_little() {
        for n in (1..100_000u64).chain((1..2000).map(|i| i * 65_537)) {
            let c = size_class(n);
            assert!(c >= n && c.is_multiple_of(MIN_CLASS), "{n} -> {c}");
            assert!(n < 2048 || c - n <= n / 4 + 1, "{n} -> {c}");
            assert_eq!(size_class(c), c);
        }
    }
}
