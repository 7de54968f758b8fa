//! What vmap rules share: moving the batch axis to the front, and giving it to inputs that lack it.

use super::view::{broadcast_to, moveaxis, reshape};
use crate::core::{Array, Batched, Result, Shape, Vmap};

/// Input `i` with its batch first; as it is where it does not vary.
pub fn front(r: &Vmap, i: usize) -> Result<Array> {
    match r.axes[i] {
        Some(axis) => moveaxis(&r.inputs[i], axis as i64, 0, r.stream),
        None => Ok(r.inputs[i].clone()),
    }
}

/// Input `i` with the batch first, repeated where it does not vary.
pub fn spread(r: &Vmap, i: usize) -> Result<Array> {
    let a = front(r, i)?;
    if r.axes[i].is_some() {
        return Ok(a);
    }
    let shape: Shape = std::iter::once(r.size()).chain(a.shape().iter().copied()).collect();
    broadcast_to(&a, &shape, r.stream)
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
