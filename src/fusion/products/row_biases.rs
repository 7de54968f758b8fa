//! What is added to products of one row, to each an array with an element for each result: biases of layers.

use smallvec::SmallVec;

use super::row_products::Input;
use crate::core::{Array, Stream};
use crate::fusion::plan::Free;

/// The sums, and the arrays, one for each product.
#[derive(Default)]
pub(in crate::fusion) struct Biases {
    pub steps: SmallVec<[usize; 3]>,
    pub arrays: SmallVec<[Input; 3]>,
}

/// The steps that add an array to each of the results of products of one row, which nobody else needs.
pub(in crate::fusion) fn biases(free: &Free, results: &[usize], stream: Stream) -> Option<Biases> {
    let mut found = Biases::default();
    for &p in results {
        let (made, (sum, k)) = (free.array(p), free.sum(p, stream)?);
        let (other, out) = (&free.node(sum)?.inputs[k], free.array(sum));
        let fits = other.size() == made.size()
            && [other, out].iter().all(|x| x.dtype() == made.dtype())
            && out.shape() == made.shape();
        if !fits {
            return None;
        }
        found.steps.push(sum);
        found.arrays.push((sum, k));
    }
    let made: SmallVec<[usize; 6]> = results.iter().chain(&found.steps).copied().collect();
    made_elsewhere(free, &made, &found.arrays).then_some(found)
}

/// Whether none of these arrays is what steps of a join make: what one workgroup makes no other one may read.
pub(in crate::fusion) fn made_elsewhere(free: &Free, made: &[usize], arrays: &[Input]) -> bool {
    let own = |a: &Array| made.iter().any(|&i| free.array(i).same(a));
    arrays.iter().all(|&(step, k)| free.node(step).is_some_and(|n| !own(&n.inputs[k])))
}
