//! Axes of a reduction brought into a simple form: strides made positive, axes ordered from far to near in
//! memory and collapsed, kept ones apart from reduced ones.

use smallvec::SmallVec;

use crate::bail;
use crate::core::Result;
use crate::core::layout::show;
pub(super) use crate::cpu::runtime::walk::{Axes, Axis, locate};
use crate::kernels::HostView;

/// What to reduce, and in which way.
pub(super) struct Plan {
    pub src: *const u8,
    pub dst: *mut u8,
    /// First element of the destination in memory order.
    pub dst_first: *mut u8,
    pub kept_axes: Axes,
    pub reduced_axes: Axes,
    /// Number of results.
    pub kept: usize,
    /// Number of elements behind each result.
    pub reduced: usize,
    /// Walk rows of results together, because their elements lie closer than those of one result.
    pub side_by_side: bool,
}

fn arrange(mut axes: Axes) -> Axes {
    // Broadcast axes (stride 0) go outside; they have no place in memory order.
    axes.sort_by_key(|a| std::cmp::Reverse(if a.src == 0 { isize::MAX } else { a.src }));
    let mut out = Axes::new();
    for a in axes {
        match out.last_mut() {
            Some(l) if l.src == a.src * a.n as isize && l.dst == a.dst * a.n as isize && a.src != 0 => {
                *l = Axis { n: l.n * a.n, ..a };
            }
            _ => out.push(a),
        }
    }
    out
}

impl Plan {
    /// `ordered`: elements keep their order along reduced axes (which then may have negative strides).
    pub(super) fn new(
        op: &str,
        src: &HostView,
        axes: &[usize],
        dst: &HostView,
        ordered: bool,
    ) -> Result<Plan> {
        let expected: SmallVec<[i64; 6]> =
            (0..src.ndim()).filter(|a| !axes.contains(a)).map(|a| src.shape[a]).collect();
        if axes.iter().any(|&a| a >= src.ndim()) {
            bail!(Value, "[{op}] Axes {axes:?} are out of range for {} dimensions.", src.ndim());
        }
        if expected[..] != dst.shape[..] || !dst.is_row_contiguous() {
            let (e, g) = (show(&expected), show(&dst.shape));
            bail!(Value, "[{op}] Expected a contiguous output of shape {e}, got {g}.");
        }
        let (mut kept_axes, mut reduced_axes) = (Axes::new(), Axes::new());
        let (mut kept, mut reduced) = (1usize, 1usize);
        let (mut from, mut to) = (0isize, 0isize);
        for ax in (0..src.ndim()).rev() {
            let is_reduced = axes.contains(&ax);
            let n = src.shape[ax] as usize;
            let mut axis =
                Axis { n, src: src.strides[ax] as isize, dst: if is_reduced { 0 } else { kept as isize } };
            *if is_reduced { &mut reduced } else { &mut kept } *= n;
            if n <= 1 {
                continue;
            }
            if axis.src < 0 && !(is_reduced && ordered) {
                from += axis.src * (n as isize - 1);
                to += axis.dst * (n as isize - 1);
                axis.src = -axis.src;
                axis.dst = -axis.dst;
            }
            if is_reduced { reduced_axes.push(axis) } else { kept_axes.push(axis) }
        }
        let (kept_axes, mut reduced_axes) = (arrange(kept_axes), arrange(reduced_axes));
        if reduced_axes.is_empty() {
            reduced_axes.push(Axis { n: 1, src: 1, dst: 0 });
        }
        let near = |axes: &Axes| match axes.last() {
            Some(a) if a.src != 0 => a.src.abs(),
            _ => isize::MAX,
        };
        // Results of a few elements each are not worth a loop of their own either.
        let side_by_side = (near(&kept_axes) < near(&reduced_axes)
            || reduced < 16 && near(&kept_axes) < isize::MAX)
            && kept_axes.last().is_some_and(|a| a.n >= 8);
        Ok(Plan {
            src: src.ptr.wrapping_offset(from * src.dtype.size() as isize),
            dst: dst.ptr.wrapping_offset(to * dst.dtype.size() as isize),
            dst_first: dst.ptr,
            kept_axes,
            reduced_axes,
            kept,
            reduced,
            side_by_side,
        })
    }
}
