//! How rows are sorted, by merges or by radix, and how a scatter sorts its updates. Pure; called by the hosts of `sort`,
//! `radix` and `scatter`.

use super::profile::{Best, Profile, best};
use crate::core::env::KernelVariant;

pub static SELECT: KernelVariant =
    KernelVariant::new("sort_select", "a sort, and a kernel for each step around it");

/// Tiles that keep the device busy.
pub static BUSY: Best = best("sort_busy", 128);

/// Lanes of a workgroup that sorts a tile of a row of `n` for the merges, and elements of a lane, for keys of so many bytes
/// that carry indices or not. Shared memory: at most 16 KiB for a tile, and where it is cut; half the
/// tile where a device has no more than 16 KiB.
pub fn merged(n: u64, key: u64, carries: bool, shared: u32) -> (u64, u64) {
    let room = shared >= (16 << 10) + 8;
    let items: u64 = match (key == 8, carries) {
        (false, false) if n > 2048 => 16,
        (true, true) => 4,
        _ => 8,
    } >> u32::from(!room);
    (n.div_ceil(items).next_power_of_two().clamp(32, 256), items)
}

/// Longest row of which every element counts those before it.
const COUNTED: i64 = 1024;

/// Whether elements of rows of length `n`, of so many in all, are chosen without sorting the rows.
pub fn selects(n: i64, elements: i64) -> bool {
    (1..=COUNTED).contains(&n) && elements <= i64::from(u32::MAX) && !SELECT.disabled()
}

/// Lanes that share such a row, of at most so many, and elements of each.
pub fn selecting(n: u32, most: u32) -> (u32, u32) {
    let lanes = n.next_power_of_two().clamp(64, 256).min(most);
    (lanes, n.div_ceil(lanes))
}

/// Whether elements of so many bytes are sorted by radix in place of so many merges: a radix pass moves more than a merge,
/// and there is one for each byte (H200).
pub fn radix_pays(merges: u32, bytes: usize) -> bool {
    merges > [1, 3, 5, 9][bytes.ilog2() as usize]
}

/// Subgroups of a workgroup that moves elements by radix: each has counts of its own in shared memory.
pub const SUBGROUPS: u32 = 8;
/// Tiles up to which one workgroup scans the counts of a row, in place of one for each digit (H200).
pub const FEW_TILES: u64 = 32;

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

/// Updates of a lane of a scatter by sorted keys, at the levels above the first (H200).
pub const SCATTER_LEVEL: u64 = 8;
/// Lanes that share the work of a scatter by sorted keys, at least, where there is so much.
pub static SCATTER_LANES: Best = best("scatter_lanes", 1 << 18);
