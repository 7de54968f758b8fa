//! Sorting along an axis. Stable; NaN sorts last.

pub mod search;
pub mod select;
pub mod unique;

use super::batching::{batched, front};
use super::index::indexing::take_along_axis;
use super::index::scatter::scatter_permuted;
use super::support::*;
use super::view::{flatten, stop_gradient};
use crate::core::layout::normalize_axis;
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::params;

struct Sort {
    axis: usize,
    arg: bool,
}

impl Primitive for Sort {
    fn name(&self) -> &str {
        if self.arg { "argsort" } else { "sort" }
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis]
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

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let axis = self.axis as i64;
        let order = argsort(&stop_gradient(&r.primals[0]), Some(axis), r.stream)?;
        Ok(vec![Some(scatter_permuted(&r.cotangents[0], &order, self.axis, r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let axis = self.axis as i64;
        let order = argsort(&stop_gradient(&r.primals[0]), Some(axis), r.stream)?;
        Ok(Some(vec![Some(take_along_axis(&r.tangents[0], &order, Some(axis), r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        sorted(self.name(), &front(r, 0)?, Some(self.axis as i64 + 1), self.arg, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        super::restore::shapes(self, inputs)
    }
}

/// The axis along which a primitive gives elements in ascending order, as GPUs do for partitions too, and whether it gives
/// their places.
pub(crate) fn order_along(p: &dyn Primitive) -> Option<(usize, bool)> {
    let any: &dyn std::any::Any = p;
    let sort = any.downcast_ref::<Sort>().map(|s| (s.axis, s.arg));
    sort.or_else(|| select::order_along(p))
}

/// The axis along which a primitive gives the places of elements in that order.
pub(crate) fn places_along(p: &dyn Primitive) -> Option<usize> {
    order_along(p).filter(|o| o.1).map(|o| o.0)
}

/// A stored sort.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    sorted(c.name, c.input()?, Some(c.int(0)?), c.name == "argsort", c.stream)
}

fn sorted(name: &str, a: &Array, axis: Option<i64>, arg: bool, s: Stream) -> Result<Array> {
    refuse_f64(name, std::slice::from_ref(a), s)?;
    let Some(axis) = axis else {
        let out = sorted(name, &flatten(a, 0, -1, s)?, Some(0), arg, s)?;
        note(std::slice::from_ref(&out), || ("sort_flat", params![arg], vec![a.clone()]));
        return Ok(out);
    };
    let axis = normalize_axis(name, axis, a.ndim())?;
    let dtype = if arg { Dtype::U32 } else { a.dtype() };
    Array::lazy(a.shape(), dtype, Sort { axis, arg }, vec![a.clone()], s)
}

/// Elements in ascending order along an axis, or of the flattened array.
pub fn sort(a: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    sorted("sort", a, axis, false, s)
}

/// Indices that sort along an axis, or the flattened array; uint32.
pub fn argsort(a: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    sorted("argsort", a, axis, true, s)
}
