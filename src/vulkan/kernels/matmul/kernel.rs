//! Pipelines of the matrix-product family: their keys, the push block they share (shaders/matmul/matmul.glsl)
//! and the specialised pipelines that are built in the background for shapes seen again.
//! Called by `matmul` and `gemv`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::core::env::{KernelVariant, Values, Variable};
use crate::core::fork::Made;
use crate::core::{Dtype, Result};
use crate::kernels::Epilogue;
use crate::vulkan::hal::device::{Device, opened};
use crate::vulkan::hal::features::Features;
use crate::vulkan::kernels::conv::FIXED;
use crate::vulkan::kernels::elem::GridPush;
use crate::vulkan::kernels::elementwise::caps;
use crate::vulkan::shader::compile_pool;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Pipeline, Source};
use crate::vulkan::tune::matmul::{
    Tile, fixed_subgroup, fragment, multiplies, stages, subgroup_grid, team_subgroup, thread_tile,
};
use crate::vulkan::tune::parts::STRETCH;
use crate::vulkan::tune::short::Small;

pub static MATMUL_SPEC: Variable = Variable::new(
    "MLX_VK_MATMUL_SPEC",
    "auto",
    Values::Word(&["auto", "off", "0", "now"]),
    "Matrix kernels for one exact shape. auto: built in the background once a shape is met again. off or 0: \
         never. now: at the first use, and waited for (for benchmarks)",
);

pub static MATMUL_FIXED: KernelVariant =
    KernelVariant::new("matmul_fixed", "kernels for any shape in place of those for one");

/// The push block of shaders/matmul/matmul.glsl.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Push {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub lda: u32,
    pub ldb: u32,
    pub d_rs: u32,
    pub d_cs: u32,
    pub c_rs: u32,
    pub c_cs: u32,
    pub nb0: u32,
    pub a_b: [u32; 2],
    pub b_b: [u32; 2],
    pub c_b: [u32; 2],
    pub d_b: u32,
    pub tile0: u32,
    pub batch0: u32,
    pub k_split: u32,
    pub flags: u32,
    /// Bits of alpha and beta; with an epilogue the address of its block.
    pub tail: [u32; 2],
}

impl GridPush for Push {
    fn beginning(self, tile0: u32, batch0: u32) -> Push {
        Push { tile0, batch0, ..self }
    }

    fn bytes(&self) -> &[u8] {
        const { assert!(size_of::<Push>() == PUSH_BYTES + 4) };
        // SAFETY: repr(C) of 4- and 8-byte fields; the tail padding, if any, is left out.
        unsafe { std::slice::from_raw_parts((self as *const Push).cast(), PUSH_BYTES) }
    }
}

/// Bytes of the block that shaders see.
const PUSH_BYTES: usize = 124;

/// Which shader, with what is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// matmul_nv2.comp; with M, N, K, lda, ldb, ldd and the length of a part of K where it is specialised. `d8`: rows
    /// of the result are multiples of eight elements.
    Nv2 { tile: Tile, d8: bool, dims: Option<[u32; 7]> },
    /// matmul_khr.comp.
    Khr { tile: Tile },
    /// matmul_tiled.comp.
    Tiled { tile: Tile },
    /// matmul_parts.comp.
    Parts { tile: Tile },
    /// matmul_tiled.comp over the blocks that matmul_parts.comp leaves.
    LeftOver { tile: Tile },
    /// matmul_parts_extent.comp; whether K is contiguous.
    PartsExtent { along: bool },
    /// matmul_parts_split.comp; likewise.
    PartsSplit { along: bool },
    /// gemv_rows.comp: threads a row, rows a thread, chunks in flight, vectors.
    Rows { threads: u32, rows: u32, unroll: u32, vectors: u32 },
    /// gemv_cols.comp: parts of K inside the workgroup, vectors.
    Cols { slices: u32, vectors: u32 },
    /// matmul_reduce.comp.
    Reduce,
    /// matmul_copy.comp; `scale` multiplies by beta.
    Copy { scale: bool },
    /// matmul_complex.comp.
    Complex,
    /// matmul_small.comp: powers of two that hold K and N; `together`: one right matrix for all.
    Small { small: Small, together: bool },
    /// conv_depthwise.comp: channels of a thread.
    Depthwise { channels: u32 },
    /// conv_depthwise_grad.comp: channels of a thread, threads along them, kernel elements.
    DepthwiseGradient { channels: u32, lanes: u32, taps: u32 },
}

/// How a convolution reads its input (shaders/conv/conv.glsl).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Spatial axes.
    pub axes: u32,
    /// Gradient of the kernel: the right operand is gathered.
    pub gradient: bool,
    /// Chunks of channels are aligned to 16 bytes.
    pub wide: bool,
    /// Rows of the result are not evenly spaced.
    pub strided: bool,
    /// The geometry, where it is specialised.
    pub fixed: Option<[u32; FIXED]>,
}

/// What stands in the addend's place, if not an addend (shaders/matmul/gather_mm_table.comp).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Nothing.
    None,
    /// Addresses of both operands of each product.
    Gather,
    /// For each row the right operand's address and the end of the rows that meet it.
    Runs,
    /// The part of K of each product.
    Segments,
}

/// Everything that decides a pipeline of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct MatmulKey {
    pub kernel: Kernel,
    pub dtype: Dtype,
    /// Operands are aligned to 16 bytes.
    pub wide: bool,
    /// No chunk of eight elements crosses the end of a row (shaders/matmul/matmul_khr.comp).
    pub whole: bool,
    pub addmm: bool,
    /// Writes float32 sums of a part of K.
    pub partial: bool,
    pub ta: bool,
    pub tb: bool,
    pub table: Table,
    /// What follows the product.
    pub fused: Option<&'static Epilogue>,
    /// For convolutions.
    pub gather: Option<Gather>,
}

impl MatmulKey {
    /// What the shader does besides the product itself.
    fn flags(&self) -> Vec<(&'static str, bool)> {
        let mut flags = vec![("WIDE", self.wide), ("ADDMM", self.addmm), ("PARTIAL", self.partial)];
        flags.push(("WHOLE", self.whole));
        flags.push(("LEFT_OVER", matches!(self.kernel, Kernel::LeftOver { .. })));
        flags.extend([
            ("GATHER", self.table == Table::Gather),
            ("RUNS", self.table == Table::Runs),
            ("SEGMENTS", self.table == Table::Segments),
        ]);
        if let Some(g) = self.gather {
            flags.extend([("CONV", true), ("GATHER_WIDE", g.wide), ("STRIDED", g.strided)]);
            flags.push(("FIXED", g.fixed.is_some()));
        }
        flags
    }

    fn file(&self) -> &'static str {
        match self.kernel {
            Kernel::Nv2 { .. } => "matmul_nv2.comp",
            Kernel::Khr { .. } => "matmul_khr.comp",
            Kernel::Tiled { .. } | Kernel::LeftOver { .. } => "matmul_tiled.comp",
            Kernel::Parts { .. } => "matmul_parts.comp",
            Kernel::PartsExtent { .. } => "matmul_parts_extent.comp",
            Kernel::PartsSplit { .. } => "matmul_parts_split.comp",
            Kernel::Rows { .. } => "gemv_rows.comp",
            Kernel::Cols { .. } => "gemv_cols.comp",
            Kernel::Reduce => "matmul_reduce.comp",
            Kernel::Copy { .. } => "matmul_copy.comp",
            Kernel::Complex => "matmul_complex.comp",
            Kernel::Small { .. } => "matmul_small.comp",
            Kernel::Depthwise { .. } => "conv_depthwise.comp",
            Kernel::DepthwiseGradient { .. } => "conv_depthwise_grad.comp",
        }
    }
}

/// Number of a dtype in the shaders.
pub(in crate::vulkan) fn dtype_code(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::BF16 => 2,
        _ => 3,
    }
}

impl Kernel {
    /// What the kernels of float16 parts, of short products and of separate channels define; the subgroup's size, and whether they
    /// are SPIR-V 1.6.
    fn others(
        self,
        f: &Features,
        put: &mut impl FnMut(&str, u32),
        flags: &mut Vec<(&'static str, bool)>,
    ) -> (Option<u32>, bool) {
        match self {
            Kernel::Parts { tile: t } => {
                let lanes = fixed_subgroup(f).unwrap_or(32);
                let (sm, sn) = subgroup_grid(t, lanes, [16, 16]);
                for (name, v) in [("BM", t.bm), ("BN", t.bn), ("BK", t.bk), ("THREADS", t.threads)] {
                    put(name, v);
                }
                for (name, v) in [("SM", sm), ("SN", sn), ("LANES", lanes)] {
                    put(name, v);
                }
                let matrices = multiplies(f, Dtype::F16, [16; 3]);
                flags.push(("PLAIN", !matrices));
                return ((f.subgroup_size_control && matrices).then_some(lanes), matrices);
            }
            Kernel::PartsExtent { along } => {
                put("STRETCH", STRETCH);
                flags.push(("ALONG", along));
            }
            Kernel::PartsSplit { along } => flags.push(("ALONG", along)),
            Kernel::Small { small, together } => {
                put("KS", small.k);
                put("NS", small.n);
                flags.push(("TOGETHER", together));
            }
            Kernel::Depthwise { channels } => put("CHANNELS", channels),
            Kernel::DepthwiseGradient { channels, lanes, taps } => {
                for (name, v) in [("CHANNELS", channels), ("LANES", lanes), ("TAPS", taps)] {
                    put(name, v);
                }
            }
            _ => {}
        }
        (None, false)
    }
}

impl KernelKey for MatmulKey {
    fn name(&self) -> String {
        let turn = |t: bool| if t { 't' } else { 'n' };
        let mut name = format!("{}_{}", self.file().trim_end_matches(".comp"), self.dtype);
        match self.kernel {
            Kernel::Nv2 { tile, dims, .. } => {
                let form = if dims.is_some() { "_fixed" } else { "" };
                name += &format!("_{}{}_{}{form}", turn(self.ta), turn(self.tb), show(tile));
            }
            Kernel::Parts { tile } => name += &format!("_{}", show(tile)),
            Kernel::Khr { tile } | Kernel::Tiled { tile } | Kernel::LeftOver { tile } => {
                let form = match self.kernel {
                    Kernel::LeftOver { .. } => "_left",
                    _ if self.whole => "_whole",
                    _ => "",
                };
                name += &format!("_{}{}_{}{form}", turn(self.ta), turn(self.tb), show(tile));
            }
            Kernel::Rows { threads, rows, vectors, .. } => name += &format!("_{threads}x{rows}_v{vectors}"),
            Kernel::Cols { slices, vectors } => name += &format!("_{slices}_v{vectors}"),
            Kernel::PartsExtent { along } | Kernel::PartsSplit { along } => {
                name += if along { "_along" } else { "_across" }
            }
            Kernel::Small { small, together } => {
                name += &format!("_{}x{}{}", small.k, small.n, if together { "_together" } else { "" });
            }
            Kernel::Reduce | Kernel::Copy { .. } | Kernel::Complex => {}
            Kernel::Depthwise { .. } | Kernel::DepthwiseGradient { .. } => {}
        }
        if let Some(g) = self.gather {
            let what = if g.gradient { "grad" } else { "out" };
            let form = if g.fixed.is_some() { "_fixed" } else { "" };
            name = format!("conv{}d_{what}_{name}{form}", g.axes);
        }
        if self.partial {
            name += "_split";
        }
        if let Some(e) = self.fused {
            name += &format!("_{}", e.program.name());
        }
        name + match self.table {
            Table::None => "",
            Table::Gather => "_gather",
            Table::Runs => "_runs",
            Table::Segments => "_segments",
        }
    }

    fn module(&self, f: &Features) -> Module {
        let mut defines: Vec<(String, String)> = Vec::new();
        let mut put = |name: &str, value: u32| defines.push((name.to_string(), value.to_string()));
        let mut flags = self.flags();
        let mut subgroup_size = None;
        let mut spirv16 = false;
        let mut spec = Vec::new();
        put("DTYPE", dtype_code(self.dtype));
        put("TA", u32::from(self.ta));
        put("TB", u32::from(self.tb));
        match self.kernel {
            Kernel::Nv2 { tile: t, d8, dims } => {
                flags.extend([("D8", d8), ("SPECIALISED", dims.is_some())]);
                for (name, v) in
                    [("BM", t.bm), ("BN", t.bn), ("BK", t.bk), ("UNROLL", t.unroll), ("THREADS", t.threads)]
                {
                    put(name, v);
                }
                spec.extend(dims.into_iter().flatten());
                spirv16 = true;
            }
            Kernel::Khr { tile: t } => {
                let subgroup = fixed_subgroup(f).unwrap_or(32);
                let [fm, fn_, fk] = fragment(f, self.dtype).unwrap_or([16; 3]);
                let (sm, sn) = subgroup_grid(t, subgroup, [fm, fn_]);
                for (name, v) in [("BM", t.bm), ("BN", t.bn), ("BK", t.bk), ("THREADS", t.threads)] {
                    put(name, v);
                }
                // What is gathered keeps more registers until it is staged: twice as many stages were not tried.
                put("STAGES", if self.gather.is_some() { 1 } else { stages(t) });
                for (name, v) in [("SM", sm), ("SN", sn), ("FM", fm), ("FN", fn_), ("FK", fk)] {
                    put(name, v);
                }
                subgroup_size = f.subgroup_size_control.then_some(subgroup);
                spirv16 = true;
            }
            Kernel::Tiled { tile: t } | Kernel::LeftOver { tile: t } => {
                let (tm, tn) = thread_tile(t);
                for (name, v) in [("BM", t.bm), ("BN", t.bn), ("BK", t.bk), ("TM", tm), ("TN", tn)] {
                    put(name, v);
                }
            }
            Kernel::Parts { .. }
            | Kernel::PartsExtent { .. }
            | Kernel::PartsSplit { .. }
            | Kernel::Small { .. }
            | Kernel::Depthwise { .. }
            | Kernel::DepthwiseGradient { .. } => {
                (subgroup_size, spirv16) = self.kernel.others(f, &mut put, &mut flags);
            }
            Kernel::Rows { threads, rows, unroll, vectors } => {
                for (name, v) in [("TPR", threads), ("R", rows), ("UNROLL", unroll), ("VECTORS", vectors)] {
                    put(name, v);
                }
                if let Some((size, shared)) = team_subgroup(f, threads) {
                    put("SUBGROUP", size);
                    flags.push(("CLUSTERED", shared));
                    subgroup_size = f.subgroup_size_control.then_some(size);
                }
            }
            Kernel::Cols { slices, vectors } => {
                put("SLICES", slices);
                put("VECTORS", vectors);
            }
            Kernel::Copy { scale } => flags.push(("SCALE", scale)),
            Kernel::Reduce | Kernel::Complex => {}
        }
        if let Some(g) = self.gather {
            put("AXES", g.axes);
            put("GRADIENT", u32::from(g.gradient));
            spec.extend(g.fixed.into_iter().flatten());
        }
        if let Some(e) = self.fused {
            defines.extend(e.defines(caps(f)));
        }
        if self.kernel == Kernel::Complex {
            defines.retain(|d| d.0 != "DTYPE");
        }
        defines.extend(flags.iter().filter(|f| f.1).map(|f| (f.0.to_string(), String::new())));
        Module { source: Source::File(self.file()), defines, spec, subgroup_size, spirv16 }
    }
}

fn show(t: Tile) -> String {
    format!("{}x{}x{}x{}", t.bm, t.bn, t.bk, t.threads)
}

/// When pipelines specialised on dimensions are used: MLX_VK_MATMUL_SPEC=off|auto|now.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Off,
    /// From the second use of a shape on, when ready.
    Auto,
    /// At the first use, waiting for the compiler (for benchmarks).
    Now,
}

fn policy() -> Policy {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    let asked = *POLICY.get_or_init(|| match MATMUL_SPEC.word() {
        Some("off" | "0") => Policy::Off,
        Some("now") => Policy::Now,
        _ => Policy::Auto,
    });
    if MATMUL_FIXED.disabled() { Policy::Off } else { asked }
}

/// Life of a specialised pipeline.
enum Special {
    Seen,
    /// Or it could not be built: the general pipeline stays.
    Building,
    Ready,
}

#[derive(Default)]
struct Specials {
    known: HashMap<(u32, MatmulKey), Special>,
    /// The device that was opened last of those seen.
    newest: u32,
}

impl Specials {
    /// Forgets the shapes of devices that were lost before `newest` was opened.
    fn forget_lost(&mut self, newest: u32) {
        self.newest = newest;
        let there: Vec<u32> = opened().into_iter().filter(|d| !d.is_lost()).map(Device::id).collect();
        self.known.retain(|(id, _), _| there.contains(id));
    }
}

/// Most shapes that get a pipeline of their own.
const MAX_SPECIAL: usize = 512;

static SPECIALS: Made<Mutex<Specials>> = Made::new(Default::default);

fn specials() -> MutexGuard<'static, Specials> {
    SPECIALS.lock().unwrap_or_else(|e| e.into_inner())
}

fn build_in_background(device: &'static Device, key: MatmulKey) {
    compile_pool::in_background(move || {
        if device.built(&key).is_ok() {
            specials().known.insert((device.id(), key), Special::Ready);
        }
    });
}

/// The pipeline of `special` if it is ready, else that of `general`; a shape met for the second time has
/// its own pipeline built in the background.
pub fn pipeline_for(
    device: &'static Device,
    general: &MatmulKey,
    special: MatmulKey,
) -> Result<Arc<Pipeline>> {
    match policy() {
        Policy::Off => return device.pipeline(general),
        Policy::Now => return device.pipeline(&special),
        Policy::Auto => {}
    }
    {
        let mut s = specials();
        let id = (device.id(), special);
        match s.known.get(&id) {
            Some(Special::Ready) => {
                drop(s);
                return device.pipeline(&special);
            }
            Some(Special::Building) => {}
            Some(Special::Seen) => {
                s.known.insert(id, Special::Building);
                build_in_background(device, special);
            }
            None => {
                if device.id() > s.newest {
                    s.forget_lost(device.id());
                }
                if s.known.len() < MAX_SPECIAL {
                    s.known.insert(id, Special::Seen);
                }
            }
        }
    }
    device.pipeline(general)
}
