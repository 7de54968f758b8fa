//! What each operation is: shape rule, derivatives and the calls down into `cpu` and `vulkan`. The one
//! folder to open to add an op; an elementwise op is only a row of `kernels::table`.

pub mod batching;
mod contraction;
mod count;
pub mod create;
pub mod depends;
pub mod diagonal;
pub mod einsum;
pub mod elementwise;
pub mod fp8;
pub mod gather_mm;
pub mod grid;
pub mod hadamard;
pub mod join;
pub mod matmul;
pub mod partials;
pub mod products;
pub mod random;
pub mod reduction;
pub mod segmented_mm;
pub mod slice_update;
pub mod sort;
pub mod support;
pub mod view;
pub mod window;

pub use create::*;
pub use depends::depends;
pub use diagonal::{diag, diagonal, trace};
pub use einsum::{einsum, einsum_path};
pub use elementwise::*;
pub use fp8::{from_fp8, to_fp8};
pub use gather_mm::gather_mm;
pub use grid::{meshgrid, unstack};
pub use hadamard::hadamard_transform;
pub use join::*;
pub use matmul::{addmm, matmul};
pub use products::*;
pub use reduction::*;
pub use segmented_mm::segmented_mm;
pub use slice_update::slice_update;
pub use sort::{argsort, sort, take};
pub use support::{from_host, scalar_bool, scalar_c64, scalar_f64, scalar_i64};
pub use view::*;
pub use window::{bartlett, blackman, hamming, hanning};
