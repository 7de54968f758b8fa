//! In which order the operands of an Einstein summation are contracted: NumPy's greedy order (`numpy.einsum_path`),
//! which MLX follows too. The cost of a step is the count of its multiplications, one more for each product where it
//! also adds.

use super::einsum::{Equation, Label};
use crate::bail;
use crate::core::Result;

/// Subscripts as bits, with the length of each.
struct Problem {
    inputs: Vec<u128>,
    output: u128,
    sizes: Vec<f64>,
    /// Elements of the largest operand or of the result: no intermediate is larger.
    limit: f64,
}

/// A pair that may be contracted next. The least is the best: first by how many elements it adds, then by its cost.
#[derive(Clone, Copy)]
struct Pair {
    growth: f64,
    cost: f64,
    at: (usize, usize),
}

impl Problem {
    fn new(eq: &Equation) -> Result<Problem> {
        let mut names: Vec<Label> = eq.sizes.keys().copied().collect();
        names.sort_unstable();
        if names.len() > 128 {
            bail!(Value, "[einsum] More than 128 different subscripts, got {}.", names.len());
        }
        let bits = |labels: &[Label]| {
            // FITS: places in at most 128 names.
            labels.iter().filter_map(|l| names.binary_search(l).ok()).fold(0u128, |set, i| set | 1 << i)
        };
        let elements = |labels: &[Label]| labels.iter().map(|l| eq.sizes[l] as f64).product::<f64>();
        Ok(Problem {
            inputs: eq.inputs.iter().map(|l| bits(l)).collect(),
            output: bits(&eq.output),
            sizes: names.iter().map(|n| eq.sizes[n] as f64).collect(),
            limit: eq.inputs.iter().chain([&eq.output]).map(|l| elements(l)).fold(0.0, f64::max),
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

    /// Contracts the operands at some positions of a list: their union, and what remains of it.
    fn step(&self, list: &[u128], at: &[usize]) -> (u128, u128) {
        let others = (0..list.len()).filter(|k| !at.contains(k)).fold(self.output, |s, k| s | list[k]);
        let all = at.iter().fold(0, |s, &k| s | list[k]);
        (all, all & others)
    }

    /// A pair, unless its result is too large or it costs more than what `left` allows.
    fn pair(&self, list: &[u128], (i, j): (usize, usize), left: f64) -> Option<Pair> {
        let (all, kept) = self.step(list, &[i, j]);
        let (size, cost) = (self.size(kept), self.cost(all, kept, 2));
        let growth = size - self.size(list[i]) - self.size(list[j]);
        (size <= self.limit && cost <= left).then_some(Pair { growth, cost, at: (i, j) })
    }

    /// The best of the known pairs, one after the other; pairs without a common subscript only where no other is
    /// left. Where nothing may be contracted in pairs, the rest is one step.
    fn greedy(&self) -> Vec<Vec<usize>> {
        let pairs = |n: usize| (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
        let mut list = self.inputs.clone();
        let union = list.iter().fold(0, |u, i| u | i);
        let mut left = self.cost(union, self.output, list.len());
        let (mut path, mut known): (Vec<Vec<usize>>, Vec<Pair>) = (Vec::new(), Vec::new());
        let mut fresh: Vec<(usize, usize)> = pairs(list.len()).collect();
        while list.len() > 1 {
            let meet = |&(i, j): &(usize, usize)| list[i] & list[j] != 0;
            known.extend(fresh.iter().filter(|&p| meet(p)).filter_map(|&p| self.pair(&list, p, left)));
            if known.is_empty() {
                known.extend(pairs(list.len()).filter_map(|p| self.pair(&list, p, left)));
            }
            let better = |a: Pair, b: Pair| if (b.growth, b.cost) < (a.growth, a.cost) { b } else { a };
            let Some(best) = known.iter().copied().reduce(better) else {
                path.push((0..list.len()).collect());
                break;
            };
            let (i, j) = best.at;
            let (_, kept) = self.step(&list, &[i, j]);
            list.remove(j);
            list.remove(i);
            list.push(kept);
            path.push(vec![i, j]);
            left -= best.cost;
            let moved = |x: usize| x - usize::from(x > i) - usize::from(x > j);
            known.retain(|p| ![p.at.0, p.at.1].iter().any(|x| [i, j].contains(x)));
            known.iter_mut().for_each(|p| p.at = (moved(p.at.0), moved(p.at.1)));
            fresh = (0..list.len() - 1).map(|k| (k, list.len() - 1)).collect();
        }
        path
    }
}

/// Positions of each step, in ascending order; its operands are removed and its result appended.
pub(in crate::ops) fn find(eq: &Equation) -> Result<Vec<Vec<usize>>> {
    match eq.inputs.len() {
        0 | 1 => Ok(Vec::new()),
        2 => Ok(vec![vec![0, 1]]),
        _ => Ok(Problem::new(eq)?.greedy()),
    }
}

/// Costs of the equation in one step and along the path, as a text of five lines.
pub(in crate::ops) fn report(eq: &Equation, text: &str, path: &[Vec<usize>]) -> Result<String> {
    let p = Problem::new(eq)?;
    let all = p.inputs.iter().fold(0, |u, i| u | i);
    let naive = p.cost(all, p.output, p.inputs.len());
    let (mut list, mut steps) = (p.inputs.clone(), Vec::new());
    for at in path {
        let (all, kept) = p.step(&list, at);
        steps.push((all.count_ones(), p.cost(all, kept, at.len())));
        for &k in at.iter().rev() {
            list.remove(k);
        }
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
