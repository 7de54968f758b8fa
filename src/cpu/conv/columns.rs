//! Gathers input patches: one row for each output position, holding every input element that the kernel
//! meets there, in the order of the kernel's elements, zeros outside the input. Called by `conv`.

use super::{Sum, three};
use crate::cpu::matmul::Element;
use crate::cpu::runtime::elem::To;
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::conv::Block;

/// Where patches lie in the input; three spatial axes, the unused ones in front.
pub(in crate::cpu) struct Patches {
    x: *const u8,
    /// Channels of a group.
    channels: usize,
    channel_step: isize,
    batches: isize,
    batch_step: isize,
    input: [i64; 3],
    steps: [i64; 3],
    kernel: [i64; 3],
    output: [i64; 3],
    stride: [i64; 3],
    low: [i64; 3],
    dilation: [i64; 3],
    /// Elements of a line of kernel elements along the last axis lie without gaps in the input.
    line: bool,
}

// SAFETY: a description; tasks only read through it, while the views it came from are alive.
unsafe impl Sync for Patches {}

impl Patches {
    pub(in crate::cpu) fn new(b: &Block<*mut u8>) -> Patches {
        let last = b.x.ndim() - 1;
        let axes = |f: fn(&crate::kernels::conv::DenseAxis) -> i64| b.axes.iter().map(f).collect::<Vec<_>>();
        let dilation = three(&axes(|a| a.dilation), 1);
        let channels = b.w.shape[last] as usize;
        let step = b.x.strides[last - 1];
        Patches {
            x: b.x.ptr,
            channels,
            channel_step: if channels > 1 { b.x.strides[last] as isize } else { 1 },
            batches: b.x.shape[0] as isize,
            batch_step: b.x.strides[0] as isize,
            input: three(&b.x.shape[1..last], 1),
            steps: three(&b.x.strides[1..last], 0),
            kernel: three(&b.w.shape[1..last], 1),
            output: three(&b.y.shape[1..last], 1),
            stride: three(&axes(|a| a.stride), 1),
            low: three(&axes(|a| a.low), 0),
            dilation,
            line: dilation[2] == 1 && step == channels as i64,
        }
    }

    /// Elements of a row.
    pub(in crate::cpu) fn width(&self) -> usize {
        self.kernel.iter().product::<i64>() as usize * self.channels
    }

    /// Batch and position of an output row.
    pub(in crate::cpu) fn locate(&self, row: usize) -> (isize, [i64; 3]) {
        let mut rest = row as i64;
        let mut at = [0; 3];
        for ax in (0..3).rev() {
            at[ax] = rest % self.output[ax];
            rest /= self.output[ax];
        }
        (rest as isize, at)
    }

    /// Input position that output `o` meets at kernel element `k` of an axis, if it lies inside.
    #[inline(always)]
    fn meet(&self, ax: usize, o: i64, k: i64) -> Option<i64> {
        let i = o * self.stride[ax] - self.low[ax] + k * self.dilation[ax];
        (0..self.input[ax]).contains(&i).then_some(i)
    }

    /// Calls `f(kernel element, offset of its first channel in the input)` for the elements that lie inside,
    /// for outputs of group `group`.
    #[inline(always)]
    pub(in crate::cpu) fn each(
        &self,
        batch: isize,
        at: [i64; 3],
        group: usize,
        mut f: impl FnMut(usize, isize),
    ) {
        let base = batch * self.batch_step + (group * self.channels) as isize * self.channel_step;
        let [d, h, w] = self.kernel;
        for kz in 0..d {
            let Some(z) = self.meet(0, at[0], kz) else { continue };
            for ky in 0..h {
                let Some(y) = self.meet(1, at[1], ky) else { continue };
                for kx in 0..w {
                    let Some(x) = self.meet(2, at[2], kx) else { continue };
                    let offset = z * self.steps[0] + y * self.steps[1] + x * self.steps[2];
                    f(((kz * h + ky) * w + kx) as usize, base + offset as isize);
                }
            }
        }
    }
}

impl Patches {
    /// Calls `f(batch, first output of a line, offset of the input there, outputs, input step)` for all lines
    /// of outputs that meet the input at kernel element `k`.
    #[inline(always)]
    pub(in crate::cpu) fn rows_of(&self, k: usize, mut f: impl FnMut(isize, [i64; 3], isize, usize, isize)) {
        let [_, h, w] = self.kernel;
        let (k, kx) = (k as i64 / w, k as i64 % w);
        let (kz, ky) = (k / h, k % h);
        // Outputs o with 0 <= o * stride - low + kx * dilation < input.
        let shift = self.low[2] - kx * self.dilation[2];
        let (s, n) = (self.stride[2], self.output[2]);
        let first = if shift > 0 { (shift + s - 1) / s } else { 0 };
        let end = if self.input[2] + shift > 0 { (self.input[2] + shift + s - 1) / s } else { 0 };
        let end = end.min(n);
        if first >= end {
            return;
        }
        let x = first * s - shift;
        for batch in 0..self.batches {
            for oz in 0..self.output[0] {
                let Some(z) = self.meet(0, oz, kz) else { continue };
                for oy in 0..self.output[1] {
                    let Some(y) = self.meet(1, oy, ky) else { continue };
                    let at = z * self.steps[0] + y * self.steps[1] + x * self.steps[2];
                    let step = s * self.steps[2];
                    let count = (end - first) as usize;
                    f(batch, [oz, oy, first], batch * self.batch_step + at as isize, count, step as isize);
                }
            }
        }
    }
}

/// The patches of one group of channels.
pub(in crate::cpu) struct Columns<'a> {
    pub patches: &'a Patches,
    pub group: usize,
}

impl Columns<'_> {
    /// Writes the given rows, one after another.
    ///
    /// # Safety
    /// The input is alive and `to` takes that many rows.
    pub(in crate::cpu) unsafe fn gather<T: Element>(&self, rows: std::ops::Range<usize>, to: *mut T::Sum)
    where
        T::Sum: Sum,
    {
        // SAFETY: passed on.
        unsafe { gather::<Of<T>>(self.patches, self.group, rows, to.cast()) }
    }
}

/// Names a type and what it is summed in, in one bound.
trait Pair {
    type T: Copy + To<Self::S>;
    type S: Sum;
}

struct Of<T>(std::marker::PhantomData<T>);

impl<T: Element> Pair for Of<T>
where
    T::Sum: Sum,
{
    type T = T;
    type S = T::Sum;
}

/// `count` neighbours, converted.
#[inline(always)]
unsafe fn convert<P: Pair>(from: *const P::T, to: *mut P::S, count: usize) {
    for i in 0..count {
        // SAFETY: the caller guarantees both for `count`.
        unsafe { *to.add(i) = (*from.add(i)).to() };
    }
}

#[inline(always)]
unsafe fn zeros<P: Pair>(to: *mut P::S, count: usize) {
    for i in 0..count {
        // SAFETY: the caller guarantees `count`.
        unsafe { *to.add(i) = P::S::ZERO };
    }
}

multiversion! {
    unsafe fn gather<P: Pair>(p: &Patches, group: usize, rows: std::ops::Range<usize>, to: *mut u8) {
        let (x, mut to) = (p.x.cast::<P::T>(), to.cast::<P::S>());
        let c = p.channels;
        let [depth, height, width] = p.kernel;
        let line = width as usize * c;
        for row in rows {
            let (batch, at) = p.locate(row);
            let base = batch * p.batch_step + (group * c) as isize * p.channel_step;
            let left = at[2] * p.stride[2] - p.low[2];
            for kz in 0..depth {
                for ky in 0..height {
                    let inside = p.meet(0, at[0], kz).zip(p.meet(1, at[1], ky));
                    let Some((z, y)) = inside else {
                        // SAFETY: the caller's rows.
                        unsafe {
                            zeros::<P>(to, line);
                            to = to.add(line);
                        }
                        continue;
                    };
                    let start = base + (z * p.steps[0] + y * p.steps[1]) as isize;
                    // SAFETY: positions are inside the input, and `to` advances by one line of the row.
                    unsafe {
                        if p.line {
                            let from = (-left).clamp(0, width);
                            let end = (p.input[2] - left).clamp(from, width);
                            let (a, n) = (from as usize * c, (end - from) as usize * c);
                            zeros::<P>(to, a);
                            let first = start + (left + from) as isize * p.steps[2] as isize;
                            convert::<P>(x.wrapping_offset(first), to.add(a), n);
                            zeros::<P>(to.add(a + n), line - a - n);
                            to = to.add(line);
                            continue;
                        }
                        for kx in 0..width {
                            match p.meet(2, at[2], kx) {
                                Some(i) => convert::<P>(x.wrapping_offset(start + (i * p.steps[2]) as isize), to, c),
                                None => zeros::<P>(to, c),
                            }
                            to = to.add(c);
                        }
                    }
                }
            }
        }
    }
}
