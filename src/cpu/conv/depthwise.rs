//! Convolutions in which every channel of the input is a group of its own: loops over neighbouring channels,
//! sixty-four at a time in registers and the nearest cache. Called by `conv`.

use super::patches::Patches;
use super::{Sum, kernel_rows, scratch, store};
use crate::core::Result;
use crate::cpu::matmul::Element;
use crate::cpu::runtime::elem::To;
use crate::cpu::runtime::pool::{SendPtr, parallel_chunks};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::conv::Block;

/// Output channels that a task sums at once.
const WIDE: usize = 64;
/// Multiplications that are worth a task.
const GRAIN: usize = 1 << 16;

/// What a task needs to know.
struct Job<'a> {
    patches: &'a Patches,
    x: *const u8,
    y: *mut u8,
    y_shape: &'a [i64],
    y_strides: &'a [i64],
    /// Kernel or its gradient, (elements, output channels).
    kernel: *mut u8,
    outputs: usize,
    /// Output channels of an input channel.
    each: usize,
}

// SAFETY: a description; tasks write disjoint parts of y or of the kernel.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Offset of an output row in y.
    fn row(&self, batch: isize, at: [i64; 3]) -> isize {
        let mut offset = batch as i64 * self.y_strides[0];
        let axes = self.y_shape.len() - 2;
        for i in 0..axes {
            offset += at[3 - axes + i] * self.y_strides[1 + i];
        }
        offset as isize
    }
}

/// Names an element type and its sums in one bound.
trait Pair {
    type T: Copy + To<Self::S>;
    type S: Sum + To<Self::T>;
}

struct Of<T>(std::marker::PhantomData<T>);

impl<T: Element> Pair for Of<T>
where
    T::Sum: Sum,
{
    type T = T;
    type S = T::Sum;
}

/// Input channels behind the output channels `from..from + n`, as sums, into `to`.
#[inline(always)]
unsafe fn inputs<P: Pair>(x: *const P::T, from: usize, n: usize, each: usize, to: &mut [P::S; WIDE]) {
    // SAFETY: the caller guarantees the channels.
    unsafe {
        if each == 1 {
            for (i, v) in to.iter_mut().enumerate().take(n) {
                *v = (*x.add(from + i)).to();
            }
        } else {
            for (i, v) in to.iter_mut().enumerate().take(n) {
                *v = (*x.add((from + i) / each)).to();
            }
        }
    }
}

multiversion! {
    /// Output rows `rows`, all channels.
    unsafe fn forward<P: Pair>(j: &Job, rows: std::ops::Range<usize>) {
        let (x, y, w) = (j.x.cast::<P::T>(), j.y.cast::<P::T>(), j.kernel.cast::<P::S>());
        for row in rows {
            let (batch, at) = j.patches.locate(row);
            let out = y.wrapping_offset(j.row(batch, at));
            for from in (0..j.outputs).step_by(WIDE) {
                let n = WIDE.min(j.outputs - from);
                let mut sums = [P::S::ZERO; WIDE];
                j.patches.each(batch, at, 0, |k, offset| {
                    // SAFETY: positions inside the views.
                    unsafe {
                        let (x, w) = (x.wrapping_offset(offset), w.add(k * j.outputs + from));
                        if n == WIDE && j.each == 1 {
                            for i in 0..WIDE {
                                let v: P::S = (*x.add(from + i)).to();
                                sums[i] = sums[i] + v * *w.add(i);
                            }
                        } else {
                            let mut v = [P::S::ZERO; WIDE];
                            inputs::<P>(x, from, n, j.each, &mut v);
                            for i in 0..n {
                                sums[i] = sums[i] + v[i] * *w.add(i);
                            }
                        }
                    }
                });
                for i in 0..n {
                    // SAFETY: this row belongs to this task; channels of y are neighbours.
                    unsafe { *out.add(from + i) = sums[i].to() };
                }
            }
        }
    }
}

multiversion! {
    /// Gradient of kernel element `k` for the output channels `from..from + n`, summed line by line.
    unsafe fn backward<P: Pair>(j: &Job, k: usize, from: usize, n: usize) {
        let (x, y, w) = (j.x.cast::<P::T>(), j.y.cast::<P::T>(), j.kernel.cast::<P::S>());
        let mut total = [P::S::ZERO; WIDE];
        j.patches.rows_of(k, |batch, at, offset, count, step| {
            let mut sums = [P::S::ZERO; WIDE];
            let y = y.wrapping_offset(j.row(batch, at) + from as isize);
            let y_step = j.y_strides[j.y_shape.len() - 2] as isize;
            for o in 0..count as isize {
                // SAFETY: positions inside the views.
                unsafe {
                    let (x, y) = (x.wrapping_offset(offset + o * step), y.wrapping_offset(o * y_step));
                    let mut v = [P::S::ZERO; WIDE];
                    inputs::<P>(x, from, n, j.each, &mut v);
                    for i in 0..n {
                        let d: P::S = (*y.add(i)).to();
                        sums[i] = sums[i] + v[i] * d;
                    }
                }
            }
            for i in 0..n {
                total[i] = total[i] + sums[i];
            }
        });
        for i in 0..n {
            // SAFETY: this element and these channels belong to this task.
            unsafe { *w.add(k * j.outputs + from + i) = total[i] };
        }
    }
}

fn job<'a>(b: &'a Block<*mut u8>, patches: &'a Patches, kernel: *mut u8) -> Job<'a> {
    let outputs = b.w.shape[0] as usize;
    Job {
        patches,
        x: b.x.ptr,
        y: b.y.ptr,
        y_shape: &b.y.shape,
        y_strides: &b.y.strides,
        kernel,
        outputs,
        each: outputs / b.groups as usize,
    }
}

/// Kernel elements outermost.
unsafe fn transposed<S: Sum>(from: *const S, rows: usize, cols: usize, to: *mut S) {
    for r in 0..rows {
        for c in 0..cols {
            // SAFETY: the caller's matrices.
            unsafe { *to.add(c * rows + r) = *from.add(r * cols + c) };
        }
    }
}

/// Output of a block whose channels are groups; channels of `x` and `y` are neighbours.
pub(in crate::cpu) fn output<T: Element>(b: &Block<*mut u8>) -> Result<()>
where
    T::Sum: Sum,
{
    let (elements, outputs) = (b.w.size() / b.w.shape[0] as usize, b.w.shape[0] as usize);
    let (rows, _hold) = kernel_rows::<T>(&b.w)?;
    let (_hold, kernel) = scratch::<T::Sum>(elements * outputs)?;
    for r in 0..outputs {
        // SAFETY: a row of the kernel, into scratch of its size.
        unsafe {
            let from = rows.from(r, 0).ptr;
            for k in 0..elements {
                *kernel.add(k * outputs + r) = *from.add(k);
            }
        }
    }
    let patches = Patches::new(b);
    let j = job(b, &patches, kernel.cast());
    // SAFETY: tasks write disjoint rows.
    parallel_chunks(b.y.size() / outputs, GRAIN / (elements * outputs) + 1, |r| unsafe {
        forward::<Of<T>>(&j, r)
    });
    Ok(())
}

/// Gradient of the kernel of such a block.
pub(in crate::cpu) fn weight<T: Element>(b: &Block<*mut u8>) -> Result<()>
where
    T::Sum: Sum,
{
    let (elements, outputs) = (b.w.size() / b.w.shape[0] as usize, b.w.shape[0] as usize);
    let (_hold, kernel) = scratch::<T::Sum>(elements * outputs)?;
    let patches = Patches::new(b);
    let j = job(b, &patches, kernel.cast());
    let parts = outputs.div_ceil(WIDE);
    parallel_chunks(elements * parts, 1, |r| {
        for t in r {
            let from = t % parts * WIDE;
            // SAFETY: a task has its own element and channels.
            unsafe { backward::<Of<T>>(&j, t / parts, from, WIDE.min(outputs - from)) };
        }
    });
    let (_hold, rows) = scratch::<T::Sum>(elements * outputs)?;
    let to = SendPtr::new(rows);
    // SAFETY: both hold elements x outputs sums.
    unsafe { transposed(kernel, elements, outputs, to.get()) };
    store::<T>(&b.w, rows);
    Ok(())
}
