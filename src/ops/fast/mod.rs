//! `mlx.core.fast`: operations with a kernel of their own where a composition would go through memory several
//! times. Each keeps its composition beside the kernel: derivatives are built from it, and dtypes without a
//! kernel (float64) take it.

mod attention;
mod cross_entropy;
mod gated_delta;
mod kernel;
mod norm;
mod rope;

pub(super) use attention::restore as restore_attention;
pub(super) use gated_delta::restore as restore_gated_delta;
pub(super) use kernel::restore as restore_metal_kernel;
pub(super) use norm::restore as restore_norm;
pub(super) use rope::restore as restore_rope;

pub use attention::{MaskArg, scaled_dot_product_attention};
pub use cross_entropy::cross_entropy;
pub use gated_delta::gated_delta_update;
pub use kernel::{Call, check_names, metal_kernel, spirv, user_kernel};
pub(crate) use norm::Norm;
pub use norm::{layer_norm, rms_norm};
pub(crate) use rope::Rope;
pub use rope::{Offset, Rotation, rope};
