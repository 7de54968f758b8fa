//! What each operation is: shape rule, derivatives and the calls down into `cpu` and `vulkan`. The one
//! folder to open to add an op; an elementwise op is only a row of `kernels::elementwise::table`.

mod attention;
pub mod batching;
pub(crate) mod composite;
pub mod conv;
pub mod create;
pub mod depends;
pub mod distributed;
pub mod elementwise;
pub mod fast;
pub mod fft;
pub mod index;
mod kernel;
pub mod linalg;
pub mod matmul;
mod norm;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod restore;
pub mod sort;
pub mod support;
#[cfg(test)]
mod tests;
pub mod view;

pub use conv::{ConvOptions, ConvolveMode, conv_general, conv_transpose, convolve};
pub use create::*;
pub use depends::depends;
pub use elementwise::fp8::{from_fp8, to_fp8};
pub use elementwise::*;
pub use fft::hadamard::hadamard_transform;
pub use fft::window::{bartlett, blackman, hamming, hanning};
pub use index::indexing::*;
pub use index::masked::masked_scatter;
pub use index::scatter::*;
pub use index::slice_update::slice_update;
pub use matmul::einsum::{einsum, einsum_path};
pub use matmul::gather_mm::gather_mm;
pub use matmul::products::*;
pub use matmul::segmented_mm::segmented_mm;
pub use matmul::{addmm, matmul};
pub use quantized::qqmm::{gather_qqmm, qqmm};
pub use quantized::quantize::{dequantize, quantize};
pub use quantized::quantized_matmul::{gather_qmm, quantized_matmul};
pub use reduce::scan::{cummax, cummin, cumprod, cumsum, diff, logcumsumexp};
pub use reduce::*;
pub use sort::search::{searchsorted, unique};
pub use sort::select::{argpartition, count_nonzero, median, minmax, partition, topk};
pub use sort::{argsort, sort};
pub use support::{from_host, scalar_bool, scalar_c64, scalar_f64, scalar_i64};
pub use view::concatenate::*;
pub use view::diagonal::{diag, diagonal, trace};
pub use view::grid::{meshgrid, unstack};
pub use view::*;
