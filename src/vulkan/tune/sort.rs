//! How rows are sorted by radix. Pure; called by the host of `radix`.

use super::profile::{Best, Profile, best};

/// Tiles that keep the device busy.
pub static BUSY: Best = best("sort_busy", 128);

/// Elements of a lane for keys of so many bytes and workgroups of `lanes`: shared memory holds the keys of a tile, 16 KiB
/// with subgroups of 32 lanes. Software drivers take long to compile what is unrolled.
pub fn items(p: &Profile, key: u64, lanes: u32, elements: u64) -> u64 {
    match key {
        _ if p.features.software => 4,
        8 => 8,
        _ if lanes > 256 => 8,
        // Few elements: more workgroups with less to do.
        _ if elements < p.count(&BUSY) * 16 * u64::from(lanes) => 4,
        _ => 16,
    }
}

/// Lanes that share the work of a scatter by sorted keys, at least, where there is so much.
pub static SCATTER_LANES: Best = best("scatter_lanes", 1 << 18);
