//! Arrays from nothing: constants are filled when evaluated, the tri family is comparisons of ranges. The constants of
//! derivatives are broadcast scalars, which need no memory.

use super::composite;
use super::elementwise::*;
use super::ranges::arange;
use super::support::*;
use super::view::{broadcast_along, reshape};
use crate::core::layout::checked_size;
use crate::core::notes::note;
use crate::core::primitive::cannot_follow;
use crate::core::{Array, Dtype, Result, Stored, Stream, lengths_vary};
use crate::{bail, params};

/// `value` repeated over `shape`, in `dtype` or its own.
pub fn full(shape: &[i64], value: &Array, dtype: Option<Dtype>, s: Stream) -> Result<Array> {
    let dtype = dtype.unwrap_or(value.dtype());
    checked_size("full", shape, dtype.size())?;
    let value = astype(value, dtype, s)?;
    refuse_f64("full", std::slice::from_ref(&value), s)?;
    filled(&value, shape, s)
}

/// Zeros.
pub fn zeros(shape: &[i64], dtype: Dtype, s: Stream) -> Result<Array> {
    full(shape, &scalar_f64(0.0, dtype)?, None, s)
}

/// Ones.
pub fn ones(shape: &[i64], dtype: Dtype, s: Stream) -> Result<Array> {
    full(shape, &scalar_f64(1.0, dtype)?, None, s)
}

/// Zeros of the shape and dtype of `a`, without memory of their own.
pub fn zeros_like(a: &Array, s: Stream) -> Result<Array> {
    broadcast_along(&scalar_f64(0.0, a.dtype())?, a.shape(), &[a], &[], s)
}

/// Ones of the shape and dtype of `a`, without memory of their own.
pub fn ones_like(a: &Array, s: Stream) -> Result<Array> {
    broadcast_along(&scalar_f64(1.0, a.dtype())?, a.shape(), &[a], &[], s)
}

/// `value` repeated over the shape of `a`.
pub fn full_like(a: &Array, value: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    match composite::one("full_like", || vec![dtype.name().into()], &[a, value], s)? {
        Some(out) => Ok(out),
        None => full(a.shape(), value, Some(dtype), s),
    }
}

/// A stored array of the shape of another one.
pub(super) fn restore_full_like(c: &Stored) -> Result<Array> {
    let [a, value] = c.inputs()?;
    let Some(dtype) = Dtype::from_name(c.text(0)?) else { return c.unknown() };
    full_like(a, value, dtype, c.stream)
}

/// Row indices of an (n, m) grid as a column, and column indices less `k` as a row.
pub(in crate::ops) fn places(n: i64, m: i64, k: i64, s: Stream) -> Result<(Array, Array)> {
    checked_size("tri", &[n, m], 1)?;
    // Beyond these all elements are alike.
    let k = k.clamp(-n, m);
    let rows = reshape(&arange(0.0, n as f64, 1.0, Dtype::I32, s)?, &[n, 1], s)?;
    let cols = reshape(&arange(-k as f64, (m - k) as f64, 1.0, Dtype::I32, s)?, &[1, m], s)?;
    Ok((rows, cols))
}

/// Row index minus column index compared with `k`, over an (n, m) grid, in a dtype.
fn band(
    name: &'static str,
    op: fn(&Array, &Array, Stream) -> Result<Array>,
    (n, m, k): (i64, i64, i64),
    dtype: Dtype,
    s: Stream,
) -> Result<Array> {
    let (rows, cols) = places(n, m, k, s)?;
    // FITS: a dtype's number.
    composed(name, dtype as u32, &[rows, cols], s, &|x| astype(&op(&x[0], &x[1], s)?, dtype, s))
}

/// Ones on the k-th diagonal of an (n, m) matrix.
///
/// # Errors
/// Value error while a function is recorded for arrays of any length: the lengths might follow from an argument's.
pub fn eye(n: i64, m: i64, k: i64, dtype: Dtype, s: Stream) -> Result<Array> {
    if lengths_vary() {
        return Err(cannot_follow("eye"));
    }
    if n < 0 || m < 0 {
        bail!(Value, "[eye] N and M must be positive integers, got {n} and {m}.");
    }
    let out = band("eye", equal, (n, m, k), dtype, s)?;
    if dtype != Dtype::Bool {
        let one = scalar_f64(1.0, dtype)?;
        note(std::slice::from_ref(&out), || ("diagonal_matrix", params![k], vec![one]));
    }
    Ok(out)
}

/// The (n, n) identity.
pub fn identity(n: i64, dtype: Dtype, s: Stream) -> Result<Array> {
    eye(n, n, 0, dtype, s)
}

/// Ones at and below the k-th diagonal of an (n, m) matrix; a negative size counts as zero.
pub fn tri(n: i64, m: i64, k: i64, dtype: Dtype, s: Stream) -> Result<Array> {
    let (n, m) = (n.max(0), m.max(0));
    let out = band("tri", greater_equal, (n, m, k), dtype, s)?;
    note(std::slice::from_ref(&out), || ("tri", params![k, 0i64], vec![]));
    Ok(out)
}

/// A stored triangle of matrices.
pub(super) fn restore_triangle(c: &Stored) -> Result<Array> {
    let part = if c.name == "tril" { tril } else { triu };
    part(c.input()?, c.int(0)?, c.stream)
}

fn triangle(op: &'static str, a: &Array, k: i64, lower: bool, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one(op, || vec![k.into()], &[a], s)? {
        return Ok(out);
    }
    if a.ndim() < 2 {
        bail!(Value, "[{op}] array must be at least 2-D, got {} dimensions.", a.ndim());
    }
    let (n, m) = (a.dim(-2), a.dim(-1));
    let zero = scalar_f64(0.0, a.dtype())?;
    let k = if lower { k } else { k.saturating_sub(1) };
    let (rows, cols) = places(n, m, k, s)?;
    composed("triangle", u32::from(lower), &[rows, cols, a.clone(), zero], s, &|x| {
        let mask = greater_equal(&x[0], &x[1], s)?;
        note(std::slice::from_ref(&mask), || ("tri", params![k, 0i64], vec![]));
        let (inside, outside) = if lower { (&x[2], &x[3]) } else { (&x[3], &x[2]) };
        select(&mask, inside, outside, s)
    })
}

/// Zeros above the k-th diagonal of the last two axes.
pub fn tril(a: &Array, k: i64, s: Stream) -> Result<Array> {
    triangle("tril", a, k, true, s)
}

/// Zeros below the k-th diagonal of the last two axes.
pub fn triu(a: &Array, k: i64, s: Stream) -> Result<Array> {
    triangle("triu", a, k, false, s)
}
