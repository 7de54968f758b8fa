//! Convolutions on the host. Each dense block (see `kernels::conv`) is a product of matrices: rows of input
//! patches, gathered block by block into cache (`conv_columns`), times the kernel. Where a kernel of one
//! element moves nothing, the input is the matrix; where every channel is its own group, loops over the
//! channels are faster (`conv_depthwise`). float16 and bfloat16 are summed in float32 and rounded once.

pub(super) mod columns;
pub(super) mod depthwise;
pub(super) mod patches;

use gemm::Parallelism;

use self::columns::Columns;
use self::patches::Patches;
use super::elementwise;
use super::matmul::{self, Element, Mat};
use super::runtime::elem::{Brain, Half, To};
use super::runtime::pool::{self, SendPtr, parallel_chunks};
use crate::bail;
use crate::core::layout::collapse;
use crate::core::{Dtype, HostBlock, Result};
use crate::kernels::HostView;
use crate::kernels::conv::{Block, Conv, blocks};
use crate::memory::host_block;

/// What products are summed in.
pub(super) trait Sum:
    Copy + Send + Sync + 'static + std::ops::Mul<Output = Self> + std::ops::Add<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
}

impl Sum for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
}

impl Sum for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
}

/// `y` = input `x` convolved with kernel `w`; layouts as in `kernels::conv`, any strides for `x` and `w`,
/// contiguous `y`. dtypes float16, bfloat16, float32, float64.
pub fn output(x: &HostView, w: &HostView, y: &HostView, conv: &Conv) -> Result<()> {
    run(x, w, y, conv, false)
}

/// `dw` = gradient of the kernel: the sum over outputs of `dy` times the input element that met the kernel
/// element there. Any strides for `x` and `dy`, contiguous `dw`.
pub fn weight(x: &HostView, dy: &HostView, dw: &HostView, conv: &Conv) -> Result<()> {
    run(x, dw, dy, conv, true)
}

fn run(x: &HostView, w: &HostView, y: &HostView, conv: &Conv, gradient: bool) -> Result<()> {
    let dst = if gradient { w } else { y };
    conv.check([x, w, y], dst, true)?;
    match dst.dtype {
        Dtype::F32 => typed::<f32>(x, w, y, conv, gradient),
        Dtype::F64 => typed::<f64>(x, w, y, conv, gradient),
        Dtype::F16 => typed::<Half>(x, w, y, conv, gradient),
        Dtype::BF16 => typed::<Brain>(x, w, y, conv, gradient),
        t => bail!(Value, "[conv] Only floating point types are supported, got {t}."),
    }
}

fn typed<T: Element>(x: &HostView, w: &HostView, y: &HostView, conv: &Conv, gradient: bool) -> Result<()>
where
    T::Sum: Sum,
{
    let dst = if gradient { w } else { y };
    let b = blocks(conv, x, w, y);
    if if gradient { b.kernel_gaps } else { b.output_gaps } {
        // SAFETY: the destination is contiguous and ours; zero bytes are zeros of every dtype.
        unsafe { std::ptr::write_bytes(dst.ptr, 0, dst.size() * dst.dtype.size()) };
    }
    for block in &b.list {
        one::<T>(block, gradient)?;
    }
    Ok(())
}

/// Channels that are neighbours, copying a view whose channels are not.
fn near(v: &HostView) -> Result<(HostView, Option<HostBlock>)> {
    let last = v.ndim() - 1;
    if v.strides[last] == 1 || v.shape[last] == 1 {
        return Ok((v.clone(), None));
    }
    let (copy, hold) = elementwise::dense(v)?;
    Ok((copy, Some(hold)))
}

fn one<T: Element>(b: &Block<*mut u8>, gradient: bool) -> Result<()>
where
    T::Sum: Sum,
{
    let (x, _hold_x) = near(&b.x)?;
    let (y, _hold_y) = if gradient { near(&b.y)? } else { (b.y.clone(), None) };
    let b = &Block { x, y, ..b.clone() };
    if b.groups > 1 && b.w.shape.last() == Some(&1) {
        return if gradient { depthwise::weight::<T>(b) } else { depthwise::output::<T>(b) };
    }
    if b.groups == 1 && b.is_pointwise() && pointwise(b, gradient)? {
        return Ok(());
    }
    if gradient { weight_products::<T>(b) } else { output_products::<T>(b) }
}

/// A kernel of one element as a plain product; false where rows of the input or output are not evenly spaced.
fn pointwise(b: &Block<*mut u8>, gradient: bool) -> Result<bool> {
    let (Some(x), Some(y), Some(w)) = (b.x.rows(), b.y.rows(), b.w.rows()) else {
        return Ok(false);
    };
    if gradient {
        if w.is_row_contiguous() {
            matmul::matmul(&y.permute(&[1, 0]), &x, &w)?;
        }
        return Ok(w.is_row_contiguous());
    }
    if y.is_row_contiguous() {
        matmul::matmul(&x, &w.permute(&[1, 0]), &y)?;
    }
    Ok(y.is_row_contiguous())
}

/// Scratch for sums.
pub(super) fn scratch<S>(len: usize) -> Result<(HostBlock, *mut S)> {
    let hold = host_block((len * size_of::<S>()).max(64))?;
    let p = hold.ptr().cast();
    Ok((hold, p))
}

/// Offsets of the elements of a view in row-major order, line by line along its last axis.
pub(super) fn lines(v: &HostView, rows: std::ops::Range<usize>, mut f: impl FnMut(usize, isize)) {
    let outer = v.ndim() - 1;
    for row in rows {
        let (mut rest, mut at) = (row, 0);
        for ax in (0..outer).rev() {
            at += (rest % v.shape[ax] as usize) as i64 * v.strides[ax];
            rest /= v.shape[ax] as usize;
        }
        f(row, at as isize);
    }
}

/// The kernel as rows of sums, one for each output channel: in place where it lies so already.
pub(super) fn kernel_rows<T: Element>(w: &HostView) -> Result<(Mat<T::Sum>, Option<HostBlock>)> {
    let last = w.ndim() - 1;
    let len = w.shape[1..].iter().product::<i64>();
    let (_, strides) = collapse(&w.shape[1..], &[&w.strides[1..]]);
    let flat = strides[0].len() <= 1 && strides[0].first().is_none_or(|&s| s == 1);
    if flat && is_sum::<T>() {
        return Ok((Mat { ptr: w.ptr.cast(), rs: w.strides[0] as isize, cs: 1 }, None));
    }
    let (hold, to) = scratch::<T::Sum>(w.size())?;
    let out = SendPtr::new(to);
    let (width, step) = (w.shape[last] as usize, w.strides[last] as isize);
    parallel_chunks(w.size() / width, (1 << 14) / width + 1, |r| {
        lines(w, r, |row, at| {
            for i in 0..width {
                // SAFETY: the view's own positions; every line is written by one task.
                unsafe {
                    let v: T = *w.as_ptr::<T>().wrapping_offset(at + i as isize * step);
                    *out.get().add(row * width + i) = v.to();
                }
            }
        });
    });
    Ok((Mat { ptr: to, rs: len as isize, cs: 1 }, Some(hold)))
}

/// Whether elements are what sums are made of, so that kernels may write results in place.
fn is_sum<T: Element>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<T::Sum>()
}

/// Bytes of patches that a thread gathers before it multiplies them.
const PATCH_BYTES: usize = 256 << 10;

fn output_products<T: Element>(b: &Block<*mut u8>) -> Result<()>
where
    T::Sum: Sum,
{
    let nd = b.y.ndim();
    let groups = b.groups as usize;
    let (k, n) = (b.w.size() / b.w.shape[0] as usize, b.w.shape[0] as usize / groups);
    let m = b.y.size() / (n * groups);
    let (kernel, _hold) = kernel_rows::<T>(&b.w)?;
    let patches = Patches::new(b);
    let direct = is_sum::<T>() && b.y.is_row_contiguous();
    let rows = (PATCH_BYTES / (k * size_of::<T::Sum>())).clamp(48, 1024).min(m);
    let tasks = m.div_ceil(rows) * groups;
    // Many blocks run beside each other; few and large ones inside.
    let threads = pool::threads();
    let inside = tasks < 2 * threads && threads > 1 && 2 * m * n * k >= 1 << 22;
    let rows = if inside { rows.max((4 * PATCH_BYTES / (k * size_of::<T::Sum>())).min(m)) } else { rows };
    let par = if inside { Parallelism::Rayon(threads) } else { Parallelism::None };
    let failed = std::sync::Mutex::new(None);
    let step = b.y.strides[nd - 1] as isize;
    let task = |t: usize| -> Result<()> {
        let (group, first) = (t % groups, t / groups * rows);
        let count = rows.min(m - first);
        let (_hold, columns) = scratch::<T::Sum>(count * k)?;
        fill::<T>(&patches, first..first + count, group, columns, inside);
        let a = Mat { ptr: columns, rs: k as isize, cs: 1 };
        let w = kernel.from(group * n, 0).transposed();
        if direct {
            // SAFETY: rows first.. of the group's columns of y belong to this task.
            unsafe {
                let to = b.y.as_ptr::<T::Sum>().add(first * n * groups + group * n);
                matmul::multiply(
                    [count, n, k],
                    (to, (n * groups) as isize, 1),
                    false,
                    a,
                    w,
                    [Sum::ONE; 2],
                    par,
                );
            }
            return Ok(());
        }
        let (_hold, sums) = scratch::<T::Sum>(count * n)?;
        // SAFETY: scratch of that size.
        unsafe { matmul::multiply([count, n, k], (sums, n as isize, 1), false, a, w, [Sum::ONE; 2], par) };
        lines(&b.y, first..first + count, |row, at| {
            for i in 0..n {
                // SAFETY: the view's own positions, which belong to this task.
                unsafe {
                    let to = at + (group * n + i) as isize * step;
                    *b.y.as_ptr::<T>().wrapping_offset(to) = (*sums.add((row - first) * n + i)).to();
                }
            }
        });
        Ok(())
    };
    let attempt = |t: usize| {
        if let Err(e) = task(t) {
            *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
        }
    };
    let tasks = m.div_ceil(rows) * groups;
    if inside {
        pool::install(|| (0..tasks).for_each(attempt));
    } else {
        parallel_chunks(tasks, 1, |r| r.for_each(attempt));
    }
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

/// Gathers rows of patches, in parallel where a task has the machine to itself.
fn fill<T: Element>(p: &Patches, rows: std::ops::Range<usize>, group: usize, to: *mut T::Sum, parallel: bool)
where
    T::Sum: Sum,
{
    let columns = Columns { patches: p, group };
    let out = SendPtr::new(to);
    let part = |r: std::ops::Range<usize>| {
        let first = rows.start + r.start;
        // SAFETY: the scratch holds all rows; every row is written by one task.
        unsafe { columns.gather::<T>(first..rows.start + r.end, out.get().add(r.start * p.width())) };
    };
    if parallel {
        parallel_chunks(rows.len(), (1 << 14) / p.width() + 1, part);
    } else {
        part(0..rows.len());
    }
}

fn weight_products<T: Element>(b: &Block<*mut u8>) -> Result<()>
where
    T::Sum: Sum,
{
    let groups = b.groups as usize;
    let (k, n) = (b.w.size() / b.w.shape[0] as usize, b.w.shape[0] as usize / groups);
    let m = b.y.size() / (n * groups);
    let patches = Patches::new(b);
    let direct = is_sum::<T>() && b.w.is_row_contiguous();
    let (_hold, sums) = match direct {
        true => (None, b.w.as_ptr::<T::Sum>()),
        false => scratch::<T::Sum>(n * groups * k).map(|(h, p)| (Some(h), p))?,
    };
    let rows = (16 * PATCH_BYTES / (k * size_of::<T::Sum>())).clamp(256, 4096).min(m);
    let (_hold, columns) = scratch::<T::Sum>(rows * k)?;
    let even = b.y.rows().filter(|_| is_sum::<T>());
    let (_hold, lefts) = scratch::<T::Sum>(if even.is_some() { 0 } else { rows * n })?;
    let threads = pool::threads();
    let parallel = threads > 1 && 2 * m * n * k >= 1 << 20;
    let par = if parallel { Parallelism::Rayon(threads) } else { Parallelism::None };
    let step = b.y.strides[b.y.ndim() - 1] as isize;
    let (sums_at, columns, lefts) = (SendPtr::new(sums), SendPtr::new(columns), SendPtr::new(lefts));
    let all = || {
        let (sums, columns, lefts) = (sums_at.get(), columns.get(), lefts.get());
        for group in 0..groups {
            for first in (0..m).step_by(rows) {
                let count = rows.min(m - first);
                fill::<T>(&patches, first..first + count, group, columns, parallel);
                let left = match &even {
                    Some(y) => Mat { ptr: y.as_ptr(), rs: y.strides[0] as isize, cs: y.strides[1] as isize }
                        .from(first, group * n),
                    None => {
                        lines(&b.y, first..first + count, |row, at| {
                            for i in 0..n {
                                // SAFETY: the view's own positions; scratch holds `rows` lines.
                                unsafe {
                                    let from = at + (group * n + i) as isize * step;
                                    let v: T = *b.y.as_ptr::<T>().wrapping_offset(from);
                                    *lefts.add((row - first) * n + i) = v.to();
                                }
                            }
                        });
                        Mat { ptr: lefts.cast_const(), rs: n as isize, cs: 1 }
                    }
                };
                let right = Mat { ptr: columns.cast_const(), rs: k as isize, cs: 1 };
                // SAFETY: the sums of the group, written by nobody else.
                unsafe {
                    let to = sums.add(group * n * k);
                    matmul::multiply(
                        [n, k, count],
                        (to, k as isize, 1),
                        first > 0,
                        left.transposed(),
                        right,
                        [Sum::ONE; 2],
                        par,
                    );
                }
            }
        }
    };
    if parallel {
        pool::install(all)
    } else {
        all()
    }
    if !direct {
        store::<T>(&b.w, sums);
    }
    Ok(())
}

/// Rounds contiguous sums into a view.
pub(super) fn store<T: Element>(dst: &HostView, sums: *const T::Sum) {
    let last = dst.ndim() - 1;
    let (width, step) = (dst.shape[last] as usize, dst.strides[last] as isize);
    let rows = dst.size() / width;
    lines(dst, 0..rows, |row, at| {
        for i in 0..width {
            // SAFETY: the view's own positions; there are as many sums as elements.
            unsafe {
                let to = dst.as_ptr::<T>().wrapping_offset(at + i as isize * step);
                *to = (*sums.add(row * width + i)).to();
            }
        }
    });
}

/// Sizes and strides of up to three spatial axes, padded in front with axes of length one.
pub(super) fn three<T: Copy>(list: &[T], fill: T) -> [T; 3] {
    let mut out = [fill; 3];
    out[3 - list.len()..].copy_from_slice(list);
    out
}
