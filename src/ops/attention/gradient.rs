//! The gradient of attention by kernels that hold no matrix of scores, where the device has them. Elsewhere, and for sinks
//! and the gradient of a mask, the composition in `Attention::vjp` stands.

use std::any::Any;
use std::sync::Arc;

use super::{Attention, OP, with_joined_batch};
use crate::bail;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::elementwise::select;
use crate::ops::support::*;
use crate::ops::{add, matmul, multiply, reshape, subtract, sum, swapaxes};

const NAME: &str = "scaled_dot_product_attention_vjp";

/// Inputs: those of the attention (without sinks), its result, the cotangent of that, and the extents of its rows where
/// they were kept. Outputs: the gradients of q, k, v.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AttentionGrad {
    of: Attention,
    kept: bool,
}

/// The gradients that are wanted, where kernels compute them, with the extents of rows if these were kept.
pub(super) fn by_kernel(of: Attention, r: &Vjp, extents: Option<&Array>) -> Result<Option<Derivatives>> {
    let numbers = |i: usize| of.mask && i == 3 && r.primals[3].dtype() != Dtype::Bool;
    if of.sinks || r.argnums.iter().any(|&i| numbers(i)) || !takes(r.primals, r.stream)? {
        return Ok(None);
    }
    let given = r.primals.iter().chain([&r.outputs[0], &r.cotangents[0]]).chain(extents).cloned().collect();
    let grads = build(AttentionGrad { of, kept: extents.is_some() }, given, r.stream)?;
    r.each(|i| Ok(grads.get(i).cloned())).map(Some)
}

/// Whether the stream's kernels compute the gradient for these inputs of an attention.
fn takes(inputs: &[Array], s: Stream) -> Result<bool> {
    asked(inputs, s, false)
}

/// Whether they also keep what the gradient follows from.
pub(super) fn keeps(inputs: &[Array], s: Stream) -> Result<bool> {
    asked(inputs, s, true)
}

#[cfg_attr(not(feature = "vulkan"), allow(unused_variables))]
fn asked(inputs: &[Array], s: Stream, keeps: bool) -> Result<bool> {
    #[cfg(feature = "vulkan")]
    if s.device.is_gpu() && matches!(inputs[0].dtype(), Dtype::F16 | Dtype::BF16) {
        use crate::vulkan::kernels::attention::gradient::takes;
        let [q, k, v] = [0, 1, 2].map(|i| inputs[i].shape());
        let dtype = inputs[0].dtype();
        return crate::vulkan::with_encoder(s, |enc| Ok(takes(enc, dtype, [q, k, v], keeps)));
    }
    Ok(false)
}

fn build(op: AttentionGrad, inputs: Vec<Array>, s: Stream) -> Result<Vec<Array>> {
    let specs = inputs[..3].iter().map(|a| (a.shape().into(), a.dtype())).collect();
    Array::lazy_many(specs, Arc::new(op), inputs, s)
}

/// Fails for inputs of an attention that do not belong together.
pub(super) fn check_inputs(of: Attention, inputs: &[Array]) -> Result<()> {
    super::check_shapes([&inputs[0], &inputs[1], &inputs[2]])?;
    let (dtype, shape) = (inputs[0].dtype(), of.shape(inputs));
    let scores = [shape[0], shape[1], shape[2], inputs[1].dim(2)];
    let fits = inputs[..3].iter().all(|a| a.dtype() == dtype && a.size() > 0)
        && of.mask(inputs).is_none_or(|m| m.shape() == scores && [Dtype::Bool, dtype].contains(&m.dtype()));
    if !fits {
        bail!(Value, "[{OP}] Inputs do not fit each other.");
    }
    Ok(())
}

/// A stored gradient.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let of = Attention { scale: c.float(0)? as f32, causal: c.flag(1)?, mask: c.flag(2)?, sinks: false };
    let (count, kept) = (3 + usize::from(of.mask), c.flag(3)?);
    if c.inputs.len() != count + 2 + usize::from(kept) || (of.causal && of.mask) {
        bail!(Value, "[{NAME}] Got {} inputs, which do not fit the flags.", c.inputs.len());
    }
    let (inputs, rest) = c.inputs.split_at(count);
    check_inputs(of, inputs)?;
    let shape = of.shape(inputs);
    let rows = rest.get(2).is_none_or(|a| a.shape() == &shape[..3] && a.dtype() == Dtype::F32);
    if !rows || rest[..2].iter().any(|a| a.shape() != &shape[..] || a.dtype() != inputs[0].dtype()) {
        bail!(Value, "[{NAME}] Inputs do not fit each other.");
    }
    if takes(inputs, c.stream)? {
        return build(AttentionGrad { of, kept }, c.inputs.to_vec(), c.stream);
    }
    let r = Vjp {
        primals: inputs,
        cotangents: &rest[1..2],
        argnums: &[0, 1, 2],
        outputs: &rest[..1],
        stream: c.stream,
    };
    Ok(of.composed_vjp(&r)?.into_iter().flatten().collect())
}

impl AttentionGrad {
    /// Inputs of the attention.
    fn count(self) -> usize {
        3 + usize::from(self.of.mask)
    }
}

impl Primitive for AttentionGrad {
    fn name(&self) -> &str {
        NAME
    }

    fn params(&self) -> Option<Vec<Param>> {
        crate::params![self.of.scale, self.of.causal, self.of.mask, self.kept]
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[{OP}] The gradient is composed of other operations on the CPU.")
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let grads = outputs.iter().map(|a| dev_out(enc, a)).collect::<Result<Vec<_>>>()?;
            let given = crate::vulkan::kernels::attention::gradient::Given {
                q: &views[0],
                k: &views[1],
                v: &views[2],
                mask: self.of.mask(&views),
                out: &views[self.count()],
                cot: &views[self.count() + 1],
                extents: views.get(self.count() + 2),
                scale: self.of.scale,
                causal: self.of.causal,
            };
            let [dq, dk, dv] = [0, 1, 2].map(|i| &grads[i]);
            crate::vulkan::kernels::attention::gradient::gradient(enc, &given, [dq, dk, dv])
        })
    }

    /// With p the weights, g the cotangent of the result and u those of the gradients: these are sums of `ds * a` and
    /// `p * c` for a = scale (u_q k' + q u_k'), c = g u_v' and ds = p (dp - sum(p dp)), dp = g v'. What follows is the
    /// derivative of that; the result itself is taken for what it follows from.
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (s, of) = (r.stream, self.of);
        let inputs = &r.primals[..self.count()];
        let b = of.blocks(inputs, s)?;
        let (p, _) = of.weights(inputs, &b, s)?;
        let joined = b.joined();
        let p = reshape(&p, &joined, s)?;
        let seen = of.seen(inputs, &b, s)?;
        let dtype = b.q.dtype();
        let (scale, zero) = (scalar_f64(of.scale.into(), dtype)?, scalar_f64(0.0, dtype)?);
        let masked = |a: Array| -> Result<Array> {
            let Some(m) = &seen else { return Ok(a) };
            reshape(&select(m, &reshape(&a, &b.scores, s)?, &zero, s)?, &joined, s)
        };
        let turned = |a: &Array| swapaxes(a, -1, -2, s);
        let scaled = |a: &Array| multiply(a, &scale, s);
        let row_sum = |a: &Array| sum(&multiply(&p, a, s)?, Some(&[-1]), true, s);
        let rows = |a: &Array| {
            let mut shape = joined.clone();
            shape[3] = a.dim(3);
            reshape(a, &shape, s)
        };
        let (u_q, u_k, u_v) = (rows(&r.cotangents[0])?, &r.cotangents[1], &r.cotangents[2]);
        let g = rows(&r.primals[self.count() + 1])?;
        let dp = matmul(&g, &turned(&b.v)?, s)?;
        let centred = subtract(&dp, &row_sum(&dp)?, s)?;
        let ds = masked(multiply(&p, &centred, s)?)?;
        let a = add(&matmul(&u_q, &turned(&b.k)?, s)?, &matmul(&b.q, &turned(u_k)?, s)?, s)?;
        let a = masked(scaled(&a)?)?;
        let mean = row_sum(&a)?;
        let x = multiply(&p, &subtract(&a, &mean, s)?, s)?;
        let e = subtract(&multiply(&centred, &a, s)?, &multiply(&dp, &mean, s)?, s)?;
        let e = add(&e, &matmul(&g, &turned(u_v)?, s)?, s)?;
        let scores = masked(multiply(&p, &subtract(&e, &row_sum(&e)?, s)?, s)?)?;
        let to = |a: &Array, i: usize| reshape(a, r.primals[i].shape(), s).map(Some);
        r.each(|i| match i {
            0 => to(&scaled(&add(&matmul(&scores, &b.k, s)?, &matmul(&ds, u_k, s)?, s)?)?, 0),
            1 => {
                let own = matmul(&turned(&scores)?, &b.q, s)?;
                to(&scaled(&add(&own, &matmul(&turned(&ds)?, &u_q, s)?, s)?)?, 1)
            }
            2 => to(&matmul(&turned(&x)?, &g, s)?, 2),
            3 if of.mask && inputs[3].dtype() != Dtype::Bool => to(&scores, 3),
            _ if i == self.count() + 1 => to(&add(&matmul(&x, &b.v, s)?, &matmul(&p, u_v, s)?, s)?, i),
            _ => Ok(None),
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        let joined = |i| with_joined_batch(r, i, 0);
        let inputs = (0..r.inputs.len()).map(joined).collect::<Result<Vec<_>>>()?;
        let grads = build(*self, inputs, s)?;
        let split = grads.iter().enumerate().map(|(i, a)| reshape(a, &r.shape(i), s));
        Ok((split.collect::<Result<_>>()?, vec![Some(0); 3]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(inputs[..3].iter().map(|a| a.shape().into()).collect())
    }
}
