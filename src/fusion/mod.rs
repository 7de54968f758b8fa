//! Fusion: steps of a graph that one kernel computes together. A pattern is a file here and a row of one of the two lists
//! below: which steps it matches, and the kernel that runs them. Whether that pays is a question to `device`, which asks
//! the tables of `vulkan::tune`. There are two moments: when a function is compiled ([`fuse`], over a tape: all readers
//! of a value are known), and when steps of an evaluation are about to run on a GPU ([`plan`]: handles tell whether
//! anyone else wants an array). `tests` has one list of cases for both, which needs no device.

mod alike;
mod device;
mod draws;
mod elementwise;
mod epilogues;
mod filled;
mod fused;
mod groups;
mod log_softmax;
mod picked_rows;
mod plan;
mod post_norms;
mod products;
mod recorded;
mod rotations;
mod routers;
mod rows;
mod selections;
#[cfg(test)]
mod tests;
mod tops;

pub use fused::Fused;
pub(crate) use plan::{Join, Members, Plan, Role, plan};
pub(crate) use recorded::{fuse, through_broadcasts};

/// Patterns over recorded functions.
static RECORDED: [&dyn recorded::Pattern; 3] =
    [&elementwise::Elementwise, &rows::Rows, &epilogues::Epilogues];

/// Patterns over steps of an evaluation. The primitive that one begins with says `may_join`.
static EVALUATED: [plan::Pattern; 10] = [
    products::experts::find,
    products::row_products::find,
    rotations::find,
    selections::find,
    tops::find,
    draws::find,
    log_softmax::find,
    filled::find,
    picked_rows::find,
    post_norms::find,
];
