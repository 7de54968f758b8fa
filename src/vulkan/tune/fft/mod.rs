//! How Fourier and Hadamard transforms are cut: lanes and lines of a workgroup and how values lie in its memory, longest lines
//! of one pass, scratch of several. Pure; called by the hosts of `fft` and `hadamard`.

mod layout;
#[cfg(test)]
mod tests;

use crate::kernels::fft::plan::{Entry, LinePlan};

pub use layout::{Layout, layout};

/// Scratch for the lines of a long transform that are in work at once. H200, 16 lines of 2^20: 165 us together; a few at a time, whose
/// scratch the caches hold, 210 to 360, since the device runs empty between the passes.
pub const SCRATCH: u64 = 256 << 20;
/// Columns that a pass of a Hadamard transform across pieces takes together, so that they fill a cache line.
pub const HADAMARD_COLUMNS: u32 = 16;

/// Fewest lanes of a line that have columns and their mirror images, on the way in and out: fewer ones meet pieces of memory that are
/// too short. H200, real lines of 256 on eight lanes 93 us, through shared memory 82; of 512 on eight 100, on 32 68.
pub const PAIR_LANES: (usize, usize) = (8, 32);
/// Fewest and most lanes where neighbouring lines are side by side: as many lines as fill a cache line, with few lanes each, else
/// half of them. H200, columns of 512: 16 of 16 lanes 74 us, 16 of 32 90, 8 of 32 84, 4 of 32 110; of 64: 32 of 4 69, 16 of 4 75.
const COLUMN_LANES: (usize, usize) = (128, 256);
/// Lines of 8 bytes a value that fill a cache line.
const COLUMN_LINES: usize = 16;
/// Longest line of one workgroup, and longest where neighbouring lines are read side by side (H200).
const LINE: usize = 4096;
const COLUMN: usize = 1024;
/// Longest line of one workgroup where real and imaginary parts take turns. H200: lines of 8192 174 us in two passes, of 4099, whose
/// convolution has 8232, 764 in four; 84 and 440 in one.
const SPLIT_LINE: usize = 8448;
/// Longest such line for each lane of the largest workgroup: a lane cannot hold more than a few of its values.
const LANE_VALUES: usize = 16;

/// How the lines of a pass lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Each line dense, where it comes from and where it goes.
    Dense,
    /// Neighbouring lines side by side.
    Columns,
    /// Neighbouring lines side by side where they come from, each dense where it goes.
    ColumnsToLines,
    /// The other way round.
    LinesToColumns,
    /// Columns, that go to tiles of scratch.
    Head,
    /// From tiles of scratch, to columns.
    Tail,
}

impl Access {
    fn side_by_side(self) -> bool {
        !matches!(self, Access::Dense | Access::LinesToColumns)
    }
}

/// What a workgroup of a device may have.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of shared memory.
    pub memory: usize,
    /// Lanes.
    pub lanes: usize,
}

impl Room {
    /// Complex numbers that shared memory holds, beside addresses of lines.
    fn values(self) -> usize {
        self.memory / size_of::<Entry>() - 64
    }

    /// Most lanes of one line of `n` values. H200: lines of 8192 on 256 84 us, on 512 116; convolutions of 8232 on 686 440, on 294 521.
    pub fn line_lanes(self, n: usize) -> usize {
        if n > LINE && !n.is_power_of_two() { self.lanes } else { self.lanes.min(256) }
    }
}

/// Longest lines of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Longest {
    /// Lines that lie dense.
    pub line: usize,
    /// Neighbouring lines that are read side by side: a quarter of the memory keeps some of them together.
    pub column: usize,
    /// Lines that lie dense, whose real and imaginary parts may take turns in shared memory.
    pub split: usize,
}

/// See [`Longest`].
pub fn longest(room: Room) -> Longest {
    let values = room.values();
    let line = LINE.min(values);
    let split = SPLIT_LINE.min(2 * values * 16 / 17).min(LANE_VALUES * room.lanes);
    Longest { line, column: COLUMN.min((values / 4).max(16)), split: split.max(line) }
}

/// The plan of a line. H200: columns of 1024 in two stages of 32 91 us, in three 94; of 512 in 32 and 16 74, in three 82; the factors of the
/// columns of a tail take the registers that 32 values leave (180 us, and 166 in three). Columns of 1000 on 50 lanes 138, on 100 154.
pub fn plan(room: Room, n: usize, access: Access) -> LinePlan {
    if matches!(access, Access::Columns | Access::Head) && [512, 1024].contains(&n) {
        return LinePlan::on(n, &[32, n / 32], n / 32);
    }
    let plan = LinePlan::new(n, room.line_lanes(n));
    let crowded = access == Access::Columns && plan.lanes * COLUMN_LINES / 2 > 2 * COLUMN_LANES.1;
    if !crowded {
        return plan;
    }
    let radices: Vec<usize> = plan.stages.iter().map(|s| s.radix).collect();
    LinePlan::on(n, &radices, plan.lanes.div_ceil(2))
}

/// Values of a line that lie side by side in scratch between two passes, so that both of them meet whole pieces: a divisor of what
/// the first butterflies of the second pass are apart. 1: none.
pub fn tile(room: Room, radices: &[usize]) -> usize {
    let [_, n] = *radices else { return 1 };
    let apart = n / plan(room, n, Access::Tail).stages[0].radix;
    (4..=16).find(|&w| apart.is_multiple_of(w)).unwrap_or(1)
}
