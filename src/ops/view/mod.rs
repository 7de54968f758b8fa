//! The view class: operations that move no data. Each states its layout rule; its vjp is the transposed
//! view. A reshape that the strides do not allow copies.

pub mod concatenate;
pub mod diagonal;
pub mod grid;
mod primitive;

pub(super) use self::primitive::restore;
use self::primitive::{Axes, Kind, Rule, Target, ViewOf, node, node_like, rearranged};
pub(crate) use self::primitive::{
    begins_along, is_alias, is_broadcast, is_contiguous, is_reshape, is_stop_gradient, start_along,
    transposed,
};
use super::composite;
use super::elementwise::{copy_node, not_equal};
use super::support::scalar_f64;
use crate::bail;
use crate::core::layout::{broadcast_shapes, checked_size, normalize_axis, row_major, show, shown, size_of};
use crate::core::lengths_vary;
use crate::core::notes::note;
use crate::core::{Array, Dtype, Layout, Result, Shape, Stored, Stream, Strides};
use crate::kernels::View;
use crate::params;

/// The array with other dimensions in row-major order; one of them may be -1.
pub fn reshape(a: &Array, shape: &[i64], s: Stream) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    let n = a.size() as i64;
    let mut full = Shape::from_slice(shape);
    if let Some(hole) = shape.iter().position(|&d| d == -1) {
        full[hole] = 1;
        if full.contains(&-1) {
            bail!(Value, "[reshape] Can only infer one dimension, got shape {}.", show(shape));
        }
        let rest = checked_size("reshape", &full, 1)? as i64;
        if rest == 0 || n % rest != 0 {
            if rest == 0 {
                bail!(Value, "[reshape] Cannot infer the shape of an empty array.");
            }
            bail!(Value, "[reshape] Cannot reshape array of size {n} into shape {}.", show(shape));
        }
        full[hole] = n / rest;
    }
    if checked_size("reshape", &full, 1)? as i64 != n {
        bail!(Value, "[reshape] Cannot reshape array of size {n} into shape {}.", show(&full));
    }
    reshaped_to(a, Rule::Shape(Shape::from_slice(shape)), &full, s)
}

/// A reshape whose rule fits the array.
fn reshaped(a: &Array, rule: Rule, s: Stream) -> Result<Array> {
    let shape = rule.apply(a.shape());
    reshaped_to(a, rule, &shape, s)
}

/// As [`reshaped`], where what the rule gives is known.
fn reshaped_to(a: &Array, rule: Rule, shape: &[i64], s: Stream) -> Result<Array> {
    // What changes nothing now may change something at other lengths.
    if a.shape() == shape && !(lengths_vary() && rule.has_hole()) {
        return Ok(a.clone());
    }
    node(Kind::Reshape(rule), shape, a.dtype(), a, s)
}

/// Joins axes `start..=end` into one.
pub fn flatten(a: &Array, start: i64, end: i64, s: Stream) -> Result<Array> {
    if a.ndim() == 0 {
        return reshape(a, &[1], s);
    }
    let n = a.ndim() as i64;
    let clamp = |ax: i64| (if ax < 0 { ax + n } else { ax }).clamp(0, n - 1);
    if start >= n || end < -n {
        bail!(Value, "[flatten] Invalid start_axis {start} or end_axis {end} for {n} dimensions.");
    }
    // FITS: clamped to the axes.
    let (i, j) = (clamp(start) as usize, clamp(end) as usize);
    if i > j {
        bail!(Value, "[flatten] start_axis must be less than or equal to end_axis, got {start} and {end}.");
    }
    let joined = a.shape()[i..=j].iter().fold(1i64, |n, &d| n.saturating_mul(d));
    checked_size("flatten", &[joined], 1)?;
    reshaped(a, Rule::Flatten(i, j), s)
}

/// Splits one axis into several; one of the new dimensions may be -1.
pub fn unflatten(a: &Array, axis: i64, shape: &[i64], s: Stream) -> Result<Array> {
    if shape.is_empty() {
        bail!(Value, "[unflatten] Shape to unflatten to cannot be empty.");
    }
    let ax = normalize_axis("unflatten", axis, a.ndim())?;
    let mut dims = shape.to_vec();
    let n = a.shape()[ax];
    if let Some(hole) = dims.iter().position(|&d| d == -1) {
        let others: Shape = dims.iter().copied().filter(|&d| d != -1).collect();
        let rest = checked_size("unflatten", &others, 1)? as i64;
        if rest == 0 || n % rest != 0 {
            bail!(Value, "[unflatten] Cannot split axis of size {n} into {}.", show(shape));
        }
        dims[hole] = n / rest;
    }
    if checked_size("unflatten", &dims, 1)? as i64 != n {
        bail!(Value, "[unflatten] Cannot split axis of size {n} into {}.", show(shape));
    }
    reshaped(a, Rule::Unflatten(ax, shape.into()), s)
}

/// Axes in another order; reversed for `None`.
pub fn transpose(a: &Array, axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    let n = a.ndim();
    let perm: Axes = match axes {
        None => (0..n).rev().collect(),
        Some(axes) => {
            if axes.len() != n {
                bail!(Value, "[transpose] Received {} axes for array with {n} dimensions.", axes.len());
            }
            let (mut seen, mut perm) = (0u64, Axes::new());
            for &ax in axes {
                // FITS: of at most 64 axes.
                let ax = normalize_axis("transpose", ax, n)?;
                if seen >> ax & 1 == 1 {
                    bail!(Value, "[transpose] Repeat axes not allowed, got {axes:?}.");
                }
                seen |= 1 << ax;
                perm.push(ax);
            }
            perm
        }
    };
    if perm.iter().enumerate().all(|(i, &p)| i == p) {
        return Ok(a.clone());
    }
    let shape = rearranged(a.shape(), &perm);
    node(Kind::Transpose(perm), &shape, a.dtype(), a, s)
}

/// Exchanges two axes.
pub fn swapaxes(a: &Array, i: i64, j: i64, s: Stream) -> Result<Array> {
    let (i, j) = (normalize_axis("swapaxes", i, a.ndim())?, normalize_axis("swapaxes", j, a.ndim())?);
    let mut perm: Vec<i64> = (0..a.ndim() as i64).collect();
    perm.swap(i, j);
    transpose(a, Some(&perm), s)
}

/// Moves one axis to another position.
pub fn moveaxis(a: &Array, from: i64, to: i64, s: Stream) -> Result<Array> {
    let from = normalize_axis("moveaxis", from, a.ndim())?;
    let to = normalize_axis("moveaxis", to, a.ndim())?;
    let mut perm: Vec<i64> = (0..a.ndim() as i64).collect();
    let ax = perm.remove(from);
    perm.insert(to, ax);
    transpose(a, Some(&perm), s)
}

/// Inserts axes of length 1 at positions of the result.
pub fn expand_dims(a: &Array, axes: &[i64], s: Stream) -> Result<Array> {
    let n = a.ndim() + axes.len();
    let mut fresh = vec![false; n];
    for &ax in axes {
        let ax = normalize_axis("expand_dims", ax, n)?;
        if std::mem::replace(&mut fresh[ax], true) {
            bail!(Value, "[expand_dims] Received duplicate axes {:?}.", shown(axes));
        }
    }
    reshaped(a, Rule::Expand(fresh), s)
}

/// Removes axes of length 1; all of them for `None`.
pub fn squeeze(a: &Array, axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    let mut drop = vec![false; a.ndim()];
    match axes {
        None => drop.iter_mut().zip(a.shape()).for_each(|(d, &n)| *d = n == 1),
        Some(axes) => {
            for &ax in axes {
                let i = normalize_axis("squeeze", ax, a.ndim())?;
                if a.shape()[i] != 1 {
                    bail!(
                        Value,
                        "[squeeze] Cannot squeeze axis {ax} with size {} which is not equal to 1.",
                        a.shape()[i]
                    );
                }
                if std::mem::replace(&mut drop[i], true) {
                    bail!(Value, "[squeeze] Received duplicate axes {:?}.", shown(axes));
                }
            }
        }
    }
    reshaped(a, Rule::Squeeze(drop), s)
}

/// Repeats axes of length 1 without copying.
pub fn broadcast_to(a: &Array, shape: &[i64], s: Stream) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    checked_size("broadcast_to", shape, a.dtype().size())?;
    let fits = shape.len() >= a.ndim()
        && a.shape().iter().rev().zip(shape.iter().rev()).all(|(&d, &t)| d == t || d == 1);
    if !fits {
        bail!(
            Value,
            "[broadcast_to] Cannot broadcast array of shape {} into shape {}.",
            show(a.shape()),
            show(shape)
        );
    }
    node(Kind::Broadcast(Target::Shape(shape.into())), shape, a.dtype(), a, s)
}

/// The first array broadcast against the others, but for axes that it keeps (counted from the end from 1 on).
fn broadcast_with(arrays: &[Array], kept: &[usize], s: Stream) -> Result<Array> {
    let kind = Kind::Broadcast(Target::Inputs(kept.into()));
    let shape = Target::Inputs(kept.into()).apply(arrays)?;
    checked_size("broadcast_arrays", &shape, arrays[0].dtype().size())?;
    Array::lazy(shape, arrays[0].dtype(), ViewOf(kind), arrays.to_vec(), s)
}

/// `a` broadcast to `shape`, which follows from its own and the shapes of `others` on all axes but those in
/// `kept` (counted from the end from 1 on): where lengths vary it is computed from them again.
pub(super) fn broadcast_along(
    a: &Array,
    shape: &[i64],
    others: &[&Array],
    kept: &[usize],
    s: Stream,
) -> Result<Array> {
    if !lengths_vary() {
        return broadcast_to(a, shape, s);
    }
    let all: Vec<Array> = std::iter::once(a).chain(others.iter().copied()).cloned().collect();
    broadcast_with(&all, kept, s)
}

/// Broadcasts arrays against each other.
pub fn broadcast_arrays(arrays: &[Array], s: Stream) -> Result<Vec<Array>> {
    let mut shape = Shape::new();
    for a in arrays {
        shape = broadcast_shapes("broadcast_arrays", &shape, a.shape())?;
    }
    let all: Vec<&Array> = arrays.iter().collect();
    arrays.iter().map(|a| broadcast_along(a, &shape, &all, &[], s)).collect()
}

/// Number of elements that a normalised slice takes.
pub fn slice_len(start: i64, stop: i64, step: i64) -> i64 {
    if step > 0 {
        (stop - start + step - 1).div_euclid(step).max(0)
    } else {
        (start - stop - step - 1).div_euclid(-step).max(0)
    }
}

/// Checks slice bounds against a shape and returns the result's shape.
pub(super) fn slice_shape(
    op: &str,
    shape: &[i64],
    start: &[i64],
    stop: &[i64],
    step: &[i64],
) -> Result<Shape> {
    if start.len() != shape.len() || stop.len() != shape.len() || step.len() != shape.len() {
        bail!(Value, "[{op}] Invalid number of indices or strides for array with dimension {}.", shape.len());
    }
    let mut out = Shape::new();
    for i in 0..shape.len() {
        if step[i] == 0 {
            bail!(Value, "[{op}] slice step cannot be zero.");
        }
        let n = slice_len(start[i], stop[i], step[i]);
        let last = start[i] + (n - 1).max(0) * step[i];
        if n > 0 && (start[i] < 0 || start[i] >= shape[i] || last < 0 || last >= shape[i]) {
            bail!(
                Value,
                "[{op}] Slice {}:{}:{} reaches outside axis {i} of shape {}.",
                start[i],
                stop[i],
                step[i],
                show(shape)
            );
        }
        out.push(n);
    }
    Ok(out)
}

/// Elements `start, start + step, ...` before `stop` along each axis; bounds are absolute.
pub fn slice(a: &Array, start: &[i64], stop: &[i64], step: &[i64], s: Stream) -> Result<Array> {
    let shape = slice_shape("slice", a.shape(), start, stop, step)?;
    if shape.as_slice() == a.shape() && step.iter().all(|&x| x == 1) {
        return Ok(a.clone());
    }
    let kind = Kind::Slice { start: Shape::from_slice(start), step: Shape::from_slice(step) };
    node(kind, &shape, a.dtype(), a, s)
}

/// A view with explicit strides and offset over the row-major elements of `a`.
pub fn as_strided(
    a: &Array,
    shape: Option<&[i64]>,
    strides: Option<&[i64]>,
    offset: i64,
    s: Stream,
) -> Result<Array> {
    let shape: Shape = shape.unwrap_or(a.shape()).into();
    let strides: Strides = strides.map_or_else(|| row_major(&shape), Into::into);
    if strides.len() != shape.len() {
        bail!(
            Value,
            "[as_strided] Expected as many strides as dimensions, got {} and {}.",
            strides.len(),
            shape.len()
        );
    }
    checked_size("as_strided", &shape, a.dtype().size())?;
    let l = Layout { shape: shape.clone(), strides: strides.clone(), offset };
    if let Some((lo, hi)) = l.span()
        && (lo < 0 || hi >= a.size() as i64)
    {
        bail!(Value, "[as_strided] Elements {lo}..={hi} lie outside the array of size {}.", a.size());
    }
    node(Kind::AsStrided { strides, offset }, &shape, a.dtype(), a, s)
}

/// The same bytes as another dtype; the last axis scales with the element size.
pub fn view(a: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    if dtype == Dtype::Bool {
        // Any byte but 0 stands for true, and kernels count on 0 and 1.
        return not_equal(&view(a, Dtype::U8, s)?, &scalar_f64(0.0, Dtype::U8)?, s);
    }
    if let Some(out) = composite::one("view_as", || vec![dtype.name().into()], &[a], s)? {
        return Ok(out);
    }
    let (from, to) = (a.dtype().size(), dtype.size());
    let mut shape: Shape = a.shape().into();
    if from != to {
        let Some(last) = shape.last_mut() else {
            bail!(
                Value,
                "[view] Changing the type of a 0-dimensional array is only allowed between types of equal size."
            );
        };
        // FITS: a dimension of 31 bits times at most eight.
        let bytes = *last as usize * from;
        if !bytes.is_multiple_of(to) {
            bail!(
                Value,
                "[view] If the last dimension is viewed as {dtype} its {bytes} bytes must divide by {to}."
            );
        }
        *last = (bytes / to) as i64;
    }
    node(Kind::Dtype, &shape, dtype, a, s)
}

/// A row-major array; `a` itself if it is one. With `allow_col_major` a transposed dense array counts too.
pub fn contiguous(a: &Array, allow_col_major: bool, s: Stream) -> Result<Array> {
    rows(a, allow_col_major, false, s)
}

/// As [`contiguous`]; what shares its memory with much more is copied.
pub fn contiguous_alone(a: &Array, allow_col_major: bool, s: Stream) -> Result<Array> {
    rows(a, allow_col_major, true, s)
}

fn rows(a: &Array, allow_col_major: bool, alone: bool, s: Stream) -> Result<Array> {
    if allow_col_major && a.has_data() {
        let l = a.layout()?;
        let reversed = Layout {
            shape: l.shape.iter().rev().copied().collect(),
            strides: l.strides.iter().rev().copied().collect(),
            offset: l.offset,
        };
        if reversed.is_row_contiguous() {
            return Ok(a.clone());
        }
    }
    node(Kind::Contiguous { alone }, a.shape(), a.dtype(), a, s)
}

/// A fresh copy.
pub fn copy(a: &Array, s: Stream) -> Result<Array> {
    Ok(copy_node(a, s))
}

/// At least `n` axes: 1 -> (1, n) for two, (1, n, 1) for three, as NumPy places them.
pub fn at_least_nd(a: &Array, n: usize, s: Stream) -> Result<Array> {
    let out = match (n, a.ndim()) {
        (1, 0) => reshape(a, &[1], s)?,
        (2, 0) => reshape(a, &[1, 1], s)?,
        (2, 1) => expand_dims(a, &[0], s)?,
        (3, 0) => reshape(a, &[1, 1, 1], s)?,
        (3, 1) => expand_dims(a, &[0, 2], s)?,
        (3, 2) => expand_dims(a, &[2], s)?,
        _ => a.clone(),
    };
    note(std::slice::from_ref(&out), || ("reshape", params!["shape", out.shape()], vec![a.clone()]));
    Ok(out)
}

/// The same values, through which no derivative flows.
pub fn stop_gradient(a: &Array) -> Array {
    // The stream is irrelevant: evaluation shares the input's storage.
    let s = a.node().map_or_else(|| crate::core::default_stream(crate::core::default_device()), |n| n.stream);
    node_like(Kind::StopGradient, a, s)
}

/// The same values as a node of their own; transforms mark their inputs with it.
pub fn alias(a: &Array) -> Array {
    let s = a.node().map_or_else(|| crate::core::default_stream(crate::core::default_device()), |n| n.stream);
    node_like(Kind::Alias, a, s)
}

/// A stored flip, or the bytes as another dtype.
pub(super) fn restore_public(c: &Stored) -> Result<Array> {
    match c.name {
        "flip" => flip(c.input()?, c.maybe_ints(0)?, c.stream),
        "view_as" => match Dtype::from_name(c.text(0)?) {
            Some(dtype) => view(c.input()?, dtype, c.stream),
            None => c.unknown(),
        },
        _ => c.unknown(),
    }
}

/// Reverses the order of elements along axes; all of them for `None`.
pub fn flip(a: &Array, axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    // An axis that is named twice counts once.
    let ax = super::support::sorted_axes("flip", axes, a.ndim())?;
    if let Some(out) = composite::one("flip", || vec![axes.into()], &[a], s)? {
        return Ok(out);
    }
    let (mut start, mut stop, mut step) = (vec![0; a.ndim()], a.shape().to_vec(), vec![1; a.ndim()]);
    for i in ax {
        (start[i], stop[i], step[i]) = (a.shape()[i] - 1, -1, -1);
    }
    slice(a, &start, &stop, &step, s)
}

/// View of `dst` through a slice; used by kernels that write parts of an output.
pub(crate) fn sliced<P: Copy>(
    v: &View<P>,
    start: &[i64],
    step: &[i64],
    shape: &[i64],
    at: impl Fn(P, i64) -> P,
) -> View<P> {
    let mut shift = 0;
    if size_of(shape) > 0 {
        shift = start.iter().zip(&v.strides).map(|(a, b)| a * b).sum::<i64>() * v.dtype.size() as i64;
    }
    View {
        ptr: at(v.ptr, shift),
        dtype: v.dtype,
        shape: shape.into(),
        strides: v.strides.iter().zip(step).map(|(a, b)| a * b).collect(),
    }
}
