//! Elementwise primitives that MLX spells with parameters, or puts together from several of its own.

use super::draft::Draft;
use super::rows_elementwise::NAMES;
use super::{Arg, Call};
use crate::core::Dtype;

pub(super) fn plain(d: &mut Draft, c: &Call) -> Vec<usize> {
    let known = NAMES.iter().find(|(ours, _)| *ours == c.name).map(|(_, theirs)| theirs.to_string());
    let name = known.unwrap_or_else(|| crate::compile::export::dot::class_name(c.name));
    // Truth has its own name for it.
    let name = if name == "BitwiseInvert" && c.dtype() == Dtype::Bool { "LogicalNot".into() } else { name };
    // Parts of real numbers, and their conjugates, are the numbers.
    if matches!(c.name, "real" | "conjugate") && d.dtype(c.input()) != Dtype::C64 {
        return c.inputs.clone();
    }
    vec![d.each(&name, &name, vec![], &c.inputs, c.dtype())]
}

pub(super) fn logarithm(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (base, label) = match c.name {
        "log2" => (0, "Log2"),
        "log10" => (1, "Log10"),
        _ => (2, "Log"),
    };
    vec![d.each("Log", label, vec![Arg::Int(base)], &c.inputs, c.dtype())]
}

pub(super) fn root(d: &mut Draft, c: &Call) -> Vec<usize> {
    let inverse = c.name == "rsqrt";
    let label = if inverse { "Rsqrt" } else { "Sqrt" };
    vec![d.each("Sqrt", label, vec![Arg::Bool(inverse)], &c.inputs, c.dtype())]
}

pub(super) fn equal(d: &mut Draft, c: &Call) -> Vec<usize> {
    let nan = c.name == "nan_equal";
    let label = if nan { "NaNEqual" } else { "Equal" };
    vec![d.each("Equal", label, vec![Arg::Bool(nan)], &c.inputs, Dtype::Bool)]
}

pub(super) fn bitwise(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (op, label) = match c.name {
        "bitwise_and" => (0, "BitwiseAnd"),
        "bitwise_or" => (1, "BitwiseOr"),
        "bitwise_xor" => (2, "BitwiseXor"),
        "left_shift" => (3, "LeftShift"),
        _ => (4, "RightShift"),
    };
    vec![d.each("BitwiseBinary", label, vec![Arg::Int(op)], &c.inputs, c.dtype())]
}

pub(super) fn astype(d: &mut Draft, c: &Call) -> Vec<usize> {
    vec![d.cast(c.input(), c.dtype())]
}

pub(super) fn reciprocal(d: &mut Draft, c: &Call) -> Vec<usize> {
    let one = d.scalar(1.0, c.dtype());
    vec![d.binary("Divide", one, c.input())]
}

pub(super) fn angle(d: &mut Draft, c: &Call) -> Vec<usize> {
    let factor = std::f64::consts::PI / 180.0;
    let factor = d.scalar(if c.name == "radians" { factor } else { 1.0 / factor }, c.dtype());
    vec![d.binary("Multiply", c.input(), factor)]
}

pub(super) fn is_nan(d: &mut Draft, x: usize) -> usize {
    d.compare("NotEqual", x, x)
}

pub(super) fn is_value(d: &mut Draft, x: usize, value: f64) -> usize {
    let value = d.scalar(value, d.dtype(x));
    d.compare("Equal", x, value)
}

pub(super) fn is_infinite(d: &mut Draft, x: usize) -> usize {
    let (high, low) = (is_value(d, x, f64::INFINITY), is_value(d, x, f64::NEG_INFINITY));
    d.compare("LogicalOr", high, low)
}

pub(super) fn is_finite(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (infinite, nan) = (is_infinite(d, c.input()), is_nan(d, c.input()));
    let either = d.compare("LogicalOr", infinite, nan);
    vec![d.unary("LogicalNot", either)]
}

pub(super) fn truncate(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = c.input();
    let zero = d.scalar(0.0, c.dtype());
    let below = d.compare("Less", x, zero);
    let (up, down) = (d.unary("Ceil", x), d.unary("Floor", x));
    vec![d.select(below, up, down)]
}

/// Parameter: decimals.
pub(super) fn round_to(d: &mut Draft, c: &Call) -> Vec<usize> {
    let scale = 10f64.powi(c.int(0) as i32);
    let (by, back) = (d.scalar(scale, c.dtype()), d.scalar(1.0 / scale, c.dtype()));
    let scaled = d.binary("Multiply", c.input(), by);
    let round = d.unary("Round", scaled);
    vec![d.binary("Multiply", round, back)]
}

/// Parameters: what stands for NaN, for infinity and for its negative.
pub(super) fn nan_to_num(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = c.input();
    let numbers: Vec<usize> = (0..3).map(|i| d.scalar(c.float(i), c.dtype())).collect();
    let nan = is_nan(d, x);
    let out = d.select(nan, numbers[0], x);
    let high = is_value(d, x, f64::INFINITY);
    let out = d.select(high, numbers[1], out);
    let low = is_value(d, x, f64::NEG_INFINITY);
    vec![d.select(low, numbers[2], out)]
}

/// Parameters: relative and absolute tolerance, whether NaN equals NaN.
pub(super) fn is_close(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (a, b) = (c.inputs[0], c.inputs[1]);
    let dtype = if d.dtype(b) == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let (relative, absolute) = (d.scalar(c.float(0), dtype), d.scalar(c.float(1), dtype));
    let size = d.unary("Abs", b);
    let share = d.binary("Multiply", relative, size);
    let bound = d.binary("Add", absolute, share);
    let difference = d.binary("Subtract", a, b);
    let distance = d.unary("Abs", difference);
    let close = d.compare("LessEqual", distance, bound);
    // Infinities are close to none but themselves.
    let (one, other) = (is_infinite(d, a), is_infinite(d, b));
    let any = d.compare("LogicalOr", one, other);
    let mut out = {
        let none = d.unary("LogicalNot", any);
        d.compare("LogicalAnd", close, none)
    };
    let sides = [f64::INFINITY, f64::NEG_INFINITY].map(|side| {
        let (x, y) = (is_value(d, a, side), is_value(d, b, side));
        d.compare("LogicalAnd", x, y)
    });
    let same = d.compare("LogicalOr", sides[0], sides[1]);
    out = d.compare("LogicalOr", out, same);
    if c.flag(2) {
        let (x, y) = (is_nan(d, a), is_nan(d, b));
        let both = d.compare("LogicalAnd", x, y);
        out = d.compare("LogicalOr", out, both);
    }
    vec![out]
}
