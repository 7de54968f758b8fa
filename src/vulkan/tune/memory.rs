//! How far a stream looks for free memory. Called by `memory`.

/// Free blocks of a class that are looked at (H200, as what follows).
pub const LOOKED_AT: usize = 16;
/// Free blocks of a class among which a stream finds one that no command since the last barrier used, before it takes
/// one that needs a barrier (H200: a row of codes 18.5 us with one, 13.8 with four).
pub const TURNS: usize = 4;
/// The part of the memory that a block may be for which there are several.
pub const TURN_SHARE: u64 = 256;
