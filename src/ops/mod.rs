//! What each operation is: shape rule, derivatives and the calls down into `cpu` and `vulkan`. The one
//! folder to open to add an op; an elementwise op is only a row of `kernels::table`.

pub mod batching;
mod count;
pub mod create;
pub mod depends;
pub mod elementwise;
pub mod indexing;
pub mod join;
pub mod masked;
pub mod matmul;
pub mod partials;
pub mod random;
pub mod reduction;
pub mod scan;
pub mod scatter;
pub mod search;
pub mod select;
pub mod slice_update;
pub mod sort;
pub mod support;
pub mod view;

pub use create::*;
pub use depends::depends;
pub use elementwise::*;
pub use indexing::*;
pub use join::*;
pub use masked::masked_scatter;
pub use matmul::{addmm, matmul};
pub use reduction::*;
pub use scan::{cummax, cummin, cumprod, cumsum, diff, logcumsumexp};
pub use scatter::*;
pub use search::{searchsorted, unique};
pub use select::{argpartition, count_nonzero, median, minmax, partition, topk};
pub use slice_update::slice_update;
pub use sort::{argsort, sort};
pub use support::{from_host, scalar_bool, scalar_c64, scalar_f64, scalar_i64};
pub use view::*;
