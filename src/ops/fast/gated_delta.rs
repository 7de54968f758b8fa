//! The gated delta rule (Yang et al., Gated Delta Networks, 2024): a state per value head decays, forgets what it
//! recalls for a key and stores the new value, step by step.

use std::sync::Arc;

use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Batched, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap};
use crate::on_gpu;
use crate::ops::batching::spread;
use crate::ops::support::*;
use crate::ops::{
    add, astype, contiguous, expand_dims, multiply, repeat, reshape, select, slice, squeeze, stack, subtract,
    sum, zeros,
};
use crate::params;

/// Inputs: q, k, v, gate, beta, state, all float32, and a bool mask where there are seven.
struct GatedDelta;

impl Primitive for GatedDelta {
    fn name(&self) -> &str {
        "gated_delta_update"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let v = inputs.iter().map(host_in).collect::<Result<Vec<_>>>()?;
        let (dst, after) = (host_out(&outputs[0])?, host_out(&outputs[1])?);
        let main = [&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]];
        crate::cpu::gated_delta::gated_delta(main, v.get(6), &dst, &after);
        Ok(())
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let v = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let (dst, after) = (dev_out(enc, &outputs[0])?, dev_out(enc, &outputs[1])?);
            let main = [&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]];
            crate::vulkan::gated_delta::gated_delta(enc, main, v.get(6), &dst, &after)
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        let n = r.size();
        let joined = |i: usize| -> Result<Array> {
            let a = spread(r, i)?;
            let mut shape: Shape = a.shape()[1..].into();
            shape[0] *= n;
            reshape(&a, &shape, s)
        };
        let inputs = (0..r.inputs.len()).map(joined).collect::<Result<Vec<_>>>()?;
        let outs = kernel(&inputs, s)?;
        let split = outs.iter().enumerate().map(|(i, a)| reshape(a, &r.shape(i), s));
        Ok((split.collect::<Result<_>>()?, vec![Some(0); 2]))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn std::any::Any).is::<GatedDelta>()
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored update.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let [q, k, v, gate, beta, state, mask @ ..] = c.inputs else { return c.unknown() };
    let floats = c.inputs[..6].iter().all(|a| a.dtype() == Dtype::F32);
    if !floats || mask.len() > 1 || mask.iter().any(|m| m.dtype() != Dtype::Bool) {
        bail!(Value, "[gated_delta_update] Expected float32 inputs and at most one mask.");
    }
    gated_delta_update(q, k, v, gate, beta, Some(state), mask.first(), c.stream).map(Vec::from)
}

fn kernel(inputs: &[Array], s: Stream) -> Result<[Array; 2]> {
    let whole = inputs.iter().map(|a| contiguous(a, false, s)).collect::<Result<Vec<_>>>()?;
    let specs = vec![(inputs[2].shape().into(), Dtype::F32), (inputs[5].shape().into(), Dtype::F32)];
    let mut outs = Array::lazy_many(specs, Arc::new(GatedDelta), whole, s).into_iter();
    // INVARIANT: two specs make two outputs.
    Ok(std::array::from_fn(|_| outs.next().expect("an output for each spec")))
}

/// The same by ops, step by step.
fn composed(inputs: &[Array], s: Stream) -> Result<[Array; 2]> {
    let (q, v, gate) = (&inputs[0], &inputs[2], &inputs[3]);
    let (t, hk, hv) = (q.dim(1), q.dim(2), v.dim(2));
    let wide_gate = gate.ndim() == 4;
    let heads = |a: &Array| if hv == hk { Ok(a.clone()) } else { repeat(a, hv / hk, Some(2), s) };
    let (qs, ks) = (heads(q)?, heads(&inputs[1])?);
    let (vs, bs, mask) = (v, &inputs[4], inputs.get(6));
    let mut held = inputs[5].clone();
    let step = |a: &Array, i: i64| -> Result<Array> {
        let (mut from, mut to) = (vec![0; a.ndim()], a.shape().to_vec());
        (from[1], to[1]) = (i, i + 1);
        squeeze(&slice(a, &from, &to, &vec![1; a.ndim()], s)?, Some(&[1]), s)
    };
    let mut outs = Vec::with_capacity(t as usize);
    for i in 0..t {
        let row = |a: &Array| expand_dims(&step(a, i)?, &[2], s);
        let (qi, ki) = (row(&qs)?, row(&ks)?);
        let g = if wide_gate { row(gate)? } else { expand_dims(&step(gate, i)?, &[-1, -2], s)? };
        let kept = multiply(&held, &g, s)?;
        let recalled = sum(&multiply(&kept, &ki, s)?, Some(&[-1]), false, s)?;
        let fresh = subtract(&step(vs, i)?, &recalled, s)?;
        let fresh = multiply(&fresh, &expand_dims(&step(bs, i)?, &[-1], s)?, s)?;
        let next = add(&kept, &multiply(&expand_dims(&fresh, &[-1], s)?, &ki, s)?, s)?;
        let mut out = sum(&multiply(&next, &qi, s)?, Some(&[-1]), false, s)?;
        held = match mask {
            Some(m) => {
                let live = expand_dims(&step(m, i)?, &[1, 2], s)?;
                out = select(&live, &out, &scalar_f64(0.0, Dtype::F32)?, s)?;
                select(&expand_dims(&live, &[3], s)?, &next, &held, s)?
            }
            None => next,
        };
        outs.push(out);
    }
    Ok([stack(&outs, 1, s)?, held])
}

/// Outputs (batch, steps, value heads, value features) in the dtype of `q`, and the last state (batch, value
/// heads, value features, key features) in float32. `q` and `k` have shape (batch, steps, key heads, key
/// features), `gamma` and `beta` (batch, steps, value heads); `gamma` may have an axis of key features more. Where
/// `mask` (batch, steps) is false the state stays and the output is zero.
///
/// # Errors
/// Value error for shapes that do not fit.
#[allow(clippy::too_many_arguments)]
pub fn gated_delta_update(
    q: &Array,
    k: &Array,
    v: &Array,
    gamma: &Array,
    beta: &Array,
    state: Option<&Array>,
    mask: Option<&Array>,
    s: Stream,
) -> Result<[Array; 2]> {
    const OP: &str = "gated_delta_update";
    for (name, a) in [("q", q), ("k", k), ("v", v)] {
        if a.ndim() != 4 {
            bail!(Value, "[{OP}] {name} must have 4 dimensions, got shape {}.", show(a.shape()));
        }
    }
    let (b, t, hk, dk) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
    let (hv, dv) = (v.dim(2), v.dim(3));
    let fits = k.shape() == q.shape() && v.dim(0) == b && v.dim(1) == t;
    if !fits || hk == 0 || hv % hk != 0 {
        bail!(
            Value,
            "[{OP}] Expected keys like queries and values of a multiple of their heads, got {}, {} and {}.",
            show(q.shape()),
            show(k.shape()),
            show(v.shape())
        );
    }
    if t == 0 {
        bail!(Value, "[{OP}] Expected at least one step, got shape {}.", show(q.shape()));
    }
    let expect = |name: &str, a: &Array, shape: &[i64]| {
        if a.shape() != shape {
            bail!(Value, "[{OP}] {name} must have shape {}, got {}.", show(shape), show(a.shape()));
        }
        Ok(())
    };
    let wide_gate = gamma.ndim() == 4;
    match wide_gate {
        true => expect("gamma", gamma, &[b, t, hv, dk])?,
        false => expect("gamma", gamma, &[b, t, hv])?,
    }
    expect("beta", beta, &[b, t, hv])?;
    if let Some(m) = mask {
        expect("mask", m, &[b, t])?;
    }
    refuse_f64(OP, &[q.clone(), k.clone(), v.clone()], s)?;
    let f32 = |a: &Array| astype(a, Dtype::F32, s);
    let shape = [b, hv, dv, dk];
    let state = match state {
        Some(a) => {
            expect("initial_state", a, &shape)?;
            f32(a)?
        }
        None => zeros(&shape, Dtype::F32, s)?,
    };
    let mut inputs = vec![f32(q)?, f32(k)?, f32(v)?, f32(gamma)?, f32(beta)?, state];
    if let Some(m) = mask {
        inputs.push(astype(m, Dtype::Bool, s)?);
    }
    // What is differentiated is the composition: the kernel keeps no states.
    let plain = inputs.iter().any(|a| a.is_tracer()) || inputs[..6].iter().any(|a| a.size() == 0);
    let [out, last] = if plain { composed(&inputs, s)? } else { kernel(&inputs, s)? };
    let dtype = if q.dtype().is_float() { q.dtype() } else { Dtype::F32 };
    Ok([astype(&out, dtype, s)?, last])
}
