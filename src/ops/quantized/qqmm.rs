//! Products of two quantised operands: x is rounded to the format on the way in, and so is w unless it comes
//! quantised. The values meet in the kernels of `quantized_matmul`; derivatives pass the rounding as they are.

use super::quantize::{check_global, rounded_to};
use super::quantized_matmul::{Quantized, check, gather_qmm, quantized_matmul};
use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Dtype, Result, Stream};
use crate::kernels::quantized::quant::{Format, GLOBAL, Mode};
use crate::ops::elementwise::{astype, divide, multiply};
use crate::ops::matmul::gather_mm::gather_mm;
use crate::ops::matmul::matmul;
use crate::ops::support::*;
use crate::ops::view::{reshape, swapaxes};

/// The right operand: a matrix, or its codes with their scales, codes along K.
#[derive(Clone, Copy)]
pub struct Right<'a> {
    /// Values or codes.
    pub w: &'a Array,
    /// Scales where `w` holds codes.
    pub scales: Option<&'a Array>,
    /// Group size, or the mode's.
    pub group_size: Option<i64>,
    /// Bits of a code, or the mode's.
    pub bits: Option<i64>,
    /// Name of the mode.
    pub mode: &'a str,
    /// Global scales of x and w (nvfp4), both or none.
    pub global: [Option<&'a Array>; 2],
}

fn format(op: &str, x: &Array, r: &Right) -> Result<Format> {
    let mode = Mode::parse(op, r.mode)?;
    if mode == Mode::Affine {
        bail!(Value, "[{op}] Expected mode nvfp4, mxfp8 or mxfp4, got affine.");
    }
    if !x.dtype().is_float() || x.dtype() == Dtype::F64 {
        bail!(
            Value,
            "[{op}] Only real floating types except float64 are supported but first argument dtype == {}.",
            x.dtype()
        );
    }
    if x.ndim() == 0 {
        bail!(Value, "[{op}] Got 0 dimension input. Inputs must have at least one dimension.");
    }
    for g in r.global {
        check_global(op, mode, g)?;
    }
    if r.global[0].is_some() != r.global[1].is_some() {
        bail!(
            Value,
            "[{op}] For nvfp4 mode, either both global_scale_x and global_scale_w must be provided, or neither."
        );
    }
    let (group, bits) = (r.group_size.unwrap_or(mode.defaults().0), r.bits.unwrap_or(mode.defaults().1));
    if let Some(scales) = r.scales {
        let q = quantized(r, scales);
        return check(op, x, &q).map(|c| c.0);
    }
    let w = r.w;
    if !w.dtype().is_float() || w.dtype() == Dtype::F64 {
        bail!(
            Value,
            "[{op}] Only real floating types except float64 are supported but second argument dtype == {}.",
            w.dtype()
        );
    }
    if w.ndim() < 2 || w.dim(-1) != x.dim(-1) {
        bail!(
            Value,
            "[{op}] Last dimension of first input with shape {} does not match that of the second, {}.",
            show(x.shape()),
            show(w.shape())
        );
    }
    let f = Format::new(op, mode, group, bits)?;
    if x.dim(-1) % i64::from(f.group) != 0 {
        bail!(
            Value,
            "[{op}] The last dimension of the matrix needs to be divisible by the quantization group size {}. \
             However the provided matrix has shape {}",
            f.group,
            show(x.shape())
        );
    }
    Ok(f)
}

fn quantized<'a>(r: &Right<'a>, scales: &'a Array) -> Quantized<'a> {
    Quantized {
        w: r.w,
        scales,
        biases: None,
        transpose: true,
        group_size: r.group_size,
        bits: r.bits,
        mode: r.mode,
    }
}

/// The result times both global scales.
fn scaled(y: Array, r: &Right, s: Stream) -> Result<Array> {
    let [Some(a), Some(b)] = r.global else { return Ok(y) };
    let top = scalar_f64(GLOBAL.into(), Dtype::F32)?;
    let factor = |g: &Array| divide(&reshape(g, &[], s)?, &top, s);
    astype(&multiply(&y, &multiply(&factor(a)?, &factor(b)?, s)?, s)?, y.dtype(), s)
}

/// `x @ w.T` with both operands rounded to a format of floats.
pub fn qqmm(x: &Array, r: &Right, s: Stream) -> Result<Array> {
    const OP: &str = "qqmm";
    let f = format(OP, x, r)?;
    if r.w.ndim() > 2 {
        bail!(
            Value,
            "[{OP}] Only 2D inputs are supported but x.ndim() == {} and w.ndim() == {}.",
            x.ndim(),
            r.w.ndim()
        );
    }
    let left = rounded_to(f, x, r.global[0], s)?;
    let y = match r.scales {
        Some(scales) => quantized_matmul(&left, &quantized(r, scales), s)?,
        None => matmul(&left, &swapaxes(&rounded_to(f, r.w, r.global[1], s)?, -1, -2, s)?, s)?,
    };
    scaled(y, r, s)
}

/// As [`qqmm`], for matrices picked by flat indices over the batch axes of each operand.
pub fn gather_qqmm(
    x: &Array,
    r: &Right,
    lhs: Option<&Array>,
    rhs: Option<&Array>,
    sorted: bool,
    s: Stream,
) -> Result<Array> {
    let f = format("gather_qqmm", x, r)?;
    let left = rounded_to(f, x, r.global[0], s)?;
    let y = match r.scales {
        Some(scales) => gather_qmm(&left, &quantized(r, scales), lhs, rhs, None, sorted, s)?,
        None => {
            let right = swapaxes(&rounded_to(f, r.w, r.global[1], s)?, -1, -2, s)?;
            gather_mm(&left, &right, lhs, rhs, sorted, s)?
        }
    };
    scaled(y, r, s)
}
