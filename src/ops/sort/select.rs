//! Partition, argpartition and top-k, and what follows from sorted or compared elements: median, minimum with
//! maximum, the count of non-zero elements.

use super::sort;
use crate::bail;
use crate::core::layout::{normalize_axis, show};
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front};
use crate::ops::composite;
use crate::ops::elementwise::*;
use crate::ops::index::indexing::take_along_axis;
use crate::ops::index::scatter::scatter_permuted;
use crate::ops::reduce::{max, min, sum};
use crate::ops::support::*;
use crate::ops::view::{flatten, reshape, slice, stop_gradient, transpose};
use crate::params;

/// The element of rank `kth` in its place; GPUs sort the whole axis, unless a few elements at an end are all that is read.
struct Partition {
    axis: usize,
    kth: usize,
    arg: bool,
}

impl Partition {
    fn of(&self, a: &Array, s: Stream) -> Array {
        let p = Partition { ..*self };
        Array::like(a, if self.arg { Dtype::U32 } else { a.dtype() }, p, vec![a.clone()], s)
    }

    fn order(&self, x: &Array, s: Stream) -> Array {
        Partition { arg: true, ..*self }.of(&stop_gradient(x), s)
    }
}

impl Primitive for Partition {
    fn name(&self) -> &str {
        if self.arg { "argpartition" } else { "partition" }
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis, self.kth]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, dst) = (host_in(&inputs[0])?, host_out(&outputs[0])?);
        crate::cpu::sort::select::partition(&src, self.axis, self.kth, &dst, self.arg)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            match (src.size(), self.arg) {
                (0, _) => Ok(()),
                (_, true) => crate::vulkan::kernels::sort::argsort(enc, &src, self.axis, &dst),
                (_, false) => crate::vulkan::kernels::sort::sort(enc, &src, self.axis, &dst),
            }
        })
    }

    fn may_join(&self) -> bool {
        true
    }

    fn blocks_gradient(&self) -> bool {
        self.arg
    }

    fn zero_tangent_like_inputs(&self, _inputs: &[Array]) -> bool {
        self.arg
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let order = self.order(&r.primals[0], r.stream);
        Ok(vec![Some(scatter_permuted(&r.cotangents[0], &order, self.axis, r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let order = self.order(&r.primals[0], r.stream);
        let moved = take_along_axis(&r.tangents[0], &order, Some(self.axis as i64), r.stream)?;
        Ok(Some(vec![Some(moved)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let p = Partition { axis: self.axis + 1, ..*self };
        Ok(batched(p.of(&front(r, 0)?, r.stream)))
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// The axis of a partition, and whether it gives places.
pub(super) fn order_along(p: &dyn Primitive) -> Option<(usize, bool)> {
    let any: &dyn std::any::Any = p;
    any.downcast_ref::<Partition>().map(|p| (p.axis, p.arg))
}

/// A stored partition.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let (name, arg) = if c.name == "argpartition" { ("argpartition", true) } else { ("partition", false) };
    partitioned(name, c.input()?, c.int(1)?, Some(c.int(0)?), arg, c.stream)
}

fn partitioned(
    name: &'static str,
    a: &Array,
    kth: i64,
    axis: Option<i64>,
    arg: bool,
    s: Stream,
) -> Result<Array> {
    refuse_f64(name, std::slice::from_ref(a), s)?;
    let Some(axis) = axis else {
        return partitioned(name, &flatten(a, 0, -1, s)?, kth, Some(0), arg, s);
    };
    let ax = normalize_axis(name, axis, a.ndim())?;
    let n = a.shape()[ax];
    if kth < -n || kth >= n {
        let shape = show(a.shape());
        bail!(Value, "[{name}] Received invalid kth {kth} along axis {axis} for array with shape: {shape}");
    }
    if kth < 0
        && let Some(out) = composite::one(name, || vec![ax.into(), kth.into()], &[a], s)?
    {
        return Ok(out);
    }
    // FITS: the check above makes it a position.
    let kth = if kth < 0 { kth + n } else { kth } as usize;
    Ok(Partition { axis: ax, kth, arg }.of(a, s))
}

/// Elements rearranged along an axis so that number `kth` is where sorting would put it, none after it is less
/// and none before it is greater; NaN is greatest.
pub fn partition(a: &Array, kth: i64, axis: Option<i64>, s: Stream) -> Result<Array> {
    partitioned("partition", a, kth, axis, false, s)
}

/// Indices that partition as [`partition`] does; uint32.
pub fn argpartition(a: &Array, kth: i64, axis: Option<i64>, s: Stream) -> Result<Array> {
    partitioned("argpartition", a, kth, axis, true, s)
}

/// The part `from..to` along an axis.
fn part(a: &Array, axis: usize, from: i64, to: i64, s: Stream) -> Result<Array> {
    let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
    (start[axis], stop[axis]) = (from, to);
    slice(a, &start, &stop, &vec![1; a.ndim()], s)
}

/// The `k` largest elements along an axis, the least of them first, the others in no particular order.
pub fn topk(a: &Array, k: i64, axis: Option<i64>, s: Stream) -> Result<Array> {
    let Some(axis) = axis else {
        return topk(&flatten(a, 0, -1, s)?, k, Some(0), s);
    };
    let ax = normalize_axis("topk", axis, a.ndim())?;
    let n = a.shape()[ax];
    if k < 0 || k > n {
        let shape = show(a.shape());
        bail!(Value, "[topk] Received invalid k={k} along axis {axis} for array with shape: {shape}");
    }
    if let Some(out) = composite::one("topk", || vec![k.into(), axis.into()], &[a], s)? {
        return Ok(out);
    }
    match k {
        _ if k == n => Ok(a.clone()),
        0 => part(a, ax, n, n, s),
        _ => part(&partitioned("topk", a, -k, Some(axis), false, s)?, ax, n - k, n, s),
    }
}

/// A stored median, or the largest elements.
pub(in crate::ops) fn restore_selection(c: &Stored) -> Result<Array> {
    match c.name {
        "topk" => topk(c.input()?, c.int(0)?, Some(c.int(1)?), c.stream),
        "median" => median(c.input()?, c.maybe_ints(0)?, c.flag(1)?, c.stream),
        _ => c.unknown(),
    }
}

/// The median over axes (all for `None`): the mean of the two middle elements of an even count, NaN if there is
/// any. Integers give float32.
pub fn median(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("median", || vec![axes.into(), keepdims.into()], &[a], s)? {
        return Ok(out);
    }
    let all: Vec<i64> = (0..a.ndim() as i64).collect();
    let ax = axes_of("median", Some(axes.unwrap_or(&all)), a.ndim())?;
    if ax.is_empty() && a.ndim() > 0 {
        bail!(Value, "[median] Expected at least one axis to reduce.");
    }
    let n: i64 = ax.iter().map(|&i| a.shape()[i]).product();
    if n == 0 {
        bail!(Value, "[median] Cannot take median along empty axis, got shape {}.", show(a.shape()));
    }
    let x = astype(a, a.dtype().at_least_float(), s)?;
    let kept = (0..a.ndim()).filter(|i| !ax.contains(i));
    let order: Vec<i64> = kept.chain(ax.iter().copied()).map(|i| i as i64).collect();
    let mut shape = drop_axes(a.shape(), &ax, false);
    shape.push(n);
    let x = sort(&reshape(&transpose(&x, Some(&order), s)?, &shape, s)?, Some(-1), s)?;
    let last = shape.len() - 1;
    let mut middle = part(&x, last, n / 2, n / 2 + 1, s)?;
    if n % 2 == 0 {
        let half = scalar_f64(0.5, x.dtype())?;
        middle = multiply(&add(&part(&x, last, n / 2 - 1, n / 2, s)?, &middle, s)?, &half, s)?;
    }
    // NaN sorts last.
    let greatest = part(&x, last, n - 1, n, s)?;
    let out = select(&isnan(&greatest, s)?, &greatest, &middle, s)?;
    let out = reshape(&out, &drop_axes(a.shape(), &ax, keepdims), s)?;
    if !keepdims && a.ndim() > 0 {
        note(std::slice::from_ref(&out), || ("median", params![&ax[..]], vec![a.clone()]));
    }
    Ok(out)
}

/// Minimum and maximum over axes (all for `None`); NaN wins in both.
pub fn minmax(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<(Array, Array)> {
    Ok((min(a, axes, keepdims, s)?, max(a, axes, keepdims, s)?))
}

/// How many elements over axes (all for `None`) are not zero; int32. NaN counts.
pub fn count_nonzero(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    let set = not_equal(a, &scalar_i64(0, a.dtype())?, s)?;
    astype(&sum(&set, axes, keepdims, s)?, Dtype::I32, s)
}
