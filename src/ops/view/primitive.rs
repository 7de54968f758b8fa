//! The primitive of views: every kind with its layout rule, and its derivatives, which are views again.
//! Called by the functions of the parent.

use super::super::batching::{aligned, batched, front, raised};
use super::super::create::zeros;
use super::super::index::indexing::Form;
use super::super::index::scatter::gather_transposed;
use super::super::index::slice_update::slice_update;
use super::super::reduce::sum_to;
use super::{
    as_strided, broadcast_to, broadcast_with, contiguous, expand_dims, flatten, reshape, slice, squeeze,
    transpose, unflatten, view,
};
use crate::bail;
use crate::core::array::Inputs;
use crate::core::layout::{broadcast_shapes, broadcast_strides, row_major, show, size_of};
use crate::core::primitive::cannot_follow;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Layout, Param, Primitive, Result, Shape, Stored, Stream,
    Strides, Vjp, Vmap,
};
use crate::params;
use smallvec::{SmallVec, smallvec};

/// Bytes more than those of an array that its memory may have where it counts as alone there.
const SPARE: usize = 16 << 10;

/// Which view, with its parameters; the output's shape says the rest.
#[derive(Clone, PartialEq)]
pub(super) enum Kind {
    Reshape(Rule),
    Transpose(Axes),
    Broadcast(Target),
    Slice {
        start: Shape,
        step: Shape,
    },
    AsStrided {
        strides: Strides,
        offset: i64,
    },
    Dtype,
    StopGradient,
    Alias,
    /// Row-major; `alone`: a part of a much larger array is copied, so that the rest can be freed.
    Contiguous {
        alone: bool,
    },
}

/// The axis of the input that each axis of a transposition is.
pub(super) type Axes = SmallVec<[usize; 6]>;

pub(super) struct ViewOf(pub(super) Kind);

/// The axes of a transposition, if a primitive is one.
pub(crate) fn transposed(p: &dyn Primitive) -> Option<&[usize]> {
    match (p as &dyn std::any::Any).downcast_ref() {
        Some(ViewOf(Kind::Transpose(axes))) => Some(axes),
        _ => None,
    }
}

/// Where a primitive begins that is a slice of `a` along one axis alone, without gaps, and gives `part`.
pub(crate) fn begins_along(p: &dyn Primitive, axis: usize, a: &Array, part: &Array) -> Option<i64> {
    let any: &dyn std::any::Any = p;
    let Some(ViewOf(Kind::Slice { start, step })) = any.downcast_ref() else { return None };
    start_along(axis, start, step, a, part)
}

/// The same of a slice of `a` that begins and goes on so.
pub(crate) fn start_along(axis: usize, start: &[i64], step: &[i64], a: &Array, part: &Array) -> Option<i64> {
    let fits = |i: usize| i == axis || (start[i] == 0 && part.shape()[i] == a.shape()[i]);
    let whole = step.iter().all(|&s| s == 1) && (0..a.ndim()).all(fits) && part.size() > 0;
    whole.then(|| start[axis])
}

/// What an array is broadcast to.
#[derive(Clone, PartialEq)]
pub(super) enum Target {
    /// This shape.
    Shape(Shape),
    /// The shape that all inputs have together; the axes that are named, counted from the end from 1 on, are
    /// left as they are. Of use where lengths vary.
    Inputs(Vec<usize>),
}

impl Target {
    pub(super) fn apply(&self, inputs: &[Array]) -> Result<Shape> {
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
                    let mut shape = Shape::from_slice(a.shape());
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
pub(super) enum Rule {
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

/// What `of` has on these axes.
pub(super) fn rearranged(of: &[i64], axes: &[usize]) -> Shape {
    let mut new = Shape::from_slice(of);
    new.iter_mut().zip(axes).for_each(|(n, &axis)| *n = of[axis]);
    new
}

/// The product of the dimensions that a shape with a hole names; those of a file may be any.
fn named(dims: &[i64]) -> i64 {
    dims.iter().filter(|&&n| n != -1).fold(1, |all: i64, &n| all.saturating_mul(n))
}

impl Rule {
    pub(super) fn has_hole(&self) -> bool {
        match self {
            Rule::Shape(dims) | Rule::Unflatten(_, dims) => dims.contains(&-1),
            Rule::Flatten(..) | Rule::Expand(_) | Rule::Squeeze(_) => false,
        }
    }

    /// Dimensions of the result for an input of shape `d`.
    pub(super) fn apply(&self, d: &[i64]) -> Shape {
        match self {
            Rule::Shape(asked) => {
                let mut shape = asked.clone();
                if let Some(hole) = shape.iter_mut().find(|n| **n == -1) {
                    *hole = size_of(d) as i64 / named(asked).max(1);
                }
                shape
            }
            Rule::Flatten(i, j) => {
                let mut shape: Shape = d[..*i].into();
                // FITS: parts of the shape of an array.
                shape.push(d[*i..=*j].iter().product());
                shape.extend_from_slice(&d[j + 1..]);
                shape
            }
            Rule::Unflatten(axis, dims) => {
                let rest = named(dims);
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
        let shape = Shape::from_slice(out.shape());
        Ok(match &self.0 {
            Kind::Reshape(_) => l.reshape(&shape),
            Kind::Transpose(axes) => {
                Some(Layout { shape, strides: rearranged(&l.strides, axes), offset: l.offset })
            }
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
            Kind::Contiguous { alone } => {
                let spare = input.data()?.storage.nbytes().saturating_sub(input.nbytes());
                (l.is_row_contiguous() && !(*alone && spare > SPARE)).then_some(l)
            }
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
pub(super) fn dtype_layout(l: &Layout, from: usize, to: usize, shape: Shape) -> Option<Layout> {
    if from == to {
        return Some(Layout { shape, strides: Strides::from_slice(&l.strides), offset: l.offset });
    }
    // FITS: offsets of row-major layouts lie in their storage, in bytes too.
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
            Kind::Contiguous { .. } => "contiguous",
        }
    }

    fn is_view(&self) -> bool {
        !matches!(self.0, Kind::Reshape(_) | Kind::AsStrided { .. } | Kind::Dtype | Kind::Contiguous { .. })
    }

    fn is_view_of(&self, input: &[i64], output: &[i64]) -> bool {
        let same = || input.iter().filter(|&&d| d != 1).eq(output.iter().filter(|&&d| d != 1));
        self.is_view() || matches!(self.0, Kind::Reshape(_)) && same()
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
            | Kind::Contiguous { .. } => params![],
        }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0], |a| {
            let whole = a.stand_in();
            let (src, dst) = (crate::ops::support::host_in(a)?, crate::ops::support::host_out(&whole)?);
            crate::cpu::elementwise::copy(&src, &dst)?;
            Ok(whole)
        })
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0], |a| {
            crate::on_gpu!(stream, |enc| {
                let whole = a.stand_in();
                let src = crate::ops::support::dev_in(enc, a)?;
                let dst = crate::ops::support::dev_out(enc, &whole)?;
                crate::vulkan::kernels::elementwise::copy(enc, &src, &dst)?;
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
            Kind::Contiguous { .. } | Kind::Alias => cot.clone(),
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
            Kind::StopGradient | Kind::Alias | Kind::Contiguous { .. } => shape.into(),
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
                node(Kind::Slice { start: start.into(), step: step.into() }, &shape, x.dtype(), &x, s)?
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
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    if c.name == "broadcast_with" {
        let kept: Vec<usize> = c.ints(0)?.iter().filter_map(|&k| usize::try_from(k).ok()).collect();
        if c.inputs.is_empty() || kept.contains(&0) || kept.len() != c.ints(0)?.len() {
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

pub(super) fn kind(p: &dyn Primitive) -> Option<&Kind> {
    (p as &dyn std::any::Any).downcast_ref::<ViewOf>().map(|v| &v.0)
}

/// Whether a primitive only marks an array for a transform.
pub(crate) fn is_alias(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Alias))
}

/// Whether a primitive copies its input where that has gaps, and else passes it on.
pub(crate) fn is_contiguous(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Contiguous { .. }))
}

/// Whether a primitive stops derivatives.
pub(crate) fn is_stop_gradient(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::StopGradient))
}

/// Whether a primitive only repeats its input, which a kernel that broadcasts can read instead.
pub(crate) fn is_broadcast(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Broadcast(_))) || crate::ops::elementwise::is_full(p)
}

/// Whether a primitive gives its input other dimensions.
pub(crate) fn is_reshape(p: &dyn Primitive) -> bool {
    matches!(kind(p), Some(Kind::Reshape(_)))
}

/// Adds overlapping windows back, element by element.
pub(super) fn as_strided_vjp(
    x: &Array,
    cot: &Array,
    strides: &[i64],
    offset: i64,
    s: Stream,
) -> Result<Array> {
    let n = x.size() as i64;
    let flat = zeros(&[n], cot.dtype(), s)?;
    if cot.size() == 0 {
        return reshape(&flat, x.shape(), s);
    }
    let dtype = if n > i64::from(i32::MAX) { Dtype::I64 } else { Dtype::I32 };
    let mut index = crate::ops::scalar_i64(offset, dtype)?;
    for (axis, (&len, &stride)) in cot.shape().iter().zip(strides).enumerate() {
        if stride != 0 && len > 1 {
            let mut shape: Shape = smallvec::SmallVec::from_elem(1, cot.ndim());
            shape[axis] = len;
            let stop = (len * stride) as f64;
            let steps = reshape(&crate::ops::arange(0.0, stop, stride as f64, dtype, s)?, &shape, s)?;
            index = crate::ops::add(&index, &steps, s)?;
        }
    }
    let index = broadcast_to(&index, cot.shape(), s)?;
    let form = Form::Outer { axes: vec![0], windows: vec![None], at: 0 };
    reshape(&gather_transposed(&flat, cot, &[index], form, s)?, x.shape(), s)
}

pub(super) fn node(kind: Kind, shape: &[i64], dtype: Dtype, a: &Array, s: Stream) -> Result<Array> {
    Array::lazy(Shape::from_slice(shape), dtype, ViewOf(kind), inputs_of(a), s)
}

/// The array itself as a node of its own.
pub(super) fn node_like(kind: Kind, a: &Array, s: Stream) -> Array {
    Array::like(a, a.dtype(), ViewOf(kind), inputs_of(a), s)
}

fn inputs_of(a: &Array) -> Inputs {
    smallvec![a.clone()]
}
