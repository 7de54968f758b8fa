//! Attention: on the CPU MLX puts it together from products, masks and a softmax, and so is it said here.

use super::draft::{Draft, tuple};
use super::rows_diagonal::lower;
use super::{Arg, Call};
use crate::core::Dtype;

/// Queries of a group of heads that share keys lie on an axis of their own.
struct Groups {
    heads: i64,
    each: i64,
}

impl Groups {
    fn queries(&self, d: &mut Draft, q: usize) -> usize {
        if self.each == 1 {
            return q;
        }
        let s = d.shape(q);
        let shape = [s[0], self.heads, self.each, s[2], s[3]].into_iter().collect();
        let dtype = d.dtype(q);
        d.one("Unflatten", vec![Arg::Int(1), tuple(&[self.heads, self.each])], vec![q], shape, dtype)
    }

    fn keys(&self, d: &mut Draft, k: usize) -> usize {
        if self.each == 1 { k } else { d.expand(k, &[2]) }
    }

    /// What broadcasts to the scores of all heads, for those of the groups.
    fn mask(&self, d: &mut Draft, m: usize) -> usize {
        let n = d.ndim(m);
        if self.each == 1 || n < 3 {
            return m;
        }
        let axis = n - 3;
        let mut shape = d.shape(m);
        if shape[axis] == 1 {
            return d.expand(m, &[axis as i64]);
        }
        shape[axis] = self.each;
        shape.insert(axis, self.heads);
        let dtype = d.dtype(m);
        d.one(
            "Unflatten",
            vec![Arg::Int(axis as i64), tuple(&[self.heads, self.each])],
            vec![m],
            shape,
            dtype,
        )
    }
}

/// Parameters: scale, whether it is causal, whether there is a mask, and sinks.
pub(super) fn attention(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (q, k, v, dtype) = (c.inputs[0], c.inputs[1], c.inputs[2], c.dtype());
    let mut rest = c.inputs[3..].iter().copied();
    let mask = if c.flag(2) { rest.next() } else { None };
    let sinks = if c.flag(3) { rest.next() } else { None };
    let (queries, keys) = (d.shape(q)[2], d.shape(k)[2]);
    let heads = d.shape(k)[1];
    let groups = Groups { heads, each: d.shape(q)[1] / heads.max(1) };
    let scale = d.scalar(c.float(0), dtype);
    let q = d.binary("Multiply", scale, q);
    let q = groups.queries(d, q);
    let (k, v) = (groups.keys(d, k), groups.keys(d, v));
    let k = d.swapped(k);
    let mut scores = d.matmul(q, k);
    let lowest = match dtype {
        Dtype::F16 => -65504.0,
        Dtype::BF16 => -3.389_531_389_251_535_5e38,
        _ => f64::from(f32::MIN),
    };
    let hide = |d: &mut Draft, mask: usize, scores: usize| {
        let lowest = d.scalar(lowest, dtype);
        d.select(mask, scores, lowest)
    };
    if c.flag(1) {
        let mask = lower(d, queries, keys, keys - queries);
        scores = hide(d, mask, scores);
    }
    if let Some(m) = mask {
        let m = groups.mask(d, m);
        scores = if d.dtype(m) == Dtype::Bool {
            hide(d, m, scores)
        } else {
            let m = d.cast(m, dtype);
            d.binary("Add", scores, m)
        };
    }
    if let Some(s) = sinks {
        let s = match groups.each {
            1 => d.expand(s, &[0, 2, 3]),
            each => {
                let s = d.reshape(s, &[heads, each]);
                d.expand(s, &[0, 3, 4])
            }
        };
        let mut column = d.shape(scores);
        let last = column.len() - 1;
        column[last] = 1;
        let s = d.broadcast(s, &column);
        scores = d.concatenate(&[s, scores], last);
    }
    let shape = d.shape(scores);
    let mut weights = d.one("Softmax", vec![Arg::Bool(true)], vec![scores], shape.clone(), dtype);
    if sinks.is_some() {
        weights = d.slice_last(weights, 1, shape[shape.len() - 1], 1);
    }
    let out = d.matmul(weights, v);
    vec![if groups.each == 1 { out } else { d.flatten(out, 1, 2) }]
}
