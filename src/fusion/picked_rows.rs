//! Pattern: rows of a quantised table taken by index, and their values, which is how a model looks its tokens up. Codes, scales
//! and biases of the rows are never copied.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work};
use super::products::row_products::is_there;
use crate::core::{Array, Result, Stream};
use crate::kernels::quantized::quant::Format;
use crate::on_gpu;
use crate::ops::index::indexing::takes_rows;
use crate::ops::quantized::quantize::dequantizes;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::is_contiguous;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::{elementwise::dense, quantized::quant::dequantize_rows};

/// Steps before the values among which rows are looked for: tables of a graph's begin stand beside whatever else begins there.
const REACH: usize = 64;

struct PickedRows {
    format: Format,
    /// The steps that take rows: of codes, scales and, in affine formats, biases.
    takes: SmallVec<[usize; 3]>,
}

/// The step that takes the rows which are `a`, and those between, each for the next one alone.
fn taken(free: &Free, i: usize, a: &Array, stream: Stream) -> Option<SmallVec<[usize; 2]>> {
    let alone = |i, a| free.maker_within(i, a, REACH).filter(|&m| free.only_used(m, 1));
    let mut steps: SmallVec<[usize; 2]> = smallvec![alone(i, a)?];
    let node = free.node(steps[0]).filter(|n| n.stream == stream)?;
    if is_contiguous(&*node.primitive) {
        steps.insert(0, alone(steps[0], &node.inputs[0])?);
    }
    let node = free.node(steps[0]).filter(|n| n.stream == stream)?;
    (takes_rows(&*node.primitive) && node.inputs[0].ndim() == 2).then_some(steps)
}

/// The join that ends with the values of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let node = free.node(i).filter(|n| n.stream == stream)?;
    let format = dequantizes(&*node.primitive)?;
    let (mut members, mut takes): (SmallVec<[usize; 8]>, SmallVec<[usize; 3]>) = Default::default();
    for a in &node.inputs {
        let steps = taken(free, i, a, stream)?;
        takes.push(steps[0]);
        members.extend(steps);
    }
    members.push(i);
    let inputs = |&step: &usize| Some(&free.node(step)?.inputs);
    let index = &inputs(takes.first()?)?[1];
    let rows = inputs(&takes[0])?[0].shape()[0];
    let fits = |step: &usize| {
        inputs(step).is_some_and(|inputs| {
            inputs[1].same(index) && inputs[0].shape()[0] == rows && is_there(free, &inputs[0])
        })
    };
    if !device::picks_rows(stream, index.dtype(), rows) || !takes.iter().all(fits) {
        return None;
    }
    let results: SmallVec<[usize; 3]> = smallvec![i];
    let at = free.place(&members, &results)?;
    Some(Join { at, members, results, work: Box::new(PickedRows { format, takes }) })
}

impl Work for PickedRows {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut tables = SmallVec::<[_; 3]>::new();
            for &step in &self.takes {
                tables.push(dev_in(enc, &members[step].inputs[0])?);
            }
            let index = dev_in(enc, &members[self.takes[0]].inputs[1])?;
            let index = if index.is_row_contiguous() { index } else { dense(enc, &index)? };
            let dst = dev_out(enc, &results[0])?;
            dequantize_rows(enc, self.format, &tables[0], &tables[1], tables.get(2), &index, &dst)
        })
    }
}
