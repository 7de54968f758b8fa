//! What is chosen of a row by the order of its elements: what a kernel of the GPU does in one pass
//! (`vulkan/kernels/sort/select`), and `fusion` finds among steps.

pub mod around;

pub use around::Around;

/// What becomes of chosen numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Followed {
    /// They are stored.
    Nothing = 0,
    /// They are divided by their sum.
    Divided = 1,
    /// They are replaced by their softmax.
    Softmax = 2,
    /// They are what steps make of them (`Around::behind`).
    Steps = 3,
}

/// Elements of a row by rank, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Selection {
    /// The first rank.
    pub from: u32,
    /// How many ranks.
    pub count: u32,
    /// Whether the row is replaced by its softmax before.
    pub softmax: bool,
    /// Whether ranks are those of the negative elements.
    pub negated: bool,
    /// What becomes of the numbers.
    pub after: Followed,
}
