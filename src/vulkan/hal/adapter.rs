//! Finds the GPUs. The Vulkan loader is opened at run time, so a machine without one has an empty list and
//! no error. Adapters are ranked discrete, integrated, virtual, software; those below the floor of required
//! features are left out, and why is kept for whoever asks for a GPU. MLX_VK_DEVICE (index or part of a name)
//! moves one to the front.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;

use crate::bail;
use crate::core::env::{Values, Variable};
use crate::core::fork::Made;
use crate::core::{Result, fork};
use crate::vulkan::report::compile_only;
use crate::vulkan::shader::compiler;
use crate::vulkan::tune::H200;
use crate::vulkan::tune::file::{hides, settings};

pub static DEVICE: Variable = Variable::new(
    "MLX_VK_DEVICE",
    "by rank",
    Values::Text("index or part of a name"),
    "The adapter that becomes `Device(gpu, 0)`; otherwise discrete GPUs come first, software drivers last",
);

pub static WITHOUT: Variable = Variable::new(
    "MLX_VK_WITHOUT",
    "none",
    Values::Text("names of Vulkan features, separated by commas"),
    "Required features that count as lacking on every adapter, to see what is said then (for tests); `software`: \
         software drivers count as hardware",
);

/// What kind of machine an adapter is; the order is the ranking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    #[default]
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU behind a virtual machine monitor, or of an unknown type.
    Virtual,
    /// A driver that runs on the host processor.
    Software,
}

impl AdapterKind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            AdapterKind::Discrete => "discrete",
            AdapterKind::Integrated => "integrated",
            AdapterKind::Virtual => "virtual",
            AdapterKind::Software => "software",
        }
    }
}

/// A usable Vulkan adapter.
#[derive(Debug, Clone, Default)]
pub struct AdapterInfo {
    /// Name by the driver.
    pub name: String,
    /// Discrete, integrated, virtual or software.
    pub kind: AdapterKind,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// Driver's name and version text.
    pub driver: String,
    /// Driver's version in its own encoding.
    pub driver_version: u32,
    /// Vulkan version of the device, as (major, minor, patch).
    pub api: (u32, u32, u32),
    /// Bytes in device-local heaps.
    pub memory_size: u64,
    /// Identifies device and driver build: the pipeline cache is keyed by it.
    pub cache_uuid: [u8; 16],
    /// Identifies the device among those of this machine, for other programming interfaces too.
    pub uuid: [u8; 16],
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) api_version: u32,
}

/// An adapter that is there and cannot be used.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Name by the driver.
    pub name: String,
    /// Discrete, integrated, virtual or software.
    pub kind: AdapterKind,
    /// What it lacks.
    pub reason: String,
}

/// What a look at the machine gave.
#[derive(Default)]
struct Found {
    usable: Vec<AdapterInfo>,
    rejected: Vec<Rejected>,
    /// Why no adapter at all was seen.
    problem: Option<String>,
}

/// The opened loader with its instance.
pub(crate) struct Loader {
    pub entry: ash::Entry,
    pub instance: ash::Instance,
}

static LOADER: OnceLock<std::result::Result<Loader, String>> = OnceLock::new();
static FOUND: OnceLock<Found> = OnceLock::new();
/// The process that opened Vulkan (see `fork`).
static OPENED: AtomicU32 = AtomicU32::new(u32::MAX);

fn found() -> &'static Found {
    static NONE: Made<Found> = Made::new(Found::default);
    // A child of a fork that happened before the first look may use Vulkan freely; of one during it, not at all.
    claim();
    if forked() && FOUND.get().is_none() {
        return &NONE;
    }
    FOUND.get_or_init(|| std::panic::catch_unwind(enumerate).unwrap_or_default())
}

/// Usable adapters, best first; empty where there is no (working) Vulkan loader. Never panics.
pub fn adapters() -> &'static [AdapterInfo] {
    &found().usable
}

/// Adapters that are there and cannot be used.
pub fn rejected() -> &'static [Rejected] {
    &found().rejected
}

/// Why no adapter at all was seen.
pub fn problem() -> Option<String> {
    found().problem.clone()
}

/// Why there is no GPU, for the end of a sentence.
pub fn why_none() -> String {
    let Found { rejected, problem, .. } = found();
    let each = rejected.iter().map(|r| format!("{} cannot be used, {}", r.name, r.reason));
    let reasons: Vec<String> = problem.iter().cloned().chain(each).collect();
    match reasons.is_empty() {
        true => "no Vulkan device was found".into(),
        false => format!("no Vulkan device was found ({})", reasons.join("; ")),
    }
}

/// What the user is told who has GPUs that cannot be used, and none of hardware that can.
pub fn warning(usable: &[AdapterInfo], rejected: &[Rejected]) -> Option<String> {
    let hardware = |kind: AdapterKind| kind != AdapterKind::Software;
    if usable.iter().any(|a| hardware(a.kind)) {
        return None;
    }
    let lost: Vec<String> =
        rejected.iter().filter(|r| hardware(r.kind)).map(|r| format!("{}: {}", r.name, r.reason)).collect();
    let end = "The CPU is used; a newer driver may help.";
    (!lost.is_empty())
        .then(|| format!("[vulkan] No GPU of this machine can be used. {}. {end}", lost.join(". ")))
}

/// Fails in a child process of the one that opened Vulkan: drivers do not survive a fork.
pub(crate) fn check_fork() -> Result<()> {
    if forked() {
        bail!(
            Runtime,
            "[vulkan] The GPU was opened before fork and cannot be used in the child process; \
             start the process with the spawn method instead."
        );
    }
    Ok(())
}

/// Whether this process is a forked child of the one that opened Vulkan, or was about to.
#[inline]
pub(crate) fn forked() -> bool {
    OPENED.load(Ordering::Relaxed) < fork::generation()
}

/// From now on the GPUs belong to this process.
fn claim() {
    fork::watch(&[]);
    let _ = OPENED.compare_exchange(u32::MAX, fork::generation(), Ordering::Relaxed, Ordering::Relaxed);
}

/// The loader and instance, opened on first use.
pub(crate) fn loader() -> Option<&'static Loader> {
    claim();
    LOADER.get_or_init(open).as_ref().ok()
}

fn open() -> std::result::Result<Loader, String> {
    // SAFETY: loading the system's Vulkan loader runs its initialisers; there is no way to check it.
    let entry = unsafe { ash::Entry::load() }.map_err(|e| {
        format!("the Vulkan loader was not found: {e}; its package is libvulkan1 or vulkan-loader")
    })?;
    // SAFETY: plain query on a loaded entry.
    let version =
        unsafe { entry.try_enumerate_instance_version() }.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
    if version < vk::API_VERSION_1_1 {
        return Err("the Vulkan loader is of version 1.0, expected 1.1 or newer".into());
    }
    compiler::prepare();
    let app = vk::ApplicationInfo::default()
        .application_name(c"mlx")
        .engine_name(c"mlx-vulkan")
        .api_version(vk::API_VERSION_1_3);
    // SAFETY: plain query.
    let available = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
    let portability = vk::KHR_PORTABILITY_ENUMERATION_NAME;
    let mut names: Vec<*const c_char> = Vec::new();
    let mut flags = vk::InstanceCreateFlags::empty();
    if available.iter().any(|e| e.extension_name_as_c_str() == Ok(portability)) {
        names.push(portability.as_ptr());
        flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
    }
    let info =
        vk::InstanceCreateInfo::default().application_info(&app).enabled_extension_names(&names).flags(flags);
    // SAFETY: all pointers in `info` live through the call.
    let instance = unsafe { entry.create_instance(&info, None) }.map_err(|e| match e {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => NO_DRIVER.into(),
        e => format!("the Vulkan loader makes no instance: {e}"),
    })?;
    Ok(Loader { entry, instance })
}

const NO_DRIVER: &str = "the Vulkan loader found no driver; one comes with the GPU's driver package, and a software \
                         driver with mesa-vulkan-drivers";

fn enumerate() -> Found {
    let instance = match LOADER.get_or_init(open) {
        Ok(loader) => &loader.instance,
        Err(problem) => return Found { problem: Some(problem.clone()), ..Found::default() },
    };
    let mut found = Found::default();
    // SAFETY: the instance is alive for the whole process.
    let physical = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
    if physical.is_empty() {
        found.problem = Some(NO_DRIVER.into());
    }
    for physical in physical {
        match describe(instance, physical) {
            Ok(adapter) => found.usable.push(adapter),
            Err(rejected) => found.rejected.push(rejected),
        }
    }
    found.usable.sort_by_key(|a| a.kind);
    if let Some(wanted) = DEVICE.text() {
        prefer(&mut found.usable, wanted.to_string_lossy().trim());
    }
    found
}

/// Moves the adapter named by index or part of its name to the front.
fn prefer(found: &mut [AdapterInfo], wanted: &str) {
    if wanted.is_empty() {
        return;
    }
    let lower = wanted.to_lowercase();
    let place = match wanted.parse::<usize>() {
        Ok(i) => (i < found.len()).then_some(i),
        Err(_) => found.iter().position(|a| a.name.to_lowercase().contains(&lower)),
    };
    match place {
        Some(i) => found[..=i].rotate_right(1),
        None => {
            let names: Vec<&str> = found.iter().map(|a| a.name.as_str()).collect();
            eprintln!("[environment] MLX_VK_DEVICE={wanted} matches no adapter; there are {names:?}.");
        }
    }
}

/// Description of a physical device that meets the floor, or what it lacks.
fn describe(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> std::result::Result<AdapterInfo, Rejected> {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut id = vk::PhysicalDeviceIDProperties::default();
    // SAFETY: the handle comes from this instance.
    let p = unsafe { instance.get_physical_device_properties(physical) };
    let name = p.device_name_as_c_str().unwrap_or(c"unknown").to_string_lossy().into_owned();
    let kind = match p.device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => AdapterKind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => AdapterKind::Integrated,
        vk::PhysicalDeviceType::CPU if !without("software") => AdapterKind::Software,
        _ => AdapterKind::Virtual,
    };
    let v = p.api_version;
    let api = (vk::api_version_major(v), vk::api_version_minor(v), vk::api_version_patch(v));
    if v < vk::API_VERSION_1_2 {
        let reason = format!("its driver has Vulkan {}.{}, expected 1.2 or newer", api.0, api.1);
        return Err(Rejected { name, kind, reason });
    }
    let mut p2 = vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut id);
    // SAFETY: as above; the device supports 1.2, so these structures are known to it.
    unsafe { instance.get_physical_device_properties2(physical, &mut p2) };
    let missing = missing_floor(instance, physical);
    if !missing.is_empty() {
        let reason = format!("its driver lacks {}", missing.join(", "));
        return Err(Rejected { name, kind, reason });
    }
    // SAFETY: as above.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let memory_size = memory
        .memory_heaps_as_slice()
        .iter()
        .filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .map(|h| h.size)
        .sum();
    let text = |s: std::result::Result<&CStr, _>| {
        s.map(|s: &CStr| s.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let driver_name = text(driver.driver_name_as_c_str().map_err(|_| ()));
    let driver_info = text(driver.driver_info_as_c_str().map_err(|_| ()));
    let (name, kind) = match compile_only::rehearses() {
        true => (H200.name.into(), AdapterKind::Discrete),
        false => (name, kind),
    };
    Ok(AdapterInfo {
        name,
        kind,
        vendor_id: p.vendor_id,
        device_id: p.device_id,
        driver: format!("{driver_name} {driver_info}").trim().to_string(),
        driver_version: p.driver_version,
        api,
        memory_size,
        cache_uuid: p.pipeline_cache_uuid,
        uuid: id.device_uuid,
        physical,
        api_version: v,
    })
}

/// The required features that the device lacks; those that MLX_VK_WITHOUT names count as lacking.
fn missing_floor(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<&'static str> {
    let mut f11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut f = vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12);
    // SAFETY: the handle comes from this instance and the device supports 1.2.
    let (families, properties) = unsafe {
        instance.get_physical_device_features2(physical, &mut f);
        let families = instance.get_physical_device_queue_family_properties(physical);
        (families, instance.get_physical_device_properties(physical))
    };
    // SAFETY: as above.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let most = settings().ok().flatten().and_then(|s| s.invocations).unwrap_or(u32::MAX);
    let invocations = properties.limits.max_compute_work_group_invocations.min(most);
    let f10 = f.features;
    let floor = [
        (memory.memory_type_count > 0 || compile_only::on(), "memory, for want of hardware"),
        (f12.buffer_device_address != 0, "bufferDeviceAddress"),
        (f12.timeline_semaphore != 0, "timelineSemaphore"),
        (f12.scalar_block_layout != 0, "scalarBlockLayout"),
        (f12.storage_buffer8_bit_access != 0 && !hides("storage8"), "storageBuffer8BitAccess"),
        (f11.storage_buffer16_bit_access != 0 && !hides("storage16"), "storageBuffer16BitAccess"),
        (f10.shader_int64 != 0 && !hides("int64"), "shaderInt64"),
        (invocations >= 256, "workgroups of 256 invocations"),
        (families.iter().any(|q| q.queue_flags.contains(vk::QueueFlags::COMPUTE)), "a compute queue"),
    ];
    floor.iter().filter(|(have, name)| !have || without(name)).map(|(_, name)| *name).collect()
}

/// Whether MLX_VK_WITHOUT names it.
fn without(name: &str) -> bool {
    let hidden = WITHOUT.text().unwrap_or_default();
    hidden.to_string_lossy().split(',').any(|h| h.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranking_puts_real_gpus_first() {
        let kinds: Vec<AdapterKind> = adapters().iter().map(|a| a.kind).collect();
        if !DEVICE.is_set() {
            assert!(kinds.is_sorted(), "{kinds:?}");
        }
        assert!(AdapterKind::Discrete < AdapterKind::Software);
    }

    #[test]
    fn the_user_is_told_of_hardware_that_cannot_be_used_where_none_can() {
        let lost = |kind| Rejected { name: "Card".into(), kind, reason: "its driver lacks shaders".into() };
        let text = warning(&[], &[lost(AdapterKind::Software), lost(AdapterKind::Discrete)]).unwrap();
        assert!(text.contains("Card: its driver lacks shaders."), "{text}");
        assert!(warning(&[], &[lost(AdapterKind::Software)]).is_none());
        assert!(warning(&[], &[]).is_none());
        if let Some(first) = adapters().first() {
            let card = AdapterInfo { kind: AdapterKind::Discrete, ..first.clone() };
            assert!(warning(&[card], &[lost(AdapterKind::Integrated)]).is_none());
        }
    }

    #[test]
    fn preferred_adapter_moves_to_the_front_and_the_rest_keep_their_order() {
        let make = |name: &str| AdapterInfo { name: name.into(), ..AdapterInfo::default() };
        let names = |v: &[AdapterInfo]| v.iter().map(|a| a.name.clone()).collect::<Vec<_>>();
        let mut v = vec![make("Alpha"), make("Beta"), make("Gamma")];
        prefer(&mut v, "gam");
        assert_eq!(names(&v), ["Gamma", "Alpha", "Beta"]);
        prefer(&mut v, "1");
        assert_eq!(names(&v), ["Alpha", "Gamma", "Beta"]);
        prefer(&mut v, "7");
        assert_eq!(names(&v), ["Alpha", "Gamma", "Beta"]);
    }
}
