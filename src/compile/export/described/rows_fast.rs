//! The primitives of `mlx.core.fast`: on the CPU MLX puts them together from others, and so is it said here.

use super::draft::Draft;
use super::rows_attention::attention;
use super::{Call, Row};
use crate::core::Dtype;

pub(super) const ROWS: &[(&[&str], Row)] =
    &[(&["rms_norm", "layer_norm"], norm), (&["rope"], rope), (&["scaled_dot_product_attention"], attention)];

/// Halves are normalised in float32. Parameters: eps, whether there is a weight, and a bias.
fn norm(d: &mut Draft, c: &Call) -> Vec<usize> {
    let dtype = c.dtype();
    let wide = if dtype.size() == 2 { Dtype::F32 } else { dtype };
    let mut rest = c.inputs[1..].iter().copied();
    let weight = if c.flag(1) { rest.next() } else { None };
    let bias = if c.flag(2) { rest.next() } else { None };
    let mut x = d.cast(c.input(), wide);
    if c.name == "layer_norm" {
        let middle = d.mean_last(x);
        x = d.binary("Subtract", x, middle);
    }
    let squares = d.unary("Square", x);
    let mean = d.mean_last(squares);
    let eps = d.scalar(c.float(0), wide);
    let sum = d.binary("Add", mean, eps);
    let factor = d.rsqrt(sum);
    let out = d.binary("Multiply", x, factor);
    let mut out = d.cast(out, dtype);
    if let Some(w) = weight {
        let w = d.cast(w, dtype);
        out = d.binary("Multiply", out, w);
    }
    if let Some(b) = bias {
        let b = d.cast(b, dtype);
        out = d.binary("Add", out, b);
    }
    vec![out]
}

/// Angles of every position, for (positions, pairs) or (batch, 1, positions, pairs).
fn angles(d: &mut Draft, c: &Call) -> usize {
    let x = d.shape(c.input());
    let (positions, half) = (x[2], c.int(0) / 2);
    let mut rest = c.inputs[1..].iter().copied();
    let given = if c.flag(5) { None } else { rest.next() };
    let steps = d.arange(0.0, positions as f64, 1.0, positions, Dtype::F32);
    let offset = match given {
        None => d.scalar(c.int(6) as f64, Dtype::I32),
        Some(v) => single(d, v),
    };
    let mut offset = d.cast(offset, Dtype::F32);
    let batched = d.ndim(offset) > 0 && d.shape(offset)[0] > 1;
    if batched {
        offset = d.expand(offset, &[1]);
    }
    let at = d.binary("Add", steps, offset);
    let scale = d.scalar(c.float(4), Dtype::F32);
    let at = d.binary("Multiply", at, scale);
    let at = if batched { d.expand(at, &[1, 3]) } else { d.expand(at, &[1]) };
    let frequencies = match rest.next() {
        Some(waves) => {
            let one = d.scalar(1.0, Dtype::F32);
            d.binary("Divide", one, waves)
        }
        None => {
            let powers = d.arange(0.0, -(half as f64), -1.0, half, Dtype::F32);
            let base = d.scalar(c.float(3).ln() / half as f64, Dtype::F32);
            let powers = d.binary("Multiply", powers, base);
            d.unary("Exp", powers)
        }
    };
    d.binary("Multiply", at, frequencies)
}

/// A vector of one number is the number that it was made from.
fn single(d: &mut Draft, v: usize) -> usize {
    let from =
        d.made_by(v).filter(|o| matches!(o.name.as_str(), "Reshape" | "ExpandDims")).map(|o| o.inputs[0]);
    match from {
        Some(s) if d.ndim(s) == 0 => s,
        _ => v,
    }
}

/// Parameters: features that turn, whether neighbours are pairs, whether there is a base, the base, scale, whether
/// the offset is a number, the offset, whether it turns back.
fn rope(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, dims, pairs, back) = (c.input(), c.int(0), c.flag(1), c.flag(7));
    let shape = d.shape(x);
    let n = shape.len() as i64;
    let features = shape[shape.len() - 1];
    let theta = angles(d, c);
    let (cos, sin) = (d.unary("Cos", theta), d.unary("Sin", theta));
    let (cos, mut sin) = (d.cast(cos, c.dtype()), d.cast(sin, c.dtype()));
    if back {
        sin = d.unary("Negative", sin);
    }
    let (a, b) = match pairs {
        true => (d.slice_last(x, 0, dims, 2), d.slice_last(x, 1, dims, 2)),
        false => (d.slice_last(x, 0, dims / 2, 1), d.slice_last(x, dims / 2, dims, 1)),
    };
    let (left, right) = (d.binary("Multiply", a, cos), d.binary("Multiply", b, sin));
    let mut one = d.binary("Subtract", left, right);
    let (left, right) = (d.binary("Multiply", a, sin), d.binary("Multiply", b, cos));
    let mut other = d.binary("Add", left, right);
    let mut parts = if pairs {
        (one, other) = (d.expand(one, &[n]), d.expand(other, &[n]));
        let both = d.concatenate(&[one, other], n as usize);
        let mut turned = shape.clone();
        turned[shape.len() - 1] = dims;
        vec![d.reshape(both, &turned)]
    } else {
        vec![one, other]
    };
    if dims < features {
        parts.push(d.slice_last(x, dims, features, 1));
    }
    vec![if parts.len() == 1 { parts[0] } else { d.concatenate(&parts, n as usize - 1) }]
}
