//! What each operation is: shape rule, derivatives and the calls down into `cpu` and `vulkan`. The one
//! folder to open to add an op; an elementwise op is only a row of `kernels::table`.

pub mod batching;
pub mod conv;
pub mod create;
pub mod elementwise;
pub mod join;
pub mod matmul;
pub mod partials;
pub mod random;
pub mod reduction;
pub mod slice_update;
pub mod sort;
pub mod support;
pub mod view;

pub use conv::{ConvOptions, ConvolveMode, conv_general, conv_transpose, convolve};
pub use create::*;
pub use elementwise::*;
pub use join::*;
pub use matmul::{addmm, matmul};
pub use reduction::*;
pub use slice_update::slice_update;
pub use sort::{argsort, sort, take};
pub use support::{from_host, scalar_bool, scalar_c64, scalar_f64, scalar_i64};
pub use view::*;
