//! Views: where MLX has one primitive for each of the ways to say a shape, with its own parameters.

use super::draft::{Draft, list, marked, stops, tuple};
use super::rows_diagonal::{arange, diagonal, diagonal_matrix, triangle};
use super::{Arg, Call, Row};
use crate::core::Shape;

pub(super) const ROWS: &[(&[&str], Row)] = &[
    (&["reshape"], reshape),
    (&["transpose"], |d, c| vec![d.transpose(c.input(), &c.ints(0))]),
    (&["slice"], slice),
    (&["item"], item),
    (&["split"], split),
    (&["as_strided"], as_strided),
    (&["view"], view),
    (&["broadcast_to"], |d, c| vec![d.broadcast(c.input(), &c.shape())]),
    (&["broadcast_with"], broadcast_with),
    (&["alias"], |_, c| c.inputs.clone()),
    (&["stop_gradient"], |d, c| d.emit("StopGradient", vec![], c.inputs.clone(), c.outs.clone())),
    (&["contiguous"], |d, c| d.emit("Contiguous", vec![], c.inputs.clone(), c.outs.clone())),
    (&["diagonal"], diagonal),
    (&["diagonal_matrix"], diagonal_matrix),
    (&["slice_update"], slice_update),
    (&["pad"], pad),
    (&["concatenate"], |d, c| {
        d.emit("Concatenate", vec![Arg::Int(c.int(0))], c.inputs.clone(), c.outs.clone())
    }),
    (&["full"], |d, c| vec![d.full(c.input(), &c.shape())]),
    (&["arange"], arange),
    (&["tri"], triangle),
    (&["tile"], tile),
];

pub(super) fn reshape(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = c.input();
    match c.text(0) {
        "flatten" if d.ndim(x) > 0 => vec![d.flatten(x, c.int(1) as usize, c.int(2) as usize)],
        "unflatten" => {
            d.emit("Unflatten", vec![Arg::Int(c.int(1)), tuple(&c.ints(2))], vec![x], c.outs.clone())
        }
        "expand" => vec![d.expand(x, &marked(&c.ints(1)))],
        "squeeze" => vec![d.squeeze(x, &marked(&c.ints(1)))],
        "shape" => d.emit("Reshape", vec![tuple(&c.ints(1))], vec![x], c.outs.clone()),
        _ => vec![d.reshape(x, &c.shape())],
    }
}

fn slice(d: &mut Draft, c: &Call) -> Vec<usize> {
    vec![d.slice(c.input(), &c.ints(0), &c.ints(1), &c.shape())]
}

/// An element of the first axis, as Python's `x[i]` takes it. Parameter: which.
fn item(d: &mut Draft, c: &Call) -> Vec<usize> {
    let index = d.scalar(c.int(0) as f64, crate::core::Dtype::U32);
    let mut window = d.shape(c.input());
    window[0] = 1;
    let args = vec![list(&[0]), tuple(&window)];
    let dtype = c.dtype();
    let row = d.one("Gather", args, vec![c.input(), index], window, dtype);
    vec![d.squeeze(row, &[0])]
}

/// Parameters: axis, where parts end.
fn split(d: &mut Draft, c: &Call) -> Vec<usize> {
    d.emit("Split", vec![tuple(&c.ints(1)), Arg::Int(c.int(0))], c.inputs.clone(), c.outs.clone())
}

fn as_strided(d: &mut Draft, c: &Call) -> Vec<usize> {
    let x = match d.ndim(c.input()) {
        1 => c.input(),
        _ => d.flat(c.input()),
    };
    let args = vec![tuple(&c.shape()), tuple(&c.ints(0)), Arg::Int(c.int(1))];
    d.emit("AsStrided", args, vec![x], c.outs.clone())
}

fn view(d: &mut Draft, c: &Call) -> Vec<usize> {
    let label = format!("View {}", c.dtype());
    d.labelled("View", &label, vec![Arg::Dtype(c.dtype())], c.inputs.clone(), c.outs.clone())
}

/// Parameter: axes that stay, from the end.
fn broadcast_with(d: &mut Draft, c: &Call) -> Vec<usize> {
    let kept: Vec<i64> = c.ints(0).iter().map(|k| -k).collect();
    let (name, arg) = match kept.is_empty() {
        true => ("Broadcast", tuple(&c.shape())),
        false => ("BroadcastAxes", list(&kept)),
    };
    d.emit(name, vec![arg], c.inputs.clone(), c.outs.clone())
}

/// Parameters: start and step; in notes also how both are joined, after which the update comes as it was given.
fn slice_update(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (start, step) = (c.ints(0), c.ints(1));
    let shape: Shape = match c.params.get(3) {
        Some(crate::core::Param::Ints(v)) => v.as_slice().into(),
        _ => d.shape(c.inputs[1]),
    };
    let (mode, label) = match c.text(2) {
        "max" => (0, "SliceUpdate Max"),
        "min" => (1, "SliceUpdate Min"),
        "sum" => (2, "SliceUpdate Sum"),
        "prod" => (3, "SliceUpdate Prod"),
        _ => (4, "SliceUpdate"),
    };
    let stop = stops(&start, &step, &shape, &c.shape());
    let update = d.broadcast(c.inputs[1], &shape);
    let args = vec![Arg::Int(mode), tuple(&start), tuple(&stop), tuple(&step)];
    d.labelled("SliceUpdate", label, args, vec![c.inputs[0], update], c.outs.clone())
}

/// Parameters: lengths before and after each axis.
fn pad(d: &mut Draft, c: &Call) -> Vec<usize> {
    let axes: Vec<i64> = (0..d.ndim(c.input()) as i64).collect();
    d.emit("Pad", vec![list(&axes), tuple(&c.ints(0)), tuple(&c.ints(1))], c.inputs.clone(), c.outs.clone())
}

/// Parameter: how often along each axis.
fn tile(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (x, reps) = (c.input(), c.ints(0));
    let own = d.shape(x);
    let mut lengths = vec![1; reps.len().saturating_sub(own.len())];
    lengths.extend_from_slice(&own);
    let (mut apart, mut wide) = (Vec::new(), Vec::new());
    for (&n, &r) in lengths.iter().zip(&reps) {
        if r != 1 {
            apart.push(1);
            wide.push(r);
        }
        apart.push(n);
        wide.push(n);
    }
    let apart = d.reshape(x, &apart);
    let wide = d.broadcast(apart, &wide);
    vec![d.reshape(wide, &c.shape())]
}
