//! Products of picked matrices and of parts of the inner dimension on the host: views of the operands go to
//! the product kernels of `matmul`, nothing is copied. Neighbouring rows that meet the same matrix are one
//! product, so sorted indices cost one product for each matrix.

use gemm::Parallelism;

use super::{Dims, Element, Mat, each};
use crate::bail;
use crate::core::layout::collapse;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Brain, Half};
use crate::cpu::runtime::pool::SendPtr;
use crate::cpu::runtime::walk::{Axes, Axis, locate};
use crate::kernels::HostView;
use crate::kernels::matmul::check_picked;

/// Axes of a view for walking over its elements by number.
fn axes_of(shape: &[i64], strides: &[i64]) -> Axes {
    let (shape, strides) = collapse(shape, &[strides]);
    (0..shape.len()).map(|i| Axis { n: shape[i] as usize, src: strides[0][i] as isize, dst: 0 }).collect()
}

/// Integers of an int32 or uint32 view, in row-major order.
fn integers(op: &str, v: &HostView) -> Result<Vec<i64>> {
    let axes = axes_of(&v.shape, &v.strides);
    let at = |i: usize| locate(&axes, i).0;
    // SAFETY: offsets come from the view.
    Ok(match v.dtype {
        Dtype::U32 => (0..v.size()).map(|i| unsafe { *v.as_ptr::<u32>().offset(at(i)) }.into()).collect(),
        Dtype::I32 => (0..v.size()).map(|i| unsafe { *v.as_ptr::<i32>().offset(at(i)) }.into()).collect(),
        d => bail!(Value, "[{op}] Expected int32 or uint32 indices, got {d}."),
    })
}

/// Where the matrix of each product starts, in elements.
pub(in crate::cpu) fn starts(
    op: &str,
    v: &HostView,
    index: Option<&HostView>,
    batch: &[i64],
) -> Result<Vec<isize>> {
    let Some(index) = index else {
        let axes = axes_of(batch, &v.strides[..batch.len()]);
        return Ok((0..crate::core::layout::size_of(batch)).map(|i| locate(&axes, i).0).collect());
    };
    let (n, step) = (v.shape[0], v.strides[0]);
    let place = |i: i64| {
        let from_start = if i < 0 { i + n } else { i };
        if !(0..n).contains(&from_start) {
            bail!(Index, "[{op}] Index {i} is out of bounds for {n} matrices.");
        }
        Ok((from_start * step) as isize)
    };
    integers(op, index)?.into_iter().map(place).collect()
}

/// Products `first..first + len` of the batch, as one with the rows of `a` `step` apart where `len` > 1.
struct Job {
    first: usize,
    len: usize,
    step: isize,
}

/// Joins neighbouring products of single rows with one matrix.
fn jobs(a: &[isize], b: &[isize], rows: usize) -> Vec<Job> {
    let mut out: Vec<Job> = Vec::new();
    for i in 0..a.len() {
        if let Some(job) = out.last_mut().filter(|j| rows == 1 && b[j.first] == b[i]) {
            let step = a[i] - a[i - 1];
            if job.len == 1 || step == job.step {
                (job.len, job.step) = (job.len + 1, step);
                continue;
            }
        }
        out.push(Job { first: i, len: 1, step: 0 });
    }
    out
}

fn matrix<T>(v: &HostView) -> Mat<T> {
    let nd = v.ndim();
    Mat { ptr: v.ptr.cast(), rs: v.strides[nd - 2] as isize, cs: v.strides[nd - 1] as isize }
}

/// One product into contiguous rows.
///
/// # Safety
/// As for [`Element::product`].
unsafe fn product<T: Element>(d: Dims, a: Mat<T>, b: Mat<T>, dst: *mut T, par: Parallelism) -> Result<()> {
    // SAFETY: the contract is the same.
    unsafe {
        if (d.m == 1 || d.n == 1) && T::vector(d, a, b, None, dst) {
            return Ok(());
        }
        T::product(d, a, b, None, dst, par)
    }
}

macro_rules! by_dtype {
    ($op:literal, $dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            Dtype::F32 => $f::<f32>($($arg),*),
            Dtype::F64 => $f::<f64>($($arg),*),
            Dtype::F16 => $f::<Half>($($arg),*),
            Dtype::BF16 => $f::<Brain>($($arg),*),
            d => bail!(Value, "[{}] Only real floating point types are supported, got {d}.", $op),
        }
    };
}

/// `dst[i] = a[lhs[i]] @ b[rhs[i]]`. An operand with indices is (n, rows, cols), one without has the batch axes
/// of `dst`, which is contiguous; indices have the batch shape of `dst`.
///
/// # Errors
/// Index error for an index out of range.
pub fn gather_mm(
    a: &HostView,
    b: &HostView,
    lhs: Option<&HostView>,
    rhs: Option<&HostView>,
    dst: &HostView,
) -> Result<()> {
    check_picked("gather_mm", a, b, dst, true)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let batch = &dst.shape[..dst.ndim() - 2];
    let (from_a, from_b) = (starts("gather_mm", a, lhs, batch)?, starts("gather_mm", b, rhs, batch)?);
    by_dtype!("gather_mm", dst.dtype, gather(a, b, &from_a, &from_b, dst))
}

fn gather<T: Element>(
    a: &HostView,
    b: &HostView,
    from_a: &[isize],
    from_b: &[isize],
    dst: &HostView,
) -> Result<()> {
    let nd = dst.ndim();
    let (m, n, k) = (dst.shape[nd - 2] as usize, dst.shape[nd - 1] as usize, a.shape[a.ndim() - 1] as usize);
    let jobs = jobs(from_a, from_b, m);
    let (ma, mb) = (matrix::<T>(a), matrix::<T>(b));
    let out = SendPtr::new(dst.as_ptr::<T>());
    let work = 2 * m * n * k.max(1) * from_a.len() / jobs.len();
    each(jobs.len(), work, |i, par| {
        let job = &jobs[i];
        let mut x = ma.moved(from_a[job.first]);
        if job.len > 1 {
            x.rs = job.step;
        }
        let d = Dims { m: m * job.len, n, k, alpha: 1.0, beta: 0.0 };
        // SAFETY: starts lie inside the views by their strides or checked indices, a step leads from one row to
        // the next; jobs write disjoint results.
        unsafe { product(d, x, mb.moved(from_b[job.first]), out.get().add(job.first * m * n), par) }
    })
}

/// `dst[i] = a[:, p:q] @ b[p:q]` for each pair (p, q) of `segments`, (.., 2); bounds are held inside the inner
/// dimension. `dst` is contiguous.
pub fn segmented_mm(a: &HostView, b: &HostView, segments: &HostView, dst: &HostView) -> Result<()> {
    check_picked("segmented_mm", a, b, dst, true)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let bounds = integers("segmented_mm", segments)?;
    by_dtype!("segmented_mm", dst.dtype, segmented(a, b, &bounds, dst))
}

fn segmented<T: Element>(a: &HostView, b: &HostView, bounds: &[i64], dst: &HostView) -> Result<()> {
    let (m, n, k) = (a.shape[0] as usize, b.shape[1] as usize, a.shape[1]);
    let (ma, mb) = (matrix::<T>(a), matrix::<T>(b));
    let out = SendPtr::new(dst.as_ptr::<T>());
    let span = |i: usize| {
        let p = bounds[2 * i].clamp(0, k);
        (p as usize, (bounds[2 * i + 1].clamp(0, k) - p).max(0) as usize)
    };
    let count = bounds.len() / 2;
    let total: usize = (0..count).map(|i| span(i).1).sum();
    each(count, (2 * m * n * total / count).max(1), |i, par| {
        let (p, len) = span(i);
        let d = Dims { m, n, k: len, alpha: 1.0, beta: 0.0 };
        // SAFETY: p..p + len lies inside both operands; segments write disjoint results.
        unsafe { product(d, ma.from(0, p), mb.from(p, 0), out.get().add(i * m * n), par) }
    })
}
