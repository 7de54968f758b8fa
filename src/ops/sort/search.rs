//! Binary search in sorted sequences, and the distinct elements of an array.

use crate::core::layout::show;
use crate::core::notes::note;
use crate::core::{Array, Batched, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap};
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::elementwise::*;
use crate::ops::support::*;
use crate::ops::view::{contiguous, reshape};
use crate::ops::{broadcast_to, composite};
use crate::{bail, on_gpu, params};

/// Rows of sorted elements (rows, n) or (1, n), and values to look up in each (rows, m); uint32 (rows, m).
struct SearchSorted {
    right: bool,
}

fn search(sorted: &Array, values: &Array, right: bool, s: Stream) -> Result<Array> {
    let inputs = vec![contiguous(sorted, false, s)?, contiguous(values, false, s)?];
    Array::lazy(values.shape(), Dtype::U32, SearchSorted { right }, inputs, s)
}

impl Primitive for SearchSorted {
    fn name(&self) -> &str {
        "searchsorted"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.right]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, v, dst) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_out(&outputs[0])?);
        crate::cpu::sort::search::searchsorted(&a, &v, self.right, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, v) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::sort::search::searchsorted(enc, &a, &v, self.right, &dst)
        })
    }

    fn blocks_gradient(&self) -> bool {
        true
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let (shape, s) = (r.shape(0), r.stream);
        let (values, rows) = (with_batch(r, 1)?, shape[0] * shape[1]);
        let values = reshape(&values, &[rows, shape[2]], s)?;
        let a = front(r, 0)?;
        let n = a.dim(-1);
        let a = match (r.axes[0], a.dim(-2)) {
            (None, 1) => a,
            (None, each) => reshape(&broadcast_to(&a, &[shape[0], each, n], s)?, &[rows, n], s)?,
            _ => reshape(&broadcast_to(&a, &[shape[0], shape[1], n], s)?, &[rows, n], s)?,
        };
        reshape(&search(&a, &values, self.right, s)?, &shape, s).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored search.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let [a, v] = c.inputs()?;
    let rows = |x: &Array| x.ndim() == 2 && x.dtype() == a.dtype();
    if !rows(a) || !rows(v) || ![1, v.shape()[0]].contains(&a.shape()[0]) || a.dim(-1) > i64::from(u32::MAX) {
        bail!(Value, "[searchsorted] Cannot search {} for {}.", show(a.shape()), show(v.shape()));
    }
    refuse_f64("searchsorted", std::slice::from_ref(v), c.stream)?;
    search(a, v, c.flag(0)?, c.stream)
}

/// For each of `values`, the first position in the sorted one-dimensional `a` that keeps it sorted (the last
/// one under `right`); uint32 of the shape of `values`. NaN is greatest.
pub fn searchsorted(a: &Array, values: &Array, right: bool, s: Stream) -> Result<Array> {
    if a.ndim() != 1 {
        bail!(Value, "[searchsorted] The sorted sequence must be 1-D but has {} dimensions.", a.ndim());
    }
    if a.shape()[0] > i64::from(u32::MAX) {
        bail!(Value, "[searchsorted] A sequence of {} elements is too long.", a.shape()[0]);
    }
    if let Some(out) = composite::one("search_sorted", || vec![right.into()], &[a, values], s)? {
        return Ok(out);
    }
    let dtype = a.dtype().promote(values.dtype());
    let both = vec![astype(a, dtype, s)?, astype(values, dtype, s)?];
    let a = reshape(&both[0], &[1, -1], s)?;
    let v = reshape(&both[1], &[1, values.size() as i64], s)?;
    refuse_f64("searchsorted", std::slice::from_ref(&v), s)?;
    let out = reshape(&search(&a, &v, right, s)?, values.shape(), s)?;
    note(std::slice::from_ref(&out), || ("searchsorted", params![right], both));
    Ok(out)
}

/// A stored search as the public op has it.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let [a, values] = c.inputs()?;
    searchsorted(a, values, c.flag(0)?, c.stream)
}
