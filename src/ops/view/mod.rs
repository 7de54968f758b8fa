//! The view class: operations that move no data. Each states its layout rule; its vjp is the transposed
//! view. A reshape that the strides do not allow copies.

pub mod concatenate;
pub mod diagonal;
pub mod grid;

use super::batching::{aligned, batched, front, raised};
use super::composite;
use super::create::zeros;
use super::elementwise::{copy_node, not_equal};
use super::index::indexing::Form;
use super::index::scatter::gather_transposed;
use super::index::slice_update::slice_update;
use super::reduce::sum_to;
use super::support::scalar_f64;
use crate::bail;
use crate::core::array::Inputs;
use crate::core::layout::{
    broadcast_shapes, broadcast_strides, checked_size, normalize_axis, row_major, show, shown, size_of,
};
use crate::core::lengths_vary;
use crate::core::notes::note;
use crate::core::primitive::cannot_follow;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Layout, Param, Primitive, Result, Shape, Stored, Stream,
    Strides, Vjp, Vmap,
};
use crate::kernels::View;
use crate::kernels::elementwise::program::Program;
use crate::params;

/// Which view, with its parameters; the output's shape says the rest.
#[derive(Clone, PartialEq)]
enum Kind {
    Reshape(Rule),
    Transpose(Vec<usize>),
    Broadcast(Target),
    Slice { start: Vec<i64>, step: Vec<i64> },
    AsStrided { strides: Strides, offset: i64 },
    Dtype,
    StopGradient,
    Alias,
    Contiguous,
}

struct ViewOf(Kind);

/// The axes of a transposition, if a primitive is one.
pub(crate) fn transposed(p: &dyn Primitive) -> Option<&[usize]> {
    match (p as &dyn std::any::Any).downcast_ref() {
        Some(ViewOf(Kind::Transpose(axes))) => Some(axes),
        _ => None,
    }
}

/// What an array is broadcast to.
#[derive(Clone, PartialEq)]
enum Target {
    /// This shape.
    Shape(Shape),
    /// The shape that all inputs have together; the axes that are named, counted from the end from 1 on, are
    /// left as they are. Of use where lengths vary.
    Inputs(Vec<usize>),
}

impl Target {
    fn apply(&self, inputs: &[Array]) -> Result<Shape> {
        let own = inputs[0].shape();
        match self {
            Target::Shape(shape) => {
                if broadcast_shapes("broadcast_to", own, shape)? != *shape {
                    let (from, to) = (show(own), show(shape));
                    bail!(Value, "[broadcast_to] Cannot broadcast array of shape {from} into shape {to}.");
                }
                Ok(shape.clone())
            }
            Target::Inputs(kept) => {
                let mut all = Shape::new();
                for a in inputs {
                    let mut shape: Shape = a.shape().into();
                    for &k in kept.iter().filter(|&&k| k <= a.ndim()) {
                        shape[a.ndim() - k] = 1;
                    }
                    all = broadcast_shapes("broadcast_arrays", &all, &shape)?;
                }
                let n = all.len();
                for &k in kept.iter().filter(|&&k| k <= own.len()) {
                    all[n - k] = own[own.len() - k];
                }
                Ok(all)
            }
        }
    }
}

/// How the dimensions of a reshape follow from those of its input.
#[derive(Clone, PartialEq)]
enum Rule {
    /// These, one of which may be -1.
    Shape(Shape),
    /// Axes from the first to the second become one.
    Flatten(usize, usize),
    /// An axis becomes these, one of which may be -1.
    Unflatten(usize, Shape),
    /// New axes of length 1 at these places of the result.
    Expand(Vec<bool>),
    /// Without the axes that are marked.
    Squeeze(Vec<bool>),
}

impl Rule {
    fn has_hole(&self) -> bool {
        match self {
            Rule::Shape(dims) | Rule::Unflatten(_, dims) => dims.contains(&-1),
            Rule::Flatten(..) | Rule::Expand(_) | Rule::Squeeze(_) => false,
        }
    }

    /// Dimensions of the result for an input of shape `d`.
    fn apply(&self, d: &[i64]) -> Shape {
        match self {
            Rule::Shape(asked) => {
                let rest: i64 = asked.iter().filter(|&&n| n != -1).product();
                let hole = size_of(d) as i64 / rest.max(1);
                asked.iter().map(|&n| if n == -1 { hole } else { n }).collect()
            }
            Rule::Flatten(i, j) => {
                let mut shape: Shape = d[..*i].into();
                shape.push(d[*i..=*j].iter().product());
                shape.extend_from_slice(&d[j + 1..]);
                shape
            }
            Rule::Unflatten(axis, dims) => {
                let rest: i64 = dims.iter().filter(|&&n| n != -1).product();
                let mut shape: Shape = d[..*axis].into();
                shape.extend(dims.iter().map(|&n| if n == -1 { d[*axis] / rest.max(1) } else { n }));
                shape.extend_from_slice(&d[axis + 1..]);
                shape
            }
            Rule::Expand(fresh) => {
                let mut old = d.iter().copied();
                fresh.iter().map(|&f| if f { 1 } else { old.next().unwrap_or(1) }).collect()
            }
            Rule::Squeeze(drop) => d.iter().zip(drop).filter(|(_, d)| !**d).map(|(&n, _)| n).collect(),
        }
    }
}

impl ViewOf {
    /// Layout of the output over the input's storage; `None` when a copy is needed.
    fn layout(&self, input: &Array, out: &Array) -> Result<Option<Layout>> {
        let l = input.layout()?;
        let shape: Shape = out.shape().into();
        Ok(match &self.0 {
            Kind::Reshape(_) => l.reshape(&shape),
            Kind::Transpose(axes) => Some(Layout {
                shape,
                strides: axes.iter().map(|&a| l.strides[a]).collect(),
                offset: l.offset,
            }),
            Kind::Broadcast(_) => {
                let strides = broadcast_strides(&l.shape, &l.strides, &shape);
                Some(Layout { shape, strides, offset: l.offset })
            }
            Kind::Slice { start, step } => {
                let mut offset = l.offset;
                if out.size() > 0 {
                    offset += start.iter().zip(&l.strides).map(|(a, b)| a * b).sum::<i64>();
                }
                let strides = l.strides.iter().zip(step).map(|(a, b)| a * b).collect();
                Some(Layout { shape, strides, offset })
            }
            Kind::AsStrided { strides, offset } => l.is_row_contiguous().then(|| Layout {
                shape,
                strides: strides.clone(),
                offset: l.offset + offset,
            }),
            Kind::Dtype => dtype_layout(&l, input.dtype().size(), out.dtype().size(), shape),
            Kind::StopGradient | Kind::Alias => Some(l),
            Kind::Contiguous => l.is_row_contiguous().then_some(l),
        })
    }

    fn eval(&self, inputs: &[Array], out: &Array, copy: impl FnOnce(&Array) -> Result<Array>) -> Result<()> {
        let input = &inputs[0];
        if let Some(l) = self.layout(input, out)? {
            out.set_data(l.strides, l.offset, input.data()?.storage.clone());
            return Ok(());
        }
        let whole = copy(input)?;
        // INVARIANT: every kind is a view of row-major input.
        let l = self
            .layout(&whole, out)?
            .ok_or_else(|| Error::Runtime(format!("[{}] Cannot view {}.", self.name(), show(out.shape()))))?;
        out.set_data(l.strides, l.offset, whole.data()?.storage.clone());
        Ok(())
    }
}

/// Reinterprets the last axis with another element size.
fn dtype_layout(l: &Layout, from: usize, to: usize, shape: Shape) -> Option<Layout> {
    if from == to {
        return Some(Layout { shape, strides: l.strides.clone(), offset: l.offset });
    }
    if !l.is_row_contiguous() || !(l.offset as usize * from).is_multiple_of(to) {
        return None;
    }
    let offset = (l.offset as usize * from / to) as i64;
    Some(Layout { strides: row_major(&shape), shape, offset })
}

impl Primitive for ViewOf {
    fn name(&self) -> &str {
        match self.0 {
            Kind::Reshape(_) => "reshape",
            Kind::Transpose(_) => "transpose",
            Kind::Broadcast(Target::Shape(_)) => "broadcast_to",
            Kind::Broadcast(Target::Inputs(_)) => "broadcast_with",
            Kind::Slice { .. } => "slice",
            Kind::AsStrided { .. } => "as_strided",
            Kind::Dtype => "view",
            Kind::StopGradient => "stop_gradient",
            Kind::Alias => "alias",
            Kind::Contiguous => "contiguous",
        }
    }

    fn is_view(&self) -> bool {
        !matches!(self.0, Kind::Reshape(_) | Kind::AsStrided { .. } | Kind::Dtype | Kind::Contiguous)
    }

    fn blocks_gradient(&self) -> bool {
        matches!(self.0, Kind::StopGradient)
    }

    fn params(&self) -> Option<Vec<Param>> {
        let bits = |list: &[bool]| Param::Ints(list.iter().map(|&b| i64::from(b)).collect());
        match &self.0 {
            Kind::Reshape(Rule::Shape(shape)) => params!["shape", &shape[..]],
            Kind::Reshape(Rule::Flatten(i, j)) => params!["flatten", *i, *j],
            Kind::Reshape(Rule::Unflatten(axis, dims)) => params!["unflatten", *axis, &dims[..]],
            Kind::Reshape(Rule::Expand(fresh)) => params!["expand", bits(fresh)],
            Kind::Reshape(Rule::Squeeze(drop)) => params!["squeeze", bits(drop)],
            Kind::Transpose(axes) => params![axes.as_slice()],
            Kind::Slice { start, step } => params![start.as_slice(), step.as_slice()],
            Kind::AsStrided { strides, offset } => params![&strides[..], *offset],
            Kind::Broadcast(Target::Inputs(kept)) => params![kept.as_slice()],
            Kind::Broadcast(Target::Shape(_))
            | Kind::Dtype
            | Kind::StopGradient
            | Kind::Alias
            | Kind::Contiguous => params![],
        }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0], |a| {
            let whole = a.stand_in();
            let (src, dst) = (super::support::host_in(a)?, super::support::host_out(&whole)?);
            crate::cpu::elementwise::run(&Program::cast(a.dtype(), a.dtype()), &[src], &[dst])?;
            Ok(whole)
        })
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0], |a| {
            crate::on_gpu!(stream, |enc| {
                let whole = a.stand_in();
                let src = super::support::dev_in(enc, a)?;
                let dst = super::support::dev_out(enc, &whole)?;
                let p = Program::cast(a.dtype(), a.dtype());
                crate::vulkan::kernels::elementwise::run(enc, &p, &[src], &[dst])?;
                Ok(whole)
            })
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let (x, cot) = (&primals[0], &cotangents[0]);
        let g = match &self.0 {
            Kind::Reshape(_) => reshape(cot, x.shape(), s)?,
            Kind::Transpose(axes) => {
                let mut inverse = vec![0i64; axes.len()];
                for (i, &a) in axes.iter().enumerate() {
                    inverse[a] = i as i64;
                }
                transpose(cot, Some(&inverse), s)?
            }
            Kind::Broadcast(_) => {
                // The other inputs of a broadcast only give a shape.
                return r.each(|i| if i == 0 { sum_to(cot, x.shape(), s).map(Some) } else { Ok(None) });
            }
            Kind::Slice { start, step } => {
                let stop: Vec<i64> = (0..start.len()).map(|i| start[i] + step[i] * cot.shape()[i]).collect();
                slice_update(&zeros(x.shape(), cot.dtype(), s)?, cot, start, &stop, step, s)?
            }
            Kind::AsStrided { strides, offset } => as_strided_vjp(x, cot, strides, *offset, s)?,
            Kind::StopGradient => return Ok(vec![None]),
            Kind::Contiguous | Kind::Alias => cot.clone(),
            Kind::Dtype => return Err(self.missing("vjp")),
        };
        Ok(vec![Some(g)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let Some(t) = r.tangent(0) else { return Ok(Some(vec![None])) };
        match &self.0 {
            Kind::Dtype => Err(self.missing("jvp")),
            kind => {
                let inputs: Inputs = std::iter::once(t).chain(&r.primals[1..]).cloned().collect();
                let (shape, view) = (r.outputs[0].shape(), ViewOf(kind.clone()));
                Ok(Some(vec![Some(Array::lazy(shape, t.dtype(), view, inputs, r.stream)?)]))
            }
        }
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        kind(other).is_some_and(|k| *k == self.0)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shape = inputs[0].shape();
        Ok(vec![match &self.0 {
            Kind::Reshape(rule) => {
                let out = rule.apply(shape);
                if size_of(&out) != size_of(shape) {
                    bail!(
                        Value,
                        "[reshape] Cannot reshape array of size {} into shape {}.",
                        size_of(shape),
                        show(&out)
                    );
                }
                out
            }
            Kind::Transpose(axes) => axes.iter().map(|&a| shape[a]).collect(),
            Kind::Broadcast(to) => to.apply(inputs)?,
            Kind::StopGradient | Kind::Alias | Kind::Contiguous => shape.into(),
            Kind::Dtype | Kind::Slice { .. } | Kind::AsStrided { .. } => {
                return Err(cannot_follow(self.name()));
            }
        }])
    }

    fn expands(&self) -> bool {
        matches!(self.0, Kind::Broadcast(Target::Inputs(_)))
    }

    fn expand(&self, inputs: &[Array], s: Stream) -> Result<Vec<Array>> {
        Ok(vec![broadcast_to(&inputs[0], &self.output_shapes(inputs)?[0], s)?])
    }

    fn zero_tangent_like_inputs(&self, _: &[Array]) -> bool {
        !matches!(self.0, Kind::Dtype)
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let (shape, s) = (r.shape(0), r.stream);
        if let Kind::Broadcast(Target::Inputs(kept)) = &self.0 {
            return broadcast_with(&aligned(r)?, kept, s).map(batched);
        }
        let x = front(r, 0)?;
        let out = match &self.0 {
            Kind::Reshape(_) => reshape(&x, &shape, s)?,
            Kind::Transpose(axes) => {
                let perm: Vec<i64> = std::iter::once(0).chain(axes.iter().map(|&a| a as i64 + 1)).collect();
                transpose(&x, Some(&perm), s)?
            }
            Kind::Broadcast(_) => broadcast_to(&raised(r, 0, shape.len() - 1)?, &shape, s)?,
            Kind::Slice { start, step } => {
                let (start, step) = ([&[0], start.as_slice()].concat(), [&[1], step.as_slice()].concat());
                node(Kind::Slice { start, step }, &shape, x.dtype(), &x, s)?
            }
            Kind::AsStrided { strides, offset } => {
                let each: i64 = x.shape()[1..].iter().product();
                let strides = std::iter::once(each).chain(strides.iter().copied()).collect();
                node(Kind::AsStrided { strides, offset: *offset }, &shape, x.dtype(), &x, s)?
            }
            kind => node(kind.clone(), &shape, r.outputs[0].dtype(), &x, s)?,
        };
        Ok(batched(out))
    }
}

/// A stored view.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    if c.name == "broadcast_with" {
        let kept = c.ints(0)?.iter().map(|&k| k as usize).collect::<Vec<_>>();
        if c.inputs.is_empty() || kept.contains(&0) {
            return c.unknown();
        }
        return broadcast_with(c.inputs, &kept, c.stream);
    }
    let (a, (shape, dtype), s) = (c.input()?, c.spec()?, c.stream);
    let marked = |i: usize| -> Result<Vec<i64>> {
        let list = c.ints(i)?.iter().enumerate();
        Ok(list.filter(|(_, v)| **v != 0).map(|(i, _)| i as i64).collect())
    };
    match c.name {
        "reshape" => match c.text(0)? {
            "shape" => reshape(a, c.ints(1)?, s),
            "flatten" if a.ndim() > 0 => flatten(a, c.int(1)?, c.int(2)?, s),
            "unflatten" => unflatten(a, c.int(1)?, c.ints(2)?, s),
            "expand" => expand_dims(a, &marked(1)?, s),
            "squeeze" => squeeze(a, Some(&marked(1)?), s),
            _ => c.unknown(),
        },
        "transpose" => transpose(a, Some(c.ints(0)?), s),
        "broadcast_to" => broadcast_to(a, shape, s),
        "slice" => {
            let (start, step) = (c.steps(0, a.ndim())?, c.steps(1, a.ndim())?);
            let stop: Vec<i64> = start.iter().zip(step).zip(shape).map(|((a, b), n)| a + b * n).collect();
            slice(a, start, &stop, step, s)
        }
        "as_strided" => as_strided(a, Some(shape), Some(c.ints(0)?), c.int(1)?, s),
        "view" => view(a, *dtype, s),
        "stop_gradient" => Ok(node_like(Kind::StopGradient, a, s)),
        "alias" => Ok(node_like(Kind::Alias, a, s)),
        "contiguous" => contiguous(a, false, s),
        _ => c.unknown(),
    }
}

fn kind(p: &dyn Primitive) -> Option<&Kind> {
    (p as &dyn std::any::Any).downcast_ref::<ViewOf>().map(|v| &v.0)
}

/// Whether a primitive only marks an array for a transform.
pub(crate) fn is_alias(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Alias))
}

/// Whether a primitive stops derivatives.
pub(crate) fn is_stop_gradient(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::StopGradient))
}

/// Whether a primitive only repeats its input, which a kernel that broadcasts can read instead.
pub(crate) fn is_broadcast(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Broadcast(_))) || super::elementwise::is_full(p)
}

/// Whether a primitive gives its input other dimensions.
pub(crate) fn is_reshape(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Reshape(_)))
}

/// Adds overlapping windows back, element by element.
fn as_strided_vjp(x: &Array, cot: &Array, strides: &[i64], offset: i64, s: Stream) -> Result<Array> {
    let n = x.size() as i64;
    let flat = zeros(&[n], cot.dtype(), s)?;
    if cot.size() == 0 {
        return reshape(&flat, x.shape(), s);
    }
    let dtype = if n > i64::from(i32::MAX) { Dtype::I64 } else { Dtype::I32 };
    let mut index = super::scalar_i64(offset, dtype)?;
    for (axis, (&len, &stride)) in cot.shape().iter().zip(strides).enumerate() {
        if stride != 0 && len > 1 {
            let mut shape: Shape = smallvec::SmallVec::from_elem(1, cot.ndim());
            shape[axis] = len;
            let stop = (len * stride) as f64;
            let steps = reshape(&super::arange(0.0, stop, stride as f64, dtype, s)?, &shape, s)?;
            index = super::add(&index, &steps, s)?;
        }
    }
    let index = broadcast_to(&index, cot.shape(), s)?;
    let form = Form::Outer { axes: vec![0], windows: vec![None], at: 0 };
    reshape(&gather_transposed(&flat, cot, &[index], form, s)?, x.shape(), s)
}

fn node(kind: Kind, shape: &[i64], dtype: Dtype, a: &Array, s: Stream) -> Result<Array> {
    Array::lazy(shape, dtype, ViewOf(kind), vec![a.clone()], s)
}

/// The array itself as a node of its own.
fn node_like(kind: Kind, a: &Array, s: Stream) -> Array {
    Array::like(a, a.dtype(), ViewOf(kind), vec![a.clone()], s)
}

/// The array with other dimensions in row-major order; one of them may be -1.
pub fn reshape(a: &Array, shape: &[i64], s: Stream) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    let asked: Shape = shape.into();
    let mut shape = asked.clone();
    let n = a.size() as i64;
    if let Some(hole) = shape.iter().position(|&d| d == -1) {
        let others: Shape = shape.iter().copied().filter(|&d| d != -1).collect();
        if others.len() + 1 < shape.len() {
            bail!(Value, "[reshape] Can only infer one dimension, got shape {}.", show(&shape));
        }
        let rest = checked_size("reshape", &others, 1)? as i64;
        if rest == 0 || n % rest != 0 {
            if rest == 0 {
                bail!(Value, "[reshape] Cannot infer the shape of an empty array.");
            }
            bail!(Value, "[reshape] Cannot reshape array of size {n} into shape {}.", show(&shape));
        }
        shape[hole] = n / rest;
    }
    if checked_size("reshape", &shape, 1)? as i64 != n {
        bail!(Value, "[reshape] Cannot reshape array of size {n} into shape {}.", show(&shape));
    }
    reshaped(a, Rule::Shape(asked), s)
}

/// A reshape whose rule fits the array.
fn reshaped(a: &Array, rule: Rule, s: Stream) -> Result<Array> {
    let shape = rule.apply(a.shape());
    // What changes nothing now may change something at other lengths.
    if a.shape() == shape.as_slice() && !(lengths_vary() && rule.has_hole()) {
        return Ok(a.clone());
    }
    node(Kind::Reshape(rule), &shape, a.dtype(), a, s)
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
    let perm: Vec<usize> = match axes {
        None => (0..n).rev().collect(),
        Some(axes) => {
            if axes.len() != n {
                bail!(Value, "[transpose] Received {} axes for array with {n} dimensions.", axes.len());
            }
            let mut seen = vec![false; n];
            let mut perm = Vec::with_capacity(n);
            for &ax in axes {
                let ax = normalize_axis("transpose", ax, n)?;
                if std::mem::replace(&mut seen[ax], true) {
                    bail!(Value, "[transpose] Repeat axes not allowed, got {axes:?}.");
                }
                perm.push(ax);
            }
            perm
        }
    };
    if perm.iter().enumerate().all(|(i, &p)| i == p) {
        return Ok(a.clone());
    }
    let shape: Shape = perm.iter().map(|&p| a.shape()[p]).collect();
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
    node(Kind::Slice { start: start.into(), step: step.into() }, &shape, a.dtype(), a, s)
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
    node(Kind::Contiguous, a.shape(), a.dtype(), a, s)
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
    let ax = super::support::axes_of("flip", axes, a.ndim())?;
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
pub(super) fn sliced<P: Copy>(
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
