//! In which order the operands of an Einstein summation are contracted: the cheapest of all pairwise orders
//! for few operands, by dynamic programming over subsets; a greedy order for more. The cost of a step is the
//! count of its multiplications, doubled where it also adds, as NumPy counts them.

use super::einsum::{Equation, Label};
use crate::bail;
use crate::core::Result;

/// Most operands for which every order is weighed.
const EXHAUSTIVE: usize = 7;

/// Subscripts as bits, with the length of each.
struct Problem {
    inputs: Vec<u128>,
    output: u128,
    sizes: Vec<f64>,
}

impl Problem {
    fn new(eq: &Equation) -> Result<Problem> {
        let mut names: Vec<Label> = eq.sizes.keys().copied().collect();
        names.sort_unstable();
        if names.len() > 128 {
            bail!(Value, "[einsum] More than 128 different subscripts, got {}.", names.len());
        }
        let bits = |labels: &[Label]| {
            labels.iter().filter_map(|l| names.binary_search(l).ok()).fold(0u128, |set, i| set | 1 << i)
        };
        Ok(Problem {
            inputs: eq.inputs.iter().map(|l| bits(l)).collect(),
            output: bits(&eq.output),
            sizes: names.iter().map(|n| eq.sizes[n] as f64).collect(),
        })
    }

    fn size(&self, set: u128) -> f64 {
        (0..self.sizes.len()).filter(|i| set >> i & 1 == 1).map(|i| self.sizes[i]).product()
    }

    /// Operations of a step on `terms` operands with the subscripts `all`, of which `kept` remain.
    fn cost(&self, all: u128, kept: u128, terms: usize) -> f64 {
        let adds = usize::from(all & !kept != 0);
        self.size(all) * (terms.saturating_sub(1).max(1) + adds) as f64
    }

    /// Contracts the operands `i` and `j` of a list: their union, and what remains of it.
    fn step(&self, list: &[u128], i: usize, j: usize) -> (u128, u128) {
        let others = (0..list.len()).filter(|&k| k != i && k != j).fold(self.output, |s, k| s | list[k]);
        let all = list[i] | list[j];
        (all, all & others)
    }

    /// The cheapest order of all.
    fn exhaustive(&self) -> Vec<(usize, usize)> {
        let n = self.inputs.len();
        let union = |set: usize| (0..n).filter(|i| set >> i & 1 == 1).fold(0, |u, i| u | self.inputs[i]);
        let full = (1 << n) - 1;
        let kept: Vec<u128> = (0..=full).map(|set| union(set) & (self.output | union(full & !set))).collect();
        // An operand on its own keeps all of its subscripts: sums over them count in the step that uses it.
        let held =
            |set: usize| if set.count_ones() == 1 { self.inputs[set.ilog2() as usize] } else { kept[set] };
        let mut best = vec![(0.0f64, 0usize); full + 1];
        for set in 1..=full {
            if set.count_ones() < 2 {
                continue;
            }
            best[set].0 = f64::INFINITY;
            let mut part = (set - 1) & set;
            while part > 0 {
                let other = set & !part;
                if part > other {
                    let all = held(part) | held(other);
                    let cost = best[part].0 + best[other].0 + self.cost(all, kept[set], 2);
                    if cost < best[set].0 || best[set].1 == 0 {
                        best[set] = (cost, part);
                    }
                }
                part = (part - 1) & set;
            }
        }
        // Splits from the last step to the first, then turned round into positions of a shrinking list.
        let (mut stack, mut order) = (vec![full], Vec::new());
        while let Some(set) = stack.pop() {
            if set.count_ones() > 1 {
                let part = best[set].1;
                order.push((part, set & !part));
                stack.extend([part, set & !part]);
            }
        }
        let mut list: Vec<usize> = (0..n).map(|i| 1 << i).collect();
        let mut path = Vec::new();
        for (x, y) in order.into_iter().rev() {
            // INVARIANT: parts of a set are contracted before it.
            let at = |set| list.iter().position(|&l| l == set).expect("part of a set");
            let (i, j) = (at(x).min(at(y)), at(x).max(at(y)));
            list.remove(j);
            list.remove(i);
            list.push(x | y);
            path.push((i, j));
        }
        path
    }

    /// The pair that shrinks the operands most comes first, the cheaper one among equals; pairs without a
    /// common subscript come last.
    fn greedy(&self) -> Vec<(usize, usize)> {
        let mut list = self.inputs.clone();
        let mut path = Vec::new();
        while list.len() > 1 {
            let mut best: Option<((bool, f64, f64), (usize, usize), u128)> = None;
            for i in 0..list.len() {
                for j in i + 1..list.len() {
                    let (all, kept) = self.step(&list, i, j);
                    let growth = self.size(kept) - self.size(list[i]) - self.size(list[j]);
                    let rank = (list[i] & list[j] == 0, growth, self.cost(all, kept, 2));
                    if best.is_none_or(|(r, ..)| rank < r) {
                        best = Some((rank, (i, j), kept));
                    }
                }
            }
            // INVARIANT: two or more operands have a pair.
            let (_, (i, j), kept) = best.expect("a pair");
            list.remove(j);
            list.remove(i);
            list.push(kept);
            path.push((i, j));
        }
        path
    }
}

/// Pairs of positions; after each step the pair is removed and its result appended.
pub(super) fn find(eq: &Equation) -> Result<Vec<(usize, usize)>> {
    match eq.inputs.len() {
        0 | 1 => Ok(Vec::new()),
        2 => Ok(vec![(0, 1)]),
        n => {
            let p = Problem::new(eq)?;
            Ok(if n <= EXHAUSTIVE { p.exhaustive() } else { p.greedy() })
        }
    }
}

/// Costs of the equation in one step and along the path, as a text of five lines.
pub(super) fn report(eq: &Equation, text: &str, path: &[(usize, usize)]) -> Result<String> {
    let p = Problem::new(eq)?;
    let all = p.inputs.iter().fold(0, |u, i| u | i);
    let naive = p.cost(all, p.output, p.inputs.len());
    let (mut list, mut steps) = (p.inputs.clone(), Vec::new());
    for &(i, j) in path {
        let (all, kept) = p.step(&list, i, j);
        steps.push((all.count_ones(), p.cost(all, kept, 2)));
        list.remove(j);
        list.remove(i);
        list.push(kept);
    }
    if steps.is_empty() {
        steps.push((all.count_ones(), naive));
    }
    let scaling = steps.iter().map(|s| s.0).max().unwrap_or(0);
    let total: f64 = steps.iter().map(|s| s.1).sum();
    Ok(format!(
        "  Complete contraction:  {text}\n         Naive scaling:  {}\n     Optimized scaling:  {scaling}\n      \
         Naive FLOP count:  {naive:.0}\n  Optimized FLOP count:  {total:.0}\n",
        all.count_ones()
    ))
}
