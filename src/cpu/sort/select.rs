//! Partition and argpartition along any axis, by selection in linear time. Both give the same arrangement,
//! which follows from the values alone.

use super::order::{Element, Key, by_dtype};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::walk::{Lines, locate};
use crate::kernels::HostView;

const GRAIN: usize = 4096;

fn run<E: Element>(lines: &Lines, src: &HostView, kth: usize, dst: &HostView, indices: bool) {
    let (from, places, values) =
        (SendPtr::new(src.as_ptr::<E>()), SendPtr::new(dst.as_ptr::<u32>()), SendPtr::new(dst.as_ptr::<E>()));
    pool::parallel_chunks(lines.count, GRAIN.div_ceil(lines.len), |range| {
        let mut pairs = vec![<E::Key as Key>::Pair::default(); lines.len];
        for k in range {
            let (a, b) = locate(&lines.axes, k);
            // SAFETY: the offsets come from the source view.
            let read = |i: usize| unsafe { *from.get().wrapping_offset(a + i as isize * lines.src) };
            for (i, p) in pairs.iter_mut().enumerate() {
                *p = read(i).key().pair(i as u32);
            }
            pairs.select_nth_unstable(kth);
            for (i, &p) in pairs.iter().enumerate() {
                let (at, index) = (b + i as isize * lines.dst, E::Key::index(p));
                // SAFETY: the offsets come from the destination view; lines are disjoint.
                unsafe {
                    match indices {
                        true => *places.get().wrapping_offset(at) = index,
                        false => *values.get().wrapping_offset(at) = read(index as usize),
                    }
                }
            }
        }
    });
}

/// Puts the element of rank `kth` along `axis` in its place, those before it in the order to its left. `dst` has
/// the shape of `src` and is distinct; its dtype is that of `src`, or uint32 for the positions in `src`.
///
/// # Errors
/// Value error for a rank or an output that does not fit.
pub fn partition(src: &HostView, axis: usize, kth: usize, dst: &HostView, indices: bool) -> Result<()> {
    let expected = if indices { Dtype::U32 } else { src.dtype };
    if dst.shape != src.shape || dst.dtype != expected || axis >= src.ndim() {
        bail!(
            Value,
            "[partition] Expected an output of {expected} with the input's shape, got {}.",
            dst.dtype
        );
    }
    if src.size() == 0 {
        return Ok(());
    }
    if kth as i64 >= src.shape[axis] || src.shape[axis] > i64::from(u32::MAX) {
        bail!(Value, "[partition] Rank {kth} does not fit an axis of {} elements.", src.shape[axis]);
    }
    let lines = Lines::new(src, axis, dst);
    by_dtype!(src.dtype, run(&lines, src, kth, dst, indices));
    Ok(())
}
