//! Steps of an evaluation that one GPU kernel computes together. A token of a language model is hundreds of short
//! kernels that wait for each other; here those of them are found that need not be kernels of their own. Arrays in
//! between that nobody else holds are never written.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Index;
use std::sync::Arc;

use smallvec::SmallVec;

use super::EVALUATED;
use super::alike::Alike;
use crate::core::array::Node;
use crate::core::{Array, Event, Primitive, Result, Stream};
use crate::graph::levels::Step;
use crate::kernels::elementwise::program::Inst;
use crate::ops::elementwise::{instruction, is_elementwise};
use crate::ops::view::transposed;

/// Steps around one that are looked at: the order is by levels, so that what belongs together is near.
pub(super) const REACH: usize = 12;

/// Some steps that run as one.
pub(crate) struct Join {
    /// The one of them in whose place they run; what they read is there by then.
    pub at: usize,
    /// All of them.
    pub members: SmallVec<[usize; 8]>,
    /// Those of which the arrays get values, in the order of the kernel's results.
    pub results: SmallVec<[usize; 3]>,
    pub(super) work: Box<dyn Work>,
}

/// How the kernel of some steps is recorded; each pattern has its own.
pub(super) trait Work: Send {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()>;
}

/// A kind of kernel that steps of an evaluation can be together: the join that begins with a step of a GPU stream, if
/// there is one.
pub(super) type Pattern = fn(&Free, usize, Stream) -> Option<Join>;

impl Join {
    /// Records the kernel.
    pub fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        self.work.run(stream, members, results)
    }
}

/// A step that is joined, and its number.
pub(crate) struct Member {
    step: usize,
    pub array: Array,
    pub node: Arc<Node>,
}

/// The steps of a join.
pub(crate) struct Members {
    pub all: SmallVec<[Member; 8]>,
}

impl Members {
    /// Takes them from the others.
    pub fn take(join: &Join, steps: &mut [Option<Step>]) -> Members {
        let member = |&step: &usize| {
            let Step { array, node, .. } = steps[step].take()?;
            Some(Member { step, array, node: node? })
        };
        Members { all: join.members.iter().filter_map(member).collect() }
    }

    fn place(&self, step: usize) -> usize {
        // INVARIANT: joins name their own members only.
        self.all.iter().position(|m| m.step == step).expect("a member")
    }

    /// The member that was this step.
    pub fn at(&mut self, step: usize) -> &mut Member {
        let place = self.place(step);
        &mut self.all[place]
    }
}

/// The node of a member, by the number of its step.
impl Index<usize> for Members {
    type Output = Node;
    fn index(&self, step: usize) -> &Node {
        &self.all[self.place(step)].node
    }
}

/// The primitive of a node, if it is a `P`.
pub(super) fn primitive<P: Primitive>(node: &Node) -> Option<&P> {
    (&*node.primitive as &dyn Any).downcast_ref()
}

/// What becomes of a step.
pub(crate) enum Role {
    /// It runs by itself.
    Alone,
    /// It is part of steps that run elsewhere in the order.
    Member,
    /// These run now.
    Place(Join),
}

/// Which steps are joined.
#[derive(Default)]
pub(crate) struct Plan {
    joins: Vec<Option<Join>>,
    /// The number of each step's join, from 1 on; 0 for none. Empty where nothing is joined.
    of: Vec<u32>,
    /// Steps whose arrays are there only in the turn of a later one.
    late: Vec<(usize, usize)>,
}

impl Plan {
    /// Notes steps that are joined.
    fn add(&mut self, join: Join) {
        let number = self.joins.len() as u32 + 1;
        join.members.iter().for_each(|&m| self.of[m] = number);
        self.late.extend(join.results.iter().filter(|&&r| r < join.at).map(|&r| (r, join.at)));
        self.joins.push(Some(join));
    }

    /// Whether the array of a step gets no value, because a join leaves it out.
    pub fn leaves_out(&self, step: usize) -> bool {
        let join = self.of.get(step).and_then(|n| n.checked_sub(1)).map(|n| &self.joins[n as usize]);
        matches!(join, Some(Some(join)) if !join.results.contains(&step))
    }

    /// What to do in the turn of a step; each is asked for once.
    pub fn role(&mut self, step: usize) -> Role {
        let Some(number) = self.of.get(step).and_then(|n| n.checked_sub(1)) else { return Role::Alone };
        match self.joins.get_mut(number as usize).and_then(|j| j.take_if(|j| j.at == step)) {
            Some(join) => Role::Place(join),
            None => Role::Member,
        }
    }
}

/// Steps that are still free to be joined.
pub(super) struct Free<'a> {
    pub steps: &'a [Step],
    of: &'a [u32],
    late: &'a [(usize, usize)],
    /// Steps that are transposed views of arrays which are there, by the view.
    views: &'a OnceCell<HashMap<u64, usize>>,
    /// What arrays of these steps wait for already.
    own: Option<&'a Arc<Event>>,
}

impl<'a> Free<'a> {
    /// The array that `view` is a transposition of, where that one is there or was found among the steps.
    pub fn transposed(&self, view: &Array) -> Option<&'a Array> {
        let all = self.views.get_or_init(|| {
            let there = |n: &Arc<Node>| transposed(&*n.primitive).is_some() && self.is_there(&n.inputs[0]);
            let is = |(_, step): &(usize, &Step)| step.node.as_ref().is_some_and(there);
            self.steps.iter().enumerate().filter(is).map(|(i, step)| (step.array.id(), i)).collect()
        });
        let node = self.steps[*all.get(&view.id())?].node.as_ref()?;
        (transposed(&*node.primitive)? == [1, 0]).then(|| &node.inputs[0])
    }

    /// Whether an array is there that no step makes. What the recorder is still to reach is waited for: how much it has
    /// done must not decide.
    pub fn is_there(&self, a: &Array) -> bool {
        match self.own {
            Some(own) if a.awaits(own) => false,
            own if a.awaits_besides(own) => a.wait_event().is_ok() && a.has_data(),
            _ => a.has_data(),
        }
    }

    /// Whether no step makes an array: it is there, or will be before these steps run.
    pub fn is_from_before(&self, a: &Array) -> bool {
        match self.own {
            Some(own) if a.awaits(own) => false,
            own => a.awaits_besides(own) || a.has_data(),
        }
    }

    pub fn array(&self, i: usize) -> &'a Array {
        &self.steps[i].array
    }

    /// The node of a step that may be joined: it is free, and has one output.
    pub fn node(&self, i: usize) -> Option<&'a Arc<Node>> {
        let step = &self.steps[i];
        if self.of[i] > 0 || step.has_siblings { None } else { step.node.as_ref() }
    }

    /// The same of a step that may have several outputs: it makes none of them where it is joined.
    pub fn whole_node(&self, i: usize) -> Option<&'a Arc<Node>> {
        self.steps[i].node.as_ref().filter(|_| self.of[i] == 0)
    }

    /// The primitive of a step on a stream, if it is a `P`.
    pub fn primitive<P: Primitive>(&self, i: usize, stream: Stream) -> Option<(&'a P, &'a [Array])> {
        let node = self.node(i)?;
        let p = primitive(node)?;
        (node.stream == stream).then_some((p, &node.inputs))
    }

    /// The step shortly before `i` that makes an array.
    pub fn maker(&self, i: usize, array: &Array) -> Option<usize> {
        self.maker_within(i, array, REACH)
    }

    /// The same among so many steps before `i`.
    pub fn maker_within(&self, i: usize, array: &Array, reach: usize) -> Option<usize> {
        (i.saturating_sub(reach)..i).rev().find(|&k| self.array(k).same(array))
    }

    /// The steps shortly behind `i`.
    pub fn behind(&self, i: usize) -> std::ops::Range<usize> {
        self.following(i, REACH)
    }

    /// So many steps behind `i`.
    pub fn following(&self, i: usize, reach: usize) -> std::ops::Range<usize> {
        i + 1..self.steps.len().min(i + 1 + reach)
    }

    /// Where steps are joined: as early as what they read is there, since what they give may be read soon. None
    /// where somebody else would read a result before it is there.
    pub fn place(&self, members: &[usize], results: &[usize]) -> Option<usize> {
        let reads = |k: usize| self.steps[k].node.as_ref().map_or(&[][..], |n| &n.inputs);
        let takes_result = |k: usize| reads(k).iter().any(|a| results.iter().any(|&r| self.array(r).same(a)));
        // The first turn in which all that members read is there.
        let mut ready = members.iter().copied().min()?;
        for &m in members {
            let takes = |k: usize| reads(m).iter().any(|a| self.steps[k].makes(a));
            let made = (ready..m).rev().find(|&k| !members.contains(&k) && takes(k));
            ready = made.map_or(ready, |k| k + 1);
            let late = self.late.iter().rev().take(REACH).filter(|l| l.1 > ready && takes(l.0));
            ready = late.map(|l| l.1).max().unwrap_or(ready);
        }
        let at = members.iter().copied().filter(|&m| m >= ready).min()?;
        let from = results.iter().copied().min()?;
        let early = (from..at).any(|k| !members.contains(&k) && takes_result(k));
        (!early).then_some(at)
    }

    /// The step that alone reads the array of step `i`.
    pub fn reader(&self, i: usize, stream: Stream) -> Option<usize> {
        self.reader_within(i, stream, REACH)
    }

    /// The same among so many steps behind `i`.
    pub fn reader_within(&self, i: usize, stream: Stream, reach: usize) -> Option<usize> {
        self.only_used(i, 1).then(|| self.first_reader(i, stream, reach)).flatten()
    }

    /// The first of so many steps behind `i` that reads its array.
    pub fn first_reader(&self, i: usize, stream: Stream, reach: usize) -> Option<usize> {
        let reads = |j: &usize| {
            let node = self.node(*j).filter(|n| n.stream == stream);
            node.is_some_and(|n| n.inputs.iter().any(|a| a.same(self.array(i))))
        };
        self.following(i, reach).find(reads)
    }

    /// The step that alone reads the array of step `i` and adds another one to it, and which of its inputs that is.
    pub fn sum(&self, i: usize, stream: Stream) -> Option<(usize, usize)> {
        let sum = self.reader(i, stream)?;
        let node = self.node(sum)?;
        let Inst::Op(op) = instruction(&*node.primitive)? else { return None };
        let other = node.inputs.iter().position(|a| !a.same(self.array(i)))?;
        (op.row().name == "add").then_some((sum, other))
    }

    /// How many hold the array of step `i`, or others that its node makes: those who read it, and callers.
    pub fn users(&self, i: usize) -> usize {
        self.steps[i].handles - 1
    }

    /// Whether nobody holds the array of step `i`, or others that its node makes, but `uses` of the steps to be joined.
    pub fn only_used(&self, i: usize, uses: usize) -> bool {
        self.users(i) == uses
    }
}

/// Finds what can be joined; `own` is the event of these steps, if their arrays have one.
pub(crate) fn plan(steps: &[Step], own: Option<&Arc<Event>>) -> Plan {
    let (mut plan, views, mut alike) = (Plan::default(), OnceCell::new(), Alike::default());
    for (i, step) in steps.iter().enumerate() {
        Step::ask_ahead(|n| steps.get(i + n));
        let Some(node) = &step.node else { break };
        if !node.primitive.may_join() || !node.stream.device.is_gpu() {
            continue;
        }
        if plan.of.is_empty() {
            plan.of = vec![0; steps.len()];
        }
        let free = Free { steps, of: &plan.of, late: &plan.late, views: &views, own };
        if is_elementwise(&*node.primitive) {
            alike.meet(&free, i);
            continue;
        }
        if let Some(join) = EVALUATED.iter().find_map(|find| find(&free, i, node.stream)) {
            plan.add(join);
        }
    }
    alike.joins(|i| plan.of[i] == 0).into_iter().for_each(|join| plan.add(join));
    plan
}
