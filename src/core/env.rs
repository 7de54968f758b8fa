//! Every environment variable of the library, in one table: name, default, values and effect. Whoever reads one
//! asks here, so that a value is checked in one way; docs/environment.md is written from the table. Values that
//! make no sense count as not set, and `problems` says so once.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a variable may hold.
#[derive(Clone, Copy)]
pub enum Values {
    /// A whole number between two bounds.
    Number(u64, u64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// Names of [`VARIANTS`], separated by commas.
    Variants,
    /// Numbers joined by `x` that fit, or one of some words: how it reads, the check, the words.
    Sizes(&'static str, fn(&[u32]) -> bool, &'static [&'static str]),
    /// Any text: what it stands for.
    Text(&'static str),
    /// A folder that is there.
    Folder,
    /// Calls that shall fail, see [`super::fault`].
    Fault,
}

/// One variable.
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// What holds without it, for the reader of the docs.
    pub default: &'static str,
    /// What it may hold.
    pub values: Values,
    /// What follows from it.
    pub effect: &'static str,
}

const fn var(name: &'static str, default: &'static str, values: Values, effect: &'static str) -> Variable {
    Variable { name, default, values, effect }
}

const SWITCH: Values = Values::Word(&["0", "1"]);

fn tile(v: &[u32]) -> bool {
    matches!(v.len(), 4 | 5) && v.iter().all(|&n| n <= 4096)
}

fn row_threads(n: u32) -> bool {
    [8, 16, 32, 64, 128, 256].contains(&n)
}

fn gemv(v: &[u32]) -> bool {
    matches!(v, &[threads, rows, unroll] if row_threads(threads) && rows <= 64 && unroll <= 64)
}

fn qmm(v: &[u32]) -> bool {
    match *v {
        [threads, rows] => row_threads(threads) && rows <= 8,
        [subgroups, tiles, stretch] => subgroups <= 16 && tiles <= 4 && stretch <= 8,
        _ => false,
    }
}

/// All of them.
pub const VARIABLES: &[Variable] = &[
    var(
        "MLX_VK_DEVICE",
        "by rank",
        Values::Text("index or part of a name"),
        "The adapter that becomes `Device(gpu, 0)`; otherwise discrete GPUs come first, software drivers last",
    ),
    var(
        "MLX_DEFAULT_DEVICE",
        "a GPU that is no software driver, else the CPU",
        Values::Word(&["cpu", "gpu"]),
        "The default device of a program that does not choose one. gpu: software drivers too; without any Vulkan \
         device each operation says why",
    ),
    var(
        "MLX_RANK",
        "none",
        Values::Text("number"),
        "The number of this process in its group, from 0 on; `mlx.launch` sets it",
    ),
    var(
        "MLX_HOSTFILE",
        "none",
        Values::Text("file"),
        "JSON file of a ring: for each process a list of the addresses (`\"address:port\"`) that it listens on; \
         `mlx.launch` writes it",
    ),
    var(
        "MLX_WORLD_SIZE",
        "none",
        Values::Text("number"),
        "How many processes `mlx.launch --backend nccl` starts; it sets it for programs that ask for it",
    ),
    var(
        "MLX_MPI_LIBNAME",
        "`libmpi.so`, `libmpi.so.40`, `libmpich.so.12` or `libmpi.so.12`",
        Values::Text("library"),
        "The MPI library that is opened",
    ),
    var(
        "MLX_RING_VERBOSE",
        "not set",
        Values::Text("anything"),
        "The ring tells on stderr who connects to whom",
    ),
    var(
        "MLX_RING_SECRET",
        "none",
        Values::Text("text"),
        "What all processes of a ring have to know: each proves it on every connection. Official MLX cannot take part",
    ),
    var(
        "MLX_DISTRIBUTED_TIMEOUT",
        "300",
        Values::Number(1, 1_000_000),
        "Seconds that other processes may take to connect, and that nothing may come from them, before an operation \
         of a group fails",
    ),
    var(
        "MLX_VK_WITHOUT",
        "none",
        Values::Text("names of Vulkan features, separated by commas"),
        "Required features that count as lacking on every adapter, to see what is said then (for tests); `software`: \
         software drivers count as hardware",
    ),
    var(
        "MLX_VK_QUIET",
        "0",
        SWITCH,
        "1: nothing is printed while kernels are compiled for their first use. Otherwise a line on stderr says what \
         is, where that is a terminal and it takes more than a second",
    ),
    var(
        "MLX_VK_PROFILE",
        "none",
        Values::Text("file"),
        "Numbers of another device, features to hide and limits to lower: choices and kernels are those of such a \
         device; see tuning.md",
    ),
    var(
        "MLX_VK_CACHE_DIR",
        "`$XDG_CACHE_HOME/mlx-vulkan` or `~/.cache/mlx-vulkan`",
        Values::Text("folder, made when it is missing"),
        "Where compiled shaders and the drivers' pipelines are kept. The folder must be the user's own, and no link",
    ),
    var(
        "MLX_VK_CACHE_MB",
        "256",
        Values::Number(0, 1 << 20),
        "Megabytes that the folder may hold; what was used least recently goes first. 0: nothing is kept",
    ),
    var(
        "MLX_VK_CACHE_DAYS",
        "90",
        Values::Number(1, 36_500),
        "Days after which what nobody used is removed from the folder",
    ),
    var(
        "MLX_VK_STATS",
        "0",
        SWITCH,
        "1: what `mx.vulkan.stats()` knows is printed to stderr when the process ends",
    ),
    var(
        "MLX_VK_DISABLE",
        "none",
        Values::Variants,
        "Kernel variants to route around, for finding the one at fault; see the second table",
    ),
    var(
        "MLX_VK_FALLBACK",
        "error",
        Values::Word(&["error", "warn", "allow"]),
        "What happens when an operation that has no GPU kernel (dense linear algebra) is asked for on a GPU \
         stream. error: ValueError, as in MLX. warn: it runs on the CPU, and each operation says so once. allow: \
         it runs on the CPU. `mx.vulkan.stats()` counts them",
    ),
    var(
        "MLX_VK_MAX_OPS_PER_BUFFER",
        "100",
        Values::Number(1, 1 << 20),
        "Dispatches after which a command buffer is submitted",
    ),
    var(
        "MLX_VK_MAX_MB_PER_BUFFER",
        "50",
        Values::Number(1, 1 << 30),
        "Megabytes touched after which a command buffer is submitted; a software driver: 8",
    ),
    var(
        "MLX_VK_MAX_INFLIGHT_SEQUENCES",
        "8",
        Values::Number(1, 1 << 16),
        "Submissions of a stream that may be unfinished at once; a software driver: 2",
    ),
    var(
        "MLX_VK_MAX_PIPELINES",
        "1024",
        Values::Number(16, 1 << 20),
        "Compiled kernels that a device keeps in memory; those that were used least recently go first",
    ),
    var(
        "MLX_VK_RECORDER",
        "by device",
        SWITCH,
        "Whether a thread of its own records large graphs of `async_eval` while the caller goes on. Without the \
         variable it does so on hosts of four processors or more, for GPUs that are not software",
    ),
    var(
        "MLX_VK_TIMEOUT",
        "none",
        Values::Number(1, 86_400),
        "Seconds after which a GPU counts as lost while somebody waits for it and no command buffer ends. Without the \
         variable the driver decides, if anybody does",
    ),
    var(
        "MLX_VK_FAULT",
        "none",
        Values::Fault,
        "For tests: the n-th call of a kind fails as the driver would let it fail, with `+` all behind it too. \
         docs/reliability.md lists the kinds",
    ),
    var("MLX_VK_FULL_BARRIERS", "0", SWITCH, "1: a barrier before every dispatch; results must not change"),
    var(
        "MLX_VK_UNIFIED",
        "probed",
        SWITCH,
        "0: a device that shares memory with the host is treated like one that does not (staging copies)",
    ),
    var(
        "MLX_VK_COMPILE_ONLY",
        "0",
        SWITCH,
        "1: devices compile kernels and run nothing; what comes of it has no meaning. Drivers without hardware count as \
         devices then. `python -m mlx.info --compile` sets it for the process that it starts",
    ),
    var(
        "MLX_VK_MATMUL_TILE",
        "measured table",
        Values::Sizes("BMxBNxBKxTHREADS or BMxBNxBKxTHREADSxUNROLL", tile, &[]),
        "Tile of the matrix kernels, where a kernel can have it",
    ),
    var(
        "MLX_VK_MATMUL_EPILOGUE",
        "auto",
        Values::Word(&["auto", "all"]),
        "What follows a product in a compiled function, in the product's kernel. auto: where that pays. all: wherever it \
         can be (for benchmarks)",
    ),
    var(
        "MLX_VK_MATMUL_SPEC",
        "auto",
        Values::Word(&["auto", "off", "0", "now"]),
        "Matrix kernels for one exact shape. auto: built in the background once a shape is met again. off or 0: \
         never. now: at the first use, and waited for (for benchmarks)",
    ),
    var(
        "MLX_VK_GEMV",
        "measured table",
        Values::Sizes("THREADSxROWSxUNROLL", gemv, &[]),
        "Layout of the matrix-vector kernel",
    ),
    var(
        "MLX_VK_QMM",
        "measured table",
        Values::Sizes("THREADSxROWS or SUBGROUPSxTILESxSTRETCH", qmm, &["dequantize", "plain"]),
        "Layout of the quantised matrix-vector kernel, or of the one on cooperative matrices; `dequantize`: other \
         quantised products go over dequantised scratch; `plain`: the one on cooperative matrices by ordinary \
         arithmetic, for tests",
    ),
    var(
        "MLX_VK_CONV_SCRATCH",
        "256",
        Values::Number(1, 4096),
        "Mebibytes of scratch memory that a convolution by Winograd's algorithm takes at a time",
    ),
    var(
        "MLX_VK_SDPA_ROWS",
        "8",
        Values::Number(1, 1 << 20),
        "Most queries that the vector kernel of attention takes",
    ),
    var(
        "MLX_VK_SDPA_GROUPS",
        "by device",
        Values::Number(1, 1 << 20),
        "Workgroups that the vector kernel cuts the keys for",
    ),
    var("MLX_VK_SDPA_KEYS", "64", Values::Number(1, 1 << 20), "Least keys of a part"),
    var(
        "MLX_VK_SDPA_SPLITS",
        "by size",
        Values::Number(1, 256),
        "Parts that the keys are cut into, whatever their number",
    ),
    var(
        "MLX_VK_SDPA_COOP",
        "1",
        Values::Word(&["0", "1", "plain", "plain_held"]),
        "0: no attention on cooperative matrices. plain, plain_held: the same kernel with ordinary arithmetic, with \
         scores in shared memory or in registers, for tests",
    ),
    var(
        "MLX_VK_SDPA_TEAMS",
        "8",
        Values::Number(4, 8),
        "Subgroups of a workgroup of attention's matrix kernel with scores in registers: 4 or 8",
    ),
    var(
        "MLX_VK_SORT",
        "by length",
        Values::Word(&["radix", "merge"]),
        "How rows are sorted that one workgroup does not hold",
    ),
    var(
        "MLX_VK_SHADER_DIR",
        "none",
        Values::Folder,
        "Files in it replace packed shaders of the same name (`matmul_tiled.comp`, `matmul/matmul.glsl`)",
    ),
    var(
        "MLX_VK_STREAM_CHUNK_ELEMS",
        "whole batches",
        Values::Number(1, 1 << 40),
        "Rows of the parts that `mx.vulkan.pipeline` cuts batches into, unless it is told",
    ),
    var("MLX_CPU_THREADS", "all cores", Values::Number(1, 1024), "Threads of the CPU kernels"),
    var(
        "MLX_DISABLE_COMPILE",
        "not set",
        Values::Text("anything"),
        "When set, `mx.compile` returns functions that run as they are, as in MLX",
    ),
    var(
        "MLX_TEST_DEVICE",
        "cpu",
        Values::Word(&["cpu", "gpu"]),
        "Device that the tests run on; the library does not read it",
    ),
];

/// Kernel variants that MLX_VK_DISABLE takes out of every choice, and what runs instead.
pub const VARIANTS: &[(&str, &str)] = &[
    ("matmul_nv2", "cooperative matrices of the subgroup, or portable tiles"),
    ("matmul_khr", "portable tiles"),
    ("matmul_split", "products whose inner dimension is not cut into parts"),
    ("matmul_fixed", "kernels for any shape in place of those for one"),
    ("matmul_epilogue", "a kernel of its own for what follows a product in a compiled function"),
    ("gemv", "tiles, for products with a side of at most 8 too"),
    ("gather_mm_runs", "one product for each pick, for sorted picks too"),
    ("conv_depthwise", "the gathered product, one channel to a group"),
    ("conv_pointwise", "the gathered product, for kernels of one element too"),
    ("conv_winograd", "the gathered product, for large 3 x 3 kernels in float32 too"),
    ("qmm_rows", "tiles, or dequantised weights"),
    ("qmm_coop", "the rows' kernel, tiles, or dequantised weights"),
    ("qmm_cols", "tiles, or dequantised weights"),
    ("qmm_tiled", "dequantised weights and the kernels of matmul"),
    ("qmm_dequantize", "quantised tiles"),
    ("qmm_runs", "one product for each pick, for sorted picks too"),
    ("qmm_joined", "a kernel for each quantised product of a row, and for what comes before and after it"),
    ("rope_rows", "a kernel for each rotary embedding, and for the normalisation before it"),
    ("qmm_split", "products whose inner dimension is not cut into parts"),
    ("sdpa", "attention composed of products and softmax"),
    ("sdpa_vector", "tiles, for few queries too, where they hold the head"),
    ("sdpa_split", "the vector kernel over all keys at once"),
    ("sdpa_tile", "the vector kernel, for many queries too"),
    ("sdpa_coop", "portable tiles"),
    ("sdpa_held", "attention's matrix kernel with scores in shared memory"),
    ("softmax_registers", "the kernel that reads a row three times"),
    ("norm_registers", "the kernel that reads a row again"),
    ("reduce_row", "the reduction for any layout"),
    ("reduce_column", "the reduction for any layout"),
    ("reduce_split", "one workgroup for each result, where it can"),
    ("reduce_last", "a second pass, in place of the last workgroup, adds the parts"),
    ("scan_split", "one pass along each axis"),
    ("sort_radix", "merges"),
    ("scatter_atomic", "updates in order, for 32-bit integers too"),
    ("scatter_linked", "sorted updates, for few of them too"),
    ("scatter_owned", "sorted updates, for assignments too"),
    ("elementwise_wide", "one element at a time"),
    ("copy_transpose", "the strided copy"),
    ("block_turns", "the memory that a stream used last, though its next command has to wait for that"),
    ("batch_keep", "a batch for each `async_eval`, and full ones at once, while the GPU is busy too"),
    ("copy_queue", "large copies on the stream that needs them"),
];

static ASKED: AtomicU64 = AtomicU64::new(0);
static READY: AtomicBool = AtomicBool::new(false);

fn variable(name: &str) -> &'static Variable {
    // INVARIANT: a test holds the names in the source against the table.
    VARIABLES.iter().find(|v| v.name == name).expect("a variable of the table")
}

/// Numbers above zero, joined by `x`.
fn joined(text: &str) -> Option<Vec<u32>> {
    text.split('x').map(|s| s.trim().parse().ok().filter(|&n| n > 0)).collect()
}

/// What a value should have been, if it is none.
fn mistake(v: &Variable, text: &str) -> Option<String> {
    let good = |ok: bool, expected: String| (!ok).then_some(expected);
    match v.values {
        Values::Number(low, high) => good(
            text.parse::<u64>().is_ok_and(|n| (low..=high).contains(&n)),
            format!("a whole number from {low} to {high}"),
        ),
        Values::Word(words) => good(words.contains(&text), words.join(", ")),
        Values::Sizes(form, fits, words) => good(
            words.contains(&text) || joined(text).is_some_and(|n| fits(&n)),
            [&[form], words].concat().join(", "),
        ),
        Values::Folder => good(std::path::Path::new(text).is_dir(), "a folder that can be read".into()),
        Values::Fault => {
            good(super::fault::known(text), "kind@n or kind@n+ with a kind of the library".into())
        }
        Values::Variants | Values::Text(_) => None,
    }
}

fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// The value of a variable, if it has one that makes sense.
pub fn value(name: &str) -> Option<String> {
    let text = raw(name)?.to_string_lossy().trim().to_string();
    report();
    mistake(variable(name), &text).is_none().then_some(text)
}

/// Whether a variable is set to anything.
pub fn is_set(name: &str) -> bool {
    std::env::var_os(variable(name).name).is_some()
}

/// Whether a variable of another program, which is none of the table, is set.
pub fn foreign(name: &str) -> bool {
    raw(name).is_some()
}

/// The number of a variable of another program.
pub fn foreign_number(name: &str) -> Option<u64> {
    raw(name)?.to_string_lossy().parse().ok()
}

/// The number of a variable.
pub fn number(name: &str) -> Option<u64> {
    value(name)?.parse().ok()
}

/// The word of a variable.
pub fn word(name: &str) -> Option<&'static str> {
    let text = value(name)?;
    let (Values::Word(words) | Values::Sizes(_, _, words)) = variable(name).values else { return None };
    words.iter().copied().find(|&w| w == text)
}

/// A variable that is 0 or 1.
pub fn switch(name: &str) -> Option<bool> {
    word(name).map(|w| w == "1")
}

/// The numbers of a variable that are joined by `x`.
pub fn sizes(name: &str) -> Option<Vec<u32>> {
    joined(&value(name)?)
}

/// The text of a variable.
pub fn text(name: &str) -> Option<OsString> {
    raw(variable(name).name)
}

/// What is wrong with the environment: bad values, and names that begin like ours and are not in the table.
pub fn problems() -> &'static [String] {
    static FOUND: OnceLock<Vec<String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut list = Vec::new();
        for (key, text) in std::env::vars_os() {
            let (key, text) = (key.to_string_lossy(), text.to_string_lossy());
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            match VARIABLES.iter().find(|v| v.name == key) {
                Some(v) => {
                    if let Some(expected) = mistake(v, text) {
                        let used = v.default.replace('`', "");
                        list.push(format!(
                            "[environment] {key}={text} is passed over, expected {expected}; the default holds: \
                             {used}."
                        ));
                    }
                }
                None if key.starts_with("MLX_VK_") => list.push(format!(
                    "[environment] {key} is no variable of this library; docs/environment.md lists them."
                )),
                None => {}
            }
        }
        let names = raw("MLX_VK_DISABLE").unwrap_or_default().to_string_lossy().into_owned();
        for name in unknown(names.split(',')) {
            list.push(format!(
                "[environment] MLX_VK_DISABLE={name} names no kernel variant; docs/environment.md lists them."
            ));
        }
        list.sort();
        list
    })
}

/// Says on stderr what [`problems`] found, unless that was done or [`taken_over`].
fn report() {
    if !TOLD.swap(true, Ordering::Relaxed) {
        problems().iter().for_each(|p| eprintln!("{p}"));
    }
}

static TOLD: AtomicBool = AtomicBool::new(false);

/// Whoever calls this tells the user about [`problems`].
pub fn taken_over() {
    TOLD.store(true, Ordering::Relaxed);
}

fn unknown<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.map(str::trim).filter(|n| !n.is_empty() && VARIANTS.iter().all(|v| v.0 != *n)).collect()
}

fn bits<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    const { assert!(VARIANTS.len() <= 64) };
    names.filter_map(|n| VARIANTS.iter().position(|v| v.0 == n.trim())).map(|i| 1 << i).sum()
}

/// Whether a kernel variant of [`VARIANTS`] is taken out of the choice.
pub fn disabled(name: &str) -> bool {
    if !READY.load(Ordering::Acquire) {
        report();
        let names = raw("MLX_VK_DISABLE").unwrap_or_default().to_string_lossy().into_owned();
        let mut once: Vec<&str> = names.split(',').map(str::trim).collect();
        once.sort_unstable();
        once.dedup();
        ASKED.store(bits(once.into_iter()), Ordering::Relaxed);
        READY.store(true, Ordering::Release);
    }
    let off = ASKED.load(Ordering::Relaxed);
    off != 0 && off & bits(std::iter::once(name)) != 0
}

/// Takes these variants out of every choice from now on, in place of those of MLX_VK_DISABLE; for tests and for
/// trying the parts of a device. Returns the names that were out before.
///
/// # Errors
/// Value error for a name that is not in [`VARIANTS`].
pub fn set_disabled(names: &[String]) -> super::Result<Vec<&'static str>> {
    if let Some(name) = unknown(names.iter().map(String::as_str)).first() {
        crate::bail!(Value, "[vulkan] {name} names no kernel variant.");
    }
    let before = VARIANTS.iter().map(|v| v.0).filter(|n| disabled(n)).collect();
    let mut once: Vec<&str> = names.iter().map(String::as_str).collect();
    once.sort_unstable();
    once.dedup();
    ASKED.store(bits(once.into_iter()), Ordering::Release);
    Ok(before)
}

/// How a variable's values read in the docs.
pub fn show(values: Values) -> String {
    let code = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
    match values {
        Values::Number(low, high) => format!("{low} to {high}"),
        Values::Word(words) => code(words),
        Values::Variants => "names, separated by commas".into(),
        Values::Sizes(form, _, words) => {
            let forms: Vec<&str> = form.split(" or ").chain(words.iter().copied()).collect();
            code(&forms)
        }
        Values::Text(what) => what.into(),
        Values::Folder => "folder".into(),
        Values::Fault => code(&["kind@n", "kind@n+"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_kind() {
        let bad = |name: &str, text: &str| mistake(variable(name), text).is_some();
        assert!(bad("MLX_VK_MAX_OPS_PER_BUFFER", "0") && bad("MLX_VK_MAX_OPS_PER_BUFFER", "many"));
        assert!(!bad("MLX_VK_MAX_OPS_PER_BUFFER", "7"));
        assert!(bad("MLX_VK_FALLBACK", "yes") && !bad("MLX_VK_FALLBACK", "warn"));
        assert!(
            bad("MLX_VK_GEMV", "32x0x1") && bad("MLX_VK_GEMV", "33x1x1") && !bad("MLX_VK_GEMV", "32x1x1")
        );
        assert!(!bad("MLX_VK_QMM", "dequantize") && bad("MLX_VK_QMM", "32x9") && bad("MLX_VK_QMM", "32"));
        assert!(!bad("MLX_VK_MATMUL_TILE", "128x128x32x128") && bad("MLX_VK_MATMUL_TILE", "128x"));
        assert!(bad("MLX_VK_SHADER_DIR", "/nonexistent/folder"));
    }

    #[test]
    fn names_are_unique_and_variants_fit_a_word() {
        let names: std::collections::HashSet<&str> =
            VARIABLES.iter().map(|v| v.name).chain(VARIANTS.iter().map(|v| v.0)).collect();
        assert_eq!(names.len(), VARIABLES.len() + VARIANTS.len());
        assert_eq!(unknown(["gemv", " nothing ", ""].into_iter()), ["nothing"]);
    }
}
