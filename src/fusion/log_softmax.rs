//! Pattern: rows less the logarithm of their sum of exponentials, which models write for log-softmax. A kernel of each would
//! read the rows twice.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work};
use super::selections::is;
use crate::core::{Array, Result, Stream};
use crate::on_gpu;
use crate::ops::reduce::is_logsumexp;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::norm::softmax::log_softmax;

struct LogSoftmax {
    /// The step that adds up.
    first: usize,
}

/// The join that begins with the log-sum-exp of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let node = free.node(i).filter(|n| n.stream == stream && is_logsumexp(&*n.primitive))?;
    let (rows, sum) = (&node.inputs[0], free.array(i));
    if sum.ndim() != rows.ndim() || rows.dtype() != sum.dtype() || !device::joins_log_softmax(stream) {
        return None;
    }
    let less = free.reader(i, stream)?;
    let by = free.node(less)?;
    let fits = is(&*by.primitive, "subtract")
        && by.inputs[0].same(rows)
        && by.inputs[1].same(sum)
        && free.array(less).shape() == rows.shape();
    let members: SmallVec<[usize; 8]> = smallvec![i, less];
    let results: SmallVec<[usize; 3]> = smallvec![less];
    let at = free.place(&members, &results).filter(|_| fits)?;
    Some(Join { at, members, results, work: Box::new(LogSoftmax { first: i }) })
}

impl Work for LogSoftmax {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let src = dev_in(enc, &members[self.first].inputs[0])?;
            let dst = dev_out(enc, &results[0])?;
            log_softmax(enc, &src, &dst)
        })
    }
}
