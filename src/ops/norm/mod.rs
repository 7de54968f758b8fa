//! RMS and layer normalisation of the last axis. Sums are in float32; the result is rounded once.

pub(super) mod cross_entropy;

use std::any::Any;

use smallvec::smallvec;

use crate::bail;
use crate::core::array::Inputs;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front, raised};
use crate::ops::support::*;
use crate::ops::{add, astype, mean, multiply, rsqrt, square, subtract, sum, zeros};
use crate::params;
#[cfg(feature = "vulkan")]
use crate::{kernels::DeviceView, vulkan::kernels::norm::How};

/// Inputs: x, then weight and bias where they are there; all of one dtype.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Norm {
    pub eps: f32,
    /// Layer normalisation: the mean is taken off first.
    centred: bool,
    weight: bool,
    bias: bool,
}

impl Norm {
    /// Whether rows are divided by the root of their mean square and multiplied by weights, and that is all.
    pub fn is_weighted_rms(&self) -> bool {
        !self.centred && self.weight && !self.bias
    }

    fn op(&self) -> &'static str {
        if self.centred { "layer_norm" } else { "rms_norm" }
    }

    fn weight<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.weight.then(|| &inputs[1])
    }

    fn bias<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.bias.then(|| &inputs[1 + usize::from(self.weight)])
    }

    /// How kernels do it, of such inputs; results are added to an array, if there is one.
    #[cfg(feature = "vulkan")]
    pub fn how<'a>(&self, inputs: &'a [DeviceView], added: Option<&'a DeviceView>) -> How<'a> {
        let (weight, bias) = (self.weight(inputs), self.bias(inputs));
        How { weight, bias, eps: self.eps, centred: self.centred, added }
    }

    /// The normalised rows and one over their deviation, in the type of the sums.
    fn rows(&self, x: &Array, s: Stream) -> Result<(Array, Array)> {
        let acc = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let mut x = astype(x, acc, s)?;
        if self.centred {
            x = subtract(&x, &mean(&x, Some(&[-1]), true, s)?, s)?;
        }
        let power = mean(&square(&x, s)?, Some(&[-1]), true, s)?;
        let inv = rsqrt(&add(&power, &scalar_f64(self.eps.into(), acc)?, s)?, s)?;
        Ok((multiply(&x, &inv, s)?, inv))
    }

    fn composed(&self, inputs: &[Array], s: Stream) -> Result<Array> {
        let (mut y, _) = self.rows(&inputs[0], s)?;
        if let Some(w) = self.weight(inputs) {
            y = multiply(&y, &astype(w, y.dtype(), s)?, s)?;
        }
        if let Some(b) = self.bias(inputs) {
            y = add(&y, &astype(b, y.dtype(), s)?, s)?;
        }
        astype(&y, inputs[0].dtype(), s)
    }

    fn build(&self, inputs: Inputs, s: Stream) -> Result<Array> {
        if inputs[0].size() == 0 || inputs[0].dtype() == Dtype::F64 {
            return self.composed(&inputs, s);
        }
        let x = inputs[0].clone();
        Ok(Array::like(&x, x.dtype(), *self, inputs, s))
    }
}

impl Primitive for Norm {
    fn name(&self) -> &str {
        self.op()
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.eps, self.weight, self.bias]
    }

    fn may_join(&self) -> bool {
        true
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let views = inputs.iter().map(host_in).collect::<Result<Vec<_>>>()?;
        let (w, b) = (self.weight(&views), self.bias(&views));
        crate::cpu::norm::norm(&views[0], w, b, self.eps, self.centred, &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::norm::norm(enc, &views[0], self.how(&views, None), &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let s = r.stream;
        let x = &r.primals[0];
        let (hat, inv) = self.rows(x, s)?;
        let cot = astype(&r.cotangents[0], hat.dtype(), s)?;
        let lead: Vec<i64> = (0..x.ndim() as i64 - 1).collect();
        let to_row = |g: &Array| astype(&sum(g, Some(&lead), false, s)?, x.dtype(), s);
        r.each(|i| {
            if i == 0 {
                let g = match self.weight(r.primals) {
                    Some(w) => multiply(&cot, &astype(w, hat.dtype(), s)?, s)?,
                    None => cot.clone(),
                };
                let along = mean(&multiply(&g, &hat, s)?, Some(&[-1]), true, s)?;
                let mut d = subtract(&g, &multiply(&hat, &along, s)?, s)?;
                if self.centred {
                    d = subtract(&d, &mean(&g, Some(&[-1]), true, s)?, s)?;
                }
                return astype(&multiply(&d, &inv, s)?, x.dtype(), s).map(Some);
            }
            let of_weight = self.weight && i == 1;
            let g = if of_weight { multiply(&cot, &hat, s)? } else { cot.clone() };
            to_row(&g).map(Some)
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        if r.axes[1..].iter().all(Option::is_none) {
            let inputs = std::iter::once(front(r, 0)).chain(r.inputs[1..].iter().cloned().map(Ok));
            return self.build(inputs.collect::<Result<_>>()?, s).map(batched);
        }
        let plain = Norm { weight: false, bias: false, ..*self };
        let dtype = r.inputs[0].dtype();
        let wide = if dtype == Dtype::F64 { dtype } else { Dtype::F32 };
        let rank = r.outputs[0].ndim();
        let x = raised(r, 0, rank)?;
        let mut y = plain.build(smallvec![astype(&x, wide, s)?], s)?;
        let over = |i: usize| astype(&raised(r, i, rank)?, wide, s);
        if self.weight {
            y = multiply(&y, &over(1)?, s)?;
        }
        if self.bias {
            y = add(&y, &over(1 + usize::from(self.weight))?, s)?;
        }
        astype(&y, dtype, s).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored normalisation.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let Some(x) = c.inputs.first() else { return c.unknown() };
    let norm = Norm {
        eps: c.float(0)? as f32,
        centred: c.name == "layer_norm",
        weight: c.flag(1)?,
        bias: c.flag(2)?,
    };
    let count = 1 + usize::from(norm.weight) + usize::from(norm.bias);
    if c.inputs.len() != count || c.inputs.iter().any(|a| a.dtype() != x.dtype()) {
        bail!(Value, "[{}] Expected {count} inputs of {}.", c.name, x.dtype());
    }
    let weight = ("weight", norm.weight(c.inputs));
    normalised(x, weight, norm.bias(c.inputs), norm.eps, norm.centred, c.stream)
}

fn normalised(
    x: &Array,
    weight: (&str, Option<&Array>),
    bias: Option<&Array>,
    eps: f32,
    centred: bool,
    s: Stream,
) -> Result<Array> {
    let norm = Norm { eps, centred, weight: weight.1.is_some(), bias: bias.is_some() };
    let op = norm.op();
    if x.ndim() == 0 {
        bail!(Value, "[{op}] Input must have at least 1 dimension but got input with 0 dimensions.");
    }
    let mut dtype = x.dtype();
    for (name, a) in [weight, ("bias", bias)] {
        let Some(a) = a else { continue };
        if a.ndim() != 1 {
            bail!(Value, "[{op}] {name} must have 1 dimension but has {} dimensions.", a.ndim());
        }
        if a.dim(0) != x.dim(-1) {
            bail!(
                Value,
                "[{op}] {name} must have the same size as the last dimension of x but has {} elements.",
                a.dim(0)
            );
        }
        // As in MLX, a bias alone does not promote.
        if weight.1.is_some() {
            dtype = dtype.promote(a.dtype());
        }
    }
    if !dtype.is_float() {
        bail!(Value, "[{op}] Received unsupported type {dtype}.");
    }
    let mut inputs = Inputs::new();
    for a in [Some(x), weight.1, bias].into_iter().flatten() {
        inputs.push(astype(a, dtype, s)?);
    }
    refuse_f64(op, &inputs, s)?;
    if x.size() == 0 {
        return zeros(x.shape(), dtype, s);
    }
    norm.build(inputs, s)
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis, in the promoted dtype of both.
///
/// # Errors
/// Value error for scalars, dtypes that are not real floating and weights that do not fit.
pub fn rms_norm(x: &Array, weight: Option<&Array>, eps: f32, s: Stream) -> Result<Array> {
    normalised(x, ("(*weight)", weight), None, eps, false, s)
}

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis, in the promoted dtype of all
/// (that of `x` without a weight).
///
/// # Errors
/// As [`rms_norm`].
pub fn layer_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    eps: f32,
    s: Stream,
) -> Result<Array> {
    normalised(x, ("weight", weight), bias, eps, true, s)
}
