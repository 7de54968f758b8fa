//! Pipelines by typed key. A kernel family has a key type that derives `Hash`; everything that decides the
//! code is part of it. Kernels are compiled once per key, outside the locks, by threads of their own where there are
//! cores for them (see `compile_pool`): a pipeline is handed out before it is ready, and its commands are `deferred`. A device
//! keeps a bounded number (`shelf`).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

use ash::prelude::VkResult;
use ash::vk;

use super::compile_pool;
use super::compiler;
use super::native::Handle;
use super::requirements;
use crate::bail;
use crate::core::fault::Site;
use crate::core::{Error, Result, trace};
use crate::kernels::spirv::PUSH_BYTES;
use crate::vulkan::hal::adapter::forked;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::fault::pass;
use crate::vulkan::hal::features::Features;
use crate::vulkan::report::compile_only;
use crate::vulkan::report::progress;
use crate::vulkan::report::stats::{self, STATS};

/// Where a kernel's GLSL comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file of the packed `shaders/` tree.
    File(&'static str),
    /// Generated text; it may include packed library files.
    Text(String),
    /// A finished module.
    Words(Arc<[u32]>),
    /// A program for NVIDIA's GPUs with one kernel (`native::ENTRY_NAME`) whose only parameter is the push block; threads of a workgroup.
    Ptx { text: String, threads: u32 },
}

/// A compute shader, and how to build it.
#[derive(Debug, Clone)]
pub struct Module {
    /// GLSL with entry point `main`.
    pub source: Source,
    /// Macros.
    pub defines: Vec<(String, String)>,
    /// Specialisation constants with ids 0, 1, ...; 32 bits each.
    pub spec: Vec<u32>,
    /// Subgroup size that the kernel needs; subgroups are full where the workgroup's x size is a multiple.
    pub subgroup_size: Option<u32>,
    /// Compile to SPIR-V 1.6 (needs `Features::spirv16`).
    pub spirv16: bool,
}

impl Default for Module {
    fn default() -> Self {
        let source = Source::Text(String::new());
        Module { source, defines: Vec::new(), spec: Vec::new(), subgroup_size: None, spirv16: false }
    }
}

/// Names one kernel variant.
pub trait KernelKey: Hash + Eq + Clone + Send + Sync + Debug + 'static {
    /// Readable name for errors, profiles and captures.
    fn name(&self) -> String;
    /// The code; called once per key and device.
    fn module(&self, features: &Features) -> Module;
    /// Whether the code is not ours, so that it is checked before the driver sees it.
    fn foreign(&self) -> bool {
        false
    }
}

/// A kernel. The driver's part lives until nothing that was recorded uses it.
pub struct Pipeline {
    raw: OnceLock<Result<Handle>>,
    device: &'static Device,
    name: String,
    /// The code, until it is compiled.
    module: Mutex<Module>,
    foreign: bool,
    /// Dispatches so far.
    pub(in crate::vulkan) hits: AtomicU64,
    /// How many pipelines had been made when this one was asked for last.
    used: AtomicU64,
}

impl Pipeline {
    /// The driver's handle, if the kernel is compiled.
    #[inline]
    pub(in crate::vulkan) fn ready(&self) -> Option<Handle> {
        self.raw.get()?.as_ref().ok().copied()
    }

    /// The driver's handle; compiles the kernel, or waits for the thread that does.
    pub(in crate::vulkan) fn wait(&self) -> Result<Handle> {
        let compile = || {
            let module = std::mem::take(&mut *self.module.lock().unwrap_or_else(|e| e.into_inner()));
            self.device.build(&self.name, &module, self.foreign)
        };
        self.raw.get_or_init(compile).clone()
    }

    /// Whether the kernel is compiled, or turned out not to compile.
    pub(in crate::vulkan) fn is_decided(&self) -> bool {
        self.raw.get().is_some()
    }

    /// Waits a while for the thread that compiles the kernel; whether it is decided. Where no thread does, the caller
    /// compiles it.
    pub(in crate::vulkan) fn wait_a_while(&self) -> bool {
        if !compile_pool::wait_a_while(|| self.is_decided()) {
            return false;
        }
        let _ = self.wait();
        true
    }

    /// The pipeline, unless it turned out that it cannot be compiled.
    fn sound(self: Arc<Self>) -> Result<Arc<Self>> {
        match self.raw.get() {
            Some(Err(e)) => Err(e.clone()),
            _ => Ok(self),
        }
    }

    /// Whether it was made for this opened device.
    #[inline]
    pub(in crate::vulkan) fn is_of(&self, device: &Device) -> bool {
        std::ptr::eq(self.device, device)
    }

    /// Readable name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes that somebody asks for the pipeline.
    #[inline]
    pub(in crate::vulkan) fn touch(&self) {
        let now = self.device.shelf.clock();
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// When it was asked for last, if it is compiled.
    pub(in crate::vulkan) fn age(&self) -> Option<u64> {
        self.ready().map(|_| self.used.load(Ordering::Relaxed))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if !forked() {
            stats::gone(self);
            self.device.shelf.retire(self.device, self.ready());
        } // else locks may be held forever, and the handle is the parent's
    }
}

/// Multiply-rotate hashing: keys are small, trusted and looked up once per dispatch.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

impl FastHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl std::hash::Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for c in &mut chunks {
            self.add(u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
        }
        for &b in chunks.remainder() {
            self.add(u64::from(b));
        }
    }

    fn write_u8(&mut self, i: u8) {
        self.add(u64::from(i));
    }

    fn write_u16(&mut self, i: u16) {
        self.add(u64::from(i));
    }

    fn write_u32(&mut self, i: u32) {
        self.add(u64::from(i));
    }

    fn write_u64(&mut self, i: u64) {
        self.add(i);
    }

    fn write_usize(&mut self, i: usize) {
        self.add(i as u64);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;
type Slot = Arc<OnceLock<Result<Arc<Pipeline>>>>;
type Typed<K> = RwLock<Map<K, Slot>>;

/// The pipelines of one key type, for whoever does not know the type.
pub(in crate::vulkan) trait Row: Send + Sync {
    /// Adds when each was asked for last.
    fn ages(&self, ages: &mut Vec<u64>);
    /// Forgets all.
    fn clear(&self);
    /// Forgets at most `most` that were not asked for after `age`, and errors; returns how many that were.
    fn forget(&self, age: u64, most: usize) -> usize;
}

/// Whether what became of a kernel stays so: where memory was short, it is tried again.
fn lasts(made: &Result<Arc<Pipeline>>) -> bool {
    let failed = match made {
        Ok(pipeline) => pipeline.raw.get().and_then(|raw| raw.as_ref().err()),
        Err(e) => Some(e),
    };
    !matches!(failed, Some(Error::OutOfMemory { .. }))
}

/// The pipeline of a slot and its age; an error has none.
fn content(slot: &Slot) -> Option<std::result::Result<u64, ()>> {
    match slot.get()? {
        Ok(pipeline) => pipeline.age().map(Ok),
        Err(_) => Some(Err(())),
    }
}

impl<K: KernelKey> Row for Typed<K> {
    fn ages(&self, ages: &mut Vec<u64>) {
        let map = self.read().unwrap_or_else(|e| e.into_inner());
        ages.extend(map.values().filter_map(|slot| content(slot)?.ok()));
    }

    fn clear(&self) {
        let all = std::mem::take(&mut *self.write().unwrap_or_else(|e| e.into_inner()));
        // What dies dies without the lock.
        drop(all);
    }

    fn forget(&self, age: u64, most: usize) -> usize {
        let (mut gone, mut dropped) = (0, Vec::new());
        let mut map = self.write().unwrap_or_else(|e| e.into_inner());
        map.retain(|_, slot| {
            let old = match content(slot) {
                Some(Ok(used)) => used <= age && gone < most,
                Some(Err(())) => true,
                None => false,
            };
            if old {
                gone += usize::from(matches!(content(slot), Some(Ok(_))));
                dropped.push(slot.clone());
            }
            !old
        });
        // What dies dies without the lock.
        drop(map);
        gone
    }
}

/// The pipelines of a device: one map per key type.
#[derive(Default)]
pub(crate) struct Pipelines {
    types: RwLock<Map<TypeId, (&'static (dyn Any + Send + Sync), &'static dyn Row)>>,
}

impl Pipelines {
    /// The map of a key type; it lives as long as the process, like the device.
    fn typed<K: KernelKey>(&self) -> &'static Typed<K> {
        let id = TypeId::of::<K>();
        let known = self.types.read().unwrap_or_else(|e| e.into_inner()).get(&id).copied();
        let (any, _) = known.unwrap_or_else(|| {
            let mut types = self.types.write().unwrap_or_else(|e| e.into_inner());
            *types.entry(id).or_insert_with(|| {
                let map: &'static Typed<K> = Box::leak(Box::default());
                (map, map)
            })
        });
        // INVARIANT: the entry of K's id is made above with this type.
        any.downcast_ref().expect("map of this key type")
    }

    /// Forgets all pipelines.
    pub(in crate::vulkan) fn clear(&self) {
        self.rows().into_iter().for_each(|row| row.clear());
    }

    /// The maps of all key types.
    pub(in crate::vulkan) fn rows(&self) -> Vec<&'static dyn Row> {
        self.types.read().unwrap_or_else(|e| e.into_inner()).values().map(|t| t.1).collect()
    }
}

/// Whether kernels may ask for subgroups of this size.
fn can_require(f: &Features, size: u32) -> bool {
    f.subgroup_size_control && (f.min_subgroup_size..=f.max_subgroup_size).contains(&size)
}

impl Device {
    /// The pipeline of a kernel, which may still have to be compiled; code that is not ours is. An error is kept: the
    /// same key fails again, unless it was memory that was short.
    pub fn pipeline<K: KernelKey>(&'static self, key: &K) -> Result<Arc<Pipeline>> {
        let map = self.pipelines.typed::<K>();
        let known = map.read().unwrap_or_else(|e| e.into_inner()).get(key).cloned();
        let slot = match known {
            Some(slot) if slot.get().is_none_or(lasts) => slot,
            other => {
                let mut map = map.write().unwrap_or_else(|e| e.into_inner());
                let slot = map.entry(key.clone()).or_default();
                if other.is_some_and(|failed| Arc::ptr_eq(&failed, slot)) {
                    *slot = Slot::default();
                }
                slot.clone()
            }
        };
        if let Some(known) = slot.get() {
            STATS.pipeline_hits.add(1);
            known.iter().for_each(|p| p.touch());
            return known.clone().and_then(Pipeline::sound);
        }
        slot.get_or_init(|| self.begin(&key.name(), key.module(self.features()), key.foreign())).clone()
    }

    /// The pipeline of a kernel, compiled.
    pub fn built<K: KernelKey>(&'static self, key: &K) -> Result<Arc<Pipeline>> {
        let pipeline = self.pipeline(key)?;
        pipeline.wait().map(|_| pipeline)
    }

    /// Whether the kernel is compiled already (another thread may be at it).
    #[cfg(test)]
    pub fn has_pipeline<K: KernelKey>(&'static self, key: &K) -> bool {
        let map = self.pipelines.typed::<K>().read().unwrap_or_else(|e| e.into_inner());
        map.get(key).and_then(|slot| slot.get()?.as_ref().ok()?.ready()).is_some()
    }

    /// A pipeline that is compiled soon; at once where an error is to be expected, or a thread gains nothing.
    fn begin(&'static self, name: &str, module: Module, foreign: bool) -> Result<Arc<Pipeline>> {
        self.usable()?;
        STATS.pipeline_misses.add(1);
        let f = self.features();
        if module.spirv16 && !f.spirv16 {
            bail!(Runtime, "[vulkan] Kernel {name} needs SPIR-V 1.6, which the device lacks.");
        }
        if let Some(n) = module.subgroup_size
            && !can_require(f, n)
            && (n != f.subgroup_size || f.min_subgroup_size != f.max_subgroup_size)
        {
            bail!(Runtime, "[vulkan] Kernel {name} needs subgroups of {n}, which the device cannot give.");
        }
        let pipeline = Arc::new(Pipeline {
            raw: OnceLock::new(),
            device: self,
            name: name.into(),
            module: Mutex::new(module),
            foreign,
            hits: AtomicU64::new(0),
            used: AtomicU64::new(self.shelf.made(self)),
        });
        stats::made(&pipeline);
        if foreign || compiler::replaced() || compile_pool::threads() == 0 {
            pipeline.wait()?;
        } else {
            let later = pipeline.clone();
            compile_pool::soon(move || drop(later.wait()));
        }
        Ok(pipeline)
    }

    fn build(&'static self, name: &str, module: &Module, foreign: bool) -> Result<Handle> {
        if compile_only::rehearses() {
            let none = Handle::Shader(vk::Pipeline::null());
            compile_only::note(self, name, module, &[], Ok((none, 0)));
            return Ok(none);
        }
        if !compile_only::on() {
            return self.make(name, module, foreign).map(|made| made.0);
        }
        let _driver = self.driver()?;
        let words = compiler::spirv(name, module).inspect_err(|e| {
            compile_only::note(self, name, module, &[], Err(e.to_string()));
        })?;
        let made = compile_only::check(name, &words, &module.spec, self.features())
            .and_then(|()| self.make(name, module, foreign));
        let outcome = made.clone().map_err(|e| e.to_string());
        compile_only::note(self, name, module, &words, outcome);
        made.map(|made| made.0)
    }

    /// The driver's pipeline, and how many nanoseconds it took to make.
    fn make(&'static self, name: &str, module: &Module, foreign: bool) -> Result<(Handle, u64)> {
        if let Source::Ptx { text, threads } = &module.source {
            return self.import(name, text, *threads);
        }
        let _span = trace::span("compile", || name.to_string());
        let _told = progress::compiling(name);
        let words = compiler::spirv(name, module)?;
        if foreign {
            requirements::fits(name, &words, PUSH_BYTES, self.features())?;
        }
        let start = Instant::now();
        let mut made = self.hand_over(name, module, &words)?;
        // NVIDIA's compiler (driver 580) fails for some kernels of nvfp4 as SPIRV-Tools leave them.
        if let Err(refused) = made
            && let Some(other) = compiler::other_spirv(name, module)
        {
            tracing::warn!("kernel {name}: {refused}, tried in another form");
            made = self.hand_over(name, module, &other?)?;
        }
        let made = self.check(&format!("vkCreateComputePipelines for kernel {name}"), made)?;
        let handle = Handle::Shader(made);
        self.made().pipelines.insert(handle);
        let ns = start.elapsed().as_nanos() as u64;
        STATS.pipeline_ns.add(ns);
        self.blob.on_pipeline();
        self.blob.save(&*self.driver()?, false);
        Ok((handle, ns))
    }

    /// The driver's pipeline of some SPIR-V; within the result what its compiler said that does not manage it.
    fn hand_over(
        &'static self,
        name: &str,
        module: &Module,
        words: &[u32],
    ) -> Result<VkResult<vk::Pipeline>> {
        let (driver, f) = (self.driver()?, self.features());
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        if let Some(n) = module.subgroup_size.filter(|&n| can_require(f, n)) {
            size = size.required_subgroup_size(n);
        }
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words are SPIR-V of our compiler (the cache checks what it reads), or the user's own.
        let shader = pass(Site::Module).and_then(|()| unsafe { driver.create_shader_module(&info, None) });
        let shader = self.check(&format!("vkCreateShaderModule for kernel {name}"), shader)?;
        let entries: Vec<vk::SpecializationMapEntry> = (0..module.spec.len() as u32)
            .map(|i| vk::SpecializationMapEntry { constant_id: i, offset: i * 4, size: 4 })
            .collect();
        let data: Vec<u8> = module.spec.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let spec = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(c"main")
            .specialization_info(&spec);
        if size.required_subgroup_size > 0 {
            stage = stage.push_next(&mut size);
        }
        let flags = match &self.executables {
            Some(_) => vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR,
            None => vk::PipelineCreateFlags::empty(),
        };
        let infos = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(self.layout)];
        // SAFETY: everything the description points to lives through the call.
        let make = || unsafe { driver.create_compute_pipelines(self.blob.raw, &infos, None) };
        let passed = pass(Site::Pipeline).and_then(|()| pass(Site::Refusal));
        let made = passed.and_then(|()| make().map(|made| made[0]).map_err(|(_, e)| e));
        // SAFETY: a pipeline keeps no reference to its module.
        unsafe { driver.destroy_shader_module(shader, None) };
        match made {
            Err(e) if is_refusal(e) => Ok(Err(e)),
            made => self.check(&format!("vkCreateComputePipelines for kernel {name}"), made).map(Ok),
        }
    }
}

/// Whether an error is the compiler's own, and not for want of memory or of the device.
fn is_refusal(e: vk::Result) -> bool {
    matches!(
        e,
        vk::Result::ERROR_UNKNOWN
            | vk::Result::ERROR_INITIALIZATION_FAILED
            | vk::Result::ERROR_INVALID_SHADER_NV
    )
}
