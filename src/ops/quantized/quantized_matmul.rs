//! Products with quantised matrices, also with matrices that are picked by index: the kernels read codes and
//! indices where they lie. Codes have no derivative; x, scales and biases have.

use std::any::Any;

use smallvec::smallvec;

use super::quantize::{factor_vjp, value_dtype, with_last};
use crate::bail;
use crate::core::array::Inputs;
use crate::core::layout::{broadcast_shapes, show, size_of};
use crate::core::primitive::Direction;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap,
};
use crate::kernels::View;
use crate::kernels::quantized::quant::{Format, GLOBAL, Mode};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::elementwise::{add, astype, divide, multiply};
use crate::ops::index::indexing::take;
use crate::ops::matmul::gather_mm::{narrow, right_gradient, total_by_index, wrapped};
use crate::ops::matmul::matmul;
use crate::ops::ranges::arange;
use crate::ops::reduce::sum_to;
use crate::ops::support::*;
use crate::ops::view::{broadcast_to, reshape, swapaxes};

/// Inputs: x, codes, scales, biases of affine formats, then the indices that there are. With one matrix of codes
/// and no indices, x is (.., k); else (batch.., rows, k). An operand without indices has the batch of the result
/// or a single matrix.
#[derive(PartialEq, Clone, Copy)]
pub(crate) struct QuantizedMatmul {
    pub format: Format,
    pub transpose: bool,
    lhs: bool,
    rhs: bool,
    /// The indices of the codes do not decrease.
    sorted: bool,
}

/// The inputs by name.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub x: &'a Array,
    pub codes: &'a Array,
    pub scales: &'a Array,
    pub biases: Option<&'a Array>,
    lhs: Option<&'a Array>,
    pub rhs: Option<&'a Array>,
}

/// Matrices of a batch.
fn matrices(a: &Array) -> i64 {
    a.shape()[..a.ndim() - 2].iter().product()
}

impl Parts<'_> {
    /// Whether there is one matrix of codes for all rows of x.
    pub fn plain(&self) -> bool {
        self.codes.ndim() == 2 && self.lhs.is_none() && self.rhs.is_none()
    }

    /// Matrices to pick from, and whether each pick has a row of x of its own; where single rows are multiplied by
    /// matrices that are picked by index.
    pub fn picks(&self) -> Option<(i64, bool)> {
        let count = self.rhs.filter(|_| self.lhs.is_none())?.size() as i64;
        let (rows, own) = (matrices(self.x), self.x.dim(-2) == 1);
        (own && self.codes.ndim() == 3 && (rows == 1 || rows == count))
            .then_some((self.codes.dim(0), rows > 1))
    }
}

/// A view with three axes of the same elements, copied into memory that `hold` keeps where it has to be.
fn three<P: Copy>(
    v: View<P>,
    shape: [i64; 3],
    dense: bool,
    copy: impl FnOnce(&View<P>) -> Result<View<P>>,
) -> Result<View<P>> {
    let kept = if dense && !v.is_row_contiguous() { None } else { v.layout().reshape(&shape) };
    let (ptr, layout) = match kept {
        Some(l) => (v.ptr, l),
        None => {
            let c = copy(&v)?;
            (c.ptr, crate::core::Layout::contiguous(&shape))
        }
    };
    Ok(View { ptr, dtype: v.dtype, shape: layout.shape, strides: layout.strides })
}

impl QuantizedMatmul {
    /// Inputs by name.
    pub fn split<'a>(&self, inputs: &'a [Array]) -> Parts<'a> {
        let affine = usize::from(self.format.affine());
        Parts {
            x: &inputs[0],
            codes: &inputs[1],
            scales: &inputs[2],
            biases: (affine == 1).then(|| &inputs[3]),
            lhs: self.lhs.then(|| &inputs[3 + affine]),
            rhs: self.picks_at().map(|i| &inputs[i]),
        }
    }

    /// The input that has the indices of the codes.
    pub fn picks_at(&self) -> Option<usize> {
        self.rhs.then(|| 3 + usize::from(self.format.affine()) + usize::from(self.lhs))
    }

    /// Columns of the result.
    fn columns(&self, p: &Parts) -> i64 {
        if self.transpose { p.codes.dim(-2) } else { p.scales.dim(-1) * i64::from(self.format.group) }
    }

    fn shape(&self, p: &Parts) -> Result<Shape> {
        let n = self.columns(p);
        if p.plain() {
            return Ok(with_last(p.x.shape(), n));
        }
        let outer = |a: &Array| -> Shape { a.shape()[..a.ndim() - 2].into() };
        let batch: Shape = match p.lhs.or(p.rhs) {
            Some(i) => i.shape().into(),
            None => broadcast_shapes("quantized_matmul", &outer(p.x), &outer(p.codes))?,
        };
        Ok(batch.into_iter().chain([p.x.dim(-2), n]).collect())
    }

    /// The product of such parts.
    fn product(&self, p: Parts, s: Stream) -> Result<Array> {
        let op = QuantizedMatmul { lhs: p.lhs.is_some(), rhs: p.rhs.is_some(), ..*self };
        let shape = op.shape(&p)?;
        let mut inputs: Inputs = smallvec![p.x.clone(), p.codes.clone(), p.scales.clone()];
        for a in [p.biases, p.lhs, p.rhs].into_iter().flatten() {
            inputs.push(a.clone());
        }
        Array::lazy(shape, p.x.dtype(), op, inputs, s)
    }

    /// Shapes of x and of a matrix of codes, or of its scales, with three axes.
    fn shapes(&self, p: &Parts) -> ([i64; 3], impl Fn(&Array) -> [i64; 3]) {
        let k = p.x.dim(-1);
        let rows: i64 = if p.plain() { p.x.shape()[..p.x.ndim() - 1].iter().product() } else { p.x.dim(-2) };
        let count = if p.plain() { 1 } else { matrices(p.x) };
        ([count, rows, k], |a: &Array| [matrices(a), a.dim(-2), a.dim(-1)])
    }

    /// Cotangent of the matrix that codes stand for, in the shape of `codes` with as many columns as there are
    /// codes.
    fn weight_vjp(&self, p: &Parts, cot: &Array, s: Stream) -> Result<Array> {
        let (k, n) = (p.x.dim(-1), self.columns(p));
        let turn = |a: &Array| swapaxes(a, -1, -2, s);
        let mut shape: Shape = p.codes.shape()[..p.codes.ndim() - 2].into();
        shape.extend(if self.transpose { [n, k] } else { [k, n] });
        // The product of two factors, the left one transposed, in the orientation of the codes.
        let outer = |x: &Array, cot: &Array| {
            if self.transpose { matmul(&turn(cot)?, x, s) } else { matmul(&turn(x)?, cot, s) }
        };
        if p.plain() {
            return outer(&reshape(p.x, &[-1, k], s)?, &reshape(cot, &[-1, n], s)?);
        }
        let m = p.x.dim(-2);
        let flat = |a: &Array| reshape(a, &[matrices(a), a.dim(-2), a.dim(-1)], s);
        let Some(rhs) = p.rhs else {
            let x = match p.lhs {
                Some(l) => take(&flat(p.x)?, l, Some(0), s)?,
                None => p.x.clone(),
            };
            return sum_to(&outer(&x, cot)?, &shape, s);
        };
        let count = rhs.size() as i64;
        let x = flat(p.x)?;
        let x = if p.lhs.is_none() { broadcast_to(&x, &[count, m, k], s)? } else { x };
        let g = right_gradient(&x, p.lhs, cot, rhs, matrices(p.codes), self.sorted, s)?;
        reshape(&if self.transpose { turn(&g)? } else { g }, &shape, s)
    }

    /// Indices of an operand as they are, or those that stand for none.
    fn numbers(&self, a: &Array, index: Option<&Array>, batch: &[i64], s: Stream) -> Result<Array> {
        if let Some(i) = index {
            return astype(&wrapped(i, matrices(a), s)?, Dtype::I32, s);
        }
        let n = matrices(a);
        let all = arange(0.0, n as f64, 1.0, Dtype::I32, s)?;
        if n == 1 { broadcast_to(&all, batch, s) } else { reshape(&all, batch, s) }
    }
}

impl Primitive for QuantizedMatmul {
    fn name(&self) -> &str {
        if self.lhs || self.rhs { "gather_qmm" } else { "quantized_matmul" }
    }

    fn params(&self) -> Option<Vec<Param>> {
        let mut all = self.format.params()?;
        all.extend([self.transpose, self.lhs, self.rhs, self.sorted].map(Param::from));
        Some(all)
    }

    fn may_join(&self) -> bool {
        self.transpose && !self.lhs
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let p = self.split(inputs);
        let (of_x, of_w) = self.shapes(&p);
        let mut hold = Vec::new();
        let mut view = |a: &Array, shape: [i64; 3], dense: bool| {
            three(host_in(a)?, shape, dense, |v| {
                let (copy, block) = crate::cpu::elementwise::dense(v)?;
                hold.push(block);
                Ok(copy)
            })
        };
        let x = view(p.x, of_x, false)?;
        let codes = view(p.codes, of_w(p.codes), true)?;
        let scales = view(p.scales, of_w(p.scales), true)?;
        let biases = p.biases.map(|b| view(b, of_w(b), true)).transpose()?;
        let (lhs, rhs) = (p.lhs.map(host_in).transpose()?, p.rhs.map(host_in).transpose()?);
        let w = crate::cpu::quantized::qmm::Weights {
            format: self.format,
            codes: &codes,
            scales: &scales,
            biases: biases.as_ref(),
        };
        let mut dst = host_out(&outputs[0])?;
        if p.plain() {
            let shape = [x.shape[1], self.columns(&p)];
            (dst.shape, dst.strides) = (Shape::from_slice(&shape), crate::core::layout::row_major(&shape));
        }
        crate::cpu::quantized::qmm::quantized_matmul(&x, &w, self.transpose, lhs.as_ref(), rhs.as_ref(), &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let p = self.split(inputs);
            let (of_x, of_w) = self.shapes(&p);
            let mut view = |a: &Array, shape: [i64; 3], dense: bool| {
                let v = dev_in(enc, a)?;
                three(v, shape, dense, |v| crate::vulkan::kernels::elementwise::dense(enc, v))
            };
            let x = view(p.x, of_x, false)?;
            let codes = view(p.codes, of_w(p.codes), true)?;
            let scales = view(p.scales, of_w(p.scales), true)?;
            let biases = p.biases.map(|b| view(b, of_w(b), true)).transpose()?;
            let lhs = p.lhs.map(|x| dev_in(enc, x)).transpose()?;
            let rhs = p.rhs.map(|x| dev_in(enc, x)).transpose()?;
            let mut dst = dev_out(enc, &outputs[0])?;
            if p.plain() {
                let shape = [x.shape[1], self.columns(&p)];
                (dst.shape, dst.strides) =
                    (Shape::from_slice(&shape), crate::core::layout::row_major(&shape));
            }
            let w = crate::vulkan::kernels::quantized::qmm::Weights {
                format: self.format,
                codes: &codes,
                scales: &scales,
                biases: biases.as_ref(),
            };
            let picks = crate::vulkan::kernels::quantized::qmm::Picks {
                lhs: lhs.as_ref(),
                rhs: rhs.as_ref(),
                sorted: self.sorted,
            };
            crate::vulkan::kernels::quantized::qmm::quantized_matmul(
                enc,
                &x,
                &w,
                self.transpose,
                &picks,
                &dst,
            )
        })
    }

    fn refuses(&self, way: Direction, input: usize) -> Option<Error> {
        let rule = if way == Direction::Vjp { "vjp" } else { "jvp" };
        let text = || format!("[GatherQMM::{rule}] cannot compute the gradient wrt the indices.");
        (input >= 3 + usize::from(self.format.affine())).then(|| Error::Runtime(text()))
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (s, cot) = (r.stream, &r.cotangents[0]);
        let p = self.split(r.primals);
        let mut weights = None;
        r.each(|i| match i {
            0 => {
                let back = QuantizedMatmul { transpose: !self.transpose, ..*self };
                let g = back.product(Parts { x: cot, lhs: None, ..p }, s)?;
                let n = matrices_or_one(p.x);
                match p.lhs {
                    Some(l) => reshape(&total_by_index(&g, l, n, false, s)?, p.x.shape(), s).map(Some),
                    // FITS: a count of matrices of an array.
                    None if p.plain() || n as usize == size_of(&g.shape()[..g.ndim() - 2]) => {
                        reshape(&g, p.x.shape(), s).map(Some)
                    }
                    None => sum_to(&g, p.x.shape(), s).map(Some),
                }
            }
            1 => bail!(Runtime, "[QuantizedMatmul::vjp] no gradient wrt the quantized weights."),
            2 | 3 if self.format.affine() => {
                if weights.is_none() {
                    weights = Some(self.weight_vjp(&p, cot, s)?);
                }
                // INVARIANT: just made.
                let w = weights.as_ref().expect("cotangent of the weights");
                factor_vjp(self.format, i - 1, p.codes, p.scales, w, s).map(Some)
            }
            2 => bail!(
                Value,
                "[QuantizedMatmul::vjp] no gradient wrt scales in {} quantization.",
                self.format.mode.name()
            ),
            _ => Ok(None),
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let s = r.stream;
        let p = self.split(r.primals);
        let mut total = None;
        if let Some(t) = r.tangent(0) {
            total = plus(total, self.product(Parts { x: t, ..p }, s)?, s)?;
        }
        if self.format.affine() && (r.tangent(2).is_some() || r.tangent(3).is_some()) {
            let (scales, biases) = (tangent_or_zeros(r, 2)?, tangent_or_zeros(r, 3)?);
            let term = self.product(Parts { scales: &scales, biases: Some(&biases), ..p }, s)?;
            total = plus(total, term, s)?;
        }
        Ok(Some(vec![total]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        let parts = 3 + usize::from(self.format.affine());
        let weights = r.axes[1..parts].iter().any(Option::is_some);
        let p = self.split(r.inputs);
        let indexed = self.lhs || self.rhs;
        let rank = |i: usize| r.inputs[i].ndim() - usize::from(r.axes[i].is_some());
        if !indexed && rank(1) == 2 && !weights {
            return self.product(Parts { x: &front(r, 0)?, ..p }, s).map(batched);
        }
        let shape = r.shape(0);
        // Every item's matrices are one batch, and numbers of each move on to its own.
        let flat = |i: usize, varies: bool| -> Result<Array> {
            let a = if varies { with_batch(r, i)? } else { r.inputs[i].clone() };
            let plain = i == 0 && !indexed && rank(1) == 2;
            let (rows, last) = (a.dim(-2), a.dim(-1));
            if plain {
                return reshape(&a, &[r.size(), -1, last], s);
            }
            reshape(&a, &[matrices(&a), rows, last], s)
        };
        let x = flat(0, r.axes[0].is_some() || (!indexed && rank(1) == 2))?;
        let codes = flat(1, weights)?;
        let scales = flat(2, weights)?;
        let biases = if parts == 4 { Some(flat(3, weights)?) } else { None };
        let new =
            Parts { x: &x, codes: &codes, scales: &scales, biases: biases.as_ref(), lhs: None, rhs: None };
        if !indexed && rank(1) == 2 {
            return reshape(&self.product(new, s)?, &shape, s).map(batched);
        }
        let batch: Shape = shape[1..shape.len() - 2].into();
        let number = |a: &Array, varies: bool, position: Option<usize>| -> Result<Array> {
            let each = if varies { matrices(a) / r.size() } else { matrices(a) };
            let item: Shape = [each, 1, 1].into_iter().collect();
            let one = Array::placeholder(item, Dtype::F32)?;
            let index = match position {
                Some(i) => self.numbers(&one, Some(&with_batch(r, i)?), &batch, s)?,
                None => self.numbers(&one, None, &batch, s)?,
            };
            let full: Shape = std::iter::once(r.size()).chain(batch.iter().copied()).collect();
            let index = broadcast_to(&index, &full, s)?;
            if !varies {
                return Ok(index);
            }
            let mut lead = vec![1i64; full.len()];
            lead[0] = r.size();
            let item = reshape(&arange(0.0, r.size() as f64, 1.0, Dtype::I32, s)?, &lead, s)?;
            add(&index, &multiply(&item, &scalar_i64(each, Dtype::I32)?, s)?, s)
        };
        let lhs = number(&x, r.axes[0].is_some(), self.lhs.then_some(parts))?;
        let rhs = number(&codes, weights, self.rhs.then_some(parts + usize::from(self.lhs)))?;
        let op = QuantizedMatmul { sorted: false, ..*self };
        op.product(Parts { lhs: Some(&lhs), rhs: Some(&rhs), ..new }, s).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored product.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    const OP: &str = "quantized_matmul";
    let (group, bits) = (c.int(1)?, c.int(2)?);
    let format = Format::new(OP, Mode::parse(OP, c.text(0)?)?, group, bits)?;
    let op = QuantizedMatmul {
        format,
        transpose: c.flag(3)?,
        lhs: c.flag(4)?,
        rhs: c.flag(5)?,
        sorted: c.flag(6)?,
    };
    let flags = [format.affine(), op.lhs, op.rhs];
    if c.inputs.len() != 3 + flags.iter().filter(|f| **f).count() {
        bail!(Value, "[{OP}] Got {} inputs, which do not fit the flags.", c.inputs.len());
    }
    let p = op.split(c.inputs);
    let (group_size, bits) = (Some(group), Some(bits));
    let (w, scales, biases, mode) = (p.codes, p.scales, p.biases, c.text(0)?);
    let q = Quantized { w, scales, biases, transpose: op.transpose, group_size, bits, mode };
    if p.lhs.is_none() && p.rhs.is_none() {
        return quantized_matmul(p.x, &q, c.stream);
    }
    gather_qmm(p.x, &q, p.lhs, p.rhs, None, op.sorted, c.stream)
}

/// Matrices of a batch; a row alone is one.
fn matrices_or_one(a: &Array) -> i64 {
    if a.ndim() < 2 { 1 } else { matrices(a) }
}

/// Picks up to which rows of x are repeated for them; models sort more than that.
const FEW_PICKS: usize = 64;

/// A quantised matrix as the caller gives it.
#[derive(Clone, Copy)]
pub struct Quantized<'a> {
    /// Packed codes.
    pub w: &'a Array,
    /// Scales.
    pub scales: &'a Array,
    /// Biases of affine modes.
    pub biases: Option<&'a Array>,
    /// Codes run along K.
    pub transpose: bool,
    /// Group size, or the mode's.
    pub group_size: Option<i64>,
    /// Bits of a code, or the mode's.
    pub bits: Option<i64>,
    /// Name of the mode.
    pub mode: &'a str,
}

/// Checks of shapes and dtypes; the format and the dtype of the result.
pub(in crate::ops) fn check(op: &str, x: &Array, q: &Quantized) -> Result<(Format, Dtype)> {
    let mode = Mode::parse(op, q.mode)?;
    let found = value_dtype(op, mode, q.scales, q.biases)?;
    let (g, b) = mode.defaults();
    let (group, bits) = (q.group_size.unwrap_or(g), q.bits.unwrap_or(b));
    let (w, scales) = (q.w, q.scales);
    if w.dtype() != Dtype::U32 {
        bail!(Value, "[{op}] The weight matrix should be uint32 but received {}.", w.dtype());
    }
    if let Some(b) = q.biases.filter(|b| b.shape() != scales.shape()) {
        bail!(
            Value,
            "[{op}] Scales and biases should have the same shape. Received scales with shape {} and biases with {}",
            show(scales.shape()),
            show(b.shape())
        );
    }
    let alike = w.ndim() >= 2
        && w.ndim() == scales.ndim()
        && w.shape()[..w.ndim() - 2] == scales.shape()[..w.ndim() - 2];
    if !alike {
        bail!(
            Value,
            "[{op}] Weight and scales should have the same batch shape. Received weight with shape {}, scales with {}.",
            show(w.shape()),
            show(scales.shape())
        );
    }
    let cols = scales.dim(-1) as i128 * group as i128;
    if w.dim(-1) as i128 * 32 != cols * bits as i128 || w.dim(-2) != scales.dim(-2) {
        bail!(
            Value,
            "[{op}] The shapes of the weight and scales are incompatible based on bits and group_size. w.shape() == \
             {} and scales.shape() == {} with group_size={group} and bits={bits}",
            show(w.shape()),
            show(scales.shape())
        );
    }
    let format = Format::new(op, mode, group, bits)?;
    if x.ndim() == 0 {
        bail!(Value, "[{op}] Got 0 dimension input. Inputs must have at least one dimension.");
    }
    let (rows, cols) = (w.dim(-2), scales.dim(-1) * group);
    let (inner, outer) = if q.transpose { (cols, rows) } else { (rows, cols) };
    if x.dim(-1) != inner {
        bail!(
            Value,
            "[{op}] Last dimension of first input with shape (..., {}) does not match the expanded quantized matrix \
             ({inner}, {outer}) computed from shape {} with group_size={group}, bits={bits} and transpose={}",
            x.dim(-1),
            show(w.shape()),
            q.transpose
        );
    }
    let dtype = found.map_or(x.dtype(), |d| x.dtype().promote(d));
    if !dtype.is_float() || dtype == Dtype::F64 {
        bail!(
            Value,
            "[{op}] Only real floating types (float32, float16, bfloat16) are supported but x.dtype() == {}.",
            x.dtype()
        );
    }
    Ok((format, dtype))
}

/// `x @ w`, or `x @ w.T` with `transpose`, for a quantised matrix; batch axes broadcast.
pub fn quantized_matmul(x: &Array, q: &Quantized, s: Stream) -> Result<Array> {
    const OP: &str = "quantized_matmul";
    let (format, dtype) = check(OP, x, q)?;
    let op = QuantizedMatmul { format, transpose: q.transpose, lhs: false, rhs: false, sorted: false };
    let x = astype(x, dtype, s)?;
    let held = if format.affine() { dtype } else { Dtype::U8 };
    let scales = astype(q.scales, held, s)?;
    let biases = q.biases.map(|b| astype(b, held, s)).transpose()?;
    let p = Parts { x: &x, codes: q.w, scales: &scales, biases: biases.as_ref(), lhs: None, rhs: None };
    if q.w.ndim() == 2 {
        return op.product(p, s);
    }
    let one = x.ndim() == 1;
    let x = if one { reshape(&x, &[1, -1], s)? } else { x.clone() };
    let outer = |a: &Array| -> Shape { a.shape()[..a.ndim() - 2].into() };
    let (bx, bw) = (outer(&x), outer(q.w));
    let batch = broadcast_shapes(OP, &bx, &bw)?;
    let whole = |b: &Shape| *b == batch || size_of(b) == 1;
    let p = Parts { x: &x, ..p };
    let out = if whole(&bx) && whole(&bw) {
        op.product(p, s)?
    } else {
        let number = |b: &Shape| -> Result<Array> {
            let all = arange(0.0, size_of(b) as f64, 1.0, Dtype::U32, s)?;
            broadcast_to(&reshape(&all, b, s)?, &batch, s)
        };
        op.product(Parts { lhs: Some(&number(&bx)?), rhs: Some(&number(&bw)?), ..p }, s)?
    };
    if !one {
        return Ok(out);
    }
    let shape: Shape = batch.iter().copied().chain([out.dim(-1)]).collect();
    reshape(&out, &shape, s)
}

/// Few single rows of `x`, which has the axes `own` before them, repeated for the picks of a batch that share them: whoever
/// multiplies by single rows needs no numbers then. Else x as it is. And the axes before the rows.
fn repeated(x: Array, own: Shape, batch: &Shape, s: Stream) -> Result<(Array, Shape)> {
    let few = x.dim(-2) == 1 && matrices(&x) > 1 && size_of(batch) <= FEW_PICKS;
    if !few || own == *batch || own.len() != batch.len() {
        return Ok((x, own));
    }
    let shape: Shape = batch.iter().chain(&x.shape()[x.ndim() - 2..]).copied().collect();
    Ok((broadcast_to(&x, &shape, s)?, batch.clone()))
}

/// Products of matrices of `x` with quantised matrices, picked by flat indices over the batch axes of each; an
/// operand without indices takes part with all of its matrices in order. `sorted` promises that the indices of
/// the only indexed operand do not decrease. `global` has a scale for each matrix of `w` (nvfp4).
pub fn gather_qmm(
    x: &Array,
    q: &Quantized,
    lhs: Option<&Array>,
    rhs: Option<&Array>,
    global: Option<&Array>,
    sorted: bool,
    s: Stream,
) -> Result<Array> {
    const OP: &str = "gather_qmm";
    let (format, dtype) = check(OP, x, q)?;
    if let Some(g) = global {
        let experts = &q.w.shape()[..q.w.ndim() - 2];
        if format.mode != Mode::Nvfp4 {
            bail!(Value, "[{OP}] Global scale is only supported for 'nvfp4' quantization mode.");
        }
        if g.shape() != experts {
            bail!(
                Value,
                "[{OP}] Global scale must have one entry per expert with shape {} but got {}.",
                show(experts),
                show(g.shape())
            );
        }
        if g.dtype() != Dtype::F32 {
            bail!(Value, "[{OP}] Global scale must have dtype float32 but got {}.", g.dtype());
        }
    }
    if lhs.is_none() && rhs.is_none() && global.is_none() {
        return quantized_matmul(x, q, s);
    }
    if x.ndim() < 2 {
        bail!(
            Value,
            "[{OP}] Input must have at least two dimensions but got input with shape {}.",
            show(x.shape())
        );
    }
    let index = |i: Option<&Array>| i.map(|i| narrow(OP, i, s)).transpose();
    let (lhs, rhs) = (index(lhs)?, index(rhs)?);
    let outer = |a: &Array, i: &Option<Array>| -> Shape {
        i.as_ref().map_or(&a.shape()[..a.ndim() - 2], Array::shape).into()
    };
    let (bx, bw) = (outer(x, &lhs), outer(q.w, &rhs));
    let batch = broadcast_shapes(OP, &bx, &bw)?;
    let x = astype(x, dtype, s)?;
    let (x, bx) = if lhs.is_none() { repeated(x, bx, &batch, s)? } else { (x, bx) };
    // An operand without indices stays so where it has the whole batch, or one matrix.
    let numbers = |a: &Array, i: &Option<Array>, b: &Shape| -> Result<Option<Array>> {
        let count = matrices(a);
        if count == 0 && batch.iter().all(|&d| d > 0) {
            bail!(Value, "[{OP}] Cannot pick matrices from an empty batch, got shape {}.", show(a.shape()));
        }
        match i {
            Some(i) => broadcast_to(i, &batch, s).map(Some),
            None if *b == batch || count == 1 => Ok(None),
            None => {
                let all = arange(0.0, count as f64, 1.0, Dtype::U32, s)?;
                broadcast_to(&reshape(&all, b, s)?, &batch, s).map(Some)
            }
        }
    };
    let (left, right) = (numbers(&x, &lhs, &bx)?, numbers(q.w, &rhs, &bw)?);
    let held = if format.affine() { dtype } else { Dtype::U8 };
    let scales = astype(q.scales, held, s)?;
    let biases = q.biases.map(|b| astype(b, held, s)).transpose()?;
    let p = Parts {
        x: &x,
        codes: q.w,
        scales: &scales,
        biases: biases.as_ref(),
        lhs: left.as_ref(),
        rhs: right.as_ref(),
    };
    let op = QuantizedMatmul {
        format,
        transpose: q.transpose,
        lhs: false,
        rhs: false,
        sorted: sorted && lhs.is_none() && rhs.is_some(),
    };
    let out = op.product(p, s)?;
    let Some(g) = global else { return Ok(out) };
    let g = reshape(&divide(g, &scalar_f64(GLOBAL.into(), Dtype::F32)?, s)?, &[-1], s)?;
    let g = match &rhs {
        Some(i) => take(&g, &broadcast_to(i, &batch, s)?, Some(0), s)?,
        None => broadcast_to(&reshape(&g, &bw, s)?, &batch, s)?,
    };
    let shape: Shape = batch.iter().copied().chain([1, 1]).collect();
    astype(&multiply(&out, &reshape(&g, &shape, s)?, s)?, dtype, s)
}
