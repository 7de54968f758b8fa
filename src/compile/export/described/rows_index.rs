//! Reading and writing by index. MLX's gather has the axes of the indices first and keeps an axis of length one (or of
//! the window) for each axis that is indexed; ours has them where Python's indexing puts them, and no others.

use super::draft::{Draft, list, tuple};
use super::{Arg, Call, Row, Spec};
use crate::core::Shape;

pub(super) const ROWS: &[(&[&str], Row)] = &[
    (&["gather"], gather),
    (&["take_along_axis"], |d, c| {
        d.emit("GatherAxis", vec![list(&c.ints(1)[..1]).first()], c.inputs.clone(), c.outs.clone())
    }),
    (&["scatter", "scatter_add", "scatter_prod", "scatter_max", "scatter_min"], scatter),
    (&["put_along_axis"], put_along_axis),
    (&["dynamic_slice"], |d, c| {
        let args = vec![list(&c.ints(0)), tuple(&c.shape())];
        d.emit("DynamicSlice", args, c.inputs.clone(), c.outs.clone())
    }),
    (&["dynamic_slice_update"], |d, c| {
        d.emit("DynamicSliceUpdate", vec![list(&c.ints(0))], c.inputs.clone(), c.outs.clone())
    }),
    (&["searchsorted"], search),
];

impl Arg {
    /// The first of a list, alone.
    fn first(self) -> Arg {
        match self {
            Arg::List(v) => Arg::Int(v.first().copied().unwrap_or(0)),
            other => other,
        }
    }
}

/// How the axes of a read by index lie on both sides.
struct Layout {
    /// Axes that are indexed.
    axes: Vec<i64>,
    /// What an index stands for.
    window: Shape,
    /// Axes of the index arrays.
    index: Shape,
    /// How many axes of the window stand before those of the index arrays.
    before: usize,
    /// Axes of the window that are no axes of the result.
    dropped: Vec<usize>,
}

impl Layout {
    fn new(d: &Draft, c: &Call, base: usize, indices: &[usize]) -> Layout {
        let (at, axes, windows) = (c.int(0), c.ints(1), c.ints(2));
        let mut window = d.shape(base);
        let mut dropped = Vec::new();
        for (&axis, &w) in axes.iter().zip(&windows) {
            window[axis as usize] = w.max(1).min(if w == 0 { 0 } else { i64::MAX });
            if w < 0 {
                window[axis as usize] = 1;
                dropped.push(axis as usize);
            }
        }
        let mut before = 0;
        let mut kept = 0;
        while kept < at {
            kept += i64::from(!dropped.contains(&before));
            before += 1;
        }
        let index = indices.first().map_or_else(Shape::new, |&i| d.shape(i));
        Layout { axes, window, index, before, dropped }
    }

    /// Shape of MLX's side.
    fn shape(&self) -> Shape {
        self.index.iter().chain(&self.window).copied().collect()
    }

    /// Where the axes of ours are on MLX's side, with those that ours does not have.
    fn order(&self) -> Vec<i64> {
        let (k, n) = (self.index.len() as i64, self.window.len() as i64);
        let before = self.before as i64;
        (k..k + before).chain(0..k).chain(k + before..k + n).collect()
    }

    /// The axes that ours does not have, on that side with all of them.
    fn extra(&self) -> Vec<i64> {
        let k = self.index.len();
        let mut extra: Vec<i64> =
            self.dropped.iter().map(|&a| if a < self.before { a } else { a + k } as i64).collect();
        extra.sort_unstable();
        extra
    }
}

fn gather(d: &mut Draft, c: &Call) -> Vec<usize> {
    let l = Layout::new(d, c, c.input(), &c.inputs[1..]);
    let spec: Spec = (l.shape(), c.dtype());
    let args = vec![list(&l.axes), tuple(&l.window)];
    let mut out = d.emit("Gather", args, c.inputs.clone(), vec![spec])[0];
    if l.before > 0 {
        out = d.transpose(out, &l.order());
    }
    vec![d.squeeze(out, &l.extra())]
}

/// Number and label of how updates are combined with what is there.
fn combine(name: &str) -> (i64, &'static str) {
    match name {
        "scatter_max" => (0, "Scatter Max"),
        "scatter_min" => (1, "Scatter Min"),
        "scatter_add" => (2, "Scatter Sum"),
        "scatter_prod" => (3, "Scatter Prod"),
        _ => (4, "Scatter"),
    }
}

fn scatter(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (source, updates, indices) = (c.inputs[0], c.inputs[1], &c.inputs[2..]);
    let whole = d.shape(source);
    let part = (c.params.len() > 5).then(|| (c.ints(5), c.ints(6), c.ints(7)));
    let base = match &part {
        Some((start, step, shape)) => d.slice(source, start, step, shape),
        None => source,
    };
    let out = match c.int(0) {
        -1 => along(d, c, base, updates, indices[0]),
        _ => outer(d, c, base, updates, indices),
    };
    let Some((start, step, shape)) = part.filter(|p| p.2 != whole[..]) else { return vec![out] };
    let stop = super::draft::stops(&start, &step, &shape, &whole);
    let args = vec![Arg::Int(4), tuple(&start), tuple(&stop), tuple(&step)];
    d.emit("SliceUpdate", args, vec![source, out], c.outs.clone())
}

fn outer(d: &mut Draft, c: &Call, base: usize, updates: usize, indices: &[usize]) -> usize {
    let l = Layout::new(d, c, base, indices);
    let mut updates = updates;
    if l.before > 0 {
        // With all axes, then in MLX's order.
        let order = l.order();
        let shape = l.shape();
        let apart: Vec<i64> = order.iter().map(|&a| shape[a as usize]).collect();
        updates = d.reshape(updates, &apart);
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &a)| back[a as usize] = i as i64);
        updates = d.transpose(updates, &back);
    }
    let updates = d.reshape(updates, &l.shape());
    let (mode, label) = combine(c.name);
    let inputs: Vec<usize> = [base].iter().chain(indices).copied().chain([updates]).collect();
    let spec: Spec = (d.shape(base), c.dtype());
    d.labelled("Scatter", label, vec![Arg::Int(mode), list(&l.axes)], inputs, vec![spec])[0]
}

/// MLX searches one sequence; ours has several as the rows of a matrix.
fn search(d: &mut Draft, c: &Call) -> Vec<usize> {
    let sequence = match d.shape(c.inputs[0])[..] {
        [_] => c.inputs[0],
        [1, n] => d.reshape(c.inputs[0], &[n]),
        _ => return super::own(d, c),
    };
    d.emit("SearchSorted", vec![Arg::Bool(c.flag(0))], vec![sequence, c.inputs[1]], c.outs.clone())
}

/// Parameters: the axis, and whether the values are added.
fn put_along_axis(d: &mut Draft, c: &Call) -> Vec<usize> {
    let (base, axis) = (c.inputs[0], c.int(0) as usize);
    let both = d.together(&c.inputs[1..]);
    let mut shape = d.shape(base);
    shape[axis] = d.shape(both[1]).get(axis).copied().unwrap_or(1);
    let (indices, values) = (d.broadcast(c.inputs[1], &shape), d.broadcast(both[1], &shape));
    let args = vec![Arg::Int(i64::from(!c.flag(1))), Arg::Int(c.int(0))];
    d.emit("ScatterAxis", args, vec![base, indices, values], c.outs.clone())
}

/// MLX writes along an axis only over or on top of what is there.
fn along(d: &mut Draft, c: &Call, base: usize, updates: usize, indices: usize) -> usize {
    let axis = c.ints(1).first().copied().unwrap_or(0);
    let spec: Spec = (d.shape(base), c.dtype());
    let mode = match c.name {
        "scatter_add" => 0,
        "scatter" => 1,
        _ => return super::own(d, c)[0],
    };
    let args = vec![Arg::Int(mode), Arg::Int(axis)];
    d.labelled("ScatterAxis", "ScatterAxis", args, vec![base, indices, updates], vec![spec])[0]
}
