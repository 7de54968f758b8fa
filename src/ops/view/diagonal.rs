//! Diagonals of matrices: a view of them, matrices made from them, and their sum.

use std::any::Any;

use super::concatenate::{PadMode, pad};
use super::lengths_vary;
use super::{expand_dims, transpose};
use crate::bail;
use crate::core::layout::checked_size;
use crate::core::notes::note;
use crate::core::primitive::cannot_follow;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Strides, Vjp,
    Vmap,
};
use crate::ops::batching::{batched, front};
use crate::ops::composed;
use crate::ops::composite;
use crate::ops::create::{places, zeros};
use crate::ops::elementwise::{astype, equal, select};
use crate::ops::reduce::sum;
use crate::ops::support::scalar_i64;
use crate::params;

/// View of the elements (i, i + offset) over two axes, as a new last axis.
#[derive(PartialEq)]
struct Diagonal {
    offset: i64,
    rows: usize,
    cols: usize,
}

impl Diagonal {
    /// Shape of the diagonals of an array.
    fn shape(&self, of: &[i64]) -> Shape {
        let kept = (0..of.len()).filter(|&i| i != self.rows && i != self.cols);
        kept.map(|i| of[i]).chain([length(of[self.rows], of[self.cols], self.offset)]).collect()
    }

    fn eval(&self, input: &Array, out: &Array) -> Result<()> {
        let d = input.data()?;
        let (r, c) = (d.strides[self.rows], d.strides[self.cols]);
        let kept = (0..input.ndim()).filter(|&i| i != self.rows && i != self.cols);
        let strides: Strides = kept.map(|i| d.strides[i]).chain([r + c]).collect();
        let skip = if self.offset >= 0 { self.offset * c } else { -self.offset * r };
        let start = if out.size() > 0 { d.offset + skip } else { d.offset };
        out.set_data(strides, start, d.storage.clone());
        Ok(())
    }
}

impl Primitive for Diagonal {
    fn name(&self) -> &str {
        "diagonal"
    }

    fn is_view(&self) -> bool {
        true
    }

    fn params(&self) -> Option<Vec<Param>> {
        Some(params_of(self.offset, self.rows, self.cols))
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(&inputs[0], &outputs[0])
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(&inputs[0], &outputs[0])
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let x = &r.primals[0];
        let (n, m) = (x.shape()[self.rows], x.shape()[self.cols]);
        let placed = matrices(&r.cotangents[0], n, m, self.offset, r.stream)?;
        // Rows and columns are the last two axes now; put them back.
        let mut back = vec![0i64; x.ndim()];
        let kept = (0..x.ndim()).filter(|&i| i != self.rows && i != self.cols);
        for (from, axis) in kept.chain([self.rows, self.cols]).enumerate() {
            back[axis] = from as i64;
        }
        Ok(vec![Some(transpose(&placed, Some(&back), r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let (rows, cols) = (self.rows as i64, self.cols as i64);
        Ok(Some(vec![Some(diagonal(&r.tangents[0], self.offset, rows, cols, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let (rows, cols) = (self.rows as i64 + 1, self.cols as i64 + 1);
        diagonal(&front(r, 0)?, self.offset, rows, cols, r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![self.shape(inputs[0].shape())])
    }
}

/// A stored diagonal.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    diagonal(c.input()?, c.int(0)?, c.int(1)?, c.int(2)?, c.stream)
}

fn params_of(offset: i64, rows: usize, cols: usize) -> Vec<Param> {
    vec![offset.into(), rows.into(), cols.into()]
}

/// A stored matrix made from a vector.
pub(in crate::ops) fn restore_diag(c: &Stored) -> Result<Array> {
    diag(c.input()?, c.int(0)?, c.stream)
}

/// Length of diagonal `offset` of an n by m matrix.
fn length(n: i64, m: i64, offset: i64) -> i64 {
    if offset >= 0 { n.min(m - offset).max(0) } else { (n + offset).min(m).max(0) }
}

/// Matrices (.., n, m) that are zero but for diagonal `offset`, which holds the last axis of `values`.
fn matrices(values: &Array, n: i64, m: i64, offset: i64, s: Stream) -> Result<Array> {
    let (last, len) = (values.ndim() - 1, values.dim(-1));
    let mut shape: Shape = values.shape()[..last].into();
    shape.extend([n, m]);
    checked_size("diag", &shape, values.dtype().size())?;
    if values.size() == 0 || n == 0 || m == 0 {
        return zeros(&shape, values.dtype(), s);
    }
    let zero = scalar_i64(0, values.dtype())?;
    let above = (-offset).max(0);
    let mut widths = vec![(0, 0); values.ndim()];
    widths[last] = (above, n - len - above);
    let column = expand_dims(&pad(values, &widths, PadMode::Constant, &zero, s)?, &[-1], s)?;
    if lengths_vary() {
        return Err(cannot_follow("eye"));
    }
    let (rows, cols) = places(n, m, offset, s)?;
    composed("diag", 0, &[rows, cols, column, zero], s, &|x| {
        select(&equal(&x[0], &x[1], s)?, &x[2], &x[3], s)
    })
}

/// The elements (i, i + offset) of the matrices over `axis1` and `axis2`, as a new last axis. A view.
pub fn diagonal(a: &Array, offset: i64, axis1: i64, axis2: i64, s: Stream) -> Result<Array> {
    diagonal_of("diagonal", a, offset, axis1, axis2, s)
}

fn diagonal_of(op: &str, a: &Array, offset: i64, axis1: i64, axis2: i64, s: Stream) -> Result<Array> {
    let nd = a.ndim() as i64;
    if nd < 2 {
        bail!(Value, "[{op}] Array must have at least two dimensions, but got {nd} dimensions.");
    }
    let axis = |name: &str, ax: i64| {
        if ax < -nd || ax >= nd {
            bail!(Index, "[{op}] Invalid {name} {ax} for array with {nd} dimensions.");
        }
        Ok(ax.rem_euclid(nd) as usize)
    };
    let (rows, cols) = (axis("axis1", axis1)?, axis("axis2", axis2)?);
    if rows == cols {
        bail!(Value, "[{op}] axis1 and axis2 cannot be the same axis.");
    }
    // The offset is held inside the matrix, whose lengths may be others later.
    if let Some(out) = composite::one("diagonal", || params_of(offset, rows, cols), &[a], s)? {
        return Ok(out);
    }
    let (n, m) = (a.shape()[rows], a.shape()[cols]);
    let offset = offset.clamp(-n, m);
    let view = Diagonal { offset, rows, cols };
    Array::lazy(view.shape(a.shape()), a.dtype(), view, vec![a.clone()], s)
}

/// A matrix with the vector `a` on diagonal `k`, or diagonal `k` of the matrix `a`.
pub fn diag(a: &Array, k: i64, s: Stream) -> Result<Array> {
    match a.ndim() {
        1 => {
            if let Some(out) = composite::one("diag", || vec![k.into()], &[a], s)? {
                return Ok(out);
            }
            let n = a.shape()[0].saturating_add(k.saturating_abs());
            let out = matrices(a, n, n, k, s)?;
            note(std::slice::from_ref(&out), || ("diagonal_matrix", params![k], vec![a.clone()]));
            Ok(out)
        }
        2 => diagonal_of("diag", a, k, 0, 1, s),
        n => bail!(Value, "[diag] array must be 1-D or 2-D, got array with {n} dimensions."),
    }
}

/// Sum of a diagonal, converted to `dtype` first if one is given.
pub fn trace(
    a: &Array,
    offset: i64,
    axis1: i64,
    axis2: i64,
    dtype: Option<Dtype>,
    s: Stream,
) -> Result<Array> {
    let d = diagonal_of("trace", a, offset, axis1, axis2, s)?;
    sum(&astype(&d, dtype.unwrap_or(d.dtype()), s)?, Some(&[-1]), false, s)
}
