//! Products with quantised matrices on the host. A few rows meet the codes directly: groups are summed as
//! integers times x and scaled once, so that reading the codes is what takes the time. More rows meet panels
//! of dequantised weights through `gemm`. Sums are float32 and do not depend on the number of threads.

use gemm::Parallelism;

use super::elem::{Brain, Half};
use super::gather_mm::starts;
use super::gemv;
use super::matmul::each;
use super::pool::{SendPtr, parallel_chunks};
use super::quant::{Codec, Float, Rounded, UNIT, by_codec, by_float, factor, half_unit};
use super::simd::multiversion;
use crate::bail;
use crate::core::layout::{show, size_of};
use crate::core::{Dtype, Result};
use crate::kernels::HostView;
use crate::kernels::quant::Format;

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
/// Weights below which a loop stays on one thread.
const GRAIN: usize = 1 << 15;
/// Dequantised elements of a panel.
const PANEL: usize = 1 << 19;
/// Columns that are accumulated together where codes run along the results.
const BLOCK: usize = 256;
/// Length of K that one part sums where blocks of columns alone do not fill the threads.
const PART: usize = 512;

/// One quantised matrix.
#[derive(Clone, Copy)]
struct Matrix {
    f: Format,
    codes: *const u32,
    scales: *const u8,
    biases: Option<*const u8>,
    dtype: Dtype,
    /// Words and groups of a row.
    words: usize,
    groups: usize,
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

    /// Codes of a row from a column on that begins a unit.
    fn codes(&self, row: usize, col: usize) -> *const u32 {
        self.codes.wrapping_add(row * self.words + col / UNIT * self.f.bits as usize)
    }

    /// Scales and biases of `count` groups of a row, as floats; zeros stand for biases that are not there.
    ///
    /// # Safety
    /// The row has these groups.
    unsafe fn factors(&self, row: usize, first: usize, count: usize, out: &mut [Vec<f32>; 2]) {
        let at = row * self.groups + first;
        // SAFETY: by contract.
        let read =
            |p: *const u8| (0..count).map(move |i| unsafe { factor(self.f.mode, self.dtype, p, at + i) });
        let [scales, biases] = out;
        scales.clear();
        scales.extend(read(self.scales));
        biases.clear();
        match self.biases {
            Some(p) => biases.extend(read(p)),
            None => biases.resize(count, 0.0),
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
    fn row(&self, i: usize) -> *const f32 {
        self.data.as_ptr().wrapping_add(i * self.step)
    }

    /// Sums of each group of each row.
    fn sums(&self, group: usize) -> Vec<f32> {
        let of =
            |i: usize| self.data[i * self.step..][..self.len].chunks(group).map(|c| c.iter().sum::<f32>());
        (0..self.count).flat_map(of).collect()
    }
}

/// Independent sums of a product of codes.
const LANES: usize = UNIT / 2;

multiversion! {
    /// Product of a row of affine codes with a row of x, whose group sums are `sums`, but for the sum over the
    /// lanes: inside this function that would lead the compiler to narrower vectors.
    unsafe fn dot<C: Codec>(
        w: *const u32, s: *const f32, b: *const f32, x: *const f32, sums: *const f32, k: usize, group: usize,
        out: &mut [f32; LANES],
    ) {
        let mut total = [0.0f32; LANES];
        let mut bias = 0.0f32;
        // SAFETY: the caller guarantees a row of codes, k / group scales, biases and sums, and k elements of x.
        unsafe {
            for g in 0..k / group {
                let mut acc = [0.0f32; LANES];
                for u in 0..group / UNIT {
                    let mut q = [0.0; UNIT];
                    C::unit(w.add((g * group / UNIT + u) * C::BITS), &mut q);
                    let x = x.add(g * group + u * UNIT);
                    for l in 0..LANES {
                        acc[l] += q[l] * *x.add(l);
                    }
                    for l in 0..LANES {
                        acc[l] += q[l + LANES] * *x.add(l + LANES);
                    }
                }
                let (s, b) = (*s.add(g), *b.add(g));
                for l in 0..LANES {
                    total[l] += s * acc[l];
                }
                bias += b * *sums.add(g);
            }
        }
        *out = total;
        out[0] += bias;
    }
}

/// Sum over the lanes.
#[inline(never)]
fn fold(lanes: &[f32; LANES]) -> f32 {
    let mut t = *lanes;
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            t[l] += t[l + half];
        }
        half /= 2;
    }
    t[0]
}

/// How many rows a kernel takes at once.
trait Count {
    const N: usize;
}
struct One;
struct Two;
struct Four;
impl Count for One {
    const N: usize = 1;
}
impl Count for Two {
    const N: usize = 2;
}
impl Count for Four {
    const N: usize = 4;
}

multiversion! {
    /// Adds `count` units of columns of one row of codes, times x, to `M` lines of sums.
    unsafe fn spread<C: Codec, A: Count>(
        w: *const u32, s: *const f32, b: *const f32, x: [f32; 4], acc: &mut [[f32; BLOCK]; 4], width: usize, group: usize,
    ) {
        // SAFETY: the caller guarantees codes, scales and biases of `width` columns.
        unsafe {
            for u in 0..width.div_ceil(UNIT) {
                let count = UNIT.min(width - u * UNIT);
                let at = w.add(u * C::BITS);
                let mut q = [0.0; UNIT];
                if count == UNIT {
                    C::unit(at, &mut q);
                } else {
                    half_unit::<C>(at, &mut q);
                }
                let part = group.min(UNIT);
                for h in 0..count / part {
                    let g = (u * UNIT + h * part) / group;
                    let (s, b) = (*s.add(g), *b.add(g));
                    for m in 0..A::N {
                        let (s, b) = (x[m] * s, x[m] * b);
                        let to = &mut acc[m][u * UNIT + h * part..][..part];
                        for (y, q) in to.iter_mut().zip(&q[h * part..][..part]) {
                            *y += q * s + b;
                        }
                    }
                }
            }
        }
    }
}

multiversion! {
    /// Values of `width` columns of a row.
    unsafe fn values<C: Codec, R: Rounded>(w: *const u32, s: *const f32, b: *const f32, dst: *mut R, width: usize, group: usize) {
        // SAFETY: the caller guarantees codes, scales and biases of `width` columns, and as many results.
        unsafe {
            for u in 0..width.div_ceil(UNIT) {
                let count = UNIT.min(width - u * UNIT);
                let at = w.add(u * C::BITS);
                let mut q = [0.0; UNIT];
                if count == UNIT {
                    C::unit(at, &mut q);
                } else {
                    half_unit::<C>(at, &mut q);
                }
                let part = group.min(UNIT);
                for h in 0..count / part {
                    let g = (u * UNIT + h * part) / group;
                    let (s, b) = (*s.add(g), *b.add(g));
                    let to = dst.add(u * UNIT + h * part);
                    for l in 0..part {
                        *to.add(l) = R::put(q[h * part + l] * s + b);
                    }
                }
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
    by_float!(OP, dst.dtype, run(x, w, transpose, lhs, rhs, dst))
}

fn run<T: Float>(
    x: &HostView,
    w: &Weights,
    transpose: bool,
    lhs: Option<&HostView>,
    rhs: Option<&HostView>,
    dst: &HostView,
) -> Result<()>
where
    f32: super::elem::To<T>,
{
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
    let src = SendPtr::new(x.as_ptr::<T>());
    let out = SendPtr::new(dst.as_ptr::<T>());
    let (rs, cs) = (x.strides[1] as isize, x.strides[2] as isize);
    let work = 2 * m * n * k.max(1) * from_x.len() / jobs.len();
    each(jobs.len(), work, |i, par| {
        let job = &jobs[i];
        let row = if job.len > 1 { job.step } else { rs };
        let step = k.next_multiple_of(UNIT);
        let mut rows = Rows { data: vec![0.0; m * job.len * step], count: m * job.len, len: k, step };
        let start = src.get().wrapping_offset(from_x[job.first]);
        for (r, line) in rows.data.chunks_mut(step.max(1)).enumerate() {
            let from = start.wrapping_offset(r as isize * row);
            for (c, y) in line[..k].iter_mut().enumerate() {
                // SAFETY: row r and column c of x; starts were checked or follow from the shape.
                *y = unsafe { *from.wrapping_offset(c as isize * cs) }.to();
            }
        }
        let matrix = base.from(from_w[job.first] as usize);
        let to = SendPtr::new(out.get().wrapping_add(job.first * m * n));
        by_codec!(f, product::<T>(&rows, &matrix, transpose, n, to, par));
        Ok(())
    })
}

/// Calls `f` on chunks of `0..n`, in parallel where the product runs so.
fn chunks(par: Parallelism, n: usize, grain: usize, f: impl Fn(std::ops::Range<usize>) + Send + Sync) {
    match par {
        Parallelism::None => f(0..n),
        Parallelism::Rayon(_) => parallel_chunks(n, grain, f),
    }
}

/// One product into contiguous rows of `n` results.
fn product<C: Codec, T: Rounded + 'static>(
    x: &Rows,
    w: &Matrix,
    transpose: bool,
    n: usize,
    out: SendPtr<T>,
    par: Parallelism,
) {
    if x.count > FEW {
        return panels::<C, T>(x, w, transpose, n, out, par);
    }
    if transpose {
        return along::<C, T>(x, w, n, out, par);
    }
    for first in (0..x.count).step_by(4) {
        let take = (x.count - first).min(4);
        // Rows beyond the last repeat it; what comes of them is not stored.
        let line = |i: usize| first + i.min(take - 1);
        match take {
            1 => across::<C, T, One>(x, line, take, w, n, out, par),
            2 => across::<C, T, Two>(x, line, take, w, n, out, par),
            _ => across::<C, T, Four>(x, line, take, w, n, out, par),
        }
    }
}

/// A few rows where codes run along K: a dot product for each result. One row meets the codes as they are; for
/// more the values of a row of codes are made once.
fn along<C: Codec, T: Rounded + 'static>(x: &Rows, w: &Matrix, n: usize, out: SendPtr<T>, par: Parallelism) {
    let group = w.f.group as usize;
    let direct = x.count == 1 && w.f.affine();
    let sums = if direct { x.sums(group) } else { Vec::new() };
    chunks(par, n, (GRAIN / x.len.max(1)).max(1), |r| {
        let mut held = [Vec::new(), Vec::new()];
        let mut line = vec![0.0f32; if direct { 0 } else { x.len }];
        for i in r {
            // SAFETY: row i of w; x and its sums have the lengths that follow; results are disjoint.
            unsafe {
                w.factors(i, 0, w.groups, &mut held);
                let (s, b) = (held[0].as_ptr(), held[1].as_ptr());
                if direct {
                    let mut lanes = [0.0; LANES];
                    dot::<C>(w.codes(i, 0), s, b, x.row(0), sums.as_ptr(), x.len, group, &mut lanes);
                    *out.get().add(i) = T::put(fold(&lanes));
                    continue;
                }
                values::<C, f32>(w.codes(i, 0), s, b, line.as_mut_ptr(), x.len, group);
                for m in 0..x.count {
                    *out.get().add(m * n + i) = T::put(gemv::dot(line.as_ptr(), x.row(m), x.len));
                }
            }
        }
    });
}

/// Up to four rows where codes run along the results: blocks of them are accumulated over K.
fn across<C: Codec, T: Rounded + 'static, A: Count>(
    x: &Rows,
    line: impl Fn(usize) -> usize,
    take: usize,
    w: &Matrix,
    n: usize,
    out: SendPtr<T>,
    par: Parallelism,
) {
    let group = w.f.group as usize;
    let blocks = n.div_ceil(BLOCK);
    let parts = if blocks >= 32 { 1 } else { x.len.div_ceil(PART).max(1) };
    let part = x.len.div_ceil(parts).max(1);
    let lines: [usize; 4] = std::array::from_fn(&line);
    let mut sums = vec![[0.0f32; 4]; parts * n];
    let held_sums = SendPtr::new(sums.as_mut_ptr());
    chunks(par, parts * blocks, (GRAIN / (part * BLOCK)).max(1), |r| {
        let mut held = [Vec::new(), Vec::new()];
        for job in r {
            let (p, j) = (job / blocks, job % blocks * BLOCK);
            let width = BLOCK.min(n - j);
            let mut acc = [[0.0f32; BLOCK]; 4];
            for k in p * part..x.len.min((p + 1) * part) {
                // SAFETY: row k of w has these columns; x has k elements a row.
                unsafe {
                    w.factors(k, j / group, width / group, &mut held);
                    let at = lines.map(|i| x.data[i * x.step + k]);
                    spread::<C, A>(
                        w.codes(k, j),
                        held[0].as_ptr(),
                        held[1].as_ptr(),
                        at,
                        &mut acc,
                        width,
                        group,
                    );
                }
            }
            for c in 0..width {
                // SAFETY: jobs write disjoint sums.
                unsafe { *held_sums.get().add(p * n + j + c) = std::array::from_fn(|m| acc[m][c]) };
            }
        }
    });
    for c in 0..n {
        for m in 0..take {
            let total = (0..parts).map(|p| sums[p * n + c][m]).fold(0.0, |a, b| a + b);
            // SAFETY: one result of the product.
            unsafe { *out.get().add(lines[m] * n + c) = T::put(total) };
        }
    }
}

/// Many rows: panels of columns of the result, each a product with dequantised weights.
fn panels<C: Codec, T: Rounded + 'static>(
    x: &Rows,
    w: &Matrix,
    transpose: bool,
    n: usize,
    out: SendPtr<T>,
    par: Parallelism,
) {
    let (m, k, group) = (x.count, x.len, w.f.group as usize);
    let width = (PANEL / k.max(1)).clamp(BLOCK / 2, BLOCK) / 128 * 128;
    let rows = SendPtr::new(x.data.as_ptr().cast_mut());
    chunks(par, n.div_ceil(width), 1, |r| {
        let mut weights = vec![0.0f32; k * width];
        let mut sums = vec![0.0f32; m * width];
        let mut held = [Vec::new(), Vec::new()];
        for panel in r {
            let j = panel * width;
            let width = width.min(n - j);
            // SAFETY: the columns j.. of the result need these rows, or columns, of w; panels write disjoint
            // results.
            unsafe {
                let (lines, from, len) = if transpose { (width, 0, k) } else { (k, j, width) };
                for i in 0..lines {
                    let row = if transpose { j + i } else { i };
                    w.factors(row, from / group, len / group, &mut held);
                    let to = weights.as_mut_ptr().add(i * len);
                    let (s, b) = (held[0].as_ptr(), held[1].as_ptr());
                    values::<C, f32>(w.codes(row, from), s, b, to, len, group);
                }
                let (rs, cs) = if transpose { (1, k) } else { (width, 1) };
                gemm::gemm(
                    m,
                    width,
                    k,
                    sums.as_mut_ptr(),
                    1,
                    width as isize,
                    false,
                    rows.get().cast_const(),
                    1,
                    x.step as isize,
                    weights.as_ptr(),
                    cs as isize,
                    rs as isize,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    Parallelism::None,
                );
                for i in 0..m {
                    for c in 0..width {
                        *out.get().add(i * n + j + c) = T::put(sums[i * width + c]);
                    }
                }
            }
        }
    });
}
