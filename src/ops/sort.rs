//! Sorting along an axis, and `take`. Stable; NaN sorts last.

use super::batching::{batched, front};
use super::elementwise::{add, astype, equal, less, select};
use super::matmul::matmul;
use super::support::*;
use super::view::{flatten, moveaxis, reshape, stop_gradient};
use crate::bail;
use crate::core::layout::normalize_axis;
use crate::core::{Array, Batched, Derivatives, Dtype, Jvp, Primitive, Result, Shape, Stream, Vjp, Vmap};
use crate::on_gpu;

struct Sort {
    axis: usize,
    arg: bool,
}

struct Take {
    axis: usize,
}

/// The first input, one axis long, in the order of the second; the third is the inverse order.
struct Permute;

/// A gradient of `take` is a product with a matrix of zeros and ones of at most this many elements.
const ONE_HOT_MAX: i64 = 1 << 22;

impl Primitive for Sort {
    fn name(&self) -> &str {
        if self.arg { "argsort" } else { "sort" }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, dst) = (host_in(&inputs[0])?, host_out(&outputs[0])?);
        match (src.size(), self.arg) {
            (0, _) => Ok(()),
            (_, true) => crate::cpu::sort::argsort(&src, self.axis, &dst),
            (_, false) => crate::cpu::sort::sort(&src, self.axis, &dst),
        }
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            match (src.size(), self.arg) {
                (0, _) => Ok(()),
                (_, true) => crate::vulkan::sort::argsort(enc, &src, self.axis, &dst),
                (_, false) => crate::vulkan::sort::sort(enc, &src, self.axis, &dst),
            }
        })
    }

    fn blocks_gradient(&self) -> bool {
        self.arg
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (order, inverse) = orders(&r.primals[0], self.axis, r.stream)?;
        Ok(vec![Some(permuted(&r.cotangents[0], self.axis, &inverse, &order, r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let (order, inverse) = orders(&r.primals[0], self.axis, r.stream)?;
        Ok(Some(vec![Some(permuted(&r.tangents[0], self.axis, &order, &inverse, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        sorted(self.name(), &front(r, 0)?, Some(self.axis as i64 + 1), self.arg, r.stream).map(batched)
    }
}

/// The order that sorts `x`, and its inverse, as positions in the flattened array whose sorted axis is last.
fn orders(x: &Array, axis: usize, s: Stream) -> Result<(Array, Array)> {
    let n = x.shape()[axis];
    let rows = x.size() as i64 / n.max(1);
    let dtype = if x.size() <= i32::MAX as usize { Dtype::I32 } else { Dtype::I64 };
    let last = reshape(&moveaxis(&stop_gradient(x), axis as i64, -1, s)?, &[rows, n], s)?;
    let order = argsort(&last, Some(1), s)?;
    let inverse = argsort(&order, Some(1), s)?;
    let start = super::arange(0.0, (rows * n) as f64, n.max(1) as f64, dtype, s)?;
    let start = reshape(&start, &[rows, 1], s)?;
    let flat = |a: &Array| reshape(&add(&astype(a, dtype, s)?, &start, s)?, &[-1], s);
    Ok((flat(&order)?, flat(&inverse)?))
}

/// `a` with the elements along `axis` in the order that [`orders`] states.
fn permuted(a: &Array, axis: usize, order: &Array, inverse: &Array, s: Stream) -> Result<Array> {
    if a.size() == 0 {
        return Ok(a.clone());
    }
    let last = moveaxis(a, axis as i64, -1, s)?;
    let moved = permute_flat(&reshape(&last, &[-1], s)?, order, inverse, s);
    moveaxis(&reshape(&moved, last.shape(), s)?, -1, axis as i64, s)
}

fn permute_flat(a: &Array, order: &Array, inverse: &Array, s: Stream) -> Array {
    let inputs = vec![a.clone(), order.clone(), inverse.clone()];
    Array::lazy(a.shape(), a.dtype(), Permute, inputs, s)
}

impl Primitive for Permute {
    fn name(&self) -> &str {
        "permute"
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Take { axis: 0 }.eval_cpu(&inputs[..2], outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Take { axis: 0 }.eval_gpu(stream, &inputs[..2], outputs)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let p = r.primals;
        r.each(|i| Ok((i == 0).then(|| permute_flat(&r.cotangents[0], &p[2], &p[1], r.stream))))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let p = r.primals;
        Ok(Some(vec![r.tangent(0).map(|t| permute_flat(t, &p[1], &p[2], r.stream))]))
    }
}

/// Adds the cotangent of a `take` up where it was taken from.
fn take_vjp(x: &Array, indices: &Array, axis: usize, cot: &Array, s: Stream) -> Result<Array> {
    let (n, m) = (x.shape()[axis], indices.size() as i64);
    if x.size() == 0 || m == 0 {
        return super::zeros_like(x, s);
    }
    if n.saturating_mul(m) > ONE_HOT_MAX {
        bail!(
            NotImplemented,
            "[take] gradient of {m} indices into an axis of {n} elements is too large: it needs scatter-add, \
             which is not implemented yet."
        );
    }
    let index = reshape(&astype(indices, Dtype::I64, s)?, &[1, m], s)?;
    let wrapped = add(&index, &scalar_i64(n, Dtype::I64)?, s)?;
    let index = select(&less(&index, &scalar_i64(0, Dtype::I64)?, s)?, &wrapped, &index, s)?;
    let rows = reshape(&super::arange(0.0, n as f64, 1.0, Dtype::I64, s)?, &[n, 1], s)?;
    let hot = astype(&equal(&rows, &index, s)?, cot.dtype(), s)?;
    let before: i64 = x.shape()[..axis].iter().product();
    let after: i64 = x.shape()[axis + 1..].iter().product();
    let summed = matmul(&hot, &reshape(cot, &[before, m, after], s)?, s)?;
    reshape(&summed, x.shape(), s)
}

impl Primitive for Take {
    fn name(&self) -> &str {
        "take"
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, idx, dst) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_out(&outputs[0])?);
        if dst.size() == 0 { Ok(()) } else { crate::cpu::gather::take(&src, &idx, self.axis, &dst) }
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (src, idx) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let dst = dev_out(enc, &outputs[0])?;
            if dst.size() == 0 {
                return Ok(());
            }
            crate::vulkan::gather::take(enc, &src, &idx, self.axis, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let p = r.primals;
        r.each(|i| match i {
            0 => take_vjp(&p[0], &p[1], self.axis, &r.cotangents[0], r.stream).map(Some),
            _ => Ok(None),
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let moved = r.tangent(0).map(|t| take(t, &r.primals[1], Some(self.axis as i64), r.stream));
        Ok(Some(vec![moved.transpose()?]))
    }
}

fn sorted(name: &str, a: &Array, axis: Option<i64>, arg: bool, s: Stream) -> Result<Array> {
    refuse_f64(name, std::slice::from_ref(a), s)?;
    let Some(axis) = axis else {
        return sorted(name, &flatten(a, 0, -1, s)?, Some(0), arg, s);
    };
    let axis = normalize_axis(name, axis, a.ndim())?;
    let dtype = if arg { Dtype::U32 } else { a.dtype() };
    Ok(Array::lazy(a.shape(), dtype, Sort { axis, arg }, vec![a.clone()], s))
}

/// Elements in ascending order along an axis, or of the flattened array.
pub fn sort(a: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    sorted("sort", a, axis, false, s)
}

/// Indices that sort along an axis, or the flattened array; uint32.
pub fn argsort(a: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    sorted("argsort", a, axis, true, s)
}

/// Elements at integer positions along an axis, or of the flattened array. Negative positions count from
/// the end.
pub fn take(a: &Array, indices: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    let Some(axis) = axis else {
        return take(&flatten(a, 0, -1, s)?, indices, Some(0), s);
    };
    refuse_f64("take", std::slice::from_ref(a), s)?;
    if !indices.dtype().is_integer() {
        bail!(
            Value,
            "[take] Got indices with invalid dtype. Indices must be integral, got {}.",
            indices.dtype()
        );
    }
    let ax = normalize_axis("take", axis, a.ndim())?;
    if a.shape()[ax] == 0 && indices.size() > 0 {
        bail!(Value, "[take] Cannot do a non-empty take from an array with zero elements.");
    }
    let mut shape: Shape = a.shape()[..ax].into();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&a.shape()[ax + 1..]);
    crate::core::layout::checked_size("take", &shape, a.dtype().size())?;
    Ok(Array::lazy(shape, a.dtype(), Take { axis: ax }, vec![a.clone(), indices.clone()], s))
}
