//! What follows products, in their kernel: a few elementwise steps that take their results and each other's, until one result is left that
//! others need.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use super::picked_biases::{Indices, picked_bias};
use super::row_products::Input;
use crate::core::fork::Shared;
use crate::core::{Array, Dtype, Stream};
use crate::fusion::device;
use crate::fusion::plan::Free;
use crate::kernels::elementwise::program::Instr;
use crate::kernels::matmul::epilogue::{After, KeptAfter, MATRICES, Origin};
use crate::kernels::{Program, Src};
use crate::ops::elementwise::{instruction, scalar_bits};

/// Different numbers that programs of one form may have: each is a kernel, and those of models are few.
const NUMBERS: usize = 8;
/// Instructions of a program, and steps that it is made of, at most.
const INSTRUCTIONS: usize = 24;
const STEPS: usize = 4;

static SEEN: Shared<HashMap<Program, Vec<Numbers>>> = Shared::new(HashMap::new);

type Numbers = SmallVec<[u64; 2]>;

/// Steps that follow products and are joined.
pub(in crate::fusion) struct Following {
    /// The last one gives the result.
    pub steps: SmallVec<[usize; 2]>,
    pub after: KeptAfter,
    /// What is read besides the products.
    pub arrays: SmallVec<[Input; 2]>,
    /// Steps that made some of it, which are left out.
    pub taken: SmallVec<[usize; 4]>,
}

impl Following {
    /// The step that gives the result.
    pub fn last(&self) -> usize {
        // INVARIANT: there is one.
        *self.steps.last().expect("a step")
    }
}

/// What a program begins with.
#[derive(Clone, Copy)]
struct Made<'a> {
    products: &'a [usize],
    /// How their matrices are picked.
    picks: Option<Indices<'a>>,
}

/// A program that grows by steps.
#[derive(Default)]
struct Grown {
    program: Program,
    inputs: SmallVec<[Origin; 4]>,
    arrays: SmallVec<[Input; 2]>,
    taken: SmallVec<[usize; 4]>,
    numbers: Numbers,
    /// With the registers of their results.
    steps: SmallVec<[(usize, u8); 4]>,
}

/// What step `i` does to each element of its inputs, if that is all.
fn elementwise(free: &Free, i: usize, stream: Stream) -> Option<Program> {
    let node = free.node(i).filter(|n| n.stream == stream)?;
    if let Some(fused) = node.primitive.program().and_then(|p| p.downcast_ref::<Program>()) {
        return Some(fused).filter(|p| p.outputs.len() == 1).cloned();
    }
    let dtypes: SmallVec<[Dtype; 3]> = node.inputs.iter().map(Array::dtype).collect();
    Some(Program::one(instruction(&*node.primitive)?, &dtypes, free.array(i).dtype()))
}

impl Grown {
    /// Adds step `j`, whose inputs are products, what earlier steps gave, arrays with an element for each result, rows of picked
    /// matrices, or numbers.
    fn add(&mut self, free: &Free, made_by: &Made, j: usize, stream: Stream) -> Option<()> {
        let Made { products, picks } = *made_by;
        let made = free.array(*products.first()?);
        let like = |a: &Array| a.shape() == made.shape() && a.dtype() == made.dtype();
        // Of one row also an array with fewer axes.
        let one = made.dim(-1) == made.size() as i64;
        let row = |a: &Array| one && a.size() == made.size() && a.dtype() == made.dtype();
        let program = elementwise(free, j, stream).filter(|_| like(free.array(j)))?;
        let base = self.program.instrs.len();
        let mut from: SmallVec<[Src; 4]> = SmallVec::new();
        for (k, a) in free.node(j)?.inputs.iter().enumerate() {
            from.push(if let Some(step) = self.steps.iter().find(|s| free.array(s.0).same(a)) {
                Src::Reg(step.1)
            } else if let Some(n) = products.iter().position(|&p| free.array(p).same(a)) {
                self.input(Origin::Product(n as u8), a.dtype())
            } else if let Some(bias) = picks.and_then(|p| picked_bias(free, (j, k), p, made, stream)) {
                self.arrays.push(bias.table);
                self.taken.extend(bias.steps);
                self.input(Origin::Picked(self.arrays.len() as u8 - 1), a.dtype())
            } else if like(a) || row(a) {
                self.arrays.push((j, k));
                self.input(Origin::Array(self.arrays.len() as u8 - 1), a.dtype())
            } else {
                let bits = scalar_bits(a).filter(|_| a.dtype() == made.dtype())?;
                self.numbers.push(bits);
                Src::Const(bits, a.dtype())
            });
        }
        let moved = |&s: &Src| match s {
            Src::Input(i) => from[usize::from(i)],
            // FITS: `INSTRUCTIONS` bounds them.
            Src::Reg(r) => Src::Reg(r + base as u8),
            number @ Src::Const(..) => number,
        };
        let all = base + program.instrs.len();
        if all > INSTRUCTIONS || self.arrays.len() >= MATRICES {
            return None;
        }
        let instrs = program.instrs.iter();
        let instrs = instrs.map(|i| Instr { args: i.args.iter().map(moved).collect(), ..i.clone() });
        self.program.instrs.extend(instrs);
        self.steps.push((j, program.outputs[0] + base as u8));
        Some(())
    }

    fn input(&mut self, origin: Origin, dtype: Dtype) -> Src {
        self.inputs.push(origin);
        self.program.inputs.push(dtype);
        Src::Input(self.inputs.len() as u8 - 1)
    }

    /// The program, if kernels can have it; the last step gives the result.
    fn finish(self) -> Option<Following> {
        let Grown { mut program, inputs, arrays, taken, numbers, steps } = self;
        program.outputs = smallvec![steps.last()?.1];
        if !numbers.is_empty() && !few(&program, numbers) {
            return None;
        }
        let after = After { program, inputs }.kept()?;
        Some(Following { steps: steps.iter().map(|s| s.0).collect(), after, arrays, taken })
    }
}

/// Whether programs that differ in their numbers alone have few of them.
fn few(program: &Program, numbers: Numbers) -> bool {
    let mut form = program.clone();
    let args = form.instrs.iter_mut().flat_map(|i| &mut i.args);
    args.for_each(|a| {
        if let Src::Const(bits, _) = a {
            *bits = 0;
        }
    });
    let mut seen = SEEN.lock();
    let known = seen.entry(form).or_default();
    if known.contains(&numbers) {
        return true;
    }
    known.len() < NUMBERS && {
        known.push(numbers);
        true
    }
}

/// How often step `j` reads what step `p` gives.
fn reads(free: &Free, p: usize, j: usize) -> usize {
    free.node(j).map_or(0, |n| n.inputs.iter().filter(|a| a.same(free.array(p))).count())
}

/// Whether step `j` alone does.
fn alone(free: &Free, p: usize, j: usize) -> bool {
    let reads = reads(free, p, j);
    reads > 0 && free.only_used(p, reads)
}

/// The steps that take the results of `products`, which nobody else needs; `picks`: whose matrices are picked so.
pub(in crate::fusion) fn following(
    free: &Free,
    products: &[usize],
    picks: Option<Indices>,
    stream: Stream,
) -> Option<Following> {
    let last = *products.last()?;
    let made = free.array(last);
    if products.iter().any(|&p| free.array(p).shape() != made.shape()) {
        return None;
    }
    let grown = |steps: &[usize]| {
        let mut grown = Grown::default();
        steps.iter().try_for_each(|&j| grown.add(free, &Made { products, picks }, j, stream))?;
        grown.finish()
    };
    // Results that no step has taken yet; after how many steps there was one.
    let mut open: SmallVec<[usize; 4]> = SmallVec::from_slice(products);
    let (mut steps, mut ends): (SmallVec<[usize; STEPS]>, SmallVec<[usize; STEPS]>) = Default::default();
    while steps.len() < STEPS {
        let from = steps.last().copied().unwrap_or(last);
        let Some(j) = free.behind(from).find(|&j| open.iter().any(|&p| reads(free, p, j) > 0)) else { break };
        // Who comes first and does not read one of them alone ends the search.
        let before = open.len();
        open.retain(|p| !alone(free, *p, j));
        if open.len() == before {
            break;
        }
        open.push(j);
        steps.push(j);
        if open.len() == 1 {
            ends.push(steps.len());
        }
    }
    // What picked matrices have besides is no kernel's in PTX, and commands of its own otherwise.
    let known = |f: &Following| {
        f.steps.len() == 1 || f.after.picks() || device::follows(stream, made.dtype(), f.after)
    };
    ends.iter().rev().find_map(|&n| grown(&steps[..n]).filter(known))
}
