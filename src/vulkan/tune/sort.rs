//! How rows are sorted, by merges or by radix, and how a scatter sorts its updates. Pure; called by the hosts of `sort`,
//! `radix` and `scatter`.

use super::profile::{Best, Profile, best};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::kernels::sort::Selection;

pub static SELECT: KernelVariant =
    KernelVariant::new("sort_select", "a sort, and a kernel for each step around it");

pub static CHOICE: KernelVariant = KernelVariant::new(
    "choice",
    "the shader for the choice of experts, a command of its own, on GPUs that take PTX",
);

/// Longest row of which a warp chooses, most that are chosen, and most rows: as many as few rows of picked products have.
const CHOSEN_OF: i64 = 256;
/// See [`CHOSEN_OF`].
const CHOSEN: u32 = 32;
/// See [`CHOSEN_OF`].
const CHOSEN_ROWS: i64 = 64;

pub static SORT_ROWS: KernelVariant = KernelVariant::new("sort_rows", "a workgroup for each short row too");

pub static SORT_TOPS: KernelVariant =
    KernelVariant::new("sort_tops", "a sort of whole rows of which a part is kept");

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

/// Whether a warp chooses from each of so many rows of length `n`, in PTX: the first ranks or the last ones.
pub fn chooses(p: &Profile, dtype: Dtype, how: Selection, [rows, n]: [i64; 2]) -> bool {
    let end = how.from == 0 || i64::from(how.from + how.count) == n;
    p.features.ptx
        && matches!(dtype, Dtype::BF16 | Dtype::F16)
        && (1..=CHOSEN).contains(&how.count)
        && (1..=CHOSEN_OF).contains(&n)
        && (1..=CHOSEN_ROWS).contains(&rows)
        && end
        && !CHOICE.disabled()
}

/// Lanes that share such a row, of at most so many, and elements of each.
pub fn selecting(n: u32, most: u32) -> (u32, u32) {
    let lanes = n.next_power_of_two().clamp(64, 256).min(most);
    (lanes, n.div_ceil(lanes))
}

/// Shared memory that the largest kernel of the radix sort takes.
pub const RADIX_SHARED: u32 = 28 << 10;

/// Longest row of which a workgroup sorts many, each element counting those before it.
const SHORT: u64 = 64;
/// Elements of a lane there, where rows are many.
const BLOCK_ITEMS: u32 = 4;

/// Whether a workgroup sorts many rows of length `n`.
pub fn is_short(n: u64) -> bool {
    n <= SHORT && !SORT_ROWS.disabled()
}

/// How a workgroup has a block of short rows.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Lanes that share it, and elements of each.
    pub lanes: u32,
    pub items: u32,
    /// Elements from row to row in shared memory.
    pub pitch: u32,
    /// Rows.
    pub rows: u32,
}

/// How so many short rows are dealt out to workgroups of at most `most` lanes: a lane has several elements only where that
/// leaves enough workgroups. Rows hold whole steps of four; `across`: lanes go from row to row, which an odd distance
/// keeps apart.
pub fn blocks(p: &Profile, n: u32, rows: u64, most: u32, across: bool) -> Block {
    let lanes = most.min(256);
    let pitch = n.next_multiple_of(4) + u32::from(across);
    let full = u64::from(lanes * BLOCK_ITEMS / pitch);
    let few = lanes >= pitch && rows.div_ceil(full) < p.count(&BUSY);
    let items = if few { 1 } else { BLOCK_ITEMS };
    Block { lanes, items, pitch, rows: lanes * items / pitch }
}

/// Most elements of a row that are found without sorting it: shared memory holds twice as many.
const TOPS: i64 = 256;
/// Shortest row for that, and how many times longer it is at least than what is found.
const TOPS_ROW: i64 = 2048;
const TOPS_PART: i64 = 8;
/// Elements of a segment, at least and at most, how many times more it has at least than it gives, and workgroups that
/// fill a card; estimates for H100, of which an SM has eight such workgroups at a time.
const SEGMENT: [u64; 2] = [8 << 10, 64 << 10];
const SEGMENT_PART: u64 = 16;
const SEGMENTS: u64 = 1024;

/// Whether `count` first or last elements of rows of length `n` are found without sorting the rows.
pub fn finds_tops(n: i64, count: i64) -> bool {
    (1..=TOPS).contains(&count) && n >= TOPS_ROW && n >= TOPS_PART * count && !SORT_TOPS.disabled()
}

/// Segments of each of so many rows of length `n`, of which each gives `count` elements.
pub fn segments(n: u64, count: u64, rows: u64) -> u64 {
    let most = n / SEGMENT[0].max(SEGMENT_PART * count);
    SEGMENTS.div_ceil(rows).min(most).max(n.div_ceil(SEGMENT[1]))
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
