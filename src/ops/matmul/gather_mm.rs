//! Products of matrices that are picked by index from batches, as in mixtures of experts: the kernels read
//! the indices and multiply the matrices where they lie. Derivatives with respect to a picked operand add
//! up by index: rows are put in the order of their indices, and each index gets the product of its segment.

use std::any::Any;

use smallvec::SmallVec;

use super::products::real_dtype;
use super::segmented_mm::segmented_mm;
use super::{matmul, matrices};
use crate::bail;
use crate::core::layout::{broadcast_shapes, checked_size, show};
use crate::core::primitive::Direction;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::composite;
use crate::ops::elementwise::{add, astype, less, multiply, select};
use crate::ops::index::indexing::take;
use crate::ops::ranges::arange;
use crate::ops::reduce::sum;
use crate::ops::sort::argsort;
use crate::ops::support::*;
use crate::ops::view::{broadcast_to, reshape, slice, squeeze, swapaxes};
use crate::ops::{ones, stack};
use crate::params;

/// Inputs: both operands, then the indices of those that have some. An operand with indices is (n, rows,
/// cols), one without has the batch axes of the result.
#[derive(PartialEq)]
struct GatherMm {
    lhs: bool,
    rhs: bool,
    /// The indices of the only indexed operand do not decrease.
    sorted: bool,
}

/// Both operands with the indices into them.
struct Picked<'a> {
    a: &'a Array,
    b: &'a Array,
    lhs: Option<&'a Array>,
    rhs: Option<&'a Array>,
}

impl GatherMm {
    fn split<'a>(&self, inputs: &'a [Array]) -> Picked<'a> {
        let lhs = self.lhs.then(|| &inputs[2]);
        let rhs = self.rhs.then(|| &inputs[2 + usize::from(self.lhs)]);
        Picked { a: &inputs[0], b: &inputs[1], lhs, rhs }
    }

    /// The product, with other operands but the same indices.
    fn product(&self, p: Picked, s: Stream) -> Result<Array> {
        let Picked { a, b, lhs, rhs } = p;
        let batch = match lhs.or(rhs) {
            Some(index) => index.shape(),
            None => return matmul(a, b, s),
        };
        let shape: Shape = batch.iter().copied().chain([a.dim(-2), b.dim(-1)]).collect();
        checked_size("gather_mm", &shape, a.dtype().size())?;
        let mut inputs = vec![a.clone(), b.clone()];
        inputs.extend(lhs.cloned());
        inputs.extend(rhs.cloned());
        let op = GatherMm { lhs: lhs.is_some(), rhs: rhs.is_some(), sorted: self.sorted };
        Array::lazy(shape, a.dtype(), op, inputs, s)
    }
}

/// Rows in the order of their indices.
struct Groups {
    /// Positions in that order; `None` where they are in it already.
    order: Option<Array>,
    /// First row and end of each index, (n, 2).
    segments: Array,
}

impl Groups {
    fn new(index: &Array, n: i64, sorted: bool, s: Stream) -> Result<Groups> {
        let flat = wrapped(&reshape(index, &[-1], s)?, n, s)?;
        let order = if sorted { None } else { Some(argsort(&flat, Some(0), s)?) };
        let keys = match &order {
            Some(o) => take(&flat, o, Some(0), s)?,
            None => flat,
        };
        let every = reshape(&arange(0.0, (n + 1) as f64, 1.0, Dtype::I32, s)?, &[n + 1, 1], s)?;
        let before = less(&astype(&keys, Dtype::I32, s)?, &every, s)?;
        let starts = sum(&before, Some(&[1]), false, s)?;
        let part = |from: i64, to: i64| slice(&starts, &[from], &[to], &[1], s);
        Ok(Groups { order, segments: stack(&[part(0, n)?, part(1, n + 1)?], 1, s)? })
    }

    fn ordered(&self, rows: &Array, s: Stream) -> Result<Array> {
        match &self.order {
            Some(o) => take(rows, o, Some(0), s),
            None => Ok(rows.clone()),
        }
    }
}

/// Signed indices that count from the end, made positive.
pub(in crate::ops) fn wrapped(index: &Array, n: i64, s: Stream) -> Result<Array> {
    if index.dtype() == Dtype::U32 {
        return Ok(index.clone());
    }
    let end = add(index, &scalar_i64(n, index.dtype())?, s)?;
    select(&less(index, &scalar_i64(0, index.dtype())?, s)?, &end, index, s)
}

/// Sums of the items of `x`, (batch.., rows, cols), that have the same index: (n, rows, cols).
pub(in crate::ops) fn total_by_index(
    x: &Array,
    index: &Array,
    n: i64,
    sorted: bool,
    s: Stream,
) -> Result<Array> {
    let (rows, cols) = (x.dim(-2), x.dim(-1));
    let count = index.size() as i64;
    let groups = Groups::new(index, n, sorted, s)?;
    let flat = groups.ordered(&reshape(x, &[count, rows * cols], s)?, s)?;
    let total = segmented_mm(&ones(&[1, count], x.dtype(), s)?, &flat, &groups.segments, s)?;
    reshape(&total, &[n, rows, cols], s)
}

/// Cotangent (n, k, columns) of right matrices that were picked by `index`, from that of the products: the sum
/// of `a^T @ cot` over those that met each matrix. `a` is (.., rows, k), picked by `lhs` if there is one.
pub(in crate::ops) fn right_gradient(
    a: &Array,
    lhs: Option<&Array>,
    cot: &Array,
    index: &Array,
    n: i64,
    sorted: bool,
    s: Stream,
) -> Result<Array> {
    let (m, k, cols, count) = (a.dim(-2), a.dim(-1), cot.dim(-1), index.size() as i64);
    let groups = Groups::new(index, n, sorted, s)?;
    let left = match lhs {
        Some(l) => take(a, &groups.ordered(&reshape(l, &[-1], s)?, s)?, Some(0), s)?,
        None => groups.ordered(&reshape(a, &[count, m, k], s)?, s)?,
    };
    let right = groups.ordered(&reshape(cot, &[count, m, cols], s)?, s)?;
    let left = swapaxes(&reshape(&left, &[count * m, k], s)?, 0, 1, s)?;
    let right = reshape(&right, &[count * m, cols], s)?;
    let rows = multiply(&groups.segments, &scalar_i64(m, Dtype::I32)?, s)?;
    segmented_mm(&left, &right, &rows, s)
}

impl Primitive for GatherMm {
    fn name(&self) -> &str {
        "gather_mm"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.lhs, self.rhs, self.sorted]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let p = self.split(inputs);
        let (a, b) = (host_in(p.a)?, host_in(p.b)?);
        let (lhs, rhs) = (p.lhs.map(host_in).transpose()?, p.rhs.map(host_in).transpose()?);
        crate::cpu::matmul::gather_mm::gather_mm(&a, &b, lhs.as_ref(), rhs.as_ref(), &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let p = self.split(inputs);
            let (a, b) = (dev_in(enc, p.a)?, dev_in(enc, p.b)?);
            let lhs = p.lhs.map(|x| dev_in(enc, x)).transpose()?;
            let rhs = p.rhs.map(|x| dev_in(enc, x)).transpose()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::matmul::gather_mm::gather_mm(
                enc,
                &a,
                &b,
                lhs.as_ref(),
                rhs.as_ref(),
                &dst,
                self.sorted,
            )
        })
    }

    fn refuses(&self, way: Direction, input: usize) -> Option<Error> {
        (input > 1).then(|| way.of_indices("GatherMM"))
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let s = r.stream;
        let Picked { a, b, lhs, rhs } = self.split(r.primals);
        let cot = &r.cotangents[0];
        r.each(|i| match i {
            0 => {
                let back = swapaxes(b, -1, -2, s)?;
                let g = self.product(Picked { a: cot, b: &back, lhs: None, rhs }, s)?;
                match lhs {
                    Some(index) => total_by_index(&g, index, a.shape()[0], self.sorted, s).map(Some),
                    None => Ok(Some(g)),
                }
            }
            1 => {
                let Some(index) = rhs else {
                    let back = swapaxes(a, -1, -2, s)?;
                    return self.product(Picked { a: &back, b: cot, lhs, rhs: None }, s).map(Some);
                };
                let n = b.shape()[0];
                right_gradient(a, lhs, cot, index, n, self.sorted, s).map(Some)
            }
            _ => Ok(None),
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let mut total = None;
        for (i, t) in [0, 1].into_iter().filter_map(|i| r.tangent(i).map(|t| (i, t))) {
            let p = self.split(r.primals);
            let p = if i == 0 { Picked { a: t, ..p } } else { Picked { b: t, ..p } };
            total = plus(total, self.product(p, r.stream)?, r.stream)?;
        }
        Ok(Some(vec![total]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let lhs = self.lhs.then_some(2);
        let rhs = self.rhs.then_some(2 + usize::from(self.lhs));
        let (a, lhs) = side(r, 0, lhs)?;
        let (b, rhs) = side(r, 1, rhs)?;
        let op = GatherMm { sorted: false, ..*self };
        let p = Picked { a: &a, b: &b, lhs: lhs.as_ref(), rhs: rhs.as_ref() };
        op.product(p, r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let Picked { a, b, lhs, rhs } = self.split(inputs);
        if a.dim(-1) != b.dim(-2) {
            bail!(Value, "[gather_mm] Cannot multiply {} by {}.", show(a.shape()), show(b.shape()));
        }
        // INVARIANT: an operand has indices.
        let batch = lhs.or(rhs).map_or(&[][..], Array::shape);
        let side = |x: &Array, index: Option<&Array>| match index {
            Some(i) => i.shape() == batch && x.ndim() == 3 && (x.shape()[0] > 0 || i.size() == 0),
            None => &x.shape()[..x.ndim() - 2] == batch,
        };
        if !side(a, lhs) || !side(b, rhs) {
            bail!(Value, "[gather_mm] Operands do not fit indices of shape {}.", show(batch));
        }
        Ok(vec![batch.iter().copied().chain([a.dim(-2), b.dim(-1)]).collect()])
    }
}

/// A stored product.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let op = GatherMm { lhs: c.flag(0)?, rhs: c.flag(1)?, sorted: c.flag(2)? };
    if c.inputs.len() != 2 + usize::from(op.lhs) + usize::from(op.rhs) || !(op.lhs || op.rhs) {
        bail!(Value, "[gather_mm] Expected indices for a flagged operand, got {} inputs.", c.inputs.len());
    }
    let p = op.split(c.inputs);
    gather_mm(p.a, p.b, p.lhs, p.rhs, op.sorted, c.stream)
}

/// An operand and its indices over a batch, which comes first in what the result's shape follows. Where the
/// matrices vary, those of all items are one batch, and the indices of each move on to its own.
fn side(r: &Vmap, operand: usize, index: Option<usize>) -> Result<(Array, Option<Array>)> {
    let s = r.stream;
    let Some(index) = index else { return Ok((with_batch(r, operand)?, None)) };
    let index = with_batch(r, index)?;
    if r.axes[operand].is_none() {
        return Ok((r.inputs[operand].clone(), Some(index)));
    }
    let x = front(r, operand)?;
    let (n, count) = (x.shape()[0], x.shape()[1]);
    let flat = reshape(&x, &[n * count, x.dim(-2), x.dim(-1)], s)?;
    let mut shape = vec![1i64; index.ndim()];
    shape[0] = n;
    let item = reshape(&arange(0.0, n as f64, 1.0, Dtype::I32, s)?, &shape, s)?;
    let first = multiply(&item, &scalar_i64(count, Dtype::I32)?, s)?;
    let moved = add(&astype(&wrapped(&index, count, s)?, Dtype::I32, s)?, &first, s)?;
    Ok((flat, Some(astype(&moved, Dtype::U32, s)?)))
}

/// Indices as the kernels read them.
pub(in crate::ops) fn narrow(op: &str, index: &Array, s: Stream) -> Result<Array> {
    if !index.dtype().is_integer() {
        bail!(Value, "[{op}] Got indices with invalid dtype. Indices must be integral.");
    }
    let signed = index.dtype().kind() == crate::core::Kind::Signed;
    astype(index, if signed { Dtype::I32 } else { Dtype::U32 }, s)
}

/// A stored product as the public op has it.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let [a, b, indices @ ..] = c.inputs else { return c.unknown() };
    let mut indices = indices.iter();
    let lhs = if c.flag(0)? { indices.next() } else { None };
    let rhs = if c.flag(1)? { indices.next() } else { None };
    gather_mm(a, b, lhs, rhs, c.flag(2)?, c.stream)
}

/// `a[lhs] @ b[rhs]` for matrices picked by flat indices over the batch axes; an operand without indices
/// takes part with its own batch axes. The indices broadcast, and their shape leads that of the result.
/// `sorted` promises that the indices of the only indexed operand do not decrease.
pub fn gather_mm(
    a: &Array,
    b: &Array,
    lhs: Option<&Array>,
    rhs: Option<&Array>,
    sorted: bool,
    s: Stream,
) -> Result<Array> {
    const OP: &str = "gather_mm";
    if lhs.is_none() && rhs.is_none() {
        return matmul(a, b, s);
    }
    let inputs: SmallVec<[&Array; 4]> = [Some(a), Some(b), lhs, rhs].into_iter().flatten().collect();
    let given = || vec![lhs.is_some().into(), rhs.is_some().into(), sorted.into()];
    if let Some(out) = composite::one("gather_matmul", given, &inputs, s)? {
        return Ok(out);
    }
    let (x, y) = matrices(OP, a, b, s)?;
    let dtype = real_dtype(OP, a, b)?;
    let index = |i: Option<&Array>| i.map(|i| narrow(OP, i, s)).transpose();
    let (lhs, rhs) = (index(lhs)?, index(rhs)?);
    let outer = |x: &Array, i: &Option<Array>| -> Shape {
        i.as_ref().map_or(&x.shape()[..x.ndim() - 2], Array::shape).into()
    };
    let batch = broadcast_shapes(OP, &outer(&x, &lhs), &outer(&y, &rhs))?;
    let operand = |x: &Array, index: &Option<Array>| -> Result<(Array, Option<Array>)> {
        let x = astype(x, dtype, s)?;
        let (rows, cols) = (x.dim(-2), x.dim(-1));
        let Some(index) = index else {
            let shape: Shape = batch.iter().copied().chain([rows, cols]).collect();
            return Ok((broadcast_to(&x, &shape, s)?, None));
        };
        let count = x.shape()[..x.ndim() - 2].iter().product();
        if count == 0 && batch.iter().all(|&d| d > 0) {
            bail!(Value, "[{OP}] Cannot pick matrices from an empty batch, got shape {}.", show(x.shape()));
        }
        Ok((reshape(&x, &[count, rows, cols], s)?, Some(broadcast_to(index, &batch, s)?)))
    };
    let ((x, lhs), (y, rhs)) = (operand(&x, &lhs)?, operand(&y, &rhs)?);
    refuse_f64(OP, std::slice::from_ref(&x), s)?;
    let op =
        GatherMm { lhs: lhs.is_some(), rhs: rhs.is_some(), sorted: sorted && lhs.is_some() != rhs.is_some() };
    let mut out = op.product(Picked { a: &x, b: &y, lhs: lhs.as_ref(), rhs: rhs.as_ref() }, s)?;
    if a.ndim() == 1 {
        out = squeeze(&out, Some(&[-2]), s)?;
    }
    if b.ndim() == 1 {
        out = squeeze(&out, Some(&[-1]), s)?;
    }
    Ok(out)
}
