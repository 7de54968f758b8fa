//! Joining, splitting, padding and repeating. Concatenation copies its parts into one output; the rest is
//! built from it, from views and from slice updates.

use super::{broadcast_to, expand_dims, flatten, reshape, slice, sliced};
use crate::bail;
use crate::core::layout::{checked_size, normalize_axis, show};
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, with_batch};
use crate::ops::composite;
use crate::ops::create::{full, zeros};
use crate::ops::elementwise::astype;
use crate::ops::index::slice_update::slice_update;
use crate::ops::support::*;
use crate::params;

struct Concatenate {
    axis: usize,
}

/// How to split an axis.
pub enum Split<'a> {
    /// Into this many equal parts.
    Sections(i64),
    /// At these positions.
    Indices(&'a [i64]),
}

/// What padding is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadMode {
    /// A constant.
    Constant,
    /// The nearest edge element.
    Edge,
    /// The mirror image without the edge element.
    Reflect,
    /// The mirror image with the edge element.
    Symmetric,
}

impl PadMode {
    /// In the order of their numbers.
    pub const ALL: [PadMode; 4] = [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Symmetric];

    /// The mode of a name.
    pub fn named(name: &str) -> Option<PadMode> {
        PadMode::ALL.into_iter().find(|m| m.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            PadMode::Constant => "constant",
            PadMode::Edge => "edge",
            PadMode::Reflect => "reflect",
            PadMode::Symmetric => "symmetric",
        }
    }
}

impl Concatenate {
    /// Start of every part along the axis.
    fn starts(&self, inputs: &[Array]) -> Vec<i64> {
        let mut at = 0;
        inputs
            .iter()
            .map(|a| {
                let start = at;
                at += a.shape()[self.axis];
                start
            })
            .collect()
    }

    fn origin(&self, ndim: usize, at: i64) -> Vec<i64> {
        let mut start = vec![0; ndim];
        start[self.axis] = at;
        start
    }
}

impl Primitive for Concatenate {
    fn name(&self) -> &str {
        "concatenate"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let dst = host_out(&outputs[0])?;
        for (a, at) in inputs.iter().zip(self.starts(inputs)) {
            if a.size() > 0 {
                let part =
                    sliced(&dst, &self.origin(a.ndim(), at), &vec![1; a.ndim()], a.shape(), |p, shift| {
                        p.wrapping_offset(shift as isize)
                    });
                crate::cpu::elementwise::copy(&host_in(a)?, &part)?;
            }
        }
        Ok(())
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let dst = dev_out(enc, &outputs[0])?;
            let arrays = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            if crate::vulkan::kernels::index::join::concatenate(enc, &arrays, self.axis, &dst)? {
                return Ok(());
            }
            for (a, at) in arrays.iter().zip(self.starts(inputs)).filter(|(a, _)| a.size() > 0) {
                let (start, step) = (self.origin(a.ndim(), at), vec![1; a.ndim()]);
                let part = sliced(&dst, &start, &step, &a.shape, |p, shift| p.wrapping_add_signed(shift));
                crate::vulkan::kernels::elementwise::copy(enc, a, &part)?;
            }
            Ok(())
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let starts = self.starts(primals);
        let cot = &cotangents[0];
        r.each(|i| {
            let start = self.origin(cot.ndim(), starts[i]);
            let mut stop = cot.shape().to_vec();
            stop[self.axis] = starts[i] + primals[i].shape()[self.axis];
            slice(cot, &start, &stop, &vec![1; cot.ndim()], s).map(Some)
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let parts = (0..r.primals.len()).map(|i| tangent_or_zeros(r, i)).collect::<Result<Vec<_>>>()?;
        Ok(Some(vec![Some(concatenate(&parts, self.axis as i64, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let parts = (0..r.inputs.len()).map(|i| with_batch(r, i)).collect::<Result<Vec<_>>>()?;
        concatenate(&parts, self.axis as i64 + 1, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let mut shape: Shape = inputs[0].shape().into();
        let fits = |a: &Array| {
            a.ndim() == shape.len() && (0..shape.len()).all(|i| i == self.axis || a.shape()[i] == shape[i])
        };
        if let Some(a) = inputs.iter().find(|a| !fits(a)) {
            let (one, other) = (show(&shape), show(a.shape()));
            bail!(Value, "[concatenate] Arrays of shapes {one} and {other} cannot be joined.");
        }
        shape[self.axis] = inputs.iter().map(|a| a.shape()[self.axis]).sum();
        checked_size("concatenate", &shape, inputs[0].dtype().size())?;
        Ok(vec![shape])
    }
}

/// A stored concatenation.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    concatenate(c.inputs, c.int(0)?, c.stream)
}

/// Arrays one after another along an axis.
pub fn concatenate(arrays: &[Array], axis: i64, s: Stream) -> Result<Array> {
    let Some(first) = arrays.first() else {
        bail!(Value, "[concatenate] No arrays provided for concatenation.");
    };
    // As MLX does, whatever the axis.
    if arrays.len() == 1 {
        return Ok(first.clone());
    }
    let ax = normalize_axis("concatenate", axis, first.ndim())?;
    let mut shape: Shape = first.shape().into();
    let mut dtype = first.dtype();
    shape[ax] = 0;
    for a in arrays {
        let same =
            a.ndim() == first.ndim() && (0..a.ndim()).all(|i| i == ax || a.shape()[i] == first.shape()[i]);
        if !same {
            bail!(
                Value,
                "[concatenate] All the input array dimensions must match exactly except for the \
                 concatenation axis {axis}, got {} and {}.",
                show(first.shape()),
                show(a.shape())
            );
        }
        shape[ax] += a.shape()[ax];
        dtype = dtype.promote(a.dtype());
    }
    checked_size("concatenate", &shape, dtype.size())?;
    let inputs = arrays.iter().map(|a| astype(a, dtype, s)).collect::<Result<Vec<_>>>()?;
    refuse_f64("concatenate", &inputs, s)?;
    Array::lazy(shape, dtype, Concatenate { axis: ax }, inputs, s)
}

/// Arrays of one shape joined along a new axis.
pub fn stack(arrays: &[Array], axis: i64, s: Stream) -> Result<Array> {
    let Some(first) = arrays.first() else {
        bail!(Value, "[stack] No arrays provided for stacking.");
    };
    if let Some(a) = arrays.iter().find(|a| a.shape() != first.shape()) {
        bail!(
            Value,
            "[stack] All arrays must have the same shape, got {} and {}.",
            show(first.shape()),
            show(a.shape())
        );
    }
    let ax = normalize_axis("stack", axis, first.ndim() + 1)? as i64;
    let parts = arrays.iter().map(|a| expand_dims(a, &[ax], s)).collect::<Result<Vec<_>>>()?;
    concatenate(&parts, ax, s)
}

/// A stored split.
pub(in crate::ops) fn restore_split(c: &Stored) -> Result<Vec<Array>> {
    let how = match c.maybe_int(0)? {
        Some(k) => Split::Sections(k),
        None => Split::Indices(c.ints(1)?),
    };
    split(c.input()?, how, c.int(2)?, c.stream)
}

/// Consecutive parts of an array along an axis, as views.
pub fn split(a: &Array, how: Split, axis: i64, s: Stream) -> Result<Vec<Array>> {
    let ax = normalize_axis("split", axis, a.ndim())?;
    let given = || match how {
        Split::Sections(k) => vec![k.into(), Param::Ints(Vec::new()), axis.into()],
        Split::Indices(at) => vec![None::<i64>.into(), at.into(), axis.into()],
    };
    if let Some(out) = composite::many("split", given, &[a], s)? {
        return Ok(out);
    }
    let n = a.shape()[ax];
    let mut cuts = vec![0];
    match how {
        Split::Sections(k) => {
            if k <= 0 {
                bail!(Value, "[split] num_splits must be positive, got {k}.");
            }
            check_count("split", k)?;
            if n % k != 0 {
                bail!(
                    Value,
                    "[split] Array split does not result in sub arrays with equal size: attempting {k} \
                     splits along axis {axis} for shape {}.",
                    show(a.shape())
                );
            }
            cuts.extend((1..k).map(|i| i * (n / k)));
        }
        Split::Indices(at) => cuts.extend(at.iter().map(|&i| (if i < 0 { i + n } else { i }).clamp(0, n))),
    }
    cuts.push(n);
    let parts = cuts.windows(2).map(|w| {
        let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
        (start[ax], stop[ax]) = (w[0], w[1].max(w[0]));
        slice(a, &start, &stop, &vec![1; a.ndim()], s)
    });
    let parts = parts.collect::<Result<Vec<Array>>>()?;
    note(&parts, || ("split", params![ax, &cuts[1..cuts.len() - 1]], vec![a.clone()]));
    Ok(parts)
}

/// A stored padding.
pub(in crate::ops) fn restore_pad(c: &Stored) -> Result<Array> {
    let [a, value] = c.inputs()?;
    let (before, after) = (c.ints(0)?, c.ints(1)?);
    let width: Vec<(i64, i64)> = before.iter().copied().zip(after.iter().copied()).collect();
    pad(a, &width, c.choice(2, &PadMode::ALL)?, value, c.stream)
}

/// `a` surrounded by `(before, after)` elements along each axis.
pub fn pad(a: &Array, width: &[(i64, i64)], mode: PadMode, value: &Array, s: Stream) -> Result<Array> {
    if width.len() != a.ndim() {
        bail!(Value, "[pad] Expected {} pairs of widths, got {}.", a.ndim(), width.len());
    }
    if let Some(w) = width.iter().find(|w| w.0 < 0 || w.1 < 0) {
        bail!(Value, "[pad] Invalid padding size ({}, {}), must be non-negative.", w.0, w.1);
    }
    let wide: Shape =
        a.shape().iter().zip(width).map(|(d, w)| d.saturating_add(w.0).saturating_add(w.1)).collect();
    checked_size("pad", &wide, a.dtype().size())?;
    let given = || {
        let (before, after) = width.iter().copied().unzip();
        vec![Param::Ints(before), Param::Ints(after), Param::from(mode as usize)]
    };
    if let Some(out) = composite::one("pad", given, &[a, value], s)? {
        return Ok(out);
    }
    if mode == PadMode::Constant {
        if value.size() != 1 {
            bail!(Value, "[pad] The constant value must be a scalar, got shape {}.", show(value.shape()));
        }
        let shape: Shape = a.shape().iter().zip(width).map(|(d, w)| d + w.0 + w.1).collect();
        if shape.as_slice() == a.shape() {
            return Ok(a.clone());
        }
        let value = reshape(&astype(value, a.dtype(), s)?, &[], s)?;
        let base = full(&shape, &value, None, s)?;
        let start: Vec<i64> = width.iter().map(|w| w.0).collect();
        let stop: Vec<i64> = a.shape().iter().zip(width).map(|(d, w)| d + w.0).collect();
        let out = slice_update(&base, a, &start, &stop, &vec![1; a.ndim()], s)?;
        let behind: Vec<i64> = width.iter().map(|w| w.1).collect();
        note(std::slice::from_ref(&out), || {
            ("pad", params![&start[..], &behind[..]], vec![a.clone(), value])
        });
        return Ok(out);
    }
    let mut out = a.clone();
    for (ax, &(before, after)) in width.iter().enumerate() {
        out = pad_axis(&out, ax, before, after, mode, s)?;
    }
    Ok(out)
}

fn pad_axis(a: &Array, ax: usize, before: i64, after: i64, mode: PadMode, s: Stream) -> Result<Array> {
    let n = a.shape()[ax];
    if before + after == 0 {
        return Ok(a.clone());
    }
    if n == 0 && mode == PadMode::Edge {
        let mut shape = a.shape().to_vec();
        shape[ax] = before + after;
        return zeros(&shape, a.dtype(), s);
    }
    if n == 0 {
        bail!(Value, "[pad] Cannot pad empty axis {ax} using mode '{}'.", mode.name());
    }
    let mode = if n == 1 { PadMode::Edge } else { mode };
    let edge = i64::from(mode == PadMode::Reflect);
    let part = |from: i64, to: i64, step: i64| {
        let (mut start, mut stop, mut steps) = (vec![0; a.ndim()], a.shape().to_vec(), vec![1; a.ndim()]);
        (start[ax], stop[ax], steps[ax]) = (from, to, step);
        slice(a, &start, &stop, &steps, s)
    };
    let repeated = |x: Array, k: i64| {
        let mut shape = a.shape().to_vec();
        shape[ax] = k;
        broadcast_to(&x, &shape, s)
    };
    if mode != PadMode::Edge && before.max(after) > n - edge {
        // Both modes go on forth and back: one period, as often as it takes.
        let back = part(n - 1 - edge, edge - 1, -1)?;
        let period = concatenate(&[a.clone(), back], ax as i64, s)?;
        let (length, start) = (2 * (n - edge), (-before).rem_euclid(2 * (n - edge)));
        let wanted = before + n + after;
        let mut times = vec![1; a.ndim()];
        times[ax] = (start + wanted + length - 1) / length;
        let long = tile(&period, &times, s)?;
        let (mut from, mut to) = (vec![0; a.ndim()], long.shape().to_vec());
        (from[ax], to[ax]) = (start, start + wanted);
        return slice(&long, &from, &to, &vec![1; a.ndim()], s);
    }
    let mut parts = Vec::new();
    if before > 0 {
        parts.push(match mode {
            PadMode::Edge => repeated(part(0, 1, 1)?, before)?,
            _ => part(before - 1 + edge, edge - 1, -1)?,
        });
    }
    parts.push(a.clone());
    if after > 0 {
        parts.push(match mode {
            PadMode::Edge => repeated(part(n - 1, n, 1)?, after)?,
            _ => part(n - 1 - edge, n - 1 - edge - after, -1)?,
        });
    }
    concatenate(&parts, ax as i64, s)
}

/// A stored repetition.
pub(in crate::ops) fn restore_repeat(c: &Stored) -> Result<Array> {
    match c.name {
        "repeat" => repeat(c.input()?, c.int(0)?, Some(c.int(1)?), c.stream),
        "tile" => tile(c.input()?, c.ints(0)?, c.stream),
        "roll" => roll(c.input()?, c.ints(0)?, c.maybe_ints(1)?, c.stream),
        _ => c.unknown(),
    }
}

/// Every element `n` times along an axis, or of the flattened array.
pub fn repeat(a: &Array, n: i64, axis: Option<i64>, s: Stream) -> Result<Array> {
    let Some(axis) = axis else {
        return repeat(&flatten(a, 0, -1, s)?, n, Some(0), s);
    };
    let ax = normalize_axis("repeat", axis, a.ndim())?;
    if n < 0 {
        bail!(Value, "[repeat] Number of repeats cannot be negative, got {n}.");
    }
    if let Some(out) = composite::one("repeat", || vec![n.into(), axis.into()], &[a], s)? {
        return Ok(out);
    }
    let mut out: Vec<i64> = a.shape().into();
    out[ax] = out[ax].saturating_mul(n);
    checked_size("repeat", &out, a.dtype().size())?;
    let wide = expand_dims(a, &[ax as i64 + 1], s)?;
    let mut shape: Vec<i64> = wide.shape().into();
    shape[ax + 1] = n;
    reshape(&broadcast_to(&wide, &shape, s)?, &out, s)
}

/// The array laid out `reps` times along each axis.
pub fn tile(a: &Array, reps: &[i64], s: Stream) -> Result<Array> {
    if let Some(r) = reps.iter().find(|&&r| r < 0) {
        bail!(Value, "[tile] Repetitions cannot be negative, got {r}.");
    }
    if let Some(out) = composite::one("tile", || vec![reps.into()], &[a], s)? {
        return Ok(out);
    }
    let n = a.ndim().max(reps.len());
    let mut dims: Vec<i64> = vec![1; n - a.ndim()];
    dims.extend_from_slice(a.shape());
    let mut times: Vec<i64> = vec![1; n - reps.len()];
    times.extend_from_slice(reps);
    let out: Vec<i64> = (0..n).map(|i| dims[i].saturating_mul(times[i])).collect();
    checked_size("tile", &out, a.dtype().size())?;
    // An axis before each that is repeated.
    let interleave = |pick: &dyn Fn(usize) -> i64| -> Vec<i64> {
        (0..n).flat_map(|i| (times[i] != 1).then(|| pick(i)).into_iter().chain([dims[i]])).collect()
    };
    let x = reshape(a, &interleave(&|_| 1), s)?;
    let x = broadcast_to(&x, &interleave(&|i| times[i]), s)?;
    let x = reshape(&x, &out, s)?;
    note(std::slice::from_ref(&x), || ("tile", params![&times[..]], vec![a.clone()]));
    Ok(x)
}

/// Elements shifted along axes, wrapping around; over the flattened array by the sum of the shifts when `axes` is
/// `None`. Shifts that no axis is left for do not count.
pub fn roll(a: &Array, shift: &[i64], axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("roll", || vec![shift.into(), axes.into()], &[a], s)? {
        return Ok(out);
    }
    let Some(axes) = axes else {
        let flat = flatten(a, 0, -1, s)?;
        let total = shift.iter().sum();
        return reshape(&roll(&flat, &[total], Some(&[0]), s)?, a.shape(), s);
    };
    if shift.len() < axes.len() {
        bail!(
            Value,
            "[roll] At least one shift value per axis is required, {} provided for {} axes.",
            shift.len(),
            axes.len()
        );
    }
    let mut out = a.clone();
    for (&axis, &k) in axes.iter().zip(shift) {
        let ax = normalize_axis("roll", axis, a.ndim())?;
        let n = a.shape()[ax];
        if n == 0 {
            continue;
        }
        let k = k.rem_euclid(n);
        if k != 0 {
            let parts = split(&out, Split::Indices(&[n - k]), ax as i64, s)?;
            out = concatenate(&[parts[1].clone(), parts[0].clone()], ax as i64, s)?;
        }
    }
    Ok(out)
}

/// `x` where the condition holds, `y` elsewhere.
pub fn where_(cond: &Array, x: &Array, y: &Array, s: Stream) -> Result<Array> {
    let cond = astype(cond, Dtype::Bool, s)?;
    crate::ops::select(&cond, x, y, s)
}
