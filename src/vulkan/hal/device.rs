//! An opened GPU: logical device, queues, memory pool, pipelines. Opened on first use, kept for the life of
//! the process. When one is lost, what is under way fails with the error that was first seen, and the next use opens
//! the GPU again as another device. The driver's side of the lost one is destroyed when nothing needs it (see `reclaim`).

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError, RwLock};

use ash::vk;

use super::adapter::{self, AdapterInfo, AdapterKind, adapters};
use super::fault::pass;
use super::features::Features;
use super::gate::{Driver, Gate};
use super::held::Turn;
use super::probe;
use super::reclaim::{self, MOST_LOST, Made};
use super::stream::StreamState;
use crate::bail;
use crate::core::fault::Site;
use crate::core::{Error, Result};
use crate::vulkan::memory::Pool;
use crate::vulkan::report::compile_only;
use crate::vulkan::shader::native::Importer;
use crate::vulkan::shader::pipeline::Pipelines;
use crate::vulkan::shader::pipeline_cache::{PipelineBlob, read_text};
use crate::vulkan::shader::shelf::Shelf;
use crate::vulkan::tune::file::{hides, settings};
use crate::vulkan::tune::pacing::Pace;
use crate::vulkan::tune::{H200, Measured, Profile, Winners};

/// Push constants that any device has room for.
pub const PUSH_BYTES: u32 = 128;
/// Most that kernels have where a device takes more.
pub const MOST_PUSH_BYTES: u32 = 256;
/// Most queues taken from the compute family.
const MAX_QUEUES: u32 = 8;

/// A real queue; streams may share it.
pub(crate) struct Queue {
    pub raw: Mutex<vk::Queue>,
    pub family: u32,
    /// Whether it binds memory to sparse buffers.
    pub sparse: bool,
    /// Bits of a timestamp that count, 0 where the queue cannot tell the time.
    pub timestamp_mask: u64,
}

/// An opened GPU.
pub struct Device {
    index: u32,
    id: u32,
    info: &'static AdapterInfo,
    features: Features,
    /// What choices know of the device; replaced as a whole, and each kept for the life of the process.
    profile: AtomicPtr<Profile>,
    /// Whether it was measured, or need not be.
    pub(in crate::vulkan) measured: Once,
    /// What batches and commands take at least.
    pub(super) pace: Pace,
    gate: Gate,
    made: Mutex<Made>,
    pub(crate) queues: Vec<Queue>,
    /// Queues of the streams that only copy, up and down; where there are fewer, streams share.
    copy_queues: Vec<Queue>,
    /// Families that buffers are shared between.
    pub(crate) families: Vec<u32>,
    pub(crate) layout: vk::PipelineLayout,
    pub(crate) pool: Pool,
    pub(crate) pipelines: Pipelines,
    pub(in crate::vulkan) shelf: Shelf,
    pub(crate) blob: PipelineBlob,
    /// Tells what the driver made of a kernel; for devices that only compile.
    pub(in crate::vulkan) executables: Option<ash::khr::pipeline_executable_properties::Device>,
    /// Takes kernels that are no shaders.
    pub(in crate::vulkan) importer: Option<Importer>,
    pub(crate) streams: RwLock<Vec<&'static StreamState>>,
    /// The streams of large uploads and large downloads.
    copy_streams: [OnceLock<&'static StreamState>; 2],
    /// How it was lost.
    lost: OnceLock<String>,
    /// Held by the one thread that tries to destroy it.
    pub(super) reclaiming: Mutex<()>,
    destroyed: AtomicBool,
    /// What `fragment_probe` saw of float16 and bfloat16 matrices with 16 and with 8 columns.
    pub(in crate::vulkan) fragments: [OnceLock<bool>; 4],
    /// What `subnormal_probe` saw of float32.
    pub(in crate::vulkan) subnormals: OnceLock<bool>,
    /// The stream whose kernels may wait for each other's workgroups.
    pub(super) turn: Turn,
}

/// Facts about a GPU for users.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct DeviceInfo {
    pub name: String,
    pub kind: AdapterKind,
    pub vendor_id: u32,
    pub device_id: u32,
    pub driver: String,
    pub api_version: String,
    /// Bytes of device memory.
    pub memory_size: u64,
    /// Largest array in bytes.
    pub max_buffer: u64,
    /// One memory for host and device.
    pub unified: bool,
    pub subgroup_size: u32,
    /// Optional capabilities by name.
    pub features: Vec<(&'static str, bool)>,
}

/// Every device opened so far, lost and destroyed ones too.
static DEVICES: RwLock<Vec<&'static Device>> = RwLock::new(Vec::new());

/// The device of the adapter at `index`, opened on first use and when it was lost.
pub fn device(index: u32) -> Result<&'static Device> {
    adapter::check_fork()?;
    let list = adapters();
    let Some(info) = list.get(index as usize) else {
        if list.is_empty() {
            bail!(Value, "[vulkan] No GPU with index {index}: {}.", adapter::why_none());
        }
        bail!(Value, "[vulkan] No GPU with index {index}, there are {}.", list.len());
    };
    let find = |all: &[&'static Device]| all.iter().find(|d| d.index == index && !d.is_lost()).copied();
    if let Some(device) = find(&DEVICES.read().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(device);
    }
    opened().into_iter().filter(|d| d.is_lost()).for_each(reclaim::now);
    let mut all = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = find(&all) {
        return Ok(device);
    }
    let kept = all.iter().filter(|d| d.is_lost() && !d.is_destroyed()).count();
    if kept >= MOST_LOST {
        bail!(
            Runtime,
            "[device] {} was lost and is not opened again: {kept} lost devices, as many as a process may keep, have \
             arrays in their memory or work that does not end. Let go of arrays that were made before the losses, \
             or start another process.",
            info.name
        );
    }
    // The first device of an adapter has its number; those behind a lost one have others.
    let before = all.iter().rfind(|d| d.index == index);
    let id = if before.is_none() { index as usize } else { list.len() + all.len() };
    let device: &'static Device = Box::leak(Box::new(Device::open(index, id as u32, info)?));
    if let Some(lost) = before {
        device.set_winners(lost.profile().winners.clone());
    }
    all.push(device);
    Ok(device)
}

/// Every device that is open, lost ones too.
pub(crate) fn opened() -> Vec<&'static Device> {
    let all = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    all.iter().copied().filter(|d| !d.is_destroyed()).collect()
}

/// A queue family and how many of its queues are used.
type Queues = (u32, u32);

/// Compute queues and copy queues of a device: a compute family without graphics is preferred, and a
/// transfer family for copies, with a queue for each direction.
fn choose_queues(families: &[vk::QueueFamilyProperties]) -> Option<(Queues, Option<Queues>)> {
    let has = |i: usize, f: vk::QueueFlags| families[i].queue_flags.contains(f);
    let compute: Vec<usize> = (0..families.len()).filter(|&i| has(i, vk::QueueFlags::COMPUTE)).collect();
    let main =
        compute.iter().copied().find(|&i| !has(i, vk::QueueFlags::GRAPHICS)).or(compute.first().copied())?;
    // Queues of video engines may claim transfers too; they are left alone.
    let other = vk::QueueFlags::COMPUTE
        | vk::QueueFlags::GRAPHICS
        | vk::QueueFlags::VIDEO_DECODE_KHR
        | vk::QueueFlags::VIDEO_ENCODE_KHR;
    let copy = (0..families.len())
        .find(|&i| has(i, vk::QueueFlags::TRANSFER) && !families[i].queue_flags.intersects(other));
    let take = |i: usize, most: u32| (i as u32, families[i].queue_count.clamp(1, most));
    Some((take(main, MAX_QUEUES), copy.map(|i| take(i, 2))))
}

/// The queues of a device that was created with them: for kernels, and for copies beside them.
fn take_queues(
    raw: &ash::Device,
    props: &[vk::QueueFamilyProperties],
    (family, count): (u32, u32),
    copy: Option<(u32, u32)>,
) -> (Vec<Queue>, Vec<Queue>) {
    // SAFETY: these queues were asked for at creation.
    let queue = |family: u32, i| Queue {
        raw: Mutex::new(unsafe { raw.get_device_queue(family, i) }),
        family,
        sparse: props[family as usize].queue_flags.contains(vk::QueueFlags::SPARSE_BINDING),
        timestamp_mask: match props[family as usize].timestamp_valid_bits {
            _ if hides("timestamps") => 0,
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        },
    };
    let mut queues: Vec<Queue> = (0..count).map(|i| queue(family, i)).collect();
    let mut copy_queues: Vec<Queue> =
        copy.into_iter().flat_map(|(f, n)| (0..n).map(move |i| (f, i))).map(|(f, i)| queue(f, i)).collect();
    while copy_queues.len() < 2 && queues.len() > 1 && !hides("copy_queue") {
        copy_queues.extend(queues.pop());
    }
    (queues, copy_queues)
}

impl Device {
    fn open(index: u32, id: u32, info: &'static AdapterInfo) -> Result<Device> {
        crate::memory::init();
        let fail = |what: &str, e: vk::Result| {
            Error::Runtime(format!("[vulkan] Cannot open {}: {what} failed with {e}.", info.name))
        };
        let file = settings()?;
        let Some(loader) = adapter::loader() else { bail!(Runtime, "[vulkan] No Vulkan loader.") };
        // SAFETY: the handle comes from this instance.
        let props = unsafe { loader.instance.get_physical_device_queue_family_properties(info.physical) };
        let Some(((family, count), copy)) = choose_queues(&props) else {
            bail!(Runtime, "[vulkan] {} has no compute queue.", info.name);
        };
        let count = file.and_then(|s| s.queues).map_or(count, |most| count.min(most));
        let copy = copy.filter(|_| !hides("copy_queue"));
        let mut asked = vec![(family, count)];
        asked.extend(copy);
        let opened = pass(Site::Device).and_then(|()| probe::open(loader, info, &asked));
        let (raw, features) = opened.map_err(|e| fail("vkCreateDevice", e))?;
        let (queues, copy_queues) = take_queues(&raw, &props, (family, count), copy);
        let size = features.push_constants;
        let range = vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size };
        let ranges = [range];
        let layout_info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: the device was just created, and takes as many bytes.
        let layout = unsafe { raw.create_pipeline_layout(&layout_info, None) }
            // SAFETY: nothing was made from the device.
            .inspect_err(|_| unsafe { raw.destroy_device(None) })
            .map_err(|e| fail("vkCreatePipelineLayout", e))?;
        let pool = Pool::new(loader, info, &raw, &features)
            // SAFETY: nothing else was made from the device.
            .inspect_err(|_| unsafe {
                raw.destroy_pipeline_layout(layout, None);
                raw.destroy_device(None);
            })
            .map_err(|e| fail("vmaCreateAllocator", e))?;
        let blob = PipelineBlob::load(&raw, info);
        let executables = features
            .pipeline_statistics
            .then(|| ash::khr::pipeline_executable_properties::Device::new(&loader.instance, &raw));
        let importer =
            (features.ptx && !compile_only::rehearses()).then(|| Importer::new(&loader.instance, &raw));
        let measured = read_text("profile", info).and_then(|t| Measured::parse(&t));
        let winners = read_text("winners", info).map(|t| Winners::parse(&t)).unwrap_or_default();
        let mut profile = Profile::new(info, features.clone(), measured, file, winners);
        if compile_only::on() && !features.coop_matrices.is_empty() {
            profile.matrices = profile.matrices.max(H200.matrices);
        }
        let mut families = vec![family];
        families.extend(copy.map(|c| c.0));
        Ok(Device {
            index,
            id,
            info,
            features,
            measured: Once::new(),
            pace: Pace::of(&profile),
            profile: AtomicPtr::new(Box::leak(Box::new(profile))),
            gate: Gate::new(raw),
            made: Mutex::default(),
            queues,
            copy_queues,
            families,
            layout,
            pool,
            pipelines: Pipelines::default(),
            shelf: Shelf::default(),
            blob,
            executables,
            importer,
            streams: RwLock::new(Vec::new()),
            copy_streams: Default::default(),
            lost: OnceLock::new(),
            reclaiming: Mutex::default(),
            destroyed: AtomicBool::new(false),
            fragments: Default::default(),
            subnormals: OnceLock::new(),
            turn: Turn::default(),
        })
    }

    /// Position in the ranked list of adapters.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// A number that no other opened device has; a GPU that was lost and opened again has another.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the device can do.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// What choices know of the device.
    #[inline]
    pub fn profile(&self) -> &'static Profile {
        // SAFETY: the pointer comes from a box that was leaked.
        unsafe { &*self.profile.load(Ordering::Acquire) }
    }

    /// Puts other winners in place, for choices from now on. A profile that was read lives on: `python -m mlx.tune` makes
    /// some hundreds.
    pub fn set_winners(&self, winners: Winners) {
        let profile = Profile { winners, ..self.profile().clone() };
        self.profile.store(Box::leak(Box::new(profile)), Ordering::Release);
    }

    /// The adapter it was opened from.
    pub fn adapter(&self) -> &'static AdapterInfo {
        self.info
    }

    /// Fails if the device was lost, or belongs to the parent of a forked process.
    pub(crate) fn usable(&self) -> Result<()> {
        adapter::check_fork()?;
        match self.lost.get() {
            None => Ok(()),
            Some(how) => Err(self.lost_error(how)),
        }
    }

    fn lost_error(&self, how: &str) -> Error {
        Error::Runtime(format!(
            "[vulkan] The device {} was lost ({how}). What was under way and what only its memory held is gone; \
             the next operation opens it again.",
            self.info.name
        ))
    }

    /// The driver, for calls.
    ///
    /// # Errors
    /// As [`Device::usable`].
    #[inline]
    pub(crate) fn driver(&self) -> Result<Driver<'_>> {
        self.let_in(Gate::enter)
    }

    /// The driver, for as long as the host may see memory of the device; else as [`Device::driver`].
    #[inline]
    pub(crate) fn keep_memory(&self) -> Result<Driver<'_>> {
        self.let_in(Gate::keep_memory)
    }

    #[inline]
    fn let_in<'a>(&'a self, how: impl FnOnce(&'a Gate) -> Option<Driver<'a>>) -> Result<Driver<'a>> {
        self.usable()?;
        // Only lost devices are destroyed: the reason is known.
        how(&self.gate).ok_or_else(|| self.lose(String::new))
    }

    /// The driver, for calls, of a lost device too; none where it was destroyed.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Driver<'_>> {
        self.gate.enter()
    }

    /// Lets nobody call the driver any more; whether nobody is within a call. For the end of the process.
    pub(in crate::vulkan) fn shut(&self) -> bool {
        self.gate.shut()
    }

    /// Whether somebody keeps memory that the host sees.
    pub(crate) fn keeps_memory(&self) -> bool {
        self.gate.keeps_memory()
    }

    /// The driver's functions for those who destroy the device: from now on nobody else has them.
    pub(super) fn close(&self) -> Option<&ash::Device> {
        self.gate.close()
    }

    /// What the driver made.
    pub(in crate::vulkan) fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of it is left to the driver.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(super) fn set_destroyed(&self) {
        self.destroyed.store(true, Ordering::Release);
    }

    /// Whether the device was lost.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Notes that the device is lost, and returns the error of that.
    pub(crate) fn lose(&self, how: impl FnOnce() -> String) -> Error {
        self.lost_error(self.lost.get_or_init(how))
    }

    /// Gives up a device that makes no progress.
    pub(crate) fn abandon(&self, seconds: u64) -> Error {
        super::end::leave_without_drivers();
        let plural = if seconds == 1 { "" } else { "s" };
        self.lose(|| format!("no progress for {seconds} second{plural}, the limit of MLX_VK_TIMEOUT"))
    }

    /// The error of those who ask for what was lost with the device.
    pub(crate) fn contents_lost(&self) -> Error {
        let how = self.lost.get().map_or("", |how| how);
        Error::Runtime(format!("[array] Its contents were lost with the device {} ({how}).", self.info.name))
    }

    /// Turns a failed driver call into an error; remembers a lost device.
    pub(crate) fn check<T>(&self, what: &str, result: std::result::Result<T, vk::Result>) -> Result<T> {
        result.map_err(|e| match e {
            vk::Result::ERROR_DEVICE_LOST => self.lose(|| format!("VK_ERROR_DEVICE_LOST in {what}")),
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                Error::OutOfMemory { op: "vulkan", bytes: 0, detail: format!(" in {what}: {e}.") }
            }
            e => Error::Runtime(format!("[vulkan] {what} failed with {e}.")),
        })
    }

    fn copy_stream(&'static self, nth: usize) -> Result<&'static StreamState> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let slot = &self.copy_streams[nth];
        if let Some(stream) = slot.get() {
            return Ok(stream);
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = slot.get() {
            return Ok(stream);
        }
        let queue = self.copy_queues.get(nth).or(self.copy_queues.first()).unwrap_or(&self.queues[0]);
        let stream = StreamState::create(self, queue)?;
        Ok(slot.get_or_init(|| stream))
    }

    /// The stream that carries large uploads.
    pub(crate) fn upload_stream(&'static self) -> Result<&'static StreamState> {
        self.copy_stream(0)
    }

    /// The stream that carries large downloads: they wait for kernels, and uploads shall not wait behind them.
    pub(crate) fn download_stream(&'static self) -> Result<&'static StreamState> {
        self.copy_stream(1)
    }

    pub(crate) fn lock_streams(&self) -> Vec<&'static StreamState> {
        self.streams.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Submits the batches that streams keep open.
    pub(crate) fn submit_kept(&self) -> Result<()> {
        let mut kept = self.lock_streams().into_iter().filter(|s| s.kept.load(Ordering::Relaxed));
        kept.try_for_each(StreamState::flush)
    }

    /// A queue that binds memory to sparse buffers, rather one that computes nothing.
    pub(crate) fn sparse_queue(&self) -> Option<&Queue> {
        self.copy_queues.iter().chain(self.queues.iter().rev()).find(|q| q.sparse)
    }

    /// Whether large copies have queues of their own.
    pub(crate) fn has_copy_queue(&self) -> bool {
        !self.copy_queues.is_empty()
    }

    /// Whether this is a stream of large copies.
    pub(crate) fn is_copy_stream(&self, state: &StreamState) -> bool {
        self.copy_streams.iter().any(|s| s.get().is_some_and(|s| s.same(state)))
    }

    /// Whether compute queues can tell the time.
    #[cfg(test)]
    pub(crate) fn timestamps(&self) -> bool {
        self.queues[0].timestamp_mask != 0
    }

    /// (used, available) bytes of device memory, as the driver estimates them.
    pub fn memory_budget(&self) -> (u64, u64) {
        self.enter().map_or((0, 0), |_driver| self.pool.budget())
    }

    /// Allocations asked of the driver so far; a steady loop does not change it.
    pub fn driver_allocations(&self) -> u64 {
        self.pool.created()
    }

    /// Facts for users.
    pub fn device_info(&self) -> DeviceInfo {
        let f = &self.features;
        let (a, b, c) = self.info.api;
        DeviceInfo {
            name: self.info.name.clone(),
            kind: self.info.kind,
            vendor_id: self.info.vendor_id,
            device_id: self.info.device_id,
            driver: self.info.driver.clone(),
            api_version: format!("{a}.{b}.{c}"),
            memory_size: self.info.memory_size,
            max_buffer: f.max_buffer,
            unified: f.unified,
            subgroup_size: f.subgroup_size,
            features: vec![
                ("int8", f.int8),
                ("int16", f.int16),
                ("int64", f.int64),
                ("float16", f.float16),
                ("float64", f.float64),
                ("bfloat16", f.bfloat16),
                ("subgroup_size_control", f.subgroup_size_control),
                ("subgroup_arithmetic", f.subgroup_arithmetic),
                ("subgroup_shuffle", f.subgroup_shuffle),
                ("int_dot_product", f.int_dot_product),
                ("atomic_float32_add", f.atomic_float32_add),
                ("memory_model", f.memory_model && f.memory_model_device_scope),
                ("nan_preserve32", f.nan_preserve32),
                ("denorm_preserve32", f.denorm_preserve32),
                ("cooperative_matrix", !f.coop_matrices.is_empty()),
                ("cooperative_matrix2", f.coop2.is_some()),
                ("memory_budget", f.memory_budget),
                ("large_allocations", f.large_allocations),
                ("sparse_binding", f.sparse_binding),
                ("binary_import", f.ptx),
                ("external_memory", f.external_memory),
                ("external_memory_host", f.host_memory > 0),
                ("unified_memory", f.unified),
            ],
        }
    }
}

impl Queue {
    pub(crate) fn lock(&self) -> MutexGuard<'_, vk::Queue> {
        self.raw.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(flags: vk::QueueFlags, count: u32) -> vk::QueueFamilyProperties {
        vk::QueueFamilyProperties { queue_flags: flags, queue_count: count, ..Default::default() }
    }

    #[test]
    fn compute_without_graphics_and_a_copy_engine_are_preferred() {
        use vk::QueueFlags as F;
        let all = F::GRAPHICS | F::COMPUTE | F::TRANSFER;
        let discrete = [
            family(all, 16),
            family(F::TRANSFER | F::VIDEO_DECODE_KHR, 2),
            family(F::TRANSFER | F::SPARSE_BINDING, 2),
            family(F::COMPUTE | F::TRANSFER, 8),
        ];
        assert_eq!(choose_queues(&discrete), Some(((3, 8), Some((2, 2)))));
        assert_eq!(choose_queues(&[family(all, 16)]), Some(((0, MAX_QUEUES), None)));
        assert_eq!(choose_queues(&[family(all, 1)]), Some(((0, 1), None)));
        assert_eq!(choose_queues(&[family(F::TRANSFER, 1)]), None);
    }
}
