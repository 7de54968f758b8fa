//! Pattern: a part of a filled array that gets other numbers, as padding does: everything is written once, where a fill and
//! a copy would write that part twice.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work, primitive};
use crate::core::{Array, Result, Shape, Stream};
use crate::on_gpu;
#[cfg(feature = "vulkan")]
use crate::ops::elementwise::expanded;
use crate::ops::elementwise::is_full;
use crate::ops::index::slice_update::SliceUpdate;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
#[cfg(feature = "vulkan")]
use crate::ops::view::sliced;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::{elementwise::copy, index::join::inside};

struct Filled {
    fill: usize,
    update: usize,
    /// Where the part begins.
    start: Shape,
}

/// The join that begins with the filled array of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let fill = free.node(i).filter(|n| n.stream == stream && is_full(&*n.primitive))?;
    if fill.inputs[0].size() != 1 || free.array(i).size() == 0 || !device::joins_fills(stream) {
        return None;
    }
    let update = free.reader(i, stream)?;
    let node = free.node(update)?;
    let start = primitive::<SliceUpdate>(node)?.dense_from()?.into();
    let fits = node.inputs[0].same(free.array(i));
    let members: SmallVec<[usize; 8]> = smallvec![i, update];
    let results: SmallVec<[usize; 3]> = smallvec![update];
    let at = free.place(&members, &results).filter(|_| fits)?;
    Some(Join { at, members, results, work: Box::new(Filled { fill: i, update, start }) })
}

impl Work for Filled {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let value = dev_in(enc, &members[self.fill].inputs[0])?;
            let part = dev_in(enc, &members[self.update].inputs[1])?;
            let dst = dev_out(enc, &results[0])?;
            if inside(enc, &value, &part, &self.start, &dst)? {
                return Ok(());
            }
            copy(enc, &expanded(value, &dst.shape), &dst)?;
            let step = vec![1; part.ndim()];
            let within =
                sliced(&dst, &self.start, &step, &part.shape, |p, shift| p.wrapping_add_signed(shift));
            if part.size() > 0 { copy(enc, &part, &within) } else { Ok(()) }
        })
    }
}
