//! Scatter: updates written to elements, rows and windows of an array by index arrays, or combined with what
//! is there; the functional form of `a[indices] = b` and of `a.at[indices].add(b)`. A source that nobody else
//! holds is updated in place. Negative indices count from the end; updates with others out of range are
//! dropped, on both devices. Of several values for one element the last one in row-major order stays.

use smallvec::SmallVec;

use super::indexing::{Form, along, batched, check_axes, gather_form, index_arrays, start_indices};
use crate::bail;
use crate::core::array::Inputs;
use crate::core::layout::{broadcast_shapes, is_row_major, show};
use crate::core::notes::note;
use crate::core::primitive::Direction;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap,
};
use crate::kernels::View;
pub use crate::kernels::index::indexed::Combine;
use crate::on_gpu;
use crate::ops::batching::with_batch;
use crate::ops::composite;
use crate::ops::elementwise::{astype, conjugate, divide, equal, multiply, select, subtract};
use crate::ops::support::*;
use crate::ops::view::{broadcast_to, flatten, moveaxis, reshape, slice, slice_shape, sliced, stop_gradient};
use crate::ops::{zeros, zeros_like};
use crate::params;

/// A strided box of an array: what a scatter sees as its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// First position on each axis.
    pub start: Shape,
    /// Step on each axis, not zero.
    pub step: Shape,
    /// Length of each axis.
    pub shape: Shape,
}

impl Part {
    fn view<P: Copy>(part: Option<&Part>, v: View<P>, at: impl Fn(P, i64) -> P) -> View<P> {
        match part {
            None => v,
            Some(p) => sliced(&v, &p.start, &p.step, &p.shape, at),
        }
    }

    /// The box of an array.
    fn of(part: Option<&Part>, a: &Array, s: Stream) -> Result<Array> {
        let Some(p) = part else { return Ok(a.clone()) };
        let stop: Vec<i64> = (0..p.start.len()).map(|i| p.start[i] + p.step[i] * p.shape[i]).collect();
        slice(a, &p.start, &stop, &p.step, s)
    }
}

/// Inputs: the source, the updates, the index arrays.
#[derive(Clone, PartialEq)]
struct Scatter {
    form: Form,
    part: Option<Part>,
    how: Combine,
    /// The caller knows that no two updates meet.
    distinct: bool,
    /// Indices out of range are held inside the axis, as a gather does it, instead of dropped.
    hold: bool,
}

impl Scatter {
    fn node(&self, source: &Array, updates: &Array, indices: &[Array], s: Stream) -> Array {
        let inputs: Inputs = [source, updates].into_iter().chain(indices).cloned().collect();
        Array::like(source, source.dtype(), self.clone(), inputs, s)
    }

    /// Fails where source, updates and indices do not fit each other.
    fn check(&self, inputs: &[Array]) -> Result<()> {
        let [source, updates, indices @ ..] = inputs else { bail!(Value, "[scatter] Expected a source.") };
        let base = match &self.part {
            None => source.shape(),
            Some(p) => {
                let stop: Vec<i64> =
                    (0..p.start.len()).map(|i| p.start[i] + p.step[i] * p.shape[i]).collect();
                slice_shape("scatter", source.shape(), &p.start, &stop, &p.step)?;
                &p.shape
            }
        };
        let dense = self.form.checked("scatter", base, indices)?;
        if dense.as_slice() != updates.shape() || updates.dtype() != source.dtype() {
            let (u, d) = (show(updates.shape()), show(&dense));
            bail!(Value, "[scatter] Updates of shape {u} and {} should have {d}.", updates.dtype());
        }
        Ok(())
    }

    /// The same updates combined in another way.
    fn with(&self, how: Combine) -> Scatter {
        Scatter { how, ..self.clone() }
    }

    /// What lies at the positions of the updates.
    fn read(&self, a: &Array, indices: &[Array], s: Stream) -> Result<Array> {
        gather_form(&Part::of(self.part.as_ref(), a, s)?, indices, self.form.clone(), s)
    }

    /// Whether some updates may meet.
    fn may_meet(&self, indices: &[Array]) -> bool {
        let tuples = match &self.form {
            Form::Outer { .. } => indices.first().map_or(1, Array::size) as i64,
            Form::Along { axis } => indices[0].shape()[*axis],
        };
        !self.distinct && tuples > 1
    }

    /// Which updates of a `Set` stay: of those that meet, the last one.
    fn winners(&self, source: &Array, updates: &Array, indices: &[Array], s: Stream) -> Result<Array> {
        let numbers = |shape: &[i64]| {
            // FITS: called with shapes of arrays.
            let n: i64 = shape.iter().product();
            let dtype = if n > i64::from(i32::MAX) { Dtype::I64 } else { Dtype::I32 };
            reshape(&crate::ops::arange(0.0, n as f64, 1.0, dtype, s)?, shape, s)
        };
        let shape = self.part.as_ref().map_or(source.shape(), |p| &p.shape);
        if let Form::Outer { axes, windows, at } = &self.form
            && windows.iter().all(Option::is_none)
        {
            // Rows are won whole: the numbers of the index tuples are enough.
            let numbers = numbers(indices[0].shape())?;
            let shape: Shape = axes.iter().map(|&a| shape[a]).collect();
            let form = Form::Outer { axes: (0..axes.len()).collect(), windows: windows.clone(), at: 0 };
            let plain = Scatter { form, part: None, how: Combine::Set, ..self.clone() };
            let owner = plain.node(&zeros(&shape, numbers.dtype(), s)?, &numbers, indices, s);
            let won = equal(&plain.read(&owner, indices, s)?, &numbers, s)?;
            let after = updates.ndim() - at - won.ndim();
            let mut wide: Shape = SmallVec::from_elem(1, *at);
            wide.extend_from_slice(won.shape());
            wide.extend(std::iter::repeat_n(1, after));
            return reshape(&won, &wide, s);
        }
        let numbers = numbers(updates.shape())?;
        let plain = Scatter { part: None, how: Combine::Set, ..self.clone() };
        let owner = plain.node(&zeros(shape, numbers.dtype(), s)?, &numbers, indices, s);
        equal(&plain.read(&owner, indices, s)?, &numbers, s)
    }

    fn product_vjp(&self, r: &Vjp, conj: impl Fn(&Array) -> Result<Array>) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let (source, updates, indices) = (&primals[0], &primals[1], &primals[2..]);
        let cot = &cotangents[0];
        r.each(|i| {
            Ok(Some(match i {
                0 => {
                    let ones = crate::ops::ones(source.shape(), source.dtype(), s)?;
                    multiply(cot, &conj(&self.node(&ones, updates, indices, s))?, s)?
                }
                1 => {
                    // The product of the other factors is the product of all that are not zero, divided by
                    // this one if it is not, unless another one is zero.
                    let (zero, one) = (scalar_f64(0.0, source.dtype())?, scalar_f64(1.0, source.dtype())?);
                    let nil = |a: &Array| equal(a, &zero, s);
                    let safe = |a: &Array| select(&nil(a)?, &one, a, s);
                    let count = |a: &Array| astype(&nil(a)?, Dtype::I32, s);
                    let updates_safe = safe(updates)?;
                    let product = self.node(&safe(source)?, &updates_safe, indices, s);
                    let zeros = self.with(Combine::Add).node(&count(source)?, &count(updates)?, indices, s);
                    let others = subtract(&self.read(&zeros, indices, s)?, &count(updates)?, s)?;
                    let none = equal(&others, &scalar_i64(0, Dtype::I32)?, s)?;
                    let rest = divide(&self.read(&product, indices, s)?, &updates_safe, s)?;
                    let g = multiply(&self.read(cot, indices, s)?, &conj(&rest)?, s)?;
                    select(&none, &g, &zero, s)?
                }
                _ => return Ok(None),
            }))
        })
    }

    /// Everything that is equal to the result gets the cotangent.
    fn extreme_vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, outputs, stream: s, .. } = r;
        let (source, updates, indices) = (&primals[0], &primals[1], &primals[2..]);
        let (out, cot) = (stop_gradient(&outputs[0]), &cotangents[0]);
        let zero = scalar_f64(0.0, cot.dtype())?;
        r.each(|i| {
            Ok(Some(match i {
                0 => select(&equal(source, &out, s)?, cot, &zero, s)?,
                1 => {
                    let hit = equal(updates, &self.read(&out, indices, s)?, s)?;
                    select(&hit, &self.read(cot, indices, s)?, &zero, s)?
                }
                _ => return Ok(None),
            }))
        })
    }
}

impl Primitive for Scatter {
    fn name(&self) -> &str {
        match self.how {
            Combine::Set => "scatter",
            Combine::Add => "scatter_add",
            Combine::Prod => "scatter_prod",
            Combine::Max => "scatter_max",
            Combine::Min => "scatter_min",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        let mut all = self.form.params()?;
        all.extend([Param::from(self.distinct), Param::from(self.hold)]);
        if let Some(p) = &self.part {
            all.extend([&p.start, &p.step, &p.shape].map(|list| Param::from(&list[..])));
        }
        Some(all)
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let views = inputs.iter().map(host_in).collect::<Result<SmallVec<[_; 4]>>>()?;
        let dst = host_out_reusing(&outputs[0], &inputs[..1])?;
        if !same_storage(&inputs[0], &outputs[0])? {
            crate::cpu::elementwise::copy(&views[0], &dst)?;
        }
        if inputs[1].size() == 0 {
            return Ok(());
        }
        let part = Part::view(self.part.as_ref(), dst, |p, shift| p.wrapping_offset(shift as isize));
        let walk = self.form.walk(&part, &views[1], &views[2..]);
        crate::cpu::index::scatter::scatter(self.how, self.hold, &walk, &views[1], &views[2..], &part)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut views = SmallVec::<[_; 4]>::new();
            for a in inputs {
                views.push(dev_in(enc, a)?);
            }
            let dst = dev_out_reusing(enc, &outputs[0], &inputs[..1])?;
            if outputs[0].size() == 0 {
                return Ok(());
            }
            let held = same_storage(&inputs[0], &outputs[0])?;
            // Some kernels read a dense base where it lies.
            let whole = self.part.is_none()
                && inputs[1].size() > 0
                && is_row_major(&views[0].shape, &views[0].strides);
            if !held && !whole {
                crate::vulkan::kernels::elementwise::copy(enc, &views[0], &dst)?;
            }
            if inputs[1].size() == 0 {
                return Ok(());
            }
            let base = Some(&views[0]).filter(|_| !held && whole);
            let part = Part::view(self.part.as_ref(), dst, |p, shift| p.wrapping_add_signed(shift));
            let walk = self.form.walk(&part, &views[1], &views[2..]);
            let kind = crate::vulkan::kernels::index::scatter::Kind {
                how: self.how,
                hold: self.hold,
                distinct: !self.may_meet(&inputs[2..]),
            };
            crate::vulkan::kernels::index::scatter::scatter(
                enc,
                kind,
                &walk,
                &views[1],
                &views[2..],
                base,
                &part,
            )
        })
    }

    fn refuses(&self, way: Direction, input: usize) -> Option<Error> {
        match &self.form {
            _ if input < 2 => None,
            Form::Along { .. } => Some(way.of_indices("scatter_axis")),
            Form::Outer { windows, .. } if windows.iter().all(Option::is_none) => {
                Some(way.of_indices("scatter"))
            }
            Form::Outer { .. } => {
                let rule = if way == Direction::Vjp { "vjp" } else { "jvp" };
                Some(Error::Value(format!("[DynamicSliceUpdate::{rule}] Not supported for start indices")))
            }
        }
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let (source, updates, indices) = (&primals[0], &primals[1], &primals[2..]);
        let cot = &cotangents[0];
        match self.how {
            Combine::Prod if source.dtype() == Dtype::C64 => self.product_vjp(r, |a| conjugate(a, s)),
            Combine::Prod => self.product_vjp(r, |a| Ok(a.clone())),
            Combine::Max | Combine::Min => self.extreme_vjp(r),
            Combine::Set | Combine::Add => r.each(|i| {
                let add = self.how == Combine::Add;
                Ok(Some(match i {
                    0 if add => cot.clone(),
                    0 => self.node(cot, &zeros_like(updates, s)?, indices, s),
                    1 => {
                        let g = self.read(cot, indices, s)?;
                        if add || !self.may_meet(indices) {
                            return Ok(Some(g));
                        }
                        let won = self.winners(source, updates, indices, s)?;
                        select(&won, &g, &scalar_f64(0.0, g.dtype())?, s)?
                    }
                    _ => return Ok(None),
                }))
            }),
        }
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        if !matches!(self.how, Combine::Set | Combine::Add) {
            return Ok(None);
        }
        let (source, updates) = (tangent_or_zeros(r, 0)?, tangent_or_zeros(r, 1)?);
        Ok(Some(vec![Some(self.node(&source, &updates, &r.primals[2..], r.stream))]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let source = with_batch(r, 0)?;
        let (form, indices, at) = batched(&self.form, r, 2, source.shape(), true)?;
        let updates = moveaxis(&with_batch(r, 1)?, 0, at as i64, r.stream)?;
        let part = self.part.as_ref().map(|p| Part {
            start: std::iter::once(0).chain(p.start.iter().copied()).collect(),
            step: std::iter::once(1).chain(p.step.iter().copied()).collect(),
            shape: std::iter::once(r.size()).chain(p.shape.iter().copied()).collect(),
        });
        let primitive = Scatter { form, part, ..self.clone() };
        Ok(crate::ops::batching::batched(primitive.node(&source, &updates, &indices, r.stream)))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Scatter>().is_some_and(|o| o == self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        self.check(inputs)?;
        Ok(vec![inputs[0].shape().into()])
    }
}

/// A stored scatter.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let [source, updates, indices @ ..] = c.inputs else { return c.unknown() };
    let how = match c.name {
        "scatter" => Combine::Set,
        "scatter_add" => Combine::Add,
        "scatter_prod" => Combine::Prod,
        "scatter_max" => Combine::Max,
        "scatter_min" => Combine::Min,
        _ => return c.unknown(),
    };
    let n = source.ndim();
    let part = match c.params.len() {
        5 => None,
        _ => {
            let list = |i: usize| c.steps(i, n).map(Shape::from_slice);
            Some(Part { start: list(5)?, step: list(6)?, shape: list(7)? })
        }
    };
    let op = Scatter { form: Form::restore(c, 0, n)?, part, how, distinct: c.flag(3)?, hold: c.flag(4)? };
    refuse_f64("scatter", std::slice::from_ref(source), c.stream)?;
    op.check(c.inputs)?;
    Ok(op.node(source, updates, indices, c.stream))
}

/// The transpose of a gather: `updates`, of the dense shape of `form`, added up where they were read.
pub(in crate::ops) fn gather_transposed(
    source: &Array,
    updates: &Array,
    indices: &[Array],
    form: Form,
    s: Stream,
) -> Result<Array> {
    let updates = astype(updates, source.dtype(), s)?;
    let primitive = Scatter { form, part: None, how: Combine::Add, distinct: false, hold: true };
    Ok(primitive.node(source, &updates, indices, s))
}

/// Elements along `axis` put back to the places that a permutation of the axis took them from.
pub(in crate::ops) fn scatter_permuted(a: &Array, order: &Array, axis: usize, s: Stream) -> Result<Array> {
    let form = Form::Along { axis };
    let primitive = Scatter { form, part: None, how: Combine::Set, distinct: true, hold: false };
    Ok(primitive.node(&zeros(a.shape(), a.dtype(), s)?, a, std::slice::from_ref(order), s))
}

/// Where updates go: index arrays on `axes` of a part of an array (all of it for `None`).
pub struct Target<'a> {
    /// The part.
    pub part: Option<Part>,
    /// One for each axis.
    pub indices: &'a [Array],
    /// Axes of the part.
    pub axes: &'a [usize],
    /// Neighbours that an index stands for, on axes that the updates keep.
    pub windows: &'a [Option<i64>],
    /// Where the updates have the axes of the index arrays, among the axes that they keep.
    pub at: usize,
    /// Indices out of range are held inside the axis instead of dropped.
    pub hold: bool,
}

/// `source` with `updates`, broadcast and converted, combined into the places that `to` names. The updates
/// have the axes that [`crate::ops::gather`] returns for these indices.
pub fn scatter(source: &Array, updates: &Array, to: Target, how: Combine, s: Stream) -> Result<Array> {
    let Target { part, indices, axes, windows, at, hold } = to;
    refuse_f64("scatter", std::slice::from_ref(source), s)?;
    let indices = index_arrays("scatter", indices, s)?;
    let shape: Shape = part.as_ref().map_or(source.shape().into(), |p| p.shape.clone());
    if let Some(first) = indices.first() {
        check_axes("scatter", &shape, first, axes, windows)?;
    }
    let form = Form::Outer { axes: axes.to_vec(), windows: windows.to_vec(), at };
    let dense = form.dense_shape(&shape, indices.first().map_or(&[], |i| i.shape()));
    let updates = broadcast_to(&astype(updates, source.dtype(), s)?, &dense, s)?;
    Ok(Scatter { form, part, how, distinct: false, hold }.node(source, &updates, &indices, s))
}

/// A stored assignment along an axis, or at computed starts.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let s = c.stream;
    let [a, b, other] = c.inputs()?;
    match c.name {
        "put_along_axis" => put_along_axis(a, b, other, c.maybe_int(0)?, s),
        "scatter_add_axis" => scatter_add_axis(a, b, other, c.maybe_int(0)?, s),
        "slice_update_at" => slice_update_at(a, b, other, c.ints(0)?, s),
        _ => c.unknown(),
    }
}

fn put(
    op: &'static str,
    a: &Array,
    indices: &Array,
    values: &Array,
    axis: Option<i64>,
    how: Combine,
    s: Stream,
) -> Result<Array> {
    if let Some(out) = composite::one(op, || vec![axis.into()], &[a, indices, values], s)? {
        return Ok(out);
    }
    refuse_f64(op, std::slice::from_ref(a), s)?;
    if a.size() == 0 {
        // Indices of any dtype and shape will do, if there are as many axes.
        along(op, a, &astype(indices, Dtype::I32, s)?, axis, s)?;
        return Ok(a.clone());
    }
    let (flat, indices, ax) = along(op, a, indices, axis, s)?;
    let values = astype(values, a.dtype(), s)?;
    let lead = values.ndim().saturating_sub(flat.ndim());
    let values = if values.shape()[..lead].iter().all(|&d| d == 1) {
        reshape(&values, &values.shape()[lead..], s)?
    } else if axis.is_none() {
        flatten(&values, 0, -1, s)?
    } else {
        values
    };
    let mut others: Shape = flat.shape().into();
    others[ax] = 1;
    let shape = broadcast_shapes("broadcast_shapes", &others, indices.shape())?;
    let shape = broadcast_shapes("broadcast_shapes", &shape, values.shape())?;
    if shape.len() > flat.ndim() {
        let (n, i, v) = (show(flat.shape()), show(indices.shape()), show(values.shape()));
        bail!(Value, "[{op}] Indices {i} or values {v} do not broadcast with array {n}.");
    }
    let given = vec![flat.clone(), indices.clone(), values.clone()];
    let mut whole = shape.clone();
    whole[ax] = flat.shape()[ax];
    let flat = broadcast_to(&flat, &whole, s)?;
    let (indices, values) = (broadcast_to(&indices, &shape, s)?, broadcast_to(&values, &shape, s)?);
    let as_given = |out: &Array| if axis.is_none() { reshape(out, a.shape(), s) } else { Ok(out.clone()) };
    if flat.shape()[ax] == 0 || values.size() == 0 {
        return as_given(&flat);
    }
    let form = Form::Along { axis: ax };
    let primitive = Scatter { form, part: None, how, distinct: false, hold: false };
    let out = primitive.node(&flat, &values, &[indices], s);
    note(std::slice::from_ref(&out), || ("put_along_axis", params![ax, how == Combine::Add], given));
    as_given(&out)
}

/// `a` with `values` written along an axis, by indices of the same rank; without an axis, into the flattened
/// array. All three are broadcast on the other axes.
pub fn put_along_axis(
    a: &Array,
    indices: &Array,
    values: &Array,
    axis: Option<i64>,
    s: Stream,
) -> Result<Array> {
    put("put_along_axis", a, indices, values, axis, Combine::Set, s)
}

/// `a` with `values` added along an axis; arguments as for [`put_along_axis`].
pub fn scatter_add_axis(
    a: &Array,
    indices: &Array,
    values: &Array,
    axis: Option<i64>,
    s: Stream,
) -> Result<Array> {
    put("scatter_add_axis", a, indices, values, axis, Combine::Add, s)
}

/// `a` with `update` written at the numbers in `starts` on `axes`, and at 0 on the others. A start is held
/// where the update fits. Axes in front that the update lacks have length one where they have a start, and
/// are whole else.
pub fn slice_update_at(a: &Array, update: &Array, starts: &Array, axes: &[i64], s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("slice_update_at", || vec![axes.into()], &[a, update, starts], s)? {
        return Ok(out);
    }
    refuse_f64("slice_update", std::slice::from_ref(a), s)?;
    let (indices, axes) = start_indices("slice_update", starts, axes, a.ndim(), s)?;
    let mut update = astype(update, a.dtype(), s)?;
    let lead = update.ndim().saturating_sub(a.ndim());
    if update.shape()[..lead].iter().all(|&d| d == 1) {
        update = reshape(&update, &update.shape()[lead..], s)?;
    }
    let fits = update.ndim() <= a.ndim()
        && update.shape().iter().rev().zip(a.shape().iter().rev()).all(|(u, n)| u <= n);
    if !fits {
        let (u, n) = (show(update.shape()), show(a.shape()));
        bail!(Value, "[broadcast_shapes] Shapes {u} and {n} cannot be broadcast.");
    }
    let missing = a.ndim() - update.ndim();
    let mut shape: Shape =
        (0..missing).map(|ax| if axes.contains(&ax) { 1 } else { a.shape()[ax] }).collect();
    shape.extend_from_slice(update.shape());
    let update = broadcast_to(&update, &shape, s)?;
    if update.size() == 0 {
        return Ok(a.clone());
    }
    if axes.is_empty() {
        let n = a.ndim();
        return crate::ops::slice_update(a, &update, &vec![0; n], &shape, &vec![1; n], s);
    }
    let windows: Vec<Option<i64>> = axes.iter().map(|&ax| Some(shape[ax])).collect();
    let mut part =
        Part { start: SmallVec::from_elem(0, a.ndim()), step: SmallVec::from_elem(1, a.ndim()), shape };
    axes.iter().for_each(|&ax| part.shape[ax] = a.shape()[ax]);
    let to =
        Target { part: Some(part), indices: &indices, axes: &axes, windows: &windows, at: 0, hold: true };
    let out = scatter(a, &update, to, Combine::Set, s)?;
    note(std::slice::from_ref(&out), || {
        let said: Vec<i64> = axes.iter().map(|&ax| ax as i64).collect();
        ("dynamic_slice_update", params![&said[..]], vec![a.clone(), update.clone(), starts.clone()])
    });
    Ok(out)
}
