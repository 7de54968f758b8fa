//! Devices that compile kernels and run nothing (MLX_VK_COMPILE_ONLY=1): operations choose, generate and compile as
//! ever, but memory has addresses alone, commands are dropped, and results mean nothing. So every kernel meets the
//! compiler of a GPU that nobody here owns. What drivers tell about each pipeline is kept for `report`. Or the device is
//! one that is not there (`rehearses`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use ash::vk;

use crate::bail;
use crate::core::Error;
use crate::core::env::{Values, Variable};
use crate::core::fork::Made;
use crate::core::tree::Tree;
use crate::kernels::spirv;
use crate::vulkan::hal::device::{Device, MOST_PUSH_BYTES};
use crate::vulkan::hal::features::Features;
use crate::vulkan::shader;
use crate::vulkan::shader::native::Handle;
use crate::vulkan::shader::pipeline::{Module, Source};

pub static COMPILE_ONLY: Variable = Variable::new(
    "MLX_VK_COMPILE_ONLY",
    "0",
    Values::Word(&["0", "1", H200_WORD]),
    "1: devices compile kernels and run nothing; what comes of it has no meaning. Drivers without hardware count as \
         devices then. `python -m mlx.info --compile` sets it for the process that it starts. h200: they are NVIDIA H200s that \
         are not there, whose kernels nobody compiles; commands are recorded and submitted without them, so that they can be counted",
);

const H200_WORD: &str = "h200";

/// Whether devices of this process only compile.
pub fn on() -> bool {
    static ON: Made<bool> = Made::new(|| COMPILE_ONLY.word().is_some_and(|word| word != "0"));
    *ON
}

/// Whether devices are H200s that are not there: choices are theirs, kernels are written and not compiled, and command
/// buffers hold all but the kernels. So what is joined, what is recorded and how long that takes shows without the card.
pub fn rehearses() -> bool {
    static ON: Made<bool> = Made::new(|| COMPILE_ONLY.word() == Some(H200_WORD));
    *ON
}

/// Whether nothing is recorded or submitted.
pub fn drops() -> bool {
    on() && !rehearses()
}

/// Addresses of memory that is not there; no two blocks share any.
pub(in crate::vulkan) fn address(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    NEXT.fetch_add(bytes.next_multiple_of(4096), Ordering::Relaxed)
}

/// What is known of a compiled kernel.
struct Compiled {
    name: String,
    source: String,
    outcome: Result<u64, String>,
    /// Subgroup size that was asked for, or that the driver chose.
    subgroup: u32,
    invocations: u64,
    shared: u64,
    capabilities: Vec<u32>,
    extensions: Vec<String>,
    atomics: Vec<&'static str>,
    statistics: Vec<(String, f64)>,
    /// The program, of PTX, for assemblers.
    text: String,
}

static COMPILED: Mutex<Vec<Compiled>> = Mutex::new(Vec::new());

fn compiled() -> MutexGuard<'static, Vec<Compiled>> {
    COMPILED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Keeps what is known of a kernel: its module, the pipeline or why there is none, and how many nanoseconds it took.
pub(in crate::vulkan) fn note(
    device: &Device,
    name: &str,
    module: &Module,
    words: &[u32],
    outcome: Result<(Handle, u64), String>,
) {
    let words = with_constants(words, &module.spec);
    let read = spirv::read(&bytes(&words), u64::from(MOST_PUSH_BYTES)).ok();
    let (seen, statistics) = match outcome {
        Ok((Handle::Shader(pipeline), _)) => statistics(device, pipeline),
        Ok((Handle::Native(_), _)) | Err(_) => (0, Vec::new()),
    };
    compiled().push(Compiled {
        name: name.into(),
        outcome: outcome.map(|(_, ns)| ns),
        source: match &module.source {
            Source::File(name) => (*name).into(),
            Source::Text(_) => "generated".into(),
            Source::Words(_) => "module".into(),
            Source::Ptx { .. } => "PTX".into(),
        },
        subgroup: if seen > 0 { seen } else { module.subgroup_size.unwrap_or(0) },
        invocations: invocations(&words),
        atomics: atomics(&words),
        shared: read.as_ref().map_or(0, |m| m.shared),
        capabilities: read.as_ref().map(|m| m.capabilities.clone()).unwrap_or_default(),
        extensions: read.map(|m| m.extensions).unwrap_or_default(),
        statistics,
        text: match &module.source {
            Source::Ptx { text, .. } => text.clone(),
            Source::File(_) | Source::Text(_) | Source::Words(_) => String::new(),
        },
    });
}

/// Fails for a module that is not valid SPIR-V for Vulkan, or uses what the device does not list.
pub(in crate::vulkan) fn check(
    name: &str,
    words: &[u32],
    constants: &[u32],
    f: &Features,
) -> crate::core::Result<()> {
    shader::cache::valid(&bytes(words))?;
    let words = with_constants(words, constants);
    shader::requirements::fits(name, &words, u64::from(f.push_constants), f)?;
    let module = spirv::read(&bytes(&words), u64::from(f.push_constants)).map_err(Error::Value)?;
    shader::requirements::declared(name, &module, f)?;
    let (asked, most) = (invocations(&words), u64::from(f.max_workgroup_invocations));
    if asked > most {
        bail!(Runtime, "[vulkan] {name} asks for {asked} invocations in a workgroup, the device has {most}.");
    }
    Ok(())
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The module with specialisation constants 0, 1, ... set.
fn with_constants(words: &[u32], constants: &[u32]) -> Vec<u32> {
    const DECORATE: u32 = 71;
    const SPEC_ID: u32 = 1;
    const SPEC_CONSTANT: u32 = 50;
    let (mut set, mut ids) = (words.to_vec(), HashMap::new());
    for (at, op, args) in spirv::instructions(words).flatten() {
        match (op, args) {
            (DECORATE, &[id, SPEC_ID, n]) => drop(ids.insert(id, n as usize)),
            (SPEC_CONSTANT, &[_, id, _]) => {
                if let Some(&value) = ids.get(&id).and_then(|&n| constants.get(n)) {
                    set[at + 3] = value;
                }
            }
            _ => {}
        }
    }
    set
}

/// Invocations of a workgroup, 0 where the module does not say.
fn invocations(words: &[u32]) -> u64 {
    const EXECUTION_MODE: u32 = 16;
    const LOCAL_SIZE: u32 = 17;
    const DECORATE: u32 = 71;
    const BUILTIN: u32 = 11;
    const WORKGROUP_SIZE: u32 = 25;
    let (mut fixed, mut named, mut constants, mut composites) =
        (0, None, HashMap::new(), HashMap::<u32, Vec<u32>>::new());
    for (_, op, args) in spirv::instructions(words).flatten() {
        match (op, args) {
            (EXECUTION_MODE, &[_, LOCAL_SIZE, x, y, z]) => fixed = u64::from(x) * u64::from(y) * u64::from(z),
            (DECORATE, &[id, BUILTIN, WORKGROUP_SIZE]) => named = Some(id),
            (43 | 50, &[_, id, value]) => drop(constants.insert(id, u64::from(value))),
            (44 | 51, [_, id, parts @ ..]) => drop(composites.insert(*id, parts.to_vec())),
            _ => {}
        }
    }
    let sizes = named.and_then(|id| composites.get(&id));
    sizes.map_or(fixed, |parts| parts.iter().map(|p| constants.get(p).copied().unwrap_or(1)).product())
}

/// The memory in which a module has atomic operations, by which invocations tell each other something.
fn atomics(words: &[u32]) -> Vec<&'static str> {
    const TYPE_POINTER: u32 = 32;
    const STORE: u32 = 228;
    // Loads, exchanges and all others to OpAtomicXor; OpAtomicFAddEXT.
    let is_atomic = |op: u32| (227..=242).contains(&op) || op == 6035;
    let (mut classes, mut types, mut found) = (HashMap::new(), HashMap::new(), Vec::new());
    for (_, op, args) in spirv::instructions(words).flatten() {
        let pointer = match (op, args) {
            (TYPE_POINTER, &[id, class, _]) => {
                classes.insert(id, class);
                continue;
            }
            (STORE, &[pointer, ..]) => pointer,
            (op, &[_, _, pointer, ..]) if is_atomic(op) => pointer,
            // Instructions with a result name its type and the result. In others these are other things, which are
            // no ids of pointers' types.
            (_, &[kind, id, ..]) => {
                if classes.contains_key(&kind) {
                    types.insert(id, kind);
                }
                continue;
            }
            _ => continue,
        };
        let memory = match types.get(&pointer).and_then(|kind| classes.get(kind)) {
            Some(4) => "workgroup",
            _ => "buffers",
        };
        if !found.contains(&memory) {
            found.push(memory);
        }
    }
    found
}

/// Subgroup size and statistics of a pipeline, as far as the driver tells.
fn statistics(device: &Device, pipeline: vk::Pipeline) -> (u32, Vec<(String, f64)>) {
    let Some(api) = &device.executables else { return (0, Vec::new()) };
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    // SAFETY: the pipeline was made with the flag that this query asks for.
    let parts = unsafe { api.get_pipeline_executable_properties(&info) }.unwrap_or_default();
    let mut list = Vec::new();
    for i in 0..parts.len() as u32 {
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(i);
        // SAFETY: as above; the driver says that it has so many executables.
        let told = unsafe { api.get_pipeline_executable_statistics(&info) }.unwrap_or_default();
        for s in told {
            let name = s.name_as_c_str().unwrap_or_default().to_string_lossy().into_owned();
            use vk::PipelineExecutableStatisticFormatKHR as F;
            // SAFETY: the format says which member the driver has written.
            let value = unsafe {
                match s.format {
                    F::BOOL32 => f64::from(s.value.b32),
                    F::INT64 => s.value.i64 as f64,
                    F::UINT64 => s.value.u64 as f64,
                    _ => s.value.f64,
                }
            };
            list.push((name, value));
        }
    }
    (parts.first().map_or(0, |p| p.subgroup_size), list)
}

/// All kernels that were compiled since the last call, in order.
pub fn report() -> Tree {
    let told = |c: Compiled| {
        let (ns, error) = match c.outcome {
            Ok(ns) => (ns, String::new()),
            Err(e) => (0, e),
        };
        Tree::map([
            ("name", Tree::from(c.name)),
            ("source", c.source.into()),
            ("error", error.into()),
            ("subgroup_size", u64::from(c.subgroup).into()),
            ("invocations", c.invocations.into()),
            ("shared_memory", c.shared.into()),
            ("capabilities", Tree::numbers(&c.capabilities)),
            ("extensions", Tree::List(c.extensions.into_iter().map(Tree::from).collect())),
            ("atomics", Tree::List(c.atomics.into_iter().map(|m| Tree::from(m.to_string())).collect())),
            ("text", c.text.into()),
            ("compile_ms", Tree::Float(ns as f64 / 1e6)),
            ("statistics", Tree::map(c.statistics.into_iter().map(|(k, v)| (k, Tree::Float(v))))),
        ])
    };
    let list = std::mem::take(&mut *compiled());
    Tree::List(list.into_iter().map(told).collect())
}
