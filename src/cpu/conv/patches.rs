//! Where a convolution's kernel meets the input: sizes, axes and the input elements of each output position.

use super::three;
use crate::kernels::conv::Block;

/// Where patches lie in the input; three spatial axes, the unused ones in front.
pub(in crate::cpu) struct Patches {
    pub(super) x: *const u8,
    /// Channels of a group.
    pub(super) channels: usize,
    pub(super) channel_step: isize,
    pub(super) batches: isize,
    pub(super) batch_step: isize,
    pub(super) input: [i64; 3],
    pub(super) steps: [i64; 3],
    pub(super) kernel: [i64; 3],
    pub(super) output: [i64; 3],
    pub(super) stride: [i64; 3],
    pub(super) low: [i64; 3],
    pub(super) dilation: [i64; 3],
    /// Elements of a line of kernel elements along the last axis lie without gaps in the input.
    pub(super) line: bool,
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
    pub(super) fn meet(&self, ax: usize, o: i64, k: i64) -> Option<i64> {
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
