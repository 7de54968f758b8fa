//! Fusion of recorded functions: a tape with what patterns ask about it, what a pattern is, and the tape that has kernels
//! in place of the groups of steps that `groups` found. Intermediate results that others need become further outputs of
//! a kernel.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::RECORDED;
use super::elementwise::elementwise;
use super::fused::{Code, Fused};
use super::groups::Groups;
use crate::core::PrimitiveRef;
use crate::graph::tape::{Spec, Step, Tape, Value, spec};
use crate::kernels::elementwise::program::{Inst, Src};
use crate::ops::elementwise::scalar_bits;
use crate::ops::view::is_broadcast;

/// Arrays that a kernel takes: their addresses must fit into the push constants.
pub(super) const MAX_ARRAYS: usize = 11;
/// Instructions of a kernel.
pub(super) const MAX_INSTRS: usize = 96;
/// Library functions of a kernel, in the unit of `Row::code_size`: ten sines, say. A driver that compiles a
/// second for ten needs minutes for fifty, and so many are bound by arithmetic, not by memory.
const MAX_CODE: usize = 40;

/// A kind of kernel that steps of a recorded function can be together. Groups grow step by step while one of the patterns
/// has a kernel for them, and then take in what else their kernel can do.
pub(super) trait Pattern: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whether a step, of one output, can be a member of a group that grows.
    fn joins(&self, _: &Graph, _: &Step) -> bool {
        false
    }

    /// Whether steps on one stream that [`joins`](Self::joins) let in can be one kernel.
    fn fits(&self, _: &Graph, _: &[usize]) -> bool {
        false
    }

    /// Steps before a group that has grown which its kernel can do too; nobody else reads them.
    fn takes_in(&self, _: &Graph, _: &[usize]) -> SmallVec<[usize; 2]> {
        SmallVec::new()
    }

    /// The kernel of a group, in order; none where the group is of another pattern.
    fn kernel(&self, graph: &Graph, members: &[usize]) -> Option<Kernel>;
}

/// The kernel of a group: the arrays it reads, the members whose results it stores, and how it runs.
pub(super) struct Kernel {
    pub reads: Vec<Value>,
    pub stored: Vec<usize>,
    pub code: Box<dyn Code>,
}

/// A tape with what fusion asks about it.
pub(super) struct Graph<'a> {
    pub(super) tape: &'a Tape,
    maker: Vec<Option<(usize, usize)>>,
    /// Steps that read each value; the number of steps stands for the caller.
    readers: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(tape: &'a Tape) -> Self {
        let mut readers = vec![Vec::new(); tape.temps];
        let returned = tape.outputs.iter().map(|v| (tape.steps.len(), v));
        let read = tape.steps.iter().enumerate().flat_map(|(k, s)| s.args.iter().map(move |v| (k, v)));
        for (k, v) in read.chain(returned) {
            if let Value::Temp(t) = v {
                readers[*t].push(k);
            }
        }
        Graph { tape, maker: tape.makers(), readers }
    }

    /// The step that makes a value.
    pub(super) fn maker(&self, v: &Value) -> Option<usize> {
        match v {
            Value::Temp(t) => self.maker[*t].map(|m| m.0),
            _ => None,
        }
    }

    /// What an instruction of a kernel of these members has for a value that is no array there: the result of another
    /// one, or, where `numbers` may stand in the program, a number.
    pub(super) fn within(&self, v: &Value, members: &[usize], numbers: bool) -> Option<Src> {
        if let Some(k) = self.maker(v).and_then(|p| members.iter().position(|&m| m == p)) {
            return Some(Src::Reg(k as u8));
        }
        match v {
            Value::Const(a) if numbers => scalar_bits(a).map(|bits| Src::Const(bits, a.dtype())),
            Value::Const(_) | Value::Input(_) | Value::Temp(_) => None,
        }
    }

    /// What the steps add to the code of a kernel.
    pub(super) fn code(&self, members: &[usize]) -> usize {
        let one = |&m: &usize| match (elementwise(&self.tape.steps[m]), self.tape.steps[m].args.last()) {
            (Some(Inst::Op(op)), Some(arg)) => op.row().code_size(self.spec(arg).1),
            _ => 0,
        };
        members.iter().map(one).sum()
    }

    pub(super) fn producers(&self, s: usize) -> impl Iterator<Item = usize> + '_ {
        self.tape.steps[s].args.iter().filter_map(|v| self.maker(v))
    }

    pub(super) fn spec(&self, v: &Value) -> Spec {
        match v {
            Value::Input(i) => self.tape.inputs[*i].clone(),
            Value::Const(a) => spec(a),
            Value::Temp(t) => {
                // INVARIANT: a value that is read is made by a step.
                let (s, k) = self.maker[*t].expect("a made value");
                self.tape.steps[s].specs[k].clone()
            }
        }
    }

    /// Steps that read what a step makes; the number of steps stands for the caller.
    pub(super) fn readers_of(&self, s: usize) -> impl Iterator<Item = usize> + '_ {
        self.tape.steps[s].outs.iter().flat_map(|&t| self.readers[t].iter().copied())
    }

    /// Whether a member's result is needed outside of the group.
    pub(super) fn leaves(&self, s: usize, members: &[usize]) -> bool {
        self.readers[self.tape.steps[s].outs[0]].iter().any(|u| !members.contains(u))
    }

    /// Whether a step may be a member of a group.
    pub(super) fn joins(&self, step: &Step) -> bool {
        step.specs.len() == 1 && RECORDED.iter().any(|p| p.joins(self, step))
    }

    /// Whether steps can be one kernel.
    pub(super) fn fits(&self, members: &[usize]) -> bool {
        let stream = |m: usize| self.tape.steps[m].stream;
        members.len() <= MAX_INSTRS
            && members.iter().all(|&m| stream(m) == stream(members[0]))
            && self.code(members) <= MAX_CODE
            && RECORDED.iter().any(|p| p.fits(self, members))
            && self.arrays(members) <= MAX_ARRAYS
    }

    /// How many distinct arrays a group reads and writes.
    fn arrays(&self, members: &[usize]) -> usize {
        let mut read: Vec<&Value> = Vec::new();
        for v in members.iter().flat_map(|&m| &self.tape.steps[m].args) {
            let inside = self.maker(v).is_some_and(|k| members.contains(&k));
            let number = matches!(v, Value::Const(a) if scalar_bits(a).is_some());
            if !inside && !number && !read.iter().any(|r| r.same(v)) {
                read.push(v);
            }
        }
        read.len() + members.iter().filter(|&&m| self.leaves(m, members)).count()
    }
}

/// A group as a tape of its own, for the transforms.
fn part(graph: &Graph, members: &[usize], reads: &[Value], stored: &[usize]) -> Tape {
    let number = |m: usize| members.iter().position(|&x| x == m);
    let steps = members.iter().enumerate().map(|(i, &m)| {
        let mut step = graph.tape.steps[m].clone();
        step.outs = vec![i];
        for v in &mut step.args {
            if let Some(t) = graph.maker(v).and_then(number) {
                *v = Value::Temp(t);
            } else if let Some(i) = reads.iter().position(|r| r.same(v)) {
                *v = Value::Input(i);
            }
        }
        step
    });
    Tape {
        inputs: reads.iter().map(|v| graph.spec(v)).collect(),
        steps: steps.collect(),
        outputs: stored.iter().filter_map(|&m| number(m)).map(Value::Temp).collect(),
        temps: members.len(),
    }
}

/// Lets elementwise steps read what a broadcast reads: kernels broadcast as they load. Comes before [`fuse`]; broadcasts
/// that nobody needs any more are still there.
pub(crate) fn through_broadcasts(tape: &mut Tape) {
    let mut source: HashMap<usize, Value> = HashMap::new();
    for step in &mut tape.steps {
        // With one operand the broadcast gives the result its shape.
        if step.args.len() > 1 && elementwise(step).is_some() {
            for v in &mut step.args {
                if let Value::Temp(t) = v
                    && let Some(from) = source.get(t)
                {
                    *v = from.clone();
                }
            }
        }
        if is_broadcast(&*step.primitive) {
            source.insert(step.outs[0], step.args[0].clone());
        }
    }
}

/// The tape with fused kernels in place of groups of steps.
pub(crate) fn fuse(tape: &Tape) -> Tape {
    let graph = Graph::new(tape);
    let groups = Groups::build(&graph);
    let mut emitted: Vec<bool> = vec![false; tape.steps.len()];
    let mut steps = Vec::with_capacity(tape.steps.len());
    for s in 0..tape.steps.len() {
        // Depth first by an explicit stack: a unit comes after all that it reads.
        let mut stack = vec![(groups.unit(s), false)];
        while let Some((members, ready)) = stack.pop() {
            if emitted[members[0]] {
                continue;
            }
            if !ready {
                let needs = members.iter().flat_map(|&m| graph.producers(m));
                let mut missing: Vec<usize> =
                    needs.filter(|k| !emitted[*k] && !members.contains(k)).collect();
                missing.sort_unstable();
                missing.dedup();
                stack.push((members, true));
                stack.extend(missing.into_iter().map(|k| (groups.unit(k), false)));
                continue;
            }
            members.iter().for_each(|&m| emitted[m] = true);
            let step = &tape.steps[members[0]];
            if members.len() == 1 {
                steps.push(step.clone());
                continue;
            }
            // INVARIANT: a group has grown only where a pattern has its kernel.
            let made = RECORDED.iter().find_map(|p| Some((p.name(), p.kernel(&graph, members)?)));
            let (pattern, Kernel { reads, stored, code }) = made.expect("a kernel");
            let inner = part(&graph, members, &reads, &stored);
            steps.push(Step {
                stream: step.stream,
                specs: stored.iter().map(|&m| tape.steps[m].specs[0].clone()).collect(),
                outs: stored.iter().map(|&m| tape.steps[m].outs[0]).collect(),
                args: reads,
                primitive: PrimitiveRef::new(Fused::new(pattern, code, inner)),
            });
        }
    }
    Tape { inputs: tape.inputs.clone(), steps, outputs: tape.outputs.clone(), temps: tape.temps }
}
