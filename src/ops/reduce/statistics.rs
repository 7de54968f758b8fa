//! Mean, variance and standard deviation: compositions of reductions and elementwise operations, which transforms see; and
//! one kernel on a GPU for them and others where no transform looks.

use super::count::count;
use super::sum;
use crate::bail;
use crate::core::notes::note;
use crate::core::{Array, Dtype, Primitive, Result, Stream, lengths_vary};
use crate::kernels::Statistic;
use crate::on_gpu;
use crate::ops::elementwise::*;
use crate::ops::support::*;
use crate::params;

/// Arithmetic mean over axes, in the array's float dtype (integers in float32).
pub fn mean(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    let ax = axes_of("mean", axes, a.ndim())?;
    if let Some(out) = one_pass(Statistic::Mean, a, &ax, keepdims, 0, s)? {
        return Ok(out);
    }
    let dtype = a.dtype().at_least_float();
    // A mean of booleans is one of the numbers 0 and 1: its cotangent is cut to an integer, as in MLX.
    let of = if a.dtype() == Dtype::Bool { astype(a, Dtype::I32, s)? } else { a.clone() };
    let total = sum(&astype(&of, dtype, s)?, axes, keepdims, s)?;
    let out = over_count(&total, a, &ax, 0, s)?;
    note(std::slice::from_ref(&out), || ("mean", params![&ax[..], keepdims], vec![a.clone()]));
    Ok(out)
}

/// A sum over the number of elements that it is of, less `ddof`. More than float16 counts to are counted in float32.
fn over_count(total: &Array, a: &Array, axes: &[usize], ddof: i64, s: Stream) -> Result<Array> {
    let elements: i64 = axes.iter().map(|&i| a.shape()[i]).product();
    let dtype = total.dtype();
    if dtype != Dtype::F16 || (elements <= 65504 && !lengths_vary()) {
        return divide(total, &count(a, axes, ddof, dtype, s)?, s);
    }
    let wide = divide(&astype(total, Dtype::F32, s)?, &count(a, axes, ddof, Dtype::F32, s)?, s)?;
    astype(&wide, dtype, s)
}

/// Variance over axes with `ddof` degrees of freedom taken off, by the two-pass formula.
pub fn var(a: &Array, axes: Option<&[i64]>, keepdims: bool, ddof: i64, s: Stream) -> Result<Array> {
    let ax = axes_of("var", axes, a.ndim())?;
    if let Some(out) = one_pass(Statistic::Var, a, &ax, keepdims, ddof, s)? {
        return Ok(out);
    }
    let dtype = a.dtype().at_least_float();
    let x = astype(a, dtype, s)?;
    let centred = subtract(&x, &mean(&x, axes, true, s)?, s)?;
    let squares = if dtype == Dtype::C64 { square(&abs(&centred, s)?, s)? } else { square(&centred, s)? };
    let total = sum(&squares, axes, keepdims, s)?;
    let out = over_count(&total, a, &ax, ddof, s)?;
    if dtype != Dtype::C64 {
        note(std::slice::from_ref(&out), || ("var", params![&ax[..], keepdims, ddof], vec![a.clone()]));
    }
    Ok(out)
}

/// Standard deviation; arguments as for [`var`].
pub fn std(a: &Array, axes: Option<&[i64]>, keepdims: bool, ddof: i64, s: Stream) -> Result<Array> {
    let ax = axes_of("var", axes, a.ndim())?;
    if let Some(out) = one_pass(Statistic::Std, a, &ax, keepdims, ddof, s)? {
        return Ok(out);
    }
    sqrt(&var(a, axes, keepdims, ddof, s)?, s)
}

/// A statistic over axes in one pass, which GPU streams have.
struct OnePass {
    of: Statistic,
    axes: Vec<usize>,
    divisor: f32,
}

impl Primitive for OnePass {
    fn name(&self) -> &str {
        self.of.row().name
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[{}] A pass of a GPU was asked of the host.", self.name());
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            let dst = super::reshaped(dst, &drop_axes(inputs[0].shape(), &self.axes, false));
            crate::vulkan::kernels::reduce::statistic(enc, self.of, &src, &self.axes, self.divisor, &dst)
        })
    }
}

/// Whether a stream has passes for statistics.
#[cfg(feature = "vulkan")]
pub(super) fn has_passes(s: Stream) -> bool {
    s.device.is_gpu() && !crate::vulkan::kernels::reduce::STATISTICS.disabled()
}

#[cfg(not(feature = "vulkan"))]
pub(super) fn has_passes(_: Stream) -> bool {
    false
}

/// A statistic as one kernel: on a GPU, of real numbers of at most 32 bits, where no transform records; of at least one
/// axis. Means and variances divide by the number of elements, less `ddof`.
pub(in crate::ops) fn one_pass(
    of: Statistic,
    a: &Array,
    axes: &[usize],
    keepdims: bool,
    ddof: i64,
    s: Stream,
) -> Result<Option<Array>> {
    let fits = !matches!(a.dtype(), Dtype::F64 | Dtype::C64 | Dtype::I64 | Dtype::U64);
    if !has_passes(s) || !fits || axes.is_empty() || transformed(std::slice::from_ref(a)) {
        return Ok(None);
    }
    let n: f64 = axes.iter().map(|&i| a.shape()[i] as f64).product();
    let divisor = (n - ddof as f64).max(0.0) as f32;
    let p = OnePass { of, axes: axes.to_vec(), divisor };
    let shape = drop_axes(a.shape(), axes, keepdims);
    Array::lazy(shape, a.dtype().at_least_float(), p, vec![a.clone()], s).map(Some)
}
