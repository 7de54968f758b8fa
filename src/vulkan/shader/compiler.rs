//! GLSL to SPIR-V in process. `#include "lib/x.glsl"` resolves among the packed shaders only, without the functions
//! that the kernel does not reach (`prune`). Results live in the disk cache; the compiler itself, which takes some
//! 100 ms, starts with the first kernel that is not there, or before that where the cache is empty.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use shaderc::OptimizationLevel;

use super::cache::{self, Key};
use super::compile_pool;
use super::pipeline::{Module, Source};
use super::prune::prune;
use crate::bail;
use crate::core::env::{Values, Variable};
use crate::core::fault::{Site, hit};
use crate::core::{Error, Result, trace};
use crate::kernels::spirv::instructions;
use crate::vulkan::report::stats::STATS;

pub static SHADER_DIR: Variable = Variable::new(
    "MLX_VK_SHADER_DIR",
    "none",
    Values::Folder,
    "Files in it replace packed shaders of the same name (`matmul_tiled.comp`, `matmul/matmul.glsl`)",
);

include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

/// Bumped when the options below change in a way that the key does not see.
const OPTIONS: &str = "perf-3";

static COMPILER: OnceLock<std::result::Result<shaderc::Compiler, String>> = OnceLock::new();

/// Files of the folder MLX_VK_SHADER_DIR, read once, that stand in for packed ones of the same name.
static REPLACED: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();

fn read_replaced() -> HashMap<&'static str, &'static str> {
    let Some(dir) = SHADER_DIR.text() else {
        return HashMap::new();
    };
    let read = |name: &'static str| {
        let text = std::fs::read_to_string(std::path::Path::new(&dir).join(name)).ok()?;
        Some((name, &*Box::leak(text.into_boxed_str())))
    };
    SHADERS.iter().filter_map(|s| read(s.0)).collect()
}

/// Whether files stand in for packed ones.
pub(in crate::vulkan) fn replaced() -> bool {
    !REPLACED.get_or_init(read_replaced).is_empty()
}

/// Text of a packed shader or library file.
pub fn packed(name: &str) -> Option<&'static str> {
    if let Some(text) = REPLACED.get_or_init(read_replaced).get(name) {
        return Some(text);
    }
    SHADERS.binary_search_by_key(&name, |s| s.0).ok().map(|i| SHADERS[i].1)
}

fn source<'a>(kernel: &str, module: &'a Module) -> Result<&'a str> {
    match &module.source {
        Source::Text(text) => Ok(text),
        Source::Words(_) | Source::Ptx { .. } => bail!(Runtime, "[vulkan] Kernel {kernel} has no GLSL."),
        Source::File(name) => match packed(name) {
            Some(text) => Ok(text),
            None => bail!(Runtime, "[vulkan] Kernel {kernel}: no packed shader named {name}."),
        },
    }
}

/// Names in the `#include "name"` lines of a text.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let rest = rest.trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(name, _)| name)
    })
}

/// The packed files (name, text) that a text includes, directly or not; those that are missing are empty.
fn reached(text: &str) -> Vec<(&str, &'static str)> {
    let mut files: Vec<(&str, &'static str)> = Vec::new();
    let mut todo: Vec<&str> = includes(text).collect();
    while let Some(name) = todo.pop() {
        if !files.iter().any(|f| f.0 == name) {
            let body = packed(name).unwrap_or_default();
            files.push((name, body));
            todo.extend(includes(body));
        }
    }
    files
}

/// Hash of everything that decides the SPIR-V.
fn key(text: &str, module: &Module, level: OptimizationLevel) -> Key {
    let mut h = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        h.update(&(bytes.len() as u64).to_le_bytes());
        h.update(bytes);
    };
    field(env!("CARGO_PKG_VERSION").as_bytes());
    field(OPTIONS.as_bytes());
    let (version, revision) = shaderc::get_spirv_version();
    field(&version.to_le_bytes());
    field(&revision.to_le_bytes());
    field(&[u8::from(module.spirv16), level as u8]);
    for (name, value) in &module.defines {
        field(name.as_bytes());
        field(value.as_bytes());
    }
    field(text.as_bytes());
    for (name, body) in reached(text) {
        field(name.as_bytes());
        field(body.as_bytes());
    }
    h.finalize().into()
}

/// SPIR-V of a kernel, from the disk cache or the compiler. Errors carry the kernel's name and the log.
pub(crate) fn spirv(kernel: &str, module: &Module) -> Result<Vec<u32>> {
    spirv_at(kernel, module, level(module))
}

/// SPIR-V of a kernel that computes the same by other instructions, for drivers whose compilers do not manage the usual one; none
/// where it is not our compiler's.
pub(crate) fn other_spirv(kernel: &str, module: &Module) -> Option<Result<Vec<u32>>> {
    let other = match level(module) {
        OptimizationLevel::Zero => OptimizationLevel::Performance,
        _ => OptimizationLevel::Zero,
    };
    let ours = matches!(module.source, Source::File(_) | Source::Text(_));
    ours.then(|| spirv_at(kernel, module, other))
}

fn spirv_at(kernel: &str, module: &Module, level: OptimizationLevel) -> Result<Vec<u32>> {
    if let Source::Words(words) = &module.source {
        return Ok(words.to_vec());
    }
    let text = source(kernel, module)?;
    let key = key(text, module, level);
    if let Some(words) = cache::load(&key) {
        STATS.spirv_hits.add(1);
        return Ok(words);
    }
    STATS.spirv_misses.add(1);
    let words = compile(kernel, text, module, level)?;
    cache::store(&key, &words);
    Ok(words)
}

/// Compiles without the cache, and fails for what would not be taken from it; for tests.
#[cfg(test)]
pub(crate) fn check(kernel: &str, module: &Module) -> Result<Vec<u32>> {
    let words = compile(kernel, source(kernel, module)?, module, level(module))?;
    match cache::valid(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>()) {
        Ok(_) => Ok(words),
        Err(e) => bail!(Runtime, "[vulkan] Kernel {kernel} is not valid SPIR-V: {e}"),
    }
}

/// Starts the compiler on a thread of its own if it will be needed, as an empty cache says; the first look at the
/// machine's GPUs takes as long.
pub(in crate::vulkan) fn prepare() {
    if compile_pool::threads() > 0 && !cache::has_spirv() {
        let text = "#version 460\nvoid main() {}\n";
        compile_pool::soon(|| {
            drop(compile("nothing", text, &Module::default(), OptimizationLevel::Performance));
        });
    }
}

/// Files that drivers optimise as well by themselves, and those of which SPIRV-Tools takes out what is not needed; all
/// other code goes through its performance passes, which can take ten times as long as the rest of a compilation. Left
/// to drivers alone, some generated kernels take twice the time (a broadcast column, tanh; NVIDIA 580). H200, first call
/// of sdpa_coop 1297 to 512 ms, of sdpa_vector 685 to 191, reduce (argmax) 974 to 400, rope 812 to 332, qmm_rows 554 to
/// 161, without a difference in speed; of qmm_coop 1082 to 584 (to 200, but 38 us for 34, without any).
const PLAIN: [&str; 14] = [
    "gemv_joined.comp",
    "norm.comp",
    "qmm_rows.comp",
    "radix.comp",
    "reduce.comp",
    "rope.comp",
    "rope_rows.comp",
    "scan.comp",
    "sdpa_coop.comp",
    "sdpa_grad_kv.comp",
    "sdpa_grad_q.comp",
    "sdpa_vector.comp",
    "softmax.comp",
    "sort.comp",
];
const SMALL: [&str; 1] = ["qmm_coop.comp"];
/// As [`PLAIN`], where nothing follows the product in its kernel: H200, float16 8192^3 330 TFLOP/s for 324, with the right
/// side transposed 328 for 314.
const PLAIN_ALONE: [&str; 1] = ["matmul_khr.comp"];

fn level(module: &Module) -> OptimizationLevel {
    let fused = || module.defines.iter().any(|d| d.0 == "FUSED");
    match &module.source {
        Source::File(name) if PLAIN.contains(name) => OptimizationLevel::Zero,
        Source::File(name) if PLAIN_ALONE.contains(name) && !fused() => OptimizationLevel::Zero,
        Source::File(name) if SMALL.contains(name) => OptimizationLevel::Size,
        _ => OptimizationLevel::Performance,
    }
}

fn compile(kernel: &str, text: &str, module: &Module, level: OptimizationLevel) -> Result<Vec<u32>> {
    let _span = trace::span("compile", || format!("{kernel}: GLSL to SPIR-V"));
    if hit(Site::Compile) {
        let detail = format!(" while kernel {kernel} was compiled.");
        return Err(Error::OutOfMemory { op: "vulkan", bytes: 0, detail });
    }
    let start = std::time::Instant::now();
    let compiler = match COMPILER.get_or_init(|| shaderc::Compiler::new().map_err(|e| e.to_string())) {
        Ok(c) => c,
        Err(e) => bail!(Runtime, "[vulkan] The shader compiler does not start: {e}"),
    };
    let defines = module.defines.iter().map(|d| &*d.1);
    let files = prune(defines.chain([text]), &reached(text));
    let mut options = match shaderc::CompileOptions::new() {
        Ok(o) => o,
        Err(e) => bail!(Runtime, "[vulkan] The shader compiler does not start: {e}"),
    };
    use shaderc::{EnvVersion, SpirvVersion, TargetEnv};
    let (env, version) = match module.spirv16 {
        true => (EnvVersion::Vulkan1_3, SpirvVersion::V1_6),
        false => (EnvVersion::Vulkan1_2, SpirvVersion::V1_5),
    };
    options.set_target_env(TargetEnv::Vulkan, env as u32);
    options.set_target_spirv(version);
    for (name, value) in &module.defines {
        options.add_macro_definition(name, Some(value));
    }
    options.set_include_callback(|name, _, _, _| match files.get(name).filter(|_| packed(name).is_some()) {
        Some(text) => Ok(shaderc::ResolvedInclude { resolved_name: name.into(), content: text.clone() }),
        None => Err(format!("no packed shader named {name}")),
    });
    options.set_optimization_level(level);
    if text.contains('\0') || kernel.contains('\0') {
        bail!(Runtime, "[vulkan] Kernel source with a NUL character.");
    }
    let kind = shaderc::ShaderKind::Compute;
    match compiler.compile_into_spirv(text, kind, kernel, "main", Some(&options)) {
        Ok(artifact) => {
            tracing::debug!("compiled {kernel} in {:?}", start.elapsed());
            STATS.spirv_ns.add(start.elapsed().as_nanos() as u64);
            Ok(keep_apart(artifact.as_binary()))
        }
        Err(e) => bail!(Runtime, "[vulkan] Kernel {kernel} does not compile: {e}"),
    }
}

/// Restores `precise`: where the optimiser unrolls a loop, its copies of sums and products lose the decoration
/// NoContraction, and drivers then fuse them. In a module that has the decoration at all, every float sum and
/// product gets it; what may be fused is written as fma.
fn keep_apart(words: &[u32]) -> Vec<u32> {
    const DECORATE: u32 = 71;
    const NO_CONTRACTION: u32 = 42;
    // OpFAdd, OpFSub, OpFMul, OpVectorTimesScalar; the result is their second operand.
    const FUSED: [u32; 4] = [129, 131, 133, 142];
    let (mut insert, mut apart, mut results) = (None, HashSet::new(), Vec::new());
    for instruction in instructions(words) {
        match instruction {
            Ok((at, DECORATE, &[id, NO_CONTRACTION])) => {
                insert = Some(at + 3);
                apart.insert(id);
            }
            Ok((_, op, &[_, id, ..])) if FUSED.contains(&op) => results.push(id),
            Ok(_) => {}
            Err(_) => return words.to_vec(),
        }
    }
    let Some(insert) = insert else { return words.to_vec() };
    let more = results.into_iter().filter(|id| !apart.contains(id));
    let more = more.flat_map(|id| [3 << 16 | DECORATE, id, NO_CONTRACTION]);
    words[..insert].iter().copied().chain(more).chain(words[insert..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        Module { source: Source::Text(text.into()), ..Default::default() }
    }

    #[test]
    fn errors_name_the_kernel_and_quote_the_log() {
        let m = module("#version 460\nvoid main() { nonsense }\n");
        let e =
            compile("broken_kernel", "#version 460\nvoid main() { nonsense }\n", &m, level(&m)).unwrap_err();
        assert!(e.to_string().contains("broken_kernel") && e.to_string().contains("nonsense"), "{e}");
        let text = "#version 460\n#include \"lib/missing.glsl\"\nvoid main() {}\n";
        let e = compile("broken_include", text, &module(text), level(&m)).unwrap_err();
        assert!(e.to_string().contains("lib/missing.glsl"), "{e}");
    }

    #[test]
    fn precise_survives_unrolled_loops() {
        let text = "#version 460
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer B { float x[8], y; };
void main() {
    [[unroll]] for (uint i = 0; i < 8; i++) {
        precise float z = x[i] * y;
        precise float w = z + y;
        x[i] = w;
    }
}
";
        let words = compile("unrolled", text, &module(text), OptimizationLevel::Performance).unwrap();
        let (mut decorated, mut sums) = (0, 0);
        for (_, op, args) in instructions(&words).map(|i| i.unwrap()) {
            decorated += usize::from(op == 71 && args[1] == 42);
            sums += usize::from(op == 129 || op == 133);
        }
        assert!(sums == 16 && decorated >= sums, "{sums} sums and products, {decorated} decorations");
    }

    #[test]
    fn key_sees_source_defines_and_target() {
        let a = module("void main() {}");
        let mut b = a.clone();
        b.defines.push(("X".into(), "1".into()));
        let mut c = a.clone();
        c.spirv16 = true;
        let key = |text, m| key(text, m, level(m));
        let keys = [key("x", &a), key("y", &a), key("x", &b), key("x", &c)];
        for i in 0..4 {
            for j in 0..i {
                assert_ne!(keys[i], keys[j]);
            }
        }
        assert_eq!(key("x", &a), key("x", &a.clone()));
    }

    #[test]
    fn levels_name_files_that_are_there() {
        assert!(PLAIN.iter().chain(&SMALL).all(|name| packed(name).is_some()));
    }

    #[test]
    fn every_packed_kernel_is_found() {
        assert!(packed("fill.comp").is_some() && packed("nothing.comp").is_none());
        assert!(SHADERS.is_sorted_by_key(|s| s.0));
    }
}
