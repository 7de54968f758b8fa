//! Gathers input patches: one row for each output position, holding every input element that the kernel
//! meets there, in the order of the kernel's elements, zeros outside the input. Called by `conv`.

use super::Sum;
use super::patches::Patches;
use crate::cpu::matmul::Element;
use crate::cpu::runtime::elem::To;
use crate::cpu::runtime::simd::multiversion;

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
