//! How many lines a workgroup has, and where their values lie in its shared memory.

use super::{Access, COLUMN_LANES, COLUMN_LINES, Room};
use crate::kernels::fft::plan::{Entry, LinePlan};

/// Lanes of a workgroup whose lines lie dense: small groups overlap each other's phases best. H200: 3480 GB/s for lines
/// of 1024, 2990 with 256.
const DENSE_LANES: usize = 64;
/// Most lanes of one whose lines do not fill warps otherwise. H200, 250 x 250: 2 lines of 25 lanes 245 us, 5 of them 188.
const FULL_LANES: usize = 128;
/// Lanes of a warp, and banks of shared memory that hold a complex number.
const WARP: usize = 32;
const BANKS: usize = 16;
/// Fewest lines of the passes of a long line, whose side in scratch lies dense. H200, 2^20: 4 lines 165 us, 8 lines 180 to 210;
/// 65,536: 16 lines 166, 8 lines 144, 4 lines 157.
const PASS_LINES: usize = 4;
/// Bytes of shared memory from which on real and imaginary parts take turns in half of it. H200: lines of 4096 74 and 68 us, of 2^20
/// 181 and 167.
const TOGETHER: usize = 33_000;

/// How the lines of a workgroup lie in its registers and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Lines of a workgroup.
    pub lines: usize,
    /// From line to line, or from value to value where lines are side by side.
    pub pitch: usize,
    /// Values behind which one place is left out; 0: nowhere.
    pub padding: usize,
    /// Whether real and imaginary parts take turns in shared memory.
    pub split: bool,
}

/// Values behind which a place is left out against conflicts of banks: those that a lane's butterfly leaves side by side, where
/// their number shares a factor with that of the banks.
fn padding(radix: usize, side_by_side: bool) -> usize {
    match radix {
        r if side_by_side => r * usize::from(r.is_multiple_of(2)),
        r if r.is_multiple_of(8) => r.max(16),
        r if r.is_multiple_of(4) => 64,
        _ => 0,
    }
}

/// The layout of workgroups for `count` lines; `staged`: shared memory holds whole values on the way in or out.
pub fn layout(room: Room, plan: &LinePlan, count: u64, access: Access, staged: bool) -> Layout {
    let count = count.clamp(1, 1 << 16) as usize;
    let values = room.values();
    let padding = padding(plan.stages[0].radix, access.side_by_side());
    let gaps = if padding > 0 { plan.n.div_ceil(padding) } else { 0 };
    let may_split = !staged && plan.stages.len() > 1;
    let most = if may_split { 2 * values } else { values };
    // Lines of fewer lanes than banks have the next line's lanes beside their own.
    let beside = |n: usize| match plan.lanes {
        t if t < BANKS && !access.side_by_side() => n + (t + BANKS - n % BANKS) % BANKS,
        _ => n,
    };
    let padded = beside(plan.n + gaps);
    let (line, padding) = if padded + 2 > most { (plan.n, 0) } else { (padded, padding) };
    // Each line also keeps two addresses there.
    let fits = most / (line + 2);
    let bytes = |lines: usize| lines * (line + 2) * size_of::<Entry>();
    let split =
        |lines: usize| may_split && (bytes(lines) > TOGETHER || bytes(lines) > values * size_of::<Entry>());
    if access.side_by_side() {
        let lines = side_by_side(room, plan.lanes, fits, access).min(count);
        // An odd pitch keeps the way out free of bank conflicts where it goes along the lines.
        let wide = lines + usize::from(access == Access::ColumnsToLines && lines.is_multiple_of(2));
        let pitch = if wide * (line + 2) <= values { wide } else { lines };
        return Layout { lines, pitch, padding, split: split(lines) };
    }
    let least = (room.lanes.min(DENSE_LANES) / plan.lanes).max(1);
    let full = (room.lanes.min(FULL_LANES) / plan.lanes).max(least).min(fits).min(count).max(1);
    let idle = |&lines: &usize| (lines * plan.lanes).next_multiple_of(WARP) * 1000 / lines;
    let lines = (least.min(full)..=full).min_by_key(idle).unwrap_or(1);
    Layout { lines, pitch: line, padding, split: split(lines) }
}

/// Lines of a workgroup where neighbouring lines are side by side: a power of two of them, so that they are whole sectors of memory.
fn side_by_side(room: Room, lanes: usize, fits: usize, access: Access) -> usize {
    let (least, most) = COLUMN_LANES;
    let wanted = (least.min(room.lanes) / lanes).max(match access {
        Access::Head | Access::Tail => PASS_LINES,
        _ if COLUMN_LINES * lanes <= most => COLUMN_LINES,
        _ => COLUMN_LINES / 2,
    });
    let lines = wanted.min(room.lanes / lanes).min(fits).max(1);
    1 << lines.ilog2()
}
