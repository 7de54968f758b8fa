//! Diagonals, triangles and ranges, which MLX makes of ranges and comparisons.

use super::draft::{Draft, list, tuple};
use super::{Arg, Call};
use crate::core::Shape;

/// Elements (i, i + offset) of two axes. Parameters: offset, both axes.
pub(super) fn diagonal(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, offset, rows, cols) = (c.input(), c.int(0), c.int(1), c.int(2));
    let n = *c.shape().last().unwrap_or(&0);
    let (down, right) = ((-offset).max(0) as f64, offset.max(0) as f64);
    let i = d.arange(down, down + n as f64, 1.0, n, crate::core::Dtype::U32);
    let j = d.arange(right, right + n as f64, 1.0, n, crate::core::Dtype::U32);
    let mut window = d.shape(x);
    (window[rows as usize], window[cols as usize]) = (1, 1);
    let shape: Shape = std::iter::once(n).chain(window.iter().copied()).collect();
    let dtype = c.dtype();
    let picked = d.one("Gather", vec![list(&[rows, cols]), tuple(&window)], vec![x, i, j], shape, dtype);
    let mut axes = [rows + 1, cols + 1];
    axes.sort_unstable();
    let picked = d.squeeze(picked, &axes);
    match d.ndim(picked) as i64 {
        1 => vec![picked],
        n => vec![d.transpose(picked, &(1..n).chain([0]).collect::<Vec<_>>())],
    }
}

/// A matrix with the input on a diagonal. Parameter: which.
pub(super) fn diagonal_matrix(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, offset, dtype) = (c.input(), c.int(0), c.dtype());
    let (height, width) = (c.shape()[0], c.shape()[1]);
    let n = (height - (-offset).max(0)).min(width - offset.max(0)).max(0);
    let zero = d.scalar(0.0, dtype);
    let base = d.full(zero, &c.shape());
    let (down, right) = ((-offset).max(0) as f64, offset.max(0) as f64);
    let i = d.arange(down, down + n as f64, 1.0, n, crate::core::Dtype::U32);
    let j = d.arange(right, right + n as f64, 1.0, n, crate::core::Dtype::U32);
    let values = match d.ndim(x) {
        0 => d.full(x, &[n, 1, 1]),
        _ => d.reshape(x, &[n, 1, 1]),
    };
    d.labelled(
        "Scatter",
        "Scatter",
        vec![Arg::Int(4), list(&[0, 1])],
        vec![base, i, j, values],
        c.outs.clone(),
    )
}

/// Parameters: start and step; in notes also where it ends.
pub(super) fn arange(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (start, step, n) = (c.float(0), c.float(1), c.shape()[0]);
    let stop = if c.params.len() > 2 { c.float(2) } else { start + step * n as f64 };
    vec![d.arange(start, stop, step, n, c.dtype())]
}

/// Where `i >= j - k`. Parameter: k.
pub(super) fn lower(d: &mut Draft, n: i64, m: i64, k: i64) -> usize {
    use crate::core::Dtype::I32;
    let i = d.arange(0.0, n as f64, 1.0, n, I32);
    let i = d.expand(i, &[1]);
    let j = d.arange(-k as f64, (m - k) as f64, 1.0, m, I32);
    let j = d.expand(j, &[0]);
    d.compare("GreaterEqual", i, j)
}

/// Parameters: k; whether the lower part of an input stays (1), the upper one (2), or ones are made (0).
pub(super) fn triangle(d: &mut Draft, c: &Call) -> Vec<usize> {
    let shape = c.shape();
    let (n, m) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let (k, dtype) = (c.int(0), c.dtype());
    let mask = lower(d, n, m, if c.int(1) == 2 { k - 1 } else { k });
    if c.int(1) == 0 {
        return vec![d.cast(mask, dtype)];
    }
    let (x, zero) = (c.input(), d.scalar(0.0, dtype));
    vec![if c.int(1) == 1 { d.select(mask, x, zero) } else { d.select(mask, zero, x) }]
}
