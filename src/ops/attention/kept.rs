//! Attention that is recorded for a derivative, where kernels compute that: it also keeps the extent of each row of scores,
//! from which the gradient's kernels find weights again. Two nodes: `Kept` computes result and extents, `Whole` passes the
//! result on and holds the extents until its rule asks for them.

use std::any::Any;
use std::sync::Arc;

use super::{Attention, OP, gradient, with_joined_batch};
use crate::bail;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
    lengths_vary,
};
use crate::ops::support::*;
use crate::ops::{reshape, zeros};
use crate::{on_gpu, params};

const KEPT: &str = "scaled_dot_product_attention_kept";
const WHOLE: &str = "scaled_dot_product_attention_whole";

/// Inputs: those of the attention. Outputs: its result, and a float32 for each row (batch, heads, queries).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept(Attention);

/// Inputs: result and extents, then the inputs of the attention. Output: the result.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Whole(Attention);

/// The result, where a derivative may be asked for that has kernels.
pub(super) fn recorded(of: Attention, inputs: &[Array], s: Stream) -> Result<Option<Array>> {
    let given = if of.mask { &inputs[3..4] } else { &[] };
    let wanted = inputs[..3].iter().any(Array::is_tracer) && !given.iter().any(Array::is_tracer);
    if !wanted || of.sinks || lengths_vary() || !gradient::keeps(inputs, s)? {
        return Ok(None);
    }
    build(of, inputs, s).map(Some)
}

fn outputs(of: Attention, inputs: &[Array], s: Stream) -> Result<Vec<Array>> {
    let shape = of.shape(inputs);
    let specs = vec![(shape.clone(), inputs[0].dtype()), (shape[..3].into(), Dtype::F32)];
    Array::lazy_many(specs, Arc::new(Kept(of)), inputs.to_vec(), s)
}

fn build(of: Attention, inputs: &[Array], s: Stream) -> Result<Array> {
    let mut all = outputs(of, inputs, s)?;
    all.extend_from_slice(inputs);
    Array::lazy(of.shape(inputs), inputs[0].dtype(), Whole(of), all, s)
}

fn stored(c: &Stored, more: usize) -> Result<Attention> {
    let of = Attention { scale: c.float(0)? as f32, causal: c.flag(1)?, mask: c.flag(2)?, sinks: false };
    if c.inputs.len() != more + 3 + usize::from(of.mask) || (of.causal && of.mask) {
        bail!(Value, "[{OP}] Got {} inputs, which do not fit the flags.", c.inputs.len());
    }
    gradient::check_inputs(of, &c.inputs[more..])?;
    Ok(of)
}

/// Stored result and extents. Without kernels the result alone is there, since nothing reads the other.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let of = stored(c, 0)?;
    if gradient::keeps(c.inputs, c.stream)? {
        return outputs(of, c.inputs, c.stream);
    }
    let shape = of.shape(c.inputs);
    Ok(vec![of.build(c.inputs.to_vec(), c.stream)?, zeros(&shape[..3], Dtype::F32, c.stream)?])
}

/// A stored result that is passed on.
pub(in crate::ops) fn restore_whole(c: &Stored) -> Result<Array> {
    let of = stored(c, 2)?;
    let (shape, dtype) = (of.shape(&c.inputs[2..]), c.inputs[2].dtype());
    let fits = c.inputs[0].shape() == &shape[..] && c.inputs[0].dtype() == dtype;
    if !fits || c.inputs[1].shape() != &shape[..3] || c.inputs[1].dtype() != Dtype::F32 {
        bail!(Value, "[{WHOLE}] Inputs do not fit each other.");
    }
    Array::lazy(shape, dtype, Whole(of), c.inputs.to_vec(), c.stream)
}

/// Inputs from `first` on, whose batch joins the first axis.
fn joined(r: &Vmap, first: usize) -> Result<Vec<Array>> {
    (first..r.inputs.len()).map(|i| with_joined_batch(r, i, 0)).collect()
}

impl Primitive for Kept {
    fn name(&self) -> &str {
        KEPT
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.0.scale, self.0.causal, self.0.mask]
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[{OP}] Extents of rows are kept on GPUs alone.")
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let [dst, extents] = [dev_out(enc, &outputs[0])?, dev_out(enc, &outputs[1])?];
            let (qkv, mask) = ([&views[0], &views[1], &views[2]], self.0.mask(&views));
            let (scale, causal) = (self.0.scale, self.0.causal);
            crate::vulkan::kernels::attention::kept(enc, qkv, mask, scale, causal, [&dst, &extents])
        })
    }

    /// For forward derivatives, which come from this one: `Whole` answers all others.
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        self.0.composed_vjp(r)
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let all = outputs(self.0, &joined(r, 0)?, r.stream)?;
        let split = all.iter().enumerate().map(|(i, a)| reshape(a, &r.shape(i), r.stream));
        Ok((split.collect::<Result<_>>()?, vec![Some(0); 2]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shape = self.0.shape(inputs);
        Ok(vec![shape.clone(), shape[..3].into()])
    }
}

impl Whole {
    fn eval(inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let d = inputs[0].data()?;
        outputs[0].set_data(d.strides.clone(), d.offset, d.storage.clone());
        Ok(())
    }
}

impl Primitive for Whole {
    fn name(&self) -> &str {
        WHOLE
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.0.scale, self.0.causal, self.0.mask]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Whole::eval(inputs, outputs)
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Whole::eval(inputs, outputs)
    }

    /// All that the result follows from is answered for here: nothing flows to the first two inputs.
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let argnums: Vec<usize> = r.argnums.iter().filter(|&&i| i >= 2).map(|i| i - 2).collect();
        let own = Vjp {
            primals: &r.primals[2..],
            cotangents: r.cotangents,
            argnums: &argnums,
            outputs: r.outputs,
            stream: r.stream,
        };
        let mut grads = match gradient::by_kernel(self.0, &own, Some(&r.primals[1]))? {
            Some(grads) => grads,
            None => self.0.composed_vjp(&own)?,
        }
        .into_iter();
        r.each(|i| Ok(if i < 2 { None } else { grads.next().flatten() }))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![r.tangent(0).cloned()]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let y = build(self.0, &joined(r, 2)?, r.stream)?;
        Ok((vec![reshape(&y, &r.shape(0), r.stream)?], vec![Some(0)]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![inputs[0].shape().into()])
    }
}
