//! How few rows are multiplied by matrices of four-bit codes in PTX (kernels/quantized/few_rows): rows of x stay in registers, codes
//! come through shared memory, and a subgroup has its part of K. Pure; called by the host of those products.

use super::{Shape, forced, native, plain, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static QMM_FEW_ROWS: KernelVariant = KernelVariant::new(
    "qmm_few_rows",
    "the kernels on Vulkan's matrices, for few rows by codes of four bits on GPUs that take PTX",
);

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Form {
    /// Rows of x, in eights.
    pub tiles: u32,
    /// Pieces of K of a subgroup.
    pub pieces: u32,
    /// Subgroups of a workgroup.
    pub warps: u32,
    /// Workgroups that share K.
    pub splits: u32,
    /// Workgroups that a multiprocessor has at a time.
    pub together: u32,
    /// Buffers of sums: with two, a barrier less for each unit.
    pub buffers: u32,
    /// How many turns ahead, of one side of a unit each, rows of codes are brought to the second-level cache; none: not at all.
    pub ahead: u32,
    /// Groups of codes of a piece.
    pub groups: u32,
    /// Workgroups that share the rows of x, `tiles` each.
    pub parts: u32,
    /// Sides of units that a workgroup has, whose codes are all asked for at once and stay in registers; none: they come through shared
    /// memory.
    pub held: u32,
}

/// Codes of a row in a piece, and groups of it.
pub(in crate::vulkan) const SPAN: u32 = 256;
/// See [`SPAN`].
pub(in crate::vulkan) const GROUPS: u32 = 4;
/// Rows of codes of a unit.
pub(in crate::vulkan) const UNIT: u32 = 16;
/// Bytes of a piece of a unit: codes, scales and biases.
pub(in crate::vulkan) const PIECE: u32 = 2304;
/// Floats of shared memory between two columns of sums: lanes write four of them apart.
pub(in crate::vulkan) const COLUMN: u32 = 20;
/// Elements of a group.
pub(in crate::vulkan) const GROUP: u32 = 64;

/// Its place among the kernels of `stats`.
pub(in crate::vulkan) const PLACE: usize = 8;
/// Its number in the cache: how it is laid out follows from the product.
pub(super) const NUMBERS: [u32; 1] = [4];

/// Rows of x that it takes, [`MOST`] at a time. H200, us of products that wait for each other: gate and up of 8B with their unit (24576 x
/// 4096), 8, 16 and 32 rows, 19.8, 21.5 and 41.3 (qmm_held 28.5, qmm_coop 51 for 32); 4096 x 12288 with an addition 14.5, 16.3 and 25.3;
/// 6144 x 4096 8.1, 9.7 and 15.4; 4096 x 4096 with an addition 7.2, 8.5 and 12.7. What reads the codes alone takes 15.1, 9.8, 6.6
/// and 5.4.
const ROWS: std::ops::RangeInclusive<i64> = 2..=64;
/// Rows of x at a time: twice 16 of them take 43, 33, 19.4 and 17, as registers then hold twice as much of K.
const MOST: i64 = 32;
/// Subgroups of a workgroup, and pieces of each: 8 rows by 16 subgroups with a piece 19.8, by two workgroups of 8 with two
/// pieces 21.5.
const WARPS: [i64; 3] = [16, 8, 8];
/// Pieces up to which a subgroup has one.
const SHORT: i64 = 8;
/// Bytes of shared memory that such a program may have.
pub(super) const SHARED: u32 = 48 << 10;
/// Workgroups of the most subgroups that a device has at once.
pub(super) static RESIDENT: Best = best("qmm_few_rows_workgroups", 132);
/// See [`Form::ahead`]: 32 rows of 24576 x 4096 41.3, not at all 45; of 8 rows 19.9 and 19.8, four turns ahead 21.7.
const AHEAD: u32 = 2;

impl Form {
    /// Codes of a row in a piece.
    pub fn span(&self) -> u32 {
        GROUP * self.groups
    }

    /// Bytes of shared memory with so many buffers.
    fn bytes(&self, buffers: u32) -> u32 {
        let codes = self.warps * self.pieces * PIECE;
        // Scales and biases alone where registers have the codes.
        let ring = if self.held > 0 { self.held * self.warps * self.span() } else { codes };
        // Squares of the rows, too.
        ring + self.warps * 4 * 8 * self.tiles + buffers * self.sums() + 4
    }

    /// Bytes of a buffer of sums: those of each subgroup, column by column; behind the last one there is no gap.
    pub fn sums(&self) -> u32 {
        self.warps * 4 * (8 * self.tiles * COLUMN - (COLUMN - UNIT))
    }

    /// Lists that so many units are dealt to, of nearly the same length; each is for `splits` workgroups.
    pub fn lists(&self, p: &Profile, units: u32) -> u32 {
        let most = (p.count(&RESIDENT) as u32 * self.together / (self.splits * self.parts)).max(1);
        units.div_ceil(units.div_ceil(most))
    }

    /// Floats that workgroups which share K leave of so many units.
    pub fn left(&self, units: u32) -> usize {
        units as usize * (UNIT * 8 * self.tiles * self.splits) as usize
    }
}

/// Rows of x that meet short matrices so, by workgroups that share them. H200, steps of 30B-A3B of 32 sequences 6.8 ms, 7.4 without; of 8
/// rows no difference beyond that of the hosts. By a host of its own, 32 rows, us, this and the layout through shared memory: 5120 x 2048 with a
/// normalisation 9.9 and 10.2, 2048 x 4096 7.7 and 8.3, 1024 x 2048 3.5 and 4.5, 1024 x 3072 4.2 and 6.1, 4096 x 1024 6.1 and 7.3 (5.3 and 3.9 without a
/// normalisation): what a step gains besides is code that is run once, of which there is half as much.
const HELD_ROWS: std::ops::RangeInclusive<i64> = 17..=64;
/// Rows of x of a workgroup, in eights, and workgroups that share the rows: 4 of 8 rows each 13.4, one of all 9.2, two 8.6 (5120 x 2048).
const HELD_TILES: u32 = 2;
/// See [`HELD_TILES`].
const HELD_PARTS: u32 = 2;
/// Most groups of a subgroup's piece, subgroups of a workgroup, and registers of a thread for x and codes.
const HELD_GROUPS: i64 = 4;
/// See [`HELD_GROUPS`].
const HELD_WARPS: i64 = 16;
/// See [`HELD_GROUPS`].
const HELD_REGISTERS: u32 = 96;

/// The same for `m` rows of length `k` by short matrices, so many units of `sides`, whose codes registers have.
pub(in crate::vulkan) fn held(
    p: &Profile,
    dtype: Dtype,
    [m, k]: [i64; 2],
    [units, sides]: [u32; 2],
) -> Option<Form> {
    let all = k / i64::from(GROUP);
    if all == 0
        || k % i64::from(GROUP) != 0
        || units == 0
        || !HELD_ROWS.contains(&m)
        || !matches!(dtype, Dtype::F16 | Dtype::BF16)
    {
        return None;
    }
    let groups = (ceil(all, HELD_WARPS)..=HELD_GROUPS).find(|groups| all % groups == 0)?;
    // FITS: at most so many of each.
    let (groups, warps) = (groups as u32, (all / groups) as u32);
    let form = Form {
        tiles: HELD_TILES,
        pieces: 1,
        warps,
        splits: 1,
        together: 1,
        buffers: 1,
        ahead: 0,
        groups,
        parts: HELD_PARTS,
        held: 0,
    };
    let held = units.div_ceil(form.lists(p, units)).checked_mul(sides)?;
    let registers = 8 * groups * form.tiles + 4 * groups.checked_mul(held)?;
    if registers > HELD_REGISTERS {
        return None;
    }
    let form = Form { held, ..form };
    let fits = |&buffers: &u32| form.bytes(buffers) <= SHARED;
    [2, 1].into_iter().find(fits).map(|buffers| Form { buffers, ..form })
}

/// The layout, unless the tuner found another kernel's the fastest.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape) -> Option<Form> {
    let other = |_: &Form| !native() && winner(p, s).is_some_and(|won| won != NUMBERS);
    possible(p, s).filter(|form| !other(form))
}

/// The layout for a product, or for several whose rows of codes are `s.n` together. How K is cut depends on its length and on the
/// rows of x alone, so that results do not depend on what is joined.
pub(in crate::vulkan) fn possible(p: &Profile, s: &Shape) -> Option<Form> {
    let few = ROWS.contains(&s.m) && s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    let codes = s.format.affine() && s.format.bits == 4 && s.format.group == GROUP;
    let other = forced().is_some() || plain();
    let whole = s.k > 0 && s.k % i64::from(SPAN) == 0;
    if !p.features.ptx
        || !matches!(s.dtype, Dtype::F16 | Dtype::BF16)
        || !few
        || !codes
        || !whole
        || other
        || QMM_FEW_ROWS.disabled()
    {
        return None;
    }
    let tiles = ceil(s.m.min(MOST), 8).max(1) as u64;
    let tiles = tiles.next_power_of_two() as u32;
    let most = WARPS[tiles.ilog2() as usize];
    let all = s.k / i64::from(SPAN);
    // Registers hold eight pieces of 16 rows of x for every two subgroups of 8, and half as many of 32.
    let pieces = if tiles == 2 && all > SHORT && all % 2 == 0 { 2 } else { 1 };
    let splits = ceil(all / pieces, most);
    let warps = ceil(all / pieces, splits);
    let form = Form {
        tiles,
        pieces: pieces as u32,
        warps: warps as u32,
        splits: splits as u32,
        together: (most / warps).max(1) as u32,
        buffers: 1,
        ahead: 0,
        groups: GROUPS,
        parts: 1,
        held: 0,
    };
    // Shares of a unit that are whole chunks.
    let even = s.k / 2 % (16 * splits) == 0;
    let ahead = if i64::from(8 * tiles) == MOST && even { AHEAD } else { 0 };
    let buffers = if form.bytes(2) <= SHARED { 2 } else { 1 };
    (form.bytes(buffers) <= SHARED).then_some(Form { buffers, ahead, ..form })
}

#[cfg(test)]
#[path = "few_rows_tests.rs"]
mod tests;
