//! What patterns ask about devices: whether there is a kernel for them and whether it pays. GPUs answer by the choices in
//! `vulkan::tune`; tests let made-up devices answer.

use crate::core::{Dtype, Stream};
use crate::kernels::Epilogue;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::Format;
#[cfg(feature = "vulkan")]
use crate::vulkan::tune::fusion as tune;

/// Elements of the shortest row that is folded on the CPU: what a thread saves on very short ones costs it more.
const SHORT_ON_CPU: i64 = 32;
/// Elements of a row that a thread of the CPU folds alone, where there are fewer rows than [`MANY_ON_CPU`].
const LONG_ON_CPU: i64 = 1 << 15;
const MANY_ON_CPU: i64 = 512;

#[cfg(all(test, feature = "vulkan"))]
thread_local! {
    /// The device that a test makes up for its thread.
    pub(super) static MADE_UP: std::cell::Cell<Option<&'static crate::vulkan::tune::Profile>> =
        const { std::cell::Cell::new(None) };
}

/// Whether a kernel over rows pays, for so many of length `n`.
pub(super) fn folds_in_rows(stream: Stream, n: i64, rows: i64) -> bool {
    #[cfg(feature = "vulkan")]
    if stream.device.is_gpu() {
        return tune::folds_in_rows(n, rows);
    }
    n >= SHORT_ON_CPU && (n <= LONG_ON_CPU || rows >= MANY_ON_CPU)
}

/// Whether products of a stream have epilogues at all. On the host a pass over a result that is still in cache costs next
/// to nothing.
pub(super) fn has_epilogues(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !tune::EPILOGUES.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether an epilogue costs less than a kernel of its own, for so many results.
pub(super) fn epilogue_pays(e: &Epilogue, results: usize) -> bool {
    #[cfg(feature = "vulkan")]
    return tune::epilogue_pays(e, results);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether a product of `m` rows of length `k` with a quantised matrix of `n` rows can be one of several.
pub(super) fn joins_products(stream: Stream, format: Format, dtype: Dtype, sizes: [i64; 3]) -> bool {
    #[cfg(all(test, feature = "vulkan"))]
    if let Some(p) = MADE_UP.get() {
        return tune::joins_products(p, format, dtype, sizes, &|_, _| true);
    }
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::qmm_joined::suits(stream, format, dtype, sizes);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether what is added to each of several products of one row, or to those of picked matrices, is added in their kernel.
pub(super) fn adds_to_products(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !tune::ROW_BIASES.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether all kernels of products know what follows them, as far as there are better ones than for any program.
pub(super) fn follows(stream: Stream, dtype: Dtype, after: KeptAfter) -> bool {
    #[cfg(all(test, feature = "vulkan"))]
    if MADE_UP.get().is_some() {
        return true;
    }
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::qmm_joined::follows(stream, dtype, after);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether a product of `m` rows of length `k` with a dense matrix of `n` rows can be one of several.
pub(super) fn joins_dense(stream: Stream, dtype: Dtype, sizes: [i64; 3]) -> bool {
    #[cfg(all(test, feature = "vulkan"))]
    if let Some(p) = MADE_UP.get() {
        return tune::joins_dense(p, dtype, sizes, &|_, _| true);
    }
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::qmm_joined::suits_dense(stream, dtype, sizes);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether the kernel of such products, which give `n` results of a row together, also normalises the rows.
pub(super) fn takes_norm(stream: Stream, format: Option<Format>, dtype: Dtype, sizes: [i64; 3]) -> bool {
    #[cfg(all(test, feature = "vulkan"))]
    if let Some(p) = MADE_UP.get() {
        return tune::normalises(p, format, dtype, sizes, &|_, _| true);
    }
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::qmm_joined::takes_norm(stream, format, dtype, sizes);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether products of rows of length `k` with quantised matrices of so many rows, so many picks of so many matrices, can
/// be one of several.
pub(super) fn joins_picks(stream: Stream, format: Format, dtype: Dtype, sizes: [i64; 4]) -> bool {
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::qmm_joined::suits_picks(stream, format, dtype, sizes);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether the products of so many picks can be weighed and added up in one kernel.
pub(super) fn combines(stream: Stream, each: i64) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && crate::vulkan::tune::quantized::picked::combines(each);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether elements of rows of length `n`, of so many elements in all, are chosen in one kernel.
pub(super) fn selects(stream: Stream, n: i64, elements: i64) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && crate::vulkan::tune::sort::selects(n, elements);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether `count` first or last elements of sorted rows of length `n` are found without sorting the rows.
pub(super) fn finds_tops(stream: Stream, n: i64, count: i64) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && crate::vulkan::tune::sort::finds_tops(n, count);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether what follows a random draw is computed in its kernel.
pub(super) fn joins_draws(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !tune::RANDOM_JOINED.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether a filled array and what it gets are written together.
pub(super) fn joins_fills(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !crate::vulkan::tune::index::JOIN.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether normalised rows are added to others in one kernel.
pub(super) fn joins_post_norms(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !crate::vulkan::tune::norm::NORM_ADDED.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether steps of one kind over few elements are done together.
pub(super) fn joins_alike(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !tune::ALIKE.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether rows less their log-sum-exp are one kernel.
pub(super) fn joins_log_softmax(stream: Stream) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && !tune::LOG_SOFTMAX.disabled();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether rows of a quantised table of so many, by indices of a dtype, are values without a copy of their codes.
pub(super) fn picks_rows(stream: Stream, indices: Dtype, rows: i64) -> bool {
    #[cfg(feature = "vulkan")]
    return stream.device.is_gpu() && tune::picks_rows(indices, rows);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether rows of so many features, so many of them in all, can be rotated together.
pub(super) fn joins_rotations(dtype: Dtype, features: i64, rows: i64) -> bool {
    #[cfg(feature = "vulkan")]
    return tune::joins_rotations(dtype, features, rows);
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether rotations of one position join the attention behind them.
pub(super) fn joins_attention() -> bool {
    #[cfg(feature = "vulkan")]
    return tune::joins_attention();
    #[cfg(not(feature = "vulkan"))]
    false
}

/// Whether attention of one position may be one kernel with the product of its result: its length, and the matrix' rows.
pub(super) fn leads(stream: Stream, format: Option<Format>, dtype: Dtype, sizes: [i64; 2]) -> bool {
    #[cfg(all(test, feature = "vulkan"))]
    if let Some(p) = MADE_UP.get() {
        return crate::vulkan::tune::quantized::chain::leads(p, format, dtype, sizes);
    }
    #[cfg(feature = "vulkan")]
    return crate::vulkan::kernels::quantized::front::leads(stream, format, dtype, sizes);
    #[cfg(not(feature = "vulkan"))]
    false
}
