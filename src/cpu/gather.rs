//! Gather: elements and rows of an array by index. Rows that lie together are copied whole; copies move bytes
//! and know nothing of the dtype but its size.

use smallvec::SmallVec;

use super::indexed::{Axis, GRAIN, Steps, held, positions, steps};
use super::pool::{self, SendPtr};
use crate::core::{Dtype, Result};
use crate::kernels::HostView;
use crate::kernels::indexed::{Dim, Pick, Role, Walk};

/// Elements of a line that are copied without a look at the other axes.
const SEGMENT: usize = 1 << 14;

struct Job<'a> {
    /// All axes but the last: steps in the source, in the result and in the list of steps.
    outer: SmallVec<[Axis<3>; 4]>,
    /// The last one.
    len: usize,
    last: [isize; 3],
    steps: &'a [isize],
    src: SendPtr<u8>,
    dst: SendPtr<u8>,
}

impl Job<'_> {
    /// Elements `first..first + n` of the line at the given offsets.
    #[inline(always)]
    unsafe fn line<T: Copy>(&self, at: [isize; 3], first: usize, n: usize) {
        let [src_step, dst_step, list_step] = self.last;
        // SAFETY: the walk stays inside source, result and list; steps lead to elements of the source.
        unsafe {
            let src = self.src.get().cast::<T>().offset(at[0] + first as isize * src_step);
            let dst = self.dst.get().cast::<T>().offset(at[1] + first as isize * dst_step);
            let list = self.steps.as_ptr().offset(at[2] + first as isize * list_step);
            if list_step == 0 {
                let src = src.offset(*list);
                if src_step == 1 && dst_step == 1 {
                    std::ptr::copy_nonoverlapping(src, dst, n);
                } else {
                    for i in 0..n as isize {
                        *dst.offset(i * dst_step) = *src.offset(i * src_step);
                    }
                }
            } else {
                for i in 0..n as isize {
                    *dst.offset(i * dst_step) = *src.offset(i * src_step + *list.offset(i * list_step));
                }
            }
        }
    }

    fn run<T: Copy>(&self) {
        // SAFETY: lines and their parts are disjoint.
        lines(&self.outer, self.len, size_of::<T>(), |at, first, n| unsafe { self.line::<T>(at, first, n) });
    }
}

/// Calls `f` with the offsets of every line, its first element and how many of them, over threads.
fn lines(outer: &[Axis<3>], len: usize, size: usize, f: impl Fn([isize; 3], usize, usize) + Sync) {
    let count: usize = outer.iter().map(|a| a.size).product();
    let grain = GRAIN / size;
    if len <= SEGMENT {
        pool::parallel_chunks(count, grain.div_ceil(len), |range| {
            positions(outer, range, |at| f(at, 0, len))
        });
        return;
    }
    let parts = len.div_ceil(SEGMENT);
    pool::parallel_chunks(count * parts, grain.div_ceil(SEGMENT), |range| {
        for part in range {
            let (line, first) = (part / parts, part % parts * SEGMENT);
            positions(outer, line..line + 1, |at| f(at, first, SEGMENT.min(len - first)));
        }
    });
}

/// Elements picked one by one with one index array, which is read on the way: `axes` holds the steps in the
/// source, in the result and in the index array.
fn elements<T: Copy, I: Copy + TryInto<i64>>(
    pick: &Pick,
    axes: &[Axis<3>],
    src: &HostView,
    index: &HostView,
    dst: &HostView,
) {
    let Some((last, outer)) = axes.split_last() else { return };
    let [src_step, dst_step, index_step] = last.steps;
    let (src, dst) = (SendPtr::new(src.ptr), SendPtr::new(dst.ptr));
    let index = SendPtr::new(index.ptr);
    lines(outer, last.size, size_of::<T>(), |at, first, n| {
        let first = first as isize;
        // SAFETY: the walk stays inside all three arrays, and an index that is held inside its axis leads to an
        // element of the source; lines and their parts are disjoint.
        unsafe {
            let src = src.get().cast::<T>().offset(at[0] + first * src_step);
            let dst = dst.get().cast::<T>().offset(at[1] + first * dst_step);
            let index = index.get().cast::<I>().offset(at[2] + first * index_step);
            for i in 0..n as isize {
                let step = held(*index.offset(i * index_step), pick);
                *dst.offset(i * dst_step) = *src.offset(i * src_step + step);
            }
        }
    });
}

/// Writes the dense array `dst` of a walk over the base `src`. Indices are of any integer dtype; negative
/// ones count from the end, others out of range are held inside the axis.
pub fn gather(walk: &Walk, src: &HostView, indices: &[HostView], dst: &HostView) -> Result<()> {
    if walk.size() == 0 {
        return Ok(());
    }
    if let ([pick], [index], Some(last)) = (&walk.picks[..], indices, walk.dims.last())
        && last.index[0] != 0
    {
        let steps = |d: &Dim| [d.base as isize, d.dense as isize, d.index[0] as isize];
        let axes: SmallVec<[Axis<3>; 4]> =
            walk.dims.iter().map(|d| Axis { size: d.size as usize, steps: steps(d) }).collect();
        macro_rules! with {
            ($i:ty) => {{
                match src.dtype.size() {
                    1 => elements::<u8, $i>(pick, &axes, src, index, dst),
                    2 => elements::<u16, $i>(pick, &axes, src, index, dst),
                    4 => elements::<u32, $i>(pick, &axes, src, index, dst),
                    _ => elements::<u64, $i>(pick, &axes, src, index, dst),
                }
                return Ok(());
            }};
        }
        match index.dtype {
            Dtype::I32 => with!(i32),
            Dtype::U32 => with!(u32),
            Dtype::I64 => with!(i64),
            _ => {} // rare: over a list of steps, as below
        }
    }
    let Steps { list, strides } = steps(walk, indices, false)?;
    let mut axes: SmallVec<[Axis<3>; 4]> = walk
        .dims
        .iter()
        .zip(&strides)
        .map(|(d, &s)| Axis { size: d.size as usize, steps: [d.base as isize, d.dense as isize, s] })
        .collect();
    debug_assert!(walk.dims.iter().zip(&strides).all(|(d, &s)| (d.role == Role::Row) == (s == 0)));
    let last = axes.pop().unwrap_or(Axis { size: 1, steps: [0, 0, 0] });
    let job = Job {
        outer: axes,
        len: last.size,
        last: last.steps,
        steps: &list,
        src: SendPtr::new(src.ptr),
        dst: SendPtr::new(dst.ptr),
    };
    match src.dtype.size() {
        1 => job.run::<u8>(),
        2 => job.run::<u16>(),
        4 => job.run::<u32>(),
        _ => job.run::<u64>(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::layout::row_major;
    use crate::cpu::testing::{Owned, Rng, layouts};

    fn take(a: &Owned, ix: &Owned, axis: usize, dst: &Owned) {
        let (a, ix, dst) = (a.view(), ix.view(), dst.view());
        let walk = Walk::outer(
            (&a.shape, &a.strides),
            &dst.strides,
            (&ix.shape, &ix.strides),
            &[&ix.strides],
            &[axis],
            &[None],
            axis,
        );
        gather(&walk, &a, &[ix], &dst).unwrap();
    }

    fn check(shape: &[i64], axis: usize, index_shape: &[i64], dtype: Dtype, index_dtype: Dtype) {
        let mut rng = Rng(9);
        let n = shape[axis];
        let signed = matches!(index_dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
        for (name, layout, count) in layouts(shape) {
            let a = Owned::filled(dtype, count, layout, |i| ((i % 120) as f64).into());
            for (index_name, layout, count) in layouts(index_shape) {
                let ix = Owned::filled(index_dtype, count, layout, |_| {
                    let i = (rng.next() % n as u64) as i64;
                    (if signed && rng.next().is_multiple_of(2) { i - n } else { i } as f64).into()
                });
                let out: Vec<i64> = [&shape[..axis], index_shape, &shape[axis + 1..]].concat();
                let dst = Owned::zeros(dtype, &out);
                take(&a, &ix, axis, &dst);
                let (src, at, got) = (a.bits(), ix.reals(), dst.bits());
                let inner: usize = shape[axis + 1..].iter().product::<i64>() as usize;
                let block = at.len() * inner;
                for (k, &bits) in got.iter().enumerate() {
                    let (o, i, j) = (k / block, k / inner % at.len(), k % inner);
                    let index = (at[i] as i64).rem_euclid(n) as usize;
                    let want = src[(o * n as usize + index) * inner + j];
                    assert_eq!(bits, want, "{dtype} {name} {shape:?} {axis} {index_name} {index_dtype}");
                }
            }
        }
    }

    #[test]
    fn every_size_of_element_type_of_index_and_layout() {
        for dtype in [Dtype::Bool, Dtype::F16, Dtype::F32, Dtype::C64] {
            check(&[33], 0, &[7], dtype, Dtype::U8);
            check(&[6, 33], 0, &[2, 3], dtype, Dtype::I64);
            check(&[6, 33], 1, &[5], dtype, Dtype::I8);
            check(&[3, 4, 5], 1, &[], dtype, Dtype::I32);
        }
        for d in [Dtype::U16, Dtype::U32, Dtype::U64, Dtype::I16] {
            check(&[2, 5, 1, 9], 1, &[40, 3], Dtype::F32, d);
        }
        check(&[300, 200], 0, &[500], Dtype::F32, Dtype::I32);
        check(&[300], 0, &[40_000], Dtype::F32, Dtype::I32);
    }

    #[test]
    fn indices_out_of_range_are_held_at_the_ends() {
        let a = Owned::from_f64(Dtype::F32, &[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let ix = Owned::from_f64(Dtype::I32, &[4], &[3.0, -4.0, 1e9, -1e9]);
        let dst = Owned::zeros(Dtype::F32, &[4, 2]);
        take(&a, &ix, 0, &dst);
        assert_eq!(dst.reals(), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0, 0.0, 1.0]);
    }

    #[test]
    fn two_arrays_with_a_window() {
        let a = Owned::from_f64(Dtype::I32, &[3, 4, 2], &(0..24).map(f64::from).collect::<Vec<_>>());
        let i = Owned::from_f64(Dtype::I32, &[2], &[2.0, 0.0]);
        let j = Owned::from_f64(Dtype::U8, &[2], &[1.0, 3.0]);
        let dst = Owned::zeros(Dtype::I32, &[2, 3, 2]);
        let v = a.view();
        let walk = Walk::outer(
            (&v.shape, &v.strides),
            &row_major(&[2, 3, 2]),
            (&[2], &[1]),
            &[&[1], &[1]],
            &[0, 1],
            &[None, Some(3)],
            0,
        );
        gather(&walk, &v, &[i.view(), j.view()], &dst.view()).unwrap();
        let want: Vec<f64> = (18..24).chain(2..8).map(f64::from).collect();
        assert_eq!(dst.reals(), want);
    }
}
