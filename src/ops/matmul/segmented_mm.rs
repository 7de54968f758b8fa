//! Matrix products over parts of the inner dimension: one result for each segment.

use std::any::Any;

use super::matmul;
use super::products::real_dtype;
use crate::bail;
use crate::core::layout::{checked_size, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Kind, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::elementwise::{
    add, astype, greater_equal, less, logical_and, maximum, minimum, multiply, select,
};
use crate::ops::ranges::arange;
use crate::ops::reduce::sum;
use crate::ops::support::*;
use crate::ops::view::{expand_dims, moveaxis, reshape, slice, swapaxes};
use crate::params;

/// Inputs: (m, k), (k, n) and segments (.., 2), as int32 or uint32.
struct SegmentedMm;

/// The bounds as int32, held inside the inner dimension.
fn clamped(segments: &Array, k: i64, s: Stream) -> Result<Array> {
    let number = |v: i64| scalar_i64(v, segments.dtype());
    let inside = minimum(&maximum(segments, &number(0)?, s)?, &number(k)?, s)?;
    astype(&inside, Dtype::I32, s)
}

/// For each segment and position of the inner dimension, whether the segment holds it: (segments, k).
fn members(segments: &Array, k: i64, s: Stream) -> Result<Array> {
    let flat = reshape(&clamped(segments, k, s)?, &[-1, 2], s)?;
    let count = flat.shape()[0];
    let column = |i: i64| slice(&flat, &[0, i], &[count, i + 1], &[1, 1], s);
    let at = arange(0.0, k as f64, 1.0, Dtype::I32, s)?;
    logical_and(&greater_equal(&at, &column(0)?, s)?, &less(&at, &column(1)?, s)?, s)
}

/// The bounds (n, .., 2) for operands that follow each other along the inner dimension, item i from i * k on.
fn moved(segments: &Array, k: i64, n: i64, s: Stream) -> Result<Array> {
    let mut shape = vec![1i64; segments.ndim()];
    shape[0] = n;
    let item = reshape(&arange(0.0, n as f64, 1.0, Dtype::I32, s)?, &shape, s)?;
    add(&clamped(segments, k, s)?, &multiply(&item, &scalar_i64(k, Dtype::I32)?, s)?, s)
}

impl Primitive for SegmentedMm {
    fn name(&self) -> &str {
        "segmented_mm"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, b, segments) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_in(&inputs[2])?);
        crate::cpu::matmul::gather_mm::segmented_mm(&a, &b, &segments, &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, b) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let segments = dev_in(enc, &inputs[2])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::matmul::gather_mm::segmented_mm(enc, &a, &b, &segments, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let s = r.stream;
        let (a, b) = (&r.primals[0], &r.primals[1]);
        let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
        let cot = reshape(&r.cotangents[0], &[r.outputs[0].size() as i64 / (m * n).max(1), m, n], s)?;
        r.each(|i| {
            // Every segment's product with the other operand, where the segment holds the position.
            let (full, axis) = match i {
                0 => (matmul(&cot, &swapaxes(b, 0, 1, s)?, s)?, 1),
                1 => (matmul(&swapaxes(a, 0, 1, s)?, &cot, s)?, 2),
                _ => bail!(Value, "[segmented_mm] Cannot calculate VJP with respect to segments."),
            };
            let held = expand_dims(&members(&r.primals[2], k, s)?, &[axis], s)?;
            let zero = scalar_f64(0.0, full.dtype())?;
            sum(&select(&held, &full, &zero, s)?, Some(&[0]), false, s).map(Some)
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let (p, s) = (r.primals, r.stream);
        let mut total = None;
        if let Some(t) = r.tangent(0) {
            total = plus(total, segmented_mm(t, &p[1], &p[2], s)?, s)?;
        }
        if let Some(t) = r.tangent(1) {
            total = plus(total, segmented_mm(&p[0], t, &p[2], s)?, s)?;
        }
        Ok(Some(vec![total]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        if r.axes[0].is_none() && r.axes[1].is_none() {
            return segmented_mm(&r.inputs[0], &r.inputs[1], &front(r, 2)?, s).map(batched);
        }
        // Operands one after another along the inner dimension, and the segments of each moved to its own.
        let (a, b, segments) = (with_batch(r, 0)?, with_batch(r, 1)?, with_batch(r, 2)?);
        let (n, m, k, cols) = (r.size(), a.shape()[1], a.shape()[2], b.shape()[2]);
        let long = reshape(&moveaxis(&a, 0, 1, s)?, &[m, n * k], s)?;
        let tall = reshape(&b, &[n * k, cols], s)?;
        segmented_mm(&long, &tall, &moved(&segments, k, n, s)?, s).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).is::<SegmentedMm>()
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let (a, b) = (inputs[0].shape(), inputs[1].shape());
        if a[1] != b[0] || inputs[2].dim(-1) != 2 {
            bail!(Value, "[segmented_mm] Cannot multiply {} by {}.", show(a), show(b));
        }
        let outer = &inputs[2].shape()[..inputs[2].ndim() - 1];
        Ok(vec![outer.iter().copied().chain([a[0], b[1]]).collect()])
    }
}

/// A stored segmented product.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let [a, b, segments] = c.inputs()?;
    segmented_mm(a, b, segments, c.stream)
}

/// `a[:, i:j] @ b[i:j]` for each pair (i, j) of `segments`, (.., 2): shape (.., m, n). Bounds beyond the inner
/// dimension are held inside it; an empty segment gives zeros.
pub fn segmented_mm(a: &Array, b: &Array, segments: &Array, s: Stream) -> Result<Array> {
    const OP: &str = "segmented_mm";
    if a.ndim() != 2 || b.ndim() != 2 {
        bail!(Value, "[{OP}] Batched matmul not supported, got {} and {}.", show(a.shape()), show(b.shape()));
    }
    if a.shape()[1] != b.shape()[0] {
        bail!(
            Value,
            "[{OP}] Last dimension of first input with shape {} must match first dimension of second input \
             with shape {}.",
            show(a.shape()),
            show(b.shape())
        );
    }
    if !segments.dtype().is_integer() {
        bail!(Value, "[{OP}] Got segments with invalid dtype. Segments must be integral.");
    }
    if segments.shape().last() != Some(&2) {
        bail!(
            Value,
            "[{OP}] The segments should have shape (..., 2) but {} was provided.",
            show(segments.shape())
        );
    }
    let dtype = real_dtype(OP, a, b)?;
    let (x, y) = (astype(a, dtype, s)?, astype(b, dtype, s)?);
    refuse_f64(OP, std::slice::from_ref(&x), s)?;
    let outer = &segments.shape()[..segments.ndim() - 1];
    let shape: Shape = outer.iter().copied().chain([a.shape()[0], b.shape()[1]]).collect();
    checked_size(OP, &shape, dtype.size())?;
    let signed = segments.dtype().kind() == Kind::Signed;
    let segments = astype(segments, if signed { Dtype::I32 } else { Dtype::U32 }, s)?;
    Array::lazy(shape, dtype, SegmentedMm, vec![x, y, segments], s)
}
