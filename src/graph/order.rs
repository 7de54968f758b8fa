//! Orders of a graph's nodes in which inputs come first. Walks are loops.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::core::Array;
use crate::core::array::Node;
use crate::core::primitive::Rule;

/// Node ids are already well spread.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

pub(crate) type IdSet = HashSet<u64, BuildHasherDefault<IdHasher>>;
pub(crate) type IdMap<V> = HashMap<u64, V, BuildHasherDefault<IdHasher>>;

/// Arrays in an order in which inputs come first. `stop` says where not to look further.
pub(crate) fn postorder(roots: &[Array], stop: impl Fn(&Array) -> bool) -> Vec<Array> {
    let mut seen = IdSet::default();
    let mut order = Vec::new();
    let mut stack: Vec<(Array, Arc<Node>, usize)> = Vec::new();
    for root in roots {
        if stop(root) || !seen.insert(root.id()) {
            continue;
        }
        match root.node() {
            Some(node) => stack.push((root.clone(), node, 0)),
            None => order.push(root.clone()),
        }
        while let Some((_, node, next)) = stack.last_mut() {
            match node.inputs.get(*next) {
                Some(input) => {
                    *next += 1;
                    if !stop(input) && seen.insert(input.id()) {
                        let input = input.clone();
                        match input.node() {
                            Some(n) => stack.push((input, n, 0)),
                            None => order.push(input),
                        }
                    }
                }
                None => {
                    // INVARIANT: the loop condition saw this entry.
                    let (array, node, _) = stack.pop().expect("non-empty stack");
                    if node.has_siblings() {
                        seen.extend(array.outputs_of(&node).iter().map(Array::id));
                    }
                    order.push(array);
                }
            }
        }
    }
    order
}

/// Ids of the arrays that a transform by `rule` needs for `outputs`: what lies behind inputs that a primitive passes
/// over is left out. `order` has inputs first.
pub(crate) fn needed<'a>(
    order: impl DoubleEndedIterator<Item = (&'a Array, &'a Arc<Node>)>,
    outputs: &[Array],
    rule: Rule,
) -> IdSet {
    let mut ids: IdSet = outputs.iter().map(Array::id).collect();
    for (array, node) in order.rev() {
        if node.has_siblings() {
            let outs = array.outputs_of(node);
            if !outs.iter().any(|o| ids.contains(&o.id())) {
                continue;
            }
            ids.insert(array.id());
        } else if !ids.contains(&array.id()) {
            continue;
        }
        let inputs = node.inputs.iter().enumerate();
        ids.extend(inputs.filter(|&(i, _)| !node.primitive.passes_over(rule, i)).map(|(_, a)| a.id()));
    }
    ids
}
