//! Which steps become one kernel. Groups grow step by step: a step is joined to the groups that make its arguments, one
//! by one, where they fit one kernel and no path leads from one through something outside into the other.
//!
//! Whether there is such a path is asked once for each join, so groups are kept in an order in which all that a group
//! reads comes before it, and a search looks only at what lies between the two (D. J. Pearce and P. H. J. Kelly, "A
//! dynamic topological sort algorithm for directed acyclic graphs", 2007). A search that goes too far gives up: time
//! stays linear in the size of the graph.

use smallvec::{SmallVec, smallvec};

use super::RECORDED;
use super::recorded::{Graph, MAX_INSTRS};

/// Reads between groups that a search follows at most.
const FAR: usize = 4096;

/// Groups of steps while they grow. Each step begins as a group of its own; the number of a group is that of its first
/// step, and one that was joined to another keeps its number as a second name.
pub(super) struct Groups<'a> {
    graph: &'a Graph<'a>,
    /// Steps in order; none where the group is part of another.
    members: Vec<SmallVec<[usize; 2]>>,
    parent: Vec<usize>,
    /// Where the group stands in an order in which what it reads comes first.
    place: Vec<usize>,
    /// The search that saw the group last.
    seen: Vec<usize>,
    searches: usize,
}

/// The groups between two that shall be joined: those that the later one needs, and those that need the earlier one.
struct Between {
    before: Vec<usize>,
    after: Vec<usize>,
}

impl<'a> Groups<'a> {
    pub fn build(graph: &'a Graph<'a>) -> Groups<'a> {
        let n = graph.tape.steps.len();
        let mut groups = Groups {
            graph,
            members: (0..n).map(|s| smallvec![s]).collect(),
            parent: (0..n).collect(),
            place: (0..n).collect(),
            seen: vec![0; n],
            searches: 0,
        };
        let joins: Vec<bool> = graph.tape.steps.iter().map(|s| graph.joins(s)).collect();
        for s in (0..n).filter(|&s| joins[s]) {
            for p in graph.producers(s).filter(|&p| joins[p]) {
                groups.try_join(p, s);
            }
        }
        groups.take_in();
        groups
    }

    fn root(&self, mut g: usize) -> usize {
        while self.parent[g] != g {
            g = self.parent[g];
        }
        g
    }

    /// Joins the group of a step to that of another which makes one of its arguments, where they can be one kernel.
    fn try_join(&mut self, maker: usize, step: usize) {
        let (into, own) = (self.root(maker), self.root(step));
        if into == own || self.members[into].len() + self.members[own].len() > MAX_INSTRS {
            return;
        }
        let mut joined = [self.members[into].as_slice(), self.members[own].as_slice()].concat();
        joined.sort_unstable();
        let (low, high) = if self.place[into] < self.place[own] { (into, own) } else { (own, into) };
        if self.graph.fits(&joined)
            && let Some(between) = self.between(low, high)
        {
            self.arrange(low, high, between);
            // Nothing lies between the two now.
            self.place[into] = self.place[low];
            self.parent[own] = into;
            self.members[own] = SmallVec::new();
            self.members[into] = joined.into();
        }
    }

    /// What lies between two groups in the order, unless a path leads from the lower through others to the higher one.
    fn between(&mut self, low: usize, high: usize) -> Option<Between> {
        let (floor, ceiling) = (self.place[low], self.place[high]);
        let mut budget = FAR;
        self.searches += 1;
        let mut before = Vec::new();
        let mut stack = vec![high];
        while let Some(g) = stack.pop() {
            for p in self.members[g].iter().flat_map(|&m| self.graph.producers(m)) {
                budget = budget.checked_sub(1)?;
                let p = self.root(p);
                if p == low && g != high {
                    return None;
                }
                if self.place[p] > floor && p != g && self.seen[p] != self.searches {
                    self.seen[p] = self.searches;
                    before.push(p);
                    stack.push(p);
                }
            }
        }
        self.searches += 1;
        let mut after = Vec::new();
        stack.push(low);
        while let Some(g) = stack.pop() {
            for r in self.members[g].iter().flat_map(|&m| self.graph.readers_of(m)) {
                budget = budget.checked_sub(1)?;
                // The caller reads too, and has no place.
                let Some(r) = (r < self.parent.len()).then(|| self.root(r)) else { continue };
                if self.place[r] < ceiling && r != g && self.seen[r] != self.searches {
                    self.seen[r] = self.searches;
                    after.push(r);
                    stack.push(r);
                }
            }
        }
        Some(Between { before, after })
    }

    /// Moves what lies between two groups out of the way: what the higher one needs comes first, then the two, then
    /// what needs the lower one.
    fn arrange(&mut self, low: usize, high: usize, between: Between) {
        let Between { mut before, mut after } = between;
        before.sort_unstable_by_key(|&g| self.place[g]);
        after.sort_unstable_by_key(|&g| self.place[g]);
        let order: Vec<usize> = before.into_iter().chain([low, high]).chain(after).collect();
        let mut places: Vec<usize> = order.iter().map(|&g| self.place[g]).collect();
        places.sort_unstable();
        for (g, place) in order.into_iter().zip(places) {
            self.place[g] = place;
        }
    }

    /// Takes steps into the groups that alone read them. What the others read does not depend on them.
    fn take_in(&mut self) {
        for own in 0..self.members.len() {
            if self.members[own].is_empty() {
                continue;
            }
            let group = &self.members[own];
            let more = RECORDED.iter().map(|p| p.takes_in(self.graph, group)).find(|m| !m.is_empty());
            for s in more.into_iter().flatten() {
                // Each was alone in a group of its own.
                let old = self.root(s);
                self.members[old].clear();
                self.parent[old] = own;
                self.members[own].push(s);
            }
            self.members[own].sort_unstable();
        }
    }

    /// What is computed together with a step, in order.
    pub fn unit(&self, s: usize) -> &[usize] {
        &self.members[self.root(s)]
    }
}
