//! Elementwise steps around a choice of experts, single ones and those of compiled functions, put together to the programs of
//! its kernel: from a row to what is ranked and to the numbers that are taken, as by a sigmoid with a correction that only
//! ranks, and from these to what experts are weighed by. Called by `selections`.

use smallvec::{SmallVec, smallvec};

use super::Fused;
use super::plan::{Free, primitive};
use super::selections::{REACH, Steps, is};
use crate::core::array::Node;
use crate::core::{Array, Dtype, Primitive, Stream};
use crate::kernels::elementwise::table;
use crate::kernels::sort::around::{MAX_OTHERS, suits};
use crate::kernels::{Inst, Instr, Program, ReduceOp, RowInst, RowProgram, Spread, Src};
use crate::ops::elementwise::instruction;
use crate::ops::reduce::sums_along;
use crate::ops::view::{is_broadcast, is_stop_gradient};

/// A member and the number of its input.
pub(super) type At = (usize, usize);

/// How often steps are put together anew, without those whose results others need.
const TRIES: usize = 4;

/// A program of steps, and the arrays that it reads beside its own inputs.
pub(super) struct Joined {
    pub program: Program,
    pub others: SmallVec<[(At, Spread); MAX_OTHERS]>,
    pub members: Steps,
}

impl Joined {
    fn new(own: &[Dtype]) -> Joined {
        let program = Program { inputs: own.into(), ..Program::default() };
        Joined { program, others: SmallVec::new(), members: Steps::new() }
    }

    /// An array beside the rows as an input, which is found at `at`.
    fn other(&mut self, a: &Array, at: At, spread: Spread) -> Option<Src> {
        let float = matches!(a.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16);
        if !float || self.others.len() == MAX_OTHERS {
            return None;
        }
        self.others.push((at, spread));
        self.program.inputs.push(a.dtype());
        Some(Src::Input(self.program.inputs.len() as u8 - 1))
    }

    /// Appends what a step computes of `args`; the registers of its outputs.
    fn append(&mut self, does: Does, args: &[Src], dtype: Dtype) -> SmallVec<[Src; 2]> {
        match does {
            Does::One(op) => {
                self.program.instrs.push(Instr { op, args: args.into(), dtype });
                smallvec![Src::Reg(self.program.instrs.len() as u8 - 1)]
            }
            Does::Several(p) => {
                let base = self.program.append(p, args);
                p.outputs.iter().map(|r| Src::Reg(base + r)).collect()
            }
        }
    }

    /// The register of a value.
    fn register(&mut self, value: Src) -> u8 {
        if let Src::Reg(r) = value {
            return r;
        }
        let (args, dtype) = (smallvec![value], self.program.dtype(value));
        self.program.instrs.push(Instr { op: Inst::Cast, args, dtype });
        self.program.instrs.len() as u8 - 1
    }
}

/// What a step does to each element.
enum Does<'a> {
    One(Inst),
    Several(&'a Program),
}

/// What a step does to each element, if that is all it does.
fn does(node: &Node) -> Option<Does<'_>> {
    if is_stop_gradient(&*node.primitive) {
        return Some(Does::One(Inst::Cast));
    }
    match node.primitive.program() {
        Some(p) => p.downcast_ref().map(Does::Several),
        None => instruction(&*node.primitive).map(Does::One),
    }
}

/// How many inputs of steps the node of step `m` makes.
fn uses(free: &Free, m: usize, by: impl Iterator<Item = usize>) -> usize {
    let made = |k: usize| free.steps[k].inputs().iter().filter(|a| free.steps[m].makes(a)).count();
    by.map(made).sum()
}

/// What comes before a choice, while it is put together.
struct Before<'a> {
    free: &'a Free<'a>,
    stream: Stream,
    shape: &'a [i64],
    /// Steps whose results others need.
    apart: &'a [usize],
    joined: Joined,
    element: Option<(&'a Array, At)>,
    /// Values of the outputs of each member.
    values: SmallVec<[SmallVec<[Src; 2]>; 8]>,
}

impl<'a> Before<'a> {
    /// The value of an array, which is found at `at`.
    fn value(&mut self, a: &'a Array, at: At) -> Option<Src> {
        let free = self.free;
        let making = |k: &usize| free.steps[*k].makes(a);
        let maker = if a.has_data() { None } else { (at.0.saturating_sub(REACH)..at.0).rev().find(making) };
        if let Some(m) = maker.filter(|m| !self.apart.contains(m))
            && let Some(node) = free.whole_node(m).filter(|n| n.stream == self.stream)
            && let Some(does) = does(node)
        {
            return self.made(a, m, node, does);
        }
        // Of one row, a correction may look like it.
        if a.shape() == self.shape && self.element.get_or_insert((a, at)).0.same(a) {
            return Some(Src::Input(0));
        }
        let (last, lead) = a.shape().split_last().map_or((1, &[][..]), |(n, lead)| (*n, lead));
        let columns = last == *self.shape.last()? && lead.iter().all(|&d| d == 1);
        let spread = if a.size() == 1 { Spread::Single } else { Spread::Columns };
        if a.size() == 1 || columns { self.joined.other(a, at, spread) } else { None }
    }

    /// The value of an array that step `m` makes.
    fn made(&mut self, a: &Array, m: usize, node: &'a Node, does: Does) -> Option<Src> {
        let outputs = self.free.array(m).outputs_of(node);
        let place = outputs.iter().position(|o| o.same(a))?;
        if let Some(k) = self.joined.members.iter().position(|&k| k == m) {
            return self.values[k].get(place).copied();
        }
        let args: Option<SmallVec<[Src; 4]>> =
            node.inputs.iter().enumerate().map(|(k, x)| self.value(x, (m, k))).collect();
        let values = self.joined.append(does, &args?, a.dtype());
        let value = values.get(place).copied();
        self.joined.members.push(m);
        self.values.push(values);
        value
    }
}

/// Steps that make what step `order` ranks and the numbers that step `take` reads, both from one row; where that row is.
pub(super) fn before(free: &Free, order: usize, take: usize, stream: Stream) -> Option<(Joined, At)> {
    let (ranked, numbers) = (&free.node(order)?.inputs[0], &free.node(take)?.inputs[0]);
    let mut apart: SmallVec<[usize; 4]> = SmallVec::new();
    for _ in 0..TRIES {
        let mut found = Before {
            free,
            stream,
            shape: ranked.shape(),
            apart: &apart,
            // The element's dtype is put right when it is known.
            joined: Joined::new(&[Dtype::F32]),
            element: None,
            values: SmallVec::new(),
        };
        let (key, number) = (found.value(ranked, (order, 0))?, found.value(numbers, (take, 0))?);
        let Before { mut joined, element, .. } = found;
        let others_need = |&m: &usize| {
            let by = joined.members.iter().copied().chain([order, take]);
            !free.only_used(m, uses(free, m, by))
        };
        let needed: SmallVec<[usize; 4]> = joined.members.iter().copied().filter(others_need).collect();
        if !needed.is_empty() {
            apart.extend(needed);
            continue;
        }
        let (row, at) = element?;
        joined.program.inputs[0] = row.dtype();
        // A kernel that takes no steps does as well.
        let plain = |p: &dyn Primitive| is(p, "negative") || is_stop_gradient(p);
        if joined.members.iter().all(|&m| free.node(m).is_some_and(|n| plain(&*n.primitive))) {
            return None;
        }
        let outputs = [key, number].map(|v| joined.register(v));
        joined.program.outputs = outputs.into_iter().collect();
        return suits(&joined.program).then_some((joined, at));
    }
    None
}

/// The steps of a program over rows that sums nothing but the rows of its input `row`, as steps over an element and the sum of its row.
fn unfolded(p: &RowProgram, row: u8, args: &[Src], joined: &mut Joined) -> Option<Src> {
    let mut values: SmallVec<[Src; 8]> = SmallVec::new();
    for i in &p.instrs {
        let value = |s: &Src| match *s {
            Src::Input(k) => args[k as usize],
            Src::Reg(r) => values[r as usize],
            Src::Const(..) => *s,
        };
        let made = match i.op {
            RowInst::Fold(ReduceOp::Sum) if i.args[0] == Src::Input(row) => Src::Input(1),
            RowInst::Fold(_) => return None,
            RowInst::Each(op) => {
                let args: SmallVec<[Src; 3]> = i.args.iter().map(value).collect();
                joined.append(Does::One(op), &args, i.dtype)[0]
            }
        };
        values.push(made);
    }
    match p.outputs[..] {
        [out] if !p.instrs[out as usize].row => Some(values[out as usize]),
        _ => None,
    }
}

/// What follows chosen numbers, while it is put together.
struct Behind<'a> {
    free: &'a Free<'a>,
    stream: Stream,
    order: usize,
    taken: &'a Array,
    joined: Joined,
    /// Arrays that have a value, by their steps, the chosen numbers first.
    values: SmallVec<[(usize, Src); 8]>,
}

impl<'a> Behind<'a> {
    fn known(&self, a: &Array) -> Option<Src> {
        self.values.iter().find(|v| self.free.array(v.0).same(a)).map(|v| v.1)
    }

    /// The value of step `j`, if it reads one, and nothing else but single numbers.
    fn value(&mut self, j: usize) -> Option<Src> {
        let free = self.free;
        let node = free.node(j).filter(|n| n.stream == self.stream)?;
        let known = node.inputs.iter().find_map(|a| self.known(a))?;
        let last = self.taken.ndim() - 1;
        if sums_along(&*node.primitive) == Some((last, true)) {
            return (known == Src::Input(0) && node.inputs[0].same(self.taken)).then_some(Src::Input(1));
        }
        let shape = free.array(j).shape();
        let row =
            || shape.split_last().is_some_and(|(&n, lead)| n == 1 && *lead == self.taken.shape()[..last]);
        let whole = shape == self.taken.shape();
        // The sum, for each of the numbers.
        if is_broadcast(&*node.primitive) {
            return (known == Src::Input(1) && (whole || row())).then_some(known);
        }
        if !whole && !row() {
            return None;
        }
        let mut args: SmallVec<[Src; 4]> = SmallVec::new();
        for (k, a) in node.inputs.iter().enumerate() {
            args.push(match self.known(a) {
                Some(v) => v,
                None if a.size() == 1 && self.is_early(a, j) => {
                    self.joined.other(a, (j, k), Spread::Single)?
                }
                None => return None,
            });
        }
        if let Some(p) = primitive::<Fused>(node).and_then(Fused::rows) {
            let row = args.iter().position(|&a| a == Src::Input(0))? as u8;
            return unfolded(p, row, &args, &mut self.joined);
        }
        match does(node)? {
            Does::Several(p) if p.outputs.len() != 1 => None,
            does => Some(self.joined.append(does, &args, free.array(j).dtype())[0]),
        }
    }

    /// Whether an array that step `j` reads is there before rows are put in order, so that nobody waits longer for places.
    fn is_early(&self, a: &Array, j: usize) -> bool {
        a.has_data() || !(self.order..j).any(|k| self.free.steps[k].makes(a))
    }

    /// Whether nobody needs what comes before the last value.
    fn is_closed(&self) -> bool {
        let steps = || self.values.iter().map(|v| v.0);
        let earlier = &self.values[..self.values.len() - 1];
        earlier.iter().all(|v| self.free.only_used(v.0, uses(self.free, v.0, steps().skip(1))))
    }
}

/// Whether all that a program does is to divide its first input by the second.
pub(super) fn divides(p: &Program) -> bool {
    let by = [Src::Input(0), Src::Input(1)];
    matches!(&p.instrs[..], [i] if is_divide(i.op) && i.args[..] == by && i.dtype == p.inputs[0])
}

fn is_divide(op: Inst) -> bool {
    op == Inst::Op(table::op("divide"))
}

/// Steps behind the numbers that step `take` takes by the order of step `order`, the result last; with `plain`, no others than a
/// division by their sum.
pub(super) fn behind(free: &Free, [order, take]: [usize; 2], plain: bool, stream: Stream) -> Option<Joined> {
    let taken = free.array(take);
    let joined = Joined::new(&[taken.dtype(), taken.dtype()]);
    let mut found = Behind { free, stream, order, taken, joined, values: smallvec![(take, Src::Input(0))] };
    // How much of all that makes a result.
    let mut whole: Option<(usize, [usize; 3], u8)> = None;
    for j in free.following(take, REACH) {
        let (instrs, others) = (found.joined.program.instrs.len(), found.joined.others.len());
        let Some(value) = found.value(j) else {
            found.joined.program.instrs.truncate(instrs);
            found.joined.program.inputs.truncate(2 + others);
            found.joined.others.truncate(others);
            continue;
        };
        found.values.push((j, value));
        let float = matches!(free.array(j).dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16);
        let Src::Reg(r) = value else { continue };
        if float
            && free.array(j).shape() == taken.shape()
            && suits(&found.joined.program)
            && (!plain || divides(&found.joined.program))
            && found.is_closed()
        {
            let p = &found.joined.program;
            whole =
                Some((found.values.len(), [p.instrs.len(), p.inputs.len(), found.joined.others.len()], r));
        }
    }
    let (values, [instrs, inputs, others], r) = whole?;
    let Behind { mut joined, values: all, .. } = found;
    joined.program.instrs.truncate(instrs);
    joined.program.inputs.truncate(inputs);
    joined.others.truncate(others);
    joined.program.outputs = smallvec![r];
    joined.members = all[1..values].iter().map(|v| v.0).collect();
    Some(joined)
}
