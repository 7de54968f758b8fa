//! Binary search in sorted sequences, and the distinct elements of an array.

use super::argsort;
use crate::bail;
use crate::core::layout::show;
use crate::core::notes::note;
use crate::core::{Array, Batched, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap};
use crate::kernels::ScanForm;
use crate::on_gpu;
use crate::ops::batching::{batched, front, spread};
use crate::ops::composite;
use crate::ops::elementwise::*;
use crate::ops::index::indexing::take;
use crate::ops::reduce::scan;
use crate::ops::support::*;
use crate::ops::view::{contiguous, flatten, reshape, slice, stop_gradient};
use crate::ops::{arange, broadcast_to, pad, zeros};
use crate::params;

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
        let (values, rows) = (spread(r, 1)?, shape[0] * shape[1]);
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

/// What [`unique`] finds.
pub struct Unique {
    pub values: Array,
    /// Position of each value's first occurrence in the flattened array; uint32.
    pub index: Array,
    /// Position of each element of the array among the values; uint32.
    pub inverse: Array,
    /// How often each value occurs; int32.
    pub counts: Array,
}

impl Unique {
    fn of(all: Vec<Array>) -> Result<Unique> {
        match <[Array; 4]>::try_from(all) {
            Ok([values, index, inverse, counts]) => Ok(Unique { values, index, inverse, counts }),
            Err(all) => bail!(Value, "[unique] Expected 4 outputs, got {}.", all.len()),
        }
    }
}

/// A stored search as the public op has it.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let [a, values] = c.inputs()?;
    searchsorted(a, values, c.flag(0)?, c.stream)
}

/// Stored distinct elements.
pub(in crate::ops) fn restore_unique(c: &Stored) -> Result<Vec<Array>> {
    let [a, fill @ ..] = c.inputs else { return c.unknown() };
    let u = unique(a, c.size(0)?, fill.first(), c.stream)?;
    Ok(vec![u.values, u.index, u.inverse, u.counts])
}

/// The first `size` distinct elements of the flattened array in ascending order, filled up with `fill` (by
/// default the least element). Every NaN is distinct.
pub fn unique(a: &Array, size: i64, fill: Option<&Array>, s: Stream) -> Result<Unique> {
    refuse_f64("unique", std::slice::from_ref(a), s)?;
    if size < 0 {
        bail!(Value, "[unique] Received negative size {size}.");
    }
    let inputs: Vec<&Array> = std::iter::once(a).chain(fill).collect();
    if let Some(all) = composite::many("unique", || vec![size.into()], &inputs, s)? {
        return Unique::of(all);
    }
    let fill = match fill {
        Some(f) if f.size() != 1 => {
            bail!(Value, "[unique] Fill value must have one element, but got shape {}.", show(f.shape()))
        }
        Some(f) => Some(reshape(&astype(f, a.dtype(), s)?, &[], s)?),
        None => None,
    };
    let n = a.size() as i64;
    if n == 0 {
        let Some(value) = fill.or_else(|| (size == 0).then(|| scalar_i64(0, a.dtype()).ok()).flatten())
        else {
            bail!(Value, "[unique] A fill value is required for an empty input with a non-zero size.");
        };
        return Ok(Unique {
            values: broadcast_to(&value, &[size], s)?,
            index: zeros(&[size], Dtype::U32, s)?,
            inverse: zeros(a.shape(), Dtype::U32, s)?,
            counts: zeros(&[size], Dtype::I32, s)?,
        });
    }
    let x = flatten(a, 0, -1, s)?;
    // Where the values lie has no derivative, they have.
    let order = argsort(&stop_gradient(&x), Some(0), s)?;
    let sorted = take(&x, &order, Some(0), s)?;
    // Number of the distinct value at each sorted position: it counts the changes so far.
    let values = stop_gradient(&sorted);
    let next = slice(&values, &[1], &[n], &[1], s)?;
    let last = slice(&values, &[0], &[n - 1], &[1], s)?;
    let changes =
        pad(&not_equal(&next, &last, s)?, &[(1, 0)], crate::ops::PadMode::Constant, &scalar_bool(false)?, s)?;
    let inclusive = ScanForm { reverse: false, inclusive: true };
    let rank = astype(&scan::cumsum(&changes, Some(0), inclusive, None, s)?, Dtype::U32, s)?;
    let wanted = arange(0.0, (size + 1) as f64, 1.0, Dtype::U32, s)?;
    let bounds = searchsorted(&rank, &wanted, false, s)?;
    let first = slice(&bounds, &[0], &[size], &[1], s)?;
    let counts = subtract(&slice(&bounds, &[1], &[size + 1], &[1], s)?, &first, s)?;
    let found = less(&first, &scalar_i64(n, Dtype::U32)?, s)?;
    // Entries without a value point at the least element.
    let at = select(&found, &first, &scalar_i64(0, Dtype::U32)?, s)?;
    let mut values = take(&sorted, &at, Some(0), s)?;
    if let Some(fill) = fill {
        values = select(&found, &values, &fill, s)?;
    }
    let most = scalar_i64((size - 1).max(0), Dtype::U32)?;
    let places = argsort(&order, Some(0), s)?;
    let inverse = minimum(&take(&rank, &places, Some(0), s)?, &most, s)?;
    Ok(Unique {
        values,
        index: take(&order, &at, Some(0), s)?,
        inverse: reshape(&inverse, a.shape(), s)?,
        counts: astype(&counts, Dtype::I32, s)?,
    })
}
