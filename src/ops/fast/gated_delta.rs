//! The gated delta rule (Yang et al., Gated Delta Networks, 2024): a state per value head decays, forgets what it
//! recalls for a key and stores the new value, step by step.

use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Dtype, Result, Stream};
use crate::ops::support::*;
use crate::ops::{
    add, astype, expand_dims, multiply, repeat, select, slice, squeeze, stack, subtract, sum, zeros,
};

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
    let heads = |a: &Array| if hv == hk { f32(a) } else { repeat(&f32(a)?, hv / hk, Some(2), s) };
    let (qs, ks, vs) = (heads(q)?, heads(k)?, f32(v)?);
    let (gs, bs) = (f32(gamma)?, f32(beta)?);
    let shape = [b, hv, dv, dk];
    let mut held = match state {
        Some(a) => {
            expect("initial_state", a, &shape)?;
            f32(a)?
        }
        None => zeros(&shape, Dtype::F32, s)?,
    };
    let step = |a: &Array, i: i64| -> Result<Array> {
        let (mut from, mut to) = (vec![0; a.ndim()], a.shape().to_vec());
        (from[1], to[1]) = (i, i + 1);
        squeeze(&slice(a, &from, &to, &vec![1; a.ndim()], s)?, Some(&[1]), s)
    };
    let mut outs = Vec::with_capacity(t as usize);
    for i in 0..t {
        let row = |a: &Array| expand_dims(&step(a, i)?, &[2], s);
        let (qi, ki) = (row(&qs)?, row(&ks)?);
        let gate = if wide_gate { row(&gs)? } else { expand_dims(&step(&gs, i)?, &[-1, -2], s)? };
        let kept = multiply(&held, &gate, s)?;
        let recalled = sum(&multiply(&kept, &ki, s)?, Some(&[-1]), false, s)?;
        let fresh = subtract(&step(&vs, i)?, &recalled, s)?;
        let fresh = multiply(&fresh, &expand_dims(&step(&bs, i)?, &[-1], s)?, s)?;
        let next = add(&kept, &multiply(&expand_dims(&fresh, &[-1], s)?, &ki, s)?, s)?;
        let mut out = sum(&multiply(&next, &qi, s)?, Some(&[-1]), false, s)?;
        held = match mask {
            Some(m) => {
                let live = expand_dims(&astype(&step(m, i)?, Dtype::Bool, s)?, &[1, 2], s)?;
                out = select(&live, &out, &scalar_f64(0.0, Dtype::F32)?, s)?;
                select(&expand_dims(&live, &[3], s)?, &next, &held, s)?
            }
            None => next,
        };
        outs.push(out);
    }
    let dtype = if q.dtype().is_float() { q.dtype() } else { Dtype::F32 };
    Ok([astype(&stack(&outs, 1, s)?, dtype, s)?, held])
}
