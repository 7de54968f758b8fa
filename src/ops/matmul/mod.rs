//! Matrix products with batching and broadcasting: `matmul` and the fused `addmm`. Operands may be strided;
//! the kernels read transposed ones in place.

pub(super) mod contraction;
pub mod einsum;
pub mod gather_mm;
pub mod products;
pub mod segmented_mm;

use super::batching::{aligned, batched};
use super::composite;
use super::elementwise::{astype, conjugate};
use super::reduce::sum_to;
use super::support::*;
use super::view::{broadcast_to, expand_dims, reshape, squeeze, swapaxes};
use super::{add, multiply};
use crate::bail;
use crate::core::layout::{broadcast_shapes, checked_size, row_major, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::{Epilogue, Spread};
use crate::on_gpu;
use crate::params;

pub(crate) struct Matmul;

pub(crate) struct AddMm {
    alpha: f32,
    beta: f32,
}

impl AddMm {
    /// Whether it is the sum as it stands.
    pub fn is_sum(&self) -> bool {
        self.alpha == 1.0 && self.beta == 1.0
    }
}

impl Primitive for Matmul {
    fn name(&self) -> &str {
        "matmul"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn may_join(&self) -> bool {
        true
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, b, dst) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_out(&outputs[0])?);
        crate::cpu::matmul::matmul(&a, &b, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, b) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::quantized::wide::matmul(enc, &a, &b, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        r.each(|i| product_vjp(&r.primals[0], &r.primals[1], i, &r.cotangents[0], r.stream).map(Some))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let &Jvp { primals, tangents, argnums, stream: s, .. } = r;
        let mut total: Option<Array> = None;
        for (t, &i) in tangents.iter().zip(argnums) {
            let term = if i == 0 { matmul(t, &primals[1], s)? } else { matmul(&primals[0], t, s)? };
            total = plus(total, term, s)?;
        }
        Ok(Some(vec![total]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let args = aligned(r)?;
        matmul(&args[0], &args[1], r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        product_shape(inputs)
    }
}

/// Shape of the product of the first two inputs, which have equal batch dimensions.
fn product_shape(inputs: &[Array]) -> Result<Vec<Shape>> {
    let (a, b) = (&inputs[0], &inputs[1]);
    if a.dim(-1) != b.dim(-2) || a.shape()[..a.ndim() - 2] != b.shape()[..b.ndim() - 2] {
        bail!(Value, "[matmul] Cannot multiply {} by {}.", show(a.shape()), show(b.shape()));
    }
    let mut shape: Shape = a.shape()[..a.ndim() - 1].into();
    shape.push(b.dim(-1));
    checked_size("matmul", &shape, a.dtype().size())?;
    Ok(vec![shape])
}

/// Cotangent of one factor of `a @ b`: the other one enters by its conjugate transpose.
fn product_vjp(a: &Array, b: &Array, which: usize, cot: &Array, s: Stream) -> Result<Array> {
    let transposed = |x: &Array| {
        let t = swapaxes(x, -1, -2, s)?;
        if x.dtype() == Dtype::C64 { conjugate(&t, s) } else { Ok(t) }
    };
    if which == 0 { matmul(cot, &transposed(b)?, s) } else { matmul(&transposed(a)?, cot, s) }
}

impl Primitive for AddMm {
    fn name(&self) -> &str {
        "addmm"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.alpha, self.beta]
    }

    fn may_join(&self) -> bool {
        self.is_sum()
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, b, c) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_in(&inputs[2])?);
        crate::cpu::matmul::addmm(&c, &a, &b, &host_out(&outputs[0])?, self.alpha, self.beta)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, b) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let c = dev_in(enc, &inputs[2])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::matmul::addmm(enc, &c, &a, &b, &dst, self.alpha, self.beta)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let cot = &cotangents[0];
        let scaled = |a: &Array, by: f32| {
            if by == 1.0 { Ok(a.clone()) } else { multiply(a, &scalar_f64(by.into(), a.dtype())?, s) }
        };
        r.each(|i| {
            Ok(Some(match i {
                2 => sum_to(&scaled(cot, self.beta)?, primals[2].shape(), s)?,
                _ => scaled(&product_vjp(&primals[0], &primals[1], i, cot, s)?, self.alpha)?,
            }))
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let args = aligned(r)?;
        if r.axes[0].is_none() && r.axes[1].is_none() {
            // Only the addend varies: it must not widen the product.
            let product = matmul(&args[0], &args[1], r.stream)?;
            let scaled = |x: &Array, by: f32| multiply(x, &scalar_f64(by.into(), x.dtype())?, r.stream);
            let sum = add(&scaled(&args[2], self.beta)?, &scaled(&product, self.alpha)?, r.stream)?;
            return Ok(batched(sum));
        }
        addmm(&args[2], &args[0], &args[1], self.alpha, self.beta, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shapes = product_shape(inputs)?;
        if inputs[2].shape() != shapes[0].as_slice() {
            let (c, p) = (show(inputs[2].shape()), show(&shapes[0]));
            bail!(Value, "[addmm] Recorded for an addend of the shape of the product, got {c} for {p}.");
        }
        Ok(shapes)
    }
}

/// Whether a primitive is a product whose kernels take an epilogue.
pub(crate) fn is_product(p: &dyn Primitive) -> bool {
    let any: &dyn std::any::Any = p;
    any.is::<Matmul>() || any.is::<AddMm>()
}

/// Computes `product` of the first `own` inputs and `code` on its results in one kernel, on a GPU stream; false where
/// an input of `code` has gaps.
pub(crate) fn run_followed(
    product: &dyn Primitive,
    code: &'static Epilogue,
    own: usize,
    stream: Stream,
    inputs: &[Array],
    out: &Array,
) -> Result<bool> {
    let (own, rest) = inputs.split_at(own);
    for (a, spread) in rest.iter().zip(&code.spread) {
        if *spread != Spread::Single && !a.layout()?.is_row_contiguous() {
            return Ok(false);
        }
    }
    let any: &dyn std::any::Any = product;
    let addend = any.downcast_ref::<AddMm>().map(|p| (p.alpha, p.beta));
    on_gpu!(stream, |enc| {
        let (a, b) = (dev_in(enc, &own[0])?, dev_in(enc, &own[1])?);
        let c = if addend.is_some() { Some(dev_in(enc, &own[2])?) } else { None };
        let arrays = rest.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
        let mut dst = dev_out(enc, out)?;
        dst.shape = a.shape[..a.ndim() - 1].into();
        dst.shape.push(b.shape[b.ndim() - 1]);
        dst.strides = row_major(&dst.shape);
        let addend = c.as_ref().zip(addend).map(|(c, (alpha, beta))| (c, alpha, beta));
        crate::vulkan::kernels::matmul::fused(enc, addend, &a, &b, &dst, code, &arrays)
    })?;
    Ok(true)
}

/// A stored product.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let matrices = |n: usize| c.inputs[..n].iter().all(|x| x.ndim() >= 2 && x.dtype() == c.inputs[0].dtype());
    match c.name {
        "matrix_product" => {
            let [a, b] = c.inputs()?;
            matmul(a, b, c.stream)
        }
        "matmul" => {
            let [a, b] = c.inputs()?;
            if !matrices(2) || a.ndim() != b.ndim() {
                bail!(Value, "[matmul] Cannot multiply {} by {}.", show(a.shape()), show(b.shape()));
            }
            let o = operands("matmul", a, b, product_dtype("matmul", &[a, b], c.stream)?, c.stream)?;
            Array::lazy(o.shape, a.dtype(), Matmul, vec![o.a, o.b], c.stream)
        }
        _ => {
            let [a, b, addend] = c.inputs()?;
            addmm(addend, a, b, c.float(0)? as f32, c.float(1)? as f32, c.stream)
        }
    }
}

/// Promoted dtype of a product; integers and bools are refused.
fn product_dtype(op: &str, arrays: &[&Array], s: Stream) -> Result<Dtype> {
    let dtype = arrays.iter().map(|a| a.dtype()).reduce(Dtype::promote).unwrap_or(Dtype::F32);
    if !dtype.is_inexact() {
        let names: Vec<_> = arrays.iter().map(|a| a.dtype().name()).collect();
        bail!(
            Value,
            "[{op}] Only inexact types are supported but {} were provided, which results in {dtype}.",
            names.join(" and ")
        );
    }
    if dtype == Dtype::F64 && s.device.is_gpu() {
        bail!(Value, "[{op}] float64 is not supported on the GPU; use a CPU stream.");
    }
    Ok(dtype)
}

struct Operands {
    a: Array,
    b: Array,
    /// Batch dimensions, then rows and columns.
    shape: Shape,
    /// Axes that stand for a missing matrix dimension of a vector operand.
    drop: Vec<i64>,
}

/// Operands of a product as matrices: a vector on the left is a row, one on the right a column.
pub(in crate::ops) fn matrices(op: &str, a: &Array, b: &Array, s: Stream) -> Result<(Array, Array)> {
    if a.ndim() == 0 || b.ndim() == 0 {
        bail!(Value, "[{op}] Got 0 dimension input. Inputs must have at least one dimension.");
    }
    let x = if a.ndim() == 1 { expand_dims(a, &[0], s)? } else { a.clone() };
    let y = if b.ndim() == 1 { expand_dims(b, &[1], s)? } else { b.clone() };
    if x.dim(-1) != y.dim(-2) {
        bail!(
            Value,
            "[{op}] Last dimension of first input with shape {} must match second to last dimension of second \
             input with shape {}.",
            show(a.shape()),
            show(b.shape())
        );
    }
    Ok((x, y))
}

fn operands(op: &str, a: &Array, b: &Array, dtype: Dtype, s: Stream) -> Result<Operands> {
    let (x, y) = matrices(op, a, b, s)?;
    let drop = [(a, -2), (b, -1)].into_iter().filter(|(v, _)| v.ndim() == 1).map(|(_, axis)| axis).collect();
    let (bx, by) = (x.shape()[..x.ndim() - 2].to_vec(), y.shape()[..y.ndim() - 2].to_vec());
    let batch = broadcast_shapes(op, &bx, &by)?;
    let (m, k, n) = (x.dim(-2), x.dim(-1), y.dim(-1));
    let with = |dims: [i64; 2]| -> Shape { batch.iter().copied().chain(dims).collect() };
    let (x, y) = (astype(&x, dtype, s)?, astype(&y, dtype, s)?);
    let (x, y) = (broadcast_to(&x, &with([m, k]), s)?, broadcast_to(&y, &with([k, n]), s)?);
    Ok(Operands { a: x, b: y, shape: with([m, n]), drop })
}

/// The product of a stack of rows, which has so many columns, as that of one tall matrix.
fn tall(
    a: &Array,
    columns: &[i64],
    s: Stream,
    product: impl FnOnce(&Array) -> Result<Array>,
) -> Result<Array> {
    let stack = &a.shape()[..a.ndim() - 1];
    let rows = a.shape()[..a.ndim() - 1].iter().product();
    let flat = product(&reshape(a, &[rows, a.dim(-1)], s)?)?;
    reshape(&flat, &[stack, columns].concat(), s)
}

/// Matrix product over the last two axes; leading axes broadcast; vectors act as rows or columns.
pub fn matmul(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    let dtype = product_dtype("matmul", &[a, b], s)?;
    if let Some(out) = composite::one("matrix_product", Vec::new, &[a, b], s)? {
        return Ok(out);
    }
    // A stack of rows times one matrix is one tall product. (Kernels see that too, but not the derivatives.)
    if a.ndim() > 2 && b.ndim() <= 2 && b.ndim() > 0 && a.dim(-1) == b.shape()[0] {
        return tall(a, &b.shape()[1..], s, |flat| matmul(flat, b, s));
    }
    let o = operands("matmul", a, b, dtype, s)?;
    let out = Array::lazy(o.shape, dtype, Matmul, vec![o.a, o.b], s)?;
    if o.drop.is_empty() { Ok(out) } else { squeeze(&out, Some(&o.drop), s) }
}

/// `beta * c + alpha * (a @ b)` in one kernel; `c` broadcasts to the product.
pub fn addmm(c: &Array, a: &Array, b: &Array, alpha: f32, beta: f32, s: Stream) -> Result<Array> {
    let dtype = product_dtype("addmm", &[a, b, c], s)?;
    let given = || vec![alpha.into(), beta.into()];
    if let Some(out) = composite::one("addmm", given, &[a, b, c], s)? {
        return Ok(out);
    }
    // One tall product, as for `matmul`; the addend is the same for each row.
    if a.ndim() > 2 && b.ndim() == 2 && c.ndim() <= 1 && dtype != Dtype::C64 {
        let n = b.dim(-1);
        if a.dim(-1) == b.dim(-2) && (c.size() == 1 || c.size() as i64 == n) {
            return tall(a, &[n], s, |flat| addmm(c, flat, b, alpha, beta, s));
        }
    }
    let o = operands("addmm", a, b, dtype, s)?;
    if dtype == Dtype::C64 || !o.drop.is_empty() {
        let product = matmul(a, b, s)?;
        fits_product(c, product.shape())?;
        let scaled = |x: &Array, by: f32| multiply(x, &scalar_f64(by.into(), dtype)?, s);
        return add(&scaled(c, beta)?, &scaled(&product, alpha)?, s);
    }
    let c = astype(c, dtype, s)?;
    fits_product(&c, &o.shape)?;
    let c = broadcast_to(&c, &o.shape, s)?;
    Array::lazy(o.shape, dtype, AddMm { alpha, beta }, vec![o.a, o.b, c], s)
}

/// That the addend of `addmm` does not widen the product.
fn fits_product(c: &Array, product: &[i64]) -> Result<()> {
    if broadcast_shapes("addmm", c.shape(), product)?.as_slice() != product {
        bail!(
            Value,
            "[addmm] Cannot broadcast array of shape {} into shape {}.",
            show(c.shape()),
            show(product)
        );
    }
    Ok(())
}
