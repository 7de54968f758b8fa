//! Rotary position embedding (Su et al., RoFormer, section 3.2): pairs of features are rotated by angles that
//! grow with the position. Angles are float32; the derivative turns back.

use std::any::Any;

use crate::bail;
use crate::core::layout::show;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::attention::rope::{Form, inverse_frequencies};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::support::*;
use crate::ops::{
    add, arange, astype, broadcast_to, concatenate, cos, divide, expand_dims, multiply, negative, reshape,
    sin, slice, stack, subtract,
};
use crate::params;

/// Where positions start: for all, or one for every element of the first axis.
pub enum Offset {
    /// For all.
    Fixed(i32),
    /// A scalar or a vector of integers.
    Each(Array),
}

/// Which features are rotated, and how far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotation {
    /// Leading features that are rotated; the others stay.
    pub dims: i64,
    /// Whether neighbours form a pair, rather than features half of `dims` apart.
    pub traditional: bool,
    /// Angles per position fall from 1 to 1 / `base`.
    pub base: Option<f32>,
    /// Factor of positions.
    pub scale: f32,
}

/// Inputs: x with axes (batch, heads, positions, features), then offsets (int32 vector of 1 or batch elements)
/// and wavelengths (float32) where they are arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rope {
    pub how: Rotation,
    /// `None`: offsets are an input.
    offset: Option<i32>,
    /// Turns the other way.
    back: bool,
}

impl Rope {
    pub fn offsets<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.offset.is_none().then(|| &inputs[1])
    }

    pub fn waves<'a, T>(&self, inputs: &'a [T]) -> Option<&'a T> {
        self.how.base.is_none().then(|| &inputs[1 + usize::from(self.offset.is_none())])
    }

    pub fn form(&self) -> Form {
        Form {
            // FITS: at most the last dimension, and not negative.
            dims: self.how.dims as usize,
            traditional: self.how.traditional,
            base: self.how.base,
            scale: self.how.scale,
            offset: self.offset.unwrap_or(0),
            back: self.back,
        }
    }

    fn composed(&self, inputs: &[Array], s: Stream) -> Result<Array> {
        let x = &inputs[0];
        let acc = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let (t, d, dims) = (x.dim(2), x.dim(3), self.how.dims);
        let mut positions = arange(0.0, t as f64, 1.0, Dtype::I32, s)?;
        positions = match self.offsets(inputs) {
            // (batch, 1, positions)
            Some(o) => add(&positions, &expand_dims(o, &[1, 2], s)?, s)?,
            None => add(&positions, &scalar_i64(self.form().offset.into(), Dtype::I32)?, s)?,
        };
        let positions = astype(&positions, acc, s)?;
        let positions = multiply(&positions, &scalar_f64(self.how.scale.into(), acc)?, s)?;
        let positions = expand_dims(&positions, &[-1], s)?;
        let angles = match self.waves(inputs) {
            Some(f) => divide(&positions, &astype(f, acc, s)?, s)?,
            None => {
                let table = inverse_frequencies(&self.form());
                let table = from_host(&[table.len() as i64], Dtype::F32, |p| {
                    // SAFETY: memory for as many floats.
                    unsafe { std::ptr::copy_nonoverlapping(table.as_ptr().cast(), p, 4 * table.len()) }
                })?;
                multiply(&positions, &astype(&table, acc, s)?, s)?
            }
        };
        let (c, mut sn) = (cos(&angles, s)?, sin(&angles, s)?);
        if self.back {
            sn = negative(&sn, s)?;
        }
        let part = |from: i64, to: i64, step: i64| -> Result<Array> {
            let shape = x.shape();
            let p = slice(x, &[0, 0, 0, from], &[shape[0], shape[1], shape[2], to], &[1, 1, 1, step], s)?;
            astype(&p, acc, s)
        };
        let (a, b) = match self.how.traditional {
            true => (part(0, dims, 2)?, part(1, dims, 2)?),
            false => (part(0, dims / 2, 1)?, part(dims / 2, dims, 1)?),
        };
        let rotated = [
            subtract(&multiply(&a, &c, s)?, &multiply(&b, &sn, s)?, s)?,
            add(&multiply(&a, &sn, s)?, &multiply(&b, &c, s)?, s)?,
        ];
        let y = match self.how.traditional {
            true => {
                let mut shape: Shape = x.shape().into();
                shape[3] = dims;
                reshape(&stack(&rotated, -1, s)?, &shape, s)?
            }
            false => concatenate(&rotated, -1, s)?,
        };
        let y = if dims < d { concatenate(&[y, part(dims, d, 1)?], -1, s)? } else { y };
        astype(&y, x.dtype(), s)
    }

    fn build(&self, inputs: Vec<Array>, s: Stream) -> Result<Array> {
        let x = inputs[0].clone();
        if x.size() == 0 {
            return Ok(x);
        }
        if x.dtype() == Dtype::F64 {
            return self.composed(&inputs, s);
        }
        Ok(Array::like(&x, x.dtype(), *self, inputs, s))
    }

    /// The same for another array than the first input.
    fn of(&self, x: &Array, inputs: &[Array], back: bool, s: Stream) -> Result<Array> {
        let all = std::iter::once(x).chain(&inputs[1..]).cloned().collect();
        Rope { back, ..*self }.build(all, s)
    }
}

impl Primitive for Rope {
    fn name(&self) -> &str {
        "rope"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![
            self.how.dims,
            self.how.traditional,
            self.how.base.is_some(),
            self.how.base.unwrap_or(0.0),
            self.how.scale,
            self.offset.is_some(),
            i64::from(self.offset.unwrap_or(0)),
            self.back,
        ]
    }

    fn may_join(&self) -> bool {
        true
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let views = inputs.iter().map(host_in).collect::<Result<Vec<_>>>()?;
        let dst = host_out(&outputs[0])?;
        crate::cpu::attention::rope::rope(
            &views[0],
            self.offsets(&views),
            self.waves(&views),
            &self.form(),
            &dst,
        )
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::attention::rope::rope(
                enc,
                &views[0],
                self.offsets(&views),
                self.waves(&views),
                &self.form(),
                &dst,
            )
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        r.each(|i| match i {
            0 => self.of(&r.cotangents[0], r.primals, !self.back, r.stream).map(Some),
            _ => Ok(None),
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let rotated = r.tangent(0).map(|t| self.of(t, r.primals, self.back, r.stream));
        Ok(Some(vec![rotated.transpose()?]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        if self.waves(r.axes).is_some_and(Option::is_some) {
            bail!(Value, "[rope] vmap over freqs is not supported.");
        }
        let n = r.size();
        let x = with_batch(r, 0)?;
        let shape: Shape = x.shape().into();
        let joined = |a: &Array| reshape(a, &[n * shape[1], shape[2], shape[3], shape[4]], s);
        let mut inputs = vec![joined(&x)?];
        let mut rope = *self;
        if self.offset.is_none() {
            let o = front(r, 1)?;
            let o = if r.axes[1].is_none() { expand_dims(&o, &[0], s)? } else { o };
            inputs.push(reshape(&broadcast_to(&o, &[n, shape[1]], s)?, &[n * shape[1]], s)?);
            rope.offset = None;
        }
        inputs.extend(self.waves(r.inputs).cloned());
        let y = rope.build(inputs, s)?;
        Ok(batched(reshape(&y, &shape, s)?))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored rotation.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let how = Rotation {
        dims: c.int(0)?,
        traditional: c.flag(1)?,
        base: if c.flag(2)? { Some(c.float(3)? as f32) } else { None },
        scale: c.float(4)? as f32,
    };
    let number = || i32::try_from(c.int(6)?).or_else(|_| c.unknown());
    let offset = if c.flag(5)? { Some(number()?) } else { None };
    let op = Rope { how, offset, back: c.flag(7)? };
    let count = 1 + usize::from(offset.is_none()) + usize::from(how.base.is_none());
    let fits = c.inputs.len() == count
        && c.inputs[0].ndim() == 4
        && op.offsets(c.inputs).is_none_or(|o| o.ndim() == 1 && o.dtype() == Dtype::I32)
        && op.waves(c.inputs).is_none_or(|w| w.dtype() == Dtype::F32);
    if !fits {
        bail!(Value, "[rope] Expected {count} inputs, the first with 4 axes.");
    }
    // Checks the rest.
    let start = offset.map_or_else(|| Offset::Each(c.inputs[1].clone()), Offset::Fixed);
    rope(&c.inputs[0], how, start, op.waves(c.inputs), c.stream)?;
    op.build(c.inputs.to_vec(), c.stream)
}

/// `x`, of shape (batch, ..., positions, features), with its first `dims` features rotated by their positions.
/// `freqs`, of `dims / 2` elements, are wavelengths that stand for the base.
///
/// # Errors
/// Value error for dtypes that are not real floating, `dims` that are odd or do not fit, both or none of base and
/// `freqs`, and offsets that do not fit.
pub fn rope(x: &Array, how: Rotation, offset: Offset, freqs: Option<&Array>, s: Stream) -> Result<Array> {
    const OP: &str = "rope";
    let Rotation { dims, base, .. } = how;
    if x.ndim() < 3 {
        let n = x.ndim();
        bail!(Value, "[{OP}] Input must have at least 3 dimensions but got input with {n} dimensions.");
    }
    if !x.dtype().is_float() {
        bail!(Value, "[{OP}] Input must be a floating type but got {}.", x.dtype());
    }
    if dims <= 0 {
        bail!(Value, "[{OP}] dims must be positive but got {dims}.");
    }
    if dims % 2 != 0 {
        bail!(Value, "[{OP}] dims must be even but got {dims}.");
    }
    let d = x.dim(-1);
    if dims > d {
        bail!(Value, "[{OP}] dims must not exceed the input's last dimension ({d}) but got {dims}.");
    }
    match (base, freqs) {
        (None, None) => bail!(Value, "[{OP}] Neither base nor freqs has a value."),
        (Some(_), Some(_)) => bail!(Value, "[{OP}] Only one of base or freqs can have a value."),
        _ => {}
    }
    refuse_f64(OP, std::slice::from_ref(x), s)?;
    let batch = x.dim(0);
    let mut inputs = Vec::with_capacity(3);
    let middle: i64 = x.shape()[1..x.ndim() - 2].iter().product();
    inputs.push(reshape(x, &[batch, middle, x.dim(-2), d], s)?);
    let mut rope = Rope { how, offset: None, back: false };
    match offset {
        Offset::Fixed(o) => rope.offset = Some(o),
        Offset::Each(o) => {
            if o.ndim() > 1 {
                bail!(
                    Value,
                    "[{OP}] offset must have at most one dimension but has shape {}.",
                    show(o.shape())
                );
            }
            if o.ndim() == 1 && o.dim(0) != 1 && o.dim(0) != batch {
                bail!(
                    Value,
                    "[{OP}] offset must be a scalar or vector with {batch} elements but has shape {}.",
                    show(o.shape())
                );
            }
            if !o.dtype().is_integer() {
                bail!(Value, "[{OP}] offset must be an integer but got type {}.", o.dtype());
            }
            inputs.push(reshape(&astype(&o, Dtype::I32, s)?, &[o.size() as i64], s)?);
        }
    }
    if let Some(f) = freqs {
        if f.ndim() != 1 || f.dim(0) != dims / 2 {
            bail!(
                Value,
                "[{OP}] freqs must be one dimensional with size {} but got shape {}.",
                dims / 2,
                show(f.shape())
            );
        }
        inputs.push(astype(f, Dtype::F32, s)?);
    }
    reshape(&rope.build(inputs, s)?, x.shape(), s)
}
