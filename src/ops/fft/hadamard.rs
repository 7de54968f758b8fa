//! The Walsh-Hadamard transform along the last axis, for lengths m * 2^k with m in 1, 12, 20, 28.

use std::any::Any;

use crate::bail;
use crate::core::layout::show;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::fft::hadamard::Order;
use crate::on_gpu;
use crate::ops::batching::{batched, front};
use crate::ops::composite;
use crate::ops::elementwise::astype;
use crate::ops::support::*;
use crate::ops::view::reshape;
use crate::params;

/// `scale * H x`, or with the transposed matrix, which differs for m > 1.
#[derive(Clone, Copy, PartialEq)]
struct Hadamard {
    order: Order,
    scale: f32,
}

impl Hadamard {
    fn apply(&self, a: &Array, s: Stream) -> Array {
        Array::like(a, a.dtype(), *self, vec![a.clone()], s)
    }
}

impl Primitive for Hadamard {
    fn name(&self) -> &str {
        "hadamard_transform"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.scale, self.order.transposed]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        crate::cpu::fft::hadamard::hadamard(
            &host_in(&inputs[0])?,
            self.order,
            self.scale,
            &host_out(&outputs[0])?,
        )
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (src, dst) = (dev_in(enc, &inputs[0])?, dev_out(enc, &outputs[0])?);
            crate::vulkan::kernels::fft::hadamard::hadamard(enc, &src, self.order, self.scale, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let back = Hadamard { order: self.order.transposed(), ..*self };
        Ok(vec![Some(back.apply(&r.cotangents[0], r.stream))])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(self.apply(&r.tangents[0], r.stream))]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        Ok(batched(self.apply(&front(r, 0)?, r.stream)))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shape = inputs[0].shape();
        if Order::of(inputs[0].dim(-1)).is_none_or(|o| (o.m, o.k) != (self.order.m, self.order.k)) {
            bail!(Value, "[hadamard_transform] Recorded for another length, got shape {}.", show(shape));
        }
        Ok(vec![shape.into()])
    }
}

/// A stored transform.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let a = c.input_with_axes()?;
    let Some(order) = Order::of(a.dim(-1)).filter(|_| a.size() > 0 && a.dtype().is_float()) else {
        bail!(Value, "[hadamard_transform] Cannot transform {} of {}.", show(a.shape()), a.dtype());
    };
    refuse_f64("hadamard_transform", std::slice::from_ref(a), c.stream)?;
    let order = if c.flag(1)? { order.transposed() } else { order };
    Ok(Hadamard { order, scale: c.float(0)? as f32 }.apply(a, c.stream))
}

/// A stored transform as the public op has it.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    hadamard_transform(c.input()?, c.maybe_float(0)?.map(|scale| scale as f32), c.stream)
}

/// `scale * H x` along the last axis, where H is the Hadamard matrix of its length; `scale` is one over the
/// square root of the length by default. Integers become float32.
pub fn hadamard_transform(a: &Array, scale: Option<f32>, s: Stream) -> Result<Array> {
    const OP: &str = "hadamard_transform";
    if a.size() == 0 {
        bail!(Value, "[{OP}] Does not support empty arrays, got shape {}.", show(a.shape()));
    }
    if a.dtype() == Dtype::C64 {
        bail!(Value, "[{OP}] Only real numbers are supported, got {}.", a.dtype());
    }
    let x = astype(a, a.dtype().at_least_float(), s)?;
    refuse_f64(OP, std::slice::from_ref(&x), s)?;
    if x.ndim() == 0 {
        return reshape(&hadamard_transform(&reshape(&x, &[1], s)?, scale, s)?, &[], s);
    }
    if let Some(out) = composite::one("hadamard", || vec![scale.map(f64::from).into()], &[&x], s)? {
        return Ok(out);
    }
    let n = x.dim(-1);
    let Some(order) = Order::of(n) else {
        bail!(Value, "[{OP}] Only supports n = m*2^k where m in (1, 12, 20, 28), got n = {n}.");
    };
    let scale = scale.unwrap_or_else(|| (1.0 / (n as f64).sqrt()) as f32);
    Ok(Hadamard { order, scale }.apply(&x, s))
}
