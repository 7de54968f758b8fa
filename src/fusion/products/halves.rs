//! The halves of a product's results as products of their own: models that keep the matrices of a gated unit as one split what it gives.

#[cfg(feature = "vulkan")]
use smallvec::{SmallVec, smallvec};

#[cfg(feature = "vulkan")]
use crate::core::Array;
use crate::core::Stream;
use crate::fusion::plan::Free;
use crate::ops::view::begins_along;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::qmm_joined::Matrix;

/// Rows of a half are whole numbers of these, so that both begin where kernels read vectors.
const ROWS: i64 = 16;

/// The steps that take the first and the second half of the results of step `p`, which nobody else needs.
pub(in crate::fusion) fn halves(free: &Free, p: usize, stream: Stream) -> Option<[usize; 2]> {
    let made = free.array(p);
    let (axis, half) = (made.ndim().checked_sub(1)?, made.dim(-1) / 2);
    if made.dim(-1) != 2 * half || half % ROWS != 0 || !free.only_used(p, 2) {
        return None;
    }
    let begins = |from: i64| {
        free.behind(p).find(|&j| {
            let (node, part) = (free.node(j).filter(|n| n.stream == stream), free.array(j));
            node.is_some_and(|n| {
                n.inputs.first().is_some_and(|a| a.same(made))
                    && begins_along(&*n.primitive, axis, made, part) == Some(from)
                    && part.dim(-1) == half
            })
        })
    };
    Some([begins(0)?, begins(half)?])
}

/// Both halves of a matrix, whose parts are these arrays.
#[cfg(feature = "vulkan")]
pub(super) fn halved(m: &Matrix, parts: &[Array]) -> SmallVec<[Matrix; 3]> {
    let mut second = m.parts;
    second.iter_mut().zip(parts).for_each(|(at, a)| *at += a.nbytes() as u64 / 2);
    smallvec![Matrix { rows: m.rows / 2, parts: m.parts }, Matrix { rows: m.rows / 2, parts: second }]
}
