//! Binary search of values in sorted rows, in the order that sorting has.

use super::order::{Element, by_dtype};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::kernels::HostView;

const GRAIN: usize = 1024;

fn run<E: Element>(sorted: &HostView, values: &HostView, right: bool, dst: &HostView) {
    let (n, m) = (sorted.shape[1] as usize, values.shape[1] as usize);
    let (seq, from) = (SendPtr::new(sorted.as_ptr::<E>()), SendPtr::new(values.as_ptr::<E>()));
    let to = SendPtr::new(dst.as_ptr::<u32>());
    let one = sorted.shape[0] == 1;
    pool::parallel_chunks(values.size(), GRAIN, |range| {
        for i in range {
            let row = if one { 0 } else { i / m * n };
            // SAFETY: row < rows and both positions lie inside the arrays.
            let key = |at: usize| unsafe { *seq.get().add(row + at) }.key();
            // SAFETY: i is below the number of values.
            let value = unsafe { *from.get().add(i) }.key();
            let (mut lo, mut hi) = (0, n);
            while lo < hi {
                let mid = lo + (hi - lo) / 2;
                let before = if right { key(mid) <= value } else { key(mid) < value };
                if before { lo = mid + 1 } else { hi = mid }
            }
            // SAFETY: one result a value.
            unsafe { *to.get().add(i) = lo as u32 };
        }
    });
}

/// For each of `values` (rows, m), how many elements of its row of `sorted` (rows, n) or (1, n) come before it;
/// under `right` those equal to it count too. All without gaps; `dst` is uint32 (rows, m).
pub fn searchsorted(sorted: &HostView, values: &HostView, right: bool, dst: &HostView) -> Result<()> {
    let rows = |v: &HostView| if v.ndim() == 2 && v.is_row_contiguous() { v.shape[0] } else { -1 };
    let fits = rows(sorted) == 1 || (rows(sorted) >= 0 && rows(sorted) == rows(values));
    if !fits || rows(values) < 0 || dst.shape != values.shape || !dst.is_row_contiguous() {
        bail!(Value, "[searchsorted] Expected matrices without gaps and with equal rows.");
    }
    if sorted.dtype != values.dtype || dst.dtype != Dtype::U32 || sorted.shape[1] > i64::from(u32::MAX) {
        bail!(Value, "[searchsorted] Got {} to search for {}.", sorted.dtype, values.dtype);
    }
    if values.size() > 0 {
        by_dtype!(sorted.dtype, run(sorted, values, right, dst));
    }
    Ok(())
}
