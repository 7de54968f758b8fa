//! The gated delta rule (Yang et al., Gated Delta Networks, 2024): a state per value head decays, forgets what it
//! recalls for a key and stores the new value, step by step.

use std::sync::Arc;

use crate::bail;
use crate::core::layout::show;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::with_batch;
use crate::ops::elementwise::select;
use crate::ops::support::*;
use crate::ops::{
    add, astype, contiguous, expand_dims, multiply, repeat, reshape, slice, squeeze, stack, subtract, sum,
    zeros,
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
        crate::cpu::attention::gated_delta::gated_delta(main, v.get(6), &dst, &after);
        Ok(())
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let v = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let (dst, after) = (dev_out(enc, &outputs[0])?, dev_out(enc, &outputs[1])?);
            let main = [&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]];
            crate::vulkan::kernels::attention::gated_delta::gated_delta(enc, main, v.get(6), &dst, &after)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let all = backward(r.primals, &r.cotangents[0], &r.cotangents[1], r.stream)?;
        r.each(|i| Ok(all.get(i).cloned()))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        let n = r.size();
        let joined = |i: usize| -> Result<Array> {
            let a = with_batch(r, i)?;
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
    let mut outs = Array::lazy_many(specs, Arc::new(GatedDelta), whole, s)?.into_iter();
    // INVARIANT: two specs make two outputs.
    Ok(std::array::from_fn(|_| outs.next().expect("an output for each spec")))
}

/// One step of an array whose second axis is that of steps.
fn step(a: &Array, i: i64, s: Stream) -> Result<Array> {
    let (mut from, mut to) = (vec![0; a.ndim()], a.shape().to_vec());
    (from[1], to[1]) = (i, i + 1);
    squeeze(&slice(a, &from, &to, &vec![1; a.ndim()], s)?, Some(&[1]), s)
}

/// What a step reads and computes. Rows of keys have shape (batch, heads, 1, dk), columns of values (batch, heads,
/// dv, 1), states (batch, heads, dv, dk).
struct Step {
    q: Array,
    k: Array,
    gate: Array,
    beta: Array,
    before: Array,
    kept: Array,
    /// The value less what was recalled.
    missing: Array,
    fresh: Array,
    next: Array,
    out: Array,
    /// Of shape (batch, 1, 1, 1).
    live: Option<Array>,
}

/// The same by ops, step by step, and the last state.
fn composed(inputs: &[Array], s: Stream) -> Result<(Vec<Step>, Array)> {
    let (v, gates) = (&inputs[2], &inputs[3]);
    let (t, hk, hv) = (v.dim(1), inputs[0].dim(2), v.dim(2));
    let heads = |a: &Array| if hv == hk { Ok(a.clone()) } else { repeat(a, hv / hk, Some(2), s) };
    let (qs, ks) = (heads(&inputs[0])?, heads(&inputs[1])?);
    let row = |a: &Array, i: i64| expand_dims(&step(a, i, s)?, &[2], s);
    let column = |a: &Array, i: i64| expand_dims(&step(a, i, s)?, &[-1], s);
    let along = |a: Array| sum(&a, Some(&[-1]), true, s);
    let mut held = inputs[5].clone();
    check_count("gated_delta_update", t)?;
    let mut steps = Vec::new();
    for i in 0..t {
        let (q, k) = (row(&qs, i)?, row(&ks, i)?);
        let beta = expand_dims(&column(&inputs[4], i)?, &[-1], s)?;
        let gate = match gates.ndim() {
            4 => row(gates, i)?,
            _ => expand_dims(&column(gates, i)?, &[-1], s)?,
        };
        let kept = multiply(&held, &gate, s)?;
        let recalled = along(multiply(&kept, &k, s)?)?;
        let missing = subtract(&column(v, i)?, &recalled, s)?;
        let fresh = multiply(&missing, &beta, s)?;
        let next = add(&kept, &multiply(&fresh, &k, s)?, s)?;
        let mut out = along(multiply(&next, &q, s)?)?;
        let live = match inputs.get(6) {
            Some(m) => Some(expand_dims(&step(m, i, s)?, &[1, 2, 3], s)?),
            None => None,
        };
        let before = held;
        held = match &live {
            Some(live) => {
                out = select(live, &out, &scalar_f64(0.0, Dtype::F32)?, s)?;
                select(live, &next, &before, s)?
            }
            None => next.clone(),
        };
        steps.push(Step { q, k, gate, beta, before, kept, missing, fresh, next, out, live });
    }
    Ok((steps, held))
}

/// Cotangents of all inputs but the mask: the steps in reverse, with the cotangent of the state.
fn backward(inputs: &[Array], cot: &Array, last: &Array, s: Stream) -> Result<Vec<Array>> {
    let (steps, _) = composed(inputs, s)?;
    let zero = scalar_f64(0.0, Dtype::F32)?;
    let over = |a: &Array, b: &Array, axes: &[i64]| sum(&multiply(a, b, s)?, Some(axes), true, s);
    let mut all: [Vec<Array>; 5] = Default::default();
    let mut state = last.clone();
    for (i, st) in steps.iter().enumerate().rev() {
        let mut dy = expand_dims(&step(cot, i as i64, s)?, &[-1], s)?;
        let mut d = state.clone();
        if let Some(live) = &st.live {
            dy = select(live, &dy, &zero, s)?;
            d = select(live, &d, &zero, s)?;
        }
        d = add(&d, &multiply(&dy, &st.q, s)?, s)?;
        let dq = over(&st.next, &dy, &[-2])?;
        let fresh = over(&d, &st.k, &[-1])?;
        let dv = multiply(&fresh, &st.beta, s)?;
        let beta = over(&fresh, &st.missing, &[-2])?;
        let dk = over(&d, &st.fresh, &[-2])?;
        let dk = subtract(&dk, &over(&st.kept, &dv, &[-2])?, s)?;
        d = subtract(&d, &multiply(&dv, &st.k, s)?, s)?;
        let gate = over(&d, &st.before, if inputs[3].ndim() == 4 { &[-2] } else { &[-2, -1] })?;
        let before = multiply(&d, &st.gate, s)?;
        state = match &st.live {
            Some(live) => select(live, &before, &state, s)?,
            None => before,
        };
        for (list, a) in all.iter_mut().zip([dq, dk, dv, gate, beta]) {
            list.push(a);
        }
    }
    let mut out = Vec::with_capacity(6);
    for (i, mut list) in all.into_iter().enumerate() {
        list.reverse();
        let mut a = stack(&list, 1, s)?;
        let (b, t, h, d) = (inputs[i].dim(0), inputs[i].dim(1), inputs[i].dim(2), inputs[i].dim(-1));
        if i < 2 {
            // Heads of values that share a head of keys.
            a = sum(&reshape(&a, &[b, t, h, -1, d], s)?, Some(&[3]), false, s)?;
        }
        out.push(reshape(&a, inputs[i].shape(), s)?);
    }
    out.push(state);
    Ok(out)
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
    let [out, last] = if inputs[..6].iter().any(|a| a.size() == 0) {
        let (steps, last) = composed(&inputs, s)?;
        let outs: Vec<Array> = steps.into_iter().map(|st| st.out).collect();
        [reshape(&stack(&outs, 1, s)?, v.shape(), s)?, last]
    } else {
        kernel(&inputs, s)?
    };
    let dtype = if q.dtype().is_float() { q.dtype() } else { Dtype::F32 };
    Ok([astype(&out, dtype, s)?, last])
}
