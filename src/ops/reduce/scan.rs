//! Scans along an axis: running sums, products, extrema and log-sum-exps, from either end, with or without
//! the element itself; and `diff`. The derivatives of all but the sum are first-order linear recurrences,
//! which are a primitive of their own: no division, so zeros and infinities do no harm, and closed under
//! differentiation.

use crate::bail;
use crate::core::layout::normalize_axis;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::{ScanForm, ScanOp};
use crate::on_gpu;
use crate::ops::batching::{batched, front, with_batch};
use crate::ops::composite;
use crate::ops::elementwise::*;
use crate::ops::support::*;
use crate::ops::view::concatenate::{PadMode, pad};
use crate::ops::view::{contiguous, flatten, slice};
use crate::params;

/// The input is row-major; output of the same dtype.
struct Scan {
    op: ScanOp,
    axis: usize,
    form: ScanForm,
}

/// `y[i] = a[i] y[i-1] + b[i]` along an axis, from zero; both inputs row-major, of one shape and dtype.
struct Recurrence {
    axis: usize,
    reverse: bool,
}

fn scan(op: ScanOp, a: &Array, axis: usize, form: ScanForm, s: Stream) -> Result<Array> {
    let dense = contiguous(a, false, s)?;
    Array::lazy(a.shape(), a.dtype(), Scan { op, axis, form }, vec![dense], s)
}

fn recurrence(a: &Array, b: &Array, axis: usize, reverse: bool, s: Stream) -> Result<Array> {
    let inputs = vec![contiguous(a, false, s)?, contiguous(b, false, s)?];
    Array::lazy(b.shape(), b.dtype(), Recurrence { axis, reverse }, inputs, s)
}

/// All but the last (`drop_last`) or the first element along an axis, in the order of the scan.
fn trimmed(a: &Array, axis: usize, drop_last: bool, reverse: bool, s: Stream) -> Result<Array> {
    let (mut start, mut stop) = (vec![0; a.ndim()], a.shape().to_vec());
    if drop_last == reverse {
        start[axis] += 1;
    } else {
        stop[axis] -= 1;
    }
    slice(a, &start, &stop, &vec![1; a.ndim()], s)
}

/// `a` with a zero before its first (`before`) or behind its last element, in the order of the scan.
fn extended(a: &Array, axis: usize, before: bool, reverse: bool, s: Stream) -> Result<Array> {
    let mut width = vec![(0, 0); a.ndim()];
    width[axis] = if before == reverse { (0, 1) } else { (1, 0) };
    pad(a, &width, PadMode::Constant, &scalar_i64(0, a.dtype())?, s)
}

/// Each element's predecessor in the order of the scan, zero for the first.
fn earlier(a: &Array, axis: usize, reverse: bool, s: Stream) -> Result<Array> {
    extended(&trimmed(a, axis, true, reverse, s)?, axis, true, reverse, s)
}

/// Each element's successor in the order of the scan, zero for the last.
fn later(a: &Array, axis: usize, reverse: bool, s: Stream) -> Result<Array> {
    extended(&trimmed(a, axis, false, reverse, s)?, axis, false, reverse, s)
}

/// exp(a - b), 1 where both are the same infinity.
fn share(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    let same = logical_and(&isinf(a, s)?, &equal(a, b, s)?, s)?;
    let zero = scalar_f64(0.0, a.dtype())?;
    exp(&select(&same, &zero, &subtract(a, b, s)?, s)?, s)
}

impl Scan {
    /// The cotangent of the input, from the cotangent `g` of the inclusive results. `y` is those results.
    fn cotangent(&self, x: &Array, y: impl FnOnce() -> Result<Array>, g: &Array, s: Stream) -> Result<Array> {
        let (axis, reverse) = (self.axis, self.form.reverse);
        let back = |a: &Array| recurrence(a, g, axis, !reverse, s);
        match self.op {
            ScanOp::Sum => scan(ScanOp::Sum, g, axis, ScanForm { reverse: !reverse, inclusive: true }, s),
            // What stands before an element, times what follows from it: r[i] = g[i] + x[i+1] r[i+1].
            ScanOp::Prod => {
                let before = scan(ScanOp::Prod, x, axis, ScanForm { inclusive: false, ..self.form }, s)?;
                multiply(&before, &back(&later(x, axis, reverse, s)?)?, s)
            }
            // An element is kept while nothing as extreme comes; the last of equal elements counts.
            ScanOp::Min | ScanOp::Max => {
                let y = y()?;
                let so_far = trimmed(&y, axis, true, reverse, s)?;
                let next = trimmed(x, axis, false, reverse, s)?;
                let wins = match self.op == ScanOp::Max {
                    true => greater(&so_far, &next, s)?,
                    false => less(&so_far, &next, s)?,
                };
                let kept = logical_or(&wins, &isnan(&so_far, s)?, s)?;
                let held = extended(&astype(&kept, g.dtype(), s)?, axis, false, reverse, s)?;
                let total = back(&held)?;
                let kept = extended(&kept, axis, true, reverse, s)?;
                select(&kept, &scalar_f64(0.0, g.dtype())?, &total, s)
            }
            // exp(x[i]) sum of g[j] exp(-y[j]) over j >= i, in factors that are at most 1.
            ScanOp::LogAddExp => {
                let y = y()?;
                let (now, next) =
                    (trimmed(&y, axis, true, reverse, s)?, trimmed(&y, axis, false, reverse, s)?);
                let falls = extended(&share(&now, &next, s)?, axis, false, reverse, s)?;
                multiply(&share(x, &y, s)?, &back(&falls)?, s)
            }
        }
    }
}

impl Primitive for Scan {
    fn name(&self) -> &str {
        match self.op {
            ScanOp::Sum => "cumsum",
            ScanOp::Prod => "cumprod",
            ScanOp::Min => "cummin",
            ScanOp::Max => "cummax",
            ScanOp::LogAddExp => "logcumsumexp",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis, self.form.reverse, self.form.inclusive]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, dst) = (host_in(&inputs[0])?, host_out(&outputs[0])?);
        crate::cpu::reduce::scan::scan(self.op, self.form, &src, self.axis, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::reduce::scan::scan(enc, self.op, self.form, &src, self.axis, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (x, g, s) = (&r.primals[0], &r.cotangents[0], r.stream);
        if x.size() == 0 || (self.op != ScanOp::Sum && !x.dtype().is_inexact()) {
            return Ok(vec![None]);
        }
        let inclusive = ScanForm { inclusive: true, ..self.form };
        let g = if self.form.inclusive { g.clone() } else { later(g, self.axis, self.form.reverse, s)? };
        let y = || match self.form.inclusive {
            true => Ok(r.outputs[0].clone()),
            false => scan(self.op, x, self.axis, inclusive, s),
        };
        Ok(vec![Some(self.cotangent(x, y, &g, s)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        if self.op != ScanOp::Sum {
            return Ok(None);
        }
        Ok(Some(vec![Some(scan(self.op, &r.tangents[0], self.axis, self.form, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        scan(self.op, &front(r, 0)?, self.axis + 1, self.form, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored scan.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let a = c.input()?;
    let op = match c.name {
        "cumsum" => ScanOp::Sum,
        "cumprod" => ScanOp::Prod,
        "cummin" => ScanOp::Min,
        "cummax" => ScanOp::Max,
        "logcumsumexp" => ScanOp::LogAddExp,
        _ => return c.unknown(),
    };
    let form = ScanForm { reverse: c.flag(1)?, inclusive: c.flag(2)? };
    let fits = match op {
        ScanOp::Sum => a.dtype() != Dtype::Bool,
        ScanOp::LogAddExp => a.dtype().is_inexact(),
        ScanOp::Prod | ScanOp::Min | ScanOp::Max => true,
    };
    if !fits {
        bail!(Value, "[{}] Cannot scan {}.", c.name, a.dtype());
    }
    refuse_f64(c.name, std::slice::from_ref(a), c.stream)?;
    scan(op, a, c.axis(0, a.ndim())?, form, c.stream)
}

impl Primitive for Recurrence {
    fn name(&self) -> &str {
        "recurrence"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axis, self.reverse]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, b, dst) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_out(&outputs[0])?);
        crate::cpu::reduce::recurrence::recurrence(&a, &b, self.axis, self.reverse, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, b) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::reduce::scan::recurrence(enc, &a, &b, self.axis, self.reverse, &dst)
        })
    }

    /// With l[i] = g[i] + a[i+1] l[i+1], the cotangent of b is l and that of a is l[i] y[i-1].
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (axis, reverse, s) = (self.axis, self.reverse, r.stream);
        let l = recurrence(&later(&r.primals[0], axis, reverse, s)?, &r.cotangents[0], axis, !reverse, s)?;
        r.each(|i| match i {
            0 => multiply(&l, &earlier(&r.outputs[0], axis, reverse, s)?, s).map(Some),
            _ => Ok(Some(l.clone())),
        })
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        recurrence(&with_batch(r, 0)?, &with_batch(r, 1)?, self.axis + 1, self.reverse, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        crate::ops::restore::shapes(self, inputs)
    }
}

/// A stored recurrence.
pub(in crate::ops) fn restore_recurrence(c: &Stored) -> Result<Array> {
    let [a, b] = c.inputs()?;
    if a.shape() != b.shape() || a.dtype() != b.dtype() || !a.dtype().is_inexact() {
        bail!(Value, "[recurrence] Operands differ or are not inexact: {} and {}.", a.dtype(), b.dtype());
    }
    refuse_f64("recurrence", std::slice::from_ref(a), c.stream)?;
    recurrence(a, b, c.axis(0, a.ndim())?, c.flag(1)?, c.stream)
}

fn along(op: ScanOp, name: &str, a: &Array, axis: Option<i64>, form: ScanForm, s: Stream) -> Result<Array> {
    refuse_f64(name, std::slice::from_ref(a), s)?;
    match axis {
        None => scan(op, &flatten(a, 0, -1, s)?, 0, form, s),
        Some(axis) => scan(op, a, normalize_axis(name, axis, a.ndim())?, form, s),
    }
}

/// Running sum along an axis, or of the flattened array; bool is summed as int32, all others as they are.
pub fn cumsum(
    a: &Array,
    axis: Option<i64>,
    form: ScanForm,
    dtype: Option<Dtype>,
    s: Stream,
) -> Result<Array> {
    let mut x = astype(a, dtype.unwrap_or(a.dtype()), s)?;
    if x.dtype() == Dtype::Bool {
        x = astype(&x, Dtype::I32, s)?;
    }
    along(ScanOp::Sum, "cumsum", &x, axis, form, s)
}

/// Running product along an axis, or of the flattened array, in the array's dtype or the one given.
pub fn cumprod(
    a: &Array,
    axis: Option<i64>,
    form: ScanForm,
    dtype: Option<Dtype>,
    s: Stream,
) -> Result<Array> {
    along(ScanOp::Prod, "cumprod", &astype(a, dtype.unwrap_or(a.dtype()), s)?, axis, form, s)
}

/// Running maximum along an axis, or of the flattened array; NaN stays once it has come.
pub fn cummax(a: &Array, axis: Option<i64>, form: ScanForm, s: Stream) -> Result<Array> {
    along(ScanOp::Max, "cummax", a, axis, form, s)
}

/// Running minimum along an axis, or of the flattened array; NaN stays once it has come.
pub fn cummin(a: &Array, axis: Option<i64>, form: ScanForm, s: Stream) -> Result<Array> {
    along(ScanOp::Min, "cummin", a, axis, form, s)
}

/// Running `log(sum(exp(a)))` along an axis, or of the flattened array, without overflow; integers give float32.
pub fn logcumsumexp(a: &Array, axis: Option<i64>, form: ScanForm, s: Stream) -> Result<Array> {
    let x = astype(a, a.dtype().at_least_float(), s)?;
    along(ScanOp::LogAddExp, "logcumsumexp", &x, axis, form, s)
}

/// Stored differences.
pub(in crate::ops) fn restore_diff(c: &Stored) -> Result<Array> {
    diff(c.input()?, c.int(0)?, c.int(1)?, c.stream)
}

/// The `n`-th differences of neighbours along an axis, which gets shorter by `n`; for bool, whether they differ.
pub fn diff(a: &Array, n: i64, axis: i64, s: Stream) -> Result<Array> {
    if n < 0 {
        bail!(Value, "[diff] Order `n` must be non-negative, got {n}.");
    }
    if let Some(out) = composite::one("diff", || vec![n.into(), axis.into()], &[a], s)? {
        return Ok(out);
    }
    let axis = normalize_axis("diff", axis, a.ndim())?;
    let mut out = a.clone();
    for _ in 0..n.min(a.shape()[axis]) {
        let (next, last) = (trimmed(&out, axis, false, false, s)?, trimmed(&out, axis, true, false, s)?);
        out = match a.dtype() {
            Dtype::Bool => not_equal(&next, &last, s)?,
            _ => subtract(&next, &last, s)?,
        };
    }
    Ok(out)
}
