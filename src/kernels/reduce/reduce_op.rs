//! Names of the reductions, shared by both backends and the ops above.

/// Reduction of many elements to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
    All,
    Any,
}

/// Reduction to the index of an element (the first one among equals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgReduceOp {
    Min,
    Max,
}
