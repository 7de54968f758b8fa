//! The order in which `eval` runs a graph: level by level where it is narrow, else depth first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::Array;
use crate::core::array::Node;

/// An array that `eval` has to compute, and how; no node where nothing can make it.
pub(crate) struct Step {
    pub array: Array,
    pub node: Option<Arc<Node>>,
    /// Handles to the array, and to the others that its node makes, when the walk came by, the step's own among them: what is joined does not depend on
    /// when somebody lets go of one.
    pub handles: usize,
    /// Whether the node has other outputs beside the array.
    pub has_siblings: bool,
}

/// How many steps ahead of the one that is looked at memory of nodes is asked for, and that of what they read, which is found
/// by them.
const AHEAD: [usize; 2] = [16, 12];

impl Step {
    /// What the step reads.
    pub fn inputs(&self) -> &[Array] {
        self.node.as_ref().map_or(&[], |n| &n.inputs)
    }

    /// Asks for memory of the steps behind the one that is looked at, which another thread may have written last; `ahead`
    /// gives the one so many steps on.
    pub fn ask_ahead<'a>(ahead: impl Fn(usize) -> Option<&'a Step>) {
        if let Some(Step { array, node, .. }) = ahead(AHEAD[0]) {
            array.ask_for();
            node.iter().for_each(Node::ask_for);
        }
        ahead(AHEAD[1]).into_iter().flat_map(Step::inputs).for_each(Array::ask_for);
    }

    fn new(array: Array, node: Option<Arc<Node>>) -> Step {
        let handles = node.as_ref().map_or_else(|| array.handles(), |n| array.handles_of(n));
        let has_siblings = node.as_ref().is_some_and(|n| n.has_siblings());
        Step { array, node, handles, has_siblings }
    }

    /// Whether an array gets its value here, be it not the one that the walk came by.
    pub fn makes(&self, a: &Array) -> bool {
        self.array.same(a) || self.has_siblings && self.node.as_ref().is_some_and(|n| n.is_sibling(a))
    }
}

/// Widest graph that is walked level by level: what does not depend on each other stands side by side then and needs
/// one barrier together. In a wider graph far more arrays would be alive at a time.
const WIDTH: u32 = 20;
/// Bytes of arrays that many of may be alive at a time, and how many of them count as one: a model's layers have an offset
/// each, which nothing else comes before.
const LIGHT: usize = 1024;
/// See [`LIGHT`].
const LIGHT_ONES: u32 = 16;
/// Bytes of arrays that depend on nothing of the graph and do not count, each of them and all together: weights of norms with one added, six
/// of each layer, make no graph wide.
const SMALL: usize = 64 << 10;
/// See [`SMALL`].
const SMALL_ONES: usize = 64 << 20;

/// A node whose inputs are being looked at.
struct Visit {
    array: Array,
    node: Arc<Node>,
    next: usize,
    level: u32,
}

/// Steps in the order of a walk, and how many there are of each level.
#[derive(Default)]
struct Walk {
    number: u64,
    stack: Vec<Visit>,
    steps: Vec<Step>,
    levels: Vec<u32>,
    widths: Vec<u32>,
    /// What the arrays of each level count for, in parts of [`LIGHT_ONES`].
    weights: Vec<u32>,
    /// Views of arrays that are there, on the first level: no kernel runs for them.
    views: u32,
    /// Bytes of small arrays there.
    small: usize,
    /// The order stays that of the walk.
    wide: bool,
}

impl Walk {
    /// Goes on with an array that has no level yet.
    fn enter(&mut self, array: Array, node: Option<Arc<Node>>) {
        array.set_level(self.number, 0);
        match node {
            Some(node) => {
                node.inputs.iter().for_each(Array::ask_for);
                self.stack.push(Visit { array, node, next: 0, level: 0 });
            }
            None => {
                self.wide = true;
                self.steps.push(Step::new(array, node));
            }
        }
    }

    fn leave(&mut self, visit: Visit) {
        let Visit { array, node, level, .. } = visit;
        array.set_level(self.number, level);
        if node.has_siblings() {
            array.outputs_of(&node).iter().for_each(|o| o.set_level(self.number, level));
        }
        if let Some(above) = self.stack.last_mut() {
            above.level = above.level.max(level + 1);
        }
        if !self.wide {
            let at = level as usize;
            if self.widths.len() <= at {
                self.widths.resize(at + 1, 0);
                self.weights.resize(at + 1, 0);
            }
            self.widths[at] += 1;
            self.views += u32::from(at == 0 && node.primitive.is_view());
            let of = node.inputs.first().map(Array::shape);
            // Views take no memory: each layer may have one of the mask, each sequence its row of the results.
            self.weights[at] += match array.nbytes() {
                _ if of.is_some_and(|of| node.primitive.is_view_of(of, array.shape())) => 0,
                bytes if at == 0 && bytes <= SMALL && !node.has_siblings() => {
                    self.small += bytes;
                    0
                }
                ..=LIGHT if !node.has_siblings() => 1,
                _ => LIGHT_ONES,
            };
            self.wide = self.weights[at] > WIDTH * LIGHT_ONES
                || self.small > SMALL_ONES
                || level >= Array::LAST_LEVEL;
            self.levels.push(level);
        }
        self.steps.push(Step::new(array, Some(node)));
    }

    fn by_level(self) -> Vec<Step> {
        let mut starts: Vec<usize> = self
            .widths
            .iter()
            .scan(0, |at, &w| {
                let start = *at;
                *at += w as usize;
                Some(start)
            })
            .collect();
        let mut sorted: Vec<Option<Step>> = Vec::new();
        sorted.resize_with(self.steps.len(), || None);
        // On the first level views come first: what patterns look for among neighbours stands together.
        let mut view = 0;
        if let Some(first) = starts.first_mut() {
            *first += self.views as usize;
        }
        for (step, level) in self.steps.into_iter().zip(self.levels) {
            let is_view = level == 0 && step.node.as_ref().is_some_and(|n| n.primitive.is_view());
            let at = if is_view { &mut view } else { &mut starts[level as usize] };
            sorted[*at] = Some(step);
            *at += 1;
        }
        sorted.into_iter().flatten().collect()
    }
}

/// What `roots` still need. One caller at a time: the walk marks the arrays.
pub(crate) fn steps(roots: &[Array]) -> Vec<Step> {
    static WALKS: AtomicU64 = AtomicU64::new(1);
    let mut walk = Walk { number: WALKS.fetch_add(1, Ordering::Relaxed), ..Walk::default() };
    for root in roots {
        if root.level(walk.number).is_some() {
            continue;
        }
        let Some(node) = root.unscheduled() else { continue };
        walk.enter(root.clone(), node);
        while let Some(visit) = walk.stack.last_mut() {
            let Some(input) = visit.node.inputs.get(visit.next) else {
                // INVARIANT: the loop condition saw this entry.
                let visit = walk.stack.pop().expect("non-empty stack");
                walk.leave(visit);
                continue;
            };
            visit.next += 1;
            if let Some(level) = input.level(walk.number) {
                visit.level = visit.level.max(level + 1);
            } else if let Some(node) = input.unscheduled() {
                let input = input.clone();
                walk.enter(input, node);
            }
        }
    }
    if walk.wide || walk.levels.is_sorted() { walk.steps } else { walk.by_level() }
}
