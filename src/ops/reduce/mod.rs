//! The reduction class: sum, prod, min, max, all, any, arg-reductions, softmax and logsumexp, and what
//! follows from them. One primitive a kernel family; axes rules are shared.

pub(super) mod count;
pub(crate) mod programs;
pub mod scan;
mod statistics;

use self::statistics::has_passes;
pub(in crate::ops) use self::statistics::one_pass;
pub use self::statistics::{mean, std, var};
use super::batching::{batched, front};
use super::elementwise::*;
use super::support::*;
use super::view::concatenate;
use super::{create, view};
use crate::bail;
use crate::core::layout::{broadcast_shapes, normalize_axis, row_major, show};
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap, lengths_vary,
};
use crate::kernels::reduce::table::{ReduceClass, ReduceGradient};
use crate::kernels::{ArgReduceOp, ReduceOp, Statistic, View};
use crate::on_gpu;
use crate::params;

struct Reduce {
    op: ReduceOp,
    axes: Vec<usize>,
    keepdims: bool,
}

struct ArgReduce {
    op: ArgReduceOp,
    axis: usize,
    keepdims: bool,
}

struct Softmax;
/// With `parts`, two numbers take the place of the axis: the maximum, which counts as a constant, and the logarithm of
/// the sum of exponentials above it. Their sum may round the second away. With `wide` the result is float32, of any float: on GPUs,
/// and where nobody follows it.
struct LogSumExp {
    keepdims: bool,
    parts: bool,
    wide: bool,
}

impl LogSumExp {
    fn shape(&self, a: &Array) -> Shape {
        let last = a.ndim() - 1;
        let mut shape = drop_axes(a.shape(), &[last], self.keepdims || self.parts);
        if self.parts {
            shape[last] = 2;
        }
        shape
    }
}

/// The same bytes seen with other dimensions; both shapes row-major.
fn reshaped<P: Copy>(mut v: View<P>, shape: &[i64]) -> View<P> {
    v.shape = shape.into();
    v.strides = row_major(shape);
    v
}

impl Primitive for Reduce {
    fn name(&self) -> &str {
        self.op.row().name
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axes.as_slice(), self.keepdims]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let src = host_in(&inputs[0])?;
        let dst = reshaped(host_out(&outputs[0])?, &drop_axes(inputs[0].shape(), &self.axes, false));
        crate::cpu::reduce::reduce(self.op, &src, &self.axes, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = reshaped(dev_out(enc, &outputs[0])?, &drop_axes(inputs[0].shape(), &self.axes, false));
            crate::vulkan::kernels::reduce::reduce(enc, self.op, &src, &self.axes, &dst)
        })
    }

    fn blocks_gradient(&self) -> bool {
        self.op.row().gradient == ReduceGradient::Nothing
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, outputs, stream: s, .. } = r;
        let x = &primals[0];
        let kept = |a: &Array| match self.keepdims {
            true => Ok(a.clone()),
            false => view::expand_dims(a, &self.axes.iter().map(|&a| a as i64).collect::<Vec<_>>(), s),
        };
        let cot = kept(&cotangents[0])?;
        let g = match self.op.row().gradient {
            ReduceGradient::Each => {
                view::broadcast_along(&astype(&cot, x.dtype(), s)?, x.shape(), &[x], &[], s)?
            }
            ReduceGradient::Others => {
                // The other factors enter by their conjugates.
                let x = if x.dtype() == Dtype::C64 { conjugate(x, s)? } else { x.clone() };
                prod_vjp(&x, &self.axes, &astype(&cot, x.dtype(), s)?, s)?
            }
            ReduceGradient::Chosen => {
                // Ties share the cotangent evenly.
                let out = kept(&outputs[0])?;
                let mask = astype(&equal(x, &out, s)?, cot.dtype(), s)?;
                let axes: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
                let ties = sum(&mask, Some(&axes), true, s)?;
                multiply(&mask, &divide(&cot, &ties, s)?, s)?
            }
            ReduceGradient::Nothing => return Ok(vec![None]),
        };
        Ok(vec![Some(g)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let &Jvp { tangents, outputs, stream: s, .. } = r;
        Ok(match self.op.row().gradient {
            ReduceGradient::Each => {
                let t = reduce_to(self.op, &tangents[0], &self.axes, outputs[0].shape(), s)?;
                Some(vec![Some(astype(&t, outputs[0].dtype(), s)?)])
            }
            ReduceGradient::Others | ReduceGradient::Chosen | ReduceGradient::Nothing => None,
        })
    }

    fn zero_tangent_like_inputs(&self, inputs: &[Array]) -> bool {
        self.op.row().class == ReduceClass::Truth && inputs[0].dtype() == Dtype::Bool
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let axes: Vec<usize> = self.axes.iter().map(|a| a + 1).collect();
        reduce_to(self.op, &front(r, 0)?, &axes, &r.shape(0), r.stream).map(batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<Reduce>();
        other.is_some_and(|o| o.op == self.op && o.axes == self.axes)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        has_a_value(self.op, inputs[0].shape(), &self.axes)?;
        Ok(vec![drop_axes(inputs[0].shape(), &self.axes, self.keepdims)])
    }
}

/// How a primitive folds the last of `ndim` axes alone, if that is what it does.
pub(crate) fn folds_last(p: &dyn Primitive, ndim: usize) -> Option<ReduceOp> {
    let r = (p as &dyn std::any::Any).downcast_ref::<Reduce>()?;
    (r.axes.len() == 1 && r.axes[0] + 1 == ndim).then_some(r.op)
}

/// A stored reduction.
pub(super) fn restore_reduce(c: &Stored) -> Result<Array> {
    let Some(op) = ReduceOp::named(c.name) else { return c.unknown() };
    reduce(op, c.input()?, Some(c.ints(0)?), c.flag(1)?, c.stream)
}

/// Cotangent of a product: the reverse pass over a balanced tree of multiplications, which needs no
/// division and is therefore exact for zeros, and differentiable again.
fn prod_vjp(x: &Array, axes: &[usize], cot: &Array, s: Stream) -> Result<Array> {
    let kept: Vec<i64> = (0..x.ndim()).filter(|i| !axes.contains(i)).map(|i| i as i64).collect();
    let perm: Vec<i64> = kept.iter().copied().chain(axes.iter().map(|&a| a as i64)).collect();
    let n: i64 = axes.iter().map(|&a| x.shape()[a]).product();
    if x.size() == 0 {
        return create::zeros(x.shape(), x.dtype(), s);
    }
    let moved = view::transpose(x, Some(&perm), s)?;
    let rows = x.size() as i64 / n;
    let mut level = view::reshape(&moved, &[rows, n], s)?;
    let mut levels = Vec::new();
    while level.dim(1) > 1 {
        if level.dim(1) % 2 == 1 {
            let one = create::ones(&[rows, 1], x.dtype(), s)?;
            level = concatenate::concatenate(&[level, one], 1, s)?;
        }
        let h = level.dim(1) / 2;
        let left = view::slice(&level, &[0, 0], &[rows, h], &[1, 1], s)?;
        let right = view::slice(&level, &[0, h], &[rows, 2 * h], &[1, 1], s)?;
        level = multiply(&left, &right, s)?;
        levels.push((left, right));
    }
    let mut g = view::reshape(cot, &[rows, 1], s)?;
    for (left, right) in levels.iter().rev() {
        let h = left.dim(1);
        let g_in = view::slice(&g, &[0, 0], &[rows, h], &[1, 1], s)?;
        g = concatenate::concatenate(&[multiply(&g_in, right, s)?, multiply(&g_in, left, s)?], 1, s)?;
    }
    let g = view::slice(&g, &[0, 0], &[rows, n], &[1, 1], s)?;
    let g = view::reshape(&g, moved.shape(), s)?;
    let mut inverse = vec![0i64; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        // FITS: a permutation of the axes.
        inverse[p as usize] = i as i64;
    }
    view::transpose(&g, Some(&inverse), s)
}

impl Primitive for ArgReduce {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis, self.keepdims]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let src = host_in(&inputs[0])?;
        let dst = reshaped(host_out(&outputs[0])?, &drop_axes(inputs[0].shape(), &[self.axis], false));
        crate::cpu::reduce::arg_reduce(self.op, &src, self.axis, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let shape = drop_axes(inputs[0].shape(), &[self.axis], false);
            let dst = reshaped(dev_out(enc, &outputs[0])?, &shape);
            crate::vulkan::kernels::reduce::arg_reduce(enc, self.op, &src, self.axis, &dst)
        })
    }

    fn blocks_gradient(&self) -> bool {
        true
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let p = ArgReduce { op: self.op, axis: self.axis + 1, keepdims: self.keepdims };
        Array::lazy(r.shape(0), Dtype::U32, p, vec![front(r, 0)?], r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        if inputs[0].shape()[self.axis] == 0 {
            return Err(no_place(self.op, inputs[0].shape()));
        }
        Ok(vec![drop_axes(inputs[0].shape(), &[self.axis], self.keepdims)])
    }
}

/// A stored arg-reduction.
pub(super) fn restore_arg_reduce(c: &Stored) -> Result<Array> {
    let Some(op) = ArgReduceOp::EVERY.into_iter().find(|op| op.name() == c.name) else { return c.unknown() };
    arg_reduce(op, c.input()?, Some(c.int(0)?), c.flag(1)?, c.stream)
}

impl Primitive for Softmax {
    fn name(&self) -> &str {
        "softmax"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let src = host_in(&inputs[0])?;
        let dst = host_out_reusing(&outputs[0], inputs)?;
        crate::cpu::norm::softmax::softmax(&src, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::norm::softmax::softmax(enc, &src, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        Ok(vec![Some(softmax_derivative(&r.outputs[0], &r.cotangents[0], r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(softmax_derivative(&r.outputs[0], &r.tangents[0], r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        softmax(&front(r, 0)?, Some(&[-1]), true, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![inputs[0].shape().into()])
    }
}

/// A stored softmax.
pub(super) fn restore_softmax(c: &Stored) -> Result<Array> {
    softmax(c.input_with_axes()?, Some(&[-1]), true, c.stream)
}

/// The Jacobian of softmax at its output `y`, times `v`; it is symmetric.
fn softmax_derivative(y: &Array, v: &Array, s: Stream) -> Result<Array> {
    let weighted = multiply(y, v, s)?;
    let total = sum(&weighted, Some(&[-1]), true, s)?;
    subtract(&weighted, &multiply(y, &total, s)?, s)
}

impl Primitive for LogSumExp {
    fn name(&self) -> &str {
        "logsumexp"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.keepdims, self.parts]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let src = host_in(&inputs[0])?;
        let bare = LogSumExp { keepdims: false, ..*self }.shape(&inputs[0]);
        let dst = reshaped(host_out(&outputs[0])?, &bare);
        crate::cpu::norm::softmax::logsumexp(&src, self.parts, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let bare = LogSumExp { keepdims: false, ..*self }.shape(&inputs[0]);
            let dst = reshaped(dev_out(enc, &outputs[0])?, &bare);
            crate::vulkan::kernels::norm::softmax::logsumexp(enc, &src, self.parts, &dst)
        })
    }

    fn may_join(&self) -> bool {
        self.keepdims && !self.parts
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let x = &primals[0];
        let keep = drop_axes(x.shape(), &[x.ndim() - 1], true);
        let cot = match self.parts {
            true => nth(&cotangents[0], 1, s)?,
            false => view::reshape(&cotangents[0], &keep, s)?,
        };
        Ok(vec![Some(multiply(&cot, &softmax(x, Some(&[-1]), true, s)?, s)?)])
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        log_sum_exp(&front(r, 0)?, LogSumExp { ..*self }, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![self.shape(&inputs[0])])
    }
}

/// Whether a primitive is the softmax of the last axis.
pub(crate) fn is_softmax(p: &dyn Primitive) -> bool {
    (p as &dyn std::any::Any).is::<Softmax>()
}

/// Whether a primitive is the log-sum-exp of the last axis, which stays.
pub(crate) fn is_logsumexp(p: &dyn Primitive) -> bool {
    let any: &dyn std::any::Any = p;
    any.downcast_ref::<LogSumExp>().is_some_and(|op| op.keepdims && !op.parts)
}

/// The axis that a primitive sums up, if that is all, and whether it stays with length one.
pub(crate) fn sums_along(p: &dyn Primitive) -> Option<(usize, bool)> {
    let any: &dyn std::any::Any = p;
    let sum = any.downcast_ref::<Reduce>().filter(|r| r.op == ReduceOp::Sum)?;
    if let [axis] = sum.axes[..] { Some((axis, sum.keepdims)) } else { None }
}

/// Element `i` of the last axis, which stays.
fn nth(a: &Array, i: i64, s: Stream) -> Result<Array> {
    let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
    let last = a.ndim() - 1;
    (start[last], stop[last]) = (i, i + 1);
    view::slice(a, &start, &stop, &vec![1; a.ndim()], s)
}

fn log_sum_exp(x: &Array, op: LogSumExp, s: Stream) -> Result<Array> {
    let dtype = if op.wide { Dtype::F32 } else { x.dtype() };
    Array::lazy(op.shape(x), dtype, op, vec![x.clone()], s)
}

/// Over the last axis of a floating array the maximum, a constant to derivatives, and the logarithm of the sum of
/// exponentials above it; both in place of the axis.
pub(crate) fn logsumexp_parts(x: &Array, s: Stream) -> Result<(Array, Array)> {
    if let Some(both) = super::composite::many("logsumexp_parts", Vec::new, &[x], s)?
        && let [top, above] = &both[..]
    {
        return Ok((top.clone(), above.clone()));
    }
    let both = log_sum_exp(x, LogSumExp { keepdims: false, parts: true, wide: false }, s)?;
    let [top, above] = halves(&both, s)?;
    Ok((stop(&top), above))
}

/// The two numbers of [`logsumexp_parts`] apart.
fn halves(both: &Array, s: Stream) -> Result<[Array; 2]> {
    let one = |i| view::squeeze(&nth(both, i, s)?, Some(&[-1]), s);
    Ok([one(0)?, one(1)?])
}

/// As [`logsumexp_parts`] of `x` in float32, where a GPU reads numbers of 16 bits as they are and nobody follows the steps.
pub(crate) fn wide_logsumexp_parts(x: &Array, s: Stream) -> Result<Option<(Array, Array)>> {
    let halves_of = matches!(x.dtype(), Dtype::F16 | Dtype::BF16);
    if !halves_of || !s.device.is_gpu() || x.size() == 0 || transformed(std::slice::from_ref(x)) {
        return Ok(None);
    }
    let both = log_sum_exp(x, LogSumExp { keepdims: false, parts: true, wide: true }, s)?;
    halves(&both, s).map(|[top, above]| Some((top, above)))
}

/// The stored parts of a logsumexp.
pub(super) fn restore_logsumexp_parts(c: &Stored) -> Result<Vec<Array>> {
    logsumexp_parts(c.input_with_axes()?, c.stream).map(|(top, above)| vec![top, above])
}

/// A stored logsumexp.
pub(super) fn restore_logsumexp(c: &Stored) -> Result<Array> {
    let x = c.input_with_axes()?;
    if !x.dtype().is_float() || x.size() == 0 {
        bail!(Value, "[logsumexp] Cannot reduce {} of shape {}.", x.dtype(), show(x.shape()));
    }
    log_sum_exp(x, LogSumExp { keepdims: c.flag(0)?, parts: c.flag(1)?, wide: false }, c.stream)
}

fn reduce_to(op: ReduceOp, a: &Array, axes: &[usize], shape: &[i64], s: Stream) -> Result<Array> {
    let p = Reduce { op, axes: axes.to_vec(), keepdims: shape.len() == a.ndim() };
    Array::lazy(shape, op.result(a.dtype()), p, vec![a.clone()], s)
}

/// Fails for a reduction that has no value for no elements, even where the result has none itself.
fn has_a_value(op: ReduceOp, shape: &[i64], axes: &[usize]) -> Result<()> {
    let name = op.row().name;
    match axes.iter().find(|&&i| shape[i] == 0) {
        Some(axis) if !op.row().of_nothing => {
            bail!(Value, "[{name}] Cannot {name} reduce over axis {axis} with size 0.")
        }
        _ => Ok(()),
    }
}

fn reduce(op: ReduceOp, a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    let row = op.row();
    let name = row.name;
    refuse_f64(name, std::slice::from_ref(a), s)?;
    let ax = axes_of(name, axes, a.ndim())?;
    let shape = drop_axes(a.shape(), &ax, keepdims);
    has_a_value(op, a.shape(), &ax)?;
    if ax.is_empty() && row.class != ReduceClass::Truth {
        return Ok(a.clone());
    }
    reduce_to(op, a, &ax, &shape, s)
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
            reduce(ReduceOp::$op, a, axes, keepdims, s)
        }
    )*};
}

reductions! {
    /// Sum over axes; bool and narrow integers are summed as 32-bit integers.
    sum = Sum;
    /// Product over axes; dtypes as for [`sum`].
    prod = Prod;
    /// Minimum over axes; NaN wins.
    min = Min;
    /// Maximum over axes; NaN wins.
    max = Max;
    /// Whether every element is non-zero.
    all = All;
    /// Whether some element is non-zero.
    any = Any;
}

/// Sums out what broadcasting added, so that the result has `shape`.
pub fn sum_to(a: &Array, shape: &[i64], s: Stream) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    if broadcast_shapes("sum_to", a.shape(), shape).is_ok_and(|s| s.as_slice() == shape) {
        // A partial that did not need broadcasting itself.
        return view::broadcast_to(a, shape, s);
    }
    let extra = a.ndim() - shape.len();
    let axes: Vec<i64> = (0..a.ndim())
        .filter(|&i| i < extra || (shape[i - extra] == 1 && a.shape()[i] != 1))
        .map(|i| i as i64)
        .collect();
    let reduced = if axes.is_empty() { a.clone() } else { sum(a, Some(&axes), true, s)? };
    view::reshape(&reduced, shape, s)
}

fn no_place(op: ArgReduceOp, shape: &[i64]) -> Error {
    let name = op.name();
    Error::Value(format!("[{name}] Cannot {name} reduce zero size array, got shape {}.", show(shape)))
}

fn arg_reduce(op: ArgReduceOp, a: &Array, axis: Option<i64>, keepdims: bool, s: Stream) -> Result<Array> {
    let name = op.name();
    refuse_f64(name, std::slice::from_ref(a), s)?;
    if a.size() == 0 {
        return Err(no_place(op, a.shape()));
    }
    let Some(axis) = axis else {
        let flat = view::flatten(a, 0, -1, s)?;
        let out = arg_reduce(op, &flat, Some(0), false, s)?;
        if !keepdims {
            return Ok(out);
        }
        let out = view::reshape(&out, &vec![1i64; a.ndim()], s)?;
        note(std::slice::from_ref(&out), || {
            ("arg_reduce_flat", params![op == ArgReduceOp::Max], vec![a.clone()])
        });
        return Ok(out);
    };
    let axis = normalize_axis(name, axis, a.ndim())?;
    if a.dtype() == Dtype::C64 {
        // The first place of the extreme, which is NaN where there is one.
        let along = Some(&[axis as i64][..]);
        let extreme = match op {
            ArgReduceOp::Min => min(a, along, true, s)?,
            ArgReduceOp::Max => max(a, along, true, s)?,
        };
        let there = logical_or(&equal(a, &extreme, s)?, &isnan(a, s)?, s)?;
        return arg_reduce(ArgReduceOp::Max, &there, Some(axis as i64), keepdims, s);
    }
    let shape = drop_axes(a.shape(), &[axis], keepdims);
    Array::lazy(shape, Dtype::U32, ArgReduce { op, axis, keepdims }, vec![a.clone()], s)
}

/// Index of the first smallest element along an axis, or of the flattened array; uint32.
pub fn argmin(a: &Array, axis: Option<i64>, keepdims: bool, s: Stream) -> Result<Array> {
    arg_reduce(ArgReduceOp::Min, a, axis, keepdims, s)
}

/// Index of the first largest element along an axis, or of the flattened array; uint32.
pub fn argmax(a: &Array, axis: Option<i64>, keepdims: bool, s: Stream) -> Result<Array> {
    arg_reduce(ArgReduceOp::Max, a, axis, keepdims, s)
}

/// MLX has another error here than for axes that other arrays do not have.
fn no_axes_of_scalars(op: &str, a: &Array, axes: Option<&[i64]>) -> Result<()> {
    if a.ndim() == 0 && axes.is_some_and(|x| !x.is_empty()) {
        bail!(Value, "[{op}] Received non-empty axes for array with 0 dimensions.");
    }
    Ok(())
}

/// `exp(a) / sum(exp(a))` over axes. The kernel accumulates in float32; `precise` also stores the
/// intermediate of several-axis reductions in float32.
pub fn softmax(a: &Array, axes: Option<&[i64]>, precise: bool, s: Stream) -> Result<Array> {
    no_axes_of_scalars("softmax", a, axes)?;
    let dtype = a.dtype().at_least_float();
    let x = astype(a, dtype, s)?;
    refuse_f64("softmax", std::slice::from_ref(&x), s)?;
    if a.size() == 0 {
        // Whatever the axes are, as in MLX.
        return Ok(x);
    }
    let ax = axes_of("softmax", axes, a.ndim())?;
    if ax.len() == 1 && ax[0] + 1 == a.ndim() && dtype != Dtype::C64 {
        let out = Array::lazy(a.shape(), dtype, Softmax, vec![x.clone()], s)?;
        note(std::slice::from_ref(&out), || ("softmax", params![precise], vec![x]));
        return Ok(out);
    }
    let wide = if precise && dtype.size() == 2 { Dtype::F32 } else { dtype };
    let x = astype(&x, wide, s)?;
    let e = exp(&subtract(&x, &stop(&max(&x, axes, true, s)?), s)?, s)?;
    // Over no axes it is one each, in the dtype of the argument, as in MLX.
    let dtype = if ax.is_empty() { a.dtype() } else { dtype };
    astype(&divide(&e, &sum(&e, axes, true, s)?, s)?, dtype, s)
}

fn stop(a: &Array) -> Array {
    view::stop_gradient(a)
}

/// Whether a sum over `axes` is one over the last axis, since the others have length one, and nobody would see that it is
/// not what was asked for.
fn is_of_rows(a: &Array, axes: &[usize], s: Stream) -> bool {
    let one = |&i: &usize| a.shape()[i] == 1;
    axes.split_last().is_some_and(|(&last, others)| last + 1 == a.ndim() && others.iter().all(one))
        && a.dtype().is_float()
        && has_passes(s)
        && !lengths_vary()
        && !transformed(std::slice::from_ref(a))
}

/// `log(sum(exp(a)))` over axes without overflow.
pub fn logsumexp(a: &Array, axes: Option<&[i64]>, keepdims: bool, s: Stream) -> Result<Array> {
    no_axes_of_scalars("logsumexp", a, axes)?;
    if a.size() == 0 {
        bail!(Value, "[logsumexp] Received empty array of shape {}.", show(a.shape()));
    }
    let ax = axes_of("logsumexp", axes, a.ndim())?;
    let dtype = a.dtype().at_least_float();
    let x = astype(a, dtype, s)?;
    refuse_f64("logsumexp", std::slice::from_ref(&x), s)?;
    if ax.len() == 1 && ax[0] + 1 == a.ndim() && dtype != Dtype::C64 {
        return log_sum_exp(&x, LogSumExp { keepdims, parts: false, wide: false }, s);
    }
    if is_of_rows(a, &ax, s) {
        let out = log_sum_exp(&x, LogSumExp { keepdims: true, parts: false, wide: false }, s)?;
        return if keepdims { Ok(out) } else { view::reshape(&out, &drop_axes(a.shape(), &ax, false), s) };
    }
    if let Some(out) = one_pass(Statistic::LogSumExp, a, &ax, keepdims, 0, s)? {
        return Ok(out);
    }
    let m = stop(&max(&x, axes, true, s)?);
    // A row of infinities would give inf - inf.
    let zero = scalar_f64(0.0, dtype)?;
    let m = select(&isinf(&m, s)?, &zero, &m, s)?;
    let total = sum(&exp(&subtract(&x, &m, s)?, s)?, axes, true, s)?;
    let out = add(&log(&total, s)?, &m, s)?;
    let ax: Vec<i64> = ax.iter().map(|&i| i as i64).collect();
    let out = if keepdims { out } else { view::squeeze(&out, Some(&ax), s)? };
    note(std::slice::from_ref(&out), || ("logsumexp_axes", params![&ax[..], keepdims], vec![x]));
    Ok(out)
}
