//! Fourier transforms along one axis: lines in parallel, each by a `rustfft` or `realfft` plan. Plans are kept
//! up to a bound. Lines that are strided, cut, padded or real are gathered into a buffer first, neighbouring
//! ones together, so that memory is read by whole cache lines.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};

use num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft as Plan, FftDirection, FftPlanner};

use super::pool::{self, SendPtr};
use super::walk::{Lines, locate};
use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::kernels::{Fft, FftKind, HostView};

/// Elements of all lengths planned for; beyond it the plans are dropped.
const PLANNED_MAX: usize = 1 << 24;
/// Elements that one thread gathers before it transforms them.
const GATHERED: usize = 1 << 16;
/// Elements below which a second thread does not pay.
const GRAIN: usize = 1 << 13;

/// How one line is transformed.
#[derive(Clone)]
enum Lane {
    Complex(Arc<dyn Plan<f32>>),
    Forward(Arc<dyn RealToComplex<f32>>),
    Backward(Arc<dyn ComplexToReal<f32>>),
}

impl Lane {
    fn scratch(&self) -> usize {
        match self {
            Lane::Complex(p) => p.get_inplace_scratch_len().max(p.get_immutable_scratch_len()),
            Lane::Forward(p) => p.get_scratch_len(),
            Lane::Backward(p) => p.get_scratch_len(),
        }
    }
}

struct Plans {
    complex: FftPlanner<f32>,
    real: RealFftPlanner<f32>,
    made: HashMap<(FftKind, usize, bool), Lane>,
    elements: usize,
}

impl Plans {
    fn new() -> Plans {
        Plans { complex: FftPlanner::new(), real: RealFftPlanner::new(), made: HashMap::new(), elements: 0 }
    }
}

static PLANS: LazyLock<Mutex<Plans>> = LazyLock::new(|| Mutex::new(Plans::new()));

fn plan(t: &Fft) -> Lane {
    let mut plans = PLANS.lock().unwrap_or_else(|e| e.into_inner());
    let key = (t.kind, t.n, t.inverse);
    if let Some(lane) = plans.made.get(&key) {
        return lane.clone();
    }
    if plans.elements + t.n > PLANNED_MAX {
        *plans = Plans::new();
    }
    let lane = match t.kind {
        FftKind::Complex => {
            let direction = if t.inverse { FftDirection::Inverse } else { FftDirection::Forward };
            Lane::Complex(plans.complex.plan_fft(t.n, direction))
        }
        FftKind::Forward => Lane::Forward(plans.real.plan_fft_forward(t.n)),
        FftKind::Backward => Lane::Backward(plans.real.plan_fft_inverse(t.n)),
    };
    plans.elements += t.n;
    plans.made.insert(key, lane.clone());
    lane
}

struct Job<'a> {
    t: &'a Fft,
    lane: Lane,
    lines: Lines,
    /// Elements of a source line that are read.
    read: usize,
    src: SendPtr<u8>,
    dst: SendPtr<u8>,
    real_in: bool,
}

fn floats(z: &mut [Complex32]) -> &mut [f32] {
    // SAFETY: a complex number is two floats without padding.
    unsafe { std::slice::from_raw_parts_mut(z.as_mut_ptr().cast(), 2 * z.len()) }
}

/// Copies `len` elements of every line that starts at `starts` to `to`, `pitch` elements apart.
///
/// # Safety
/// The strided elements are readable, and `to` has room for all lines.
unsafe fn gather<A: Copy, B: From<A>>(
    from: *const A,
    starts: &[isize],
    stride: isize,
    len: usize,
    to: *mut B,
    pitch: usize,
) {
    // Neighbouring lines side by side: a cache line of the source serves them all.
    for i in 0..len {
        for (k, start) in starts.iter().enumerate() {
            // SAFETY: the caller vouches for both sides.
            unsafe { *to.add(k * pitch + i) = (*from.offset(start + i as isize * stride)).into() };
        }
    }
}

/// The way back, with a factor.
///
/// # Safety
/// As for [`gather`]; the destinations are disjoint.
unsafe fn scatter<T: Copy + std::ops::Mul<f32, Output = T>>(
    from: *const T,
    pitch: usize,
    scale: f32,
    to: *mut T,
    ends: &[isize],
    stride: isize,
    len: usize,
) {
    for i in 0..len {
        for (k, end) in ends.iter().enumerate() {
            // SAFETY: the caller vouches for both sides.
            unsafe { *to.offset(end + i as isize * stride) = *from.add(k * pitch + i) * scale };
        }
    }
}

impl Job<'_> {
    /// Elements from one buffered line to the next; a complex element has room for two reals.
    fn pitch(&self) -> usize {
        if self.t.kind == FftKind::Complex { self.t.n } else { self.t.n / 2 + 1 }
    }

    fn fill(&self, starts: &[isize], buffer: &mut [Complex32]) {
        let (pitch, stride, len) = (self.pitch(), self.lines.src, self.read);
        let to = buffer.as_mut_ptr();
        // SAFETY: offsets come from the source view, a line of which has at least `read` elements; the buffer
        // holds as many lines as there are starts.
        unsafe {
            match (self.t.kind, self.real_in) {
                (FftKind::Forward, _) => {
                    let to = to.cast::<f32>();
                    gather::<f32, f32>(self.src.get().cast(), starts, stride, len, to, 2 * pitch)
                }
                (_, true) => gather::<f32, Complex32>(self.src.get().cast(), starts, stride, len, to, pitch),
                _ => gather::<Complex32, Complex32>(self.src.get().cast(), starts, stride, len, to, pitch),
            }
        }
        for line in buffer.chunks_exact_mut(pitch).take(starts.len()) {
            match self.t.kind {
                FftKind::Forward => floats(line)[len..self.t.n].fill(0.0),
                _ => line[len..].fill(Complex32::ZERO),
            }
        }
    }

    fn drain(&self, ends: &[isize], buffer: &[Complex32]) {
        let (pitch, stride, n, scale) = (self.pitch(), self.lines.dst, self.t.len_out(), self.t.scale);
        // SAFETY: offsets come from the destination view, whose lines are disjoint.
        unsafe {
            if self.t.kind == FftKind::Backward {
                let from = buffer.as_ptr().cast::<f32>();
                scatter(from, 2 * pitch, scale, self.dst.get().cast::<f32>(), ends, stride, n);
            } else {
                let to = self.dst.get().cast::<Complex32>();
                scatter(buffer.as_ptr(), pitch, scale, to, ends, stride, n);
            }
        }
    }

    /// Transforms one line; the input may be used as scratch unless it is complex.
    fn transform(&self, line: &mut [Complex32], out: &mut [Complex32], scratch: &mut [Complex32]) {
        let n = self.t.n;
        match &self.lane {
            Lane::Complex(p) => p.process_immutable_with_scratch(line, out, scratch),
            Lane::Forward(p) => {
                // INVARIANT: buffers have the lengths of the plan.
                p.process_with_scratch(&mut floats(line)[..n], out, scratch).expect("lengths fit");
            }
            Lane::Backward(p) => {
                line[0].im = 0.0;
                if n.is_multiple_of(2) {
                    line[n / 2].im = 0.0;
                }
                // INVARIANT: as above, and the imaginary parts that the plan checks are zero.
                p.process_with_scratch(line, &mut floats(out)[..n], scratch).expect("lengths fit");
            }
        }
    }

    /// Complex lines that lie dense on both sides: no buffers.
    fn direct(&self, range: Range<usize>, plan: &dyn Plan<f32>, scratch: &mut [Complex32]) {
        for k in range {
            let (from, to) = locate(&self.lines.axes, k);
            // SAFETY: both lines are dense and n long; they are the same or do not overlap.
            unsafe {
                let src = self.src.get().cast::<Complex32>().offset(from);
                let out =
                    std::slice::from_raw_parts_mut(self.dst.get().cast::<Complex32>().offset(to), self.t.n);
                if std::ptr::eq(src, out.as_ptr()) {
                    plan.process_with_scratch(out, scratch);
                } else {
                    let input = std::slice::from_raw_parts(src, self.t.n);
                    plan.process_immutable_with_scratch(input, out, scratch);
                }
                if self.t.scale != 1.0 {
                    floats(out).iter_mut().for_each(|v| *v *= self.t.scale);
                }
            }
        }
    }

    fn run(&self, range: Range<usize>) {
        let pitch = self.pitch();
        let mut scratch = vec![Complex32::ZERO; self.lane.scratch()];
        let dense = self.lines.src == 1 && self.lines.dst == 1;
        if let Lane::Complex(p) = &self.lane
            && dense
            && !self.real_in
            && self.read == self.t.n
        {
            return self.direct(range, &**p, &mut scratch);
        }
        let together = if dense { 1 } else { (GATHERED / pitch).clamp(8, 64).min(range.len()) };
        let mut input = vec![Complex32::ZERO; together * pitch];
        let mut output = input.clone();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + together);
            let (starts, ends): (Vec<isize>, Vec<isize>) =
                (start..end).map(|k| locate(&self.lines.axes, k)).unzip();
            self.fill(&starts, &mut input);
            let lines = input.chunks_exact_mut(pitch).zip(output.chunks_exact_mut(pitch));
            lines.take(end - start).for_each(|(line, out)| self.transform(line, out, &mut scratch));
            self.drain(&ends, &output);
            start = end;
        }
    }
}

/// Transforms the lines of `src` along `t.axis` into `dst`: complex64, but float32 input of
/// [`FftKind::Forward`] (and of [`FftKind::Complex`], if given) and float32 output of [`FftKind::Backward`].
/// Any strides; `dst` may be `src` where both have one layout and all lines are complex.
///
/// # Errors
/// Value error for other dtypes or shapes.
pub fn fft(t: &Fft, src: &HostView, dst: &HostView) -> Result<()> {
    let real_in = src.dtype == Dtype::F32;
    let types = match t.kind {
        FftKind::Complex => real_in || src.dtype == Dtype::C64,
        FftKind::Forward => real_in,
        FftKind::Backward => src.dtype == Dtype::C64,
    };
    let to = if t.kind == FftKind::Backward { Dtype::F32 } else { Dtype::C64 };
    let shapes = src.ndim() == dst.ndim()
        && (0..src.ndim()).all(|i| {
            if i == t.axis { dst.shape[i] == t.len_out() as i64 } else { src.shape[i] == dst.shape[i] }
        });
    if !types || dst.dtype != to || !shapes || t.axis >= src.ndim() {
        let (from, into) = (show(&src.shape), show(&dst.shape));
        bail!(Value, "[fft] Cannot transform {} {from} into {} {into}.", src.dtype, dst.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let lines = Lines::new(src, t.axis, dst);
    let read = lines.len.min(t.len_in());
    let job = Job {
        t,
        lane: plan(t),
        lines,
        read,
        src: SendPtr::new(src.ptr),
        dst: SendPtr::new(dst.ptr),
        real_in,
    };
    let grain = GRAIN.div_ceil(t.n).max(if job.lines.src == 1 { 1 } else { 8 });
    pool::parallel_chunks(job.lines.count, grain, |r| job.run(r));
    Ok(())
}
