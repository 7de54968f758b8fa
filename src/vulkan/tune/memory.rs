//! How far a stream looks for free memory, and which drivers grant more than they promise. Called by `memory`.

/// Makers whose drivers allocate more in one piece than they promise, up to the largest buffer, at no loss of speed: NVIDIA
/// (H200, driver 580: 4 GiB promised, 120 GiB granted, every byte right; written and read as fast as bound in pieces).
pub const GRANTS_MORE: &[u32] = &[0x10de];

/// Free blocks of a class that are looked at (H200, as what follows).
pub const LOOKED_AT: usize = 16;
/// Free blocks of a class among which a stream finds one that no command since the last barrier used, before it takes
/// one that needs a barrier (H200: a row of codes 18.5 us with one, 13.8 with four).
pub const TURNS: usize = 4;
/// The part of the memory that a block may be for which there are several.
pub const TURN_SHARE: u64 = 256;
