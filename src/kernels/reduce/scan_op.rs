//! Names of the scans, shared by both backends and the ops above.

/// An associative operation whose running results a scan gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanOp {
    Sum,
    Prod,
    Min,
    Max,
    LogAddExp,
}

/// Which running result stands at a position: from which end, and with the element there or without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScanForm {
    pub reverse: bool,
    pub inclusive: bool,
}
