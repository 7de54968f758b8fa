//! What vmap rules share: moving the batch axis to the front, and giving it to inputs that lack it.

use super::composite;
use super::view::{broadcast_to, expand_dims, moveaxis, reshape};
use crate::core::{Array, Batched, Result, Shape, Stored, Stream, Vmap};

/// Input `i` with its batch first; as it is where it does not vary.
pub fn front(r: &Vmap, i: usize) -> Result<Array> {
    match r.axes[i] {
        Some(axis) => moveaxis(&r.inputs[i], axis as i64, 0, r.stream),
        None => Ok(r.inputs[i].clone()),
    }
}

/// Input `i` with the batch first, repeated where it does not vary.
pub fn with_batch(r: &Vmap, i: usize) -> Result<Array> {
    let a = front(r, i)?;
    if r.axes[i].is_some() {
        return Ok(a);
    }
    let like = r.inputs.iter().zip(r.axes).find_map(|(x, axis)| Some((x, (*axis)?)));
    let Some((like, axis)) = like else { return Ok(a) };
    repeated(&a, 0, like, axis, r.stream)
}

/// `a` with a new axis at `to`, as long as an axis of another array.
pub fn repeated(a: &Array, to: usize, like: &Array, axis: usize, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("repeated", || vec![to.into(), axis.into()], &[a, like], s)? {
        return Ok(out);
    }
    let mut shape: Shape = a.shape().into();
    shape.insert(to, like.shape()[axis]);
    broadcast_to(&expand_dims(a, &[to as i64], s)?, &shape, s)
}

/// A stored repetition.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let [a, like] = c.inputs()?;
    repeated(a, c.axis(0, a.ndim() + 1)?, like, c.axis(1, like.ndim())?, c.stream)
}

/// The inputs of an op that broadcasts: batches first, with axes of length 1 after them so that every element
/// of the batch broadcasts as it did alone.
pub fn aligned(r: &Vmap) -> Result<Vec<Array>> {
    let rank = |i: usize| r.inputs[i].ndim() - usize::from(r.axes[i].is_some());
    let most = (0..r.inputs.len()).map(rank).max().unwrap_or(0);
    (0..r.inputs.len()).map(|i| raised(r, i, most)).collect()
}

/// Input `i` with its batch first and axes of length 1 after that, for `rank` axes an element.
pub fn raised(r: &Vmap, i: usize, rank: usize) -> Result<Array> {
    let a = front(r, i)?;
    if r.axes[i].is_none() || a.ndim() > rank {
        return Ok(a);
    }
    let mut shape: Shape = a.shape()[..1].into();
    shape.extend(std::iter::repeat_n(1, rank + 1 - a.ndim()));
    shape.extend_from_slice(&a.shape()[1..]);
    reshape(&a, &shape, r.stream)
}

/// One output whose batch comes first.
pub fn batched(out: Array) -> Batched {
    (vec![out], vec![Some(0)])
}
