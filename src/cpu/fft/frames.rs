//! Sums of overlapping rows: the transpose of cutting a line into windows.

use std::ops::AddAssign;

use num_complex::Complex32;

use crate::bail;
use crate::core::layout::{collapse, show};
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::walk::{Axes, Axis, locate};
use crate::kernels::HostView;

fn run<T: Copy + Default + AddAssign + Send>(src: &HostView, hop: usize, dst: &HostView) {
    let lead = src.ndim() - 2;
    let (rows, n) = (src.shape[lead] as usize, src.shape[lead + 1] as usize);
    let (row, step) = (src.strides[lead] as isize, src.strides[lead + 1] as isize);
    let len = dst.shape[lead] as usize;
    let (shape, strides) = collapse(&src.shape[..lead], &[&src.strides[..lead], &dst.strides[..lead]]);
    let axes: Axes = (0..shape.len())
        .map(|i| Axis { n: shape[i] as usize, src: strides[0][i] as isize, dst: strides[1][i] as isize })
        .collect();
    let lines: i64 = shape.iter().product();
    let (from, to) = (SendPtr::new(src.as_ptr::<T>()), SendPtr::new(dst.as_ptr::<T>()));
    let work = (rows * n).max(len).max(1);
    pool::parallel_chunks(lines as usize, (1usize << 14).div_ceil(work), |range| {
        for k in range {
            let (a, b) = locate(&axes, k);
            // SAFETY: the last axis of the destination is dense; its lines are disjoint.
            let out = unsafe { std::slice::from_raw_parts_mut(to.get().offset(b), len) };
            out.fill(T::default());
            for f in 0..rows {
                for (i, sum) in out[f * hop..f * hop + n].iter_mut().enumerate() {
                    // SAFETY: offsets come from the source view.
                    *sum += unsafe { *from.get().offset(a + f as isize * row + i as isize * step) };
                }
            }
        }
    });
}

/// Sums the rows of `src` (`..., rows, n`) into `dst` (`..., (rows - 1) * hop + n`, last axis dense), row `i`
/// from element `i * hop` on; float32, float64 or complex64.
///
/// # Errors
/// Value error for other dtypes or shapes.
pub fn overlap_add(src: &HostView, hop: i64, dst: &HostView) -> Result<()> {
    let lead = src.ndim().saturating_sub(2);
    let fits = src.ndim() >= 2
        && dst.ndim() == lead + 1
        && src.dtype == dst.dtype
        && src.shape[..lead] == dst.shape[..lead]
        && hop > 0
        && src.shape[lead] > 0
        && dst.shape[lead] == (src.shape[lead] - 1) * hop + src.shape[lead + 1]
        && (dst.shape[lead] <= 1 || dst.strides[lead] == 1);
    if !fits {
        bail!(Value, "[overlap_add] Cannot sum {} into {}.", show(&src.shape), show(&dst.shape));
    }
    match src.dtype {
        _ if dst.size() == 0 => {}
        Dtype::F32 => run::<f32>(src, hop as usize, dst),
        Dtype::F64 => run::<f64>(src, hop as usize, dst),
        Dtype::C64 => run::<Complex32>(src, hop as usize, dst),
        d => bail!(Value, "[overlap_add] Expected float32, float64 or complex64, got {d}."),
    }
    Ok(())
}
