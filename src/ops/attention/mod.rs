//! Scaled dot-product attention with grouped heads, masks and sinks. The kernels hold no matrix of scores; the
//! composition, which derivatives are built from, does.
//!
//! A score that a bool or causal mask takes out is the lowest finite number, so that a row without any key is the
//! mean of all values, as in MLX.

pub(super) mod gated_delta;
pub(super) mod gradient;
pub(super) mod kept;
pub(super) mod rope;

use std::any::Any;

use smallvec::SmallVec;

use crate::bail;
use crate::core::layout::{broadcast_shapes, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::composite;
use crate::ops::elementwise::select;
use crate::ops::support::*;
use crate::ops::{
    add, arange, astype, broadcast_to, exp, expand_dims, greater_equal, matmul, max, moveaxis, multiply,
    negative, reshape, softmax, stop_gradient, subtract, sum, swapaxes, zeros,
};
use crate::params;

const OP: &str = "scaled_dot_product_attention";

/// Which scores count.
pub enum MaskArg {
    /// All.
    None,
    /// Keys up to the query's position, where the last query stands at the last key.
    Causal,
    /// True where a score counts, or a number to add; broadcasts to (batch, heads, queries, keys).
    Array(Array),
}

/// Inputs: q (batch, heads, queries, d), k (batch, key heads, keys, d), v (batch, key heads, keys, dv), then the
/// mask (of the full shape of scores; bool or the dtype of q) and sinks (heads) where they are there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attention {
    pub scale: f32,
    pub causal: bool,
    mask: bool,
    sinks: bool,
}

/// What a product of blocks of heads needs: q as (batch, key heads, heads of one * queries, d).
struct Blocks {
    q: Array,
    k: Array,
    v: Array,
    /// (batch, key heads, group, queries, keys)
    scores: Shape,
}

fn lowest(d: Dtype) -> f64 {
    match d {
        Dtype::F16 => -65504.0,
        Dtype::BF16 => -3.389_531_389_251_535_5e38,
        Dtype::F64 => f64::MIN,
        _ => f64::from(f32::MIN),
    }
}

impl Attention {
    pub fn mask<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.mask.then(|| &inputs[3])
    }

    pub fn sinks<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.sinks.then(|| &inputs[3 + usize::from(self.mask)])
    }

    fn blocks(&self, inputs: &[Array], s: Stream) -> Result<Blocks> {
        let (q, k) = (&inputs[0], &inputs[1]);
        let (b, h, l, d) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
        let (kv, n) = (k.dim(1), k.dim(2));
        Ok(Blocks {
            q: reshape(q, &[b, kv, h / kv * l, d], s)?,
            k: k.clone(),
            v: inputs[2].clone(),
            scores: [b, kv, h / kv, l, n].into_iter().collect(),
        })
    }

    /// Which scores count, broadcasting to (batch, key heads, group, queries, keys); `None` for all.
    fn seen(&self, inputs: &[Array], b: &Blocks, s: Stream) -> Result<Option<Array>> {
        let (l, n) = (b.scores[3], b.scores[4]);
        if self.causal {
            let first = (n - l) as f64;
            let q = expand_dims(&arange(first, n as f64, 1.0, Dtype::I32, s)?, &[-1], s)?;
            let k = arange(0.0, n as f64, 1.0, Dtype::I32, s)?;
            return greater_equal(&q, &k, s).map(Some);
        }
        match self.mask(inputs) {
            Some(m) if m.dtype() == Dtype::Bool => reshape(m, &b.scores, s).map(Some),
            _ => Ok(None),
        }
    }

    /// Weights of the keys, of the shape of scores, and those of the sinks (last axis 1).
    fn weights(&self, inputs: &[Array], b: &Blocks, s: Stream) -> Result<(Array, Option<Array>)> {
        let dtype = b.q.dtype();
        let wide = if dtype == Dtype::F64 { dtype } else { Dtype::F32 };
        let q = multiply(&b.q, &scalar_f64(self.scale.into(), dtype)?, s)?;
        let scores = matmul(&q, &swapaxes(&b.k, -1, -2, s)?, s)?;
        let mut scores = reshape(&scores, &b.scores, s)?;
        if let Some(m) = self.seen(inputs, b, s)? {
            scores = select(&m, &scores, &scalar_f64(lowest(dtype), dtype)?, s)?;
        } else if let Some(m) = self.mask(inputs) {
            scores = add(&scores, &reshape(m, &b.scores, s)?, s)?;
        }
        let Some(sinks) = self.sinks(inputs) else {
            return Ok((softmax(&scores, Some(&[-1]), true, s)?, None));
        };
        let scores = astype(&scores, wide, s)?;
        let column = reshape(&astype(sinks, wide, s)?, &[1, b.scores[1], b.scores[2], 1, 1], s)?;
        let top = stop_gradient(&max(&scores, Some(&[-1]), true, s)?);
        let top = crate::ops::maximum(&top, &stop_gradient(&column), s)?;
        let e = exp(&subtract(&scores, &top, s)?, s)?;
        let sink = exp(&subtract(&column, &top, s)?, s)?;
        let total = add(&sum(&e, Some(&[-1]), true, s)?, &sink, s)?;
        let p = astype(&crate::ops::divide(&e, &total, s)?, dtype, s)?;
        Ok((p, Some(crate::ops::divide(&sink, &total, s)?)))
    }

    fn composed(&self, inputs: &[Array], s: Stream) -> Result<Array> {
        let b = self.blocks(inputs, s)?;
        let (p, _) = self.weights(inputs, &b, s)?;
        let out = matmul(&reshape(&p, &b.joined(), s)?, &b.v, s)?;
        reshape(&out, &self.shape(inputs), s)
    }

    fn shape(&self, inputs: &[Array]) -> Shape {
        let mut shape: Shape = inputs[0].shape().into();
        shape[3] = inputs[2].dim(3);
        shape
    }

    fn build(&self, inputs: Vec<Array>, s: Stream) -> Result<Array> {
        let shape = self.shape(&inputs);
        let dtype = inputs[0].dtype();
        if shape.contains(&0) || inputs[1].dim(2) == 0 {
            return zeros(&shape, dtype, s);
        }
        if dtype == Dtype::F64 || inputs[0].dim(3) == 0 || !kernel_takes(&inputs, s) {
            return self.composed(&inputs, s);
        }
        match kept::recorded(*self, &inputs, s)? {
            Some(y) => Ok(y),
            None => Array::lazy(shape, dtype, *self, inputs, s),
        }
    }

    /// The derivative, composed of other operations.
    fn composed_vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let s = r.stream;
        let inputs = r.primals;
        let b = self.blocks(inputs, s)?;
        let dtype = b.q.dtype();
        let scale = scalar_f64(self.scale.into(), dtype)?;
        let (p, sink) = self.weights(inputs, &b, s)?;
        let joined = b.joined();
        let p = reshape(&p, &joined, s)?;
        let mut shape = joined.clone();
        shape[3] = b.v.dim(3);
        let cot = reshape(&r.cotangents[0], &shape, s)?;
        // Cotangent of the weights, and what of it all weights of a row share.
        let dp = matmul(&cot, &swapaxes(&b.v, -1, -2, s)?, s)?;
        let shared = sum(&multiply(&dp, &p, s)?, Some(&[-1]), true, s)?;
        let mut ds = multiply(&p, &subtract(&dp, &shared, s)?, s)?;
        if let Some(m) = self.seen(inputs, &b, s)? {
            let zero = scalar_f64(0.0, dtype)?;
            ds = reshape(&select(&m, &reshape(&ds, &b.scores, s)?, &zero, s)?, &joined, s)?;
        }
        let to = |a: &Array, like: &Array| reshape(a, like.shape(), s).map(Some);
        r.each(|i| match i {
            0 => to(&multiply(&matmul(&ds, &b.k, s)?, &scale, s)?, &inputs[0]),
            1 => {
                let q = multiply(&b.q, &scale, s)?;
                to(&matmul(&swapaxes(&ds, -1, -2, s)?, &q, s)?, &inputs[1])
            }
            2 => to(&matmul(&swapaxes(&p, -1, -2, s)?, &cot, s)?, &inputs[2]),
            3 if self.mask => match inputs[3].dtype() {
                Dtype::Bool => Ok(None),
                _ => to(&ds, &inputs[3]),
            },
            _ => {
                let Some(sink) = &sink else { return Ok(None) };
                let shared = reshape(&astype(&shared, sink.dtype(), s)?, sink.shape(), s)?;
                let d = sum(&multiply(sink, &shared, s)?, Some(&[0, 3, 4]), false, s)?;
                to(&astype(&negative(&d, s)?, dtype, s)?, &inputs[i])
            }
        })
    }
}

/// Whether the stream's kernels take heads of this size.
fn kernel_takes(inputs: &[Array], s: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    if s.device.is_gpu() {
        return crate::vulkan::kernels::attention::takes(inputs[0].dim(3), inputs[2].dim(3));
    }
    true
}

impl Blocks {
    /// Shape of the scores with the group's queries in one axis.
    fn joined(&self) -> Shape {
        let s = &self.scores;
        [s[0], s[1], s[2] * s[3], s[4]].into_iter().collect()
    }
}

/// Input `i` of an attention, whose batch joins the axis `to`.
fn with_joined_batch(r: &Vmap, i: usize, to: usize) -> Result<Array> {
    let mut a = with_batch(r, i)?;
    let mut shape: Shape = a.shape()[1..].into();
    shape[to] *= r.size();
    if to > 0 {
        a = moveaxis(&a, 0, to as i64, r.stream)?;
    }
    reshape(&a, &shape, r.stream)
}

impl Primitive for Attention {
    fn name(&self) -> &str {
        OP
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.scale, self.causal, self.mask, self.sinks]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let views = inputs.iter().map(host_in).collect::<Result<Vec<_>>>()?;
        let dst = host_out(&outputs[0])?;
        crate::cpu::attention::attention(
            [&views[0], &views[1], &views[2]],
            self.mask(&views),
            self.sinks(&views),
            self.scale,
            self.causal,
            &dst,
        )
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::attention::attention(
                enc,
                [&views[0], &views[1], &views[2]],
                self.mask(&views),
                self.sinks(&views),
                self.scale,
                self.causal,
                &dst,
            )
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        match gradient::by_kernel(*self, r, None)? {
            Some(grads) => Ok(grads),
            None => self.composed_vjp(r),
        }
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        let n = r.size();
        let varied = self.sinks(r.axes).is_some_and(Option::is_some);
        // The batch joins the heads where these have sinks of their own.
        let joined = |i: usize| with_joined_batch(r, i, usize::from(varied));
        let mut inputs = (0..3 + usize::from(self.mask)).map(joined).collect::<Result<Vec<_>>>()?;
        if self.sinks {
            let sinks = front(r, r.inputs.len() - 1)?;
            inputs.push(reshape(&sinks, &[sinks.size() as i64], s)?);
        }
        let y = self.build(inputs, s)?;
        let shape = r.shape(0);
        if !varied {
            return Ok(batched(reshape(&y, &shape, s)?));
        }
        let split = [shape[1], n, shape[2], shape[3], shape[4]];
        Ok((vec![reshape(&y, &split, s)?], vec![Some(1)]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored attention.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let op = Attention { scale: c.float(0)? as f32, causal: c.flag(1)?, mask: c.flag(2)?, sinks: c.flag(3)? };
    if c.inputs.len() != 3 + usize::from(op.mask) + usize::from(op.sinks) || (op.causal && op.mask) {
        bail!(Value, "[{OP}] Got {} inputs, which do not fit the flags.", c.inputs.len());
    }
    let mask = match op.mask(c.inputs) {
        Some(m) => MaskArg::Array(m.clone()),
        None if op.causal => MaskArg::Causal,
        None => MaskArg::None,
    };
    let [q, k, v] = [&c.inputs[0], &c.inputs[1], &c.inputs[2]];
    scaled_dot_product_attention([q, k, v], op.scale, mask, op.sinks(c.inputs), c.stream)
}

/// A node that follows the shapes of arguments, where these may be others later.
fn following(
    qkv: [&Array; 3],
    scale: f32,
    mask: &MaskArg,
    sinks: Option<&Array>,
    s: Stream,
) -> Result<Option<Array>> {
    let (causal, mask) = match mask {
        MaskArg::None => (false, None),
        MaskArg::Causal => (true, None),
        MaskArg::Array(m) => (false, Some(m)),
    };
    let given = || vec![scale.into(), causal.into(), mask.is_some().into(), sinks.is_some().into()];
    let all: SmallVec<[&Array; 5]> = qkv.into_iter().chain(mask).chain(sinks).collect();
    composite::one(OP, given, &all, s)
}

/// Fails for queries, keys and values that do not belong together.
fn check_shapes([q, k, v]: [&Array; 3]) -> Result<()> {
    for a in [q, k, v] {
        if a.ndim() != 4 {
            bail!(Value, "[{OP}] input with shape {} expected to be rank 4", show(a.shape()));
        }
    }
    for a in [k, v] {
        if a.dim(0) != q.dim(0) {
            bail!(Value, "[{OP}] mismatching batch dimension for input with shape {}.", show(a.shape()));
        }
    }
    if q.dim(3) != k.dim(3) {
        bail!(
            Value,
            "[{OP}] query, keys expected to have matching last dimension; found query shape {} for keys shape \
             {}.",
            show(q.shape()),
            show(k.shape())
        );
    }
    let (heads, kv) = (q.dim(1), k.dim(1));
    if kv != v.dim(1) {
        bail!(
            Value,
            "[{OP}] keys, values expected to have matching n_kv_heads; found keys with n_heads {kv} for values \
             with n_heads {}.",
            v.dim(1)
        );
    }
    if kv == 0 || heads % kv != 0 {
        bail!(
            Value,
            "[{OP}] n_heads must be a multiple of n_kv_heads, found n_heads {heads} for n_kv_heads {kv}."
        );
    }
    if k.dim(2) != v.dim(2) {
        bail!(
            Value,
            "[{OP}] keys, values expected to have matching lengths; found keys shape {} for values shape {}.",
            show(k.shape()),
            show(v.shape())
        );
    }
    Ok(())
}

/// A mask, bool or in `dtype`, of the shape of all scores.
fn full_mask(m: &Array, dtype: Dtype, full: [i64; 4], s: Stream) -> Result<Array> {
    if m.ndim() > 4 {
        bail!(Value, "[{OP}] the mask with shape {} expected to have at most rank 4.", show(m.shape()));
    }
    if m.dtype().promote(dtype) != dtype {
        bail!(Value, "[{OP}] Mask type must promote to output type {dtype}.");
    }
    let m = if m.dtype() == Dtype::Bool { m.clone() } else { astype(m, dtype, s)? };
    if broadcast_shapes("broadcast_shapes", m.shape(), &full)?[..] != full {
        let (a, b) = (show(m.shape()), show(&full));
        bail!(Value, "[broadcast_shapes] Shapes {a} and {b} cannot be broadcast.");
    }
    broadcast_to(&m, &full, s)
}

/// `softmax(scale * q @ k^T + mask) @ v` for `q` (batch, heads, queries, d), `k` (batch, key heads, keys, d) and
/// `v` (batch, key heads, keys, dv), whose heads serve as many heads of queries each; in the promoted dtype. A
/// sink is one more score of a head, of a key without value.
///
/// # Errors
/// Value error for shapes and dtypes that do not fit.
pub fn scaled_dot_product_attention(
    [q, k, v]: [&Array; 3],
    scale: f32,
    mask: MaskArg,
    sinks: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    if let Some(out) = following([q, k, v], scale, &mask, sinks, s)? {
        return Ok(out);
    }
    check_shapes([q, k, v])?;
    let heads = q.dim(1);
    let dtype = q.dtype().promote(k.dtype()).promote(v.dtype());
    if !dtype.is_float() {
        bail!(Value, "[{OP}] Received unsupported type {dtype}.");
    }
    let mut inputs = [q, k, v].into_iter().map(|a| astype(a, dtype, s)).collect::<Result<Vec<_>>>()?;
    refuse_f64(OP, &inputs, s)?;
    let mut form = Attention { scale, causal: false, mask: false, sinks: sinks.is_some() };
    match mask {
        MaskArg::None => {}
        MaskArg::Causal => form.causal = true,
        MaskArg::Array(m) => {
            form.mask = true;
            inputs.push(full_mask(&m, dtype, [q.dim(0), heads, q.dim(2), k.dim(2)], s)?);
        }
    }
    if let Some(a) = sinks {
        if a.dtype().promote(dtype) != dtype {
            bail!(Value, "[{OP}] Type of sinks must promote to output type {dtype}.");
        }
        if a.shape() != [heads] {
            bail!(Value, "[{OP}] Received invalid shape for sinks {}.", show(a.shape()));
        }
        inputs.push(astype(a, dtype, s)?);
    }
    form.build(inputs, s)
}
