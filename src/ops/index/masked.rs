//! Assignment through a boolean mask, without waiting for the mask: values are gathered by the rank of each
//! selected element and chosen against the old ones, so that derivatives follow from those ops.

use super::indexing::gather;
use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Batched, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap};
use crate::on_gpu;
use crate::ops::batching::{batched, front};
use crate::ops::composite;
use crate::ops::create::zeros;
use crate::ops::elementwise::{astype, less, logical_and, select};
use crate::ops::support::*;
use crate::ops::view::{broadcast_to, reshape, stop_gradient};
use crate::params;

/// How many elements before it in its row are true, for each element of a boolean matrix; int32. On the host
/// a row with more than `limit` true elements is an error.
struct MaskRank {
    limit: i64,
}

impl Primitive for MaskRank {
    fn name(&self) -> &str {
        "mask_rank"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.limit]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, dst) = (host_in(&inputs[0])?, host_out(&outputs[0])?);
        if crate::cpu::index::mask::rank(&src, &dst)? > self.limit {
            bail!(Runtime, "[masked_scatter] Source does not have enough elements for mask.");
        }
        Ok(())
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (src, dst) = (dev_in(enc, &inputs[0])?, dev_out(enc, &outputs[0])?);
            crate::vulkan::kernels::index::mask::rank(enc, &src, &dst)
        })
    }

    fn blocks_gradient(&self) -> bool {
        true
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        // Rows are independent: the batch becomes more of them.
        let x = front(r, 0)?;
        let rows = reshape(&x, &[-1, x.dim(-1)], r.stream)?;
        let shape: Shape = rows.shape().into();
        let ranks = Array::lazy(shape, Dtype::I32, MaskRank { limit: self.limit }, vec![rows], r.stream)?;
        reshape(&ranks, x.shape(), r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<MaskRank>();
        other.is_some_and(|o| o.limit == self.limit)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![inputs[0].shape().into()])
    }
}

/// Stored ranks.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let a = c.input()?;
    if a.dtype() != Dtype::Bool || a.ndim() != 2 {
        bail!(Value, "[mask_rank] Expected a boolean matrix, got {} of {}.", show(a.shape()), a.dtype());
    }
    Array::lazy(a.shape(), Dtype::I32, MaskRank { limit: c.int(0)? }, vec![a.clone()], c.stream)
}

/// A stored assignment by mask.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let [a, mask, values] = c.inputs()?;
    masked_scatter(a, mask, values, c.stream)
}

/// `a` with the elements, or rows, that `mask` selects replaced. The mask has the first axes of `a`. Values
/// that broadcast over the remaining axes go to every selected row; with one axis more, row `k` of the values
/// goes to the `k`-th selected row. Too few rows are an error on the CPU; on the
/// GPU, which is not waited for, elements beyond them stay.
pub fn masked_scatter(a: &Array, mask: &Array, values: &Array, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("masked_scatter", Vec::new, &[a, mask, values], s)? {
        return Ok(out);
    }
    refuse_f64("masked_scatter", std::slice::from_ref(a), s)?;
    if mask.dtype() != Dtype::Bool {
        bail!(Value, "[masked_scatter] The mask has to be boolean, got {}.", mask.dtype());
    }
    let k = mask.ndim();
    if k > a.ndim() {
        bail!(Value, "[masked_scatter] The mask cannot have more dimensions than the target.");
    }
    if mask.shape() != &a.shape()[..k] {
        let (m, n) = (show(mask.shape()), show(a.shape()));
        bail!(
            Value,
            "[masked_scatter] The boolean mask should have the same shape as the beginning of the indexed \
             array but the mask has shape {m} and the array has shape {n}"
        );
    }
    let rest = &a.shape()[k..];
    let values = astype(values, a.dtype(), s)?;
    let fits = |shape: &[i64]| {
        shape.len() <= rest.len()
            && shape.iter().rev().zip(rest.iter().rev()).all(|(&v, &n)| v == 1 || v == n)
    };
    let mut wide: Shape = mask.shape().into();
    wide.extend(rest.iter().map(|_| 1));
    let chosen = reshape(mask, &wide, s)?;
    if fits(values.shape()) {
        return select(&broadcast_to(&chosen, a.shape(), s)?, &values, a, s);
    }
    if values.ndim() != rest.len() + 1 || !fits(&values.shape()[1..]) {
        let n = rest.len();
        bail!(
            Value,
            "[masked_scatter] Value array shape must be broadcastable with the last {n} dimensions of the input."
        );
    }
    if a.size() == 0 {
        return Ok(a.clone());
    }
    let rows = values.shape()[0];
    let flat = reshape(mask, &[1, -1], s)?;
    let shape: Shape = flat.shape().into();
    let ranks = Array::lazy(shape, Dtype::I32, MaskRank { limit: rows }, vec![flat], s)?;
    // A mask chooses, as the condition of `where` does, and has no derivative.
    let ranks = stop_gradient(&reshape(&ranks, mask.shape(), s)?);
    let (mut chosen, mut values) = (chosen, values);
    if s.device.is_gpu() {
        let enough = less(&ranks, &scalar_i64(rows.min(i64::from(i32::MAX)), Dtype::I32)?, s)?;
        chosen = logical_and(&chosen, &reshape(&enough, &wide, s)?, s)?;
    }
    if rows == 0 {
        values = zeros(&values.shape().iter().map(|&d| d.max(1)).collect::<Shape>(), a.dtype(), s)?;
    }
    let picked = gather(&values, &[ranks], &[0], &[None], 0, s)?;
    select(&chosen, &picked, a, s)
}
