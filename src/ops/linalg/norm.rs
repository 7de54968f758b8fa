//! Vector and matrix norms, and the cross product: compositions that run on every stream. The norms that need
//! singular values run on CPU streams only.

use super::svd;
use crate::bail;
use crate::core::layout::{broadcast_shapes, normalize_axis, show};
use crate::core::notes::note;
use crate::core::{Array, Dtype, Result, Shape, Stored, Stream};
use crate::kernels::Statistic;
use crate::ops::composite;
use crate::ops::elementwise::*;
use crate::ops::reduce::{max, min, one_pass, sum};
use crate::ops::support::*;
use crate::ops::view::concatenate::concatenate;
use crate::ops::view::{broadcast_to, expand_dims, moveaxis, slice};
use crate::params;

/// Which norm.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Euclidean over the axes, whichever they are.
    Euclidean,
    /// Of this order.
    Number(f64),
    /// `fro`, `f` or `nuc`, of matrices.
    Named(String),
}

/// `|x|` in a floating point type.
fn sizes(a: &Array, s: Stream) -> Result<Array> {
    astype(&abs(a, s)?, real_type(a), s)
}

fn real_type(a: &Array) -> Dtype {
    if a.dtype() == Dtype::C64 { Dtype::F32 } else { a.dtype().at_least_float() }
}

/// The dtype of norms of an order: that of complex arrays stays complex but for Euclidean ones, as in MLX.
fn result(x: Array, a: &Array, s: Stream) -> Result<Array> {
    astype(&x, a.dtype().at_least_float(), s)
}

fn euclidean(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    let ax = axes_of("sum", axes, a.ndim())?;
    if let Some(out) = one_pass(Statistic::Norm, a, &ax, keepdims, 0, s)? {
        return Ok(out);
    }
    let dtype = real_type(a);
    let squares = match a.dtype() {
        Dtype::C64 => add(&square(&real(a, s)?, s)?, &square(&imag(a, s)?, s)?, s)?,
        _ => square(&astype(a, dtype, s)?, s)?,
    };
    let out = sqrt(&sum(&squares, axes, keepdims, s)?, s)?;
    if axes.is_none() && !keepdims && a.ndim() > 1 && a.dtype() != Dtype::C64 {
        note(std::slice::from_ref(&out), || ("norm_flat", params![], vec![a.clone()]));
    }
    Ok(out)
}

fn vector(a: &Array, p: f64, axis: i64, keepdims: bool, s: Stream) -> Result<Array> {
    let axes: Option<&[i64]> = Some(&[axis]);
    let d = real_type(a);
    if p == 2.0 {
        return euclidean(a, axes, keepdims, s);
    }
    let x = sizes(a, s)?;
    let n = match p {
        0.0 => {
            let counted = not_equal(a, &scalar_f64(0.0, a.dtype())?, s)?;
            sum(&astype(&counted, d, s)?, axes, keepdims, s)?
        }
        1.0 => sum(&x, axes, keepdims, s)?,
        f64::INFINITY => max(&x, axes, keepdims, s)?,
        f64::NEG_INFINITY => min(&x, axes, keepdims, s)?,
        p => {
            let powers = power(&x, &scalar_f64(p, d)?, s)?;
            power(&sum(&powers, axes, keepdims, s)?, &scalar_f64(1.0 / p, d)?, s)?
        }
    };
    result(n, a, s)
}

/// Singular values of the matrices of two axes, with both axes kept as one and its neighbour of length 1.
fn singular(a: &Array, rows: i64, cols: i64, s: Stream) -> Result<Array> {
    let ndim = a.ndim() as i64;
    let (rows, cols) = (normalize_axis("norm", rows, a.ndim())?, normalize_axis("norm", cols, a.ndim())?);
    let x = moveaxis(a, rows as i64, -1, s)?;
    let cols = if cols > rows { cols - 1 } else { cols };
    let x = moveaxis(&x, cols as i64, -1, s)?;
    debug_assert!(x.ndim() as i64 == ndim);
    Ok(svd(&x, false, s)?.swap_remove(0))
}

fn matrix(a: &Array, order: &Order, axes: (i64, i64), keepdims: bool, s: Stream) -> Result<Array> {
    let (rows, cols) = axes;
    // One axis after the other: the second one's place does not change while axes are kept.
    let along = |inner: i64, outer: i64, largest: bool| {
        let sums = sum(&sizes(a, s)?, Some(&[inner]), true, s)?;
        let n =
            if largest { max(&sums, Some(&[outer]), true, s)? } else { min(&sums, Some(&[outer]), true, s)? };
        result(n, a, s)
    };
    let spectral = |pick: fn(&Array, Option<&[i64]>, bool, Stream) -> Result<Array>| {
        let values = pick(&singular(a, rows, cols, s)?, Some(&[-1]), false, s)?;
        let mut ends =
            [normalize_axis("norm", rows, a.ndim())? as i64, normalize_axis("norm", cols, a.ndim())? as i64];
        ends.sort_unstable();
        expand_dims(&values, &ends, s)
    };
    let kept = match order {
        Order::Euclidean => euclidean(a, Some(&[rows, cols]), true, s)?,
        Order::Named(name) => match name.as_str() {
            "fro" | "f" => euclidean(a, Some(&[rows, cols]), true, s)?,
            "nuc" => spectral(sum)?,
            _ => bail!(Value, "[linalg::norm] Invalid ord value '{name}' for matrix norm."),
        },
        Order::Number(p) => match *p {
            1.0 => along(rows, cols, true)?,
            -1.0 => along(rows, cols, false)?,
            f64::INFINITY => along(cols, rows, true)?,
            f64::NEG_INFINITY => along(cols, rows, false)?,
            2.0 => result(spectral(max)?, a, s)?,
            -2.0 => result(spectral(min)?, a, s)?,
            p => bail!(Value, "[linalg::norm] Invalid ord {p} for matrix norm."),
        },
    };
    if keepdims { Ok(kept) } else { crate::ops::view::squeeze(&kept, Some(&[rows, cols]), s) }
}

/// The norm over an axis, over two axes that hold matrices, or, for no axes, over the whole array; a given order
/// needs one or two axes.
///
/// # Errors
/// Value error for orders that do not exist for so many axes; index error for axes that do not exist.
pub fn norm(a: &Array, order: &Order, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    if *order == Order::Euclidean && axes.is_none_or(|ax| ax.is_empty()) {
        let axes = if axes.is_some() { Some(&[][..]) } else { None };
        return euclidean(a, axes, keepdims, s);
    }
    let all: Vec<i64> = (0..a.ndim() as i64).collect();
    let axes = axes.unwrap_or(&all);
    if let Order::Named(name) = order
        && axes.len() != 2
    {
        bail!(
            Value,
            "[linalg::norm] Norm '{name}' only supported for matrices, but received {} axis/axes.",
            axes.len()
        );
    }
    match (axes, order) {
        ([axis], Order::Number(p)) => vector(a, *p, *axis, keepdims, s),
        ([_], _) => euclidean(a, Some(axes), keepdims, s),
        (&[rows, cols], _) => {
            let (r, c) = (normalize_axis("norm", rows, a.ndim())?, normalize_axis("norm", cols, a.ndim())?);
            if r == c {
                bail!(Value, "[linalg::norm] Duplicate axes {rows} and {cols}.");
            }
            matrix(a, order, (rows, cols), keepdims, s)
        }
        _ => bail!(Value, "[linalg::norm] Received too many axes for norm."),
    }
}

/// A stored cross product.
pub(in crate::ops) fn restore_cross(c: &Stored) -> Result<Array> {
    let [a, b] = c.inputs()?;
    cross(a, b, c.int(0)?, c.stream)
}

/// Cross products of vectors of two or three components along an axis; a missing third component is zero.
///
/// # Errors
/// Value error for other lengths and shapes that do not broadcast; index error for an axis that does not exist.
pub fn cross(a: &Array, b: &Array, axis: i64, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("cross", || vec![axis.into()], &[a, b], s)? {
        return Ok(out);
    }
    let n = a.ndim().max(b.ndim());
    if a.ndim() == 0 || b.ndim() == 0 {
        bail!(Index, "[linalg::cross] Axis {axis} is out of bounds for array with 0 dimensions.");
    }
    let ax = normalize_axis("linalg::cross", axis, n)?;
    // The axis counts in the broadcast array.
    let place = |x: &Array| (ax + x.ndim()).checked_sub(n);
    let (Some(pa), Some(pb)) = (place(a), place(b)) else {
        let (x, y) = (show(a.shape()), show(b.shape()));
        bail!(Value, "[linalg::cross] Shapes {x} and {y} cannot be broadcast along axis {axis}.");
    };
    let (la, lb) = (a.shape()[pa], b.shape()[pb]);
    if !(2..=3).contains(&la) || !(2..=3).contains(&lb) {
        bail!(Value, "[linalg::cross] The specified axis must have size 2 or 3, got {la} and {lb}.");
    }
    let dtype = a.dtype().promote(b.dtype());
    let lead = |x: &Array, p: usize| -> Shape {
        let mut shape: Shape = x.shape().into();
        shape[p] = 1;
        shape
    };
    let shape = broadcast_shapes("linalg::cross", &lead(a, pa), &lead(b, pb))?;
    let part = |x: &Array, p: usize, len: i64, i: i64| -> Result<Option<Array>> {
        if i >= len {
            return Ok(None);
        }
        let (mut start, mut stop) = (vec![0; x.ndim()], x.shape().to_vec());
        (start[p], stop[p]) = (i, i + 1);
        let piece = slice(&astype(x, dtype, s)?, &start, &stop, &vec![1; x.ndim()], s)?;
        broadcast_to(&piece, &shape, s).map(Some)
    };
    let mut parts = Vec::with_capacity(3);
    for i in 0..3 {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let product = |i: i64, j: i64| -> Result<Option<Array>> {
            match (part(a, pa, la, i)?, part(b, pb, lb, j)?) {
                (Some(x), Some(y)) => multiply(&x, &y, s).map(Some),
                _ => Ok(None),
            }
        };
        parts.push(match (product(j, k)?, product(k, j)?) {
            (Some(x), Some(y)) => subtract(&x, &y, s)?,
            (Some(x), None) => x,
            (None, Some(y)) => negative(&y, s)?,
            (None, None) => broadcast_to(&scalar_f64(0.0, dtype)?, &shape, s)?,
        });
    }
    concatenate(&parts, ax as i64, s)
}
