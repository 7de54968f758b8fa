//! Quantisation of matrices along their last axis, in groups that share a scale, and back. Codes have no
//! derivative; scales and biases do.

use std::any::Any;

use crate::bail;
use crate::core::layout::show;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::quantized::quant::{Format, GLOBAL, Mode};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::create::zeros;
use crate::ops::elementwise::{add, astype, divide, equal, multiply, not_equal, round, select, subtract};
use crate::ops::reduce::{max, sum};
use crate::ops::support::*;
use crate::ops::view::{contiguous, expand_dims, reshape};

/// Outputs codes, scales and, in affine formats, biases. Inputs: the contiguous matrix, and maybe what
/// [`GLOBAL`] is divided by.
#[derive(PartialEq)]
struct Quantize(Format);

/// Inputs: codes, scales and, in affine formats, biases; all contiguous.
#[derive(PartialEq)]
struct Dequantize(Format);

/// The shape with another last axis.
pub(in crate::ops) fn with_last(shape: &[i64], last: i64) -> Shape {
    let mut shape = Shape::from_slice(shape);
    if let Some(d) = shape.last_mut() {
        *d = last;
    }
    shape
}

/// Groups of the last axis on an axis of their own.
fn grouped(a: &Array, group: u32, s: Stream) -> Result<Array> {
    let mut shape = with_last(a.shape(), a.dim(-1) / i64::from(group));
    shape.push(group.into());
    reshape(a, &shape, s)
}

impl Primitive for Quantize {
    fn name(&self) -> &str {
        "quantize"
    }

    fn params(&self) -> Option<Vec<Param>> {
        self.0.params()
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let w = host_in(&inputs[0])?;
        // SAFETY: a float32 scalar.
        let global = inputs.get(1).map(|g| host_in(g).map(|v| unsafe { *v.as_ptr::<f32>() })).transpose()?;
        let (codes, scales) = (host_out(&outputs[0])?, host_out(&outputs[1])?);
        let biases = outputs.get(2).map(host_out).transpose()?;
        crate::cpu::quantized::quant::quantize(
            self.0,
            &w,
            global.map(|g| GLOBAL / g),
            &codes,
            &scales,
            biases.as_ref(),
        )
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let w = dev_in(enc, &inputs[0])?;
            let global = inputs.get(1).map(|g| dev_in(enc, g)).transpose()?;
            let (codes, scales) = (dev_out(enc, &outputs[0])?, dev_out(enc, &outputs[1])?);
            let biases = outputs.get(2).map(|b| dev_out(enc, b)).transpose()?;
            crate::vulkan::kernels::quantized::quant::quantize(
                enc,
                self.0,
                &w,
                global.as_ref(),
                &codes,
                &scales,
                biases.as_ref(),
            )
        })
    }

    /// The scale is the distance of the far end of a group, its bias, from zero in steps: both move with the
    /// elements at that end. In one bit the bias is the least element, and the scale the distance to the largest.
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (s, w) = (r.stream, &r.primals[0]);
        r.each(|i| {
            if i != 0 || !self.0.affine() {
                return Ok(None);
            }
            // Outputs that nobody asked for are not there.
            let outs = apply(self.0, w, None, s)?;
            let (scale, bias) = (&outs[1], &outs[2]);
            let groups = grouped(w, self.0.group, s)?;
            let low = expand_dims(bias, &[-1], s)?;
            if self.0.bits == 1 {
                let high = max(&groups, Some(&[-1]), true, s)?;
                let wide = not_equal(&high, &low, s)?;
                let up = expand_dims(&r.cotangents[1], &[-1], s)?;
                let up = select(&wide, &up, &scalar_f64(0.0, w.dtype())?, s)?;
                let down = subtract(&expand_dims(&r.cotangents[2], &[-1], s)?, &up, s)?;
                let moved = add(&among(&groups, &low, &down, s)?, &among(&groups, &high, &up, s)?, s)?;
                return reshape(&moved, w.shape(), s).map(Some);
            }
            let steps = round(&divide(bias, scale, s)?, 0, s)?;
            let zero = scalar_f64(0.0, w.dtype())?;
            let one = scalar_f64(1.0, w.dtype())?;
            let safe = select(&not_equal(&steps, &zero, s)?, &steps, &one, s)?;
            let moved = add(&divide(&r.cotangents[1], &safe, s)?, &r.cotangents[2], s)?;
            let moved = select(&not_equal(&steps, &zero, s)?, &moved, &zero, s)?;
            let moved = among(&groups, &low, &expand_dims(&moved, &[-1], s)?, s)?;
            reshape(&moved, w.shape(), s).map(Some)
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        if r.axes.get(1).is_some_and(Option::is_some) {
            bail!(Value, "[quantize] A global scale cannot vary under vmap.");
        }
        let outs = apply(self.0, &front(r, 0)?, r.inputs.get(1), r.stream)?;
        let axes = vec![Some(0); outs.len()];
        Ok((outs, axes))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shape = inputs[0].shape();
        let len = inputs[0].dim(-1) as usize;
        let groups = with_last(shape, self.0.groups(len) as i64);
        let mut out = vec![with_last(shape, self.0.words(len) as i64), groups.clone()];
        if self.0.affine() {
            out.push(groups);
        }
        Ok(out)
    }
}

/// `moved` of each group, in equal shares for its elements that are its `end`.
fn among(groups: &Array, end: &Array, moved: &Array, s: Stream) -> Result<Array> {
    let at = astype(&equal(groups, end, s)?, groups.dtype(), s)?;
    let share = divide(&at, &sum(&at, Some(&[-1]), true, s)?, s)?;
    let zero = scalar_f64(0.0, groups.dtype())?;
    let share = select(&not_equal(&at, &zero, s)?, &share, &zero, s)?;
    multiply(&share, moved, s)
}

/// A stored quantisation.
pub(in crate::ops) fn restore_quantize(c: &Stored) -> Result<Vec<Array>> {
    let [w, global @ ..] = c.inputs else { return c.unknown() };
    let (mode, group, bits) = (c.text(0)?, Some(c.int(1)?), Some(c.int(2)?));
    quantize(w, group, bits, mode, global.first(), c.stream)
}

fn apply(f: Format, w: &Array, global: Option<&Array>, s: Stream) -> Result<Vec<Array>> {
    let len = w.dim(-1) as usize;
    let groups = with_last(w.shape(), f.groups(len) as i64);
    let mut specs = vec![(with_last(w.shape(), f.words(len) as i64), Dtype::U32)];
    if f.affine() {
        specs.extend([(groups.clone(), w.dtype()), (groups, w.dtype())]);
    } else {
        specs.push((groups, Dtype::U8));
    }
    let mut inputs = vec![contiguous(w, false, s)?];
    inputs.extend(global.cloned());
    Array::lazy_many(specs, std::sync::Arc::new(Quantize(f)), inputs, s)
}

/// A global scale as the kernels read it; only [`Mode::Nvfp4`] has one.
pub(in crate::ops) fn check_global(op: &str, mode: Mode, global: Option<&Array>) -> Result<()> {
    let Some(g) = global else { return Ok(()) };
    if mode != Mode::Nvfp4 {
        bail!(Value, "[{op}] Global scale is only supported for 'nvfp4' quantization mode.");
    }
    if g.dtype() != Dtype::F32 {
        bail!(Value, "[{op}] Global scale must have dtype float32 but got {}.", g.dtype());
    }
    if g.size() != 1 {
        bail!(Value, "[{op}] Global scale must be a scalar but got shape {}.", show(g.shape()));
    }
    Ok(())
}

/// Codes, scales and (affine mode) biases of `w`, whose last axis is a multiple of the group size.
pub fn quantize(
    w: &Array,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<&Array>,
    s: Stream,
) -> Result<Vec<Array>> {
    const OP: &str = "quantize";
    let mode = Mode::parse(OP, mode)?;
    let (g, b) = mode.defaults();
    let (group, bits) = (group_size.unwrap_or(g), bits.unwrap_or(b));
    if !w.dtype().is_float() {
        bail!(Value, "[{OP}] Only real floating types can be quantized but w has type {}.", w.dtype());
    }
    if w.dtype() == Dtype::F64 {
        bail!(Value, "[{OP}] Expected float32, float16 or bfloat16, got float64.");
    }
    if w.ndim() < 2 {
        bail!(
            Value,
            "[{OP}] The matrix to be quantized must have at least 2 dimension but it has only {}.",
            w.ndim()
        );
    }
    if group > 0 && w.dim(-1) % group != 0 {
        bail!(
            Value,
            "[{OP}] The last dimension of the matrix needs to be divisible by the quantization group size {group}. \
             However the provided matrix has shape {}",
            show(w.shape())
        );
    }
    let format = Format::new(OP, mode, group, bits)?;
    check_global(OP, mode, global_scale)?;
    let global = global_scale.map(|g| contiguous(g, false, s)).transpose()?;
    apply(format, w, global.as_ref(), s)
}

impl Dequantize {
    fn apply(
        &self,
        codes: &Array,
        scales: &Array,
        biases: Option<&Array>,
        out: Dtype,
        s: Stream,
    ) -> Result<Array> {
        let len = scales.dim(-1) * i64::from(self.0.group);
        let mut inputs = vec![contiguous(codes, false, s)?, contiguous(scales, false, s)?];
        if let Some(b) = biases {
            inputs.push(contiguous(b, false, s)?);
        }
        Array::lazy(with_last(codes.shape(), len), out, Dequantize(self.0), inputs, s)
    }
}

/// The format that a primitive gives the values of.
pub(crate) fn dequantizes(p: &dyn Primitive) -> Option<Format> {
    (p as &dyn Any).downcast_ref::<Dequantize>().map(|d| d.0)
}

/// The codes of an affine format as numbers.
pub(in crate::ops) fn plain_codes(f: Format, codes: &Array, scales: &Array, s: Stream) -> Result<Array> {
    let one = crate::ops::ones_like(scales, s)?;
    Dequantize(f).apply(codes, &one, Some(&crate::ops::zeros_like(scales, s)?), scales.dtype(), s)
}

/// Cotangent of scales (1) or biases (2) from that of the values.
pub(in crate::ops) fn factor_vjp(
    f: Format,
    which: usize,
    codes: &Array,
    scales: &Array,
    cot: &Array,
    s: Stream,
) -> Result<Array> {
    let terms = if which == 1 { multiply(cot, &plain_codes(f, codes, scales, s)?, s)? } else { cot.clone() };
    sum(&grouped(&terms, f.group, s)?, Some(&[-1]), false, s)
}

impl Primitive for Dequantize {
    fn name(&self) -> &str {
        "dequantize"
    }

    fn may_join(&self) -> bool {
        true
    }

    fn params(&self) -> Option<Vec<Param>> {
        self.0.params()
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (codes, scales) = (host_in(&inputs[0])?, host_in(&inputs[1])?);
        let biases = inputs.get(2).map(host_in).transpose()?;
        crate::cpu::quantized::quant::dequantize(
            self.0,
            &codes,
            &scales,
            biases.as_ref(),
            &host_out(&outputs[0])?,
        )
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (codes, scales) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let biases = inputs.get(2).map(|b| dev_in(enc, b)).transpose()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::quantized::quant::dequantize(
                enc,
                self.0,
                &codes,
                &scales,
                biases.as_ref(),
                &dst,
            )
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        r.each(|i| match i {
            1 | 2 if self.0.affine() => {
                factor_vjp(self.0, i, &r.primals[0], &r.primals[1], &r.cotangents[0], r.stream).map(Some)
            }
            _ => Ok(None),
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        if !self.0.affine() || (r.tangent(1).is_none() && r.tangent(2).is_none()) {
            return Ok(Some(vec![None]));
        }
        let (scales, biases) = (tangent_or_zeros(r, 1)?, tangent_or_zeros(r, 2)?);
        let out = self.apply(&r.primals[0], &scales, Some(&biases), r.outputs[0].dtype(), r.stream)?;
        Ok(Some(vec![Some(out)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let biases = if r.inputs.len() > 2 { Some(with_batch(r, 2)?) } else { None };
        let (codes, scales) = (with_batch(r, 0)?, with_batch(r, 1)?);
        self.apply(&codes, &scales, biases.as_ref(), r.outputs[0].dtype(), r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![with_last(inputs[0].shape(), inputs[1].dim(-1) * i64::from(self.0.group))])
    }
}

/// Stored values of codes.
pub(in crate::ops) fn restore_dequantize(c: &Stored) -> Result<Array> {
    let [w, scales, biases @ ..] = c.inputs else { return c.unknown() };
    let (mode, group, bits) = (c.text(0)?, Some(c.int(1)?), Some(c.int(2)?));
    let dtype = Some(c.spec()?.1);
    dequantize(w, scales, biases.first(), group, bits, mode, None, dtype, c.stream)
}

/// Dtype of values from scales and biases, after checks of both against the mode.
pub(in crate::ops) fn value_dtype(
    op: &str,
    mode: Mode,
    scales: &Array,
    biases: Option<&Array>,
) -> Result<Option<Dtype>> {
    match (mode, biases) {
        (Mode::Affine, None) => bail!(Value, "[{op}] Biases must be provided for affine quantization."),
        (Mode::Affine, Some(b)) => {
            let dtype = scales.dtype().promote(b.dtype());
            if !dtype.is_float() {
                bail!(
                    Value,
                    "[{op}] Only real floating types are supported but scales.dtype() == {} and biases.dtype() == {}.",
                    scales.dtype(),
                    b.dtype()
                );
            }
            Ok(Some(dtype))
        }
        (_, Some(_)) => {
            bail!(Value, "[{op}] Biases must be null for quantization mode '{}'.", mode.name())
        }
        (_, None) if scales.dtype() != Dtype::U8 => {
            bail!(Value, "[{op}] Scale type must be uint8 but received type {}.", scales.dtype())
        }
        _ => Ok(None),
    }
}

/// The values of quantised rows. Without `dtype` those of affine modes have the dtype of the scales, the others
/// bfloat16 (float32 with a global scale).
pub fn dequantize(
    w: &Array,
    scales: &Array,
    biases: Option<&Array>,
    group_size: Option<i64>,
    bits: Option<i64>,
    mode: &str,
    global_scale: Option<&Array>,
    dtype: Option<Dtype>,
    s: Stream,
) -> Result<Array> {
    const OP: &str = "dequantize";
    let mode = Mode::parse(OP, mode)?;
    let found = value_dtype(OP, mode, scales, biases)?;
    if let Some(d) = dtype.filter(|d| !d.is_float()) {
        bail!(Value, "[{OP}] Only real floating types are supported but output dtype == {d}.");
    }
    let (g, b) = mode.defaults();
    let (group, bits) = (group_size.unwrap_or(g), bits.unwrap_or(b));
    if bits <= 0 || group <= 0 {
        bail!(
            Value,
            "[{OP}] Invalid value for bits or group_size, expected positive ones, got {bits} and {group}."
        );
    }
    if w.dtype() != Dtype::U32 {
        bail!(Value, "[{OP}] The matrix should be given as a uint32, got {}.", w.dtype());
    }
    if w.ndim() < 2 {
        bail!(
            Value,
            "[{OP}] The matrix to be dequantized must have at least 2 dimension but it has only {}.",
            w.ndim()
        );
    }
    let alike = |v: &Array| v.ndim() == w.ndim() && v.shape()[..v.ndim() - 1] == w.shape()[..w.ndim() - 1];
    if !alike(scales) || biases.is_some_and(|b| !alike(b) || b.shape() != scales.shape()) {
        bail!(
            Value,
            "[{OP}] Shape of scales and biases does not match the matrix, got {} for {}.",
            show(scales.shape()),
            show(w.shape())
        );
    }
    if w.dim(-1) as i128 * 32 != scales.dim(-1) as i128 * group as i128 * bits as i128 {
        bail!(
            Value,
            "[{OP}] Shape of scales and biases does not match the matrix given the quantization parameters. \
             Provided matrix of shape {} and scales/biases of shape {} with group_size={group} and bits={bits}.",
            show(w.shape()),
            show(scales.shape())
        );
    }
    let format = Format::new(OP, mode, group, bits)?;
    check_global(OP, mode, global_scale)?;
    let kernel = |d: Dtype| if d == Dtype::F64 { Dtype::F32 } else { d };
    let Some(found) = found else {
        let out = dtype.unwrap_or(if global_scale.is_some() { Dtype::F32 } else { Dtype::BF16 });
        let Some(g) = global_scale else {
            return astype(&Dequantize(format).apply(w, scales, None, kernel(out), s)?, out, s);
        };
        let y = Dequantize(format).apply(w, scales, None, Dtype::F32, s)?;
        let g = divide(g, &scalar_f64(GLOBAL.into(), Dtype::F32)?, s)?;
        return astype(&multiply(&y, &reshape(&g, &[1], s)?, s)?, out, s);
    };
    let held = kernel(found);
    let scales = astype(scales, held, s)?;
    let biases = biases.map(|b| astype(b, held, s)).transpose()?;
    let y = Dequantize(format).apply(w, &scales, biases.as_ref(), held, s)?;
    astype(&y, dtype.unwrap_or(found), s)
}

/// Rounds to what the format holds, with the derivative of the identity.
#[derive(PartialEq)]
struct Rounded(Format);

impl Primitive for Rounded {
    fn name(&self) -> &str {
        "quantize_dequantize"
    }

    fn params(&self) -> Option<Vec<Param>> {
        self.0.params()
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let f = self.0;
        let x = host_in(&inputs[0])?;
        // SAFETY: a float32 scalar.
        let global = inputs.get(1).map(|g| host_in(g).map(|v| unsafe { *v.as_ptr::<f32>() })).transpose()?;
        let part = |len: usize, dtype: Dtype| -> Result<_> {
            let block = crate::memory::host_block((len * dtype.size()).max(64))?;
            let shape: Shape = [len as i64].into_iter().collect();
            let strides = [1].into_iter().collect();
            let view = crate::kernels::View { ptr: block.ptr(), dtype, shape, strides };
            Ok((block, view))
        };
        let (_codes, codes) = part(f.words(x.size()), Dtype::U32)?;
        let (_scales, scales) = part(f.groups(x.size()), Dtype::U8)?;
        crate::cpu::quantized::quant::quantize(f, &x, global.map(|g| GLOBAL / g), &codes, &scales, None)?;
        crate::cpu::quantized::quant::dequantize(f, &codes, &scales, None, &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let x = dev_in(enc, &inputs[0])?;
            let global = inputs.get(1).map(|g| dev_in(enc, g)).transpose()?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::quantized::quant::round_to(enc, self.0, &x, global.as_ref(), &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        r.each(|i| Ok((i == 0).then(|| r.cotangents[0].clone())))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![r.tangent(0).cloned()]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        rounded_to(self.0, &front(r, 0)?, r.inputs.get(1), r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![inputs[0].shape().into()])
    }
}

/// A stored rounding.
pub(in crate::ops) fn restore_rounded(c: &Stored) -> Result<Array> {
    const OP: &str = "quantize_dequantize";
    let [x, global @ ..] = c.inputs else { return c.unknown() };
    let format = Format::new(OP, Mode::parse(OP, c.text(0)?)?, c.int(1)?, c.int(2)?)?;
    let fits = x.dtype().is_float() && x.dtype() != Dtype::F64 && x.ndim() > 0;
    if !fits || format.affine() || x.dim(-1) % i64::from(format.group) != 0 {
        bail!(Value, "[{OP}] Cannot round {} of {}.", show(x.shape()), x.dtype());
    }
    check_global(OP, format.mode, global.first())?;
    rounded_to(format, x, global.first(), c.stream)
}

/// `x` as it is after quantisation to a format of floats, apart from the factor of its global scale; the
/// derivative is that of the identity.
pub(in crate::ops) fn rounded_to(f: Format, x: &Array, global: Option<&Array>, s: Stream) -> Result<Array> {
    if x.size() == 0 {
        return zeros(x.shape(), x.dtype(), s);
    }
    let mut inputs = vec![contiguous(x, false, s)?];
    if let Some(g) = global {
        inputs.push(contiguous(g, false, s)?);
    }
    Array::lazy(x.shape(), x.dtype(), Rounded(f), inputs, s)
}
