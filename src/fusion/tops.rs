//! Pattern: the first or the last elements of sorted or partitioned rows, few of long ones: `topk`, and what models write
//! for it. Neither the other elements nor their order are computed.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work};
use crate::core::{Array, Result, Stream};
use crate::on_gpu;
use crate::ops::sort::order_along;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::begins_along;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::sort::tops::tops;

struct Tops {
    /// The step that orders.
    order: usize,
    axis: usize,
    greatest: bool,
    /// Places are asked for.
    arg: bool,
}

/// The join that begins with the order of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let node = free.node(i).filter(|n| n.stream == stream)?;
    let (axis, arg) = order_along(&*node.primitive)?;
    let cut = free.reader(i, stream)?;
    let part = free.array(cut);
    let from = begins_along(&*free.node(cut)?.primitive, axis, free.array(i), part)?;
    let (n, count) = (free.array(i).shape()[axis], part.shape()[axis]);
    let greatest = from + count == n;
    if (from != 0 && !greatest) || !device::finds_tops(stream, n, count) {
        return None;
    }
    let members: SmallVec<[usize; 8]> = smallvec![i, cut];
    let results: SmallVec<[usize; 3]> = smallvec![cut];
    let at = free.place(&members, &results)?;
    Some(Join { at, members, results, work: Box::new(Tops { order: i, axis, greatest, arg }) })
}

impl Work for Tops {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &members[self.order].inputs[0])?;
            let dst = dev_out(enc, &results[0])?;
            tops(enc, &src, self.axis, self.greatest, self.arg, &dst)
        })
    }
}
