//! Fourier transforms along one axis: lines in parallel, each by a `rustfft` or `realfft` plan. Plans are kept
//! up to a bound. Lines that are strided, cut, padded or real are gathered into a buffer first, neighbouring
//! ones together, so that memory is read by whole cache lines.

pub mod frames;
pub mod hadamard;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft as Plan, FftDirection, FftPlanner};

use super::runtime::pool::{self, SendPtr};
use super::runtime::walk::{Lines, locate};
use crate::bail;
use crate::core::fork::Shared;
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

/// How lines of the lengths seen so far are transformed.
pub(crate) struct Plans {
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

pub(crate) static PLANS: Shared<Plans> = Shared::new(Plans::new);

fn plan(t: &Fft) -> Lane {
    let mut plans = PLANS.lock();
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

fn complex(x: &mut [f32]) -> &mut [Complex32] {
    // SAFETY: as above, and floats are aligned like complex numbers.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len() / 2) }
}

/// Where the lines of a group begin, in elements.
enum Starts {
    /// Each one element after the one before.
    Adjacent(isize, usize),
    Anywhere(Vec<isize>),
}

impl Starts {
    fn of(list: Vec<isize>) -> Starts {
        match list[..] {
            [first, .., last] if list.windows(2).all(|w| w[1] == w[0] + 1) => {
                Starts::Adjacent(first, (last - first) as usize + 1)
            }
            _ => Starts::Anywhere(list),
        }
    }
}

/// Adjacent lines that are copied side by side: a cache line of complex numbers.
const SIDE: usize = 8;

/// Copies `len` elements of lines to `to`, `pitch` elements apart.
///
/// # Safety
/// The strided elements are readable, and `to` has room for all lines.
unsafe fn gather<A: Copy, B: From<A>>(
    from: *const A,
    starts: &Starts,
    stride: isize,
    len: usize,
    to: *mut B,
    pitch: usize,
) {
    let line = |start: isize, k: usize| {
        for i in 0..len {
            // SAFETY: the caller vouches for both sides.
            unsafe { *to.add(k * pitch + i) = (*from.offset(start + i as isize * stride)).into() };
        }
    };
    match starts {
        Starts::Anywhere(list) => list.iter().enumerate().for_each(|(k, &start)| line(start, k)),
        &Starts::Adjacent(first, count) => {
            let whole = count / SIDE * SIDE;
            for k in (0..whole).step_by(SIDE) {
                for i in 0..len {
                    for side in k..k + SIDE {
                        // SAFETY: as above.
                        unsafe {
                            let x = *from.offset(first + side as isize + i as isize * stride);
                            *to.add(side * pitch + i) = x.into();
                        }
                    }
                }
            }
            (whole..count).for_each(|k| line(first + k as isize, k));
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
    ends: &Starts,
    stride: isize,
    len: usize,
) {
    let line = |end: isize, k: usize| {
        for i in 0..len {
            // SAFETY: the caller vouches for both sides.
            unsafe { *to.offset(end + i as isize * stride) = *from.add(k * pitch + i) * scale };
        }
    };
    match ends {
        Starts::Anywhere(list) => list.iter().enumerate().for_each(|(k, &end)| line(end, k)),
        &Starts::Adjacent(first, count) => {
            let whole = count / SIDE * SIDE;
            for k in (0..whole).step_by(SIDE) {
                for i in 0..len {
                    for side in k..k + SIDE {
                        // SAFETY: as above.
                        unsafe {
                            let x = *from.add(side * pitch + i) * scale;
                            *to.offset(first + side as isize + i as isize * stride) = x;
                        }
                    }
                }
            }
            (whole..count).for_each(|k| line(first + k as isize, k));
        }
    }
}

impl Job<'_> {
    /// Room for one buffered line; a complex element has room for two reals.
    fn room(&self) -> usize {
        if self.t.kind == FftKind::Complex { self.t.n } else { self.t.n / 2 + 1 }
    }

    fn fill(&self, starts: &Starts, count: usize, buffer: &mut [Complex32], pitch: usize) {
        let (stride, len, n) = (self.lines.src, self.read, self.t.len_in());
        let to = buffer.as_mut_ptr();
        // SAFETY: offsets come from the source view, a line of which has at least `read` elements; the buffer
        // holds `count` lines.
        unsafe {
            match (self.t.kind, self.real_in) {
                (FftKind::Forward, _) => {
                    let to = to.cast::<f32>();
                    gather::<f32, f32>(self.src.get().cast(), starts, stride, len, to, 2 * pitch)
                }
                (FftKind::Complex | FftKind::Backward, true) => {
                    gather::<f32, Complex32>(self.src.get().cast(), starts, stride, len, to, pitch)
                }
                (FftKind::Complex | FftKind::Backward, false) => {
                    gather::<Complex32, Complex32>(self.src.get().cast(), starts, stride, len, to, pitch)
                }
            }
        }
        for line in buffer.chunks_exact_mut(pitch).take(count) {
            match self.t.kind {
                FftKind::Forward => floats(line)[len..n].fill(0.0),
                FftKind::Complex | FftKind::Backward => line[len..n].fill(Complex32::ZERO),
            }
        }
    }

    fn drain(&self, ends: &Starts, buffer: &[Complex32], pitch: usize) {
        let (stride, n, scale) = (self.lines.dst, self.t.len_out(), self.t.scale);
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

    /// Transforms one line; the input may be used as scratch.
    fn transform(&self, line: &mut [Complex32], out: &mut [f32], scratch: &mut [Complex32]) {
        let n = self.t.n;
        match &self.lane {
            Lane::Complex(p) => p.process_immutable_with_scratch(line, complex(out), scratch),
            Lane::Forward(p) => {
                // INVARIANT: buffers have the lengths of the plan.
                p.process_with_scratch(&mut floats(line)[..n], complex(out), scratch).expect("lengths fit");
            }
            Lane::Backward(p) => {
                line[0].im = 0.0;
                if n.is_multiple_of(2) {
                    line[n / 2].im = 0.0;
                }
                // INVARIANT: as above, and the imaginary parts that the plan checks are zero.
                p.process_with_scratch(line, out, scratch).expect("lengths fit");
            }
        }
    }

    fn scaled(&self, values: &mut [f32]) {
        if self.t.scale != 1.0 {
            values.iter_mut().for_each(|v| *v *= self.t.scale);
        }
    }

    /// Floats of an output line.
    fn out_floats(&self) -> usize {
        self.t.len_out() * if self.t.kind == FftKind::Backward { 1 } else { 2 }
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
                self.scaled(floats(out));
            }
        }
    }

    fn run(&self, range: Range<usize>) {
        let mut scratch = vec![Complex32::ZERO; self.lane.scratch()];
        let dense = self.lines.src == 1 && self.lines.dst == 1;
        match &self.lane {
            Lane::Complex(p) if dense && !self.real_in && self.read == self.t.n => {
                self.direct(range, &**p, &mut scratch);
            }
            _ if dense => self.one_by_one(range, &mut scratch),
            _ => self.side_by_side(range, &mut scratch),
        }
    }

    /// Dense lines, which only the input is buffered of.
    fn one_by_one(&self, range: Range<usize>, scratch: &mut [Complex32]) {
        let mut input = vec![Complex32::ZERO; self.room()];
        let (room, out, size) = (self.room(), self.out_floats(), if self.real_in { 4 } else { 8 });
        let size_out = if self.t.kind == FftKind::Backward { 4 } else { 8 };
        for k in range {
            let (from, to) = locate(&self.lines.axes, k);
            // SAFETY: offsets come from the views; both lines are dense, and output lines are disjoint.
            unsafe {
                let src = self.src.get().offset(from * size);
                if self.t.kind == FftKind::Complex && self.real_in {
                    let src = src.cast::<f32>();
                    (0..self.read).for_each(|i| input[i] = (*src.add(i)).into());
                } else {
                    let bytes = self.read * size as usize;
                    std::ptr::copy_nonoverlapping(src, input.as_mut_ptr().cast::<u8>(), bytes);
                }
                if self.t.kind == FftKind::Forward {
                    floats(&mut input)[self.read..self.t.n].fill(0.0);
                } else {
                    input[self.read..room].fill(Complex32::ZERO);
                }
                let dst = self.dst.get().offset(to * size_out).cast::<f32>();
                let line = std::slice::from_raw_parts_mut(dst, out);
                self.transform(&mut input, line, scratch);
                self.scaled(line);
            }
        }
    }

    /// Groups of neighbouring lines through buffers; a pitch off the powers of two keeps them apart in the cache.
    fn side_by_side(&self, range: Range<usize>, scratch: &mut [Complex32]) {
        let (room, out) = (self.room(), self.out_floats());
        let pitch = room + SIDE;
        let together = (GATHERED / pitch / SIDE * SIDE).clamp(SIDE, 64).min(range.len());
        let mut input = vec![Complex32::ZERO; together * pitch];
        let mut output = input.clone();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + together);
            let (starts, ends): (Vec<isize>, Vec<isize>) =
                (start..end).map(|k| locate(&self.lines.axes, k)).unzip();
            self.fill(&Starts::of(starts), end - start, &mut input, pitch);
            for k in 0..end - start {
                let line = &mut input[k * pitch..k * pitch + room];
                let result = &mut floats(&mut output[k * pitch..(k + 1) * pitch])[..out];
                self.transform(line, result, scratch);
            }
            self.drain(&Starts::of(ends), &output, pitch);
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
