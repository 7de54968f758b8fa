//! Pattern: a product with what follows it. The elementwise steps that alone read a matrix product become its kernel's
//! epilogue, applied to the sums before they are stored. GPU streams only: on the host a pass over a result that is
//! still in cache costs next to nothing.

use smallvec::SmallVec;

use super::device;
use super::elementwise::{elementwise, run};
use super::fused::Code;
use super::recorded::{Graph, Kernel, Pattern};
use crate::core::layout::{row_major, size_of};
use crate::core::{Array, Dtype, PrimitiveRef, Result, Shape, Stream};
use crate::graph::tape::{Step, Value};
use crate::kernels::{Epilogue, Program, Spread};
use crate::ops::elementwise;
use crate::ops::matmul::{is_product, run_followed};
use crate::ops::view::is_reshape;

/// A product that a group can follow, and the reshape between them.
struct Head {
    product: usize,
    reshape: Option<usize>,
}

/// The shape without leading axes of length one.
fn stripped(shape: &[i64]) -> &[i64] {
    let first = shape.iter().position(|&d| d != 1).unwrap_or(shape.len());
    &shape[first..]
}

/// How an array of `shape` meets the elements of `out`.
fn spread(shape: &[i64], out: &[i64]) -> Option<Spread> {
    match stripped(shape) {
        [] => Some(Spread::Single),
        s if s == stripped(out) => Some(Spread::Whole),
        [n] if out.last() == Some(n) => Some(Spread::Columns),
        _ => None,
    }
}

/// The product that makes a value for the group alone.
fn head(graph: &Graph, v: &Value, members: &[usize]) -> Option<Head> {
    let steps = &graph.tape.steps;
    let made = graph.maker(v).filter(|m| !members.contains(m))?;
    let alone = |s: usize, readers: &[usize]| graph.readers_of(s).all(|r| readers.contains(&r));
    if !alone(made, members) {
        return None;
    }
    let (product, reshape) = match is_reshape(&*steps[made].primitive) {
        true => (graph.maker(&steps[made].args[0])?, Some(made)),
        false => (made, None),
    };
    let step = &steps[product];
    let shape = &step.specs[0].0;
    let fits = is_product(&*step.primitive)
        && step.stream == steps[members[0]].stream
        && reshape.is_none_or(|r| alone(product, &[r]) && steps[r].stream == step.stream)
        && graph.spec(&step.args[0]).0.last().is_some_and(|&k| k > 0)
        && size_of(shape) > 0
        && steps[made].specs[0].0.last() == shape.last();
    fits.then_some(Head { product, reshape })
}

/// What a group of elementwise steps computes from the product, if kernels can do that.
fn epilogue(graph: &Graph, members: &[usize], from: &Value) -> Option<(Epilogue, Vec<Value>)> {
    let k = run(graph, members);
    let product = k.reads.iter().position(|v| v.same(from))?;
    let out = &graph.tape.steps[*k.stored.first()?].specs[0].0;
    let mut spreads: SmallVec<[Spread; 4]> = SmallVec::new();
    let mut reads = Vec::new();
    for v in k.reads.iter().enumerate().filter(|r| r.0 != product).map(|r| r.1) {
        spreads.push(spread(&graph.spec(v).0, out)?);
        reads.push(v.clone());
    }
    let e = Epilogue { program: k.program, product: product as u8, spread: spreads };
    (e.suits() && device::epilogue_pays(&e, size_of(out))).then_some((e, reads))
}

/// The product whose epilogue a group can be.
fn find(graph: &Graph, members: &[usize]) -> Option<Head> {
    let step = |m: usize| &graph.tape.steps[m];
    if !device::has_epilogues(step(members[0]).stream)
        || members.iter().any(|&m| elementwise(step(m)).is_none())
        || members.iter().filter(|&&m| graph.leaves(m, members)).count() != 1
    {
        return None;
    }
    // The last product, of several: the others are there by then.
    let mut values: Vec<&Value> = members.iter().flat_map(|&m| &step(m).args).collect();
    values.sort_by_key(|v| std::cmp::Reverse(graph.maker(v)));
    values.into_iter().find_map(|v| {
        let same = graph.spec(v).0 == step(members[0]).specs[0].0;
        let h = head(graph, v, members).filter(|_| same)?;
        epilogue(graph, members, v).map(|_| h)
    })
}

pub(super) struct Epilogues;

impl Pattern for Epilogues {
    fn name(&self) -> &'static str {
        "epilogue"
    }

    fn takes_in(&self, graph: &Graph, members: &[usize]) -> SmallVec<[usize; 2]> {
        find(graph, members)
            .map_or_else(SmallVec::new, |h| [h.product].into_iter().chain(h.reshape).collect())
    }

    fn kernel(&self, graph: &Graph, members: &[usize]) -> Option<Kernel> {
        follow(graph, members)
    }
}

/// A product and its epilogue.
struct Follow {
    product: PrimitiveRef,
    /// How many inputs it has.
    own: usize,
    shape: Shape,
    dtype: Dtype,
    epilogue: &'static Epilogue,
}

/// The kernel of a group with its product among the members.
fn follow(graph: &Graph, members: &[usize]) -> Option<Kernel> {
    let steps = &graph.tape.steps;
    let product: &Step = steps.get(*members.iter().find(|&&m| is_product(&*steps[m].primitive))?)?;
    let (head, run): (Vec<usize>, Vec<usize>) =
        members.iter().partition(|&&m| elementwise(&steps[m]).is_none());
    let from = Value::Temp(steps[*head.last()?].outs[0]);
    let (e, mut reads) = epilogue(graph, &run, &from)?;
    let stored = run.iter().copied().find(|&m| graph.leaves(m, &run))?;
    reads.splice(0..0, product.args.iter().cloned());
    let (shape, dtype) = product.specs[0].clone();
    let (primitive, own) = (product.primitive.clone(), product.args.len());
    let code = Follow { product: primitive, own, shape, dtype, epilogue: e.kept() };
    Some(Kernel { reads, stored: vec![stored], code: Box::new(code) })
}

impl Follow {
    /// The product and its epilogue one after the other: `run` evaluates the product, then `each` the program.
    fn apart(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        run: impl FnOnce(&[Array], &[Array]) -> Result<()>,
        each: impl FnOnce(&Program, &[Array], &[Array]) -> Result<()>,
    ) -> Result<()> {
        let (own, rest) = inputs.split_at(self.own);
        let product = Array::placeholder(self.shape.clone(), self.dtype)?;
        run(own, std::slice::from_ref(&product))?;
        // In the shape of the result, and the only owner of its memory, so that the program may write over it.
        let shaped = Array::placeholder(outputs[0].shape(), self.dtype)?;
        shaped.set_data(row_major(shaped.shape()), 0, product.data()?.storage.clone());
        drop(product);
        let mut all = rest.to_vec();
        all.insert(self.epilogue.product as usize, shaped);
        each(&self.epilogue.program, &all, outputs)
    }
}

impl Code for Follow {
    fn name(&self) -> String {
        format!("{}_{}", self.product.name(), self.epilogue.program.name())
    }

    fn run_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.apart(inputs, outputs, |i, o| self.product.eval_cpu(i, o), elementwise::run_cpu)
    }

    fn run_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        if run_followed(&*self.product, self.epilogue, self.own, stream, inputs, &outputs[0])? {
            return Ok(());
        }
        let run = |i: &[Array], o: &[Array]| self.product.eval_gpu(stream, i, o);
        self.apart(inputs, outputs, run, |p, i, o| elementwise::run_gpu(p, stream, i, o))
    }
}
