//! What gathers and scatters share on the host: index arrays as steps in the base array, and walks over all
//! lines of their axes.

use smallvec::SmallVec;

use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::kernels::HostView;
use crate::kernels::index::indexed::{Pick, Role, Walk, numbering};

/// Bytes that are worth another thread.
pub(in crate::cpu) const GRAIN: usize = 1 << 15;

/// Marks an update that is dropped because one of its indices is out of range.
pub(in crate::cpu) const DROPPED: isize = isize::MIN;

/// An axis with the steps of `N` operands.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Axis<const N: usize> {
    pub size: usize,
    pub steps: [isize; N],
}

/// Calls `f` with the offsets of the operands at each position in `range`, in row-major order.
pub(in crate::cpu) fn positions<const N: usize>(
    axes: &[Axis<N>],
    range: std::ops::Range<usize>,
    mut f: impl FnMut([isize; N]),
) {
    if range.is_empty() {
        return;
    }
    let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, axes.len());
    let mut at = [0isize; N];
    let mut rest = range.start;
    for (i, a) in axes.iter().enumerate().rev() {
        index[i] = rest % a.size;
        rest /= a.size;
        for (x, s) in at.iter_mut().zip(a.steps) {
            *x += index[i] as isize * s;
        }
    }
    for _ in range {
        f(at);
        for (i, a) in axes.iter().enumerate().rev() {
            index[i] += 1;
            let back = if index[i] == a.size { a.size as isize } else { 0 };
            for (x, s) in at.iter_mut().zip(a.steps) {
                *x += s - back * s;
            }
            if back == 0 {
                break;
            }
            index[i] = 0;
        }
    }
}

/// The steps that index arrays add, summed over the arrays, for every position of the axes that are not rows.
pub(in crate::cpu) struct Steps {
    pub list: Vec<isize>,
    /// Step in `list` along each axis of the walk.
    pub strides: SmallVec<[isize; 4]>,
}

/// Reads all indices once. Negative ones count from the end; others out of range are held inside the axis,
/// or mark the position as [`DROPPED`].
pub(in crate::cpu) fn steps(walk: &Walk, indices: &[HostView], drop: bool) -> Result<Steps> {
    let dims = &walk.dims;
    let order: SmallVec<[usize; 4]> = (0..dims.len()).filter(|&i| dims[i].role != Role::Row).collect();
    let strides = numbering(dims, &order).iter().map(|&s| s as isize).collect();
    let count: usize = order.iter().map(|&i| dims[i].size as usize).product();
    let mut list = vec![0isize; count];
    for (k, (pick, view)) in walk.picks.iter().zip(indices).enumerate() {
        let axes: SmallVec<[Axis<1>; 4]> = order
            .iter()
            .map(|&i| Axis { size: dims[i].size as usize, steps: [dims[i].index[k] as isize] })
            .collect();
        let base = SendPtr::new(view.ptr);
        let out = SendPtr::new(list.as_mut_ptr());
        macro_rules! read {
            ($t:ty) => {
                pool::parallel_chunks(count, GRAIN / 8, |range| {
                    let (base, mut out) = (base.get().cast::<$t>(), out.get().wrapping_add(range.start));
                    positions(&axes, range, |[at]| {
                        // SAFETY: the position lies in the index array; ranges of the list are disjoint.
                        unsafe {
                            add_step(&mut *out, *base.offset(at), pick, drop);
                            out = out.add(1);
                        }
                    });
                })
            };
        }
        match view.dtype {
            Dtype::Bool | Dtype::U8 => read!(u8),
            Dtype::U16 => read!(u16),
            Dtype::U32 => read!(u32),
            Dtype::U64 => read!(u64),
            Dtype::I8 => read!(i8),
            Dtype::I16 => read!(i16),
            Dtype::I32 => read!(i32),
            Dtype::I64 => read!(i64),
            d => bail!(Value, "[gather] Expected indices of an integer type, got {d}."),
        }
    }
    Ok(Steps { list, strides })
}

/// The position that an index names: negative ones count from the end.
#[inline(always)]
fn position<T: TryInto<i64>>(raw: T, pick: &Pick) -> i64 {
    let index = raw.try_into().unwrap_or(i64::MAX);
    if index < 0 { index.saturating_add(pick.len) } else { index }
}

/// The step in the base array of an index, which is held inside the axis.
#[inline(always)]
fn clamped<T: TryInto<i64>>(raw: T, pick: &Pick) -> isize {
    (position(raw, pick).clamp(0, pick.limit - 1) * pick.stride) as isize
}

#[inline(always)]
fn add_step<T: TryInto<i64> + Copy>(step: &mut isize, raw: T, pick: &Pick, drop: bool) {
    if drop && (*step == DROPPED || !(0..pick.limit).contains(&position(raw, pick))) {
        *step = DROPPED;
    } else {
        *step += clamped(raw, pick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_start_anywhere() {
        let axes = [Axis { size: 2, steps: [10, -1] }, Axis { size: 3, steps: [1, 0] }];
        let mut all = Vec::new();
        positions(&axes, 0..6, |x| all.push(x));
        assert_eq!(all, [[0, 0], [1, 0], [2, 0], [10, -1], [11, -1], [12, -1]]);
        for start in 0..6 {
            let mut part = Vec::new();
            positions(&axes, start..6, |x| part.push(x));
            assert_eq!(part, all[start..]);
        }
        let mut one = 0;
        positions::<1>(&[], 0..1, |_| one += 1);
        assert_eq!(one, 1);
    }

    #[test]
    fn indices_wrap_once_then_are_held_or_dropped() {
        let pick = Pick { stride: 3, len: 5, limit: 4 };
        let clamp = |raw: i64| {
            let mut s = 100;
            add_step(&mut s, raw, &pick, false);
            s
        };
        assert_eq!(
            [0, 3, 4, 9, -1, -5, -9, i64::MIN, i64::MAX].map(clamp),
            [100, 109, 109, 109, 109, 100, 100, 100, 109]
        );
        let mut s = 0;
        add_step(&mut s, 4u8, &pick, true);
        assert_eq!(s, DROPPED);
        add_step(&mut s, 0u64, &pick, true);
        assert_eq!(s, DROPPED);
    }
}
