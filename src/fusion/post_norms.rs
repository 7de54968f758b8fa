//! Pattern: rows that are normalised and added to others, as behind the attention and the unit of decoders that normalise what they add.

use smallvec::smallvec;

use super::device;
use super::plan::{Free, Join, Members, Work, primitive};
use crate::core::{Array, Result, Stream};
use crate::on_gpu;
use crate::ops::fast::Norm;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::summed;

/// The steps, and which input of the sum is the other array.
struct PostNorm {
    norm: usize,
    sum: usize,
    other: usize,
}

/// The join that begins with the normalisation of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    free.primitive::<Norm>(i, stream).filter(|_| device::joins_post_norms(stream))?;
    let (made, (sum, other)) = (free.array(i), free.sum(i, stream)?);
    let like = |a: &Array| a.shape() == made.shape() && a.dtype() == made.dtype();
    if !like(&free.node(sum)?.inputs[other]) || !like(free.array(sum)) {
        return None;
    }
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
            let to = &members[self.sum].inputs[self.other];
            let mut other = dev_in(enc, to)?;
            if !other.is_row_contiguous() {
                other = crate::vulkan::kernels::elementwise::dense(enc, &other)?;
            }
            let dst = dev_out(enc, &results[0])?;
            let how = norm.how(&views, Some(&other));
            let memory = [&inputs[0].data()?.storage, &to.data()?.storage, &results[0].data()?.storage];
            if summed::run(enc, &views[0], &how, &dst, memory)? {
                return Ok(());
            }
            crate::vulkan::kernels::norm::norm(enc, &views[0], how, &dst)
        })
    }
}
