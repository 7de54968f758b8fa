//! Gather: elements and rows of an array by index. Rows that lie together are copied whole; copies move bytes
//! and know nothing of the dtype but its size.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::indexed::{Axis, GRAIN, Steps, positions, steps};

use crate::core::lines::ask_for_later;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::{self, multiversion};
use crate::kernels::HostView;
use crate::kernels::index::indexed::{Dim, Pick, Role, Walk};

/// Indices that are turned into positions at a time.
const BLOCK: usize = 256;
/// Lines of up to so many elements are worked on together.
const SHORT: usize = 64;
/// How many bytes of indices are asked for before they are needed.
const AHEAD: usize = 4096;
/// Largest line of the source, in bytes, that is asked for while the line before it is read: both fit the caches of a
/// core.
const NEXT_LINE: usize = 1 << 16;
/// A source of so many bytes is in no cache of a single core: elements are asked for while the block before is picked.
const FAR: usize = 1 << 20;
/// A result of so many bytes will not be found in a cache by whoever reads it.
const LARGE: usize = 8 << 20;
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
        let line = |at, first, n| unsafe { self.line::<T>(at, first, n) };
        lines(&self.outer, self.len, size_of::<T>(), line, || {});
    }
}

/// Calls `f` with the offsets of every line, its first element and how many of them, over threads; each calls `end`
/// behind some lines.
fn lines(
    outer: &[Axis<3>],
    len: usize,
    size: usize,
    f: impl Fn([isize; 3], usize, usize) + Sync,
    end: impl Fn() + Sync,
) {
    let count: usize = outer.iter().map(|a| a.size).product();
    let grain = GRAIN / size;
    if len <= SEGMENT {
        pool::parallel_chunks(count, grain.div_ceil(len), |range| {
            positions(outer, range, |at| f(at, 0, len));
            end();
        });
        return;
    }
    let parts = len.div_ceil(SEGMENT);
    pool::parallel_chunks(count * parts, grain.div_ceil(SEGMENT), |range| {
        for part in range {
            let (line, first) = (part / parts, part % parts * SEGMENT);
            positions(outer, line..line + 1, |at| f(at, first, SEGMENT.min(len - first)));
        }
        end();
    });
}

/// Elements picked one by one with one index array, which is read on the way. A block of indices becomes positions
/// first, so that the loop over elements has no bounds to look at.
struct Picked<'a> {
    /// All axes but the last: steps in the source, in the result and in the index array.
    outer: SmallVec<[Axis<3>; 4]>,
    /// The last one.
    len: usize,
    last: [isize; 3],
    pick: &'a Pick,
    read: Reader,
    /// Bytes of an index.
    index_size: isize,
    src: SendPtr<u8>,
    dst: SendPtr<u8>,
    index: SendPtr<u8>,
    /// Bytes of the source that a line reads, where it is worth asking for those of the next line, and how far that is.
    next: Option<(usize, isize)>,
    /// Results go past the caches.
    stream: bool,
    /// Elements of the source are far away.
    far: bool,
}

impl Picked<'_> {
    fn run<T: Copy>(&self) {
        if self.len <= SHORT
            && let Some(rows) = self.outer.last()
            && self.last[2] == 1
            && rows.steps[2] == self.len as isize
        {
            return self.short_lines::<T>(rows);
        }
        // SAFETY: lines and their parts are disjoint.
        let line = |at, first, n| unsafe { self.line::<T>(at, first, n) };
        lines(&self.outer, self.len, size_of::<T>(), line, || {
            if self.stream {
                simd::stream_end();
            }
        });
    }

    /// Lines whose indices lie one behind the other: many of them are read together.
    fn short_lines<T: Copy>(&self, rows: &Axis<3>) {
        let [src_step, dst_step, _] = self.last;
        let (len, stride) = (self.len, self.pick.stride as isize);
        let count: usize = self.outer.iter().map(|a| a.size).product();
        pool::parallel_chunks(count, (GRAIN / size_of::<T>()).div_ceil(len), |range| {
            let mut found = MaybeUninit::<[u32; BLOCK]>::uninit();
            let mut line = range.start;
            while line < range.end {
                let n = (range.end - line).min(rows.size - line % rows.size).min(BLOCK / len);
                positions(&self.outer, line..line + 1, |at| {
                    // SAFETY: the lines lie on one axis, and there are as many positions as they have elements; the
                    // walk stays inside all three arrays, and lines are disjoint.
                    unsafe {
                        let index = self.index.get().offset(at[2] * self.index_size);
                        (self.read)(index, 1, n * len, self.pick, found.as_mut_ptr().cast());
                        let found = std::slice::from_raw_parts(found.as_ptr().cast::<u32>(), n * len);
                        for (row, line) in found.chunks_exact(len).enumerate() {
                            let row = row as isize;
                            let src = self.src.get().cast::<T>().offset(at[0] + row * rows.steps[0]);
                            let dst = self.dst.get().cast::<T>().offset(at[1] + row * rows.steps[1]);
                            for (i, &p) in line.iter().enumerate() {
                                let i = i as isize;
                                *dst.offset(i * dst_step) = *src.offset(i * src_step + p as isize * stride);
                            }
                        }
                    }
                });
                line += n;
            }
        });
    }

    /// Elements `first..first + n` of the line at the given offsets.
    unsafe fn line<T: Copy>(&self, at: [isize; 3], first: usize, n: usize) {
        let [src_step, dst_step, index_step] = self.last;
        let mut found = [MaybeUninit::<[u32; BLOCK]>::uninit(); 2];
        let mut results = [MaybeUninit::<T>::uninit(); BLOCK];
        let dense = src_step == 0 && self.pick.stride == 1 && dst_step == 1;
        // SAFETY: the walk stays inside all three arrays, and a position that is held inside its axis leads to an
        // element of the source. What is asked for ahead of time is never read here.
        unsafe {
            let line = self.src.get().cast::<T>().offset(at[0]);
            let read = |from: usize, to: &mut MaybeUninit<[u32; BLOCK]>| {
                let (m, start) = (BLOCK.min(n - from), (first + from) as isize);
                let index = self.index.get().offset((at[2] + start * index_step) * self.index_size);
                if index_step == 1 {
                    ask_for_later(index.wrapping_add(AHEAD), m * self.index_size as usize);
                }
                (self.read)(index, index_step, m, self.pick, to.as_mut_ptr().cast());
            };
            for from in (0..n).step_by(BLOCK) {
                let m = BLOCK.min(n - from);
                let start = (first + from) as isize;
                if let Some((bytes, step)) = self.next {
                    let (begin, end) = (bytes * from / n, bytes * (from + m) / n);
                    let next = line.wrapping_offset(step).cast::<u8>().wrapping_add(begin);
                    ask_for_later(next, end - begin);
                }
                let [even, odd] = &mut found;
                let (now, later) = if (from / BLOCK).is_multiple_of(2) { (even, odd) } else { (odd, even) };
                let ahead = if dense && self.far { BLOCK.min(n - from - m) } else { 0 };
                if from == 0 || !(dense && self.far) {
                    read(from, now);
                }
                if ahead > 0 {
                    read(from + m, later);
                }
                let positions = std::slice::from_raw_parts(now.as_ptr().cast::<u32>(), m);
                let later = std::slice::from_raw_parts(later.as_ptr().cast::<u32>(), ahead);
                let src = line.offset(start * src_step);
                let dst = self.dst.get().cast::<T>().offset(at[1] + start * dst_step);
                if dense {
                    let to = if self.stream { results.as_mut_ptr().cast::<T>() } else { dst };
                    pick_each(src, positions, later, to);
                    if self.stream {
                        simd::stream(to, m, dst);
                    }
                } else {
                    let stride = self.pick.stride as isize;
                    for (i, &p) in positions.iter().enumerate() {
                        let i = i as isize;
                        *dst.offset(i * dst_step) = *src.offset(i * src_step + p as isize * stride);
                    }
                }
            }
        }
    }
}

/// Several elements a turn: each is a load of its position, one of the element, and a store. Those at `later` positions,
/// of which there are as many or fewer, are asked for on the way.
#[inline(always)]
unsafe fn pick_each<T: Copy>(src: *const T, positions: &[u32], later: &[u32], dst: *mut T) {
    // SAFETY: positions lead to elements of the source, and the result has room for as many.
    unsafe {
        for (i, (&p, &l)) in positions.iter().zip(later).enumerate() {
            ask_for_later(src.wrapping_add(l as usize).cast(), 1);
            *dst.add(i) = *src.add(p as usize);
        }
        let done = positions.len().min(later.len());
        let dst = dst.add(done);
        let (whole, rest) = positions[done..].as_chunks::<8>();
        for (k, eight) in whole.iter().enumerate() {
            let dst = dst.add(8 * k);
            for (i, &p) in eight.iter().enumerate() {
                *dst.add(i) = *src.add(p as usize);
            }
        }
        let dst = dst.add(8 * whole.len());
        for (i, &p) in rest.iter().enumerate() {
            *dst.add(i) = *src.add(p as usize);
        }
    }
}

/// Writes the positions that `n` indices name: negative ones count from the end, others out of range are held inside
/// the axis, whose length an `i32` holds.
type Reader = unsafe fn(index: *const u8, step: isize, n: usize, pick: &Pick, out: *mut u32);

fn reader(dtype: Dtype) -> Option<Reader> {
    macro_rules! read {
        ($t:ty as $wide:ty) => {{
            multiversion! {
                unsafe fn read<>(index: *const u8, step: isize, n: usize, pick: &Pick, out: *mut u32) {
                    let index = index.cast::<$t>();
                    let (len, last) = (pick.len as $wide, (pick.limit - 1) as $wide);
                    let place = |raw: $t| {
                        let raw = raw as $wide;
                        (if raw < 0 { raw + len } else { raw }).min(last).max(0) as u32
                    };
                    // SAFETY: the caller has `n` indices and room for as many positions.
                    unsafe {
                        if step == 1 {
                            for i in 0..n {
                                *out.add(i) = place(*index.add(i));
                            }
                        } else {
                            for i in 0..n {
                                *out.add(i) = place(*index.offset(i as isize * step));
                            }
                        }
                    }
                }
            }
            Some(read as Reader)
        }};
    }
    match dtype {
        Dtype::U8 => read!(u8 as i32),
        Dtype::U16 => read!(u16 as i32),
        Dtype::U32 => read!(u32 as i64),
        Dtype::I8 => read!(i8 as i32),
        Dtype::I16 => read!(i16 as i32),
        Dtype::I32 => read!(i32 as i32),
        Dtype::I64 => read!(i64 as i64),
        _ => None,
    }
}

impl<'a> Picked<'a> {
    /// `None` where the walk is not of this kind.
    fn new(walk: &'a Walk, src: &HostView, indices: &[HostView], dst: &HostView) -> Option<Picked<'a>> {
        let ([pick], [index]) = (&walk.picks[..], indices) else { return None };
        let (last, outer) = walk.dims.split_last()?;
        if last.index[0] == 0 || pick.len > i64::from(i32::MAX) {
            return None;
        }
        let read = reader(index.dtype)?;
        let steps = |d: &Dim| [d.base as isize, d.dense as isize, d.index[0] as isize];
        let (len, size) = (last.size as usize, dst.dtype.size());
        let next = outer.last().map_or(0, |d| d.base as isize);
        let bytes = pick.len as usize * size;
        // Only where lines are walked whole and read most of what is asked for.
        let ask = last.base == 0
            && pick.stride == 1
            && next != 0
            && len <= SEGMENT
            && (512..=NEXT_LINE).contains(&bytes)
            && len >= bytes / 64;
        let dense = last.dense == 1
            && outer.iter().all(|d| (d.dense as usize * size).is_multiple_of(16))
            && (dst.ptr as usize).is_multiple_of(16);
        Some(Picked {
            outer: outer.iter().map(|d| Axis { size: d.size as usize, steps: steps(d) }).collect(),
            len,
            last: steps(last),
            pick,
            read,
            index_size: index.dtype.size() as isize,
            src: SendPtr::new(src.ptr),
            dst: SendPtr::new(dst.ptr),
            index: SendPtr::new(index.ptr),
            next: ask.then_some((bytes, next)),
            stream: dense && dst.size() * size >= LARGE,
            far: bytes >= FAR,
        })
    }
}

/// Writes the dense array `dst` of a walk over the base `src`. Indices are of any integer dtype; negative
/// ones count from the end, others out of range are held inside the axis.
pub fn gather(walk: &Walk, src: &HostView, indices: &[HostView], dst: &HostView) -> Result<()> {
    if walk.size() == 0 {
        return Ok(());
    }
    if let Some(picked) = Picked::new(walk, src, indices, dst) {
        match src.dtype.size() {
            1 => picked.run::<u8>(),
            2 => picked.run::<u16>(),
            4 => picked.run::<u32>(),
            _ => picked.run::<u64>(),
        }
        return Ok(());
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
    use crate::core::Layout;
    use crate::core::layout::row_major;
    use crate::cpu::runtime::testing::{Owned, Rng, layouts};

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
    fn long_lines_of_every_index_type_wrap_and_are_held() {
        // The large result goes past the caches; lines of 5000 end in a part of a block.
        for (rows, dtypes) in [
            (3, &[Dtype::U8, Dtype::U16, Dtype::U32, Dtype::I8, Dtype::I16, Dtype::I64][..]),
            (450, &[Dtype::I32]),
        ] {
            for &index_dtype in dtypes {
                let (n, m) = (600i64, 5000i64);
                let mut rng = Rng(4);
                let signed = matches!(index_dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
                let a = Owned::filled(Dtype::F32, (rows * n) as usize, Layout::contiguous(&[rows, n]), |i| {
                    (i as f64).into()
                });
                let bound = if index_dtype.size() == 1 { 120 } else { 2000 };
                let ix =
                    Owned::filled(index_dtype, (rows * m) as usize, Layout::contiguous(&[rows, m]), |_| {
                        let i = (rng.next() % bound) as f64;
                        (if signed { i - bound as f64 / 2.0 } else { i }).into()
                    });
                let dst = Owned::zeros(Dtype::F32, &[rows, m]);
                let (v, i, d) = (a.view(), ix.view(), dst.view());
                let walk = Walk::along((&v.shape, &v.strides), &d.strides, (&i.shape, &i.strides), 1);
                gather(&walk, &v, &[i], &d).unwrap();
                for (k, (got, at)) in dst.reals().into_iter().zip(ix.reals()).enumerate() {
                    let at = if at < 0.0 { at as i64 + n } else { at as i64 }.clamp(0, n - 1);
                    assert_eq!(got, (k as i64 / m * n + at) as f64, "{index_dtype} {k}");
                }
            }
        }
    }

    #[test]
    fn short_lines_of_many_shapes() {
        for (outer, n, m) in [([7i64, 300], 5i64, 3i64), ([1, 2000], 16, 1), ([3, 5], 9, 64), ([40, 1], 2, 7)]
        {
            for axis in [1, 2] {
                let shape =
                    |k: i64| if axis == 2 { [outer[0], outer[1], k] } else { [outer[0], k, outer[1]] };
                let (from, to) = (shape(n), shape(m));
                let mut rng = Rng(11);
                for (name, layout, count) in layouts(&from) {
                    let a = Owned::filled(Dtype::I32, count, layout, |i| (i as f64).into());
                    let ix = Owned::filled(
                        Dtype::I32,
                        to.iter().product::<i64>() as usize,
                        Layout::contiguous(&to),
                        |_| ((rng.next() % (2 * n) as u64) as f64 - n as f64).into(),
                    );
                    let dst = Owned::zeros(Dtype::I32, &to);
                    let (v, i, d) = (a.view(), ix.view(), dst.view());
                    let walk = Walk::along((&v.shape, &v.strides), &d.strides, (&i.shape, &i.strides), axis);
                    gather(&walk, &v, &[i], &d).unwrap();
                    let (src, at) = (a.reals(), ix.reals());
                    for (k, got) in dst.reals().into_iter().enumerate() {
                        let k = k as i64;
                        let mut place = [k / (to[1] * to[2]), k / to[2] % to[1], k % to[2]];
                        place[axis] = (at[k as usize] as i64).rem_euclid(n);
                        let want = src[((place[0] * from[1] + place[1]) * from[2] + place[2]) as usize];
                        assert_eq!(got, want, "{name} {from:?} {to:?} {k}");
                    }
                }
            }
        }
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
