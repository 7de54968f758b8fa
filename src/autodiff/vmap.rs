//! Vectorisation. The function is recorded once on placeholders of one element's shape; the recorded graph is
//! then replayed with the batch, each primitive by its own rule. What does not depend on the batch is reused
//! as it is.

use super::derived;
use crate::bail;
use crate::core::Placeholders;
use crate::core::layout::{normalize_axis, show};
use crate::core::primitive::Rule;
use crate::core::{Array, Error, Result, Shape, Vmap};
use crate::graph::order::{IdMap, needed, postorder};
use crate::ops;

/// A function from arrays to arrays and the axis that each of them shall carry the batch on.
pub type WithAxes<'a> = &'a mut dyn FnMut(&[Array]) -> Result<(Vec<Array>, Vec<Option<i64>>)>;

/// An array with the axis that carries the batch, if it varies.
type Carried = (Array, Option<usize>);

/// Checks the axes of the inputs and returns them normalised.
fn checked_axes(inputs: &[Array], axes: &[Option<i64>]) -> Result<Vec<Option<usize>>> {
    let mut size: Option<i64> = None;
    let mut out = Vec::with_capacity(axes.len());
    for (a, axis) in inputs.iter().zip(axes) {
        let Some(axis) = *axis else {
            out.push(None);
            continue;
        };
        let Ok(ax) = normalize_axis("vmap", axis, a.ndim()) else {
            let shape = show(a.shape());
            bail!(Index, "[vmap] Invalid vectorization axis {axis} for array with shape {shape}");
        };
        let n = a.shape()[ax];
        if let Some(other) = size.replace(n)
            && other != n
        {
            bail!(Value, "[vmap] Inconsistent axis sizes: {other} and {n}.");
        }
        out.push(Some(ax));
    }
    match size {
        Some(_) => Ok(out),
        None => Err(Error::Value("[vmap] At least one of in_axes must be non-None.".into())),
    }
}

/// Outputs of `f` for every element along the input axes, stacked along the axes that `f` returns beside them.
pub fn vmap(f: WithAxes, inputs: &[Array], in_axes: &[Option<i64>]) -> Result<Vec<Array>> {
    let axes = checked_axes(inputs, in_axes)?;
    let element = |a: &Array, axis: usize| {
        let mut shape: Shape = a.shape().into();
        shape.remove(axis);
        Array::placeholder(shape, a.dtype())
    };
    let traced =
        inputs.iter().zip(&axes).map(|(a, ax)| ax.map_or_else(|| Ok(a.clone()), |ax| element(a, ax)));
    let traced = traced.collect::<Result<Vec<_>>>()?;
    let (outputs, wanted) = {
        let _running = Placeholders::new();
        f(&traced)?
    };
    let mut done: IdMap<Carried> = IdMap::default();
    for ((t, a), axis) in traced.iter().zip(inputs).zip(&axes) {
        if axis.is_some() {
            done.insert(t.id(), (a.clone(), *axis));
        }
    }
    replay(&outputs, &mut done)?;
    // INVARIANT: one of the inputs carries a batch.
    let like = inputs.iter().zip(&axes).find_map(|(a, axis)| Some((a, (*axis)?))).expect("a batch");
    outputs.iter().zip(wanted).map(|(o, axis)| placed(o, done.get(&o.id()), axis, like)).collect()
}

/// Computes the batched form of everything between the entries of `done` and `outputs`.
fn replay(outputs: &[Array], done: &mut IdMap<Carried>) -> Result<()> {
    let order = postorder(outputs, |a| done.contains_key(&a.id()));
    let nodes: Vec<_> = order.into_iter().filter_map(|a| a.node().map(|n| (a, n))).collect();
    let wanted = needed(nodes.iter().map(|(a, n)| (a, n)), outputs, Rule::Vmap);
    for (array, node) in nodes {
        if !wanted.contains(&array.id()) || !node.inputs.iter().any(|i| done.contains_key(&i.id())) {
            continue;
        }
        let (inputs, axes): (Vec<Array>, Vec<Option<usize>>) = node
            .inputs
            .iter()
            .map(|i| done.get(&i.id()).cloned().unwrap_or_else(|| (i.clone(), None)))
            .unzip();
        let outs = array.outputs_of(&node);
        let rule = Vmap { inputs: &inputs, axes: &axes, outputs: &outs, stream: node.stream };
        let (batched, out_axes) = derived::vmap(&node.primitive, &rule)?;
        for ((o, b), axis) in outs.iter().zip(batched).zip(out_axes) {
            done.insert(o.id(), (b, axis));
        }
    }
    Ok(())
}

/// An output with its batch where the caller wants it; repeated, as often as an input of the batch is long, where it
/// does not vary.
fn placed(
    traced: &Array,
    carried: Option<&Carried>,
    axis: Option<i64>,
    (like, along): (&Array, usize),
) -> Result<Array> {
    let s = super::grad::stream_of(traced);
    let (a, from) = match carried {
        Some((a, from)) => (a.clone(), *from),
        None => (traced.clone(), None),
    };
    let rank = traced.ndim() + 1;
    // As in MLX, None is for outputs that do not vary, and repeats those along a last axis.
    let axis = match (axis, from) {
        (Some(axis), _) => axis,
        (None, None) => -1,
        (None, Some(_)) => bail!(Value, "[vmap] Axis -1 invalid for output with {rank} dimensions."),
    };
    let Ok(to) = normalize_axis("vmap", axis, rank) else {
        let shape = show(traced.shape());
        bail!(Index, "[vmap] Invalid output vectorization axis {axis} for array with shape {shape}");
    };
    match from {
        Some(from) => ops::moveaxis(&a, from as i64, to as i64, s),
        None => ops::batching::repeated(&a, to, like, along, s),
    }
}
