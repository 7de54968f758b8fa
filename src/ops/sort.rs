//! Sorting along an axis, and `take`. Stable; NaN sorts last.

use super::support::*;
use super::view::flatten;
use crate::bail;
use crate::core::layout::normalize_axis;
use crate::core::{Array, Dtype, Primitive, Result, Shape, Stream};
use crate::on_gpu;

struct Sort {
    axis: usize,
    arg: bool,
}

struct Take {
    axis: usize,
}

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

    fn vjp(&self, primals: &[Array], _: &[Array], _: &[usize], _: &[Array], s: Stream) -> Result<Vec<Array>> {
        if self.arg { Ok(vec![super::zeros_like(&primals[0], s)?]) } else { Err(self.missing("vjp")) }
    }
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
