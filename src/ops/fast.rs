//! `mlx.core.fast`: operations with a kernel of their own where a composition would go through memory several
//! times. Each keeps its composition beside the kernel: derivatives are built from it, and dtypes without a
//! kernel (float64) take it.

pub(super) use super::attention::gated_delta::restore as restore_gated_delta;
pub(super) use super::attention::gradient::restore as restore_attention_grad;
pub(super) use super::attention::kept::{
    restore as restore_attention_kept, restore_whole as restore_attention_whole,
};
pub(super) use super::attention::restore as restore_attention;
pub(super) use super::attention::rope::restore as restore_rope;
pub(super) use super::kernel::restore as restore_metal_kernel;
pub(super) use super::norm::restore as restore_norm;

pub(crate) use super::attention::Attention;
pub use super::attention::gated_delta::gated_delta_update;
pub(crate) use super::attention::rope::Rope;
pub use super::attention::rope::{Offset, Rotation, rope};
pub use super::attention::{MaskArg, scaled_dot_product_attention};
pub use super::kernel::{Call, check_names, metal_kernel, spirv, user_kernel};
pub(crate) use super::norm::Norm;
pub use super::norm::cross_entropy::cross_entropy;
pub use super::norm::{layer_norm, rms_norm};
