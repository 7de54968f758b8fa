//! Einstein summation: the equation is parsed, operands are contracted pairwise along the path that
//! `contraction` finds, each pair by a matrix product, or by a broadcast multiplication where nothing is
//! summed. Repeated subscripts of an operand are a diagonal view. All derivatives follow from those ops.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::contraction;
use super::matmul;
use crate::bail;
use crate::core::layout::{checked_size, show};
use crate::core::{Array, Dtype, Result, Shape, Stored, Stream};
use crate::ops::composite;
use crate::ops::elementwise::{astype, multiply};
use crate::ops::reduce::sum;
use crate::ops::view::diagonal::diagonal;
use crate::ops::view::{expand_dims, reshape, squeeze, transpose};

/// A subscript: a letter, or 256 + the distance of an ellipsis axis from the last one.
pub(in crate::ops) type Label = u16;
const ELLIPSIS: Label = 256;

/// A parsed equation with the sizes of its subscripts.
pub(in crate::ops) struct Equation {
    /// Subscripts of each operand; one may repeat.
    pub inputs: Vec<Vec<Label>>,
    /// Subscripts of the result, all distinct.
    pub output: Vec<Label>,
    /// Length of each subscript, after broadcasting.
    pub sizes: HashMap<Label, i64>,
}

/// Letters of one term, and where an ellipsis stands among them.
struct Term {
    letters: Vec<Label>,
    ellipsis: Option<usize>,
}

impl Term {
    fn parse(op: &str, text: &str) -> Result<Term> {
        let mut term = Term { letters: Vec::new(), ellipsis: None };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("...") {
                if term.ellipsis.is_some() {
                    bail!(
                        Value,
                        "[{op}] Only one ellipsis per subscript is allowed but found more in '{text}'."
                    );
                }
                term.ellipsis = Some(term.letters.len());
                rest = after;
            } else if c.is_ascii_alphabetic() {
                term.letters.push(c as Label);
                rest = &rest[1..];
            } else {
                bail!(Value, "[{op}] Subscripts must be letters, but got '{c}'.");
            }
        }
        Ok(term)
    }

    /// All subscripts, the ellipsis standing for `count` axes.
    fn labels(&self, count: usize) -> Vec<Label> {
        let at = self.ellipsis.unwrap_or(0);
        let dots = (0..if self.ellipsis.is_some() { count } else { 0 }).rev().map(|i| ELLIPSIS + i as Label);
        self.letters[..at].iter().copied().chain(dots).chain(self.letters[at..].iter().copied()).collect()
    }
}

impl Equation {
    /// Parses `text` for operands of these shapes.
    pub fn parse(op: &str, text: &str, shapes: &[&[i64]]) -> Result<Equation> {
        if shapes.is_empty() {
            bail!(Value, "[{op}] At least one operand is required.");
        }
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((l, r)) => (l, Some(Term::parse(op, r)?)),
            None => (&text[..], None),
        };
        let terms = left.split(',').map(|t| Term::parse(op, t)).collect::<Result<Vec<_>>>()?;
        if terms.len() != shapes.len() {
            bail!(
                Value,
                "[{op}] Number of operands, {}, does not match number of input subscripts, {}.",
                shapes.len(),
                terms.len()
            );
        }
        let mut inputs = Vec::new();
        let (mut dots, mut sizes) = (0, HashMap::new());
        for (i, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let letters = term.letters.len();
            if letters > shape.len() || (term.ellipsis.is_none() && letters < shape.len()) {
                bail!(
                    Value,
                    "[{op}] Invalid number of subscripts {letters} for input {i} with {} dimensions.",
                    shape.len()
                );
            }
            let count = shape.len() - letters;
            dots = dots.max(count);
            let labels = term.labels(count);
            measure(op, i, &labels, shape, &mut sizes)?;
            inputs.push(labels);
        }
        let output = match right {
            Some(t) => t.labels(dots),
            None => implicit(&inputs, dots),
        };
        for (i, l) in output.iter().enumerate() {
            if output[..i].contains(l) {
                bail!(Value, "[{op}] Repeat indices not allowed in output.");
            }
            if !sizes.contains_key(l) {
                // FITS: labels are ASCII letters.
                let c = *l as u8 as char;
                bail!(Value, "[{op}] The output subscript '{c}' is missing in the inputs of '{text}'.");
            }
        }
        Ok(Equation { inputs, output, sizes })
    }
}

/// Enters the sizes of one operand's subscripts; lengths of 1 broadcast between operands.
fn measure(
    op: &str,
    input: usize,
    labels: &[Label],
    shape: &[i64],
    sizes: &mut HashMap<Label, i64>,
) -> Result<()> {
    for (axis, (l, &d)) in labels.iter().zip(shape).enumerate() {
        if let Some(first) = labels[..axis].iter().position(|x| x == l) {
            if shape[first] != d {
                bail!(
                    Value,
                    "[{op}] Dimensions of repeated subscripts do not have the same size ({} != {d}).",
                    shape[first]
                );
            }
            continue;
        }
        let known = sizes.entry(*l).or_insert(d);
        if *known == 1 {
            *known = d;
        } else if d != 1 && d != *known {
            bail!(
                Value,
                "[{op}] Cannot broadcast dimension {axis} of input {input} with shape {} to size {known}.",
                show(shape)
            );
        }
    }
    Ok(())
}

/// The result's subscripts where none are given: those of the ellipsis, then the letters that appear once.
fn implicit(inputs: &[Vec<Label>], dots: usize) -> Vec<Label> {
    let all: Vec<Label> = inputs.iter().flatten().copied().filter(|&l| l < ELLIPSIS).collect();
    let mut once: Vec<Label> =
        all.iter().copied().filter(|l| all.iter().filter(|x| *x == l).count() == 1).collect();
    once.sort_unstable();
    (0..dots).rev().map(|i| ELLIPSIS + i as Label).chain(once).collect()
}

/// An operand with distinct subscripts.
struct Operand {
    array: Array,
    labels: Vec<Label>,
}

impl Operand {
    /// Takes diagonals over repeated subscripts and drops axes of length 1 that others broadcast.
    fn new(array: &Array, labels: &[Label], sizes: &HashMap<Label, i64>, s: Stream) -> Result<Operand> {
        let (mut array, mut labels) = (array.clone(), labels.to_vec());
        let mut i = 0;
        while i < labels.len() {
            match labels[i + 1..].iter().position(|l| *l == labels[i]) {
                Some(k) => {
                    let j = i + 1 + k;
                    array = diagonal(&array, 0, i as i64, j as i64, s)?;
                    let l = labels.remove(j);
                    labels.remove(i);
                    labels.push(l);
                }
                None => i += 1,
            }
        }
        let thin = |i: usize| array.shape()[i] == 1 && sizes.get(&labels[i]) != Some(&1);
        let drop: Vec<i64> = (0..labels.len()).filter(|&i| thin(i)).map(|i| i as i64).collect();
        if !drop.is_empty() {
            array = squeeze(&array, Some(&drop), s)?;
            let mut axis = 0;
            labels.retain(|_| {
                axis += 1;
                !drop.contains(&(axis - 1))
            });
        }
        Ok(Operand { array, labels })
    }

    fn has(&self, l: Label) -> bool {
        self.labels.contains(&l)
    }

    fn dims(&self, labels: &[Label]) -> Shape {
        let axis = |l: &Label| self.labels.iter().position(|x| x == l);
        labels.iter().filter_map(axis).map(|i| self.array.shape()[i]).collect()
    }

    /// The operand summed over the subscripts that `keep` refuses.
    fn summed(self, keep: impl Fn(Label) -> bool, s: Stream) -> Result<Operand> {
        let gone: Vec<i64> =
            (0..self.labels.len()).filter(|&i| !keep(self.labels[i])).map(|i| i as i64).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let array = sum(&self.array, Some(&gone), false, s)?;
        Ok(Operand { array, labels: self.labels.into_iter().filter(|&l| keep(l)).collect() })
    }

    /// The array with its axes in the order of `order`; subscripts it lacks become axes of length 1.
    fn aligned(&self, order: &[Label], s: Stream) -> Result<Array> {
        let axis = |l: &Label| self.labels.iter().position(|x| x == l);
        let perm: Vec<i64> = order.iter().filter_map(axis).map(|i| i as i64).collect();
        let moved = transpose(&self.array, Some(&perm), s)?;
        let thin: Vec<i64> =
            (0..order.len()).filter(|&i| axis(&order[i]).is_none()).map(|i| i as i64).collect();
        if thin.is_empty() { Ok(moved) } else { expand_dims(&moved, &thin, s) }
    }
}

/// Sums of products shorter than this are multiplied and reduced where a matrix product would have a single
/// row and column.
const SHORT: i64 = 64;

/// Contracts two operands; the result has the subscripts that `keep` accepts.
fn contract(a: Operand, b: Operand, keep: impl Fn(Label) -> bool, s: Stream) -> Result<Operand> {
    let a = a.summed(|l| keep(l) || b.has(l), s)?;
    let b = b.summed(|l| keep(l) || a.has(l), s)?;
    let of = |x: &Operand, test: &dyn Fn(Label) -> bool| -> Vec<Label> {
        x.labels.iter().copied().filter(|&l| test(l)).collect()
    };
    let batch = of(&a, &|l| b.has(l) && keep(l));
    let inside = of(&a, &|l| b.has(l) && !keep(l));
    let rows = of(&a, &|l| !b.has(l));
    let cols = of(&b, &|l| !a.has(l));
    let join = |parts: [&[Label]; 3]| parts.concat();
    let labels = join([&batch, &rows, &cols]);
    let (m, n): (i64, i64) = (a.dims(&rows).iter().product(), b.dims(&cols).iter().product());
    let k: i64 = a.dims(&inside).iter().product();
    if inside.is_empty() {
        let array = multiply(&a.aligned(&labels, s)?, &b.aligned(&labels, s)?, s)?;
        return Ok(Operand { array, labels });
    }
    let dtype = a.array.dtype().promote(b.array.dtype());
    if rows.is_empty() && cols.is_empty() && !batch.is_empty() && k < SHORT && dtype.is_inexact() {
        let wide = if dtype.size() == 2 { Dtype::F32 } else { dtype };
        let order = join([&batch, &inside, &[]]);
        let x = astype(&a.aligned(&order, s)?, wide, s)?;
        let y = astype(&b.aligned(&order, s)?, wide, s)?;
        let axes: Vec<i64> = (batch.len()..order.len()).map(|i| i as i64).collect();
        let total = sum(&multiply(&x, &y, s)?, Some(&axes), false, s)?;
        return Ok(Operand { array: astype(&total, dtype, s)?, labels });
    }
    let outer = a.dims(&batch);
    let with = |dims: &[i64]| -> Shape { outer.iter().chain(dims).copied().collect() };
    let left = reshape(&a.aligned(&join([&batch, &rows, &inside]), s)?, &with(&[m, k]), s)?;
    let right = reshape(&b.aligned(&join([&batch, &inside, &cols]), s)?, &with(&[k, n]), s)?;
    let full: Vec<i64> = a.dims(&rows).into_iter().chain(b.dims(&cols)).collect();
    checked_size("einsum", &with(&full), dtype.size())?;
    let product = matmul(&left, &right, s)?;
    Ok(Operand { array: reshape(&product, &with(&full), s)?, labels })
}

/// A stored sum.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    einsum(c.text(0)?, c.inputs, c.stream)
}

/// Evaluates `text` on the operands.
pub fn einsum(text: &str, operands: &[Array], s: Stream) -> Result<Array> {
    let all: SmallVec<[&Array; 4]> = operands.iter().collect();
    if let Some(out) = composite::one("einsum", || vec![text.into()], &all, s)? {
        return Ok(out);
    }
    let shapes: Vec<&[i64]> = operands.iter().map(Array::shape).collect();
    let eq = Equation::parse("einsum", text, &shapes)?;
    let mut terms = Vec::new();
    for (array, labels) in operands.iter().zip(&eq.inputs) {
        terms.push(Operand::new(array, labels, &eq.sizes, s)?);
    }
    for step in contraction::find(&eq)? {
        let mut group: Vec<Operand> = step.iter().rev().map(|&i| terms.remove(i)).collect();
        // INVARIANT: a step has operands, the first of them at the end of the group.
        let mut whole = group.pop().expect("an operand");
        while let Some(next) = group.pop() {
            let others = terms.iter().chain(&group).flat_map(|t| &t.labels).chain(&eq.output);
            let rest: Vec<Label> = others.copied().collect();
            whole = contract(whole, next, |l| rest.contains(&l), s)?;
        }
        terms.push(whole);
    }
    // INVARIANT: a path leaves one operand.
    let last = terms.remove(0).summed(|l| eq.output.contains(&l), s)?;
    last.aligned(&eq.output, s)
}

/// The order of contractions of an equation, and a text about its cost.
pub fn einsum_path(text: &str, operands: &[Array]) -> Result<(Vec<Vec<usize>>, String)> {
    let shapes: Vec<&[i64]> = operands.iter().map(Array::shape).collect();
    let eq = Equation::parse("einsum_path", text, &shapes)?;
    let path = contraction::find(&eq)?;
    let report = contraction::report(&eq, text, &path)?;
    Ok((if path.is_empty() { vec![vec![0]] } else { path }, report))
}
