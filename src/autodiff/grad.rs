//! Reverse and forward differentiation. A function is recorded on tracers; the recorded graph is walked by
//! loops, and derivatives are built from ops, so transforms nest to any order.

use std::collections::HashSet;
use std::sync::Arc;

use super::derived;
use crate::bail;
use crate::core::array::{Node, Tracing};
use crate::core::layout::show;
use crate::core::primitive::{Direction, Rule};
use crate::core::{Array, Derivatives, Dtype, Error, Jvp, Primitive, Result, Vjp};
use crate::graph::order::{IdMap, IdSet, needed, postorder};
use crate::ops;

/// A function from arrays to arrays.
pub type Function<'a> = &'a mut dyn FnMut(&[Array]) -> Result<Vec<Array>>;

/// Copies of the inputs by whose identity the recorded graph is cut.
fn tracers(inputs: &[Array]) -> Vec<Array> {
    inputs
        .iter()
        .map(|a| {
            let t = ops::alias(a);
            t.set_tracer(true);
            t
        })
        .collect()
}

/// Nodes between `sources` and `outputs`, inputs first, with the ids of all arrays that depend on a source.
///
/// # Errors
/// Where an output depends on positions (of a gather, a scatter, a slice) that follow from a source.
fn recorded(
    outputs: &[Array],
    sources: &[Array],
    way: Direction,
) -> Result<(Vec<(Array, Arc<Node>)>, IdSet)> {
    let mut depends: IdSet = sources.iter().map(Array::id).collect();
    let ends = depends.clone();
    let order = postorder(outputs, |a| ends.contains(&a.id()));
    let mut tape = Vec::new();
    let mut visited: HashSet<*const Node> = HashSet::new();
    let mut positions =
        Positions { way, follow: IdSet::default(), wrong: IdMap::default(), errors: Vec::new() };
    for array in order {
        let Some(node) = array.node() else { continue };
        positions.visit(&array, &node, &depends);
        if node.primitive.blocks_gradient() || !node.inputs.iter().any(|i| depends.contains(&i.id())) {
            continue;
        }
        for o in array.outputs_of(&node) {
            depends.insert(o.id());
        }
        if visited.insert(Arc::as_ptr(&node)) {
            tape.push((array, node));
        }
    }
    positions.check(outputs)?;
    Ok((tape, depends))
}

/// Finds the positions that follow from a source, by comparisons and argmax too, which have no derivative.
struct Positions {
    way: Direction,
    /// Arrays that follow from a source although no derivative flows to them.
    follow: IdSet,
    /// Arrays that depend on such positions, by the number of the error.
    wrong: IdMap<usize>,
    errors: Vec<Error>,
}

impl Positions {
    fn visit(&mut self, array: &Array, node: &Arc<Node>, depends: &IdSet) {
        if ops::view::is_stop_gradient(&*node.primitive) {
            return;
        }
        let shadow = !self.follow.is_empty();
        let follows = |a: &Array| depends.contains(&a.id()) || (shadow && self.follow.contains(&a.id()));
        let mut wrong = None;
        if !self.wrong.is_empty() {
            wrong = node.inputs.iter().filter_map(|i| self.wrong.get(&i.id()).copied()).max();
        }
        // Positions never are the first input.
        let reached = (1..node.inputs.len()).filter(|&i| follows(&node.inputs[i]));
        let refused = reached.filter_map(|i| node.primitive.refuses(self.way, i)).next();
        let follows = (shadow || node.primitive.blocks_gradient()) && node.inputs.iter().any(follows);
        if let Some(error) = refused {
            wrong = Some(self.errors.len());
            self.errors.push(error);
        }
        if follows || wrong.is_some() {
            for o in array.outputs_of(node) {
                if follows {
                    self.follow.insert(o.id());
                }
                if let Some(number) = wrong {
                    self.wrong.insert(o.id(), number);
                }
            }
        }
    }

    /// Fails with the error that is the first on the way back from the outputs.
    fn check(mut self, outputs: &[Array]) -> Result<()> {
        match outputs.iter().filter_map(|o| self.wrong.get(&o.id()).copied()).max() {
            Some(number) => Err(self.errors.swap_remove(number)),
            None => Ok(()),
        }
    }
}

/// Cotangents of `sources` from those of `outputs`, over the graph between them.
fn backpropagate(outputs: &[Array], sources: &[Array], cotangents: &[Array]) -> Result<Vec<Array>> {
    let (tape, depends) = recorded(outputs, sources, Direction::Vjp)?;
    let mut cots: IdMap<Array> = IdMap::default();
    for (o, c) in outputs.iter().zip(cotangents) {
        if depends.contains(&o.id()) {
            let s = stream_of(o);
            accumulate(&mut cots, o.id(), c.clone(), s)?;
        }
    }
    for (array, node) in tape.into_iter().rev() {
        let outs = derived::outputs_of(&array, &node);
        if !outs.iter().any(|o| cots.contains_key(&o.id())) {
            continue;
        }
        let mut given = Vec::with_capacity(outs.len());
        for o in &outs {
            given.push(match cots.remove(&o.id()) {
                Some(c) => c,
                None => ops::zeros_like(o, node.stream)?,
            });
        }
        let argnums: Vec<usize> =
            (0..node.inputs.len()).filter(|&i| depends.contains(&node.inputs[i].id())).collect();
        let rule = Vjp {
            primals: &node.inputs,
            cotangents: &given,
            argnums: &argnums,
            outputs: &outs,
            stream: node.stream,
        };
        for (&i, g) in argnums.iter().zip(derived::vjp(&node.primitive, &rule)?) {
            if let Some(g) = g {
                accumulate(&mut cots, node.inputs[i].id(), g, node.stream)?;
            }
        }
    }
    sources
        .iter()
        .map(|p| match cots.get(&p.id()) {
            Some(c) => Ok(c.clone()),
            None => ops::zeros_like(p, stream_of(p)),
        })
        .collect()
}

pub(crate) fn stream_of(a: &Array) -> crate::core::Stream {
    a.node().map_or_else(|| crate::core::default_stream(crate::core::default_device()), |n| n.stream)
}

fn accumulate(cots: &mut IdMap<Array>, id: u64, c: Array, s: crate::core::Stream) -> Result<()> {
    let total = match cots.remove(&id) {
        Some(old) => ops::add(&old, &c, s)?,
        None => c,
    };
    cots.insert(id, total);
    Ok(())
}

/// Outputs of `f` at `primals`, and the product of `cotangents` with its Jacobian.
pub fn vjp(f: Function, primals: &[Array], cotangents: &[Array]) -> Result<(Vec<Array>, Vec<Array>)> {
    let _recording = Tracing::new();
    let sources = tracers(primals);
    let outputs = f(&sources)?;
    if outputs.len() > cotangents.len() {
        bail!(
            Value,
            "[vjp] Number of outputs to compute gradients for ({}) does not match number of cotangents ({}).",
            outputs.len(),
            cotangents.len()
        );
    }
    let mut given = Vec::with_capacity(outputs.len());
    for (o, c) in outputs.iter().zip(cotangents) {
        if o.shape() != c.shape() {
            bail!(
                Value,
                "[vjp] Output shape {} does not match cotangent shape {}.",
                show(o.shape()),
                show(c.shape())
            );
        }
        given.push(ops::astype(c, o.dtype(), stream_of(o))?);
    }
    let grads = backpropagate(&outputs, &sources, &given)?;
    Ok((outputs, grads))
}

/// Values of `f` and the gradient of its first output, a scalar, for the inputs in `argnums`.
pub fn value_and_grad(f: Function, inputs: &[Array], argnums: &[usize]) -> Result<(Vec<Array>, Vec<Array>)> {
    let _recording = Tracing::new();
    let mut args = inputs.to_vec();
    let mut sources = Vec::with_capacity(argnums.len());
    for &i in argnums {
        let Some(slot) = args.get_mut(i) else {
            bail!(Value, "[grad] Invalid argument number {i} for function with {} arguments.", inputs.len());
        };
        let t = tracers(std::slice::from_ref(slot)).remove(0);
        sources.push(t.clone());
        *slot = t;
    }
    let outputs = f(&args)?;
    let Some(loss) = outputs.first() else {
        bail!(Value, "[grad] The function must return at least one array.");
    };
    if loss.size() != 1 || loss.ndim() != 0 {
        bail!(
            Value,
            "[grad] The function whose gradient is computed must return a scalar as its first value, got \
             shape {}.",
            show(loss.shape())
        );
    }
    let one = ops::ones_like(loss, stream_of(loss))?;
    let grads = backpropagate(&outputs[..1], &sources, &[one])?;
    Ok((outputs, grads))
}

/// Outputs of `f` at `primals`, and the product of its Jacobian with `tangents`.
pub fn jvp(f: Function, primals: &[Array], tangents: &[Array]) -> Result<(Vec<Array>, Vec<Array>)> {
    if primals.len() != tangents.len() {
        bail!(
            Value,
            "[jvp] Number of inputs ({}) does not match the number of tangents ({}).",
            primals.len(),
            tangents.len()
        );
    }
    for (p, t) in primals.iter().zip(tangents) {
        if p.shape() != t.shape() {
            bail!(
                Value,
                "[jvp] Input shape {} does not match tangent shape {}.",
                show(p.shape()),
                show(t.shape())
            );
        }
    }
    let _recording = Tracing::new();
    let sources = tracers(primals);
    let outputs = f(&sources)?;
    let (tape, varying) = recorded(&outputs, &sources, Direction::Jvp)?;
    let mut tans: IdMap<Array> = sources.iter().map(Array::id).zip(tangents.iter().cloned()).collect();
    let wanted = needed(tape.iter().map(|(a, n)| (a, n)), &outputs, Rule::Jvp);
    for (array, node) in tape.into_iter().filter(|(a, _)| wanted.contains(&a.id())) {
        let argnums: Vec<usize> =
            (0..node.inputs.len()).filter(|&i| tans.contains_key(&node.inputs[i].id())).collect();
        if argnums.is_empty() {
            continue;
        }
        let given: Vec<Array> = argnums.iter().map(|&i| tans[&node.inputs[i].id()].clone()).collect();
        let outs = derived::outputs_of(&array, &node);
        let rule = Jvp {
            primals: &node.inputs,
            tangents: &given,
            argnums: &argnums,
            outputs: &outs,
            stream: node.stream,
        };
        for (o, t) in outs.iter().zip(derived::jvp(&node.primitive, &rule)?) {
            if let Some(t) = t {
                tans.insert(o.id(), t);
            }
        }
    }
    let out_tangents = outputs
        .iter()
        .map(|o| match tans.get(&o.id()) {
            Some(t) => Ok(t.clone()),
            None => ops::astype(&ops::zeros_like(o, stream_of(o))?, zero_dtype(o, &varying), stream_of(o)),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((outputs, out_tangents))
}

/// Tangents of the outputs of a primitive, by its own rule or by that of its vjp.
pub(crate) fn tangents_of(primitive: &dyn Primitive, r: &Jvp) -> Result<Derivatives> {
    match primitive.jvp(r)? {
        Some(t) => Ok(t),
        None => transposed_vjp(primitive, r),
    }
}

/// The dtype of an output's tangent where that is zero: of comparisons, and of what only moves or gathers their results,
/// that of the numbers which they compare, if any of these varies.
fn zero_dtype(output: &Array, varying: &IdSet) -> Dtype {
    let (mut stack, mut seen) = (vec![output.clone()], HashSet::new());
    let (mut dtype, mut varies) = (None, false);
    while let Some(a) = stack.pop() {
        varies |= varying.contains(&a.id());
        match a.node().filter(|n| n.primitive.zero_tangent_like_inputs(&n.inputs)) {
            Some(n) => stack.extend(n.inputs.iter().filter(|i| seen.insert(i.id())).cloned()),
            None => dtype = Some(dtype.map_or(a.dtype(), |d: Dtype| d.promote(a.dtype()))),
        }
    }
    dtype.filter(|_| varies).unwrap_or(output.dtype())
}

/// A vjp is linear in its cotangent; transposing that linear map gives the jvp.
fn transposed_vjp(primitive: &dyn Primitive, r: &Jvp) -> Result<Derivatives> {
    let zeros = r.outputs.iter().map(|o| ops::zeros_like(o, r.stream)).collect::<Result<Vec<_>>>()?;
    let cots = tracers(&zeros);
    let rule = Vjp {
        primals: r.primals,
        cotangents: &cots,
        argnums: r.argnums,
        outputs: r.outputs,
        stream: r.stream,
    };
    let (mut grads, mut tangents) = (Vec::new(), Vec::new());
    for (g, t) in primitive.vjp(&rule)?.into_iter().zip(r.tangents) {
        if let Some(g) = g {
            grads.push(g);
            tangents.push(t.clone());
        }
    }
    Ok(backpropagate(&grads, &cots, &tangents)?.into_iter().map(Some).collect())
}
