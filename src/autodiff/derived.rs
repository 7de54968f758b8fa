//! Derivatives and batches of primitives, while a function is recorded for arrays of any length: their rules write down
//! numbers from shapes, so that a node stands for what a rule builds, which the rule builds again for the shapes of each
//! call. Elsewhere the rules are asked at once.

use smallvec::SmallVec;

use super::custom::is_custom;
use super::grad::tangents_of;
use crate::bail;
use crate::core::layout::checked_size;
use crate::core::varying::{Lengths, follows};
use crate::core::{
    Array, Batched, Derivatives, Device, Dtype, Jvp, Node, Param, Primitive, PrimitiveRef, Result, Shape,
    Stored, Stream, Vjp, Vmap, default_stream, lengths_vary,
};
use crate::ops::composite::Composite;
use crate::ops::index::subscript::Item;
use crate::ops::{self, support::shapes_of};
use crate::params;

type Spec = (Shape, Dtype);

/// Which rule.
#[derive(Clone, PartialEq)]
enum Which {
    /// For these inputs of the primitive.
    Vjp(Vec<usize>),
    /// From tangents of these inputs.
    Jvp(Vec<usize>),
    /// Over these axes of the inputs.
    Vmap(Vec<Option<usize>>),
}

/// What a rule of a primitive builds. Inputs: those of the primitive; for derivatives the cotangents or tangents, and the
/// outputs of the primitive after them.
struct Derived {
    which: Which,
    of: PrimitiveRef,
    /// Outputs of the primitive as it was recorded.
    specs: Vec<Spec>,
    /// For each result of the rule -1 where there is none; for a batch its axis.
    results: Vec<i64>,
}

/// Results of a rule: none stands for zeros, an axis for a batch.
type Results = Vec<(Option<Array>, i64)>;

fn spec(a: &Array) -> Spec {
    (a.shape().into(), a.dtype())
}

impl Derived {
    /// Inputs of the primitive itself. Numbers may come from a file.
    fn own(&self, inputs: &[Array]) -> Result<usize> {
        let m = self.specs.len();
        let (given, most) = match &self.which {
            Which::Vjp(list) => (2 * m, list.iter().max()),
            Which::Jvp(list) => (m + list.len(), list.iter().max()),
            Which::Vmap(_) => (0, None),
        };
        match inputs.len().checked_sub(given) {
            Some(own) if most.is_none_or(|&i| i < own) => Ok(own),
            _ => bail!(Value, "[{}] {} inputs do not fit {}.", self.name(), inputs.len(), self.of.name()),
        }
    }

    fn run(&self, inputs: &[Array], stream: Stream) -> Result<Results> {
        let _fixed = Lengths::fixed();
        let m = self.specs.len();
        let (primals, rest) = inputs.split_at(self.own(inputs)?);
        let there = |d: Derivatives| d.into_iter().map(|a| (a, 0)).collect();
        match &self.which {
            Which::Vjp(argnums) => {
                let (cotangents, outputs) = rest.split_at(m);
                self.vjp_of(&Vjp { primals, cotangents, argnums, outputs, stream }).map(there)
            }
            Which::Jvp(argnums) => {
                let (tangents, outputs) = rest.split_at(argnums.len());
                self.jvp_of(&Jvp { primals, tangents, argnums, outputs, stream }).map(there)
            }
            Which::Vmap(axes) => {
                let (outs, axes) = self.vmap_of(inputs, axes, stream)?;
                let axes = axes.into_iter().map(|a| a.map_or(-1, |a| a as i64));
                Ok(outs.into_iter().map(Some).zip(axes).collect())
            }
        }
    }

    /// The primitive's graph, with some of the inputs replaced.
    fn with(&self, primals: &[Array], argnums: &[usize], given: &[Array], s: Stream) -> Result<Vec<Array>> {
        let mut all = primals.to_vec();
        for (&i, a) in argnums.iter().zip(given) {
            all[i] = a.clone();
        }
        self.of.expand(&all, s)
    }

    fn vjp_of(&self, r: &Vjp) -> Result<Derivatives> {
        if !self.of.expands() {
            return self.of.vjp(r);
        }
        let given: Vec<Array> = r.argnums.iter().map(|&i| r.primals[i].clone()).collect();
        let mut f = |a: &[Array]| self.with(r.primals, r.argnums, a, r.stream);
        Ok(super::vjp(&mut f, &given, r.cotangents)?.1.into_iter().map(Some).collect())
    }

    fn jvp_of(&self, r: &Jvp) -> Result<Derivatives> {
        if !self.of.expands() {
            return tangents_of(&*self.of, r);
        }
        let given: Vec<Array> = r.argnums.iter().map(|&i| r.primals[i].clone()).collect();
        let mut f = |a: &[Array]| self.with(r.primals, r.argnums, a, r.stream);
        Ok(super::jvp(&mut f, &given, r.tangents)?.1.into_iter().map(Some).collect())
    }

    fn vmap_of(&self, inputs: &[Array], axes: &[Option<usize>], s: Stream) -> Result<Batched> {
        if axes.len() != inputs.len() {
            bail!(Value, "[vmap] {} axes for {} inputs.", axes.len(), inputs.len());
        }
        if self.of.expands() {
            let n = self.specs.len();
            let over: Vec<Option<i64>> = axes.iter().map(|a| a.map(|a| a as i64)).collect();
            let mut f = |a: &[Array]| Ok((self.of.expand(a, s)?, vec![Some(0); n]));
            return Ok((super::vmap(&mut f, inputs, &over)?, vec![Some(0); n]));
        }
        let shapes = self.of.output_shapes(&elements(inputs, axes)?)?;
        let outs = shapes.into_iter().zip(&self.specs).map(|(n, (_, d))| Array::placeholder(n, *d));
        let outs = outs.collect::<Result<Vec<_>>>()?;
        self.of.vmap(&Vmap { inputs, axes, outputs: &outs, stream: s })
    }

    /// What the rule gives for inputs as they are, and the node that stands for it.
    fn record(mut self, inputs: Vec<Array>, stream: Stream) -> Result<Results> {
        let now = self.run(&inputs, stream)?;
        self.results = now.iter().map(|(a, axis)| if a.is_none() { -1 } else { *axis }).collect();
        if let Which::Vmap(_) = self.which {
            self.results = now.iter().map(|(_, axis)| *axis).collect();
        }
        let specs = now.iter().filter_map(|(a, _)| a.as_ref().map(spec)).collect();
        let node = PrimitiveRef::new(self);
        let mut outs = Array::lazy_shared(specs, node, inputs, stream)?.into_iter();
        Ok(now.into_iter().map(|(a, axis)| (a.and_then(|_| outs.next()), axis)).collect())
    }

    /// Whether a result is one of the outputs of the node.
    fn there(&self, result: i64) -> bool {
        matches!(self.which, Which::Vmap(_)) || result >= 0
    }
}

/// What an element of a batch looks like.
fn elements(inputs: &[Array], axes: &[Option<usize>]) -> Result<Vec<Array>> {
    let one = |(a, axis): (&Array, &Option<usize>)| match axis {
        None => Ok(a.clone()),
        Some(axis) => {
            let mut shape: Shape = a.shape().into();
            shape.remove(*axis);
            Array::placeholder(shape, a.dtype())
        }
    };
    inputs.iter().zip(axes).map(one).collect()
}

impl Primitive for Derived {
    fn name(&self) -> &str {
        match self.which {
            Which::Vjp(_) => "vjp",
            Which::Jvp(_) => "jvp",
            Which::Vmap(_) => "vmap",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        let axes: Vec<i64> = match &self.which {
            Which::Vjp(list) | Which::Jvp(list) => list.iter().map(|&i| i as i64).collect(),
            Which::Vmap(axes) => axes.iter().map(|a| a.map_or(-1, |a| a as i64)).collect(),
        };
        let mut all = params![&axes[..], &self.results[..], self.of.name(), self.specs.len()]?;
        for (shape, dtype) in &self.specs {
            all.extend([Param::from(&shape[..]), Param::from(dtype.name())]);
        }
        all.extend(self.of.params()?);
        Some(all)
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[eval] {} of {} was recorded for arrays of any length.", self.name(), self.of.name());
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval_cpu(inputs, outputs)
    }

    fn expands(&self) -> bool {
        true
    }

    fn expand(&self, inputs: &[Array], stream: Stream) -> Result<Vec<Array>> {
        let now = self.run(inputs, stream)?;
        let mut outs = Vec::with_capacity(self.results.len());
        for ((a, axis), &want) in now.into_iter().zip(&self.results) {
            match a {
                Some(a) if axis == want => outs.push(a),
                Some(a) if axis >= 0 && want >= 0 => outs.push(ops::moveaxis(&a, axis, want, stream)?),
                _ if !self.there(want) => {}
                // All elements are the same.
                Some(a) if axis >= 0 => {
                    let first = ops::moveaxis(&a, axis, 0, stream)?;
                    outs.push(ops::index::subscript::get(&first, &[Item::Int(0)], &[], stream)?);
                }
                _ => bail!(Value, "[{}] The rule of {} depends on shapes.", self.name(), self.of.name()),
            }
        }
        Ok(outs)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        let Some(o) = (other as &dyn std::any::Any).downcast_ref::<Derived>() else { return false };
        self.which == o.which && self.specs == o.specs && self.of.same(&*o.of)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        shapes_of(self, inputs)
    }
}

/// Whether the rule of a primitive is asked later. Rules of the caller are asked once.
fn later(p: &PrimitiveRef, inputs: &[Array]) -> bool {
    lengths_vary() && !is_custom(&**p) && inputs.iter().any(follows)
}

/// Cotangents of the inputs of a primitive.
pub(crate) fn vjp(p: &PrimitiveRef, r: &Vjp) -> Result<Derivatives> {
    if !lengths_vary() {
        return p.vjp(r);
    }
    let inputs = [r.primals, r.cotangents, r.outputs].concat();
    if !later(p, &inputs) {
        return p.vjp(r);
    }
    let which = Which::Vjp(r.argnums.to_vec());
    Ok(derived(which, p, r.outputs).record(inputs, r.stream)?.into_iter().map(|(a, _)| a).collect())
}

/// Tangents of the outputs of a primitive.
pub(crate) fn jvp(p: &PrimitiveRef, r: &Jvp) -> Result<Derivatives> {
    if !lengths_vary() {
        return tangents_of(&**p, r);
    }
    let inputs = [r.primals, r.tangents, r.outputs].concat();
    if !later(p, &inputs) {
        return tangents_of(&**p, r);
    }
    let which = Which::Jvp(r.argnums.to_vec());
    Ok(derived(which, p, r.outputs).record(inputs, r.stream)?.into_iter().map(|(a, _)| a).collect())
}

/// A primitive over a batch.
pub(crate) fn vmap(p: &PrimitiveRef, r: &Vmap) -> Result<Batched> {
    if !later(p, r.inputs) {
        return p.vmap(r);
    }
    let results = derived(Which::Vmap(r.axes.to_vec()), p, r.outputs).record(r.inputs.to_vec(), r.stream)?;
    Ok(results.into_iter().filter_map(|(a, axis)| Some((a?, usize::try_from(axis).ok()))).unzip())
}

/// The outputs of a node. One that nobody kept has lost its node, and would pass for a placeholder of the recording: it
/// is one of the same primitive again.
pub(crate) fn outputs_of(array: &Array, node: &Node) -> SmallVec<[Array; 1]> {
    let mut outs: SmallVec<[Array; 1]> = array.outputs_of(node).into_iter().collect();
    let lost = |a: &Array| a.node().is_none() && !a.has_data();
    if lengths_vary() && outs.iter().any(lost) {
        let specs = outs.iter().map(spec).collect();
        let again = Array::lazy_many(specs, node.primitive.clone(), node.inputs.to_vec(), node.stream);
        // INVARIANT: the shapes are those of arrays.
        let again = again.expect("shapes that arrays have");
        outs.iter_mut().zip(again).filter(|(o, _)| lost(o)).for_each(|(o, a)| *o = a);
    }
    outs
}

fn derived(which: Which, p: &PrimitiveRef, outputs: &[Array]) -> Derived {
    Derived { which, of: p.clone(), specs: outputs.iter().map(spec).collect(), results: Vec::new() }
}

/// Derivatives of derivatives that a file may hold.
const DEPTH: usize = 16;

/// The primitive that a file describes, if it is one of this file's.
fn parsed(name: &str, params: &[Param], depth: usize) -> Result<Option<Derived>> {
    if !matches!(name, "vjp" | "jvp" | "vmap") {
        return Ok(None);
    }
    let c = Stored { name, params, inputs: &[], specs: &[], stream: default_stream(Device::CPU) };
    let (list, results, own) = (c.ints(0)?, c.ints(1)?.to_vec(), c.text(2)?);
    let index = |&i: &i64| usize::try_from(i).ok();
    let n = usize::try_from(c.size(3)?).unwrap_or(usize::MAX).min(params.len());
    let mut specs: Vec<Spec> = Vec::new();
    for i in (4..).step_by(2).take(n) {
        let (shape, dtype) = (Shape::from_slice(c.ints(i)?), c.text(i + 1)?);
        let Some(dtype) = Dtype::from_name(dtype) else {
            bail!(Value, "[{name}] There is no dtype {dtype}.")
        };
        checked_size(name, &shape, dtype.size())?;
        specs.push((shape, dtype));
    }
    let numbers: Option<Vec<usize>> = list.iter().map(index).collect();
    let which = match (name, numbers) {
        ("vmap", _) => Which::Vmap(list.iter().map(index).collect()),
        ("vjp", Some(list)) => Which::Vjp(list),
        ("jvp", Some(list)) => Which::Jvp(list),
        _ => return c.unknown(),
    };
    let rest = &params[4 + 2 * n..];
    if depth == DEPTH {
        bail!(Value, "[{name}] More than {DEPTH} transforms of transforms.");
    }
    let of = match parsed(own, rest, depth + 1)? {
        Some(inner) => PrimitiveRef::new(inner),
        None => PrimitiveRef::new(Composite::stored(own, rest.to_vec(), specs.clone())),
    };
    Ok(Some(Derived { which, of, specs, results }))
}

/// The outputs of a stored call: one of the nodes of this file, or an op.
///
/// # Errors
/// Value error where parameters, inputs and outputs do not fit each other.
pub(crate) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let Some(derived) = parsed(c.name, c.params, 0)? else { return ops::restore::restore(c) };
    let now = derived.expand(c.inputs, c.stream)?;
    if !now.iter().map(spec).eq(c.specs.iter().cloned()) {
        bail!(Value, "[{}] Outputs do not fit the primitive.", c.name);
    }
    if !lengths_vary() || !c.inputs.iter().any(follows) {
        return Ok(now);
    }
    let node = PrimitiveRef::new(derived);
    Ok(Array::lazy_shared(c.specs.to_vec(), node, c.inputs.to_vec(), c.stream)?.into_vec())
}
