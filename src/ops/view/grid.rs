//! Coordinate grids, and arrays taken apart along an axis.

use super::{broadcast_arrays, reshape, slice, squeeze};
use crate::bail;
use crate::core::{Array, Result, Stored, Stream};
use crate::ops::composite;
use crate::ops::support::check_count;

/// A stored grid, or the slices of an array.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Vec<Array>> {
    match c.name {
        "meshgrid" => meshgrid(c.inputs, c.flag(0)?, c.flag(1)?, c.stream),
        "unstack" => unstack(c.input()?, c.int(0)?, c.stream),
        _ => c.unknown(),
    }
}

/// Coordinate arrays of a grid over the flattened inputs. With `xy` the first two axes are exchanged, so that
/// the first input runs along columns. Sparse ones have length 1 along the axes of the others.
pub fn meshgrid(arrays: &[Array], sparse: bool, xy: bool, s: Stream) -> Result<Vec<Array>> {
    let all: Vec<&Array> = arrays.iter().collect();
    if let Some(out) = composite::many("meshgrid", || vec![sparse.into(), xy.into()], &all, s)? {
        return Ok(out);
    }
    let n = arrays.len();
    let axis = |i: usize| if xy && n > 1 && i < 2 { 1 - i } else { i };
    let thin = arrays
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let mut shape = vec![1i64; n];
            shape[axis(i)] = a.size() as i64;
            reshape(a, &shape, s)
        })
        .collect::<Result<Vec<_>>>()?;
    if sparse { Ok(thin) } else { broadcast_arrays(&thin, s) }
}

/// The slices of an array along an axis, which they lack.
pub fn unstack(a: &Array, axis: i64, s: Stream) -> Result<Vec<Array>> {
    let nd = a.ndim() as i64;
    if axis < -nd || axis >= nd {
        bail!(Index, "[unstack] Axis {axis} is out of bounds for array with {nd} dimensions.");
    }
    let ax = axis.rem_euclid(nd) as usize;
    check_count("unstack", a.shape()[ax])?;
    if let Some(out) = composite::many("unstack", || vec![axis.into()], &[a], s)? {
        return Ok(out);
    }
    (0..a.shape()[ax])
        .map(|i| {
            let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
            (start[ax], stop[ax]) = (i, i + 1);
            squeeze(&slice(a, &start, &stop, &vec![1; a.ndim()], s)?, Some(&[ax as i64]), s)
        })
        .collect()
}
