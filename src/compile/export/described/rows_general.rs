//! Reductions, scans, sorts, products, transforms, linear algebra, quantised products and random numbers.

use super::draft::{Draft, list, tuple};
use super::{Arg, Call, Row, own};
use crate::core::{Dtype, Shape};
use crate::kernels::ReduceOp;
use crate::kernels::random::draw::BELOW_ONE;

pub(super) const ROWS: &[(&[&str], Row)] = &[
    (&["sum", "prod", "min", "max", "all", "any"], reduce),
    (&["argmin", "argmax"], arg_reduce),
    (&["arg_reduce_flat"], arg_reduce_flat),
    (&["mean"], |d, c| vec![mean(d, c.input(), &c.ints(0), c.flag(1), c.dtype())]),
    (&["var"], variance),
    (&["number_of_elements"], number_of_elements),
    (&["softmax"], |d, c| d.emit("Softmax", vec![Arg::Bool(c.flag(0))], c.inputs.clone(), c.outs.clone())),
    (&["logsumexp"], logsumexp),
    (&["logsumexp_axes"], logsumexp_axes),
    (&["median"], median),
    (&["norm_flat"], |d, c| {
        let x = d.flat(c.input());
        let x = d.cast(x, c.dtype());
        let squares = d.unary("Square", x);
        let sum = d.sum(squares, &[0], false);
        vec![d.each("Sqrt", "Sqrt", vec![Arg::Bool(false)], &[sum], c.dtype())]
    }),
    (&["cumsum", "cumprod", "cummin", "cummax", "logcumsumexp"], scan),
    (&["sort", "argsort"], sort),
    (&["sort_flat"], sort_flat),
    (&["partition", "argpartition"], partition),
    (&["matmul"], |d, c| vec![d.matmul(c.inputs[0], c.inputs[1])]),
    (&["addmm"], addmm),
    (&["gather_mm"], gather_mm),
    (&["segmented_mm"], |d, c| d.emit("SegmentedMM", vec![], c.inputs.clone(), c.outs.clone())),
    (&["block_masked_mm"], |d, c| {
        d.emit("BlockMaskedMM", vec![Arg::Int(c.int(0))], c.inputs.clone(), c.outs.clone())
    }),
    (&["convolution"], convolution),
    (&["fft", "ifft", "rfft", "irfft"], fft),
    (&["fft_axes"], fft_axes),
    (&["hadamard_transform"], |d, c| {
        d.emit("Hadamard", vec![Arg::Float(c.float(0))], c.inputs.clone(), c.outs.clone())
    }),
    (&["quantize", "dequantize"], quantize),
    (&["quantized_matmul", "gather_qmm"], quantized_matmul),
    (&["inv"], |d, c| inverse(d, c, false, true)),
    (&["tri_inv"], |d, c| inverse(d, c, true, c.flag(0))),
    (&["solve_triangular"], solve_triangular),
    (&["cholesky"], |d, c| d.emit("Cholesky", vec![Arg::Bool(c.flag(0))], c.inputs.clone(), c.outs.clone())),
    (&["svd"], |d, c| d.emit("SVD", vec![Arg::Bool(c.flag(0))], c.inputs.clone(), c.outs.clone())),
    (&["qr"], |d, c| d.emit("QRF", vec![], c.inputs.clone(), c.outs.clone())),
    (&["lu"], |d, c| d.emit("LUF", vec![], c.inputs.clone(), c.outs.clone())),
    (&["eig"], |d, c| d.emit("Eig", vec![Arg::Bool(c.flag(0))], c.inputs.clone(), c.outs.clone())),
    (&["eigh"], eigh),
    (&["random_bits"], random),
    (&["bernoulli"], bernoulli),
    (&["custom_kernel"], |d, c| {
        let three = |i: usize| c.ints(i).into_iter().map(Arg::Int).collect::<Vec<_>>();
        let names = [c.text(0), c.text(1)].map(|t| Arg::Text(t.into())).to_vec();
        d.emit("CustomKernel", [names, three(2), three(3)].concat(), c.inputs.clone(), c.outs.clone())
    }),
    // The results of the function, behind its arguments: rules of its own are no part of a graph.
    (&["custom_function"], |_, c| c.inputs[c.inputs.len() - c.outs.len()..].to_vec()),
    (&["depends"], |d, c| d.emit("Depends", vec![], c.inputs.clone(), c.outs.clone())),
];

fn reduce(d: &mut Draft, c: &Call) -> Vec<usize> {
    let Some(op) = ReduceOp::named(c.name) else { return own(d, c) };
    vec![d.reduce(op, c.input(), &c.ints(0), c.flag(1), c.dtype())]
}

fn arg_reduced(d: &mut Draft, max: bool, x: usize, axis: i64) -> usize {
    let mut shape = d.shape(x);
    shape[axis as usize] = 1;
    d.one("ArgReduce", vec![Arg::Int(i64::from(max)), Arg::Int(axis)], vec![x], shape, Dtype::U32)
}

fn arg_reduce(d: &mut Draft, c: &Call) -> Vec<usize> {
    let out = arg_reduced(d, c.name == "argmax", c.input(), c.int(0));
    vec![if c.flag(1) { out } else { d.squeeze(out, &[c.int(0)]) }]
}

/// Over all elements, with as many axes as before. Parameter: whether of the largest.
fn arg_reduce_flat(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = d.flat(c.input());
    let out = arg_reduced(d, c.flag(0), x, 0);
    let axes: Vec<i64> = (0..c.shape().len() as i64 - 1).collect();
    vec![if axes.is_empty() { out } else { d.expand(out, &axes) }]
}

fn count(d: &mut Draft, x: usize, axes: &[i64], inverted: bool, dtype: Dtype) -> usize {
    if d.shapeless() {
        let args = vec![list(axes), Arg::Bool(inverted), Arg::Dtype(dtype)];
        return d.one("NumberOfElements", args, vec![x], Shape::new(), dtype);
    }
    let shape = d.shape(x);
    let n: i64 = axes.iter().map(|&a| shape[a as usize]).product();
    d.scalar(if inverted { 1.0 / n as f64 } else { n as f64 }, dtype)
}

fn mean(d: &mut Draft, x: usize, axes: &[i64], keepdims: bool, dtype: Dtype) -> usize {
    let total = if d.dtype(x).is_inexact() {
        d.sum(x, axes, keepdims)
    } else {
        let sums = match d.dtype(x) {
            Dtype::I64 | Dtype::U64 => d.dtype(x),
            Dtype::U8 | Dtype::U16 | Dtype::U32 => Dtype::U32,
            _ => Dtype::I32,
        };
        let total = d.reduce(ReduceOp::Sum, x, axes, keepdims, sums);
        d.cast(total, dtype)
    };
    let part = count(d, x, axes, true, dtype);
    d.binary("Multiply", total, part)
}

/// Parameters: axes, whether they stay, degrees of freedom.
fn variance(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (axes, ddof, dtype) = (c.ints(0), c.int(2), c.dtype());
    let x = d.cast(c.input(), dtype);
    let middle = mean(d, x, &axes, true, dtype);
    let centred = d.binary("Subtract", x, middle);
    let squares = d.unary("Square", centred);
    let total = d.sum(squares, &axes, c.flag(1));
    if ddof == 0 {
        let part = count(d, x, &axes, true, dtype);
        return vec![d.binary("Multiply", total, part)];
    }
    let (n, off, zero) =
        (count(d, x, &axes, false, dtype), d.scalar(ddof as f64, dtype), d.scalar(0.0, dtype));
    let n = d.binary("Subtract", n, off);
    let n = d.binary("Maximum", n, zero);
    vec![d.binary("Divide", total, n)]
}

fn number_of_elements(d: &mut Draft, c: &Call) -> Vec<usize> {
    let args = vec![list(&c.ints(0)), Arg::Bool(false), Arg::Dtype(c.dtype())];
    let n = d.emit("NumberOfElements", args, c.inputs.clone(), c.outs.clone())[0];
    if c.int(1) == 0 {
        return vec![n];
    }
    let less = d.scalar(c.int(1) as f64, c.dtype());
    vec![d.binary("Subtract", n, less)]
}

fn logsumexp(d: &mut Draft, c: &Call) -> Vec<usize> {
    let last = d.ndim(c.input()) - 1;
    let mut shape = d.shape(c.input());
    shape[last] = 1;
    let out = d.one("LogSumExp", vec![], c.inputs.clone(), shape, c.dtype());
    vec![if c.flag(0) { out } else { d.squeeze(out, &[last as i64]) }]
}

/// Parameters: axes, whether they stay.
fn logsumexp_axes(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, axes, keepdims, dtype) = (c.input(), c.ints(0), c.flag(1), c.dtype());
    let most = d.reduce(ReduceOp::Max, x, &axes, true, dtype);
    let most_out = if keepdims { most } else { d.squeeze(most, &axes) };
    let infinite = super::composed_elementwise::is_infinite(d, most_out);
    let x = d.binary("Subtract", x, most);
    let x = d.unary("Exp", x);
    let sum = d.sum(x, &axes, keepdims);
    let log = d.each("Log", "Log", vec![Arg::Int(2)], &[sum], dtype);
    let back = d.one("Reshape", vec![tuple(&c.shape())], vec![most], c.shape(), dtype);
    let out = d.binary("Add", log, if keepdims { most } else { back });
    vec![d.select(infinite, most_out, out)]
}

/// Without the axes, which are the parameter.
fn median(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (axes, dtype) = (c.ints(0), c.dtype());
    let x = d.cast(c.input(), dtype);
    let n = d.ndim(x) as i64;
    let kept = (0..n).filter(|i| !axes.contains(i));
    let order: Vec<i64> = kept.chain(axes.iter().copied()).collect();
    let x = d.transpose(x, &order);
    let last = order.len() - axes.len();
    let x = d.flatten(x, last, order.len() - 1);
    let len = d.shape(x)[last];
    let nan = d.compare("NotEqual", x, x);
    let any = d.reduce(ReduceOp::Any, nan, &[last as i64], true, Dtype::Bool);
    let nan = d.scalar(f64::NAN, dtype);
    let shape = d.shape(x);
    let sorted = d.one("Sort", vec![Arg::Int(last as i64)], vec![x], shape, dtype);
    let mut middle = d.slice_last(sorted, len / 2, len / 2 + 1, 1);
    if len % 2 == 0 {
        let other = d.slice_last(sorted, len / 2 - 1, len / 2, 1);
        let sum = d.binary("Add", middle, other);
        let half = d.scalar(0.5, dtype);
        middle = d.binary("Multiply", sum, half);
    }
    let out = d.select(any, nan, middle);
    vec![d.squeeze(out, &[last as i64])]
}

fn scan(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (kind, label) = match c.name {
        "cummax" => (0, "CumMax"),
        "cummin" => (1, "CumMin"),
        "cumprod" => (3, "CumProd"),
        "logcumsumexp" => (4, "CumLogAddExp"),
        _ => (2, "CumSum"),
    };
    let args = vec![Arg::Int(kind), Arg::Int(c.int(0)), Arg::Bool(c.flag(1)), Arg::Bool(c.flag(2))];
    let x = d.any_strides(c.input());
    d.labelled("Scan", label, args, vec![x], c.outs.clone())
}

fn sort(d: &mut Draft, c: &Call) -> Vec<usize> {
    let name = if c.name == "sort" { "Sort" } else { "ArgSort" };
    d.emit(name, vec![Arg::Int(c.int(0))], c.inputs.clone(), c.outs.clone())
}

/// Parameter: whether positions are wanted.
fn sort_flat(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = d.reshape(c.input(), &c.shape());
    let name = if c.flag(0) { "ArgSort" } else { "Sort" };
    d.emit(name, vec![Arg::Int(0)], vec![x], c.outs.clone())
}

fn partition(d: &mut Draft, c: &Call) -> Vec<usize> {
    let name = if c.name == "partition" { "Partition" } else { "ArgPartition" };
    d.emit(name, vec![Arg::Int(c.int(1)), Arg::Int(c.int(0))], c.inputs.clone(), c.outs.clone())
}

fn addmm(d: &mut Draft, c: &Call) -> Vec<usize> {
    let shape = c.shape();
    let n = shape.len();
    let whole =
        |own: Shape| -> Vec<i64> { shape[..n - 2].iter().chain(&own[own.len() - 2..]).copied().collect() };
    let (a, b) = (whole(d.shape(c.inputs[0])), whole(d.shape(c.inputs[1])));
    let inputs =
        vec![d.broadcast(c.inputs[0], &a), d.broadcast(c.inputs[1], &b), d.broadcast(c.inputs[2], &shape)];
    d.emit("AddMM", vec![Arg::Float(c.float(0)), Arg::Float(c.float(1))], inputs, c.outs.clone())
}

/// The index of every matrix of a batch, where the caller gave none.
fn indices(d: &mut Draft, given: Option<usize>, batch: &[i64]) -> usize {
    match given {
        // Converted before it is broadcast.
        Some(i) => match d.made_by(i).filter(|o| o.name == "Broadcast" && o.inputs.len() == 1) {
            Some(o) => {
                let (from, shape) = (o.inputs[0], d.shape(i));
                let from = d.cast(from, Dtype::U32);
                d.broadcast(from, &shape)
            }
            None => d.cast(i, Dtype::U32),
        },
        None => {
            let n = batch.iter().product();
            let all = d.arange(0.0, n as f64, 1.0, n, Dtype::U32);
            d.reshape(all, batch)
        }
    }
}

/// The indices of both operands, in the shape that they have together. Of parameters the first two that are named say
/// which operands have some; they stand behind the `own` other inputs.
fn both_indices(
    d: &mut Draft,
    c: &Call,
    own: usize,
    flags: (usize, usize),
    batches: [&[i64]; 2],
) -> Vec<usize> {
    let mut rest = c.inputs[own..].iter().copied();
    let lhs = if c.flag(flags.0) { rest.next() } else { None };
    let rhs = if c.flag(flags.1) { rest.next() } else { None };
    let both = [indices(d, lhs, batches[0]), indices(d, rhs, batches[1])];
    d.together(&both)
}

fn gather_mm(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, y) = (d.shape(c.inputs[0]), d.shape(c.inputs[1]));
    let batches = [&x[..x.len() - 2], &y[..y.len() - 2]];
    let both = both_indices(d, c, 2, (0, 1), batches);
    let sorted = [c.flag(2) && c.flag(0), c.flag(2) && c.flag(1)].map(Arg::Bool).to_vec();
    d.emit("GatherMM", sorted, [&c.inputs[..2], &both].concat(), c.outs.clone())
}

/// Parameters as the primitive's own; where a pad behind each axis is known, it comes as a seventh.
fn convolution(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (groups, flip) = (c.int(0), c.flag(1));
    let (stride, low, dilation, apart) = (c.ints(2), c.ints(3), c.ints(4), c.ints(5));
    let (x, w, out) = (d.shape(c.inputs[0]), d.shape(c.inputs[1]), c.shape());
    let high: Vec<i64> = (0..stride.len())
        .map(|i| {
            let input = (x[i + 1] - 1) * apart[i] + 1;
            let kernel = (w[i + 1] - 1) * dilation[i] + 1;
            // The output leaves several open; the same as before if that is one of them.
            let least = (out[i + 1] - 1) * stride[i] + kernel - input - low[i];
            if (least..least + stride[i]).contains(&low[i]) { low[i] } else { least }
        })
        .collect();
    let mut args = [stride, low, high, dilation, apart].map(Arg::List).to_vec();
    args.extend([Arg::Int(groups), Arg::Bool(flip)]);
    d.emit("Convolution", args, c.inputs.clone(), c.outs.clone())
}

/// Multiplied with what the norm adds to MLX's own factor.
fn fft_scaled(d: &mut Draft, out: usize, factor: f64) -> usize {
    if (factor - 1.0).abs() < 1e-6 {
        return out;
    }
    let factor = d.scalar(factor, d.dtype(out));
    d.binary("Multiply", out, factor)
}

fn fft(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (axis, n, inverse) = (c.int(1), c.int(2), c.name == "irfft" || c.flag(3));
    vec![transform(d, c, &[axis], inverse, matches!(c.name, "rfft" | "irfft"), (n, c.float(4)))]
}

/// Several axes at once. Parameters: axes, inverse, real, number of points, scale.
fn fft_axes(d: &mut Draft, c: &Call) -> Vec<usize> {
    vec![transform(d, c, &c.ints(0), c.flag(1), c.flag(2), (c.int(3), c.float(4)))]
}

fn transform(
    d: &mut Draft,
    c: &Call,
    axes: &[i64],
    inverse: bool,
    real: bool,
    (n, scale): (i64, f64),
) -> usize {
    let from = if real && !inverse { Dtype::F32 } else { Dtype::C64 };
    let x = d.cast(c.input(), from);
    let args = vec![list(axes), Arg::Bool(inverse), Arg::Bool(real), Arg::Bool(false)];
    let out = d.one("FFT", args, vec![x], c.shape(), c.dtype());
    fft_scaled(d, out, if inverse { scale * n as f64 } else { scale })
}

/// Group size, bits and number of the mode, from parameter 0 on.
fn format(c: &Call) -> Vec<Arg> {
    let mode = ["affine", "mxfp4", "mxfp8", "nvfp4"].iter().position(|m| *m == c.text(0)).unwrap_or(0);
    vec![Arg::Int(c.int(1)), Arg::Int(c.int(2)), Arg::Int(mode as i64)]
}

fn quantize(d: &mut Draft, c: &Call) -> Vec<usize> {
    let mut args = format(c);
    args.push(Arg::Bool(c.name == "dequantize"));
    let inputs = c.inputs.iter().map(|&v| d.any_strides(v)).collect();
    d.emit("Quantize", args, inputs, c.outs.clone())
}

fn quantized_matmul(d: &mut Draft, c: &Call) -> Vec<usize> {
    let mut args = format(c);
    args.push(Arg::Bool(c.flag(3)));
    if c.name == "quantized_matmul" {
        return d.emit("QuantizedMatmul", args, c.inputs.clone(), c.outs.clone());
    }
    let own = c.inputs.len() - usize::from(c.flag(4)) - usize::from(c.flag(5));
    let (x, w) = (d.shape(c.inputs[0]), d.shape(c.inputs[1]));
    let batches = [&x[..x.len() - 2], &w[..w.len() - 2]];
    let both = both_indices(d, c, own, (4, 5), batches);
    args.extend([Arg::Bool(c.flag(6) && c.flag(4)), Arg::Bool(c.flag(6) && c.flag(5))]);
    d.emit("GatherQMM", args, [&c.inputs[..own], &both].concat(), c.outs.clone())
}

fn inverse(d: &mut Draft, c: &Call, triangular: bool, upper: bool) -> Vec<usize> {
    d.emit("Inverse", vec![Arg::Bool(triangular), Arg::Bool(upper)], c.inputs.clone(), c.outs.clone())
}

fn solve_triangular(d: &mut Draft, c: &Call) -> Vec<usize> {
    let a = c.inputs[0];
    let (shape, dtype) = (d.shape(a), d.dtype(a));
    let inverse = d.one("Inverse", vec![Arg::Bool(true), Arg::Bool(c.flag(0))], vec![a], shape, dtype);
    vec![d.matmul(inverse, c.inputs[1])]
}

fn eigh(d: &mut Draft, c: &Call) -> Vec<usize> {
    let triangle = if c.flag(1) { "U" } else { "L" };
    d.emit("Eigh", vec![Arg::Text(triangle.into()), Arg::Bool(c.flag(0))], c.inputs.clone(), c.outs.clone())
}

fn bits(d: &mut Draft, key: usize, shape: &[i64], dtype: Dtype) -> usize {
    let args = vec![tuple(shape), Arg::Int(dtype.size() as i64)];
    d.one("RandomBits", args, vec![key], shape.into(), dtype)
}

/// Uniform numbers between two others.
fn uniform(d: &mut Draft, key: usize, low: usize, high: usize, shape: &[i64]) -> usize {
    let range = d.binary("Subtract", high, low);
    let range = d.broadcast(range, shape);
    let words = bits(d, key, shape, Dtype::U32);
    let words = d.cast(words, Dtype::F32);
    let all = d.scalar(f64::from(u32::MAX), Dtype::F32);
    let unit = d.binary("Divide", words, all);
    let most = d.scalar(f64::from(BELOW_ONE), Dtype::F32);
    let unit = d.binary("Minimum", unit, most);
    let out = d.binary("Multiply", range, unit);
    d.binary("Add", out, low)
}

fn random(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (key, shape) = (c.input(), c.shape());
    if d.ndim(key) != 1 {
        return own(d, c);
    }
    let draw = c.int(0);
    if draw == 0 {
        return vec![bits(d, key, &shape, c.dtype())];
    }
    if draw == 1 {
        // The bounds that `uniform` has of its own are whole numbers.
        let (high, low) = (d.scalar(1.0, Dtype::I32), d.scalar(0.0, Dtype::I32));
        let (high, low) = (d.cast(high, Dtype::F32), d.cast(low, Dtype::F32));
        return vec![uniform(d, key, low, high, &shape)];
    }
    let (low, high) = (d.scalar(-f64::from(BELOW_ONE), Dtype::F32), d.scalar(1.0, Dtype::F32));
    let mut out = uniform(d, key, low, high, &shape);
    if draw >= 3 {
        out = d.unary("ErfInv", out);
    }
    if draw == 4 {
        let root = d.scalar(std::f64::consts::SQRT_2, Dtype::F32);
        out = d.binary("Multiply", root, out);
    }
    vec![out]
}

/// Inputs: the key and the probability.
fn bernoulli(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (key, p) = (c.inputs[0], c.inputs[1]);
    let words = bits(d, key, &c.shape(), Dtype::U32);
    let words = d.cast(words, Dtype::F32);
    let all = d.scalar(f64::from(u32::MAX), Dtype::F32);
    let bound = d.binary("Multiply", p, all);
    vec![d.compare("Less", words, bound)]
}
