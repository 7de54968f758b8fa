//! Discrete Fourier transforms: one primitive along one axis, linear in its input, and the functions of
//! several axes built from it. Derivatives are transforms again: the transpose of a forward transform is the
//! unscaled inverse one, with weights where half of a spectrum stands for all of it.

pub mod hadamard;
pub mod stft;
pub mod window;

use super::batching::{batched, front};
use super::composite;
use super::elementwise::{astype, multiply, real};
use super::support::*;
use super::view::concatenate::{PadMode, pad, roll};
use super::view::{reshape, slice};
use crate::bail;
use crate::core::layout::{checked_size, normalize_axis, show};
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::{Fft, FftKind};
use crate::on_gpu;
use crate::params;

/// Where the factor `1 / n` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// Into the inverse transform.
    Backward,
    /// Its square root into both.
    Ortho,
    /// Into the forward transform.
    Forward,
}

impl Norm {
    /// The norm of this name.
    ///
    /// # Errors
    /// Value error for an unknown name.
    pub fn parse(op: &str, name: &str) -> Result<Norm> {
        match name {
            "backward" => Ok(Norm::Backward),
            "ortho" => Ok(Norm::Ortho),
            "forward" => Ok(Norm::Forward),
            _ => {
                bail!(Value, "[{op}] Invalid norm {name:?}. Expected one of 'backward', 'ortho', 'forward'.")
            }
        }
    }

    fn scale(self, n: i64, inverse: bool) -> f32 {
        match (self, inverse) {
            (Norm::Backward, false) | (Norm::Forward, true) => 1.0,
            (Norm::Ortho, _) => (1.0 / (n as f64).sqrt()) as f32,
            (Norm::Backward, true) | (Norm::Forward, false) => (1.0 / n as f64) as f32,
        }
    }
}

/// Whether input or output is real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spectrum {
    /// Complex values on both sides.
    Full,
    /// Real values on one side, half of the last axis' coefficients on the other.
    Half,
}

struct Transform(Fft);

impl Primitive for Transform {
    fn name(&self) -> &str {
        match (self.0.kind, self.0.inverse) {
            (FftKind::Complex, false) => "fft",
            (FftKind::Complex, true) => "ifft",
            (FftKind::Forward, _) => "rfft",
            (FftKind::Backward, _) => "irfft",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        let t = &self.0;
        params![t.kind as usize, t.axis, t.n, t.inverse, t.scale]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let src = host_in(&inputs[0])?;
        let dst = host_out_reusing(&outputs[0], inputs)?;
        crate::cpu::fft::fft(&self.0, &src, &dst)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::fft::fft(enc, &self.0, &src, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (x, cot, s) = (&r.primals[0], &r.cotangents[0], r.stream);
        let t = self.0;
        let g = match t.kind {
            FftKind::Complex => {
                let g = line(cot, Fft { inverse: !t.inverse, ..t }, s)?;
                if x.dtype() == Dtype::F32 { real(&g, s)? } else { g }
            }
            FftKind::Forward => {
                let weighted = multiply(cot, &weights(&t, 0.5, cot.ndim(), s)?, s)?;
                line(&weighted, Fft { kind: FftKind::Backward, inverse: true, ..t }, s)?
            }
            FftKind::Backward => {
                let g = line(cot, Fft { kind: FftKind::Forward, inverse: false, ..t }, s)?;
                multiply(&g, &weights(&t, 2.0, cot.ndim(), s)?, s)?
            }
        };
        Ok(vec![Some(fitted(&g, t.axis, x.shape()[t.axis], s)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(line(&r.tangents[0], self.0, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let t = Fft { axis: self.0.axis + 1, ..self.0 };
        line(&front(r, 0)?, t, r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        super::restore::shapes(self, inputs)
    }
}

/// A stored transform.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let a = c.input()?;
    let kind = c.choice(0, &[FftKind::Complex, FftKind::Forward, FftKind::Backward])?;
    // FITS: `size` takes no negative one.
    let n = c.size(2)? as usize;
    let fits = match kind {
        FftKind::Complex => matches!(a.dtype(), Dtype::C64 | Dtype::F32),
        FftKind::Forward => a.dtype() == Dtype::F32,
        FftKind::Backward => a.dtype() == Dtype::C64,
    };
    if !fits || n == 0 {
        bail!(Value, "[{}] Cannot transform {} to length {n}.", c.name, a.dtype());
    }
    let t = Fft { kind, axis: c.axis(1, a.ndim())?, n, inverse: c.flag(3)?, scale: c.float(4)? as f32 };
    let mut shape: Shape = a.shape().into();
    shape[t.axis] = t.len_out() as i64;
    checked_size(c.name, &shape, Dtype::C64.size())?;
    line(a, t, c.stream)
}

/// The node of a transform whose input has the dtype that its kind reads.
fn line(a: &Array, t: Fft, s: Stream) -> Result<Array> {
    let mut shape: Shape = a.shape().into();
    shape[t.axis] = t.len_out() as i64;
    let dtype = if t.kind == FftKind::Backward { Dtype::F32 } else { Dtype::C64 };
    Array::lazy(shape, dtype, Transform(t), vec![a.clone()], s)
}

/// Half a spectrum counts once what is its own mirror image (the first coefficient and, for even lengths, the
/// last) and `inner` times what stands for two.
fn weights(t: &Fft, inner: f64, ndim: usize, s: Stream) -> Result<Array> {
    let m = (t.n / 2 + 1) as i64;
    let mut shape = vec![1i64; ndim];
    shape[t.axis] = m;
    let middle = t.n.is_multiple_of(2).then_some(t.n / 2);
    let w = from_host(&[m], Dtype::F32, |p| {
        for i in 0..t.n / 2 + 1 {
            let weight = if i == 0 || Some(i) == middle { 1.0 } else { inner as f32 };
            // SAFETY: memory for m floats.
            unsafe { p.cast::<f32>().add(i).write_unaligned(weight) }
        }
    })?;
    reshape(&w, &shape, s)
}

/// Cut or padded with zeros to `n` elements along an axis: the transpose of reading a line so.
fn fitted(a: &Array, axis: usize, n: i64, s: Stream) -> Result<Array> {
    let have = a.shape()[axis];
    let mut width = vec![(0, 0); a.ndim()];
    if have < n {
        width[axis].1 = n - have;
        return pad(a, &width, PadMode::Constant, &scalar_f64(0.0, a.dtype())?, s);
    }
    let mut stop = a.shape().to_vec();
    stop[axis] = n;
    slice(a, &vec![0; a.ndim()], &stop, &vec![1; a.ndim()], s)
}

/// Lengths and axes of a transform of several axes.
struct Plan {
    axes: Vec<usize>,
    lengths: Vec<i64>,
}

fn planned(a: &Array, n: Option<&[i64]>, axes: Option<&[i64]>, half: bool, inverse: bool) -> Result<Plan> {
    // An axis without a length is looked up first, as MLX does.
    if a.ndim() == 0 && (n.is_some() || axes.is_none_or(<[i64]>::is_empty)) {
        bail!(Value, "[fftn] Requires array with at least one dimension.");
    }
    let all: Vec<i64> = (0..a.ndim() as i64).collect();
    let given = axes.unwrap_or(&all);
    if let Some(n) = n
        && n.len() != given.len()
    {
        bail!(Value, "[fftn] Shape and axes have different sizes, got {} and {}.", n.len(), given.len());
    }
    let axes = given.iter().map(|&ax| normalize_axis("fftn", ax, a.ndim())).collect::<Result<Vec<_>>>()?;
    for (i, ax) in axes.iter().enumerate() {
        if axes[..i].contains(ax) {
            bail!(Value, "[fftn] Duplicated axis received {}.", show(given));
        }
    }
    let lengths: Vec<i64> = match n {
        Some(n) => n.to_vec(),
        None => {
            let mut n: Vec<i64> = axes.iter().map(|&ax| a.shape()[ax]).collect();
            if let (Some(last), true, true) = (n.last_mut(), half, inverse) {
                *last = 2 * (*last - 1);
            }
            n
        }
    };
    if lengths.iter().any(|&n| n <= 0) {
        bail!(Value, "[fftn] Invalid FFT output size requested {}.", show(&lengths));
    }
    Ok(Plan { axes, lengths })
}

/// A stored transform of several axes.
pub(super) fn restore_axes(c: &Stored) -> Result<Array> {
    let a = c.input()?;
    match c.name {
        "fftshift" => fftshift(a, c.maybe_ints(0)?, c.stream),
        "ifftshift" => ifftshift(a, c.maybe_ints(0)?, c.stream),
        _ => {
            let norm = c.choice(1, &[Norm::Backward, Norm::Ortho, Norm::Forward])?;
            let spectrum = c.choice(2, &[Spectrum::Full, Spectrum::Half])?;
            fftn(a, None, c.maybe_ints(0)?, norm, spectrum, c.flag(3)?, c.stream)
        }
    }
}

/// The transform along `axes` (all for `None`) with lengths `n` (those of the array for `None`). With a half
/// spectrum the last of the axes is the one whose coefficients are halved, or restored. complex64 results;
/// float32 ones for the inverse with a half spectrum.
///
/// # Errors
/// Value error for lengths that are not positive or do not match the axes; index error for an axis that does
/// not exist.
pub fn fftn(
    a: &Array,
    n: Option<&[i64]>,
    axes: Option<&[i64]>,
    norm: Norm,
    spectrum: Spectrum,
    inverse: bool,
    s: Stream,
) -> Result<Array> {
    let given = || vec![axes.into(), (norm as usize).into(), (spectrum as usize).into(), inverse.into()];
    if n.is_none()
        && let Some(out) = composite::one("fftn", given, &[a], s)?
    {
        return Ok(out);
    }
    let half = spectrum == Spectrum::Half;
    let plan = planned(a, n, axes, half, inverse)?;
    let Some(last) = plan.axes.len().checked_sub(1) else { return Ok(a.clone()) };
    let mut shape: Shape = a.shape().into();
    for (&ax, &n) in plan.axes.iter().zip(&plan.lengths) {
        shape[ax] = n;
    }
    checked_size("fftn", &shape, Dtype::C64.size())?;
    let is_real = a.dtype() != Dtype::C64;
    let mut x = match (half, inverse) {
        (true, false) => astype(a, Dtype::F32, s)?,
        // What is transformed first may stay real.
        _ if is_real && !(half && last == 0) => astype(a, Dtype::F32, s)?,
        _ => astype(a, Dtype::C64, s)?,
    };
    // The halved axis comes first on the way to coefficients and last on the way back.
    let order: Vec<usize> = match inverse {
        false => (0..=last).rev().collect(),
        true => (0..=last).collect(),
    };
    let start = x.clone();
    for i in order {
        let kind = match (half && i == last, inverse) {
            (false, _) => FftKind::Complex,
            (true, false) => FftKind::Forward,
            (true, true) => FftKind::Backward,
        };
        let n = plan.lengths[i];
        let scale = norm.scale(n, inverse);
        // FITS: lengths were checked to be positive.
        x = line(&x, Fft { kind, axis: plan.axes[i], n: n as usize, inverse, scale }, s)?;
    }
    if last > 0 {
        // FITS: dimensions of the result, whose shape was checked.
        let points: i64 = plan.lengths.iter().product();
        let scale: f32 = plan.lengths.iter().map(|&n| norm.scale(n, inverse)).product();
        let half_axis = |i: usize| half && inverse && i == plan.axes[last];
        let fits =
            (0..a.ndim()).all(|i| a.shape()[i] == if half_axis(i) { shape[i] / 2 + 1 } else { shape[i] });
        if fits {
            note(std::slice::from_ref(&x), || {
                ("fft_axes", params![&plan.axes[..], inverse, half, points, scale], vec![start])
            });
        }
    }
    Ok(x)
}

fn shifted(
    op: &'static str,
    a: &Array,
    axes: Option<&[i64]>,
    by: impl Fn(i64) -> i64,
    s: Stream,
) -> Result<Array> {
    if let Some(out) = composite::one(op, || vec![axes.into()], &[a], s)? {
        return Ok(out);
    }
    let all: Vec<i64> = (0..a.ndim() as i64).collect();
    let given = axes.unwrap_or(&all);
    let mut shift = Vec::with_capacity(given.len());
    for &ax in given {
        shift.push(by(a.shape()[normalize_axis(op, ax, a.ndim())?]));
    }
    if given.is_empty() { Ok(a.clone()) } else { roll(a, &shift, Some(given), s) }
}

/// Moves the zero frequency to the middle of the axes (all for `None`).
pub fn fftshift(a: &Array, axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    shifted("fftshift", a, axes, |n| n / 2, s)
}

/// Undoes [`fftshift`].
pub fn ifftshift(a: &Array, axes: Option<&[i64]>, s: Stream) -> Result<Array> {
    shifted("ifftshift", a, axes, |n| -(n / 2), s)
}

fn frequencies(op: &str, n: i64, d: f64, count: i64, value: impl Fn(i64) -> i64) -> Result<Array> {
    if n <= 0 {
        bail!(Value, "[{op}] `n` must be greater than 0, got {n}.");
    }
    if d == 0.0 {
        bail!(Value, "[{op}] `d` must be non-zero.");
    }
    let step = 1.0 / (n as f64 * d);
    from_host(&[count], Dtype::F32, |p| {
        for k in 0..count {
            // SAFETY: memory for `count` floats. FITS: k is not negative.
            unsafe { p.cast::<f32>().add(k as usize).write_unaligned((value(k) as f64 * step) as f32) }
        }
    })
}

/// Frequencies of the coefficients of a transform of `n` samples, `d` apart; float32.
pub fn fftfreq(n: i64, d: f64) -> Result<Array> {
    let positive = n.saturating_sub(1) / 2 + 1;
    frequencies("fftfreq", n, d, n, |k| if k < positive { k } else { k - n })
}

/// The frequencies of the first `n / 2 + 1` coefficients; float32.
pub fn rfftfreq(n: i64, d: f64) -> Result<Array> {
    frequencies("rfftfreq", n, d, n / 2 + 1, |k| k)
}
