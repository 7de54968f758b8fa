//! What is added to products of picked matrices, a row of a table for each matrix: biases of experts. Models take the rows by the
//! indices of the products; kernels that know these read the table where it lies. MLX_VK_DISABLE=row_biases keeps them apart.

use smallvec::SmallVec;

use super::row_products::{Input, Product, is_there};
#[cfg(feature = "vulkan")]
use super::row_products::{Range, dev_row};
#[cfg(feature = "vulkan")]
use crate::core::Result;
#[cfg(feature = "vulkan")]
use crate::core::array::Node;
use crate::core::{Array, Stream};
use crate::fusion::device;
use crate::fusion::plan::Free;
use crate::ops::index::indexing::takes_rows;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::is_reshape;
#[cfg(feature = "vulkan")]
use crate::vulkan::CommandEncoder;

/// Steps before the one that reads rows in which they are taken: a choice of experts, and all that they do, may stand between.
const REACH: usize = 64;

/// How the matrices of products are picked.
#[derive(Clone, Copy)]
pub(in crate::fusion) struct Indices<'a> {
    pub array: &'a Array,
    /// To choose from.
    pub matrices: i64,
}

/// Rows of a table that indices of products name.
pub(in crate::fusion) struct PickedBias {
    pub table: Input,
    /// The steps that take them, which nobody else needs; the first one reads the table.
    pub steps: SmallVec<[usize; 2]>,
}

impl<'a> Indices<'a> {
    /// Those of a product.
    pub fn of(free: &Free, product: &Product<'a>) -> Option<Indices<'a>> {
        Some(Indices { array: product.indices?, matrices: product.picked(free)?.matrices })
    }
}

/// What an input is the rows of, if it has an element for each of the products, `made`, and that one is of its matrix's row. The
/// table is there.
pub(in crate::fusion) fn picked_bias(
    free: &Free,
    (step, input): Input,
    picks: Indices,
    made: &Array,
    stream: Stream,
) -> Option<PickedBias> {
    let mut a = &free.node(step)?.inputs[input];
    if a.size() != made.size() || a.dtype() != made.dtype() || !device::adds_to_products(stream) {
        return None;
    }
    let (mut at, mut steps) = (step, SmallVec::new());
    loop {
        at = free.maker_within(at, a, REACH).filter(|&m| free.only_used(m, 1))?;
        let node = free.node(at).filter(|n| n.stream == stream)?;
        steps.insert(0, at);
        a = &node.inputs[0];
        if takes_rows(&*node.primitive) {
            let whole = a.shape() == [picks.matrices, made.dim(-1)] && a.size() < 1 << 31;
            let fits = whole && node.inputs[1].same(picks.array) && is_there(free, a);
            return fits.then_some(PickedBias { table: (at, 0), steps });
        }
        if !is_reshape(&*node.primitive) {
            return None;
        }
    }
}

/// Address and bytes of what kernels read after products: of a table single elements, so that it may begin anywhere.
#[cfg(feature = "vulkan")]
pub(in crate::fusion) fn dev_read(enc: &mut CommandEncoder, node: &Node, input: usize) -> Result<Range> {
    let a = &node.inputs[input];
    match takes_rows(&*node.primitive) {
        true => Ok((dev_in(enc, a)?.ptr, a.nbytes() as u64)),
        false => dev_row(enc, a),
    }
}
