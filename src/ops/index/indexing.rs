//! Gather: elements, rows and windows of an array by index arrays, and what is made of it: take,
//! take_along_axis and slices whose start is an array. Negative indices count from the end; others out of
//! range are held inside the axis, on both devices, so that nothing outside the array is ever read. The
//! transpose of a gather is a scatter that adds (`ops/index/scatter.rs`), over the same [`Form`].

use smallvec::SmallVec;

use super::scatter::gather_transposed;
use crate::bail;
use crate::core::array::Inputs;
use crate::core::layout::{broadcast_shapes, checked_size, normalize_axis, show};
use crate::core::notes::note;
use crate::core::primitive::Direction;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap,
};
use crate::kernels::View;
use crate::kernels::index::indexed::{Walk, outer_shape};
use crate::ops::batching::{front, with_batch};
use crate::ops::composite;
use crate::ops::elementwise::astype;
use crate::ops::support::*;
use crate::ops::view::{broadcast_along, broadcast_to, flatten, reshape, slice};
use crate::{on_gpu, params};

/// How index arrays address an array.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ops) enum Form {
    /// One index array for each of `axes`, all of one shape. The dense side has the other axes, with those of
    /// the index arrays put in before axis `at`; an indexed axis with a window stays among the others.
    Outer { axes: Vec<usize>, windows: Vec<Option<i64>>, at: usize },
    /// One index array of the same rank, which selects along `axis`; the dense side has its shape.
    Along { axis: usize },
}

impl Form {
    /// Shape of the dense side.
    pub(in crate::ops) fn dense_shape(&self, base: &[i64], index: &[i64]) -> Shape {
        match self {
            Form::Outer { axes, windows, at } => outer_shape(base, index, axes, windows, *at),
            Form::Along { .. } => index.into(),
        }
    }

    /// The walk of the kernels over evaluated operands.
    pub(in crate::ops) fn walk<P: Copy>(&self, base: &View<P>, dense: &View<P>, indices: &[View<P>]) -> Walk {
        let from = (&base.shape[..], &base.strides[..]);
        let strides: SmallVec<[&[i64]; 2]> = indices.iter().map(|v| &v.strides[..]).collect();
        match self {
            Form::Outer { axes, windows, at } => {
                let shape = indices.first().map_or(&[][..], |v| &v.shape[..]);
                Walk::outer(from, &dense.strides, (shape, &[]), &strides, axes, windows, *at)
            }
            Form::Along { axis } => Walk::along(from, &dense.strides, (&indices[0].shape, strides[0]), *axis),
        }
    }
}

impl Form {
    /// What a file keeps of it: where the dense side has the axes of the indices (-1: along an axis), the axes,
    /// and their windows (-1: none).
    pub(in crate::ops) fn params(&self) -> Option<Vec<Param>> {
        match self {
            Form::Outer { axes, windows, at } => {
                let windows: Vec<i64> = windows.iter().map(|w| w.unwrap_or(-1)).collect();
                params![*at, axes.as_slice(), windows.as_slice()]
            }
            Form::Along { axis } => params![-1i64, &[*axis][..], &[-1i64][..]],
        }
    }

    /// The form whose parameters begin at number `i`, for a base of `ndim` axes.
    pub(in crate::ops) fn restore(c: &Stored, i: usize, ndim: usize) -> Result<Form> {
        let axes = c.axes(i + 1, ndim)?;
        let windows: Vec<Option<i64>> =
            c.steps(i + 2, axes.len())?.iter().map(|&w| (w >= 0).then_some(w)).collect();
        if c.int(i)? == -1 && axes.len() == 1 {
            return Ok(Form::Along { axis: axes[0] });
        }
        let kept = ndim - windows.iter().filter(|w| w.is_none()).count();
        Ok(Form::Outer { at: c.axis(i, kept + 1)?, axes, windows })
    }

    /// Shape of the dense side, where base and index arrays fit the form and each other.
    pub(in crate::ops) fn checked(&self, op: &str, base: &[i64], indices: &[Array]) -> Result<Shape> {
        let Some(first) = indices.first() else { bail!(Value, "[{op}] Expected index arrays.") };
        let alike = |i: &Array| i.shape() == first.shape() && i.dtype() == first.dtype();
        if !first.dtype().is_integer() || !indices.iter().all(alike) {
            bail!(Value, "[{op}] Index arrays should be integers of one shape, got {}.", show(first.shape()));
        }
        let fits = match self {
            Form::Outer { axes, windows, at } => {
                let kept = base.len() - windows.iter().filter(|w| w.is_none()).count();
                check_axes(op, base, first, axes, windows)?;
                axes.len() == indices.len() && *at <= kept
            }
            Form::Along { axis } => {
                let others = |s: &[i64]| s.iter().enumerate().all(|(i, n)| i == *axis || base[i] == *n);
                indices.len() == 1
                    && first.ndim() == base.len()
                    && others(first.shape())
                    && (base[*axis] > 0 || first.size() == 0)
            }
        };
        if !fits {
            bail!(Value, "[{op}] Indices of shape {} do not fit {}.", show(first.shape()), show(base));
        }
        Ok(self.dense_shape(base, first.shape()))
    }
}

struct Gather(Form);

/// The axis along which a primitive takes elements by places, each from its own row.
pub(crate) fn takes_along(p: &dyn Primitive) -> Option<usize> {
    match (p as &dyn std::any::Any).downcast_ref() {
        Some(Gather(Form::Along { axis })) => Some(*axis),
        _ => None,
    }
}

/// Whether a primitive takes whole parts of its first input along the first axis, by places that its second input has.
pub(crate) fn takes_rows(p: &dyn Primitive) -> bool {
    match (p as &dyn std::any::Any).downcast_ref() {
        Some(Gather(Form::Outer { axes, windows, at })) => {
            axes[..] == [0] && windows[..] == [None] && *at == 0
        }
        _ => false,
    }
}

/// Reads `a` through `indices`; shapes and dtypes are checked by the caller.
pub(in crate::ops) fn gather_form(a: &Array, indices: &[Array], form: Form, s: Stream) -> Result<Array> {
    let index = indices.first().map_or(&[][..], |i| i.shape());
    let shape = form.dense_shape(a.shape(), index);
    let inputs: Inputs = std::iter::once(a).chain(indices).cloned().collect();
    Array::lazy(shape, a.dtype(), Gather(form), inputs, s)
}

impl Primitive for Gather {
    fn name(&self) -> &str {
        match self.0 {
            Form::Outer { .. } => "gather",
            Form::Along { .. } => "take_along_axis",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        self.0.params()
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let views = inputs.iter().map(host_in).collect::<Result<SmallVec<[_; 4]>>>()?;
        let dst = host_out(&outputs[0])?;
        if dst.size() == 0 {
            return Ok(());
        }
        let walk = self.0.walk(&views[0], &dst, &views[1..]);
        crate::cpu::index::gather::gather(&walk, &views[0], &views[1..], &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut views = SmallVec::<[_; 4]>::new();
            for a in inputs {
                views.push(dev_in(enc, a)?);
            }
            let dst = dev_out(enc, &outputs[0])?;
            if dst.size() == 0 {
                return Ok(());
            }
            let walk = self.0.walk(&views[0], &dst, &views[1..]);
            crate::vulkan::kernels::index::gather::gather(enc, &walk, &views[0], &views[1..], &dst)
        })
    }

    fn refuses(&self, way: Direction, input: usize) -> Option<Error> {
        match &self.0 {
            _ if input == 0 => None,
            Form::Along { .. } => Some(way.of_indices("gather_axis")),
            Form::Outer { windows, .. } if windows.iter().all(Option::is_none) => {
                Some(way.of_indices("gather"))
            }
            // A slice from a start that is an array. Its tangent is that of what is sliced, as MLX has it.
            Form::Outer { .. } => match way {
                Direction::Vjp => {
                    Some(Error::Value("[DynamicSlice::vjp] Not supported for start indices.".into()))
                }
                Direction::Jvp => None,
            },
        }
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (x, indices) = (&r.primals[0], &r.primals[1..]);
        r.each(|i| {
            if i > 0 {
                return Ok(None);
            }
            let zeros = crate::ops::zeros(x.shape(), x.dtype(), r.stream)?;
            let cot = &r.cotangents[0];
            gather_transposed(&zeros, cot, indices, self.0.clone(), r.stream).map(Some)
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let moved = r.tangent(0).map(|t| gather_form(t, &r.primals[1..], self.0.clone(), r.stream));
        Ok(Some(vec![moved.transpose()?]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let varies = r.axes[0].is_some();
        // Along an axis base and indices have the batch both.
        let along = matches!(self.0, Form::Along { .. });
        let base = if along { with_batch(r, 0)? } else { front(r, 0)? };
        let (form, indices, at) = batched(&self.0, r, 1, base.shape(), varies || along)?;
        Ok((vec![gather_form(&base, &indices, form, r.stream)?], vec![Some(at)]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Gather>().is_some_and(|o| o.0 == self.0)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![self.0.checked("gather", inputs[0].shape(), &inputs[1..])?])
    }
}

/// A stored gather.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let Some((a, indices)) = c.inputs.split_first() else { return c.unknown() };
    let form = Form::restore(c, 0, a.ndim())?;
    refuse_f64("gather", std::slice::from_ref(a), c.stream)?;
    let shape = form.checked("gather", a.shape(), indices)?;
    checked_size("gather", &shape, a.dtype().size())?;
    gather_form(a, indices, form, c.stream)
}

/// The form that does a whole batch at once, its index arrays (the inputs of the rule from `first` on), and
/// where the dense side has the batch axis. The base has it first, if it varies.
pub(in crate::ops) fn batched(
    form: &Form,
    r: &Vmap,
    first: usize,
    base: &[i64],
    varies: bool,
) -> Result<(Form, Vec<Array>, usize)> {
    let s = r.stream;
    let inputs = first..r.inputs.len();
    let indexed = r.axes[first..].iter().any(Option::is_some);
    match form {
        Form::Along { axis } => Ok((Form::Along { axis: axis + 1 }, vec![with_batch(r, first)?], 0)),
        Form::Outer { axes, windows, at } if !indexed => {
            let axes = axes.iter().map(|a| a + 1).collect();
            let form = Form::Outer { axes, windows: windows.clone(), at: at + 1 };
            Ok((form, r.inputs[first..].to_vec(), 0))
        }
        Form::Outer { axes, windows, at } => {
            let mut indices = inputs.map(|i| with_batch(r, i)).collect::<Result<Vec<_>>>()?;
            if !varies {
                return Ok((form.clone(), indices, *at));
            }
            // Each element of the batch has its own part of the base: its number is one more index.
            let mut column: Shape = SmallVec::from_elem(1, indices[0].ndim());
            column[0] = base[0];
            let number = crate::ops::arange(0.0, base[0] as f64, 1.0, wide_enough(indices[0].dtype()), s)?;
            let number = reshape(&number, &column, s)?;
            indices.insert(0, number);
            let indices = index_arrays("gather", &indices, s)?;
            let axes = std::iter::once(0).chain(axes.iter().map(|a| a + 1)).collect();
            let windows = std::iter::once(None).chain(windows.iter().copied()).collect();
            Ok((Form::Outer { axes, windows, at: *at }, indices, *at))
        }
    }
}

/// The dtype, or a wider one that numbers every position of an axis.
fn wide_enough(dtype: Dtype) -> Dtype {
    if dtype.size() < 4 { Dtype::I32 } else { dtype }
}

/// Index arrays of one shape and one dtype.
pub(in crate::ops) fn index_arrays(op: &str, indices: &[Array], s: Stream) -> Result<Vec<Array>> {
    let mut shape = Shape::new();
    for i in indices {
        if i.dtype() == Dtype::Bool {
            bail!(Value, "[{op}] Boolean indices not supported.");
        }
        if !i.dtype().is_integer() {
            let d = i.dtype();
            bail!(Value, "[{op}] Got indices with invalid dtype. Indices must be integral, got {d}.");
        }
        shape = broadcast_shapes("broadcast_shapes", &shape, i.shape())?;
    }
    let same = indices.windows(2).all(|w| w[0].dtype() == w[1].dtype());
    let all: Vec<&Array> = indices.iter().collect();
    let narrow = indices.iter().all(|i| i.dtype().size() < 4 || i.dtype() == Dtype::I32);
    indices
        .iter()
        .map(|i| {
            let dtype = match (same, narrow) {
                (true, _) => i.dtype(),
                (_, true) => Dtype::I32,
                _ => Dtype::I64,
            };
            broadcast_along(&astype(i, dtype, s)?, &shape, &all, &[], s)
        })
        .collect()
}

/// Elements of `a` at the positions that `indices` name on `axes`, one array for each axis. With a window an
/// axis stays, cut to so many neighbours from the index on; otherwise it goes. The axes of the broadcast
/// index arrays come before axis `at` of what stays.
pub fn gather(
    a: &Array,
    indices: &[Array],
    axes: &[usize],
    windows: &[Option<i64>],
    at: usize,
    s: Stream,
) -> Result<Array> {
    refuse_f64("gather", std::slice::from_ref(a), s)?;
    let indices = index_arrays("gather", indices, s)?;
    let Some(first) = indices.first() else { return Ok(a.clone()) };
    check_axes("gather", a.shape(), first, axes, windows)?;
    let form = Form::Outer { axes: axes.to_vec(), windows: windows.to_vec(), at };
    let shape = form.dense_shape(a.shape(), first.shape());
    checked_size("gather", &shape, a.dtype().size())?;
    gather_form(a, &indices, form, s)
}

/// Fails where an index array that is not empty selects on an axis without positions for it.
pub(in crate::ops) fn check_axes(
    op: &str,
    shape: &[i64],
    index: &Array,
    axes: &[usize],
    windows: &[Option<i64>],
) -> Result<()> {
    for (&axis, w) in axes.iter().zip(windows) {
        let (n, width) = (shape[axis], w.unwrap_or(1));
        if width < 0 || width > n.max(1) {
            bail!(Value, "[{op}] Window of {width} does not fit axis {axis} of shape {}.", show(shape));
        }
        if n == 0 && index.size() > 0 && width > 0 {
            bail!(
                Value,
                "[{op}] Cannot index an axis of length 0, got axis {axis} of shape {}.",
                show(shape)
            );
        }
    }
    Ok(())
}

/// Elements at integer positions along an axis, or of the flattened array; the axes of `indices` stand in the
/// place of the axis.
pub fn take(a: &Array, indices: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    let Some(axis) = axis else {
        return take(&flatten(a, 0, -1, s)?, indices, Some(0), s);
    };
    let ax = normalize_axis("take", axis, a.ndim())?;
    if a.shape()[ax] == 0 && indices.size() > 0 {
        bail!(Value, "[take] Cannot do a non-empty take from an empty axis.");
    }
    gather(a, std::slice::from_ref(indices), &[ax], &[None], ax, s)
}

/// Operands of an indexed walk along one axis, broadcast against each other on the other axes; without an
/// axis, along the flattened array.
pub(in crate::ops) fn along(
    op: &str,
    a: &Array,
    indices: &Array,
    axis: Option<i64>,
    s: Stream,
) -> Result<(Array, Array, usize)> {
    let Some(axis) = axis else {
        return along(op, &flatten(a, 0, -1, s)?, indices, Some(0), s);
    };
    let ax = normalize_axis(op, axis, a.ndim())?;
    if indices.ndim() != a.ndim() {
        let (i, n) = (indices.ndim(), a.ndim());
        bail!(Value, "[{op}] Indices of dimension {i} does not match array of dimension {n}.");
    }
    if !indices.dtype().is_integer() {
        // Of shapes that do not fit either, those are told first.
        let (mut left, mut right): (Shape, Shape) = (a.shape().into(), indices.shape().into());
        (left[ax], right[ax]) = (1, 1);
        broadcast_shapes("broadcast_shapes", &left, &right)?;
        bail!(Runtime, "[{op}] Indices must be integers, got {}.", indices.dtype());
    }
    Ok((a.clone(), indices.clone(), ax))
}

/// Elements along an axis, by indices of the same rank: `out[i, j] = a[i, indices[i, j]]` for the last axis of
/// two. The other axes are broadcast. Without an axis `a` is flattened.
pub fn take_along_axis(a: &Array, indices: &Array, axis: Option<i64>, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("take_along", || vec![axis.into()], &[a, indices], s)? {
        return Ok(out);
    }
    let (a, indices, axis) = along("take_along_axis", a, indices, axis, s)?;
    refuse_f64("take_along_axis", std::slice::from_ref(&a), s)?;
    let (mut left, mut right): (Shape, Shape) = (a.shape().into(), indices.shape().into());
    (left[axis], right[axis]) = (1, 1);
    let mut shape = broadcast_shapes("broadcast_shapes", &left, &right)?;
    shape[axis] = indices.shape()[axis];
    let indices = broadcast_to(&indices, &shape, s)?;
    shape[axis] = a.shape()[axis];
    let a = broadcast_to(&a, &shape, s)?;
    if shape[axis] == 0 && indices.size() > 0 {
        bail!(Value, "[take_along_axis] Cannot do a non-empty take from an empty axis.");
    }
    checked_size("take_along_axis", indices.shape(), a.dtype().size())?;
    gather_form(&a, &[indices], Form::Along { axis }, s)
}

/// A stored [`take_along_axis`].
pub(in crate::ops) fn restore_along(c: &Stored) -> Result<Array> {
    let [a, indices] = c.inputs()?;
    take_along_axis(a, indices, c.maybe_int(0)?, c.stream)
}

/// Index arrays without axes, one for each of `axes`, from the starts of a slice.
pub(in crate::ops) fn start_indices(
    op: &str,
    starts: &Array,
    axes: &[i64],
    ndim: usize,
    s: Stream,
) -> Result<(Vec<Array>, Vec<usize>)> {
    if starts.ndim() > 1 {
        let n = starts.ndim();
        bail!(
            Value,
            "[{op}] array of starting indices must be zero or one dimensional but has dimension {n}."
        );
    }
    if !starts.dtype().is_integer() {
        bail!(Value, "[{op}] Start indices must be integers, got type {}.", starts.dtype());
    }
    if starts.size() != axes.len() {
        let (n, k) = (starts.size(), axes.len());
        bail!(Value, "[{op}] Number of starting indices {n} does not match number of axes {k}.");
    }
    let mut list = Vec::with_capacity(axes.len());
    for &axis in axes {
        let axis = normalize_axis(op, axis, ndim)?;
        if list.contains(&axis) {
            bail!(Value, "[{op}] Repeat axes not allowed.");
        }
        list.push(axis);
    }
    let starts = reshape(starts, &[-1], s)?;
    let one = |i: i64| reshape(&slice(&starts, &[i], &[i + 1], &[1], s)?, &[], s);
    Ok(((0..axes.len() as i64).map(one).collect::<Result<_>>()?, list))
}

/// A stored part at computed starts.
pub(in crate::ops) fn restore_slice_at(c: &Stored) -> Result<Array> {
    let [a, starts] = c.inputs()?;
    slice_at(a, starts, c.ints(0)?, c.ints(1)?, c.stream)
}

/// The part of `a` of shape `size` that starts at the numbers in `starts` on `axes`, and at 0 on the others.
/// A start is held where the part fits.
pub fn slice_at(a: &Array, starts: &Array, axes: &[i64], size: &[i64], s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("slice_at", || vec![axes.into(), size.into()], &[a, starts], s)? {
        return Ok(out);
    }
    if size.len() != a.ndim() {
        bail!(Value, "[slice] Invalid slice size for array with {} dimensions.", a.ndim());
    }
    if size.iter().zip(a.shape()).any(|(&n, &d)| n < 0 || n > d) {
        let (n, d) = (show(size), show(a.shape()));
        bail!(Value, "[slice] Invalid slice size {n} for array with shape {d}.");
    }
    let (indices, axes) = start_indices("slice", starts, axes, a.ndim(), s)?;
    let mut stop: Shape = size.into();
    axes.iter().for_each(|&ax| stop[ax] = a.shape()[ax]);
    let zeros = vec![0; a.ndim()];
    let part = slice(a, &zeros, &stop, &vec![1; a.ndim()], s)?;
    let windows: Vec<Option<i64>> = axes.iter().map(|&ax| Some(size[ax])).collect();
    let out = gather(&part, &indices, &axes, &windows, 0, s)?;
    note(std::slice::from_ref(&out), || {
        ("dynamic_slice", params![&axes[..]], vec![a.clone(), starts.clone()])
    });
    Ok(out)
}
