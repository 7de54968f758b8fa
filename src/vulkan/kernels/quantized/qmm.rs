//! Host side of the products with quantised matrices: shaders/quantized/qmm_rows.comp, qmm_coop.comp, qmm_cols.comp and
//! qmm_tiled.comp (qmm_row.comp and qmm_held.comp by `qmm_joined`), and the way over dequantised scratch and `matmul` where cooperative
//! matrices multiply. Which of them is chosen stands in `tune::quantized`. Indices are read by the kernels, which clamp
//! them to the operands.

use super::chain;
use super::few_picked;
use super::few_rows;
use super::joined_layout;
use super::qmm_joined::{self, Joined, Matrix};
use super::qmm_warpgroup;
use super::quant::{define_format, dequantize, show as show_format};
use super::wide_codes;
use crate::bail;
use crate::core::layout::{row_major, show, size_of};
use crate::core::{Dtype, Result};
use crate::kernels::quantized::quant::Format;
use crate::kernels::{DeviceView, View};
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::elem::{Defines, GridPush, define, float_controls, launch};
use crate::vulkan::kernels::elementwise;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::kernels::matmul::gather_mm;
use crate::vulkan::kernels::matmul::kernel::{Kernel, Push as MatmulPush};
use crate::vulkan::kernels::matmul::{self, REACH, add_sums, ceil, plain, reach, scratch_sums};
use crate::vulkan::report::stats::STATS;
use crate::vulkan::tune::quantized::{
    Choice, Coop, Shape, VECTORS, Variant, choose, choose_of_many, part_of, runs, stage,
};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// A batch of quantised matrices, contiguous: (n, rows, words), (n, rows, groups) and the same.
pub struct Weights<'a> {
    /// How they are read.
    pub format: Format,
    /// Packed codes.
    pub codes: &'a DeviceView,
    /// Scales.
    pub scales: &'a DeviceView,
    /// Biases of affine formats.
    pub biases: Option<&'a DeviceView>,
}

/// Indices of the matrices of each product, int32 or uint32, in the shape of the batch.
pub struct Picks<'a> {
    /// Into x.
    pub lhs: Option<&'a DeviceView>,
    /// Into the codes.
    pub rhs: Option<&'a DeviceView>,
    /// The indices into the codes do not decrease.
    pub sorted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    variant: Variant,
    format: Format,
    dtype: Dtype,
    transpose: bool,
    /// Codes, or rows of x for tiles, are aligned for wide loads.
    aligned: bool,
    /// So are scales and biases, for those of the groups in flight.
    factors: bool,
    partial: bool,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let format = show_format(self.format);
        let turn = if self.transpose { 't' } else { 'n' };
        let name = match self.variant {
            Variant::Rows { threads, rows, vectors, .. } => {
                format!("qmm_rows_{format}_{}_{threads}x{rows}_v{vectors}", self.dtype)
            }
            Variant::Cols { slices, vectors, .. } => {
                format!("qmm_cols_{format}_{}_{slices}_v{vectors}", self.dtype)
            }
            Variant::Coop(c) => {
                let Coop { subgroups, tiles, stretch, vectors, .. } = c;
                format!("qmm_coop_{format}_{}_{subgroups}x{tiles}x{stretch}_v{vectors}", self.dtype)
            }
            Variant::Tiled { bm, bn, runs, .. } => {
                let form = if runs { "_runs" } else { "" };
                format!("qmm_tiled_{format}_{}_{turn}_{bm}x{bn}{form}", self.dtype)
            }
            Variant::Row(_) | Variant::Streamed(_) | Variant::Held(_) | Variant::Dequantize => {
                format!("qmm_dequantize_{format}")
            }
        };
        if self.partial { name + "_split" } else { name }
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        define_format(&mut d, self.format, self.dtype);
        define(&mut d, "TRANSPOSE", u32::from(self.transpose));
        let mut put = |list: &[(&str, u32)]| list.iter().for_each(|(name, v)| define(&mut d, name, v));
        let (mut subgroup_size, mut spirv16) = (None, false);
        let file = match self.variant {
            Variant::Rows { threads, rows, vectors, unit } => {
                let numbers = [("R", rows), ("VECTORS", vectors), ("UNIT", unit), ("STAGE", stage(f))];
                subgroup_size = qmm_joined::define_teams(&mut d, f, threads, &numbers);
                if self.aligned {
                    define(&mut d, "ALIGNED", 1);
                }
                "qmm_rows.comp"
            }
            Variant::Cols { slices, unroll, vectors } => {
                put(&[("SLICES", slices), ("UNROLL", unroll), ("VECTORS", vectors)]);
                "qmm_cols.comp"
            }
            Variant::Coop(c) => {
                define_coop(&mut d, c, self.aligned, self.factors);
                if c.plain {
                    define(&mut d, "PLAIN", 1);
                }
                subgroup_size = (f.subgroup_size_control && !c.plain).then_some(32);
                spirv16 = !c.plain;
                "qmm_coop.comp"
            }
            Variant::Tiled { bm, bn, tm, tn, step, runs } => {
                put(&[("BM", bm), ("BN", bn), ("TM", tm), ("TN", tn), ("STEP", step)]);
                if runs {
                    put(&[("RUNS", 1)]);
                }
                if self.aligned {
                    put(&[("WIDE", 1)]);
                }
                "qmm_tiled.comp"
            }
            Variant::Row(_) | Variant::Streamed(_) | Variant::Held(_) | Variant::Dequantize => {
                "dequantize.comp"
            }
        };
        if self.partial {
            define(&mut d, "PARTIAL", 1);
        }
        Module { source: Source::File(file), defines: d, subgroup_size, spirv16, ..Module::default() }
    }
}

/// The push block of shaders/quantized/qmm.glsl.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Push {
    x: u64,
    w: u64,
    s: u64,
    b: u64,
    d: u64,
    lhs: u64,
    rhs: u64,
    m: u32,
    n: u32,
    k: u32,
    x_rs: u32,
    x_b: u32,
    nx: u32,
    nw: u32,
    d_b: u32,
    tile0: u32,
    batch0: u32,
    k_split: u32,
    flags: u32,
}

impl GridPush for Push {
    fn beginning(self, tile0: u32, batch0: u32) -> Push {
        Push { tile0, batch0, ..self }
    }

    fn bytes(&self) -> &[u8] {
        const { assert!(std::mem::size_of::<Push>() == 7 * 8 + 12 * 4) };
        // SAFETY: repr(C) of 8- and 4-byte fields without padding, as the assertion says.
        unsafe { std::slice::from_raw_parts((self as *const Push).cast(), std::mem::size_of::<Push>()) }
    }
}

fn check(x: &DeviceView, w: &Weights, transpose: bool, picks: &Picks, dst: &DeviceView) -> Result<()> {
    const OP: &str = "quantized_matmul";
    let f = w.format;
    let nd = dst.ndim();
    let fits = nd >= 2 && x.ndim() == 3 && w.codes.ndim() == 3 && w.scales.ndim() == 3 && {
        let (m, n, k) = (dst.shape[nd - 2], dst.shape[nd - 1], x.shape[2]);
        let (rows, cols) = if transpose { (n, k) } else { (k, n) };
        let count = size_of(&dst.shape[..nd - 2]);
        let like = |v: &DeviceView, last: usize| {
            v.is_row_contiguous() && v.shape[..] == [w.codes.shape[0], rows, last as i64]
        };
        let batch = |v: &DeviceView, index: Option<&DeviceView>| match index {
            Some(i) => i.size() == count && matches!(i.dtype, Dtype::U32 | Dtype::I32) && v.shape[0] > 0,
            None => v.shape[0] as usize == count || v.shape[0] == 1,
        };
        cols % i64::from(f.group) == 0
            && like(w.codes, f.words(cols as usize))
            && like(w.scales, f.groups(cols as usize))
            && w.biases.is_none_or(|b| like(b, f.groups(cols as usize)) && b.dtype == w.scales.dtype)
            && w.biases.is_some() == f.affine()
            && x.dtype == dst.dtype
            && x.shape[1] == m
            && dst.is_row_contiguous()
            && (dst.size() == 0 || batch(x, picks.lhs) && batch(w.codes, picks.rhs))
    };
    if !fits {
        bail!(
            Value,
            "[{OP}] Operands {} {}, {} and {} do not give a contiguous {} {} on the GPU.",
            show(&x.shape),
            x.dtype,
            show(&w.codes.shape),
            show(&w.scales.shape),
            show(&dst.shape),
            dst.dtype
        );
    }
    f.check_scales(OP, w.scales.dtype, dst.dtype)
}

/// `dst[i] = x[lhs[i]] @ w[rhs[i]]`, or with the transpose of w. x is (n, rows, k) with any strides and the dtype
/// of `dst`, (batch.., rows, columns) contiguous. An operand without indices has one matrix, or one for each
/// product.
pub fn quantized_matmul(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    transpose: bool,
    picks: &Picks,
    dst: &DeviceView,
) -> Result<()> {
    check(x, w, transpose, picks, dst)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let nd = dst.ndim();
    let (m, n, k) = (dst.shape[nd - 2], dst.shape[nd - 1], x.shape[2]);
    let batch = dst.size() as i64 / (m * n);
    let matrices = w.codes.shape[0];
    // Kernels read indices in order.
    let mut flat = |i: Option<&DeviceView>| -> Result<Option<DeviceView>> {
        let Some(i) = i else { return Ok(None) };
        let i = if i.is_row_contiguous() { i.clone() } else { elementwise::dense(enc, i)? };
        let (shape, strides) = ([batch].into_iter().collect(), [1].into_iter().collect());
        Ok(Some(View { shape, strides, ..i }))
    };
    let (lhs, rhs) = (flat(picks.lhs)?, flat(picks.rhs)?);
    let runs = m == 1 && picks.sorted && rhs.is_some() && runs(batch, matrices);
    let shape = Shape { dtype: dst.dtype, format: w.format, transpose, m, n, k, batch, matrices, runs };
    let picked = lhs.is_some() || rhs.is_some();
    if few_picks(enc, x, w, &shape, [lhs.as_ref(), rhs.as_ref()], dst)? {
        return Ok(());
    }
    let Some(choice) = kernel(enc, x, w, &shape, picked, dst)? else { return Ok(()) };
    STATS.quantized(choice.variant.number(), m, k / i64::from(w.format.group));
    if choice.variant == Variant::Dequantize {
        let picks = Picks { lhs: lhs.as_ref(), rhs: rhs.as_ref(), sorted: picks.sorted };
        return through_values(enc, x, w, transpose, &picks, &shape, dst);
    }
    let size = dst.dtype.size() as i64;
    let vector = 16 / size;
    let steps = [if m == 1 { 0 } else { x.strides[1] }, if x.shape[0] == 1 { 0 } else { x.strides[0] }];
    let forward = (x.strides[2] == 1 || k <= 1) && steps.iter().all(|&s| s >= 0);
    let wide =
        |v: &DeviceView, steps: [i64; 2]| v.ptr.is_multiple_of(16) && steps.iter().all(|s| s % vector == 0);
    let needs_wide = matches!(choice.variant, Variant::Rows { .. } | Variant::Coop(_));
    let x = if forward && (wide(x, steps) || !needs_wide) { x.clone() } else { elementwise::dense(enc, x)? };
    let steps = [if m == 1 { 0 } else { x.strides[1] }, if x.shape[0] == 1 { 0 } else { x.strides[0] }];
    let most = reach(dst.dtype.size());
    let far = steps[0] * m >= most
        || steps[1] >= REACH
        || codes_are_far(w)
        || m * n >= most
        || batch >= REACH
        || (runs && batch * n.max(k) >= most);
    if far && batch == 1 && !picked && m > 1 {
        return by_halves(enc, &x, w, transpose, dst);
    }
    if far {
        bail!(Value, "[quantized_matmul] A product of {m}x{k} by {k}x{n} matrices is too large for the GPU.");
    }
    let aligned = if needs_wide { w.codes.ptr.is_multiple_of(16) } else { wide(&x, steps) };
    let flag = |v: &Option<DeviceView>, at: u32| {
        v.as_ref().map_or(0, |v| (1 | u32::from(v.dtype == Dtype::I32) << 1) << at)
    };
    let pointer = |v: &Option<DeviceView>| v.as_ref().map_or(0, |v| v.ptr);
    let push = Push {
        x: x.ptr,
        w: w.codes.ptr,
        s: w.scales.ptr,
        b: w.biases.map_or(0, |b| b.ptr),
        d: dst.ptr,
        lhs: pointer(&lhs),
        rhs: pointer(&rhs),
        m: m as u32,
        n: n as u32,
        k: k as u32,
        x_rs: steps[0] as u32,
        x_b: steps[1] as u32,
        nx: x.shape[0] as u32,
        nw: matrices as u32,
        d_b: (m * n) as u32,
        k_split: choice.k_split as u32,
        flags: flag(&lhs, 0) | flag(&rhs, 2),
        ..Push::default()
    };
    let mut reads = vec![x.range(), w.codes.range(), w.scales.range()];
    reads.extend([w.biases, lhs.as_ref(), rhs.as_ref()].into_iter().flatten().map(|v| v.range()));
    let factors = factors_are_aligned(&choice, w, &shape);
    let job = Job { push, shape, choice, aligned, factors, reads, write: dst.range() };
    job.run(enc)
}

/// Whether kernels do not reach all of a matrix.
fn codes_are_far(w: &Weights) -> bool {
    let far = |v: &DeviceView| v.shape[1] * v.shape[2] >= reach(v.dtype.size());
    far(w.codes) || far(w.scales)
}

/// A single product in two parts of its rows.
fn by_halves(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    transpose: bool,
    dst: &DeviceView,
) -> Result<()> {
    let (m, rows) = (x.shape[1], dst.ndim() - 2);
    let half = (ceil(m / 2, 256) * 256).min(m - 1);
    let part = |v: &DeviceView, axis: usize, from: i64, to: i64| {
        let mut v = v.clone();
        v.ptr = v.ptr.wrapping_add_signed(from * v.strides[axis] * v.dtype.size() as i64);
        v.shape[axis] = to - from;
        v
    };
    for (from, to) in [(0, half), (half, m)] {
        let picks = Picks { lhs: None, rhs: None, sorted: false };
        quantized_matmul(enc, &part(x, 1, from, to), w, transpose, &picks, &part(dst, rows, from, to))?;
    }
    Ok(())
}

/// What qmm_coop.comp is defined by, besides the format.
pub(super) fn define_coop(d: &mut Defines, c: Coop, aligned: bool, factors: bool) {
    let numbers = [
        ("SUBGROUPS", c.subgroups),
        ("TILES", c.tiles),
        ("STRETCH", c.stretch),
        ("COLS", c.cols),
        ("SIDES", c.sides),
        ("VECTORS", c.vectors),
        ("AHEAD", c.ahead as u32),
    ];
    numbers.into_iter().for_each(|(name, v)| define(d, name, v));
    let flags = [(aligned, "ALIGNED"), (factors, "FACTORS")];
    flags.iter().filter(|x| x.0).for_each(|x| define(d, x.1, 1));
}

/// Whether a subgroup of qmm_coop can read the scales of the two groups that it has in flight at once, and the biases.
pub(super) fn two_factors(c: &Coop, s: &Shape) -> bool {
    let groups = s.k / i64::from(s.format.group);
    c.stretch == 2 && c.vectors == c.cols * c.sides && s.format.affine() && groups % 2 == 0
}

/// Whether it does: they lie where whole words do.
fn factors_are_aligned(choice: &Choice, w: &Weights, s: &Shape) -> bool {
    let Variant::Coop(c) = choice.variant else { return false };
    two_factors(&c, s)
        && w.scales.dtype == s.dtype
        && [Some(w.scales), w.biases].into_iter().flatten().all(|v| v.ptr.is_multiple_of(4))
}

/// What multiplies; none where `qmm_joined` has done so.
fn kernel(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    s: &Shape,
    picked: bool,
    dst: &DeviceView,
) -> Result<Option<Choice>> {
    let device = enc.device();
    let alone = !picked && x.shape[0] == 1;
    for (suits, take) in NATIVE {
        if alone && suits(device, s) && as_joined(enc, x, w, None, dst, take)? {
            return Ok(None);
        }
    }
    let known = |dtype, cols| fragment_probe::known(device, dtype, cols);
    let choice = choose(device.profile(), s, &known);
    if !matches!(choice.variant, Variant::Row(_) | Variant::Streamed(_) | Variant::Held(_)) {
        return Ok(Some(choice));
    }
    let joined: Take = |enc, j, reads, writes| qmm_joined::run(enc, j, reads, writes).map(|()| true);
    let done = alone && as_joined(enc, x, w, None, dst, joined)?;
    Ok((!done).then(|| choose_of_many(device.profile(), s, &known)))
}

/// Kernels in PTX of single products: whether they suit one, and what records it.
const NATIVE: [(Suits, Take); 3] =
    [(wide_codes::suits, wide_codes::run), (few_rows::suits, few_rows::run), (chain::suits, chain::run)];

/// Whether a product is better done by a kernel.
type Suits = fn(&'static Device, &Shape) -> bool;

/// What records joined products; whether it did. All ranges that they read, and write.
type Take = fn(&mut CommandEncoder, &Joined, &[(u64, u64)], &[(u64, u64)]) -> Result<bool>;

/// Records products of rows with the matrices that they pick, one for each, by the kernel of few picks, if that takes them.
fn few_picks(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    s: &Shape,
    picks: [Option<&DeviceView>; 2],
    dst: &DeviceView,
) -> Result<bool> {
    match picks {
        [None, Some(indices)] if x.shape[0] == s.batch && few_picked::suits(enc.device(), s) => {
            as_joined(enc, x, w, Some(indices), dst, few_picked::run)
        }
        _ => Ok(false),
    }
}

/// Records the product of one row, or of few, or of each row with the matrix that it picks, by the kernels of joined ones, if they can read
/// the matrix.
fn as_joined(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    picks: Option<&DeviceView>,
    dst: &DeviceView,
    take: Take,
) -> Result<bool> {
    let parts = [w.codes.ptr, w.scales.ptr, w.biases.map_or(0, |b| b.ptr)];
    let scales = !w.format.affine() || w.scales.dtype == dst.dtype;
    if !joined_layout::aligned(parts) || !scales || codes_are_far(w) {
        return Ok(false);
    }
    let (m, k) = (x.shape[1], x.shape[2]);
    let fits = x.is_row_contiguous() && x.ptr.is_multiple_of(16);
    let x = if fits { x.clone() } else { elementwise::dense(enc, x)? };
    let matrices = [Matrix { rows: dst.shape[dst.ndim() - 1], parts }];
    let results = [dst.ptr];
    let alone = Joined::alone(Some(w.format), dst.dtype, [m, k], x.ptr, &matrices, &results);
    let picked = picks.map(|i| qmm_joined::Picks {
        indices: (i.ptr, i.dtype == Dtype::I32),
        count: x.shape[0],
        matrices: w.codes.shape[0],
        share: 1,
    });
    let joined = Joined { picks: picked, ..alone };
    let mut reads = vec![x.range(), w.codes.range(), w.scales.range()];
    reads.extend([w.biases, picks].into_iter().flatten().map(|v| v.range()));
    take(enc, &joined, &reads, &[dst.range()])
}

/// One product, ready to be recorded.
struct Job {
    push: Push,
    shape: Shape,
    choice: Choice,
    aligned: bool,
    factors: bool,
    reads: Vec<(u64, u64)>,
    write: (u64, u64),
}

impl Job {
    fn run(&self, enc: &mut CommandEncoder) -> Result<()> {
        let s = &self.shape;
        let size = s.dtype.size() as i64;
        let Choice { variant, splits, .. } = self.choice;
        let key = Key {
            variant,
            format: s.format,
            dtype: s.dtype,
            transpose: s.transpose,
            aligned: self.aligned,
            factors: self.factors,
            partial: splits > 1,
        };
        let pipeline = enc.device().pipeline(&key)?;
        let (groups, most, batch) = match variant {
            Variant::Rows { threads, rows, .. } => {
                (ceil(s.n, i64::from(256 / threads * rows)), VECTORS, s.batch)
            }
            Variant::Coop(c) => (ceil(s.n, i64::from(16 * c.tiles)), c.vectors.into(), s.batch),
            Variant::Cols { slices, .. } => (ceil(s.n, i64::from(256 / slices * 8)), VECTORS, s.batch),
            Variant::Tiled { bm, bn, runs, .. } => {
                let rows = if runs { s.batch } else { s.m };
                let batch = if runs { 1 } else { s.batch };
                (ceil(rows, bm.into()) * ceil(s.n, bn.into()), rows, batch)
            }
            Variant::Row(_) | Variant::Streamed(_) | Variant::Held(_) | Variant::Dequantize => return Ok(()),
        };
        let rows = if let Variant::Tiled { runs: true, .. } = variant { s.batch } else { s.m };
        for first in (0..rows).step_by(most.max(1) as usize) {
            let count = (rows - first).min(most);
            enc.describe(
                2.0 * count as f64 * s.n as f64 * s.k as f64 * batch as f64,
                &[batch, count, s.n, s.k],
            );
            let push = Push {
                m: count as u32,
                x: self.push.x + (first * i64::from(self.push.x_rs) * size) as u64,
                d: self.push.d + (first * s.n * size) as u64,
                ..self.push
            };
            if splits == 1 {
                launch(enc, &pipeline, push, groups as u64, 1, batch, &self.reads, &[self.write])?;
                continue;
            }
            let sums = scratch_sums(enc, count * s.n * batch, splits as u32)?;
            let part = Push { d: sums.0, ..push };
            launch(enc, &pipeline, part, groups as u64, splits as u32, batch, &self.reads, &[sums])?;
            let add = MatmulPush {
                d: push.d,
                m: count as u32,
                n: s.n as u32,
                d_rs: s.n as u32,
                d_cs: 1,
                d_b: (s.m * s.n) as u32,
                nb0: 1,
                ..MatmulPush::default()
            };
            let key = plain(Kernel::Reduce, s.dtype);
            add_sums(enc, &key, add, splits as u32, batch, &[sums], self.write)?;
        }
        Ok(())
    }
}

/// The same for a matrix whose values need more memory than there shall be: part by part of its rows.
fn through_parts(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    s: &Shape,
    dst: &DeviceView,
    part: i64,
) -> Result<()> {
    let size = s.dtype.size() as i64;
    let ptr = enc.temp(((part * s.k * size) as usize).next_multiple_of(16))?;
    let flat = |shape: [i64; 2], strides: [i64; 2], v: &DeviceView| View {
        shape: shape.into_iter().collect(),
        strides: strides.into_iter().collect(),
        ..v.clone()
    };
    let x = flat([s.m, s.k], [x.strides[1], x.strides[2]], x);
    let dst = flat([s.m, s.n], [s.n, 1], dst);
    for first in (0..s.n).step_by(part as usize) {
        let rows = part.min(s.n - first);
        let cut = |v: &DeviceView| {
            let mut v = v.clone();
            v.ptr = v.ptr.wrapping_add_signed(first * v.strides[1] * v.dtype.size() as i64);
            v.shape[1] = rows;
            v
        };
        let (codes, scales, biases) = (cut(w.codes), cut(w.scales), w.biases.map(cut));
        let shape = [1, rows, s.k];
        let values =
            View { ptr, dtype: s.dtype, shape: shape.into_iter().collect(), strides: row_major(&shape) };
        dequantize(enc, w.format, &codes, &scales, biases.as_ref(), &values)?;
        let right = flat([s.k, rows], [1, s.k], &values);
        matmul::columns(enc, &x, &right, &dst, first)?;
    }
    Ok(())
}

/// The product over weights that are dequantised first.
fn through_values(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    transpose: bool,
    picks: &Picks,
    s: &Shape,
    dst: &DeviceView,
) -> Result<()> {
    let (rows, cols) = if transpose { (s.n, s.k) } else { (s.k, s.n) };
    let shape = [s.matrices, rows, cols];
    let bytes = size_of(&shape) * s.dtype.size();
    if transpose && qmm_warpgroup::run(enc, x, w, picks, s, dst)? {
        return Ok(());
    }
    if let Some(part) = part_of(s).filter(|_| picks.lhs.is_none()) {
        return through_parts(enc, x, w, s, dst, part);
    }
    let ptr = enc.temp(bytes.next_multiple_of(16))?;
    let mut values =
        View { ptr, dtype: s.dtype, shape: shape.into_iter().collect(), strides: row_major(&shape) };
    dequantize(enc, w.format, w.codes, w.scales, w.biases, &values)?;
    if transpose {
        values = values.permute(&[0, 2, 1]);
    }
    let result = [s.batch, s.m, s.n];
    let dst = View { shape: result.into_iter().collect(), strides: row_major(&result), ..dst.clone() };
    // An operand without indices has the batch of the result.
    let over_batch = |v: &DeviceView, index: Option<&DeviceView>| {
        let mut v = v.clone();
        if index.is_none() && v.shape[0] == 1 {
            (v.shape[0], v.strides[0]) = (s.batch, 0);
        }
        v
    };
    let (x, values) = (over_batch(x, picks.lhs), over_batch(&values, picks.rhs));
    if picks.lhs.is_none() && picks.rhs.is_none() {
        return matmul::matmul(enc, &x, &values, &dst);
    }
    gather_mm::gather_mm(enc, &x, &values, picks.lhs, picks.rhs, &dst, picks.sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::Mode;
    use crate::vulkan::shader::compiler;
    use crate::vulkan::tune::quantized::Ahead;

    #[test]
    fn cooperative_matrices_take_every_format_of_long_groups() {
        let affine = [1, 2, 3, 4, 5, 6, 8].map(|bits| (Mode::Affine, 64, bits));
        for (mode, group, bits) in affine.into_iter().chain([(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8)]) {
            let format = Format::new("test", mode, group, bits).unwrap();
            for (dtype, cols, sides, vectors, stretch, plain) in [
                (Dtype::BF16, 8, 1, 8, 1, false),
                (Dtype::BF16, 8, 1, 2, 1, false),
                (Dtype::F16, 16, 1, 16, 2, false),
                (Dtype::BF16, 16, 2, 32, 1, false),
                (Dtype::F16, 8, 1, 8, 2, true),
            ] {
                let ahead = if sides > 1 { Ahead::Codes } else { Ahead::All };
                let variant = Variant::Coop(Coop {
                    subgroups: 4,
                    tiles: 1,
                    stretch,
                    cols,
                    sides,
                    vectors,
                    ahead,
                    plain,
                });
                let (transpose, aligned, factors) = (true, plain, stretch > 1 && format.affine());
                let key = Key { variant, format, dtype, transpose, aligned, factors, partial: false };
                compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
            }
        }
    }

    #[test]
    fn every_format_compiles() {
        let affine = [1, 2, 3, 4, 5, 6, 8].map(|bits| (Mode::Affine, 64, bits));
        for (mode, group, bits) in
            affine.into_iter().chain([(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)])
        {
            let format = Format::new("test", mode, group, bits).unwrap();
            for variant in [
                Variant::Rows { threads: 32, rows: 2, vectors: 2, unit: 32 },
                Variant::Cols { slices: 8, unroll: 4, vectors: 1 },
                Variant::Tiled { bm: 32, bn: 64, tm: 4, tn: 8, step: 8, runs: bits == 4 },
                Variant::Dequantize,
            ] {
                let transpose = !matches!(variant, Variant::Cols { .. });
                for (dtype, aligned) in [(Dtype::BF16, true), (Dtype::F32, false)] {
                    let key =
                        Key { variant, format, dtype, transpose, aligned, factors: false, partial: false };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}
