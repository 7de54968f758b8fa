//! Cross entropy of class indices: log-sum-exp of a row less the logit of its class, in float32.

use crate::bail;
use crate::core::layout::show;
use crate::core::{Array, Dtype, Result, Stream};
use crate::ops::reduce::{logsumexp_parts, wide_logsumexp_parts};
use crate::ops::support::*;
use crate::ops::{astype, expand_dims, squeeze, subtract, take_along_axis};

/// `logsumexp(logits) - logits[target]` over the last axis, both less the maximum; float32, of the shape of `targets`.
///
/// # Errors
/// Value error for logits that are not real floating, targets that are no integers, and shapes that do not match.
pub fn cross_entropy(logits: &Array, targets: &Array, s: Stream) -> Result<Array> {
    const OP: &str = "cross_entropy";
    if logits.ndim() == 0 {
        bail!(Value, "[{OP}] logits must have at least 1 dimension but got input with 0 dimensions.");
    }
    if !logits.dtype().is_float() {
        bail!(Value, "[{OP}] Received unsupported logits type {}.", logits.dtype());
    }
    if !targets.dtype().is_integer() {
        bail!(Value, "[{OP}] targets must be integer class indices but got {}.", targets.dtype());
    }
    if logits.shape()[..logits.ndim() - 1] != *targets.shape() {
        bail!(
            Value,
            "[{OP}] targets shape {} does not match logits shape {} with the last axis removed.",
            show(targets.shape()),
            show(logits.shape())
        );
    }
    refuse_f64(OP, std::slice::from_ref(logits), s)?;
    let wide = if logits.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    if logits.size() == 0 {
        bail!(Value, "[{OP}] Received empty logits of shape {}.", show(logits.shape()));
    }
    let (top, above) = match wide_logsumexp_parts(logits, s)? {
        Some(both) => both,
        None => logsumexp_parts(&astype(logits, wide, s)?, s)?,
    };
    let score = take_along_axis(logits, &expand_dims(targets, &[-1], s)?, Some(-1), s)?;
    let score = astype(&squeeze(&score, Some(&[-1]), s)?, wide, s)?;
    astype(&subtract(&above, &subtract(&score, &top, s)?, s)?, Dtype::F32, s)
}
