//! Pattern: rows that are normalised and added to others, as behind the attention and the unit of decoders that normalise what they add.

use smallvec::smallvec;

use super::device;
use super::plan::{Free, Join, Members, Work, primitive};
use crate::core::{Array, Result, Stream};
use crate::kernels::elementwise::program::Inst;
use crate::on_gpu;
use crate::ops::elementwise::instruction;
use crate::ops::fast::Norm;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;

/// The steps, and which input of the sum is the other array.
struct PostNorm {
    norm: usize,
    sum: usize,
    other: usize,
}

/// The join that begins with the normalisation of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    free.primitive::<Norm>(i, stream).filter(|_| free.only_used(i, 1) && device::joins_post_norms(stream))?;
    let (made, sum) = (free.array(i), free.reader(i, stream)?);
    let node = free.node(sum)?;
    let like = |a: &Array| a.shape() == made.shape() && a.dtype() == made.dtype();
    let Inst::Op(op) = instruction(&*node.primitive)? else { return None };
    if op.row().name != "add" || !node.inputs.iter().all(like) || !like(free.array(sum)) {
        return None;
    }
    let other = node.inputs.iter().position(|a| !a.same(made))?;
    let at = free.place(&[i, sum], &[sum])?;
    let work = Box::new(PostNorm { norm: i, sum, other });
    Some(Join { at, members: smallvec![i, sum], results: smallvec![sum], work })
}

impl Work for PostNorm {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        // INVARIANT: the step was found to be one.
        let norm = primitive::<Norm>(&members[self.norm]).expect("a normalisation");
        on_gpu!(stream, |enc| {
            let inputs = &members[self.norm].inputs;
            let views = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let mut other = dev_in(enc, &members[self.sum].inputs[self.other])?;
            if !other.is_row_contiguous() {
                other = crate::vulkan::kernels::elementwise::dense(enc, &other)?;
            }
            let dst = dev_out(enc, &results[0])?;
            crate::vulkan::kernels::norm::norm(enc, &views[0], norm.how(&views, Some(&other)), &dst)
        })
    }
}
