//! The distinct elements of an array: where each comes first, where all are found, and how often.

use super::argsort;
use super::search::searchsorted;
use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Dtype, Result, Stored, Stream};
use crate::kernels::ScanForm;
use crate::ops::elementwise::*;
use crate::ops::index::indexing::take;
use crate::ops::reduce::scan;
use crate::ops::support::*;
use crate::ops::view::{flatten, reshape, slice, stop_gradient};
use crate::ops::{arange, broadcast_to, composite, pad, zeros};

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
