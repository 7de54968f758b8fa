//! Products with quantised matrices on the host. A few rows meet the codes directly: groups are summed as
//! integers times x and scaled once, so that reading the codes is what takes the time. More rows meet panels
//! of dequantised weights through `gemm`. Codes are taken in the order in which vectors give them (`dealt`), and
//! the other operand or the result is dealt in the same way. Sums are float32 and do not depend on the number of
//! threads.

use gemm::Parallelism;

use super::qmm_kernels::{BLOCK, Count, Four, One, Three, Two, dots, each_part, fold, spread, values};
use super::quant::{Codec, Float, QUADS, UNIT, by_codec, by_float, dealt, factor};
#[cfg(target_arch = "x86_64")]
use super::tiled::{Right, Source, Split};
#[cfg(target_arch = "x86_64")]
use super::wide;
use crate::bail;
use crate::core::layout::{show, size_of};
use crate::core::{Dtype, Result};
use crate::cpu::matmul::gather_mm::starts;
#[cfg(target_arch = "x86_64")]
use crate::cpu::matmul::tiles::{self, Unit};
use crate::cpu::matmul::{Mat, chunks, each, multiply};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::SendPtr;
use crate::kernels::HostView;
use crate::kernels::quantized::quant::{Format, Mode};

/// A batch of quantised matrices, contiguous: (n, rows, words), (n, rows, groups) and the same.
pub struct Weights<'a> {
    /// How they are read.
    pub format: Format,
    /// Packed codes.
    pub codes: &'a HostView,
    /// Scales.
    pub scales: &'a HostView,
    /// Biases of affine formats.
    pub biases: Option<&'a HostView>,
}

/// Most rows that meet the codes directly.
const FEW: usize = 8;
/// Least rows that meet tiles where a unit of its own multiplies them.
#[cfg(target_arch = "x86_64")]
const TILED: usize = 4;
/// From here on numbers of x meet dequantised weights.
const LARGE: f32 = 1e30;
/// Weights below which a loop stays on one thread.
const GRAIN: usize = 1 << 15;
/// Dequantised elements of a panel.
const PANEL: usize = 1 << 19;
/// Length of K that one part sums where blocks of columns alone do not fill the threads.
const PART: usize = 512;

/// One quantised matrix.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub f: Format,
    pub codes: *const u32,
    pub scales: *const u8,
    pub biases: Option<*const u8>,
    pub dtype: Dtype,
    /// Words and groups of a row.
    pub words: usize,
    pub groups: usize,
}
// SAFETY: a description; kernels only read through it, while the views it came from are alive.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Matrix {
    /// The matrix whose first row is that one.
    fn from(self, row: usize) -> Matrix {
        let at = |p: *const u8| p.wrapping_add(row * self.groups * self.dtype.size());
        Matrix {
            codes: self.codes.wrapping_add(row * self.words),
            scales: at(self.scales),
            biases: self.biases.map(at),
            ..self
        }
    }

    /// Codes of a row.
    pub(super) fn len(&self) -> usize {
        self.groups * self.f.group as usize
    }

    /// Codes of a row from a column on that begins a unit.
    pub(super) fn codes(&self, row: usize, col: usize) -> *const u32 {
        self.codes.wrapping_add(row * self.words + col / UNIT * self.f.bits as usize)
    }

    /// Scales and biases of `count` groups of a row, as floats; zeros stand for biases that are not there, and for
    /// the group beside a last one that is half a unit.
    ///
    /// # Safety
    /// The row has these groups.
    pub(super) unsafe fn factors(&self, row: usize, first: usize, count: usize, out: &mut [Vec<f32>; 2]) {
        let at = row * self.groups + first;
        let [scales, biases] = out;
        // SAFETY: by contract.
        unsafe {
            widen(self.f.mode, self.dtype, self.scales, at, count, scales);
            match self.biases {
                Some(p) => widen(self.f.mode, self.dtype, p, at, count, biases),
                None => {
                    biases.clear();
                    biases.resize(count, 0.0);
                }
            }
        }
        if (self.f.group as usize) < UNIT {
            scales.push(0.0);
            biases.push(0.0);
        }
    }
}

/// Numbers `at..at + count` of scales or biases.
///
/// # Safety
/// They can be read.
unsafe fn widen(mode: Mode, dtype: Dtype, p: *const u8, at: usize, count: usize, out: &mut Vec<f32>) {
    out.clear();
    // SAFETY: by contract; a branch for each dtype, so that the loops are plain.
    unsafe {
        match (mode, dtype) {
            (Mode::Affine, Dtype::BF16) => out.extend(
                std::slice::from_raw_parts(p.cast::<Brain>().add(at), count)
                    .iter()
                    .map(|&x| -> f32 { x.to() }),
            ),
            (Mode::Affine, Dtype::F32) => {
                out.extend_from_slice(std::slice::from_raw_parts(p.cast::<f32>().add(at), count))
            }
            _ => out.extend((at..at + count).map(|i| factor(mode, dtype, p, i))),
        }
    }
}

/// Rows of x as float32, padded with zeros to whole units.
struct Rows {
    data: Vec<f32>,
    count: usize,
    len: usize,
    step: usize,
}

impl Rows {
    /// Whether codes times a number may be too large where weights times it are not.
    fn odd(&self) -> bool {
        self.data.iter().fold(false, |odd, x| odd | (x.is_nan() | (x.abs() >= LARGE)))
    }

    fn row(&self, i: usize) -> *const f32 {
        self.data.as_ptr().wrapping_add(i * self.step)
    }

    /// Sums of the groups of `count` rows, which consist of whole units.
    fn sums(&self, first: usize, count: usize, group: usize) -> Vec<f32> {
        self.data[first * self.step..][..count * self.step].chunks(group).map(|c| c.iter().sum()).collect()
    }
}

/// Where results go.
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub dtype: Dtype,
    pub ptr: SendPtr<u8>,
}

impl Out {
    /// The results from that one on.
    pub(super) fn from(self, i: usize) -> Out {
        Out { ptr: SendPtr::new(self.ptr.get().wrapping_add(i * self.dtype.size())), ..self }
    }

    /// # Safety
    /// Result `i` is there, and nobody else writes it.
    unsafe fn put(self, i: usize, x: f32) {
        // SAFETY: by contract.
        unsafe { self.put_all(i, &[x]) }
    }

    /// # Safety
    /// As many results as `x` is long are there from `i` on, and nobody else writes them.
    #[inline(always)]
    pub(super) unsafe fn put_all(self, i: usize, x: &[f32]) {
        /// # Safety
        /// `to` has room for all of `x`.
        #[inline(always)]
        unsafe fn store<T>(to: *mut T, x: &[f32])
        where
            f32: To<T>,
        {
            for (i, &x) in x.iter().enumerate() {
                // SAFETY: by contract.
                unsafe { *to.add(i) = x.to() }
            }
        }
        let p = self.ptr.get();
        // SAFETY: by contract; the dtype is one of three (`run`).
        unsafe {
            match self.dtype {
                Dtype::F16 => store(p.cast::<Half>().add(i), x),
                Dtype::BF16 => store(p.cast::<Brain>().add(i), x),
                _ => store(p.cast::<f32>().add(i), x),
            }
        }
    }
}

/// Products `first..first + len` of the batch as one, with rows of x that lie `step` apart where `len` > 1.
struct Job {
    first: usize,
    len: usize,
    step: isize,
}

/// Joins neighbouring products of single rows with one matrix.
fn jobs(x: &[isize], w: &[isize], rows: usize) -> Vec<Job> {
    let mut out: Vec<Job> = Vec::new();
    for i in 0..x.len() {
        if let Some(job) = out.last_mut().filter(|j| rows == 1 && w[j.first] == w[i]) {
            let step = x[i] - x[i - 1];
            if job.len == 1 || step == job.step {
                (job.len, job.step) = (job.len + 1, step);
                continue;
            }
        }
        out.push(Job { first: i, len: 1, step: 0 });
    }
    out
}

/// `dst[i] = x[lhs[i]] @ w[rhs[i]]`, or with the transpose of w. x is (n, rows, k) with any strides and the dtype
/// of `dst`, (batch.., rows, columns) contiguous. An operand without indices has one matrix, or one for each
/// product.
///
/// # Errors
/// Index error for an index out of range.
pub fn quantized_matmul(
    x: &HostView,
    w: &Weights,
    transpose: bool,
    lhs: Option<&HostView>,
    rhs: Option<&HostView>,
    dst: &HostView,
) -> Result<()> {
    const OP: &str = "quantized_matmul";
    let f = w.format;
    let nd = dst.ndim();
    let ranks = nd >= 2 && x.ndim() == 3 && w.codes.ndim() == 3 && w.scales.ndim() == 3;
    if !ranks {
        bail!(
            Value,
            "[{OP}] Expected batches of matrices, got {} and {}.",
            show(&x.shape),
            show(&w.codes.shape)
        );
    }
    let (m, n, k) = (dst.shape[nd - 2] as usize, dst.shape[nd - 1] as usize, x.shape[2] as usize);
    let (rows, cols) = if transpose { (n, k) } else { (k, n) };
    let count = size_of(&dst.shape[..nd - 2]);
    let like = |v: &HostView, last: usize| {
        v.is_row_contiguous()
            && v.shape[..] == [w.codes.shape[0], rows as i64, last as i64]
            && cols.is_multiple_of(f.group as usize)
    };
    let batch = |v: &HostView, index: Option<&HostView>| {
        index.map_or(v.shape[0] as usize == count || v.shape[0] == 1, |i| i.size() == count)
    };
    let fits = like(w.codes, f.words(cols))
        && like(w.scales, f.groups(cols))
        && w.biases.is_none_or(|b| like(b, f.groups(cols)) && b.dtype == w.scales.dtype)
        && w.biases.is_some() == f.affine()
        && x.dtype == dst.dtype
        && x.shape[1] as usize == m
        && dst.is_row_contiguous()
        && batch(x, lhs)
        && batch(w.codes, rhs);
    if !fits {
        bail!(
            Value,
            "[{OP}] Operands {} {}, {} and {} do not give a contiguous {} {}.",
            show(&x.shape),
            x.dtype,
            show(&w.codes.shape),
            show(&w.scales.shape),
            show(&dst.shape),
            dst.dtype
        );
    }
    f.check_scales(OP, w.scales.dtype, dst.dtype)?;
    if dst.size() == 0 {
        return Ok(());
    }
    run(x, w, transpose, lhs, rhs, dst)
}

/// `count` rows of `k` elements as float32, `row` and `col` elements apart, dealt or in their order.
///
/// # Safety
/// They can be read.
unsafe fn rows<T: Float>(
    start: *const u8,
    row: isize,
    col: isize,
    count: usize,
    k: usize,
    deal: bool,
) -> Result<Rows>
where
    f32: To<T>,
{
    let step = k.next_multiple_of(UNIT);
    let mut rows = Rows { data: vec![0.0; count * step], count, len: k, step };
    for (r, line) in rows.data.chunks_mut(step.max(1)).enumerate() {
        let from = start.cast::<T>().wrapping_offset(r as isize * row);
        for c in 0..k {
            // SAFETY: by contract.
            line[if deal { dealt(c) } else { c }] = unsafe { *from.wrapping_offset(c as isize * col) }.to();
        }
    }
    Ok(rows)
}

fn run(
    x: &HostView,
    w: &Weights,
    transpose: bool,
    lhs: Option<&HostView>,
    rhs: Option<&HostView>,
    dst: &HostView,
) -> Result<()> {
    let nd = dst.ndim();
    let (m, n, k) = (dst.shape[nd - 2] as usize, dst.shape[nd - 1] as usize, x.shape[2] as usize);
    let count = size_of(&dst.shape[..nd - 2]) as i64;
    let f = w.format;
    // Where each product's matrices start, in elements of x and in rows of w.
    let place = |v: &HostView, step: i64, index: Option<&HostView>| {
        let moved = if index.is_none() && v.shape[0] == 1 { 0 } else { step };
        let along = HostView { strides: [moved, 0, 0].into_iter().collect(), ..v.clone() };
        starts("gather_qmm", &along, index, &[count])
    };
    let from_x = place(x, x.strides[0], lhs)?;
    let from_w = place(w.codes, w.codes.shape[1], rhs)?;
    let jobs = jobs(&from_x, &from_w, m);
    let base = Matrix {
        f,
        codes: w.codes.as_ptr(),
        scales: w.scales.ptr,
        biases: w.biases.map(|b| b.ptr.cast_const()),
        dtype: w.scales.dtype,
        words: w.codes.shape[2] as usize,
        groups: w.scales.shape[2] as usize,
    };
    let src = SendPtr::new(x.ptr);
    let size = x.dtype.size() as isize;
    let out = Out { dtype: dst.dtype, ptr: SendPtr::new(dst.ptr) };
    let (rs, cs) = (x.strides[1] as isize, x.strides[2] as isize);
    let work = 2 * m * n * k.max(1) * from_x.len() / jobs.len();
    each(jobs.len(), work, |i, par| {
        let job = &jobs[i];
        let row = if job.len > 1 { job.step } else { rs };
        let start = src.get().wrapping_offset(from_x[job.first] * size).cast_const();
        let matrix = base.from(from_w[job.first] as usize);
        let out = out.from(job.first * m * n);
        let count = m * job.len;
        // SAFETY: starts were checked or follow from the shape of x.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if transpose {
                let source = Source { ptr: start, row, col: cs, count, k };
                if by_float!("quantized_matmul", x.dtype, taken(source, &matrix, n, out, par))? {
                    return Ok(());
                }
            }
            let rows = by_float!("quantized_matmul", x.dtype, rows(start, row, cs, count, k, transpose))?;
            by_codec!(f, product(&rows, &matrix, transpose, n, out, par));
        }
        Ok(())
    })
}

/// A product with rows of codes by tiles or wide vectors; false where this machine, the format or numbers of x ask for
/// the other loops.
///
/// # Safety
/// The rows of x can be read, and there is room for the results.
#[cfg(target_arch = "x86_64")]
unsafe fn taken<T: Float + Split>(
    x: Source<u8>,
    w: &Matrix,
    n: usize,
    out: Out,
    par: Parallelism,
) -> Result<bool>
where
    f32: To<T>,
{
    if let Some(unit) = tiles::unit()
        && x.count >= if unit == Unit::Matrix { TILED } else { FEW + 1 }
    {
        let x = Source { ptr: x.ptr.cast::<T>(), row: x.row, col: x.col, count: x.count, k: x.k };
        // SAFETY: by contract; the unit is there.
        return Ok(unsafe { by_codec!(w.f, tiled::<T>(x, w, n, out, unit, par)) });
    }
    if x.count > FEW || !wide::takes(w.f) {
        return Ok(false);
    }
    // SAFETY: by contract.
    let rows = unsafe { rows::<T>(x.ptr, x.row, x.col, x.count, x.k, false)? };
    if rows.odd() {
        return Ok(false);
    }
    let codes = wide::Codes {
        format: w.f,
        words: w.codes,
        scales: w.scales,
        biases: w.biases.unwrap_or(std::ptr::null()),
        dtype: w.dtype,
        count: w.words,
        groups: w.groups,
    };
    let dealt = wide::Dealt::new(w.f, &rows.data, rows.step, x.k, x.count);
    for first in (0..x.count).step_by(4) {
        let some = (first, (x.count - first).min(4));
        chunks(par, n, (GRAIN / x.k.max(1)).max(1), |r| {
            // SAFETY: rows of w and x; results are disjoint.
            unsafe {
                wide::products(&codes, &dealt, some, (r.start, r.end), |m, i, y| {
                    if m < x.count {
                        out.put(m * n + i, y);
                    }
                });
            }
        });
    }
    Ok(true)
}

/// A product through tiles, unless numbers of x are out of their range.
///
/// # Safety
/// As for [`taken`]; the unit is there.
#[cfg(target_arch = "x86_64")]
unsafe fn tiled<C: Codec, T: Split>(
    x: Source<T>,
    w: &Matrix,
    n: usize,
    out: Out,
    unit: Unit,
    par: Parallelism,
) -> bool {
    // SAFETY: by contract.
    let right = unsafe { Right::new::<C, T>(x, w.f.group as usize, par) };
    if let Some(right) = &right {
        super::tiled::product::<C>(right, w, n, out, unit, par);
    }
    right.is_some()
}

/// One product into contiguous rows of `n` results.
fn product<C: Codec>(x: &Rows, w: &Matrix, transpose: bool, n: usize, out: Out, par: Parallelism) {
    if x.count > FEW || transpose && x.odd() {
        return panels::<C>(x, w, transpose, n, out, par);
    }
    for first in (0..x.count).step_by(4) {
        let out = out.from(first * n);
        match (transpose, x.count - first) {
            (true, 1) => along::<C, One>(x, first, w, n, out, par),
            (true, 2) => along::<C, Two>(x, first, w, n, out, par),
            (true, 3) => along::<C, Three>(x, first, w, n, out, par),
            (true, _) => along::<C, Four>(x, first, w, n, out, par),
            (false, 1) => across::<C, One>(x, first, w, n, out, par),
            (false, 2) => across::<C, Two>(x, first, w, n, out, par),
            (false, 3) => across::<C, Three>(x, first, w, n, out, par),
            (false, _) => across::<C, Four>(x, first, w, n, out, par),
        }
    }
}

/// `A::N` rows where codes run along K: a dot product for each result.
fn along<C: Codec, A: Count>(x: &Rows, first: usize, w: &Matrix, n: usize, out: Out, par: Parallelism) {
    let group = w.f.group as usize;
    let sums = if C::AFFINE { x.sums(first, A::N, group) } else { Vec::new() };
    let step = x.step;
    chunks(par, n, (GRAIN / x.len.max(1)).max(1), |r| {
        let mut held = [Vec::new(), Vec::new()];
        for i in r {
            let (mut lanes, mut bias) = ([[0.0; QUADS]; 4], [0.0; 4]);
            // SAFETY: row i of w; x has rows of whole units and sums of its groups; results are disjoint.
            unsafe {
                w.factors(i, 0, w.groups, &mut held);
                each_part::<C>(w.codes(i, 0), x.len, |words, unit, units| {
                    let g = unit * UNIT / group;
                    let (s, b) = (held[0].as_ptr().add(g), held[1].as_ptr().add(g));
                    let (x, sums) = (x.row(first).add(unit * UNIT), sums.as_ptr().wrapping_add(g));
                    dots::<C, A>(words, s, b, x, sums, step, w.groups, units, group, &mut lanes, &mut bias);
                });
                for m in 0..A::N {
                    out.put(m * n + i, fold(&lanes[m]) + bias[m]);
                }
            }
        }
    });
}

/// `A::N` rows where codes run along the results: blocks of them are accumulated over K.
fn across<C: Codec, A: Count>(x: &Rows, first: usize, w: &Matrix, n: usize, out: Out, par: Parallelism) {
    let group = w.f.group as usize;
    let blocks = n.div_ceil(BLOCK);
    let parts = if blocks >= 32 { 1 } else { x.len.div_ceil(PART).max(1) };
    let part = x.len.div_ceil(parts).max(1);
    let mut sums = vec![[0.0f32; 4]; parts * n];
    let held_sums = SendPtr::new(sums.as_mut_ptr());
    chunks(par, parts * blocks, (GRAIN / (part * BLOCK)).max(1), |r| {
        let mut held = [Vec::new(), Vec::new()];
        for job in r {
            let (p, j) = (job / blocks, job % blocks * BLOCK);
            let width = BLOCK.min(n - j);
            let mut acc = [[0.0f32; BLOCK]; 4];
            for k in p * part..x.len.min((p + 1) * part) {
                let at =
                    std::array::from_fn(|m| if m < A::N { x.data[(first + m) * x.step + k] } else { 0.0 });
                // SAFETY: row k of w has these columns.
                unsafe {
                    w.factors(k, j / group, width / group, &mut held);
                    each_part::<C>(w.codes(k, j), width, |words, unit, units| {
                        let g = unit * UNIT / group;
                        let (s, b) = (held[0].as_ptr().add(g), held[1].as_ptr().add(g));
                        spread::<C, A>(words, s, b, at, &mut acc, unit * UNIT, units, group);
                    });
                }
            }
            for c in 0..width {
                // SAFETY: jobs write disjoint sums.
                unsafe { *held_sums.get().add(p * n + j + c) = std::array::from_fn(|m| acc[m][dealt(c)]) };
            }
        }
    });
    for c in 0..n {
        for m in 0..A::N {
            let total = (0..parts).map(|p| sums[p * n + c][m]).fold(0.0, |a, b| a + b);
            // SAFETY: one result of the product.
            unsafe { out.put(m * n + c, total) };
        }
    }
}

/// Many rows: panels of columns of the result, each a product with dequantised weights.
fn panels<C: Codec>(x: &Rows, w: &Matrix, transpose: bool, n: usize, out: Out, par: Parallelism) {
    let (m, group) = (x.count, w.f.group as usize);
    // Rows of x that are dealt have their zeros anywhere in the last unit.
    let k = if transpose { x.step } else { x.len };
    let width = (PANEL / k.max(1)).clamp(BLOCK / 2, BLOCK) / 128 * 128;
    let rows = SendPtr::new(x.data.as_ptr().cast_mut());
    chunks(par, n.div_ceil(width), 1, |r| {
        let mut weights = vec![0.0f32; k * width];
        let mut sums = vec![0.0f32; m * width];
        let mut held = [Vec::new(), Vec::new()];
        for panel in r {
            let j = panel * width;
            let real = width.min(n - j);
            let width = real.next_multiple_of(UNIT);
            // SAFETY: the columns j.. of the result need these rows, or columns, of w; panels write disjoint
            // results.
            unsafe {
                let (lines, from, len) = if transpose { (real, 0, x.len) } else { (k, j, real) };
                let line = len.next_multiple_of(UNIT);
                for i in 0..lines {
                    let row = if transpose { j + i } else { i };
                    w.factors(row, from / group, len / group, &mut held);
                    each_part::<C>(w.codes(row, from), len, |words, unit, units| {
                        let g = unit * UNIT / group;
                        let (s, b) = (held[0].as_ptr().add(g), held[1].as_ptr().add(g));
                        let to = weights.as_mut_ptr().add(i * line + unit * UNIT);
                        values::<C>(words, s, b, to, units, group);
                    });
                }
                let (rs, cs) = if transpose { (1, k) } else { (width, 1) };
                let columns = if transpose { real } else { width };
                let a = Mat { ptr: rows.get().cast_const(), rs: x.step as isize, cs: 1 };
                let b = Mat { ptr: weights.as_ptr(), rs: rs as isize, cs: cs as isize };
                let to = (sums.as_mut_ptr(), width as isize, 1);
                multiply([m, columns, k], to, false, a, b, [1.0; 2], Parallelism::None);
                for (i, line) in sums.chunks(width).enumerate().take(m) {
                    let mut order = [0.0f32; BLOCK];
                    let line = if transpose {
                        &line[..real]
                    } else {
                        order.iter_mut().enumerate().take(real).for_each(|(c, x)| *x = line[dealt(c)]);
                        &order[..real]
                    };
                    out.put_all(i * n + j, line);
                }
            }
        }
    });
}
