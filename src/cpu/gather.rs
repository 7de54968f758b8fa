//! Take: slices of an array along one axis, by index. Whole rows are copied where the slices are
//! contiguous, single elements otherwise; copies move bytes and know nothing of the dtype but its size.

use smallvec::SmallVec;

use super::pool::{self, SendPtr};
use super::walk::{Axes, Axis, locate};
use crate::bail;
use crate::core::layout::{collapse, show};
use crate::core::{Dtype, Result};
use crate::kernels::HostView;

// Bytes that are worth another thread.
const GRAIN: usize = 1 << 15;

fn axes_of(shape: &[i64], strides: &[i64]) -> Axes {
    let (shape, strides) = collapse(shape, &[strides]);
    (0..shape.len()).map(|i| Axis { n: shape[i] as usize, src: strides[0][i] as isize, dst: 0 }).collect()
}

// Reads all indices, wraps negative ones and checks the range.
fn positions(indices: &HostView, n: i64, axis: usize) -> Result<Vec<u32>> {
    let axes = axes_of(&indices.shape, &indices.strides);
    let count = indices.size();
    let mut out: Vec<u32> = Vec::with_capacity(count);
    let mut bad = None;
    macro_rules! read {
        ($t:ty) => {{
            let p = indices.as_ptr::<$t>();
            for i in 0..count {
                // SAFETY: the offset comes from the view.
                let raw = unsafe { *p.offset(locate(&axes, i).0) };
                let index = i64::try_from(raw).unwrap_or(i64::MAX);
                let wrapped = if index < 0 { index.saturating_add(n) } else { index };
                if !(0..n).contains(&wrapped) {
                    bad.get_or_insert(index);
                }
                out.push(wrapped as u32);
            }
        }};
    }
    match indices.dtype {
        Dtype::Bool | Dtype::U8 => read!(u8),
        Dtype::U16 => read!(u16),
        Dtype::U32 => read!(u32),
        Dtype::U64 => read!(u64),
        Dtype::I8 => read!(i8),
        Dtype::I16 => read!(i16),
        Dtype::I32 => read!(i32),
        Dtype::I64 => read!(i64),
        d => bail!(Value, "[take] Expected indices of an integer type, got {d}."),
    }
    match bad {
        Some(i) => bail!(Index, "[take] Index {i} is out of bounds for axis {axis} with size {n}."),
        None => Ok(out),
    }
}

// One slice for each (outer, index); the shape of the work.
struct Job<'a> {
    outer: Axes,
    inner: Axes,
    // Elements of a slice, and whether they are neighbours in the source.
    len: usize,
    dense: bool,
    // Stride of the indexed axis.
    step: isize,
    at: &'a [u32],
    src: SendPtr<u8>,
    dst: SendPtr<u8>,
}

impl Job<'_> {
    // Slices `from..to` of the flat (outer, index) number, with elements as T.
    unsafe fn copy<T: Copy>(&self, from: usize, to: usize) {
        let (src, dst) = (self.src.get().cast::<T>(), self.dst.get().cast::<T>());
        let count = self.at.len();
        let mut k = from;
        while k < to {
            let (outer, first) = (k / count, k % count);
            let last = count.min(first + to - k);
            let base = src.wrapping_offset(locate(&self.outer, outer).0);
            for (i, &index) in self.at[first..last].iter().enumerate() {
                let from = base.wrapping_offset(index as isize * self.step);
                // SAFETY: indices were checked; slice k + i of the output belongs to this call alone.
                unsafe {
                    let to = dst.add((k + i) * self.len);
                    if self.len == 1 {
                        *to = *from;
                    } else if self.dense {
                        std::ptr::copy_nonoverlapping(from, to, self.len);
                    } else {
                        for j in 0..self.len {
                            *to.add(j) = *from.offset(locate(&self.inner, j).0);
                        }
                    }
                }
            }
            k += last - first;
        }
    }
}

/// Slices of `src` at `indices` along `axis`, as `numpy.take`: `dst` is contiguous, of the dtype of `src` and
/// the shape of `src` with the axis replaced by the shape of `indices`. Indices are of any integer type;
/// negative ones count from the end.
///
/// # Errors
/// Index error for an index out of range; value error for wrong dtypes and shapes.
pub fn take(src: &HostView, indices: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    if axis >= src.ndim() {
        bail!(Value, "[take] Axis {axis} is out of range for {} dimensions.", src.ndim());
    }
    let (before, after) = (&src.shape[..axis], &src.shape[axis + 1..]);
    let shape: SmallVec<[i64; 8]> = before.iter().chain(&indices.shape).chain(after).copied().collect();
    if dst.shape[..] != shape[..] || dst.dtype != src.dtype || !dst.is_row_contiguous() {
        let (e, g) = (show(&shape), show(&dst.shape));
        bail!(Value, "[take] Expected a contiguous output {} {e}, got {} {g}.", src.dtype, dst.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let at = positions(indices, src.shape[axis], axis)?;
    let inner = axes_of(after, &src.strides[axis + 1..]);
    let job = Job {
        outer: axes_of(before, &src.strides[..axis]),
        len: after.iter().product::<i64>() as usize,
        dense: inner.is_empty() || inner.len() == 1 && inner[0].src == 1,
        inner,
        step: src.strides[axis] as isize,
        at: &at,
        src: SendPtr::new(src.ptr),
        dst: SendPtr::new(dst.ptr),
    };
    let size = src.dtype.size();
    let slices = dst.size() / job.len;
    pool::parallel_chunks(slices, GRAIN.div_ceil(job.len * size), |r| {
        // SAFETY: ranges are disjoint, so are the slices they write.
        unsafe {
            match size {
                1 => job.copy::<u8>(r.start, r.end),
                2 => job.copy::<u16>(r.start, r.end),
                4 => job.copy::<u32>(r.start, r.end),
                _ => job.copy::<u64>(r.start, r.end),
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{Owned, Rng, layouts};

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
                take(&a.view(), &ix.view(), axis, &dst.view()).unwrap();
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
    }

    #[test]
    fn indices_out_of_range_and_empty_ones() {
        let a = Owned::zeros(Dtype::F32, &[3, 2]);
        for bad in [3.0, -4.0] {
            let ix = Owned::from_f64(Dtype::I32, &[1], &[bad]);
            let e = take(&a.view(), &ix.view(), 0, &Owned::zeros(Dtype::F32, &[1, 2]).view()).unwrap_err();
            assert!(e.to_string().contains("out of bounds for axis 0 with size 3"), "{e}");
        }
        let none = Owned::zeros(Dtype::I32, &[0]);
        take(&a.view(), &none.view(), 0, &Owned::zeros(Dtype::F32, &[0, 2]).view()).unwrap();
        assert!(take(&a.view(), &none.view(), 0, &a.view()).is_err());
    }
}
