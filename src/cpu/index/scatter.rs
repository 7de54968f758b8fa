//! Scatter: updates written to or combined with elements and rows of an array by index. The work is split
//! where no two threads can meet in an element, and each element sees its updates in row-major order; so
//! results do not depend on the number of threads.

use std::ops::Range;

use num_complex::Complex32;
use smallvec::SmallVec;

use super::indexed::{Axis, DROPPED, GRAIN, Steps, positions, steps};
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Bool, Brain, Half};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::kernels::HostView;
use crate::kernels::index::indexed::{Combine, Role, Walk};

/// Arithmetic of an element type.
trait Element: Copy + Send + Sync {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn max(self, o: Self) -> Self { Ord::max(self, o) }
            #[inline(always)]
            fn min(self, o: Self) -> Self { Ord::min(self, o) }
        }
    )*};
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn max(self, o: Self) -> Self { if self.is_nan() || self > o { self } else { o } }
            #[inline(always)]
            fn min(self, o: Self) -> Self { if self.is_nan() || self < o { self } else { o } }
        }
    )*};
}
floats!(f32, f64);

macro_rules! through_f32 {
    ($($t:ident, $load:path, $store:path;)*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self { $t($store($load(self.0) + $load(o.0))) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { $t($store($load(self.0) * $load(o.0))) }
            #[inline(always)]
            fn max(self, o: Self) -> Self { $t($store(Element::max($load(self.0), $load(o.0)))) }
            #[inline(always)]
            fn min(self, o: Self) -> Self { $t($store(Element::min($load(self.0), $load(o.0)))) }
        }
    )*};
}
through_f32! {
    Half, f16_to_f32, f32_to_f16;
    Brain, bf16_to_f32, f32_to_bf16;
}

impl Element for Bool {
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Bool(u8::from(self.0 | o.0 != 0))
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Bool(u8::from(self.0 != 0 && o.0 != 0))
    }
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        self.add(o)
    }
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        self.mul(o)
    }
}

/// Complex numbers are ordered by their real, then by their imaginary part.
fn less(a: Complex32, b: Complex32) -> bool {
    a.re < b.re || (a.re == b.re && a.im < b.im)
}

impl Element for Complex32 {
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        self + o
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        self * o
    }
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        if self.is_nan() || less(o, self) { self } else { o }
    }
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        if self.is_nan() || less(self, o) { self } else { o }
    }
}

/// A part of the work that no other part meets.
#[derive(Clone)]
struct Part {
    /// Steps in the destination, in the updates and in the list of index steps.
    axes: SmallVec<[Axis<3>; 4]>,
    start: [isize; 3],
    /// The index steps that belong to this part.
    own: Range<isize>,
}

struct Job<'a> {
    steps: &'a [isize],
    dst: SendPtr<u8>,
    updates: SendPtr<u8>,
}

impl Job<'_> {
    fn run<T: Copy>(&self, part: &Part, combine: impl Fn(T, T) -> T) {
        let mut outer = part.axes.clone();
        let last = outer.pop().unwrap_or(Axis { size: 1, steps: [0; 3] });
        let lines = outer.iter().map(|a| a.size).product();
        positions(&outer, 0..lines, |at| {
            let [to, from, list] = [0, 1, 2].map(|i| at[i] + part.start[i]);
            let [to_step, from_step, list_step] = last.steps;
            // SAFETY: the walk stays inside the operands and the list; steps lead to elements of the
            // destination, and other parts write other elements.
            unsafe {
                let dst = self.dst.get().cast::<T>().offset(to);
                let src = self.updates.get().cast::<T>().offset(from);
                let list = self.steps.as_ptr().offset(list);
                if list_step != 0 {
                    for i in 0..last.size as isize {
                        let step = *list.offset(i * list_step);
                        if part.own.contains(&step) {
                            let p = dst.offset(i * to_step + step);
                            *p = combine(*p, *src.offset(i * from_step));
                        }
                    }
                    return;
                }
                if !part.own.contains(&*list) {
                    return;
                }
                let dst = dst.offset(*list);
                if to_step == 1 && from_step == 1 {
                    for i in 0..last.size {
                        *dst.add(i) = combine(*dst.add(i), *src.add(i));
                    }
                } else if to_step == 1 && from_step == 0 {
                    let value = *src;
                    for i in 0..last.size {
                        *dst.add(i) = combine(*dst.add(i), value);
                    }
                } else {
                    for i in 0..last.size as isize {
                        let p = dst.offset(i * to_step);
                        *p = combine(*p, *src.offset(i * from_step));
                    }
                }
            }
        });
    }

    fn combined<T: Element>(&self, part: &Part, how: Combine) {
        match how {
            Combine::Set => self.run::<T>(part, |_, b| b),
            Combine::Add => self.run::<T>(part, T::add),
            Combine::Prod => self.run::<T>(part, T::mul),
            Combine::Max => self.run::<T>(part, T::max),
            Combine::Min => self.run::<T>(part, T::min),
        }
    }

    fn typed(&self, part: &Part, how: Combine, dtype: Dtype) {
        if how == Combine::Set {
            return match dtype.size() {
                1 => self.run::<u8>(part, |_, b| b),
                2 => self.run::<u16>(part, |_, b| b),
                4 => self.run::<u32>(part, |_, b| b),
                _ => self.run::<u64>(part, |_, b| b),
            };
        }
        match dtype {
            Dtype::Bool => self.combined::<Bool>(part, how),
            Dtype::U8 => self.combined::<u8>(part, how),
            Dtype::U16 => self.combined::<u16>(part, how),
            Dtype::U32 => self.combined::<u32>(part, how),
            Dtype::U64 => self.combined::<u64>(part, how),
            Dtype::I8 => self.combined::<i8>(part, how),
            Dtype::I16 => self.combined::<i16>(part, how),
            Dtype::I32 => self.combined::<i32>(part, how),
            Dtype::I64 => self.combined::<i64>(part, how),
            Dtype::F16 => self.combined::<Half>(part, how),
            Dtype::BF16 => self.combined::<Brain>(part, how),
            Dtype::F32 => self.combined::<f32>(part, how),
            Dtype::F64 => self.combined::<f64>(part, how),
            Dtype::C64 => self.combined::<Complex32>(part, how),
        }
    }
}

/// Everything but dropped updates.
const ALL: Range<isize> = DROPPED + 1..isize::MAX;

/// Cuts the work into parts that never meet: along an axis on which each position is another part of the
/// destination, or by where the indices lead.
fn split(walk: &Walk, whole: Part, list: &[isize], size: usize) -> Vec<Part> {
    let threads = pool::threads();
    if threads == 1 || walk.size() as usize * size < 2 * GRAIN {
        return vec![whole];
    }
    let long = |i: &usize| {
        let d = &walk.dims[*i];
        let piece = d.size as usize / threads;
        d.role != Role::Index && piece * if d.base.abs() == 1 { size } else { 128 } >= 128
    };
    if let Some(axis) = (0..walk.dims.len()).find(long) {
        let n = whole.axes[axis].size;
        let cut = |t: usize| {
            let (from, to) = (t * n / threads, (t + 1) * n / threads);
            let mut part = whole.clone();
            part.axes[axis].size = to - from;
            for (x, s) in part.start.iter_mut().zip(whole.axes[axis].steps) {
                *x += from as isize * s;
            }
            part
        };
        return (0..threads).map(cut).collect();
    }
    let live = || list.iter().copied().filter(|&s| s != DROPPED);
    let (Some(low), Some(high)) = (live().min(), live().max()) else { return Vec::new() };
    // Windows that overlap meet although their indices differ.
    if walk.dims.iter().any(|d| d.window.is_some()) || high == low {
        return vec![whole];
    }
    let at = |t: usize| low + ((high + 1 - low) as i128 * t as i128 / threads as i128) as isize;
    (0..threads).map(|t| Part { own: at(t)..at(t + 1), ..whole.clone() }).collect()
}

/// Combines the dense array `updates` of a walk into its base `dst`, both of one dtype. Indices are of any
/// integer dtype; negative ones count from the end, updates with others out of range are dropped, or go to
/// the ends of the axis for `hold`.
pub fn scatter(
    how: Combine,
    hold: bool,
    walk: &Walk,
    updates: &HostView,
    indices: &[HostView],
    dst: &HostView,
) -> Result<()> {
    if walk.size() == 0 {
        return Ok(());
    }
    let Steps { list, strides } = steps(walk, indices, !hold)?;
    let axes = walk
        .dims
        .iter()
        .zip(&strides)
        .map(|(d, &s)| Axis { size: d.size as usize, steps: [d.base as isize, d.dense as isize, s] })
        .collect();
    let whole = Part { axes, start: [0; 3], own: ALL };
    let parts = split(walk, whole, &list, dst.dtype.size());
    let job = Job { steps: &list, dst: SendPtr::new(dst.ptr), updates: SendPtr::new(updates.ptr) };
    pool::parallel_chunks(parts.len(), 1, |range| {
        range.for_each(|i| job.typed(&parts[i], how, dst.dtype));
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::runtime::testing::{Owned, Rng, positions};
    use num_complex::Complex64;

    fn apply(how: Combine, a: Complex64, b: Complex64, bool_: bool) -> Complex64 {
        let pick = |first: bool| if first { a } else { b };
        match how {
            Combine::Set => b,
            Combine::Add if bool_ => (a + b).re.min(1.0).into(),
            Combine::Add => a + b,
            Combine::Prod => a * b,
            Combine::Max => pick((a.re, a.im) > (b.re, b.im)),
            Combine::Min => pick((a.re, a.im) < (b.re, b.im)),
        }
    }

    /// Rows of a matrix by one index array, against a plain loop.
    fn rows(dtype: Dtype, how: Combine, n: i64, width: i64, count: i64, index: Dtype) {
        let mut rng = Rng(7);
        let mut value = |_| match dtype {
            Dtype::Bool => Complex64::from((rng.next() % 2) as f64),
            Dtype::C64 => Complex64::new((rng.next() % 3) as f64, (rng.next() % 3) as f64),
            _ => Complex64::from((rng.next() % 3) as f64),
        };
        let dst = Owned::filled(
            dtype,
            (n * width) as usize,
            crate::core::Layout::contiguous(&[n, width]),
            &mut value,
        );
        let updates = Owned::filled(
            dtype,
            (count * width) as usize,
            crate::core::Layout::contiguous(&[count, width]),
            &mut value,
        );
        let at: Vec<f64> = (0..count).map(|i| (i * 7 % (n + 1)) as f64).collect();
        let index = Owned::from_f64(index, &[count], &at);
        let (mut want, given) = (dst.values(), updates.values());
        for (i, &r) in at.iter().enumerate().filter(|x| *x.1 < n as f64) {
            for k in 0..width as usize {
                let to = &mut want[r as usize * width as usize + k];
                *to = apply(how, *to, given[i * width as usize + k], dtype == Dtype::Bool);
            }
        }
        let (d, u, ix) = (dst.view(), updates.view(), index.view());
        let walk = Walk::outer(
            (&d.shape, &d.strides),
            &u.strides,
            (&ix.shape, &ix.strides),
            &[&ix.strides],
            &[0],
            &[None],
            0,
        );
        scatter(how, false, &walk, &u, &[ix], &d).unwrap();
        assert_eq!(dst.values(), want, "{dtype} {how:?} {n}x{width} {count}");
        assert_eq!(positions(&d).count(), want.len());
    }

    #[test]
    fn every_dtype_and_combination_sees_repeated_rows_in_order() {
        for dtype in Dtype::ALL {
            for how in [Combine::Set, Combine::Add, Combine::Prod, Combine::Max, Combine::Min] {
                rows(dtype, how, 5, 3, 12, Dtype::I32);
            }
        }
        for index in [Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I16, Dtype::U32, Dtype::U64, Dtype::I64] {
            rows(Dtype::F32, Combine::Add, 9, 1, 20, index);
        }
    }

    #[test]
    fn large_work_is_split_without_races() {
        rows(Dtype::I32, Combine::Add, 700, 512, 1000, Dtype::I32);
        rows(Dtype::I32, Combine::Set, 700, 1, 100_000, Dtype::I32);
        rows(Dtype::I64, Combine::Add, 1, 1, 100_000, Dtype::I32);
        rows(Dtype::I16, Combine::Add, 40, 3, 30_000, Dtype::I32);
    }
}
