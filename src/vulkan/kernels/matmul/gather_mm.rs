//! Host side of shaders/matmul/gather_mm_table.comp: products of picked matrices and of parts of the inner dimension.
//! A small kernel turns indices into a table of addresses or bounds, which the matrix-product kernels then
//! read; nothing is gathered. Sorted indices of single rows become one tall product whose tiles change the
//! right matrix with the index.

use smallvec::SmallVec;

use super::gemv;
use super::kernel::Table;
use super::warpgroup::codes::Rights;
use super::warpgroup::runs;
use super::{Operand, Problem, REACH, ceil, compact, reach, tiled, zeros};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::layout::{collapse, size_of};
use crate::core::{Dtype, Error, Result};
use crate::kernels::DeviceView;
use crate::kernels::matmul::check_picked;
use crate::vulkan::kernels::elem::{Defines, Push, collapse as join_axes, define, dims, grid};
use crate::vulkan::kernels::elementwise;
use crate::vulkan::tune::gemv::GEMV;
use crate::vulkan::tune::matmul as table;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

pub static GATHER_MM_RUNS: KernelVariant =
    KernelVariant::new("gather_mm_runs", "one product for each pick, for sorted picks too");

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TableKey {
    table: Table,
    /// Whether an operand has indices, and whether they are signed.
    a: Option<bool>,
    b: Option<bool>,
}

impl KernelKey for TableKey {
    fn name(&self) -> String {
        format!("gather_mm_table_{:?}", self.table).to_lowercase()
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        let number = |index: Option<bool>| index.map_or(0, |signed| 1 + u32::from(signed));
        define(&mut d, "A_INDEX", number(self.a));
        define(&mut d, "B_INDEX", number(self.b));
        match self.table {
            Table::Segments => define(&mut d, "SEGMENTS", 1),
            Table::Runs => define(&mut d, "RUNS", table::TALLEST),
            Table::Gather | Table::None => {}
        }
        Module { source: Source::File("gather_mm_table.comp"), defines: d, ..Module::default() }
    }
}

/// One operand: its matrices, and the indices that pick them.
struct Side {
    view: DeviceView,
    index: Option<DeviceView>,
}

impl Side {
    /// Bytes from one matrix of an indexed operand to the next.
    fn step(&self) -> i64 {
        self.view.strides[0] * self.view.dtype.size() as i64
    }

    /// Strides over the batch: of the matrices, or of the indices.
    fn over(&self, batch: usize) -> &[i64] {
        match &self.index {
            Some(i) => &i.strides,
            None => &self.view.strides[..batch],
        }
    }

    fn signed(&self) -> Option<bool> {
        self.index.as_ref().map(|i| i.dtype == Dtype::I32)
    }
}

fn check(op: &str, a: &DeviceView, b: &DeviceView, dst: &DeviceView) -> Result<()> {
    let taken = matches!(dst.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32);
    check_picked(op, a, b, dst, taken)?;
    let last = |v: &DeviceView, i: usize| v.shape[v.ndim() - i];
    let (m, k, n) = (last(a, 2), last(a, 1), last(b, 1));
    let most = reach(dst.dtype.size());
    let far = |v: &DeviceView| Operand::new(v, &[]).reach(last(v, 2), last(v, 1)) >= most;
    if m * n.max(1) >= most || far(a) || far(b) || dst.size() as i64 / (m * n).max(1) >= REACH {
        bail!(Value, "[{op}] A product of {m}x{k} by {k}x{n} matrices is too large for the GPU.");
    }
    Ok(())
}

/// The view itself if its matrices are row- or column-major, else a row-major copy.
fn regular(enc: &mut CommandEncoder, v: &DeviceView) -> Result<DeviceView> {
    let nd = v.ndim();
    let form = Operand::new(v, &[]).form(v.shape[nd - 2], v.shape[nd - 1]);
    if form.is_some() { Ok(v.clone()) } else { elementwise::dense(enc, v) }
}

/// The push block of shaders/matmul/gather_mm_table.comp.
#[derive(Default)]
struct TablePush {
    a: u64,
    b: u64,
    /// Addresses of indices; of the segments, for those.
    index: [u64; 2],
    table: u64,
    dims: u64,
    /// Bytes from one matrix to the next.
    steps: [i64; 2],
    count: u32,
    axes: u32,
    /// Matrices; of segments the inner dimension.
    matrices: [u32; 2],
    size: u32,
}

impl TablePush {
    fn bytes(&self) -> Vec<u8> {
        let [of_a, of_b] = self.index;
        Push::default().u64s(&[self.a, self.b, of_a, of_b, self.table, self.dims]).i64s(&self.steps).u32s(&[
            self.count,
            self.axes,
            self.matrices[0],
            self.matrices[1],
            self.size,
        ])
    }
}

/// Runs the table's kernel for `count` entries of `bytes` each.
fn make_table(
    enc: &mut CommandEncoder,
    key: &TableKey,
    a: &Side,
    b: &Side,
    batch: &[i64],
    bytes: u64,
) -> Result<(u64, u64)> {
    let nb = batch.len();
    let zero: SmallVec<[i64; 6]> = SmallVec::from_elem(0, nb);
    let plain = |s: &Side| if s.index.is_none() { s.over(nb).to_vec() } else { zero.to_vec() };
    let picks = |s: &Side| if s.index.is_some() { s.over(nb).to_vec() } else { zero.to_vec() };
    let lists = [plain(a), picks(a), plain(b), picks(b)];
    let (shape, strides) = collapse(batch, &lists.each_ref().map(|l| l.as_slice()));
    let axes: Vec<(i64, i64)> =
        strides.iter().flat_map(|list| shape.iter().copied().zip(list.iter().copied())).collect();
    let params = dims(enc, &axes)?;
    let count = size_of(batch) as u64;
    let size = count * bytes;
    let table = enc.temp(size as usize)?;
    let at = |s: &Side| s.index.as_ref().map_or(0, |i| i.ptr);
    let push = TablePush {
        a: a.view.ptr,
        b: b.view.ptr,
        index: [at(a), at(b)],
        table,
        dims: params,
        steps: [a.step(), b.step()],
        count: count as u32,
        axes: shape.len() as u32,
        matrices: [a.view.shape[0] as u32, b.view.shape[0] as u32],
        size: a.view.dtype.size() as u32,
    };
    let pipeline = enc.device().pipeline(key)?;
    let reads: Vec<(u64, u64)> = [a, b].iter().filter_map(|s| s.index.as_ref().map(|i| i.range())).collect();
    let groups = grid(enc, count.div_ceil(256));
    enc.dispatch(&pipeline, &push.bytes(), groups, &reads, &[(table, size)])?;
    Ok((table, size))
}

/// The stride from each matrix of an operand without indices to the next, if that is one and positive.
fn one_step(batch: &[i64], s: &Side) -> Option<i64> {
    if s.index.is_some() {
        return None;
    }
    let (shape, strides) = collapse(batch, &[s.over(batch.len())]);
    (shape.len() == 1).then(|| strides[0][0]).filter(|&step| step > 0)
}

/// `dst[i] = a[lhs[i]] @ b[rhs[i]]`: an operand with indices (int32 or uint32) is (n, rows, cols), one without
/// has the batch axes of `dst`. `sorted`: the indices do not decrease. float16, bfloat16 or float32.
pub fn gather_mm(
    enc: &mut CommandEncoder,
    a: &DeviceView,
    b: &DeviceView,
    lhs: Option<&DeviceView>,
    rhs: Option<&DeviceView>,
    dst: &DeviceView,
    sorted: bool,
) -> Result<()> {
    check("gather_mm", a, b, dst)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let nd = dst.ndim();
    let batch = &dst.shape[..nd - 2];
    let count = size_of(batch) as i64;
    let (m, n, k) = (dst.shape[nd - 2], dst.shape[nd - 1], a.shape[a.ndim() - 1]);
    let a = Side { view: regular(enc, a)?, index: lhs.cloned() };
    let b = Side { view: regular(enc, b)?, index: rhs.cloned() };
    // Only tells the alignment of all matrices.
    let operand = |s: &Side| match s.index {
        Some(_) => Operand::new(&s.view, &s.view.strides[..1]),
        None => Operand::new(&s.view, &s.view.strides[..nd - 2]),
    };
    let mut p = Problem {
        batch: SmallVec::from_slice(&[count]),
        right_matrices: b.view.shape[0],
        ..Problem::plain(dst.dtype, [m, n, k], [operand(&a), operand(&b)], dst.range())
    };
    if k == 0 {
        return zeros(enc, &p);
    }
    let (signed_a, signed_b) = (a.signed(), b.signed());
    let long = table::runs(count, p.right_matrices) && count < reach(dst.dtype.size()) / n.max(k);
    let tall = m == 1 && sorted && rhs.is_some() && long && (p.a.cs == 1 || k == 1);
    if let Some(step) = one_step(batch, &a).filter(|_| tall && !GATHER_MM_RUNS.disabled()) {
        (p.m, p.a.rs, p.d_batch) = (count, step, count * n);
        p.batch.clear();
        p.a.batch.clear();
        if by_warpgroups(enc, &p, &b)? {
            return Ok(());
        }
        let key = TableKey { table: Table::Runs, a: None, b: signed_b };
        let table = make_table(enc, &key, &a, &b, batch, 16)?;
        p.table = Some((Table::Runs, table));
        return tiled(enc, &p);
    }
    let key = TableKey { table: Table::Gather, a: signed_a, b: signed_b };
    p.table = Some((Table::Gather, make_table(enc, &key, &a, &b, batch, 16)?));
    if gemv::suits(&p) && !GEMV.disabled() { gemv::run(enc, &p) } else { tiled(enc, &p) }
}

/// Runs the tall product whose rows pick matrices of `b` on warpgroups, where that is the best; whether it did.
fn by_warpgroups(enc: &mut CommandEncoder, p: &Problem, b: &Side) -> Result<bool> {
    let Some(picks) = b.index.as_ref().filter(|i| i.is_row_contiguous()) else { return Ok(false) };
    let turned = p.b.transposed();
    let Some((false, ld)) = turned.form(p.n, p.k).filter(|f| turned.aligned(p.dtype, f.1)) else {
        return Ok(false);
    };
    let (ptr, range, step, count) = (p.b.ptr, p.b.range, b.step(), p.right_matrices);
    let rights = Rights { ptr, range, step, ld, count, factors: None };
    let Some(plan) = runs::plan(enc, p, &rights) else { return Ok(false) };
    match runs::run(enc, p, &rights, picks, plan) {
        Err(Error::OutOfMemory { .. }) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Bounds of `count` segments, held inside 0..k.
fn segment_table(enc: &mut CommandEncoder, segments: &DeviceView, k: i64, count: i64) -> Result<(u64, u64)> {
    let axes = join_axes(segments.shape.iter().copied().zip(segments.strides.iter().copied()));
    let params = dims(enc, &axes)?;
    let size = count as u64 * 8;
    let table = enc.temp(size as usize)?;
    let push = TablePush {
        index: [segments.ptr, 0],
        table,
        dims: params,
        count: count as u32,
        axes: axes.len() as u32,
        matrices: [k as u32, 1],
        size: 1,
        ..TablePush::default()
    };
    let key = TableKey { table: Table::Segments, a: Some(segments.dtype == Dtype::I32), b: None };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, ceil(count, 256) as u64);
    enc.dispatch(&pipeline, &push.bytes(), groups, &[segments.range()], &[(table, size)])?;
    Ok((table, size))
}

/// `dst[i] = a[:, p:q] @ b[p:q]` for each pair (p, q) of `segments`, (.., 2) of int32 or uint32. Bounds are held
/// inside the inner dimension.
pub fn segmented_mm(
    enc: &mut CommandEncoder,
    a: &DeviceView,
    b: &DeviceView,
    segments: &DeviceView,
    dst: &DeviceView,
) -> Result<()> {
    check("segmented_mm", a, b, dst)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let nd = dst.ndim();
    let (m, n, k) = (dst.shape[nd - 2], dst.shape[nd - 1], a.shape[1]);
    let count = dst.size() as i64 / (m * n);
    let (a, b) = (regular(enc, a)?, regular(enc, b)?);
    let sides = [Operand::new(&a, &[0]), Operand::new(&b, &[0])];
    let mut p = Problem {
        batch: SmallVec::from_slice(&[count]),
        ..Problem::plain(dst.dtype, [m, n, k], sides, dst.range())
    };
    if k == 0 {
        return zeros(enc, &p);
    }
    let table = segment_table(enc, segments, k, count)?;
    p.table = Some((Table::Segments, table));
    let work = 2.0 * m as f64 * n as f64 * k as f64;
    if table::reorders(enc.device().profile(), work) {
        let outer = |o: &Operand| !(o.cs == 1 && o.rs >= 0);
        if outer(&p.a.transposed()) {
            p.a = compact(enc, p.dtype, &p.a.transposed(), k, m, &[], 8)?.transposed();
        }
        if outer(&p.b) {
            p.b = compact(enc, p.dtype, &p.b, k, n, &[], 8)?;
        }
    }
    tiled(enc, &p)
}
