//! Pattern: a random draw with the elementwise steps that alone read it: bounds and scales, logarithms, comparisons,
//! rounding to integers. The words are never written; a kernel of each step would read and write all of them again.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work};
use crate::core::array::Node;
use crate::core::{Array, Dtype, Result, Shape, Stream};
use crate::kernels::{Draw, Inst, Program, Src};
use crate::on_gpu;
#[cfg(feature = "vulkan")]
use crate::ops::elementwise::expanded;
use crate::ops::elementwise::instruction;
use crate::ops::random::RandomBits;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::is_stop_gradient;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::random::drawn::drawn;

/// Arrays that a kernel reads besides the key, its instructions, and library functions in the unit of `Row::code_size`: a
/// lane computes eight results without a loop.
const MAX_ARRAYS: usize = 6;
const MAX_INSTRS: usize = 32;
const MAX_CODE: usize = 8;

struct Drawn {
    /// The step that draws.
    first: usize,
    draw: Draw,
    program: Program,
    /// Steps and numbers of their inputs that the program reads besides the draw, in order.
    reads: SmallVec<[(usize, usize); 4]>,
}

/// What a step computes from each element of its inputs, if that is all it does.
fn program(node: &Node, out: &Array) -> Option<Program> {
    if let Some(any) = node.primitive.program() {
        return any.downcast_ref::<Program>().filter(|p| p.outputs.len() == 1).cloned();
    }
    let inst = if is_stop_gradient(&*node.primitive) { Inst::Cast } else { instruction(&*node.primitive)? };
    let inputs: SmallVec<[Dtype; 3]> = node.inputs.iter().map(Array::dtype).collect();
    Some(Program::one(inst, &inputs, out.dtype()))
}

/// What is joined so far.
struct Chain<'a> {
    free: &'a Free<'a>,
    members: SmallVec<[usize; 8]>,
    /// The register of each member but the first, which is the first input.
    registers: SmallVec<[u8; 8]>,
    program: Program,
    reads: SmallVec<[(usize, usize); 4]>,
}

impl<'a> Chain<'a> {
    fn new(free: &'a Free<'a>, first: usize) -> Chain<'a> {
        let program = Program {
            inputs: smallvec![free.array(first).dtype()],
            instrs: SmallVec::new(),
            outputs: SmallVec::new(),
        };
        Chain { free, members: smallvec![first], registers: SmallVec::new(), program, reads: SmallVec::new() }
    }

    /// The member that makes an array.
    fn maker(&self, a: &Array) -> Option<usize> {
        self.members.iter().position(|&m| self.free.array(m).same(a))
    }

    /// Where the program has an input of step `j` from.
    fn source(&mut self, j: usize, slot: usize, a: &Array) -> Src {
        match self.maker(a) {
            Some(0) => return Src::Input(0),
            Some(m) => return Src::Reg(self.registers[m - 1]),
            None => {}
        }
        let inputs = |k: usize| self.free.steps[k].node.as_ref().map_or(&[][..], |n| &n.inputs);
        let known = self.reads.iter().position(|&(k, s)| inputs(k)[s].same(a));
        let at = known.unwrap_or_else(|| {
            self.reads.push((j, slot));
            self.program.inputs.push(a.dtype());
            self.reads.len() - 1
        });
        Src::Input(at as u8 + 1)
    }

    /// Takes step `j` in; false where it is too much for a kernel.
    fn push(&mut self, j: usize, node: &Node, p: &Program) -> bool {
        let places: SmallVec<[Src; 4]> =
            node.inputs.iter().enumerate().map(|(slot, a)| self.source(j, slot, a)).collect();
        let base = self.program.append(p, &places);
        self.members.push(j);
        self.registers.push(base + p.outputs[0]);
        self.reads.len() <= MAX_ARRAYS
            && self.program.instrs.len() <= MAX_INSTRS
            && self.program.code_size() <= MAX_CODE
    }

    /// Whether somebody else reads the last member's result and nobody any other's.
    fn is_closed(&self) -> bool {
        let inputs = |&k: &usize| self.free.steps[k].node.iter().flat_map(|n| &n.inputs);
        let uses =
            |m: usize| self.members.iter().flat_map(inputs).filter(|a| a.same(self.free.array(m))).count();
        let (last, others) = self.members.split_last().unwrap_or((&0, &[]));
        others.iter().all(|&m| self.free.only_used(m, uses(m))) && uses(*last) == 0
    }
}

/// The join that begins with the draw of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let (bits, inputs) = free.primitive::<RandomBits>(i, stream)?;
    let words = free.array(i);
    let shape: Shape = words.shape().into();
    if inputs[0].ndim() != 1 || words.size() == 0 || words.dtype().size() != 4 || !device::joins_draws(stream)
    {
        return None;
    }
    let mut chain = Chain::new(free, i);
    let mut best = None;
    for j in free.behind(i) {
        let Some(node) = free.node(j).filter(|n| n.stream == stream) else { continue };
        let out = free.array(j);
        if out.shape() != &shape[..] || !node.inputs.iter().any(|a| chain.maker(a).is_some()) {
            continue;
        }
        let Some(p) = program(node, out) else { continue };
        if !chain.push(j, node, &p) {
            break;
        }
        if chain.is_closed() {
            let outputs = chain.registers.last().copied().into_iter().collect();
            let program = Program { outputs, ..chain.program.clone() };
            best = Some((chain.members.clone(), program, chain.reads.clone()));
        }
    }
    let (members, program, reads) = best?;
    // Bits that are only passed on are no work.
    if program.is_cast() && program.inputs[0] == program.instrs[0].dtype {
        return None;
    }
    let results: SmallVec<[usize; 3]> = smallvec![*members.last()?];
    let at = free.place(&members, &results)?;
    let work = Box::new(Drawn { first: i, draw: bits.0, program, reads });
    Some(Join { at, members, results, work })
}

impl Work for Drawn {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let out = &results[0];
            let key = dev_in(enc, &members[self.first].inputs[0])?;
            let mut inputs = SmallVec::<[_; 4]>::new();
            for &(step, slot) in &self.reads {
                inputs.push(expanded(dev_in(enc, &members[step].inputs[slot])?, out.shape()));
            }
            let dst = dev_out(enc, out)?;
            drawn(enc, self.draw, &self.program, &key, &inputs, &dst)
        })
    }
}
