//! Short-time Fourier transforms. Two linear primitives carry them, each the transpose of the other:
//! `Frames`, a view of overlapping windows, and `OverlapAdd`, which sums them back.

use super::{Norm, Spectrum, fftn};
use crate::bail;
use crate::core::layout::{checked_size, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, front};
use crate::ops::composite;
use crate::ops::create::ones;
use crate::ops::elementwise::{astype, divide, maximum, multiply, real};
use crate::ops::support::*;
use crate::ops::view::concatenate::{PadMode, pad};
use crate::ops::view::{broadcast_to, slice, swapaxes};
use crate::params;

/// Windows of `n` elements of the last axis, `hop` apart, on a new axis before it.
struct Frames {
    n: i64,
    hop: i64,
}

/// Sums rows of the last axis into one line, each `hop` elements after the one before.
struct OverlapAdd {
    hop: i64,
}

/// What the reconstruction divides by at least.
const SMALLEST_ENVELOPE: f64 = 1e-8;

impl Frames {
    fn place(inputs: &[Array], outputs: &[Array], hop: i64) -> Result<()> {
        let d = inputs[0].data()?;
        let mut strides = d.strides.clone();
        // INVARIANT: `frames` refuses arrays without axes.
        let last = *strides.last().expect("an axis");
        strides.insert(strides.len() - 1, last * hop);
        outputs[0].set_data(strides, d.offset, d.storage.clone());
        Ok(())
    }
}

impl Primitive for Frames {
    fn name(&self) -> &str {
        "frames"
    }

    fn is_view(&self) -> bool {
        true
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.n, self.hop]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Frames::place(inputs, outputs, self.hop)
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Frames::place(inputs, outputs, self.hop)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (x, s) = (&r.primals[0], r.stream);
        let g = overlap_add(&r.cotangents[0], self.hop, s)?;
        Ok(vec![Some(resized(&g, 0, x.dim(-1), s)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(frames(&r.tangents[0], self.n, self.hop, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        frames(&front(r, 0)?, self.n, self.hop, r.stream).map(batched)
    }
}

/// Stored windows.
pub(in crate::ops) fn restore_frames(c: &Stored) -> Result<Array> {
    let (a, n, hop) = (c.input_with_axes()?, c.size(0)?, c.size(1)?);
    if hop == 0 || n > a.dim(-1) {
        bail!(Value, "[frames] Cannot cut {} samples into windows of {n}, {hop} apart.", a.dim(-1));
    }
    frames(a, n, hop, c.stream)
}

impl Primitive for OverlapAdd {
    fn name(&self) -> &str {
        "overlap_add"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.hop]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        crate::cpu::fft::frames::overlap_add(&host_in(&inputs[0])?, self.hop, &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            crate::vulkan::kernels::fft::frames::overlap_add(enc, &src, self.hop, &dst)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let n = r.primals[0].dim(-1);
        Ok(vec![Some(frames(&r.cotangents[0], n, self.hop, r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(overlap_add(&r.tangents[0], self.hop, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        overlap_add(&front(r, 0)?, self.hop, r.stream).map(batched)
    }
}

/// A stored sum of windows.
pub(in crate::ops) fn restore_overlap_add(c: &Stored) -> Result<Array> {
    let (a, hop) = (c.input()?, c.size(0)?);
    let fits = a.ndim() >= 2 && a.dim(-2) > 0 && hop > 0;
    if !fits || !matches!(a.dtype(), Dtype::F32 | Dtype::F64 | Dtype::C64) {
        bail!(Value, "[overlap_add] Cannot add windows of {:?} of {}.", a.shape(), a.dtype());
    }
    refuse_f64("overlap_add", std::slice::from_ref(a), c.stream)?;
    overlap_add(a, hop, c.stream)
}

/// Overlapping windows of the last axis; it has at least `n` elements.
fn frames(a: &Array, n: i64, hop: i64, s: Stream) -> Result<Array> {
    let mut shape: Shape = a.shape().into();
    // INVARIANT: callers checked that there is an axis.
    let len = shape.pop().expect("an axis");
    shape.extend([1 + (len - n) / hop, n]);
    checked_size("stft", &shape, a.dtype().size())?;
    Array::lazy(shape, a.dtype(), Frames { n, hop }, vec![a.clone()], s)
}

/// Rows (at least one) of float32, float64 or complex64 summed where they overlap.
fn overlap_add(a: &Array, hop: i64, s: Stream) -> Result<Array> {
    let mut shape: Shape = a.shape().into();
    let n = shape.pop().unwrap_or(0);
    let rows = shape.pop().unwrap_or(0);
    let Some(len) = (rows - 1).checked_mul(hop).and_then(|l| l.checked_add(n)) else {
        bail!(Value, "[istft] {rows} frames {hop} samples apart are too long.");
    };
    shape.push(len);
    checked_size("istft", &shape, a.dtype().size())?;
    Array::lazy(shape, a.dtype(), OverlapAdd { hop }, vec![a.clone()], s)
}

/// Elements `start..start + len` of the last axis; zeros where there are none.
fn resized(a: &Array, start: i64, len: i64, s: Stream) -> Result<Array> {
    let have = a.dim(-1);
    let (lo, hi) = (start.min(have), (start + len).min(have));
    let (mut from, mut to) = (vec![0; a.ndim()], a.shape().to_vec());
    (from[a.ndim() - 1], to[a.ndim() - 1]) = (lo, hi);
    let part = slice(a, &from, &to, &vec![1; a.ndim()], s)?;
    let mut width = vec![(0, 0); a.ndim()];
    width[a.ndim() - 1].1 = len - (hi - lo);
    if width[a.ndim() - 1].1 == 0 {
        return Ok(part);
    }
    pad(&part, &width, PadMode::Constant, &scalar_f64(0.0, a.dtype())?, s)
}

/// The last axis with `by` elements more on both sides; reflections go on where the signal is shorter.
fn centred(a: &Array, by: i64, mode: PadMode, s: Stream) -> Result<Array> {
    let (mut x, mut left) = (a.clone(), by);
    let zero = scalar_f64(0.0, a.dtype())?;
    while left > 0 {
        let n = x.dim(-1);
        let (step, mode) = match mode {
            PadMode::Reflect if n == 1 => (left, PadMode::Edge),
            PadMode::Reflect if n > 1 => (left.min(n - 1), mode),
            PadMode::Symmetric if n > 0 => (left.min(n), mode),
            _ => (left, mode),
        };
        let mut width = vec![(0, 0); x.ndim()];
        width[x.ndim() - 1] = (step, step);
        x = pad(&x, &width, mode, &zero, s)?;
        left -= step;
    }
    Ok(x)
}

/// How a signal is cut into frames.
pub struct Framing<'a> {
    /// Samples of a transform.
    pub n_fft: i64,
    /// Samples between frames; a quarter of `n_fft` for `None`.
    pub hop: Option<i64>,
    /// Length of the rectangular window that `window: None` stands for; `n_fft` for `None`.
    pub win_length: Option<i64>,
    /// Factors of the samples, centred in the frame.
    pub window: Option<&'a Array>,
    /// Whether frame `i` is centred on sample `i * hop`.
    pub center: bool,
}

/// A stored transform as the public ops have it.
pub(in crate::ops) fn restore_public(c: &Stored) -> Result<Array> {
    let [x, window @ ..] = c.inputs else { return c.unknown() };
    let f = Framing {
        n_fft: c.int(3)?,
        hop: c.maybe_int(4)?,
        win_length: c.maybe_int(5)?,
        window: window.first(),
        center: c.flag(6)?,
    };
    let norms = [Norm::Backward, Norm::Ortho, Norm::Forward];
    match c.name {
        "stft" => {
            let onesided = Some(c.int(2)?).filter(|&v| v >= 0).map(|v| v != 0);
            stft(x, &f, c.choice(0, &PadMode::ALL)?, c.choice(1, &norms)?, onesided, c.stream)
        }
        "istft" if x.ndim() >= 2 => {
            let length = Some(c.int(2)?).filter(|&n| n >= 0);
            istft(x, &f, c.choice(0, &norms)?, c.flag(1)?, length, c.stream)
        }
        _ => c.unknown(),
    }
}

impl Framing<'_> {
    fn inputs<'a>(&'a self, x: &'a Array) -> Vec<&'a Array> {
        std::iter::once(x).chain(self.window).collect()
    }

    /// What is kept of a transform, after numbers of its own.
    fn params(&self, own: [i64; 3]) -> Vec<Param> {
        let all = [self.n_fft.into(), self.hop.into(), self.win_length.into(), self.center.into()];
        own.map(Param::from).into_iter().chain(all).collect()
    }

    /// Checks the numbers; returns the hop.
    fn checked(&self, op: &str) -> Result<i64> {
        if self.n_fft <= 0 {
            bail!(Value, "[{op}] n_fft must be positive, got {}.", self.n_fft);
        }
        let hop = self.hop.unwrap_or(self.n_fft / 4);
        if hop <= 0 {
            bail!(Value, "[{op}] hop_length must be positive, got {hop}.");
        }
        checked_size(op, &[self.n_fft], 16)?;
        checked_size(op, &[hop], 1)?;
        Ok(hop)
    }

    /// The window over a whole frame; `None` for all ones.
    fn whole_window(&self, op: &str, s: Stream) -> Result<Option<Array>> {
        let w = match (self.window, self.win_length) {
            (Some(w), _) if w.ndim() != 1 => {
                bail!(Value, "[{op}] window must be a one-dimensional array, got shape {}.", show(w.shape()))
            }
            (Some(w), _) => w.clone(),
            (None, Some(n)) if n != self.n_fft => ones(&[n], Dtype::F32, s)?,
            (None, _) => return Ok(None),
        };
        let n = w.size() as i64;
        if n > self.n_fft {
            bail!(Value, "[{op}] window length must not exceed n_fft, got {n} and {}.", self.n_fft);
        }
        let before = (self.n_fft - n) / 2;
        let width = [(before, self.n_fft - n - before)];
        let w = if matches!(w.dtype(), Dtype::F64 | Dtype::C64) { w } else { astype(&w, Dtype::F32, s)? };
        pad(&w, &width, PadMode::Constant, &scalar_f64(0.0, w.dtype())?, s).map(Some)
    }
}

/// Transforms of overlapping frames of the last axis, shape `(..., frequencies, frames)`; half spectra for real
/// input unless `onesided` says otherwise.
///
/// # Errors
/// Value error for scalars, numbers that are not positive, windows that do not fit and signals shorter than
/// one frame.
pub fn stft(
    x: &Array,
    f: &Framing,
    pad_mode: PadMode,
    norm: Norm,
    onesided: Option<bool>,
    s: Stream,
) -> Result<Array> {
    if x.ndim() == 0 {
        bail!(Value, "[stft] Input must have at least one dimension.");
    }
    let hop = f.checked("stft")?;
    let given = || f.params([pad_mode as i64, norm as i64, onesided.map_or(-1, i64::from)]);
    if let Some(out) = composite::one("stft", given, &f.inputs(x), s)? {
        return Ok(out);
    }
    let onesided = onesided.unwrap_or(x.dtype() != Dtype::C64);
    let window = f.whole_window("stft", s)?;
    let mut x = astype(x, if x.dtype() == Dtype::C64 { Dtype::C64 } else { Dtype::F32 }, s)?;
    if f.center {
        x = centred(&x, f.n_fft / 2, pad_mode, s)?;
    }
    if x.dim(-1) < f.n_fft {
        bail!(
            Value,
            "[stft] Input is too short for the given n_fft, got {} samples for {}.",
            x.dim(-1),
            f.n_fft
        );
    }
    let mut cut = frames(&x, f.n_fft, hop, s)?;
    if let Some(w) = window {
        // float64 windows are applied in float32, like all signals.
        let w = astype(&w, if w.dtype() == Dtype::C64 { Dtype::C64 } else { Dtype::F32 }, s)?;
        cut = multiply(&cut, &w, s)?;
    }
    let spectrum = if onesided { Spectrum::Half } else { Spectrum::Full };
    let coefficients = fftn(&cut, Some(&[f.n_fft]), Some(&[-1]), norm, spectrum, false, s)?;
    swapaxes(&coefficients, -1, -2, s)
}

/// The signal whose [`stft`] this is: inverse transforms, windowed and summed, divided by the sum of the
/// squared windows. The last axes are frequencies and frames.
///
/// # Errors
/// Value error for fewer than two axes, no frames, numbers that are not positive and windows that do not fit.
pub fn istft(
    z: &Array,
    f: &Framing,
    norm: Norm,
    onesided: bool,
    length: Option<i64>,
    s: Stream,
) -> Result<Array> {
    let hop = f.checked("istft")?;
    // A file keeps -1 for a length that was not told.
    let length = length.map(|n| n.max(0));
    let given = || f.params([norm as i64, i64::from(onesided), length.unwrap_or(-1)]);
    if let Some(out) = composite::one("istft", given, &f.inputs(z), s)? {
        return Ok(out);
    }
    if z.dim(-1) == 0 {
        bail!(Value, "[istft] Expected at least one frame, got shape {}.", show(z.shape()));
    }
    let n = f.n_fft;
    let spectrum = if onesided { Spectrum::Half } else { Spectrum::Full };
    let transposed = swapaxes(&astype(z, Dtype::C64, s)?, -1, -2, s)?;
    let mut parts = fftn(&transposed, Some(&[n]), Some(&[-1]), norm, spectrum, true, s)?;
    if !onesided {
        parts = real(&parts, s)?;
    }
    let window = match f.whole_window("istft", s)? {
        Some(w) => {
            parts = multiply(&parts, &w, s)?;
            multiply(&w, &w, s)?
        }
        None => ones(&[n], Dtype::F32, s)?,
    };
    let sum = overlap_add(&parts, hop, s)?;
    let envelope = overlap_add(&broadcast_to(&window, &[z.dim(-1), n], s)?, hop, s)?;
    let envelope = maximum(&envelope, &scalar_f64(SMALLEST_ENVELOPE, envelope.dtype())?, s)?;
    let y = divide(&sum, &envelope, s)?;
    let start = if f.center { n / 2 } else { 0 };
    let len = match length {
        Some(len) => len,
        None => (y.dim(-1) - 2 * start).max(0),
    };
    resized(&y, start, len, s)
}

/// `n_fft` of an [`istft`] that was not told: the even one for half a spectrum.
///
/// # Errors
/// Value error for fewer than two axes.
pub fn istft_length(z: &Array, onesided: bool) -> Result<i64> {
    if z.ndim() < 2 {
        bail!(
            Value,
            "[istft] Input must have at least two dimensions (freq, frames), got shape {}.",
            show(z.shape())
        );
    }
    let n = z.dim(-2);
    Ok(if onesided { 2 * (n - 1) } else { n })
}
